//! A program of somebody else's on tcx: counts IPv4 packets, those with a mark and those with a priority, and may set both.

use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a program that sets something sets.
pub(super) const MARK: u32 = 0x99;
pub(super) const PRIORITY: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Counts,
    /// Every other IPv4 packet: of those that come twice the first time.
    Sets,
    /// Counts, and ends the chain, on egress.
    Ends,
    /// Sets the packet's tc_index to 0, on egress, and counts none.
    Forgets,
    /// Puts all packets straight into the guest of that port of the host's (`bpf_redirect_peer`), and counts none.
    Straight(u32),
}

/// As [`Other`] counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) packets: u64,
    pub(super) marked: u64,
    pub(super) with_priority: u64,
}

/// It ends with this.
pub(super) struct Other {
    map: OwnedFd,
    _link: OwnedFd,
}

// linux/bpf.h
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const ARRAY: u32 = 2;
const SCHED_CLS: u32 = 3;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
const NEXT: i32 = -1;
const PASS: i32 = 0;
const BEFORE: u32 = 1 << 3;
const WORDS: usize = 16;

/// bpf(2) with an attribute of 64-bit words.
fn bpf(command: libc::c_long, attribute: &[u64; WORDS]) -> io::Result<i64> {
    // SAFETY: the kernel reads the words, whose pointers name what the caller holds.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attribute.as_ptr(), size_of_val(attribute)) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(done)
}

fn descriptor(fd: i64) -> OwnedFd {
    // SAFETY: a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn two(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// One instruction: operation, destination, source, offset, constant.
fn insn(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from_le_bytes({
        let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_le_bytes());
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        bytes
    })
}

/// `context` is in register 6, the counters in 0. Ends with TCX_NEXT, or with TCX_PASS.
fn program(map: i32, does: Does) -> Vec<u64> {
    if let Does::Straight(port) = does {
        let to = [insn(0xb7, 1, 0, 0, port as i32), insn(0xb7, 2, 0, 0, 0)];
        return [to.as_slice(), &[insn(0x85, 0, 0, 0, 155), insn(0x95, 0, 0, 0, 0)]].concat();
    }
    const PROTOCOL: i16 = 16;
    const MARKS: i16 = 8;
    const PRIORITIES: i16 = 32;
    let add = |at| insn(0xdb, 0, 1, at, 0);
    let mut body = vec![insn(0x79, 3, 0, 0, 0), add(0)];
    match does {
        Does::Counts | Does::Ends => body.extend([
            insn(0x61, 2, 6, MARKS, 0),
            insn(0x15, 2, 0, 1, 0),
            add(8),
            insn(0x61, 2, 6, PRIORITIES, 0),
            insn(0x15, 2, 0, 1, 0),
            add(16),
        ]),
        Does::Forgets | Does::Straight(_) => {}
        Does::Sets => body.extend([
            insn(0x57, 3, 0, 0, 1), // the count before this one, modulo 2
            insn(0x15, 3, 0, 1, 0),
            insn(0x05, 0, 0, 4, 0), // odd: nothing
            insn(0xb7, 2, 0, 0, MARK as i32),
            insn(0x63, 6, 2, MARKS, 0),
            insn(0xb7, 2, 0, 0, PRIORITY as i32),
            insn(0x63, 6, 2, PRIORITIES, 0),
        ]),
    }
    if does == Does::Forgets {
        const INDEX: i16 = 44;
        return vec![insn(0x62, 1, 0, INDEX, 0), insn(0xb7, 0, 0, 0, NEXT), insn(0x95, 0, 0, 0, 0)];
    }
    let ip = i32::from(0x0800u16.to_be());
    let mut all = vec![
        insn(0xbf, 6, 1, 0, 0),
        insn(0x61, 2, 6, PROTOCOL, 0),
        insn(0x55, 2, 0, body.len() as i16 + 9, ip), // not IPv4: to the end
        insn(0x62, 10, 0, -4, 0),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, -4),
        insn(0x18, 1, 1, 0, map),
        0,
        insn(0x85, 0, 0, 0, 1), // bpf_map_lookup_elem
        insn(0x55, 0, 0, 1, 0),
        insn(0x05, 0, 0, body.len() as i16 + 1, 0),
        insn(0xb7, 1, 0, 0, 1),
    ];
    all.extend(body);
    let verdict = if does == Does::Ends { PASS } else { NEXT };
    all.extend([insn(0xb7, 0, 0, 0, verdict), insn(0x95, 0, 0, 0, 0)]);
    all
}

impl Other {
    /// On an interface of the calling thread's namespace, its ingress unless the program ends the chain: in front of all that is there, or
    /// behind.
    ///
    /// # Errors
    /// EINVAL before Linux 6.6.
    pub(super) fn attach(interface: &str, does: Does, in_front: bool) -> io::Result<Other> {
        let ifindex = nix::net::if_::if_nametoindex(interface)?;
        let of = |words: &[u64]| {
            let mut all = [0; WORDS];
            all[..words.len()].copy_from_slice(words);
            all
        };
        let map = descriptor(bpf(MAP_CREATE, &of(&[two(ARRAY, 4), two(24, 1)]))?);
        let code = program(map.as_raw_fd(), does);
        let load = of(&[two(SCHED_CLS, code.len() as u32), code.as_ptr() as u64, c"GPL".as_ptr() as u64]);
        let loaded = descriptor(bpf(PROG_LOAD, &load)?);
        let flags = if in_front { BEFORE } else { 0 };
        let hook = if matches!(does, Does::Ends | Does::Forgets) { TCX_EGRESS } else { TCX_INGRESS };
        let link = of(&[two(loaded.as_raw_fd() as u32, ifindex), two(hook, flags)]);
        Ok(Other { map, _link: descriptor(bpf(LINK_CREATE, &link)?) })
    }

    pub(super) fn seen(&self) -> Seen {
        let (key, mut value) = (0u32, [0u64; 3]);
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[self.map.as_raw_fd() as u64, &raw const key as u64, value.as_mut_ptr() as u64]);
        bpf(MAP_LOOKUP, &words).unwrap();
        let [packets, marked, with_priority] = value;
        Seen { packets, marked, with_priority }
    }
}
