//! FastLane in the kernel edge: what this host drops of its guests' TCP is sent again, and what others say was dropped is acted on.
//!
//! A program hears of each packet that the kernel drops (`datapath/kernel/drops.h`), and hands those of guests' connections to the thread
//! here. `datapath/fastlane.h` decides about each packet, under the connection's lock in the data path. What is to be sent again comes in
//! by a pair of devices, at whose other end the guest's program takes it as the guest's own, so it passes share, stages and queues as
//! that would; but not the guest's own limit, which it has passed. If the agent ends, guests are on their own.
//!
//! Whoever else knows of a drop calls `Agent::report_drop`. Edges tell one another of what they drop of each other's guests (`elsewhere`).

mod asked;
mod elsewhere;
mod held;
mod quota;
mod segment;
mod waiting;
mod work;

use agent_api::config::FastLane as Config;
use edge::delays::Delays;
use edge::fastlane::Decision;
pub(super) use elsewhere::FromPeer;
use kernel::again::Sender;
use kernel::state::fastlane::{FastCall, FastCounts, FAST_INTERVAL_NS};
use kernel::{drop_reasons, KernelEdge};
use nix::sys::eventfd::{EfdFlags, EventFd};
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

/// What the thread was started with; with others it is started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) config: Config,
    /// ifindex of both ends of the pair by which segments come again.
    pub(super) devices: [u32; 2],
}

/// What the thread has done since it began, in packets unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// By [`Decision`], from [`Decision::Resend`] on.
    decisions: [u64; Decision::ALL.len()],
    /// The same of what others told.
    reported: [u64; Decision::ALL.len()],
    resent: u64,
    /// The segments in which they were sent.
    resent_segments: u64,
    /// Of `resent`: they had to wait.
    resent_later: u64,
    /// They waited in vain: the bytes arrived, or the guest sent them itself.
    outdated: u64,
    /// That could not wait for want of room.
    full: u64,
    /// That could not be sent.
    failures: u64,
    /// Segments of which nothing could be made.
    unreadable: u64,
    /// That wait now.
    waiting: u64,
    /// Of guests elsewhere, dropped here, of which their edges were told.
    told_peers: u64,
    /// Those of them that are kept now.
    held: u64,
    /// Those that were sent again, because their edges asked for them.
    resent_for_peers: u64,
    /// How often peers asked for what is not kept.
    unheld: u64,
    /// Of these, when it had been sent again already, and had not been dropped since.
    unheld_sent: u64,
    /// The same as `decisions` of what peers told.
    elsewhere: [u64; Decision::ALL.len()],
    /// Of what peers told, beyond the rate.
    peers_withheld: u64,
    /// How often peers were asked to send again.
    asked_peers: u64,
    /// From the drop to the sending, of segments that did not wait.
    delays: Delays,
}

impl Stats {
    fn note(&mut self, decision: Decision) {
        self.decisions[decision as usize - 1] += 1;
    }

    fn note_peers(&mut self, decision: Decision) {
        self.elsewhere[decision as usize - 1] += 1;
    }

    fn of(&self, decision: Decision) -> u64 {
        self.decisions[decision as usize - 1]
    }

    /// What peers told, without those that were sent again, wait for that, or of which guests were told or knew.
    fn ignored_of_peers(&self) -> u64 {
        let acted = [Decision::Resend, Decision::Later, Decision::Tell, Decision::Leave];
        let acted: u64 = acted.iter().map(|decision| self.elsewhere[*decision as usize - 1]).sum();
        self.elsewhere.iter().sum::<u64>() - acted
    }

    /// What became of drops that others told of: in all, guests told, guests that knew, and those that nobody could help.
    fn of_reports(&self) -> [u64; 4] {
        let of = |decision: Decision| self.reported[decision as usize - 1];
        let unhelped = of(Decision::Unkept) + of(Decision::Later);
        [self.reported.iter().sum(), of(Decision::Tell), of(Decision::Leave), unhelped]
    }
}

/// A drop that somebody told of, without the packet's payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    /// Of which [`FastCall::what`] is filled in here.
    pub(super) call: FastCall,
    /// MAC address.
    pub(super) guest: [u8; 6],
}

/// What others tell the thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    Reported(Reported),
    /// A peer has dropped packets of a guest here.
    Dropped(FromPeer),
    /// A peer asks for what was dropped here of a guest of its own.
    Again(FromPeer),
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

/// Name, help and value of all that is counted.
pub(super) fn counters(counts: &FastCounts, stats: &Stats) -> Vec<(&'static str, &'static str, u64)> {
    use Decision as D;
    let [reports, told, left, unhelped] = stats.of_reports();
    vec![
        ("drop_reports_told_guests", "Switches' reports that guests were told by three duplicate ACKs", told),
        ("drop_reports_left", "Switches' reports of drops that guests knew of already", left),
        ("drop_reports_unhelped", "Switches' reports of drops of which guests cannot be told", unhelped),
        (
            "drop_reports_ignored",
            "Switches' reports of what is not outstanding or was told before",
            reports - told - left - unhelped,
        ),
        (
            "fastlane_told_segments",
            "Segments of guests that this host dropped, as its programs told the agent",
            counts.told,
        ),
        ("fastlane_told_bytes", "Bytes of these", counts.told_bytes),
        ("fastlane_foreign_segments", "Dropped TCP segments of no connection that is followed", counts.foreign),
        ("fastlane_withheld_segments", "Dropped segments beyond fastlane.rate of their guest", counts.withheld),
        ("fastlane_large_segments", "Dropped segments longer than can be told", counts.large),
        ("fastlane_lost_segments", "Dropped segments for which the agent's buffer had no room", counts.lost),
        ("fastlane_unreadable_segments", "Dropped segments of which no frame could be made", stats.unreadable),
        ("fastlane_resent", "Packets that were sent again", stats.resent),
        ("fastlane_resent_segments", "The segments in which they were sent", stats.resent_segments),
        ("fastlane_resent_later", "Of these packets, those that had been dropped again and waited", stats.resent_later),
        ("fastlane_postponed", "Packets that were dropped again too soon", stats.of(D::Later)),
        ("fastlane_outdated", "Packets that waited in vain, for what they had has arrived", stats.outdated),
        ("fastlane_told_guests", "Guests that were told by three duplicate ACKs", stats.of(D::Tell)),
        ("fastlane_left", "Dropped packets that their guests knew of already", stats.of(D::Leave)),
        ("fastlane_untracked", "Dropped packets of connections whose numbers are not known", stats.of(D::Untracked)),
        ("fastlane_acked", "Dropped packets whose bytes have arrived", stats.of(D::Acked)),
        ("fastlane_outside", "Reports of packets that nobody has sent so", stats.of(D::Outside) + stats.of(D::Empty)),
        ("fastlane_stale", "Dropped packets of which a later copy is under way", stats.of(D::Stale)),
        ("fastlane_repeated", "Drops that were told of before", stats.of(D::Repeated)),
        ("fastlane_unkept", "Dropped packets of which nobody has the bytes", stats.of(D::Unkept)),
        ("fastlane_full", "Packets that could not wait for want of room", stats.full),
        ("fastlane_failures", "Packets of the edge's own that could not be sent", stats.failures),
        (
            "fastlane_told_peers",
            "Packets of guests elsewhere, dropped here, of which their edges were told",
            stats.told_peers,
        ),
        ("fastlane_resent_for_peers", "Of these, those sent again because their edges asked", stats.resent_for_peers),
        ("fastlane_unheld", "Times that peers asked for what is not kept", stats.unheld),
        ("fastlane_unheld_sent", "Of these, when it had been sent again already", stats.unheld_sent),
        ("fastlane_peers_told", "Packets of guests that peers told to have dropped", stats.elsewhere.iter().sum()),
        ("fastlane_peers_ignored", "Of these, those of which nothing came", stats.ignored_of_peers()),
        ("fastlane_peers_withheld", "The same, beyond fastlane.rate of their guest", stats.peers_withheld),
        ("fastlane_asked_peers", "Times that peers were asked to send again what they had dropped", stats.asked_peers),
        (
            "fastlane_suppressed_segments",
            "Segments of guests of which the edge's own copies were under way",
            counts.suppressed,
        ),
        ("fastlane_windows_lowered", "ACKs whose receive window was lowered after a drop", counts.lowered),
        ("fastlane_untracked_segments", "Segments without room for their connection's state", counts.full),
    ]
}

/// The same of what is now.
pub(super) fn gauges(stats: &Stats) -> Vec<(&'static str, &'static str, f64)> {
    let seconds = |share| stats.delays.quantile(share).map_or(0.0, |delay| delay.as_ns() as f64 / 1e9);
    vec![
        ("fastlane_waiting", "Packets that wait to be sent again", stats.waiting as f64),
        ("fastlane_held", "Packets of guests elsewhere, dropped here, that are kept", stats.held as f64),
        ("fastlane_resend_p50_seconds", "From a drop to sending again at once, median", seconds(0.5)),
        ("fastlane_resend_p99_seconds", "The same, 99 in 100", seconds(0.99)),
    ]
}
