//! What is known of the MTUs of paths to peers. Whoever can write messages of routers can lower one, within bounds and for a while.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// No peer's is less, of guests' packets, bytes: every link of IPv6 carries that much (RFC 8200 section 5).
pub(super) const LEAST: u32 = 1280;
/// Between two changes of a peer's, ns.
const PAUSE: u64 = 2_000_000_000;
/// So long one lasts, ns (RFC 1191 section 6.3, RFC 8201 section 4). Larger packets then find out whether the path still has it.
const AGE: u64 = 600_000_000_000;

/// Of guests' packets, bytes, and when that was learned, ns; by peers' addresses.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<IpAddr, (u16, u64)>);

impl Known {
    /// A router says that a guest's packet to `peer` may have `mtu` bytes. `most`: as many as the uplink carries. True if that is news.
    pub(super) fn told(&mut self, peer: IpAddr, mtu: u32, most: u32, now: u64) -> bool {
        let mtu = mtu.max(LEAST);
        let (before, at) = self.0.get(&peer).map_or((most, None), |(mtu, at)| (u32::from(*mtu), Some(*at)));
        if mtu >= before || at.is_some_and(|at| now.saturating_sub(at) < PAUSE) {
            return false;
        }
        let Ok(mtu) = u16::try_from(mtu) else { return false };
        self.0.insert(peer, (mtu, now));
        true
    }

    /// An earlier agent has learned it.
    pub(super) fn adopt(&mut self, peer: IpAddr, mtu: u16, now: u64) {
        if mtu > 0 {
            self.0.insert(peer, (mtu, now));
        }
    }

    /// Forgets what is old, and peers that are none any more. True if there was anything.
    pub(super) fn expire(&mut self, now: u64, is_peer: impl Fn(&IpAddr) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|peer, (_, at)| now.saturating_sub(*at) < AGE && is_peer(peer));
        self.0.len() < before
    }

    pub(super) fn of(&self, peer: IpAddr) -> Option<u16> {
        self.0.get(&peer).map(|(mtu, _)| *mtu)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (IpAddr, u16)> + '_ {
        self.0.iter().map(|(peer, (mtu, _))| (*peer, *mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));

    #[test]
    fn it_falls_within_bounds_and_not_often() {
        let mut known = Known::default();
        assert!(!known.told(PEER, 1450, 1450, 0), "what the uplink carries is no news");
        assert!(!known.told(PEER, 9000, 1450, 0));
        assert!(known.told(PEER, 1400, 1450, 5));
        assert!(!known.told(PEER, 1300, 1450, 5 + PAUSE - 1), "too soon");
        assert_eq!(known.of(PEER), Some(1400));
        assert!(known.told(PEER, 1300, 1450, 5 + PAUSE));
        assert!(!known.told(PEER, 1400, 1450, 5 + 2 * PAUSE), "it never rises");
        assert!(known.told(PEER, 68, 1450, 5 + 2 * PAUSE));
        assert_eq!(known.of(PEER), Some(1280), "the floor");
        assert!(!known.told(PEER, 0, 1450, 5 + 9 * PAUSE));
    }

    #[test]
    fn it_ends_after_ten_minutes_or_with_its_peer() {
        let mut known = Known::default();
        known.adopt(PEER, 1300, 7);
        assert!(!known.expire(7 + AGE - 1, |_| true));
        assert!(known.expire(7 + AGE, |_| true) && known.of(PEER).is_none());
        known.adopt(PEER, 0, 7);
        assert_eq!(known.of(PEER), None, "none is none");
        assert!(known.told(PEER, 1400, 1450, 8));
        assert!(known.expire(9, |_| false) && known.all().next().is_none());
    }
}
