//! Asks silent peers whether they are there. A peer is silent if this host sends to it and hears nothing. The agent sends it a probe,
//! which the peer's uplink program answers without its agent. So the agent tells a peer whose guests only receive from one that is gone.

use super::discovery::Ids;
use ::discovery::Probe;
use kernel::state::{address, Event};
use std::net::IpAddr;
use units::Time;

/// Of a probe that is to arrive: the largest that its identifier has room for. Discovery's are smaller.
pub(super) const TTL: u8 = 63;
/// Source ports where the scheme has no labels, as the data has (`sv_encap_port` of datapath/encap.h).
const PORTS: std::ops::RangeInclusive<u16> = 0xc000..=0xffff;
/// units::Time has no room for a longer time, ns. A question that is under way then has no answer.
const LONGEST: u64 = 100 * 86_400 * 1_000_000_000;

/// What was asked.
#[derive(Debug, Default)]
pub(super) struct Asking {
    ids: Ids,
    /// Each round takes other paths than the one before.
    pub(super) round: u16,
}

impl Asking {
    pub(super) fn port(&self, labels: &[u16]) -> u16 {
        let of_label = labels.get(usize::from(self.round) % labels.len().max(1)).copied();
        of_label.unwrap_or(PORTS.start() | self.round.wrapping_mul(0x9e37) & (PORTS.end() - PORTS.start()))
    }

    pub(super) fn id(&self, to: IpAddr, port: u16, now: u64) -> u16 {
        self.ids.id(&Probe { to, port, ttl: TTL }, time(now))
    }

    /// The peer whose answer to a question of late that is.
    pub(super) fn answer(&self, event: &Event) -> Option<IpAddr> {
        let from = address(event.addr);
        self.is_answer(from, event.value as u16, (event.value >> 16) as u16, event.time).then_some(from)
    }

    fn is_answer(&self, from: IpAddr, port: u16, id: u16, now: u64) -> bool {
        self.ids.probe(from, port, id, time(now)).is_some_and(|probe| probe.ttl == TTL)
    }
}

fn time(now: u64) -> Time {
    Time::from_ns(now % LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_answer_is_the_peers_who_was_asked() {
        let (peer, other): (IpAddr, IpAddr) = ("10.2.3.2".parse().unwrap(), "10.2.3.3".parse().unwrap());
        let (asking, now) = (Asking { round: 3, ..Asking::default() }, 5 * LONGEST + 7_000_000_000);
        let port = asking.port(&[]);
        let id = asking.id(peer, port, now);
        assert!(asking.is_answer(peer, port, id, now + 1_000_000));
        // Others' numbers are the same once in a thousand; that of another TTL, such as discovery's, never.
        let forged = (0..200).filter(|n| asking.is_answer(other, port, id, now + (n << 33))).count();
        assert!(forged < 20, "{forged}");
        assert!((1..TTL.into()).all(|ttl| !asking.is_answer(peer, port, id - ttl, now)));
    }

    #[test]
    fn each_round_takes_another_path() {
        let port = |round, labels: &[u16]| Asking { round, ..Asking::default() }.port(labels);
        assert_eq!([0, 1, 2].map(|round| port(round, &[0xc001, 0xc002])), [0xc001, 0xc002, 0xc001]);
        let without: BTreeSet<u16> = (0..100).map(|round| port(round, &[])).collect();
        assert!(without.len() == 100 && without.iter().all(|port| PORTS.contains(port)));
    }
}
