//! FastLane in the kernel edge: what this host drops of its guests' TCP is sent again, and what others say was dropped is acted on.
//!
//! A program hears of each packet that the kernel drops (`datapath/kernel/drops.h`), and hands those of guests' connections to the thread
//! here. `datapath/fastlane.h` decides about each packet, under the connection's lock in the data path.
//!
//! What is to be sent again enters by a pair of devices. At its other end the guest's program takes the segment as the guest's own. So the
//! segment passes share, stages and queues like any other, but not the guest's own limit, which it has passed before. If the agent ends,
//! guests are on their own.
//!
//! Whoever else knows of a drop calls `Agent::report_drop`. Edges tell one another of what they drop of each other's guests (`elsewhere`).

mod asked;
mod elsewhere;
mod held;
mod quota;
mod said;
mod segment;
mod stats;
mod waiting;
mod work;

use kernel::again::Sender;
use kernel::state::fastlane::FAST_INTERVAL_NS;
use kernel::{drop_reasons, KernelEdge};
use nix::sys::eventfd::{EfdFlags, EventFd};
pub(super) use said::{FromPeer, Reported, Said, Settings};
pub(super) use stats::{counters, gauges, Stats};
use std::io;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::Time;
use work::Worker;

/// Reports, and what peers say, that wait for the thread.
const REPORTS: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
    #[error("{0}")]
    Host(String),
}

/// The thread's handle: dropping it ends the thread.
#[derive(Debug)]
pub(super) struct FastLane {
    pub(super) settings: Settings,
    said: Option<SyncSender<Said>>,
    wake: Arc<EventFd>,
    stats: Arc<Mutex<Stats>>,
    thread: Option<JoinHandle<()>>,
}

impl FastLane {
    pub(super) fn start(edge: &KernelEdge, settings: Settings) -> Result<FastLane, Error> {
        let reasons = drop_reasons().map_err(Error::Host)?;
        let bytes = settings.config.rate.bytes_in(Time::from_ns(FAST_INTERVAL_NS));
        let watch = edge.watch_drops(&reasons, bytes)?;
        let sender = Sender::open().map_err(|e| Error::System("open a packet socket", e))?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let wake = Arc::new(wake.map_err(|e| Error::System("make an event", e.into()))?);
        let (said, heard) = sync_channel(REPORTS);
        let stats = Arc::new(Mutex::new(Stats::default()));
        let (begun, hears) = sync_channel(1);
        let worker = Worker::new(watch, sender, &settings, heard, Arc::clone(&wake), Arc::clone(&stats));
        let thread = std::thread::Builder::new().name("selvedge-fast".into()).spawn(move || worker.run(&begun));
        let thread = thread.map_err(|e| Error::System("start a thread", e))?;
        match hears.recv() {
            Ok(told) => told?,
            Err(_) => return Err(Error::Host("its thread has ended".into())),
        }
        Ok(FastLane { settings, said: Some(said), wake, stats, thread: Some(thread) })
    }

    /// False if the thread ended by itself.
    pub(super) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats.lock().map(|stats| *stats).unwrap_or_default()
    }

    /// False if too many wait already.
    pub(super) fn say(&self, what: Said) -> bool {
        let taken = self.said.as_ref().is_some_and(|said| said.try_send(what).is_ok());
        let _ = self.wake.write(1); // a counter: it cannot be full
        taken
    }
}

impl Drop for FastLane {
    fn drop(&mut self) {
        self.said = None;
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
