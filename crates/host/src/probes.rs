//! What is kept of RTT probes.

use units::Time;

#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// When each was sent, by which host, and its round-trip time once the echo is back.
    pub(crate) sent: Vec<(Time, u32, Option<Time>)>,
}

impl Probes {
    /// Those that came back, and how many were lost. Unanswered ones that are younger at the end than the longest round trip
    /// may be under way, and do not count.
    pub(crate) fn answered(&self, ended_at: Time) -> (Vec<(Time, u32, Time)>, u64) {
        let answered: Vec<_> = self.sent.iter().filter_map(|&(at, host, rtt)| Some((at, host, rtt?))).collect();
        let longest = answered.iter().map(|&(_, _, rtt)| rtt).max().unwrap_or(Time::ZERO);
        let lost = self.sent.iter().filter(|(at, _, rtt)| rtt.is_none() && ended_at.saturating_sub(*at) > longest);
        (answered, lost.count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_under_way_at_the_end_is_not_lost() {
        let us = Time::from_us;
        let probes = |sent: &[(u64, Option<u64>)]| Probes {
            sent: sent.iter().map(|&(at, rtt)| (us(at), 0, rtt.map(us))).collect(),
        };
        let (answered, lost) = probes(&[(0, Some(20)), (50, None), (80, None), (81, None)]).answered(us(100));
        assert_eq!((answered.len(), lost), (1, 1), "30 us before the end is lost if the longest took 20, 20 is not");
        assert_eq!(probes(&[(0, None), (99, None)]).answered(us(100)).1, 2);
        assert_eq!(probes(&[]).answered(us(100)), (Vec::new(), 0));
    }
}
