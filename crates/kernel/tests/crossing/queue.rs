//! The attacker's port: its limit, which each frame meets once, and the cutter.

use super::frames::{destination, differ_by_laws_only, source};
use super::host::{runnable, CLASSES};
use super::round::Round;
use super::shape::Limit;
use super::{NEXT, REDIRECT, SHOT};
use fuzz_drivers::Tenant;
use kernel::state::limiter::{LIMITER_IN, LIMITER_OUT};
use kernel::state::Counter;
use kernel::{Role, Segment, TestRun};

/// `SV_RETURNED` of `datapath/kernel/state.h`: out of the queue of a port without a network.
const RETURNED: u64 = 0x5356_5245_5400_0000;

/// `SV_TURNED`: the guest's own end has sent it back. `SV_THROUGH`: it is to let it pass.
const TURNED: u64 = RETURNED + 2;
const THROUGH: u64 = RETURNED + 3;

impl Round<'_> {
    /// What the attacker's port does with a frame: queue, guest program, cutter, and once more the port, for what is the host's.
    pub(super) fn enter(&mut self, tenant: &mut Tenant, frame: &[u8]) -> Option<TestRun> {
        if !runnable(frame) {
            return None;
        }
        let (a, shape) = (self.a, self.shape);
        let gso_size = if tenant.below(6) == 0 { 1 + tenant.below(200) as u16 } else { 0 };
        let gso_segs = if gso_size == 0 { 0 } else { frame.len() as u32 / u32::from(gso_size) + 1 };
        let mut segment = Segment { ifindex: a.port, gso_size, gso_segs, mark: 0 };
        let mut frame = frame.to_vec();
        if shape.limit != Limit::None {
            let queued = self.queue(tenant, &frame, segment)?;
            if queued.verdict == REDIRECT {
                segment = Segment { ifindex: a.queue, mark: queued.mark, ..segment };
            }
            frame = queued.frame;
        }
        let was_queued = segment.ifindex == a.queue;
        let cuts = shape.cutter;
        let before = if cuts { a.count(Counter::Cut) } else { 0 };
        let mut run = a.run_at(Role::Guest, &frame, segment)?;
        if cuts && a.count(Counter::Cut) != before {
            self.seen.cut += 1;
            assert_eq!((run.verdict, run.mark), (REDIRECT, a.port), "{shape:?}: {frame:02x?}");
            // Room for headers cannot be made behind the stages of virtual congestion control, which have written.
            let untouched = run.frame == frame || shape.congestion && run.frame[..14] == frame[..14];
            assert!(untouched, "{shape:?}: {frame:02x?} became {:02x?} before the cutter", run.frame);
            assert_eq!([source, destination].map(|of| of(&run.frame)), [source, destination].map(|of| of(&frame)));
            frame = run.frame;
            // The kernel would cut it, or drop what it does not know. It comes out whole here.
            run = a.run_at(Role::Guest, &frame, Segment { ifindex: a.cutter, mark: run.mark, ..Segment::default() })?;
            assert_eq!(a.count(Counter::Cut), before + 1, "{shape:?}: cut twice: {frame:02x?}");
        } else if !was_queued {
            assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        if run.verdict != REDIRECT || run.mark == 0 {
            assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        // To the host: it enters the port as the guest's own did, and does not wait again.
        self.seen.returned += 1;
        assert_eq!((run.mark, &run.frame), (a.port, &frame), "{shape:?}: {frame:02x?}");
        let segment = Segment { ifindex: a.port, mark: run.mark, ..Segment::default() };
        if shape.limit != Limit::None {
            self.passes(&frame, segment, tenant.below(2) as u64 * 7);
            run = a.run_at(Role::Guest, &frame, segment)?;
            assert_eq!((run.verdict, run.mark, &run.frame), (NEXT, 0, &frame), "{shape:?}: {frame:02x?}");
        }
        Some(run)
    }

    /// The attacker's frame meets its limit, once. None: it is dropped.
    pub(super) fn queue(&mut self, tenant: &mut Tenant, frame: &[u8], segment: Segment) -> Option<TestRun> {
        let (a, shape) = (self.a, self.shape);
        let paced = matches!(shape.limit, Limit::Times | Limit::Stamps);
        let stamp = [0, 0, 7, u64::MAX / 2][tenant.below(4)];
        let before = a.limiter(LIMITER_OUT);
        let (run, departs) = a.run_limit(Role::LimitGuest, frame, segment, stamp);
        let after = a.limiter(LIMITER_OUT);
        self.seen.queued += 1;
        if run.verdict == SHOT {
            self.seen.dropped += 1;
            assert_eq!(after.dropped, before.dropped + 1, "{shape:?}: {frame:02x?}");
            return None;
        }
        assert!(differ_by_laws_only(frame, &run.frame), "{shape:?}: {frame:02x?} became {:02x?}", run.frame);
        let (sent, len) = (after.sent - before.sent, frame.len() as u64);
        if paced {
            assert!(sent == len || segment.gso_size != 0 && sent >= len, "{shape:?}: {sent} of {frame:02x?}");
            let is_ip = matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd]);
            assert!(!is_ip || departs != stamp && departs <= after.next_ns, "{shape:?}: departs at {departs}");
        }
        if shape.limit == Limit::Stamps {
            assert_eq!((run.verdict, run.mark), (NEXT, 0), "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        assert_eq!((run.verdict, run.mark), (REDIRECT, a.port), "{shape:?}: {frame:02x?} passed no queue");
        let classes = if paced { &[0][..] } else { &CLASSES[..] };
        let class = if paced && run.priority == CLASSES[0] { 0 } else { run.priority };
        assert!(classes.contains(&class), "{shape:?}: class {:x}: {frame:02x?}", run.priority);
        // Of a port without a network, it comes back with a time stamp. Out of the queue without mark and number nothing goes on.
        if tenant.below(16) == 0 {
            self.passes(&run.frame, Segment { mark: 0, ..segment }, RETURNED + tenant.below(2) as u64);
            let nobody = Segment { ifindex: a.queue, mark: 0, ..segment };
            let dropped = a.run_at(Role::Guest, &run.frame, nobody)?;
            assert_eq!(dropped.verdict, SHOT, "{shape:?}: {frame:02x?}");
        }
        Some(run)
    }

    /// At the port, what has met its limit goes on as it is.
    pub(super) fn passes(&self, frame: &[u8], segment: Segment, stamp: u64) {
        let (a, shape) = (self.a, self.shape);
        let (before, waits) = (a.limiter(LIMITER_OUT), a.waits());
        let (run, left) = a.run_limit(Role::LimitGuest, frame, segment, stamp);
        let is = (run.verdict, run.mark, &run.frame[..], left);
        let stamp = if stamp >= RETURNED { 0 } else { stamp };
        assert_eq!(is, (NEXT, segment.mark, frame, stamp), "{shape:?}: it met its limit twice");
        assert_eq!((a.limiter(LIMITER_OUT), a.waits()), (before, waits), "{shape:?}: it counts twice: {frame:02x?}");
    }

    /// The attacker gets it: through its limit, too.
    pub(super) fn get(&mut self, tenant: &mut Tenant, frame: &[u8]) {
        let (a, shape) = (self.a, self.shape);
        if matches!(shape.limit, Limit::None | Limit::Lawless) || !runnable(frame) {
            return;
        }
        let turns = tenant.below(2) == 0;
        let (role, stamp) = if turns { (Role::LimitGuest, TURNED) } else { (Role::LimitPort, 0) };
        let segment = Segment { ifindex: a.port, ..Segment::default() };
        let (waits, before) = (a.waits(), [LIMITER_OUT, LIMITER_IN].map(|direction| a.limiter(direction)));
        let (run, stamp) = a.run_limit(role, frame, segment, stamp);
        let after = [LIMITER_OUT, LIMITER_IN].map(|direction| a.limiter(direction));
        assert!(differ_by_laws_only(frame, &run.frame), "{shape:?}: {frame:02x?} became {:02x?}", run.frame);
        self.seen.turned += 1;
        let [out, incoming] = [0, 1].map(|i| after[i].sent - before[i].sent);
        assert_eq!((out, a.waits()), (0, waits), "{shape:?}: it met the other limit: {frame:02x?}");
        let paced = before[1].rate != 0;
        assert_eq!(incoming, if paced { frame.len() as u64 } else { 0 }, "{shape:?}: {frame:02x?}");
        assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
        if turns {
            assert_eq!((run.verdict, stamp), (REDIRECT, THROUGH), "{shape:?}: {frame:02x?}");
        } else {
            assert_eq!(run.verdict, NEXT, "{shape:?}: {frame:02x?}");
        }
    }
}
