//! Addresses of guests on pattern ports, learned from what they send.
//!
//! Guests are not trusted. A port gets only addresses within its `learn` ranges, and none that the configuration gives to another. Their
//! number is bounded per port, per network and in all.
//!
//! The first to claim an address holds it. When another port claims it, the agent asks the holder, out of the holder's port, whether it
//! is still there. If no answer comes, the agent forgets the holder, and the claimer gets the address once it speaks again. Holders that
//! never answered, or have not been heard of for long, are asked too, and forgotten if they do not answer.

use super::interfaces::Interfaces;
use super::rules::rule_for;
use agent_api::config::{Config, Prefix, MAX_ROUTES};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

const SECOND: u64 = 1_000_000_000;
/// Who answered, or came, so short a time ago is not asked again, whoever claims the address. Who never answered is asked after it.
const SURE: u64 = 10 * SECOND;
/// Who has answered is asked after so long, although nobody claims the address.
const CHECK: u64 = 300 * SECOND;
/// Between two questions, and how many there are before the holder counts as gone.
const PATIENCE: u64 = SECOND / 2;
const QUESTIONS: u8 = 5;
/// Holders that are asked at a time. Although nobody claims their addresses: how many, and of one port.
const MAX_ASKED: usize = 64;
const MAX_UNCLAIMED: usize = 32;
const MAX_UNCLAIMED_OF_PORT: usize = 4;
/// Addresses held at a time: four for each of 4096 ports.
const MOST: usize = 16_384;
/// Rows of `routes` that stay free: some kernels take not even another value for a row of a full map.
const SPARE: usize = 536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) ifindex: u32,
    /// The number may be another interface's later.
    pub(super) interface: String,
    /// Under which the guest spoke.
    pub(super) mac: [u8; 6],
    /// When it came or last answered, ns.
    heard: u64,
    /// It has answered a question.
    confirmed: bool,
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
    /// Of the port.
    TooMany,
    TooManyOfNetwork,
    TooManyOfHost,
}

impl Refused {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Refused::OutOfRange => "outside the port's `learn` ranges",
            Refused::Configured => "the configuration gives it to another",
            Refused::HeldByAnotherPort => "another port holds it",
            Refused::TooMany => "the port holds as many as it may: port.learn_limit",
            Refused::TooManyOfNetwork => {
                "its network holds twice as many as the host has room for: give ports `addresses`"
            }
            Refused::TooManyOfHost => "the host holds as many as it may: give ports `addresses`",
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
        guest: (u32, [u8; 6]),
        addr: IpAddr,
        now: u64,
    ) -> Result<bool, Refused> {
        self.admit(config, interfaces, guest, addr, now, true)
    }

    /// An earlier agent had the guest hold `addr`. What its network holds was within bounds when it came, in whatever order.
    pub(super) fn resume(
        &mut self,
        config: &Config,
        interfaces: &Interfaces,
        guest: (u32, [u8; 6]),
        addr: IpAddr,
        now: u64,
    ) -> Result<bool, Refused> {
        self.admit(config, interfaces, guest, addr, now, false)
    }

    fn admit(
        &mut self,
        config: &Config,
        interfaces: &Interfaces,
        (ifindex, mac): (u32, [u8; 6]),
        addr: IpAddr,
        now: u64,
        comes: bool,
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
            holder.confirmed |= holder.asked.is_some_and(|asked| asked.questions > 0);
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
        let free = room(config).saturating_sub(self.held.len());
        if free == 0 {
            return Err(Refused::TooManyOfHost);
        }
        if comes && self.of_network(key.0) >= 2 * free {
            return Err(Refused::TooManyOfNetwork);
        }
        let interface = interface.name.clone();
        self.held.insert(key, Holder { ifindex, interface, mac, heard: now, confirmed: false, asked: None });
        Ok(true)
    }

    fn of_network(&self, network: u32) -> usize {
        let first = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.held.range((network, first)..(network + 1, first)).count()
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

    /// Who is to be asked now, and who did not answer and is forgotten. One holder of a port at a time: the data path tells of a
    /// port's answers once in 10 ms.
    pub(super) fn ask(&mut self, now: u64) -> (Vec<Question>, Vec<(IpAddr, Holder)>) {
        self.ask_unclaimed(now);
        let (mut questions, mut gone, mut ports) = (Vec::new(), Vec::new(), BTreeSet::new());
        self.held.retain(|(_, addr), holder| {
            let Some(asked) = holder.asked.as_mut().filter(|asked| asked.next <= now) else { return true };
            if asked.questions == QUESTIONS {
                gone.push((*addr, holder.clone()));
                return false;
            }
            if !ports.insert(holder.ifindex) {
                return true;
            }
            (asked.questions, asked.next) = (asked.questions + 1, now + PATIENCE);
            questions.push(Question { ifindex: holder.ifindex, mac: holder.mac, addr: *addr });
            true
        });
        (questions, gone)
    }

    /// Holders whose time has come, the longest unheard first.
    fn ask_unclaimed(&mut self, now: u64) {
        let (mut asked, mut of_port, mut due) = (0, BTreeMap::<u32, usize>::new(), Vec::new());
        for (key, holder) in &self.held {
            if holder.asked.is_some() {
                asked += 1;
                *of_port.entry(holder.ifindex).or_default() += 1;
            } else if holder.check() <= now {
                due.push((holder.heard, *key));
            }
        }
        due.sort_unstable();
        for (_, key) in due {
            let Some(holder) = self.held.get_mut(&key).filter(|_| asked < MAX_UNCLAIMED) else { return };
            let of_port = of_port.entry(holder.ifindex).or_default();
            if *of_port < MAX_UNCLAIMED_OF_PORT {
                holder.ask(None, now);
                *of_port += 1;
                asked += 1;
            }
        }
    }

    /// When to call [`Learned::ask`] again, ns; `None`: not before something is offered.
    pub(super) fn due(&self) -> Option<u64> {
        self.held.values().map(|holder| holder.asked.map_or(holder.check(), |asked| asked.next)).min()
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
        self.fit(room(config));
    }

    /// Forgets what is beyond `room`, of the networks that hold most.
    fn fit(&mut self, mut room: usize) {
        if self.held.len() <= room {
            return;
        }
        let mut counts = BTreeMap::<u32, usize>::new();
        for (network, _) in self.held.keys() {
            *counts.entry(*network).or_default() += 1;
        }
        let mut ascending: Vec<(usize, u32)> = counts.iter().map(|(network, n)| (*n, *network)).collect();
        ascending.sort_unstable();
        for (i, (n, network)) in ascending.iter().enumerate() {
            let share = (*n).min(room / (ascending.len() - i));
            room -= share;
            counts.insert(*network, share);
        }
        self.held.retain(|(network, _), _| {
            let left = counts.entry(*network).or_default();
            let stays = *left > 0;
            *left -= usize::from(stays);
            stays
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, &Holder)> {
        self.held.iter().map(|((network, addr), holder)| (*network, *addr, holder))
    }
}

impl Holder {
    /// When it is asked although nobody claims its address, ns.
    fn check(&self) -> u64 {
        self.heard + if self.confirmed { CHECK } else { SURE }
    }

    fn ask(&mut self, claimer: Option<u32>, now: u64) {
        match &mut self.asked {
            Some(asked) => asked.claimer = asked.claimer.or(claimer),
            None if now.saturating_sub(self.heard) < SURE => {}
            None => self.asked = Some(Asked { claimer, questions: 0, next: now }),
        }
    }
}

/// How many addresses may be learned beside the configured ones.
fn room(config: &Config) -> usize {
    let configured = config.ports.iter().map(|port| port.addresses.len()).sum::<usize>()
        + config.peers.iter().map(|peer| peer.guests.len()).sum::<usize>();
    MAX_ROUTES.saturating_sub(SPARE + configured).min(MOST)
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
    use crate::interfaces::Interface;
    use agent_api::config::{PortRule, Selector, LEARN_LIMIT, MAX_CONFIGURED};

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

    /// Ports 101 to 107 of networks of their own, 100 in the network of 101; `room` for learned addresses.
    fn crowded(room: usize) -> (Config, Interfaces) {
        let (mut config, mut interfaces) = (config(), Interfaces::new());
        let pattern = config.ports[0].clone();
        config.ports.clear();
        for n in 100..108 {
            let (name, network) = (format!("lxc{n}"), Some(n.max(101)));
            let selector = Selector::Name(name.clone());
            config.ports.push(PortRule { selector, network, learn_limit: 64, ..pattern.clone() });
            interfaces.insert(n, Interface { name, ..Interface::default() });
        }
        config.peers.truncate(1);
        config.peers[0].guests = vec![config.peers[0].guests[0].clone(); MAX_ROUTES - SPARE - room];
        (config, interfaces)
    }

    /// As many addresses as are taken of 64, and why the next one is not.
    fn fill(
        learned: &mut Learned,
        (config, interfaces): &(Config, Interfaces),
        ifindex: u32,
    ) -> (u32, Option<Refused>) {
        for n in 0..64 {
            let addr = addr(&format!("10.1.1.{}", ifindex % 2 * 64 + n + 1));
            if let Err(why) = learned.offer(config, interfaces, (ifindex, [2; 6]), addr, 0) {
                return (n, Some(why));
            }
        }
        (64, None)
    }

    #[test]
    fn no_network_takes_the_room_of_others_and_all_together_do_not_fill_the_map() {
        let (host, mut learned) = (crowded(90), Learned::default());
        assert_eq!(fill(&mut learned, &host, 101), (60, Some(Refused::TooManyOfNetwork)));
        assert_eq!(fill(&mut learned, &host, 100), (0, Some(Refused::TooManyOfNetwork)), "however many ports it has");
        assert_eq!(fill(&mut learned, &host, 102), (20, Some(Refused::TooManyOfNetwork)));
        let others = [103, 104, 105, 106].map(|n| fill(&mut learned, &host, n).0);
        assert_eq!(others, [7, 2, 1, 0]);
        assert_eq!(fill(&mut learned, &host, 107), (0, Some(Refused::TooManyOfHost)));
        assert_eq!(learned.iter().count() + host.0.peers[0].guests.len() + SPARE, MAX_ROUTES);
    }

    #[test]
    fn another_agent_takes_over_all_that_was_held() {
        let ((config, interfaces), mut before) = (crowded(90), Learned::default());
        for ifindex in 101..107 {
            fill(&mut before, &(config.clone(), interfaces.clone()), ifindex);
        }
        let (mut after, mut held) = (Learned::default(), before.iter().collect::<Vec<_>>());
        held.reverse();
        for (_, addr, holder) in &held {
            assert_eq!(after.resume(&config, &interfaces, (holder.ifindex, holder.mac), *addr, 0), Ok(true));
        }
        assert_eq!((after.iter().count(), held.len()), (90, 90));
    }

    #[test]
    fn as_many_as_may_be_configured_leave_room_and_few_leave_no_more_than_the_most() {
        assert!(room(&crowded(MAX_ROUTES - SPARE - MAX_CONFIGURED).0) >= 5_000);
        assert_eq!(room(&crowded(0).0), 0);
        assert_eq!(room(&config()), MOST);
        let maps = include_str!("../../../datapath/kernel/tables.h");
        let routes = maps.split("struct {").find(|map| map.contains("} routes SEC")).unwrap();
        assert!(routes.contains(&format!("__uint(max_entries, {MAX_ROUTES});")));
    }

    #[test]
    fn a_configuration_that_needs_room_takes_it_from_those_that_hold_most() {
        let (host, mut learned) = (crowded(90), Learned::default());
        for ifindex in [101, 102, 103] {
            fill(&mut learned, &host, ifindex);
        }
        let held = |learned: &Learned| [101, 102, 103].map(|network| learned.of_network(network));
        assert_eq!(held(&learned), [60, 20, 7]);
        learned.revise(&host.0, &host.1);
        assert_eq!(held(&learned), [60, 20, 7]);
        learned.revise(&crowded(40).0, &host.1);
        assert_eq!(held(&learned), [17, 16, 7]);
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
    fn who_never_answered_is_asked_soon_and_who_did_late() {
        let (config, interfaces) = (config(), interfaces());
        let mut learned = Learned::default();
        for n in 0..2 {
            assert_eq!(learned.offer(&config, &interfaces, (11, [2; 6]), nth(n), 0), Ok(true));
        }
        // To speak again is no answer.
        assert_eq!(learned.offer(&config, &interfaces, (11, [2; 6]), nth(0), SECOND), Ok(false));
        assert_eq!(pass(&mut learned, 0, SURE, false), (0, 0));
        assert_eq!(learned.due(), Some(SURE));
        assert_eq!(pass(&mut learned, SURE, SURE + SECOND / 2, true), (1, 0));
        assert_eq!(pass(&mut learned, SURE + SECOND / 2, SURE + 5 * SECOND, false), (5, 1));
        assert_eq!(learned.due(), Some(SURE + CHECK), "the other one answered");
    }

    /// The data path tells of answers of a port once in 10 ms.
    #[test]
    fn answers_of_one_port_do_not_hide_one_another() {
        let (mut config, interfaces) = (config(), interfaces());
        config.ports[0].learn_limit = 64;
        let mut learned = Learned::default();
        for n in 0..64 {
            learned.offer(&config, &interfaces, (11 + n % 2, [2; 6]), nth(n), 0).unwrap();
        }
        for now in (SURE..SURE + 20 * SECOND).step_by((SECOND / 20) as usize) {
            let (questions, gone) = learned.ask(now);
            assert_eq!(gone, []);
            let ports: BTreeSet<u32> = questions.iter().map(|question| question.ifindex).collect();
            assert_eq!(ports.len(), questions.len());
            for Question { ifindex, mac, addr } in questions {
                learned.offer(&config, &interfaces, (ifindex, mac), addr, now).unwrap();
            }
        }
        assert!(learned.due() > Some(CHECK), "all have answered");
    }

    #[test]
    fn other_addresses_of_a_port_do_not_put_off_what_another_claims() {
        let (mut config, interfaces) = (config(), interfaces());
        config.ports[0].learn_limit = 64;
        let mut learned = Learned::default();
        for n in 0..64 {
            learned.offer(&config, &interfaces, (11, [2; 6]), nth(n), 0).unwrap();
        }
        let claim = |learned: &mut Learned, at| learned.offer(&config, &interfaces, (12, [4; 6]), nth(63), at);
        learned.ask(SURE);
        assert_eq!(claim(&mut learned, SURE), Err(Refused::HeldByAnotherPort));
        for now in (SURE..SURE + 3 * SECOND).step_by((SECOND / 20) as usize) {
            learned.ask(now);
        }
        assert_eq!(claim(&mut learned, SURE + 3 * SECOND), Ok(true));
    }

    #[test]
    fn a_port_doubts_one_holder_at_a_time() {
        let (mut config, interfaces) = (config(), interfaces());
        config.ports[0].learn_limit = 64;
        let mut learned = Learned::default();
        for n in 0..64 {
            learned.offer(&config, &interfaces, (11, [2; 6]), nth(n), 0).unwrap();
        }
        learned.held.values_mut().for_each(|holder| holder.confirmed = true);
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
        learned.held.values_mut().for_each(|holder| holder.confirmed = true);
        assert_eq!(learned.due(), Some(CHECK));
        // A guest whose addresses changed: the oldest is asked for, and gone.
        assert_eq!(offer(&mut learned, 9, SURE + 9), Err(Refused::TooMany));
        assert_eq!(pass(&mut learned, SURE + 9, SURE + 4 * SECOND, false), (5, 1));
        assert_eq!(offer(&mut learned, 9, SURE + 4 * SECOND), Ok(true));
        learned.held.values_mut().for_each(|holder| holder.confirmed = true);
        // Those that nobody hears of end by themselves, those that answer stay.
        assert_eq!(pass(&mut learned, CHECK - SECOND, CHECK, false).0, 0);
        assert_eq!(pass(&mut learned, CHECK + 9, CHECK + 4 * SECOND, false), (15, 3));
        assert_eq!(pass(&mut learned, CHECK + SURE + 4 * SECOND, CHECK + 20 * SECOND, true), (1, 0));
        assert_eq!(learned.iter().count(), 1);
    }
}
