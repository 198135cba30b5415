//! What the thread does.

use super::backlog::Backlog;
use super::frame::{self, Diverted};
use super::sign::Sign;
use edge::diverted::{Bounce, Holder};
use edge::{reorder, Slot};
use kernel::monotonic_ns;
use kernel::state::FlowSlotKey;
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use port::priority::hurry_this_thread;
use port::{FrameId, Pool, Port, Tap, VnetHeader};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::Time;

/// Frames held or under way at once: of 64 KB each at most, in memory that is used only then.
pub(super) const FRAMES: u32 = 1024;
/// Frames read at once: what is in order of them is given back before more is read.
pub(super) const BATCH: usize = 16;
/// Between two signs of life, at most; a fifth of what the data path allows.
const BEAT: Time = Time::from_ms(20);
/// Between two looks at what the data path is to hear, while segments are under way.
const LOOK: Time = Time::from_ms(5);
/// Before another attempt, where the device does not work.
const PAUSE: Duration = Duration::from_millis(20);

/// What the thread has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub reorder: reorder::Counters,
    /// Flows that it knows now.
    pub flows: usize,
    /// Frames that could not be given back, or were no diverted frames.
    pub lost: u64,
}

pub(super) struct Worker {
    tap: Tap,
    sign: Sign,
    holder: Holder,
    pool: Pool,
    frames: Vec<FrameId>,
    /// By frame.
    diverted: Vec<Option<Diverted>>,
    stop: Arc<EventFd>,
    stats: Arc<Mutex<Stats>>,
    lost: u64,
    next_beat: Time,
    backlog: Backlog,
}

fn now() -> Time {
    Time::from_ns(monotonic_ns())
}

impl Worker {
    pub(super) fn new(
        tap: Tap,
        sign: Sign,
        settings: reorder::Config,
        stop: Arc<EventFd>,
        stats: Arc<Mutex<Stats>>,
    ) -> Worker {
        Worker {
            tap,
            sign,
            holder: Holder::new(settings),
            pool: Pool::new(FRAMES),
            frames: Vec::new(),
            diverted: vec![None; FRAMES as usize],
            stop,
            stats,
            lost: 0,
            next_beat: Time::ZERO,
            backlog: Backlog::new(BATCH),
        }
    }

    /// Until it is told to stop.
    pub(super) fn run(mut self) {
        hurry_this_thread();
        self.beat();
        while !self.wait() {
            let began = now();
            match self.read() {
                Ok(n) => self.backlog.note(began, n),
                // Somebody removed the device.
                Err(e) if e.raw_os_error() == Some(nix::libc::EBADFD) => return,
                Err(_) => {
                    // As while it is down. Without a sign of life nothing is diverted.
                    std::thread::sleep(PAUSE);
                    continue;
                }
            }
            self.holder.end_part(now(), self.backlog.complete());
            self.give_back();
            self.beat();
        }
        let _ = self.sign.write(0); // at worst the data path waits a tenth of a second
        for _ in 0..FRAMES as usize / BATCH {
            if !matches!(self.read(), Ok(1..)) {
                break;
            }
            self.holder.end_part(now(), self.backlog.complete());
            self.give_back();
        }
        self.holder.release_all();
        self.give_back();
    }

    /// Waits for frames, or for what is due. True: to stop.
    fn wait(&self) -> bool {
        let now = now();
        let look = if self.holder.is_busy() { LOOK } else { BEAT };
        let due = self.holder.poll_timeout().map_or(look, |due| due.saturating_sub(now).min(look));
        let due = TimeSpec::from(Duration::from_nanos(due.as_ns()));
        let mut fds =
            [PollFd::new(self.tap.fd(), PollFlags::POLLIN), PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        let _ = ppoll(&mut fds, Some(due), None); // a signal: then nothing is there, and that is fine
        fds[1].any().unwrap_or(false)
    }

    /// Takes what waits, at most one batch.
    fn read(&mut self) -> std::io::Result<usize> {
        let mut frames = std::mem::take(&mut self.frames);
        let read = self.tap.receive(&mut self.pool, &mut frames, BATCH);
        let now = now();
        for id in frames.drain(..) {
            let Some(diverted) = frame::read(self.pool.frame(id), self.sign.secret) else {
                // The host itself sends on every device that is up.
                self.pool.release(id);
                continue;
            };
            let b = &diverted.bounce;
            let bounce =
                Bounce { number: b.number, first: b.first != 0, exp: b.exp, cell: b.newest_cell, payload: b.payload };
            let key = (diverted.packet.flow_key().reversed(), b.vni);
            self.diverted[id as usize] = Some(diverted);
            self.holder.take(now, key, &bounce, Slot(id), &diverted.packet, diverted.stamp);
        }
        self.frames = frames;
        read
    }

    fn give_back(&mut self) {
        while let Some(Slot(id)) = self.holder.poll_release() {
            if !self.write(id) {
                self.lost += 1;
            }
            self.diverted[id as usize] = None;
            self.pool.release(id);
        }
        while let Some(((key, vni), number)) = self.holder.poll_mark(self.backlog.complete()) {
            let mark = frame::mark(self.sign.secret, FlowSlotKey { key, vni }, number);
            // One that fails is made up for by the next, or by the data path's patience.
            let _ = self.tap.send(&VnetHeader::default(), &[IoSlice::new(&mark)]);
        }
    }

    fn write(&mut self, id: FrameId) -> bool {
        let Some(diverted) = &self.diverted[id as usize] else { return false };
        let frame = self.pool.frame(id);
        let Some(head) = frame::give_back(self.pool.header(id), frame, diverted) else { return false };
        let parts = [IoSlice::new(&head.bytes), IoSlice::new(&frame[head.rest..])];
        self.tap.send(&head.header, &parts).unwrap_or(false)
    }

    fn beat(&mut self) {
        let now = now();
        if now < self.next_beat {
            return;
        }
        self.next_beat = now + BEAT;
        let _ = self.sign.write(now.as_ns());
        if let Ok(mut stats) = self.stats.lock() {
            let (reorder, flows) = (*self.holder.counters(), self.holder.flow_count());
            *stats = Stats { reorder, flows, lost: self.lost };
        }
    }
}
