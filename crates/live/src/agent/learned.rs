//! Addresses of guests on pattern ports, learned from what they send.
//!
//! Guests are not trusted: only addresses within the port's `learn` ranges are taken, only so many per port, none that
//! the configuration gives to another, and none that another port holds.

use super::config::{Config, Prefix, MAX_LEARNED};
use super::desired::rule_for;
use super::interfaces::Interfaces;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) ifindex: u32,
    /// The number may be another interface's later.
    pub(super) interface: String,
    /// Under which the guest spoke.
    pub(super) mac: [u8; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The interface is no port, or a port that learns nothing of this kind.
    OutOfRange,
    /// The configuration gives the address to a port or to a peer's guest.
    Configured,
    HeldByAnotherPort,
    TooMany,
}

impl Refused {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Refused::OutOfRange => "outside the port's `learn` ranges",
            Refused::Configured => "the configuration gives it to another",
            Refused::HeldByAnotherPort => "another port holds it",
            Refused::TooMany => "the port holds as many as it may",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By network and address.
    held: BTreeMap<(u32, IpAddr), Holder>,
}

impl Learned {
    /// A guest behind `ifindex` used `addr`. True if that is news.
    pub(super) fn offer(
        &mut self,
        config: &Config,
        interfaces: &Interfaces,
        ifindex: u32,
        addr: IpAddr,
        mac: [u8; 6],
    ) -> Result<bool, Refused> {
        let interface = interfaces.get(&ifindex).ok_or(Refused::OutOfRange)?;
        let rule = rule_for(config, interface).ok_or(Refused::OutOfRange)?;
        if rule.addresses.contains(&addr) {
            return Ok(false);
        }
        if !rule.learn.iter().any(|range| range.contains(addr)) || !is_station(addr) {
            return Err(Refused::OutOfRange);
        }
        let key = (rule.network, addr);
        if is_configured(config, key.0, addr) {
            return Err(Refused::Configured);
        }
        if let Some(holder) = self.held.get(&key) {
            return if holder.ifindex == ifindex { Ok(false) } else { Err(Refused::HeldByAnotherPort) };
        }
        if self.held.values().filter(|holder| holder.ifindex == ifindex).count() >= MAX_LEARNED {
            return Err(Refused::TooMany);
        }
        self.held.insert(key, Holder { ifindex, interface: interface.name.clone(), mac });
        Ok(true)
    }

    /// The MAC address of the guest behind a port, as far as it was seen.
    pub(super) fn mac(&self, ifindex: u32) -> Option<[u8; 6]> {
        let holder = self.held.values().find(|holder| holder.ifindex == ifindex)?;
        Some(holder.mac).filter(|mac| *mac != [0; 6] && mac[0] & 1 == 0)
    }

    /// Forgets what was learned on an interface that ended.
    pub(super) fn forget(&mut self, ifindex: u32) {
        self.held.retain(|_, holder| holder.ifindex != ifindex);
    }

    /// Forgets what the interfaces or the configuration do not allow any more.
    pub(super) fn revise(&mut self, config: &Config, interfaces: &Interfaces) {
        self.held.retain(|(network, addr), holder| {
            let interface = interfaces.get(&holder.ifindex).filter(|i| i.name == holder.interface);
            let rule = interface.and_then(|interface| rule_for(config, interface));
            let allowed = rule
                .is_some_and(|rule| rule.network == *network && rule.learn.iter().any(|range| range.contains(*addr)));
            allowed && !is_configured(config, *network, *addr)
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, &Holder)> {
        self.held.iter().map(|((network, addr), holder)| (*network, *addr, holder))
    }
}

/// Can it be one guest's own?
fn is_station(addr: IpAddr) -> bool {
    let broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast());
    !(addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() || broadcast)
}

/// Does the configuration name this very address? A peer's range may contain what is learned here: a guest that moved.
fn is_configured(config: &Config, network: u32, addr: IpAddr) -> bool {
    config.ports.iter().any(|port| port.network == network && port.addresses.contains(&addr))
        || config
            .peers
            .iter()
            .flat_map(|peer| &peer.guests)
            .any(|guest| guest.network == network && guest.prefix == Prefix::host(addr))
}

#[cfg(test)]
mod tests {
    use super::super::desired::tests::{config, interfaces};
    use super::*;

    fn addr(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_stranger_takes_nothing() {
        let (config, interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        let mut offer = |ifindex, text: &str| learned.offer(&config, &interfaces, ifindex, addr(text), [2; 6]);
        assert_eq!(offer(11, "10.1.1.7"), Ok(true));
        assert_eq!(offer(11, "10.1.1.7"), Ok(false));
        assert_eq!(offer(12, "10.1.1.7"), Err(Refused::HeldByAnotherPort));
        assert_eq!(offer(12, "10.1.1.2"), Err(Refused::Configured), "the named port's");
        assert_eq!(offer(12, "10.1.2.9"), Err(Refused::OutOfRange));
        assert_eq!(offer(12, "fe80::1"), Err(Refused::OutOfRange));
        assert_eq!(offer(10, "10.1.1.8"), Err(Refused::OutOfRange), "a named port learns nothing");
        assert_eq!(offer(2, "10.1.1.8"), Err(Refused::OutOfRange), "the uplink is no port");
        assert_eq!(offer(99, "10.1.1.8"), Err(Refused::OutOfRange));
        for n in 0..MAX_LEARNED {
            assert_eq!(offer(12, &format!("10.1.1.{}", 100 + n)), Ok(true));
        }
        assert_eq!(offer(12, "10.1.1.99"), Err(Refused::TooMany));
    }

    #[test]
    fn what_a_port_held_ends_with_it() {
        let (config, mut interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        for (ifindex, text) in [(11, "10.1.1.7"), (12, "10.1.1.8")] {
            learned.offer(&config, &interfaces, ifindex, addr(text), [2; 6]).unwrap();
        }
        assert_eq!((learned.mac(11), learned.mac(10)), (Some([2; 6]), None));
        learned.forget(11);
        assert_eq!(learned.iter().count(), 1);
        interfaces.get_mut(&12).unwrap().name = "lxc9".into();
        learned.revise(&config, &interfaces);
        assert_eq!(learned.iter().count(), 0, "the number is another interface's now");
    }
}
