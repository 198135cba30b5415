//! Classes of one port, and what of all classes goes.

use super::classes::{bytes_per_second, BOTH, IN_BULK, IN_FIRST, OF_FIRST, PORTS};
use super::limited::Limited;
use super::qdiscs::{remove_pairs, set, set_queue};
use super::wanted::Wanted;
use kernel::htb::{self, Class, Found, Qdisc, HANDLE};
use std::collections::BTreeSet;
use std::io;
use units::BitRate;

/// Below that a large segment is a debt of half a second.
const OWES_LONG: BitRate = BitRate::from_mbps(1);

/// Where a port's classes are.
pub(super) struct Place<'a> {
    pub(super) device: u32,
    pub(super) have: &'a [Found],
    pub(super) qdiscs: &'a [Qdisc],
}

impl Place<'_> {
    /// Whether classes of a port are below others than they are to be. The kernel moves none: they would go before there are others, and
    /// what came meanwhile would go past all classes. So the port gets new ones beside them. But where somebody else has put a queue it stays with
    /// the number.
    pub(super) fn moves(&self, minor: u32, parent: u32, split: bool) -> bool {
        let [leaf, first, both] = [minor, minor + OF_FIRST, minor + BOTH].map(|minor| HANDLE | minor);
        let below = |id, parent| self.have.iter().any(|found| found.class.id == id && found.class.parent != parent);
        let moves = if split { below(both, parent) || below(leaf, both) } else { below(leaf, parent) };
        let others = |q: &Qdisc| q.ifindex == self.device && [leaf, first].contains(&q.parent) && q.is_anothers_queue();
        moves && !self.qdiscs.iter().any(others)
    }

    /// May the class owe for so long what its low rate let pass at once that the guest would hardly feel a higher one? The kernel
    /// keeps debts as time when a rate changes, and a segment of 64 KB is 5 s at 100 kbps. A class that is made anew owes nothing. But
    /// where somebody else has put a queue it stays.
    pub(super) fn owes(&self, id: u32, w: &Wanted) -> bool {
        let ceiling = bytes_per_second(w.rate.ceiling);
        let rises = |class: &Class| class.ceil < bytes_per_second(OWES_LONG) && ceiling / 2 > class.ceil;
        let leaves = [id, id + OF_FIRST, IN_BULK, IN_FIRST];
        let others = |q: &Qdisc| q.ifindex == self.device && leaves.contains(&q.parent) && q.is_anothers_queue();
        self.have.iter().any(|found| found.class.id == id && rises(&found.class)) && !self.qdiscs.iter().any(others)
    }

    /// `was`: the class that had its part.
    pub(super) fn leaf(&self, w: &Wanted, class: &Class, was: u32) -> io::Result<()> {
        set(self.device, self.have, class)?;
        let kept = self.have.iter().any(|found| found.class.id == class.id && found.class.parent == class.parent);
        set_queue(self.device, class.id, w.queue_bytes(), self.qdiscs, (!kept).then_some(was))
    }

    /// `was`: the class that had the part of `bulk`.
    pub(super) fn split(&self, w: &Wanted, both: &Class, [bulk, first]: [u32; 2], was: u32) -> io::Result<()> {
        let there = |id| self.have.iter().find(|found| found.class.id == id);
        let moves = there(both.id).is_some_and(|found| found.class.parent != both.parent);
        if moves {
            // None goes while there are others below it.
            for id in [bulk, first, both.id].into_iter().filter(|id| there(*id).is_some()) {
                htb::remove_class(self.device, id)?;
            }
        }
        let place = Place { have: if moves { &[] } else { self.have }, ..*self };
        set(place.device, place.have, both)?;
        let had = |half: &Class| if half.id == bulk { was } else { half.id };
        w.halves(both, bulk, first).iter().try_for_each(|half| place.leaf(w, half, had(half)))
    }
}

/// Leaves before the classes above them, and these before tenants.
fn depth(minor: u32) -> u32 {
    match minor {
        _ if minor < PORTS.start => 2,
        _ if (PORTS.start + BOTH..PORTS.end + BOTH).contains(&minor) => 1,
        _ => 0,
    }
}

/// Takes away what nothing sends segments to any more, with what waits there.
pub(crate) fn lower(limited: &Limited) -> io::Result<()> {
    let devices: BTreeSet<u32> = limited.kept.iter().map(|(device, _)| *device).collect();
    for qdisc in htb::qdiscs()?.iter().filter(|q| q.is_ours() && !devices.contains(&q.ifindex)) {
        htb::remove_root(qdisc.ifindex)?;
    }
    for &device in &devices {
        let mut gone: Vec<u32> = htb::classes(device)?.iter().map(|found| found.class.id).collect();
        gone.retain(|id| !limited.kept.contains(&(device, *id)));
        gone.sort_unstable_by_key(|id| depth(id & 0xffff));
        gone.into_iter().try_for_each(|id| htb::remove_class(device, id))?;
    }
    remove_pairs(|pair| limited.pairs.contains(&pair), &htb::qdiscs()?)
}
