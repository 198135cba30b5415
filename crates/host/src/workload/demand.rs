//! Estimates of the flows that a workload starts and keeps open, and of what they carry, for the checks before a run.

use super::peak::{self, OVERHEAD, TURN};
use super::{Connection, FlowSpec, HostMap, Pairs, Pattern, Workload, MAX_FLOWS};
use units::{BitRate, Bytes, Time};

/// About how many flows a workload starts, how many of them are open at a time, and what those of bounded size carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub flows: f64,
    pub open: f64,
    /// Payload of flows of bounded size; 0 where how many there will be is known only in the end.
    pub bytes: f64,
}

impl Workload {
    /// An estimate for `hosts` with links of `rate`, until `until`: enough to tell what will not fit into a memory. Where more
    /// arrives than links carry, what cannot be carried stays open.
    pub fn demand(&self, hosts: &HostMap, until: Time, rate: BitRate) -> Demand {
        let n = f64::from(hosts.hosts());
        let end = self.stop.map_or(until, |stop| stop.min(until));
        let span = end.saturating_sub(self.start).as_ps() as f64 / 1e12;
        let per_second = |every: Time| 1e12 / every.as_ps().max(1) as f64;
        let of_each = |size: &Option<Bytes>| size.map_or(0.0, |size| size.get() as f64);
        let all_at_once = |flows: f64, each: f64| Demand { flows, open: flows, bytes: flows * each };
        // `senders` send through links of their own, or through the one of their receiver.
        let arrivals = |senders: f64, each_per_second: f64, bytes: f64, links: f64| {
            let flows = senders * each_per_second * span;
            let offered = senders * each_per_second * (bytes + OVERHEAD) * 8.0;
            let carried = links * rate.as_bps().max(1) as f64;
            let open = (senders + flows * (1.0 - carried / offered.max(1.0)).max(0.0)).min(flows);
            Demand { flows, open, bytes: flows * bytes }
        };
        let bytes = |size: &Bytes| size.get() as f64;
        let demand = match &self.pattern {
            Pattern::Stride { size, .. } | Pattern::RandomBijection { size } => all_at_once(n, of_each(size)),
            Pattern::Random { flows_per_host, size } => all_at_once(n * f64::from(*flows_per_host), of_each(size)),
            Pattern::Long { pairs, size } => all_at_once(pairs.most(hosts), of_each(size)),
            Pattern::Staircase { pairs, .. } => all_at_once(pairs.most(hosts), 0.0),
            Pattern::List(flows) => {
                let end = end.saturating_sub(self.start);
                let size = |flow: &FlowSpec| flow.size.unwrap_or_default() as f64;
                let bytes = flows.iter().filter(|flow| flow.start < end).map(size).sum();
                let (flows, open) = peak::of_list(flows, end, hosts.hosts() as usize, rate);
                Demand { flows: flows as f64, open: open as f64, bytes }
            }
            Pattern::AllToAll { size } => all_at_once(n * (n - 1.0), bytes(size)),
            Pattern::Shuffle { concurrent, size } => {
                let flows = n * (n - 1.0);
                Demand { flows, open: n * f64::from(*concurrent).min(n - 1.0), bytes: flows * bytes(size) }
            }
            Pattern::Incast { senders, size, every, .. } => match every {
                // The first round comes at once.
                Some(every) => {
                    let rounds = (span * per_second(*every)).ceil();
                    arrivals(f64::from(*senders), rounds / span.max(1e-12), bytes(size), 1.0)
                }
                None => all_at_once(f64::from(*senders), bytes(size)),
            },
            Pattern::Mice { size, every, to } => {
                let senders = to.most(hosts);
                arrivals(senders, per_second(*every), bytes(size), senders.min(n))
            }
            Pattern::Poisson { cdf, load, capacity, pairs } => {
                let senders = pairs.most(hosts);
                let each = load * capacity.as_bps() as f64 / (8.0 * cdf.mean_bytes());
                arrivals(senders, each, cdf.mean_bytes(), senders.min(n))
            }
            Pattern::FanOut { size, load, capacity, .. } => {
                let each = load * capacity.as_bps() as f64 / (8.0 * bytes(size).max(1.0));
                arrivals(n, each, bytes(size), n)
            }
            Pattern::Sequence { size, applications, pause, to } => {
                let open = to.most(hosts) * f64::from(*applications);
                let sending = size.mean_bytes() * 8.0 * open / n.max(1.0) / rate.as_bps().max(1) as f64;
                let turn = sending + pause.saturating_add(TURN).as_ps() as f64 / 1e12;
                // As many as the fabric lets through.
                Demand { flows: (open * (1.0 + span / turn)).min(open + MAX_FLOWS), open, bytes: 0.0 }
            }
        };
        match self.connection {
            Connection::Persistent => Demand { open: demand.open.max(self.kept(hosts).min(demand.flows)), ..demand },
            Connection::Fresh => demand,
        }
    }

    /// Connections of a workload that keeps them, each counted from its first message on.
    fn kept(&self, hosts: &HostMap) -> f64 {
        let applications = match &self.pattern {
            Pattern::List(_) => return 0.0, // each flow says so itself
            Pattern::Sequence { applications, .. } => f64::from(*applications),
            _ => 1.0,
        };
        self.pairs(hosts, Time::MAX) * applications * f64::from(self.connections)
    }

    /// The most pairs of sender and receiver that flows go between until `until`.
    pub fn pairs(&self, hosts: &HostMap, until: Time) -> f64 {
        let n = f64::from(hosts.hosts());
        let all = n * (n - 1.0);
        let pairs = match &self.pattern {
            Pattern::Stride { .. } | Pattern::RandomBijection { .. } => n,
            Pattern::Random { flows_per_host, .. } => n * f64::from(*flows_per_host),
            Pattern::Long { pairs, .. } | Pattern::Staircase { pairs, .. } => pairs.most(hosts),
            Pattern::Mice { to, .. } | Pattern::Poisson { pairs: to, .. } | Pattern::Sequence { to, .. } => match to {
                Pairs::AnyOther | Pairs::OtherRack => all,
                drawn_once => drawn_once.most(hosts),
            },
            Pattern::Incast { senders, .. } => f64::from(*senders),
            Pattern::List(flows) => {
                let end = self.stop.map_or(until, |stop| stop.min(until));
                peak::pairs(flows, end.saturating_sub(self.start)) as f64
            }
            Pattern::AllToAll { .. } | Pattern::Shuffle { .. } | Pattern::FanOut { .. } => all,
        };
        pairs.min(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cdf;
    use super::*;

    #[test]
    fn overload_stays_open_and_the_rest_does_not() {
        let hosts = HostMap::new((0..16).map(|host| host / 4).collect());
        let demand = |cdf: Cdf, load| {
            let capacity = BitRate::from_gbps(10);
            let pattern = Pattern::Poisson { cdf, load, capacity, pairs: Pairs::OtherRack };
            Workload::new("w", pattern).demand(&hosts, Time::from_ms(1), capacity)
        };
        // 16 hosts send 10^10 / 8 / 2 flows of half a byte a second, which with their headers are a hundred times as much.
        let small = demand(Cdf::new("x", &[(1.0, 1.0)]).unwrap(), 0.5);
        assert!((small.flows - 2e7).abs() < 1e5 && small.open > 0.98 * small.flows, "{small:?}");
        let large = demand(Cdf::built_in("websearch").unwrap(), 0.5);
        assert!(large.flows < 10.0 && large.open <= large.flows, "{large:?}");
        let long = demand(Cdf::constant(1_000_000).unwrap(), 0.9);
        assert!((long.flows - 18.0).abs() < 1e-6 && long.open < 17.0, "{long:?}");
        assert!((long.bytes - 18e6).abs() < 1.0, "{long:?}");
    }

    #[test]
    fn what_flows_carry_is_known_where_they_have_a_size() {
        let hosts = HostMap::new((0..16).map(|host| host / 4).collect());
        let bytes =
            |pattern| Workload::new("w", pattern).demand(&hosts, Time::from_ms(1), BitRate::from_gbps(10)).bytes;
        assert_eq!(bytes(Pattern::Stride { k: 4, size: Some(Bytes(1_000)) }), 16e3);
        assert_eq!(bytes(Pattern::Stride { k: 4, size: None }), 0.0);
        let flow = |us, size| FlowSpec {
            start: Time::from_us(us),
            src: 0,
            dst: 4,
            size,
            class: 0,
            reply: false,
            request: None,
            connection: Connection::Fresh,
            tag: 0,
        };
        let list = Pattern::List(vec![flow(0, Some(100)), flow(1, None), flow(999, Some(10)), flow(1_000, Some(1))]);
        assert_eq!(bytes(list), 110.0, "the last begins when it is over");
        let rounds = |us| Some(Time::from_us(us));
        let incast = |every| Pattern::Incast { senders: 8, receiver: 0, size: Bytes(1_000), every };
        assert_eq!(bytes(incast(None)).round(), 8e3);
        assert_eq!(bytes(incast(rounds(10_000))).round(), 8e3, "the first round comes at once");
        assert_eq!(bytes(incast(rounds(400))).round(), 24e3);
    }

    #[test]
    fn persistent_connections_stay_open() {
        let hosts = HostMap::new((0..16).map(|host| host / 4).collect());
        let pattern = Pattern::Mice { size: Bytes(100), every: Time::from_ms(1), to: Pairs::Stride(8) };
        let mut workload = Workload::new("w", pattern);
        let open = |workload: &Workload, ms| workload.demand(&hosts, Time::from_ms(ms), BitRate::from_gbps(10)).open;
        assert!((open(&workload, 1_000) - 16.0).abs() < 1e-6);
        (workload.connection, workload.connections) = (Connection::Persistent, 50);
        assert!((open(&workload, 1_000) - 800.0).abs() < 1e-6);
        assert!((open(&workload, 10) - 160.0).abs() < 1e-6, "no more than messages");
    }
}
