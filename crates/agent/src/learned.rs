//! Addresses of guests on pattern ports, learned from what they send.
//!
//! Guests are not trusted: only addresses within the port's `learn` ranges are taken, only so many per port, and none that the
//! configuration gives to another. Who claims an address first holds it. When another port claims it, its holder is asked, out
//! of the holder's port, whether it is still there; only where no answer comes does the claimer get it, once it speaks
//! again. Holders that have not been heard of for long are asked too, and forgotten.

use super::interfaces::Interfaces;
use super::rules::rule_for;
use agent_api::config::{Config, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;

const SECOND: u64 = 1_000_000_000;
/// Who answered, or came, so short a time ago is not asked again, whoever claims the address.
const SURE: u64 = 10 * SECOND;
/// Who was not heard of for so long is asked although nobody claims the address.
const CHECK: u64 = 300 * SECOND;
/// Between two questions, and how many there are before the holder counts as gone.
const PATIENCE: u64 = SECOND / 2;
const QUESTIONS: u8 = 5;
/// Holders that are asked at a time.
const MAX_ASKED: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) ifindex: u32,
    /// The number may be another interface's later.
    pub(super) interface: String,
    /// Under which the guest spoke.
    pub(super) mac: [u8; 6],
    /// When it came or last answered, ns.
    heard: u64,
    asked: Option<Asked>,
}

/// A holder of whom it is not known whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Because of this port, or because it was not heard of for long.
    claimer: Option<u32>,
    questions: u8,
    /// When the next one is due, or the last one's time is over, ns.
    next: u64,
}

/// A holder that is to be asked: out of which port, under which MAC address, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) ifindex: u32,
    pub(super) mac: [u8; 6],
    pub(super) addr: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The interface is no port, or a port that learns nothing of this kind.
    OutOfRange,
    /// The configuration gives the address to a port or to a peer's guest.
    Configured,
    /// It may have gone: it is being asked.
    HeldByAnotherPort,
    TooMany,
}

impl Refused {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Refused::OutOfRange => "outside the port's `learn` ranges",
            Refused::Configured => "the configuration gives it to another",
            Refused::HeldByAnotherPort => "another port holds it",
            Refused::TooMany => "the port holds as many as it may: port.learn_limit",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By network and address.
    held: BTreeMap<(u32, IpAddr), Holder>,
}

impl Learned {
    /// A guest behind `ifindex` used `addr`, or answered for it. True if that is news. `now`: ns.
    pub(super) fn offer(
        &mut self,
        config: &Config,
        interfaces: &Interfaces,
        (ifindex, mac): (u32, [u8; 6]),
        addr: IpAddr,
        now: u64,
    ) -> Result<bool, Refused> {
        let interface = interfaces.get(&ifindex).ok_or(Refused::OutOfRange)?;
        let rule = rule_for(config, interface).ok_or(Refused::OutOfRange)?;
        if rule.addresses.contains(&addr) {
            return Ok(false);
        }
        if !rule.learn.iter().any(|range| range.contains(addr)) || !is_station(addr) {
            return Err(Refused::OutOfRange);
        }
        let key = (rule.network.ok_or(Refused::OutOfRange)?, addr);
        if is_configured(config, key.0, addr) {
            return Err(Refused::Configured);
        }
        if let Some(holder) = self.held.get_mut(&key).filter(|holder| holder.ifindex == ifindex) {
            (holder.heard, holder.asked) = (now, None);
            return Ok(false);
        }
        if self.held.values().filter(|holder| holder.ifindex == ifindex).count() >= rule.learn_limit as usize {
            // It may have others than before.
            self.ask_oldest(ifindex, now);
            return Err(Refused::TooMany);
        }
        if self.held.contains_key(&key) {
            self.contest(key, ifindex, now);
            return Err(Refused::HeldByAnotherPort);
        }
        let interface = interface.name.clone();
        self.held.insert(key, Holder { ifindex, interface, mac, heard: now, asked: None });
        Ok(true)
    }

    /// Asks the holder of what `claimer` claims, unless that was done a moment ago. A port may doubt one holder at a time.
    fn contest(&mut self, key: (u32, IpAddr), claimer: u32, now: u64) {
        let (mut n, mut busy) = (0, false);
        for asked in self.held.values().filter_map(|holder| holder.asked) {
            n += 1;
            busy |= asked.claimer == Some(claimer);
        }
        if n < MAX_ASKED && !busy {
            if let Some(holder) = self.held.get_mut(&key) {
                holder.ask(Some(claimer), now);
            }
        }
    }

    fn ask_oldest(&mut self, ifindex: u32, now: u64) {
        let asked = self.held.values().filter(|holder| holder.asked.is_some()).count();
        let own = self.held.values_mut().filter(|holder| holder.ifindex == ifindex);
        if let (Some(holder), true) = (own.min_by_key(|holder| holder.heard), asked < MAX_ASKED) {
            holder.ask(None, now);
        }
    }

    /// Who is to be asked now, and who did not answer and is forgotten.
    pub(super) fn ask(&mut self, now: u64) -> (Vec<Question>, Vec<(IpAddr, Holder)>) {
        let mut room = MAX_ASKED.saturating_sub(self.held.values().filter(|holder| holder.asked.is_some()).count());
        let (mut questions, mut gone) = (Vec::new(), Vec::new());
        self.held.retain(|(_, addr), holder| {
            if room > 0 && holder.asked.is_none() && now.saturating_sub(holder.heard) >= CHECK {
                room -= 1;
                holder.ask(None, now);
            }
            let Some(asked) = holder.asked.as_mut().filter(|asked| asked.next <= now) else { return true };
            if asked.questions == QUESTIONS {
                gone.push((*addr, holder.clone()));
                return false;
            }
            (asked.questions, asked.next) = (asked.questions + 1, now + PATIENCE);
            questions.push(Question { ifindex: holder.ifindex, mac: holder.mac, addr: *addr });
            true
        });
        (questions, gone)
    }

    /// When to call [`Learned::ask`] again, ns; `None`: not before something is offered.
    pub(super) fn due(&self) -> Option<u64> {
        self.held.values().map(|holder| holder.asked.map_or(holder.heard + CHECK, |asked| asked.next)).min()
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
        let mut counts = BTreeMap::new();
        self.held.retain(|(network, addr), holder| {
            let interface = interfaces.get(&holder.ifindex).filter(|i| i.name == holder.interface);
            let Some(rule) = interface.and_then(|interface| rule_for(config, interface)) else { return false };
            let in_range = rule.network == Some(*network) && rule.learn.iter().any(|range| range.contains(*addr));
            let n: &mut u32 = counts.entry(holder.ifindex).or_default();
            let allowed = in_range && *n < rule.learn_limit && !is_configured(config, *network, *addr);
            *n += u32::from(allowed);
            allowed
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, &Holder)> {
        self.held.iter().map(|((network, addr), holder)| (*network, *addr, holder))
    }
}

impl Holder {
    fn ask(&mut self, claimer: Option<u32>, now: u64) {
        match &mut self.asked {
            Some(asked) => asked.claimer = asked.claimer.or(claimer),
            None if now.saturating_sub(self.heard) < SURE => {}
            None => self.asked = Some(Asked { claimer, questions: 0, next: now }),
        }
    }
}

/// Can it be one guest's own?
fn is_station(addr: IpAddr) -> bool {
    let broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast());
    !(addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() || broadcast)
}

/// Does the configuration name this very address? A peer's range may contain what is learned here: a guest that moved.
fn is_configured(config: &Config, network: u32, addr: IpAddr) -> bool {
    config.ports.iter().any(|port| port.network == Some(network) && port.addresses.contains(&addr))
        || config
            .peers
            .iter()
            .flat_map(|peer| &peer.guests)
            .any(|guest| guest.network == network && guest.prefix == Prefix::host(addr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::{config, interfaces};
    use agent_api::config::LEARN_LIMIT;

    fn addr(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nth(n: u32) -> IpAddr {
        addr(&format!("10.1.1.{}", 100 + n))
    }

    #[test]
    fn a_stranger_takes_nothing() {
        let (config, interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        let mut offer = |ifindex, text: &str| learned.offer(&config, &interfaces, (ifindex, [2; 6]), addr(text), 0);
        assert_eq!(offer(11, "10.1.1.7"), Ok(true));
        assert_eq!(offer(11, "10.1.1.7"), Ok(false));
        assert_eq!(offer(12, "10.1.1.7"), Err(Refused::HeldByAnotherPort));
        assert_eq!(offer(12, "10.1.1.2"), Err(Refused::Configured), "the named port's");
        assert_eq!(offer(12, "10.1.2.9"), Err(Refused::OutOfRange));
        assert_eq!(offer(12, "fe80::1"), Err(Refused::OutOfRange));
        assert_eq!(offer(10, "10.1.1.8"), Err(Refused::OutOfRange), "a named port learns nothing");
        assert_eq!(offer(2, "10.1.1.8"), Err(Refused::OutOfRange), "the uplink is no port");
        assert_eq!(offer(99, "10.1.1.8"), Err(Refused::OutOfRange));
        for n in 0..LEARN_LIMIT {
            assert_eq!(offer(12, &nth(n).to_string()), Ok(true));
        }
        assert_eq!(offer(12, "10.1.1.99"), Err(Refused::TooMany));
    }

    #[test]
    fn what_a_port_held_ends_with_it() {
        let (config, mut interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        for (ifindex, text) in [(11, "10.1.1.7"), (12, "10.1.1.8")] {
            learned.offer(&config, &interfaces, (ifindex, [2; 6]), addr(text), 0).unwrap();
        }
        assert_eq!((learned.mac(11), learned.mac(10)), (Some([2; 6]), None));
        learned.forget(11);
        assert_eq!(learned.iter().count(), 1);
        interfaces.get_mut(&12).unwrap().name = "lxc9".into();
        learned.revise(&config, &interfaces);
        assert_eq!(learned.iter().count(), 0, "the number is another interface's now");
    }

    /// Time goes on in steps; holders answer or do not. How many were asked, and forgotten.
    fn pass(learned: &mut Learned, from: u64, to: u64, answers: bool) -> (usize, usize) {
        let (config, interfaces) = (config(), interfaces());
        let (mut asked, mut gone) = (0, 0);
        for now in (from..to).step_by((SECOND / 10) as usize) {
            let (questions, ended) = learned.ask(now);
            for question in &questions {
                asked += 1;
                if answers {
                    let Question { ifindex, addr, mac } = *question;
                    assert_eq!(learned.offer(&config, &interfaces, (ifindex, mac), addr, now), Ok(false));
                }
            }
            gone += ended.len();
        }
        (asked, gone)
    }

    #[test]
    fn a_holder_that_answers_keeps_its_address_and_one_that_is_gone_does_not() {
        let (config, interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        let mut at = 100 * SECOND;
        assert_eq!(learned.offer(&config, &interfaces, (11, [2; 6]), nth(1), at), Ok(true));
        let claim = |learned: &mut Learned, at| learned.offer(&config, &interfaces, (12, [4; 6]), nth(1), at);
        // A moment after it came nobody doubts it; later it is asked, once in ten seconds, however often it is claimed.
        assert_eq!(claim(&mut learned, at), Err(Refused::HeldByAnotherPort));
        assert_eq!(pass(&mut learned, at, at + 9 * SECOND, true), (0, 0));
        at += SURE;
        let mut asked = 0;
        for _ in 0..1000 {
            assert_eq!(claim(&mut learned, at), Err(Refused::HeldByAnotherPort));
            asked += pass(&mut learned, at, at + SECOND / 10, true).0;
            at += SECOND / 10;
        }
        assert!((9..=10).contains(&asked), "{asked} questions in 100 s");
        // It goes. A first claim is refused, and the address is free once it did not answer.
        at += SURE;
        assert_eq!(claim(&mut learned, at), Err(Refused::HeldByAnotherPort));
        assert_eq!(pass(&mut learned, at, at + 2 * SECOND, false), (4, 0));
        assert_eq!(pass(&mut learned, at + 2 * SECOND, at + 3 * SECOND, false), (1, 1));
        assert_eq!(claim(&mut learned, at + 3 * SECOND), Ok(true));
        assert_eq!(learned.mac(12), Some([4; 6]));
    }

    #[test]
    fn a_port_doubts_one_holder_at_a_time() {
        let (mut config, interfaces) = (config(), interfaces());
        config.ports[0].learn_limit = 64;
        let mut learned = Learned::default();
        for n in 0..64 {
            learned.offer(&config, &interfaces, (11, [2; 6]), nth(n), 0).unwrap();
        }
        for n in 0..64 {
            assert!(learned.offer(&config, &interfaces, (12, [4; 6]), nth(n), SURE).is_err());
        }
        assert_eq!(learned.ask(SURE).0.len(), 1);
        assert_eq!(learned.due(), Some(SURE + PATIENCE));
    }

    #[test]
    fn what_is_unused_ends_and_makes_room() {
        let (mut config, interfaces) = (config(), interfaces());
        config.ports.iter_mut().for_each(|port| port.learn_limit = 4);
        let mut learned = Learned::default();
        let offer = |learned: &mut Learned, n: u32, at| learned.offer(&config, &interfaces, (12, [2; 6]), nth(n), at);
        for n in 0..4 {
            assert_eq!(offer(&mut learned, n, u64::from(n)), Ok(true));
        }
        assert_eq!(learned.due(), Some(CHECK));
        // A guest whose addresses changed: the oldest is asked for, and gone.
        assert_eq!(offer(&mut learned, 9, SURE + 9), Err(Refused::TooMany));
        assert_eq!(pass(&mut learned, SURE + 9, SURE + 4 * SECOND, false), (5, 1));
        assert_eq!(offer(&mut learned, 9, SURE + 4 * SECOND), Ok(true));
        // Those that nobody hears of end by themselves, those that answer stay.
        assert_eq!(pass(&mut learned, CHECK - SECOND, CHECK, false).0, 0);
        assert_eq!(pass(&mut learned, CHECK + 9, CHECK + 4 * SECOND, false), (15, 3));
        assert_eq!(pass(&mut learned, CHECK + SURE + 4 * SECOND, CHECK + 20 * SECOND, true), (1, 0));
        assert_eq!(learned.iter().count(), 1);
    }
}
