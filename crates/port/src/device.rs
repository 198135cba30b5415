//! What a network device says of itself (ethtool): offloads, and which headers choose the queue of a received packet.

use crate::offload::ask;
use std::io;

/// From linux/ethtool.h.
const GET_RX_HASH: u32 = 0x29;
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_FEATURES: u32 = 0x3a;
/// The set of strings that name features, and bytes of one.
const FEATURES: u32 = 4;
const STRING: usize = 32;
/// More features than any kernel has.
const MAX_FEATURES: u32 = 1024;

/// Of which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flows {
    UdpV4 = 2,
    UdpV6 = 6,
}

/// Which header fields choose the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxHash {
    pub addresses: bool,
    pub ports: bool,
}

/// # Errors
/// EOPNOTSUPP if the device does not say, ENODEV if there is none.
pub fn rx_hash(interface: &str, flows: Flows) -> io::Result<RxHash> {
    // struct ethtool_rxnfc, of which the kernel fills in the first words: command, flows, fields (64 bits).
    let mut words = [0u32; 64];
    (words[0], words[1]) = (GET_RX_HASH, flows as u32);
    ask(interface, &mut words)?;
    let fields = long([words[2], words[3]]);
    let has = |bit: u32| fields >> bit & 1 == 1;
    Ok(RxHash { addresses: has(4) && has(5), ports: has(6) && has(7) })
}

/// Is a feature, by ethtool's name for it, in force? `None`: the kernel knows no such feature.
///
/// # Errors
/// As [`rx_hash`].
pub fn feature(interface: &str, name: &str) -> io::Result<Option<bool>> {
    // struct ethtool_sset_info with one number behind it.
    let [first, second] = words(1 << FEATURES);
    let mut info = [GET_SET_INFO, 0, first, second, 0];
    ask(interface, &mut info)?;
    let count = if long([info[2], info[3]]) == 0 { 0 } else { info[4].min(MAX_FEATURES) };
    // struct ethtool_gstrings.
    let mut strings = vec![0u32; 3 + count as usize * (STRING / 4)];
    (strings[0], strings[1], strings[2]) = (GET_STRINGS, FEATURES, count);
    ask(interface, &mut strings)?;
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let named = |bytes: &[u8]| bytes.split(|byte| *byte == 0).next() == Some(name.as_bytes());
    let Some(at) = bytes.chunks(STRING).position(named) else { return Ok(None) };
    // struct ethtool_gfeatures: of 32 features each four words, which are available, wanted, active, never changed.
    let blocks = count.div_ceil(32);
    let mut features = vec![0u32; 2 + 4 * blocks as usize];
    (features[0], features[1]) = (GET_FEATURES, blocks);
    ask(interface, &mut features)?;
    Ok(features.get(2 + 4 * (at / 32) + 2).map(|active| active >> (at % 32) & 1 == 1))
}

/// A number of 64 bits as it lies in memory.
fn long(words: [u32; 2]) -> u64 {
    let [first, second] = words.map(u32::to_ne_bytes);
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first);
    bytes[4..].copy_from_slice(&second);
    u64::from_ne_bytes(bytes)
}

fn words(long: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = long.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_words_stay() {
        assert_eq!(long(words(0x0102_0304_0506_0708)), 0x0102_0304_0506_0708);
    }

    #[test]
    fn every_machine_has_a_loopback_that_says_what_it_does() {
        assert_eq!(feature("lo", "tx-nocache-copy-that-nobody-has").unwrap(), None);
        assert_eq!(feature("lo", "loopback").unwrap(), Some(true));
        assert_eq!(feature("lo", "netns-local").unwrap().or(Some(true)), Some(true));
        assert_eq!(feature("lo", "rx-vlan-filter").unwrap(), Some(false));
        let error = rx_hash("lo", Flows::UdpV4).unwrap_err().raw_os_error();
        assert_eq!(error, Some(nix::libc::EOPNOTSUPP));
        let error = feature("no-such-device", "rx-gro").unwrap_err().raw_os_error();
        assert_eq!(error, Some(nix::libc::ENODEV));
    }
}
