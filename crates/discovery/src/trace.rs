//! The trace of one port.

use std::net::IpAddr;
use units::Time;

/// One probe: a packet like the data's, with this outer source port and TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    pub to: IpAddr,
    pub port: u16,
    pub ttl: u8,
}

/// How often a probe without an answer is sent.
const ATTEMPTS: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hop {
    /// To be sent.
    #[default]
    Waiting,
    Sent {
        at: Time,
        attempts: u8,
    },
    /// To be sent once more.
    Again {
        attempts: u8,
    },
    Is(IpAddr),
    /// The destination itself.
    End,
    Silent,
}

/// What became of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every hop up to the destination.
    Path(Vec<IpAddr>),
    /// The destination answered, but not every hop did.
    Reached(Vec<Option<IpAddr>>),
    /// The destination kept silent.
    Lost,
}

/// Probes of one source port. TTLs begin at 1.
#[derive(Debug)]
pub(crate) struct Trace {
    hops: Vec<Hop>,
    max_hops: u8,
    rtt: Option<Time>,
}

impl Trace {
    /// `guess`: hops of the path, destination included, as far as it is known.
    pub(crate) fn new(guess: u8, max_hops: u8) -> Trace {
        Trace { hops: vec![Hop::Waiting; guess.clamp(1, max_hops).into()], max_hops, rtt: None }
    }

    /// The TTL of the next probe that is to be sent.
    pub(crate) fn waiting(&self) -> Option<u8> {
        let last = self.end().unwrap_or(self.hops.len());
        let place = self.hops[..last].iter().position(|hop| matches!(hop, Hop::Waiting | Hop::Again { .. }));
        place.map(|place| place as u8 + 1)
    }

    pub(crate) fn sent(&mut self, now: Time, ttl: u8) {
        let Some(hop) = self.hop(ttl) else { return };
        let before = if let Hop::Again { attempts } = hop { *attempts } else { 0 };
        *hop = Hop::Sent { at: now, attempts: before + 1 };
    }

    pub(crate) fn time_exceeded(&mut self, ttl: u8, from: IpAddr) {
        if let Some(hop @ (Hop::Sent { .. } | Hop::Again { .. } | Hop::Silent)) = self.hop(ttl) {
            *hop = Hop::Is(from);
        }
    }

    pub(crate) fn answered(&mut self, now: Time, ttl: u8) {
        let Some(hop) = self.hop(ttl) else { return };
        // Which of two attempts was answered, nobody can tell (Karn).
        let sent = if let Hop::Sent { at, attempts: 1 } = hop { Some(*at) } else { None };
        if matches!(hop, Hop::Sent { .. } | Hop::Again { .. } | Hop::Silent) {
            *hop = Hop::End;
        }
        self.rtt = sent.map(|at| now.saturating_sub(at)).into_iter().chain(self.rtt).min();
    }

    /// From a probe to the destination's answer, the shortest.
    pub(crate) fn rtt(&self) -> Option<Time> {
        self.rtt
    }

    /// Gives up on answers that are late, and looks further where the destination was not reached.
    pub(crate) fn handle_timeout(&mut self, now: Time, patience: Time) {
        for hop in &mut self.hops {
            if let Hop::Sent { at, attempts } = *hop {
                if now >= at + patience {
                    *hop = if attempts < ATTEMPTS { Hop::Again { attempts } } else { Hop::Silent };
                }
            }
        }
        self.look_further();
    }

    /// All hops answered and none is the destination: it is further away.
    fn look_further(&mut self) {
        let all = self.hops.iter().all(|hop| matches!(hop, Hop::Is(_)));
        if all && self.hops.len() < self.max_hops.into() {
            self.hops.push(Hop::Waiting);
        }
    }

    /// When [`Trace::handle_timeout`] has something to do.
    pub(crate) fn due(&self, patience: Time) -> Option<Time> {
        let sent =
            self.hops.iter().filter_map(|hop| if let Hop::Sent { at, .. } = hop { Some(*at + patience) } else { None });
        sent.min()
    }

    /// `None` while answers may come.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        self.look_further();
        let end = self.end();
        let before = &self.hops[..end.unwrap_or(self.hops.len())];
        if before.iter().any(|hop| matches!(hop, Hop::Waiting | Hop::Sent { .. } | Hop::Again { .. })) {
            return None;
        }
        let hops: Vec<Option<IpAddr>> =
            before.iter().map(|hop| if let Hop::Is(hop) = hop { Some(*hop) } else { None }).collect();
        Some(match (end, hops.iter().copied().collect()) {
            (None, _) => Outcome::Lost,
            (Some(_), Some(path)) => Outcome::Path(path),
            (Some(_), None) => Outcome::Reached(hops),
        })
    }

    /// Place of the destination.
    fn end(&self) -> Option<usize> {
        self.hops.iter().position(|hop| *hop == Hop::End)
    }

    fn hop(&mut self, ttl: u8) -> Option<&mut Hop> {
        self.hops.get_mut(usize::from(ttl).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Time = Time::from_ms(100);
    const RTT: Time = Time::from_us(70);

    fn hop(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn send_all(trace: &mut Trace, now: Time) -> Vec<u8> {
        let mut sent = Vec::new();
        while let Some(ttl) = trace.waiting() {
            trace.sent(now, ttl);
            sent.push(ttl);
        }
        sent
    }

    #[test]
    fn a_ladder_ends_at_the_destination() {
        let mut trace = Trace::new(4, 16);
        assert_eq!(send_all(&mut trace, Time::ZERO), [1, 2, 3, 4]);
        trace.time_exceeded(2, hop(2));
        trace.answered(RTT, 4);
        assert_eq!(trace.outcome(), None, "hops 1 and 3 may still answer");
        trace.time_exceeded(1, hop(1));
        trace.answered(RTT + RTT, 3);
        assert_eq!(trace.outcome(), Some(Outcome::Path(vec![hop(1), hop(2)])));
        assert_eq!(trace.rtt(), Some(RTT));
    }

    #[test]
    fn a_path_that_is_longer_than_thought_is_followed() {
        let mut trace = Trace::new(1, 3);
        for ttl in 1..=2 {
            assert_eq!(send_all(&mut trace, Time::ZERO), [ttl]);
            trace.time_exceeded(ttl, hop(ttl));
            assert_eq!(trace.outcome(), None);
        }
        assert_eq!(send_all(&mut trace, Time::ZERO), [3]);
        trace.time_exceeded(3, hop(3));
        assert_eq!(trace.outcome(), Some(Outcome::Lost), "three hops are the most");
    }

    #[test]
    fn silence_is_asked_once_more() {
        let mut trace = Trace::new(2, 16);
        send_all(&mut trace, Time::ZERO);
        trace.answered(RTT, 2);
        assert_eq!(trace.due(PATIENCE), Some(PATIENCE));
        trace.handle_timeout(PATIENCE, PATIENCE);
        assert_eq!(send_all(&mut trace, PATIENCE), [1]);
        trace.handle_timeout(PATIENCE + PATIENCE, PATIENCE);
        assert_eq!(trace.outcome(), Some(Outcome::Reached(vec![None])));
        trace.time_exceeded(1, hop(1));
        assert_eq!(trace.outcome(), Some(Outcome::Path(vec![hop(1)])), "late is better than never");
    }

    #[test]
    fn answers_to_what_was_not_asked_mean_nothing() {
        let mut trace = Trace::new(2, 16);
        trace.time_exceeded(1, hop(9));
        trace.answered(RTT, 2);
        trace.answered(RTT, 0);
        assert_eq!(trace.rtt(), None);
        trace.time_exceeded(200, hop(9));
        assert_eq!(send_all(&mut trace, Time::ZERO), [1, 2]);
        trace.time_exceeded(1, hop(1));
        trace.time_exceeded(1, hop(9));
        trace.answered(RTT, 2);
        assert_eq!(trace.outcome(), Some(Outcome::Path(vec![hop(1)])), "the first answer counts");
    }
}
