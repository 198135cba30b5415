//! Frames of one configuration: what the attacker sends, and where it comes out.

use super::arrivals::FEEDBACK;
use super::frames::{destination, discovery, forwarded, has_bit, protocol, same, source};
use super::guests::{host4, host6, outer, Guest, GUESTS};
use super::host::Host;
use super::seen::Seen;
use super::shape::{Limit, Shape};
use super::{REDIRECT, SHOT, UDP_PORT};
use fuzz_drivers::Tenant;
use kernel::state::{address, Counter, VERSION_2};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use wire::encap;

pub(super) struct Round<'a> {
    pub(super) shape: Shape,
    pub(super) a: &'a Host,
    pub(super) b: &'a Host,
    pub(super) seen: Seen,
    /// Packets that A's guest has sent with the reserved bit.
    pub(super) bits: u64,
    /// Addresses under which A's guest has spoken, and from which MAC address.
    pub(super) said: BTreeSet<([u32; 4], [u8; 6])>,
}

impl Round<'_> {
    /// The attacker sends it. True if A's stack gets it.
    pub(super) fn send(&mut self, tenant: &mut Tenant, frame: &[u8]) -> bool {
        self.note_claims(frame);
        let Some(run) = self.enter(tenant, frame) else { return false };
        self.seen.sent += 1;
        let shape = self.shape;
        match run.verdict {
            SHOT => self.seen.dropped += 1,
            REDIRECT if shape.plain => self.leave_bare(tenant, frame, &run.frame),
            REDIRECT if run.frame[..12] == [0; 12] => self.leave_in_tunnel(tenant, frame, &run.frame),
            REDIRECT => self.stay(tenant, frame, &run.frame),
            _ => {
                self.seen.passed += 1;
                assert!(!shape.isolated, "{shape:?}: {frame:02x?}");
                if shape.strict {
                    self.check_passed(frame);
                }
                for frame in forwarded(frame) {
                    self.arrive_forwarded(&frame);
                }
                return true;
            }
        }
        false
    }

    pub(super) fn leave_in_tunnel(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        self.seen.tunnelled += 1;
        let tunnel = encap::read_outer(out, UDP_PORT).unwrap_or_else(|| panic!("{out:02x?}"));
        assert_eq!(tunnel.encap.vni, attacker.network, "{shape:?}: {frame:02x?}");
        assert_eq!(address(tunnel.saddr), same(outer(0, shape.six)));
        assert!(tunnel.encap.version <= shape.version, "{shape:?}: {out:02x?}");
        self.seen.version_2 += usize::from(tunnel.encap.version == VERSION_2);
        self.check_heard(&out[tunnel.add_len.into()..]);
        if let Some(heard) = self.arrive(out, false) {
            self.check_heard(&heard);
        }
        // The same from C: what B believes it must be C's guest's.
        let mut other = out.to_vec();
        let (at, len) = if shape.six { (22, 16) } else { (26, 4) };
        let addr = if shape.six { host6(2).octets().to_vec() } else { host4(2).octets().to_vec() };
        other[at..at + len].copy_from_slice(&addr);
        if tenant.below(4) == 0 {
            self.arrive(&other, false);
        }
    }

    /// Without a tunnel, to a peer's guest, or it stays here.
    pub(super) fn leave_bare(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        let asks = frame[12..14] == [0x08, 0x06] || matches!(discovery(frame), Some((135, _)));
        let answered = asks && out[..6] == frame[6..12] && out != frame;
        let to = destination(out).map(same);
        let away =
            |guest: &Guest| guest.network == attacker.network && guest.host != 0 && to.is_some_and(|to| guest.has(to));
        if answered || !GUESTS.iter().any(away) {
            self.stay(tenant, frame, out);
            return;
        }
        self.seen.bare += 1;
        assert_eq!(out.len(), frame.len(), "{shape:?}: {frame:02x?} became {out:02x?}");
        assert_ne!(protocol(out), Some(FEEDBACK), "{shape:?}: feedback of the guest's: {out:02x?}");
        assert!(shape.shares || !has_bit(out), "{shape:?}: {frame:02x?} became {out:02x?}");
        self.bits += u64::from(has_bit(out));
        self.check_heard(out);
        let heard = if has_bit(out) { self.arrive_bare(1, out) } else { self.told_b(out) };
        if let Some(heard) = heard {
            self.check_heard(&heard);
        }
    }

    /// Back to the guest itself, an answer; or to another of its network.
    pub(super) fn stay(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        self.seen.local += 1;
        let to = GUESTS.iter().find(|guest| guest.host == 0 && out.starts_with(&guest.mac()));
        let answered = out[..6] == frame[6..12];
        let fits = answered || to.is_some_and(|to| to.network == attacker.network);
        assert!(fits, "{shape:?}: {frame:02x?} became {out:02x?}");
        if answered {
            self.get(tenant, out);
        } else {
            self.check_heard(out);
        }
    }

    /// Another guest gets it from the attacker, or is about to.
    pub(super) fn check_heard(&self, heard: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        if !shape.strict {
            return;
        }
        let said = source(heard).map(same);
        assert!(said.is_some_and(|said| attacker.has(said)), "{shape:?}: {said:?} left a strict port: {heard:02x?}");
        assert_eq!(heard[6..12], attacker.mac(), "{shape:?}: under another MAC address: {heard:02x?}");
        match discovery(heard) {
            Some((136, target)) => assert!(attacker.has(target.into()), "{shape:?}: advertises {target}: {heard:02x?}"),
            Some((134 | 137, _)) => panic!("{shape:?}: a router's message: {heard:02x?}"),
            _ => {}
        }
    }

    /// From a strict port to the host: as the guest itself, without tags.
    pub(super) fn check_passed(&self, frame: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        assert_eq!(frame[6..12], attacker.mac(), "{shape:?}: another MAC address: {frame:02x?}");
        let said = match frame[12..14] {
            [0x08, 0x06] => Ipv4Addr::new(frame[28], frame[29], frame[30], frame[31]).into(),
            _ => source(frame).unwrap_or_else(|| panic!("{shape:?}: neither IP nor ARP: {frame:02x?}")),
        };
        let said = same(said);
        let nobody = said.is_unspecified() || matches!(said, IpAddr::V6(v6) if v6.is_unicast_link_local());
        assert!(nobody || attacker.has(said), "{shape:?}: {said} speaks to the host: {frame:02x?}");
    }

    /// Where everything was dropped, nothing was tried. `each`: frames of the round.
    pub(super) fn check_tried(&self, each: usize) {
        let (shape, seen) = (self.shape, &self.seen);
        let least = |n: usize, parts: usize, what: &str| assert!(n > each / parts, "{shape:?}: {what}: {seen:?}");
        least(seen.local, 500, "local");
        assert!(seen.passed > each / 166 || shape.isolated, "{shape:?}: {seen:?}");
        if shape.plain {
            least(seen.bare, 125, "left");
            least(seen.shown, 125, "shown");
            assert_eq!(self.bits > 0, shape.shares, "{shape:?}: {seen:?}");
        } else {
            least(seen.tunnelled, 125, "tunnelled");
            least(seen.delivered, 250, "delivered");
            for (counter, parts) in [(Counter::DropForged, 500), (Counter::DropLengths, 2500)] {
                least(self.b.count(counter) as usize, parts, counter.name());
            }
            assert_eq!(seen.version_2 > each / 500, shape.version == VERSION_2, "{shape:?}: {seen:?}");
            assert_eq!(seen.cut > 0, shape.cutter, "{shape:?}: {seen:?}");
        }
        assert_eq!(seen.queued > each / 2, shape.limit != Limit::None, "{shape:?}: {seen:?}");
        if !matches!(shape.limit, Limit::None | Limit::Stamps) && !shape.isolated {
            least(seen.returned, 166, "returned");
        }
        if !matches!(shape.limit, Limit::None | Limit::Lawless) {
            assert!(seen.turned > 0, "{shape:?}: {seen:?}");
            assert_eq!(self.a.waits(), seen.queued as u64, "{shape:?}: each waits once: {seen:?}");
        }
        assert_eq!(seen.learnt > 0, shape.learn, "{shape:?}: {seen:?}");
    }
}
