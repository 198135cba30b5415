//! Pairs of senders and receivers, fixed or drawn from the seed.

use super::{HostMap, Problem, MAX_DRAWN};
use sim::{Purpose, Stream};

/// Pairs of senders and receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Host i to host (i + k) mod n.
    Stride(u32),
    /// A random permutation without a host that sends to its own rack, drawn once.
    Bijection,
    /// Each host to one random host in another rack, drawn once; receivers may coincide.
    Random,
    /// Any other host, drawn for every flow.
    AnyOther,
    /// A host in another rack, drawn for every flow.
    OtherRack,
    /// Exactly these (source, destination).
    Fixed(Vec<(u32, u32)>),
    /// Each of the first `among` hosts (all of them if `None`) to the `count` hosts that follow it, the first one following
    /// the last: all sources with their next neighbour, then with the one after.
    Next { count: u32, among: Option<u32> },
    /// The first `senders` hosts in order of number, the receiver left out, to the receiver.
    Into { senders: u32, receiver: u32 },
}

impl Pairs {
    /// How many clocks or processes these pairs make at most.
    pub(super) fn most(&self, hosts: &HostMap) -> f64 {
        match self {
            Pairs::Fixed(pairs) => pairs.len() as f64,
            Pairs::Next { count, among } => f64::from(*count) * f64::from(among.unwrap_or(hosts.hosts())),
            Pairs::Into { senders, .. } => f64::from(*senders),
            _ => f64::from(hosts.hosts()),
        }
    }

    /// The pairs if they are fixed for the run; `None` if a destination is drawn for every flow.
    pub(super) fn fixed(&self, hosts: &HostMap, seed: u64, pairing: u32) -> Result<Option<Vec<(u32, u32)>>, Problem> {
        match self {
            Pairs::Stride(k) => stride(hosts, *k).map(Some),
            Pairs::Bijection => bijection(hosts, &mut pairing_stream(seed, pairing)).map(Some),
            Pairs::Random => random(hosts, 1, &mut pairing_stream(seed, pairing)).map(Some),
            Pairs::AnyOther => Ok(None),
            Pairs::OtherRack => check_racks(hosts).map(|()| None),
            Pairs::Fixed(pairs) => explicit(hosts, pairs).map(Some),
            Pairs::Next { count, among } => next(hosts, *count, *among).map(Some),
            Pairs::Into { senders, receiver } => into(hosts, *senders, *receiver).map(Some),
        }
    }

    /// Where a pattern's flows go in this run.
    pub(super) fn ends<'a>(&'a self, hosts: &'a HostMap, seed: u64, pairing: u32) -> Result<Ends<'a>, Problem> {
        Ok(Ends { fixed: self.fixed(hosts, seed, pairing)?, pairs: self, hosts, seed })
    }

    /// As [`Pairs::fixed`], drawing a destination for each host once where it would be drawn for every flow.
    pub(super) fn once(&self, hosts: &HostMap, seed: u64, pairing: u32) -> Result<Vec<(u32, u32)>, Problem> {
        if let Some(pairs) = self.fixed(hosts, seed, pairing)? {
            return Ok(pairs);
        }
        let mut stream = pairing_stream(seed, pairing);
        Ok((0..hosts.hosts()).map(|src| (src, self.draw(hosts, src, &mut stream))).collect())
    }

    /// A destination for a flow from `src`; only for pairs that [`Pairs::fixed`] found to be drawn.
    pub(super) fn draw(&self, hosts: &HostMap, src: u32, stream: &mut Stream) -> u32 {
        if *self == Pairs::OtherRack {
            return hosts.outsider(src, stream.below(u64::from(hosts.outside(src))) as u32);
        }
        let other = stream.below(u64::from(hosts.hosts()) - 1) as u32;
        other + u32::from(other >= src)
    }
}

/// Where the flows of an open or closed loop go.
pub(super) struct Ends<'a> {
    /// As [`Pairs::fixed`] has it.
    pub(super) fixed: Option<Vec<(u32, u32)>>,
    pub(super) pairs: &'a Pairs,
    pub(super) hosts: &'a HostMap,
    pub(super) seed: u64,
}

/// One stream for all workloads with the same pairing number. The top bit keeps it apart from the streams of senders.
pub(super) fn pairing_stream(seed: u64, pairing: u32) -> Stream {
    Stream::new(seed, 1 << 63 | u64::from(pairing), Purpose::Pairing)
}

pub(super) fn stride(hosts: &HostMap, k: u32) -> Result<Vec<(u32, u32)>, Problem> {
    let n = hosts.hosts();
    if k % n == 0 {
        return Err(Problem::StrideToSelf { k, hosts: n });
    }
    let shift = u64::from(k % n);
    Ok((0..n).map(|i| (i, ((u64::from(i) + shift) % u64::from(n)) as u32)).collect())
}

fn next(hosts: &HostMap, count: u32, among: Option<u32>) -> Result<Vec<(u32, u32)>, Problem> {
    let n = among.unwrap_or(hosts.hosts());
    if count == 0 {
        return Err(Problem::Zero("k"));
    }
    if n < 2 {
        return Err(Problem::FewSenders(n));
    }
    if n > hosts.hosts() {
        return Err(Problem::NoSuchHost { host: n - 1, hosts: hosts.hosts() });
    }
    if count >= n {
        return Err(Problem::StrideToSelf { k: count, hosts: n });
    }
    let flows = u64::from(count) * u64::from(n);
    if flows > MAX_DRAWN {
        return Err(Problem::TooManyFlows { flows });
    }
    let after = |i: u32, k: u32| ((u64::from(i) + u64::from(k)) % u64::from(n)) as u32;
    Ok((1..=count).flat_map(|k| (0..n).map(move |i| (i, after(i, k)))).collect())
}

fn into(hosts: &HostMap, senders: u32, receiver: u32) -> Result<Vec<(u32, u32)>, Problem> {
    let n = hosts.hosts();
    if receiver >= n {
        return Err(Problem::NoSuchHost { host: receiver, hosts: n });
    }
    if senders >= n {
        return Err(Problem::TooManySenders { senders, hosts: n });
    }
    if senders == 0 {
        return Err(Problem::Zero("senders"));
    }
    Ok((0..n).filter(|&h| h != receiver).take(senders as usize).map(|h| (h, receiver)).collect())
}

/// Where one host's messages go.
#[derive(Debug)]
pub(super) struct Targets {
    pub(super) src: u32,
    /// Empty if each destination is drawn from all hosts that `Pairs` admits.
    dsts: Vec<u32>,
    stream: Stream,
}

impl Targets {
    /// One per sending host, in order of number, with its destinations in the order of `fixed`.
    pub(super) fn per_host(fixed: Option<Vec<(u32, u32)>>, hosts: &HostMap) -> Vec<(u32, Vec<u32>)> {
        let Some(pairs) = fixed else { return (0..hosts.hosts()).map(|src| (src, Vec::new())).collect() };
        let mut by_host: std::collections::BTreeMap<u32, Vec<u32>> = std::collections::BTreeMap::new();
        for (src, dst) in pairs {
            by_host.entry(src).or_default().push(dst);
        }
        by_host.into_iter().collect()
    }

    pub(super) fn new(src: u32, dsts: Vec<u32>, stream: Stream) -> Targets {
        Targets { src, dsts, stream }
    }

    /// The destination of the `n`-th message: fixed ones in turn.
    pub(super) fn in_turn(&mut self, n: u64, pairs: &Pairs, hosts: &HostMap) -> u32 {
        match self.dsts.len() as u64 {
            0 => pairs.draw(hosts, self.src, &mut self.stream),
            count => self.dsts[(n % count) as usize],
        }
    }
}

/// `rounds` destinations per host, in rounds over the hosts.
pub(super) fn random(hosts: &HostMap, rounds: u32, stream: &mut Stream) -> Result<Vec<(u32, u32)>, Problem> {
    check_racks(hosts)?;
    let flows = u64::from(rounds) * u64::from(hosts.hosts());
    if flows > MAX_DRAWN {
        return Err(Problem::TooManyFlows { flows });
    }
    let mut pairs = Vec::new();
    for _ in 0..rounds {
        pairs.extend((0..hosts.hosts()).map(|src| (src, Pairs::OtherRack.draw(hosts, src, stream))));
    }
    Ok(pairs)
}

/// A permutation of the hosts that leaves every rack.
///
/// Small fabrics draw permutations until one fits, which is exactly uniform. Where that would take too long, the last
/// draw is repaired: each host that would send to its own rack swaps destinations with a random host for which both
/// then fit. One always exists: for a host of rack A that sends to A, at least n - |A| hosts are outside A and fewer
/// than |A| of them send to A.
pub(super) fn bijection(hosts: &HostMap, stream: &mut Stream) -> Result<Vec<(u32, u32)>, Problem> {
    let n = hosts.hosts();
    if let Some(h) = (0..n).find(|&h| hosts.rack_size(h) > n / 2) {
        let (rack, size) = (hosts.rack(h), hosts.rack_size(h));
        return Err(Problem::RackTooLarge { rack, size, hosts: n });
    }
    let mut dst: Vec<u32> = (0..n).collect();
    let stays = |src: u32, dst: u32| hosts.rack(src) == hosts.rack(dst);
    for _ in 0..=TRIES_TIMES_HOSTS / n {
        stream.shuffle(&mut dst);
        if (0..n).all(|src| !stays(src, dst[src as usize])) {
            return Ok((0..n).zip(dst).collect());
        }
    }
    for src in 0..n {
        let own = dst[src as usize];
        if stays(src, own) {
            let fits: Vec<u32> = (0..n).filter(|&h| !stays(src, dst[h as usize]) && !stays(h, own)).collect();
            if let Some(&with) = fits.get(stream.below(fits.len() as u64) as usize) {
                dst.swap(src as usize, with as usize);
            }
        }
    }
    Ok((0..n).zip(dst).collect())
}

/// Bounds the search for a uniform bijection: 6,250 permutations of 16 hosts; one in about 70 fits if there are
/// four racks.
const TRIES_TIMES_HOSTS: u32 = 100_000;

fn explicit(hosts: &HostMap, pairs: &[(u32, u32)]) -> Result<Vec<(u32, u32)>, Problem> {
    if pairs.is_empty() {
        return Err(Problem::NoPairs);
    }
    for &(src, dst) in pairs {
        check_pair(hosts, src, dst)?;
    }
    Ok(pairs.to_vec())
}

pub(super) fn check_pair(hosts: &HostMap, src: u32, dst: u32) -> Result<(), Problem> {
    if let Some(host) = [src, dst].into_iter().find(|&h| h >= hosts.hosts()) {
        return Err(Problem::NoSuchHost { host, hosts: hosts.hosts() });
    }
    if src == dst {
        return Err(Problem::ToSelf(src));
    }
    Ok(())
}

fn check_racks(hosts: &HostMap) -> Result<(), Problem> {
    if (0..hosts.hosts()).any(|h| hosts.outside(h) == 0) {
        return Err(Problem::OneRack);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stride_wraps() {
        let map = HostMap::uniform(5, 1);
        assert_eq!(stride(&map, 3), Ok(vec![(0, 3), (1, 4), (2, 0), (3, 1), (4, 2)]));
        assert_eq!(stride(&map, 8), stride(&map, 3));
        assert_eq!(stride(&map, 10), Err(Problem::StrideToSelf { k: 10, hosts: 5 }));
    }

    #[test]
    fn the_next_neighbours_of_a_part_of_the_hosts() {
        let map = HostMap::uniform(6, 1);
        let near = Pairs::Next { count: 2, among: Some(4) }.fixed(&map, 1, 0);
        assert_eq!(near, Ok(Some(vec![(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3), (2, 0), (3, 1)])));
        let all = Pairs::Next { count: 5, among: None }.fixed(&map, 1, 0).unwrap().unwrap();
        assert_eq!(all.len(), 30);
        for (pairs, problem) in [
            (Pairs::Next { count: 4, among: Some(4) }, Problem::StrideToSelf { k: 4, hosts: 4 }),
            (Pairs::Next { count: 1, among: Some(7) }, Problem::NoSuchHost { host: 6, hosts: 6 }),
            (Pairs::Next { count: 0, among: None }, Problem::Zero("k")),
            (Pairs::Next { count: 1, among: Some(0) }, Problem::FewSenders(0)),
        ] {
            assert_eq!(pairs.fixed(&map, 1, 0), Err(problem));
        }
    }

    #[test]
    fn many_into_one_leaves_the_receiver_out() {
        let map = HostMap::uniform(5, 1);
        let into = |senders, receiver| Pairs::Into { senders, receiver }.fixed(&map, 1, 0);
        assert_eq!(into(3, 1), Ok(Some(vec![(0, 1), (2, 1), (3, 1)])));
        assert_eq!(into(4, 4).unwrap().unwrap().len(), 4);
        assert_eq!(into(5, 0), Err(Problem::TooManySenders { senders: 5, hosts: 5 }));
        assert_eq!(into(0, 0), Err(Problem::Zero("senders")));
        assert_eq!(into(1, 5), Err(Problem::NoSuchHost { host: 5, hosts: 5 }));
    }

    #[test]
    fn a_bijection_needs_room_outside_every_rack() {
        let refused = bijection(&HostMap::new(vec![0, 0, 0, 1, 2]), &mut pairing_stream(1, 0));
        assert_eq!(refused, Err(Problem::RackTooLarge { rack: 0, size: 3, hosts: 5 }));
        assert_eq!(Pairs::Random.fixed(&HostMap::uniform(4, 4), 1, 0), Err(Problem::OneRack));
    }

    #[test]
    fn bijections_of_a_small_fabric_are_uniform() {
        // Two racks of two: 0 and 1 go to {2, 3} in two ways, 2 and 3 to {0, 1} in two ways.
        let map = HostMap::uniform(4, 2);
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..4000 {
            *counts.entry(bijection(&map, &mut pairing_stream(seed, 0)).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 4);
        assert!(counts.values().all(|c| (880..1120).contains(c)), "{counts:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_bijection_is_a_permutation_that_leaves_its_rack(
            racks in prop::collection::vec(0u32..6, 2..60), seed: u64,
        ) {
            let map = HostMap::new(racks);
            if let Ok(pairs) = bijection(&map, &mut pairing_stream(seed, 0)) {
                let mut seen: Vec<u32> = pairs.iter().map(|p| p.1).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..map.hosts()).collect::<Vec<_>>());
                prop_assert!(pairs.iter().all(|&(s, d)| map.rack(s) != map.rack(d)));
            }
        }

        /// Half of the hosts in one rack is the tightest case; with this many it is always repaired.
        #[test]
        fn repair_always_finds_a_bijection(small in 1u32..8, seed: u64) {
            let map = HostMap::new((0..64).map(|h| if h < 32 { 0 } else { 1 + h % small }).collect());
            let pairs = bijection(&map, &mut pairing_stream(seed, 0)).unwrap();
            prop_assert!(pairs.iter().all(|&(s, d)| map.rack(s) != map.rack(d)));
        }

        #[test]
        fn drawn_destinations_are_legal(seed: u64, n in 2u32..20, per_rack in 1u32..5) {
            let map = HostMap::uniform(n, per_rack);
            let mut stream = pairing_stream(seed, 0);
            for src in 0..n {
                let dst = Pairs::AnyOther.draw(&map, src, &mut stream);
                prop_assert!(dst < n && dst != src);
                if map.outside(src) > 0 {
                    prop_assert_ne!(map.rack(Pairs::OtherRack.draw(&map, src, &mut stream)), map.rack(src));
                }
            }
        }
    }
}
