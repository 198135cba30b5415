//! What the thread does.

use super::asked::Asked;
use super::held::Held;
use super::quota::Quota;
use super::said::{Reported, Said, Settings};
use super::segment::{Frame, Segment};
use super::stats::Stats;
use super::waiting::{Packet, Sends, Waiting};
use crate::desired::EDGE_MAC;
use edge::fastlane::Decision;
use edge::vcc::DUPLICATE_ACKS;
use kernel::again::{Sender, Way};
use kernel::emit::{self, Uplink};
use kernel::state::fastlane::{
    FastCall, FAST_DROPPED, FAST_DUE, FAST_GIVEN_UP, FAST_INTERVAL_NS, FAST_LIMITER, FAST_OF_PEER, FAST_REPORTED,
};
use kernel::{monotonic_ns, Watch};
use libbpf_rs::{PerfBuffer, PerfBufferBuilder};
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use port::priority::hurry_this_thread;
use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::Time;

/// Of each CPU's buffer, of 4 KiB each: eight of the largest segments.
const PAGES: usize = 128;
/// Longest wait where nothing is due.
const IDLE: Duration = Duration::from_secs(1);
/// Reports, and what peers say, that are looked at before drops of this host's own are again.
const REPORTS: usize = 64;

pub(super) struct Worker {
    pub(super) watch: Watch,
    sender: Sender,
    /// ifindex of the device by which segments come again.
    device: u32,
    pub(super) waiting: Waiting,
    asked: Asked,
    pub(super) held: Held,
    /// Of what peers tell.
    pub(super) quota: Quota,
    /// Opened when it is needed.
    pub(super) uplink: Option<Uplink>,
    heard: Receiver<Said>,
    wake: Arc<EventFd>,
    shared: Arc<Mutex<Stats>>,
    pub(super) stats: Stats,
}

impl Worker {
    pub(super) fn new(
        watch: Watch,
        sender: Sender,
        settings: &Settings,
        heard: Receiver<Said>,
        wake: Arc<EventFd>,
        shared: Arc<Mutex<Stats>>,
    ) -> Worker {
        let (per_guest, in_all) = (settings.config.store_per_guest.get(), settings.config.store.get());
        Worker {
            watch,
            sender,
            device: settings.devices[0],
            waiting: Waiting::new(per_guest, in_all),
            asked: Asked::default(),
            held: Held::new(per_guest, in_all),
            quota: Quota::new(settings.config.rate.bytes_in(Time::from_ns(FAST_INTERVAL_NS))),
            uplink: None,
            heard,
            wake,
            shared,
            stats: Stats::default(),
        }
    }

    /// Until nobody reports any more, which is how it is told to end. `begun` is told whether it hears of drops.
    pub(super) fn run(mut self, begun: &SyncSender<Result<(), kernel::Error>>) {
        hurry_this_thread();
        let records = RefCell::new(Vec::<Vec<u8>>::new());
        let note = |_: i32, record: &[u8]| records.borrow_mut().push(record.to_vec());
        let lost = |_: i32, _: u64| (); // the program counts them
        let map = match self.watch.drops() {
            Ok(map) => map,
            Err(e) => return drop(begun.send(Err(e))),
        };
        let buffer = match PerfBufferBuilder::new(&map).pages(PAGES).sample_cb(note).lost_cb(lost).build() {
            Ok(buffer) => buffer,
            Err(e) => return drop(begun.send(Err(kernel::Error::Bpf("make the buffer of dropped segments", e)))),
        };
        let _ = begun.send(Ok(())); // the agent waits for it
        loop {
            self.wait(&buffer);
            for at in 0..buffer.buffer_cnt() {
                let _ = buffer.consume_buffer(at); // a CPU that is off has none
                let told = std::mem::take(&mut *records.borrow_mut());
                self.dropped(&told);
            }
            if !self.hear() {
                return;
            }
            self.send_due();
            self.publish();
        }
    }

    /// For drops, reports, or what is due.
    fn wait(&self, buffer: &PerfBuffer<'_>) {
        let now = monotonic_ns();
        let due = self
            .waiting
            .due()
            .into_iter()
            .chain(self.asked.due())
            .chain(self.held.due())
            .min()
            .map_or(IDLE, |due| Duration::from_nanos(due.saturating_sub(now)).min(IDLE));
        // SAFETY: the buffer's own descriptor, open as long as it is.
        let drops = unsafe { BorrowedFd::borrow_raw(buffer.epoll_fd()) };
        let mut fds = [PollFd::new(drops, PollFlags::POLLIN), PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut fds, Some(TimeSpec::from(due)), None); // a signal: then nothing is there, and that is fine
        if fds[1].any().unwrap_or(false) {
            let _ = self.wake.read();
        }
    }

    /// This host has dropped segments. Queues free what they drop last first; what is sent again keeps its order.
    fn dropped(&mut self, records: &[Vec<u8>]) {
        let mut segments: Vec<Segment<'_>> = records.iter().filter_map(|record| Segment::read(record)).collect();
        self.stats.unreadable += (records.len() - segments.len()) as u64;
        in_order(&mut segments);
        for segment in &segments {
            match segment.drop.place {
                FAST_OF_PEER => self.tell_peer(segment),
                _ => self.decide(segment),
            }
        }
    }

    fn decide(&mut self, segment: &Segment<'_>) {
        let (mut run, mut stamp) = (0..0, None);
        for n in 0..segment.packets() {
            let mut call = segment.call(n, FAST_DROPPED);
            let decision = self.watch.decide(&mut call).unwrap_or(Decision::Untracked);
            self.stats.note(decision);
            let of_this = (call.stamped != 0).then_some(call.stamp);
            if decision == Decision::Resend && !run.is_empty() && of_this == stamp {
                run.end = n + 1;
                continue;
            }
            self.send_again(segment, std::mem::take(&mut run), stamp);
            match decision {
                Decision::Resend => (run, stamp) = (n..n + 1, of_this),
                Decision::Later => self.keep(segment, n, call),
                Decision::Tell => self.tell(&call, guest_of(&segment.drop.ethernet)),
                _ => {}
            }
        }
        self.send_again(segment, run, stamp);
    }

    fn send_again(&mut self, segment: &Segment<'_>, packets: Range<u32>, stamp: Option<u32>) {
        if packets.is_empty() {
            return;
        }
        let Some(mut frame) = segment.frame(packets.start, packets.end - packets.start) else {
            self.stats.unreadable += 1;
            return;
        };
        if let Some(stamp) = stamp {
            frame.stamp(stamp);
        }
        self.send(self.way_of(segment), &frame, packets.end - packets.start);
        self.stats.delays.note(Time::from_ns(monotonic_ns().saturating_sub(segment.drop.time)));
    }

    /// Into the queue that dropped it if that is of its limit, which it has passed nowhere else; else as if it came from its guest.
    fn way_of(&self, segment: &Segment<'_>) -> Way {
        let drop = &segment.drop;
        match drop.place {
            FAST_LIMITER => Way { device: drop.device, mark: drop.mark, priority: drop.priority },
            _ => Way { device: self.device, mark: drop.key.port, priority: 0 },
        }
    }

    fn send(&mut self, way: Way, frame: &Frame, packets: u32) {
        if self.enter(way, frame) {
            self.stats.resent += u64::from(packets);
            self.stats.resent_segments += 1;
        }
    }

    /// False: it could not be sent.
    pub(super) fn enter(&mut self, way: Way, frame: &Frame) -> bool {
        match self.sender.send(way, &frame.header, &frame.bytes) {
            // The device's own queue has dropped it once more, of which its program tells.
            Err(e) if e.raw_os_error() != Some(nix::libc::ENOBUFS) => {
                self.stats.failures += 1;
                false
            }
            _ => true,
        }
    }

    /// One packet, to be sent when the time has come.
    fn keep(&mut self, segment: &Segment<'_>, n: u32, call: FastCall) {
        let Some(frame) = segment.frame(n, 1) else {
            self.stats.unreadable += 1;
            return self.give_up(call);
        };
        let sends = Sends::Here(self.way_of(segment), frame);
        let packet = Packet { call: FastCall { what: FAST_DUE, ..call }, sends };
        if !self.waiting.put(call.due, packet) {
            self.stats.full += 1;
            self.give_up(call);
        }
    }

    /// Nobody keeps the packet: its guest may send it again.
    pub(super) fn give_up(&self, call: FastCall) {
        // What fails here ends by itself, a round trip or two later.
        let _ = self.watch.decide(&mut FastCall { what: FAST_GIVEN_UP, ..call });
    }

    fn send_due(&mut self) {
        let now = monotonic_ns();
        while let Some(report) = self.asked.take(now) {
            self.reported(&report);
        }
        while let Some(Packet { mut call, sends }) = self.waiting.take(now) {
            match (self.watch.decide(&mut call), sends) {
                (Ok(Decision::Resend), Sends::Here(way, mut frame)) => {
                    if call.stamped != 0 {
                        frame.stamp(call.stamp);
                    }
                    self.stats.resent_later += 1;
                    self.send(way, &frame, 1);
                }
                (Ok(Decision::Resend), Sends::Peer(peer)) => self.ask_peer(peer, &call),
                _ => self.stats.outdated += 1,
            }
        }
        self.held.expire(now);
    }

    /// Gives the guest behind a port three duplicate ACKs.
    pub(super) fn tell(&mut self, call: &FastCall, guest: [u8; 6]) {
        let done = emit::frame(&call.answer, EDGE_MAC, guest).map_err(drop).and_then(|frame| {
            let interface = emit::Interface::open(call.key.port).map_err(drop)?;
            (0..DUPLICATE_ACKS).try_for_each(|_| interface.send(&frame)).map_err(drop)
        });
        if done.is_err() {
            self.stats.failures += 1;
        }
    }

    /// What others say. False: nobody will say anything any more.
    fn hear(&mut self) -> bool {
        use std::sync::mpsc::TryRecvError;
        for _ in 0..REPORTS {
            match self.heard.try_recv() {
                Ok(Said::Reported(report)) => self.reported(&report),
                Ok(Said::Dropped(from)) => self.peer_dropped(&from),
                Ok(Said::Again(from)) => self.send_for_peer(&from),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        let _ = self.wake.write(1); // there may be more
        true
    }

    fn reported(&mut self, report: &Reported) {
        let mut call = FastCall { what: FAST_REPORTED, ..report.call };
        let decision = self.watch.decide(&mut call).unwrap_or(Decision::Untracked);
        match decision {
            Decision::Later if self.asked.put(call.due, *report) => return,
            Decision::Tell => self.tell(&call, report.guest),
            _ => {}
        }
        self.stats.reported[decision as usize - 1] += 1;
    }

    fn publish(&mut self) {
        self.stats.waiting = self.waiting.len() as u64;
        self.stats.held = self.held.len() as u64;
        if let Ok(mut shared) = self.shared.lock() {
            *shared = self.stats;
        }
    }
}

/// Those of one connection by their numbers, which wrap around.
fn in_order(segments: &mut [Segment<'_>]) {
    segments.sort_by_key(|segment| segment.drop.key); // stable: connections keep what they begin with
    for of_one in segments.chunk_by_mut(|a, b| a.drop.key == b.drop.key) {
        let first = of_one[0].drop.seq;
        of_one.sort_by_key(|segment| segment.drop.seq.wrapping_sub(first) as i32);
    }
}

/// Its MAC address.
fn guest_of(ethernet: &[u8; 14]) -> [u8; 6] {
    let mut guest = [0; 6];
    guest.copy_from_slice(&ethernet[6..12]);
    guest
}
