//! What the uplink programs hand on, of what comes from the fabric.

use super::frames::{destination, ecn_of, has_bit, protocol, same, source};
use super::guests::{outer, Guest, GUESTS};
use super::host::Host;
use super::round::Round;
use super::{REDIRECT, SHOT, UDP_PORT};
use fuzz_drivers::Tenant;
use kernel::state::{address, Counter};
use kernel::Role;
use wire::encap;

/// HyGenICC's packets of nothing but feedback.
pub(super) const FEEDBACK: u8 = 253;

impl Round<'_> {
    /// B got from the fabric what A's stack has forwarded, for the attacker.
    pub(super) fn arrive_forwarded(&mut self, frame: &[u8]) {
        if !self.shape.plain {
            self.arrive(frame, true);
            return;
        }
        let Some(heard) = self.told_b(frame) else { return };
        let (shape, said) = (self.shape, source(&heard).map(same));
        // A guest of a port that is not strict may speak as anybody, and so also by way of the host. What a host has forwarded is no neighbour
        // discovery: its hop limit is not 255 (RFC 4861).
        assert!(!shape.strict || said.is_some_and(|said| GUESTS[0].has(said)), "{shape:?}: as {said:?}: {frame:02x?}");
    }

    /// Without a tunnel: B got from the fabric what the attacker sent. It is no feedback, unless A has put that there.
    pub(super) fn told_b(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let counted = |host: &Host| {
            let counters = host.edge().counters().unwrap();
            [Counter::MarksConsumed, Counter::Feedback].map(|counter| counters.get(counter))
        };
        let before = counted(self.b);
        let heard = self.arrive_bare(1, frame);
        assert_eq!(before, counted(self.b), "{:?}: feedback of the attacker's: {frame:02x?}", self.shape);
        heard
    }

    /// Without a tunnel: host A or B, 0 or 1, got it from the fabric. Returns what its guest gets.
    pub(super) fn arrive_bare(&mut self, host: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let (at, shape) = ([self.a, self.b][host], self.shape);
        let (verdict, out) = at.run(Role::Uplink, frame)?;
        if verdict != REDIRECT {
            assert!(verdict == SHOT || out == frame, "{shape:?}: {frame:02x?} became {out:02x?} for the host");
            return None;
        }
        self.seen.shown += 1;
        let [said, to] = [source(&out), destination(&out)].map(|addr| addr.map(same).unwrap());
        let one = |guest: &&Guest| guest.network == GUESTS[0].network;
        let from = GUESTS.iter().filter(one).find(|guest| guest.host != host && guest.has(said));
        assert!(from.is_some(), "{shape:?}: host {host} took from {said}: {frame:02x?}");
        let to = GUESTS.iter().filter(one).find(|guest| guest.host == host && guest.has(to));
        assert!(to.is_some_and(|to| out.starts_with(&to.mac())), "{shape:?}: {frame:02x?} became {out:02x?}");
        assert!(!has_bit(&out), "{shape:?}: a guest sees the bit: {out:02x?}");
        assert_ne!(protocol(&out), Some(FEEDBACK), "{shape:?}: a guest sees feedback: {out:02x?}");
        assert!(!shape.shares || ecn_of(&out) != wire::ecn::CE, "{shape:?}: a guest sees a mark: {frame:02x?}");
        Some(out)
    }

    /// B got it from the fabric. Returns what B's guest gets. `forger`: nobody may get it.
    pub(super) fn arrive(&mut self, frame: &[u8], forger: bool) -> Option<Vec<u8>> {
        let (verdict, out) = self.b.run(Role::Uplink, frame)?;
        if verdict != REDIRECT {
            return None;
        }
        self.seen.delivered += 1;
        let shape = self.shape;
        assert!(!forger, "{shape:?}: B took what A forwarded: {frame:02x?}");
        let tunnel = encap::read_outer(frame, UDP_PORT).expect("B took what is no tunnel packet");
        let from = (0..3).find(|i| same(outer(*i, shape.six)) == address(tunnel.saddr));
        let said = source(&out).map(same).unwrap_or_else(|| panic!("no source: {out:02x?}"));
        let sender = GUESTS
            .iter()
            .find(|guest| Some(guest.host) == from && guest.network == tunnel.encap.vni && guest.has(said));
        assert!(sender.is_some(), "{shape:?}: B took from host {from:?} what {said} says: {frame:02x?}");
        let to = GUESTS.iter().find(|guest| out.starts_with(&guest.mac())).unwrap_or_else(|| panic!("{out:02x?}"));
        assert_eq!((to.network, to.host), (tunnel.encap.vni, 1), "{shape:?}: {frame:02x?}");
        Some(out)
    }

    /// What hosts send that are peers, or impostors: to B, and without a tunnel to A, too.
    pub(super) fn arrive_from_hosts(&mut self, tenant: &mut Tenant, i: usize) {
        self.seen.from_hosts += 1;
        if !self.shape.plain {
            let frame = if i % 8 == 7 { tenant.tunnelled() } else { tenant.told() };
            self.arrive(&frame, false);
            return;
        }
        let (frame, host) = (tenant.bare(), tenant.below(2));
        let shown = self.arrive_bare(host, &frame);
        if let Some(shown) = shown.filter(|shown| host == 0 && shown.starts_with(&GUESTS[0].mac())) {
            self.get(tenant, &shown);
        }
    }
}
