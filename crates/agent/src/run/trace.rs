//! Path discovery, as far as it waits for something.

use super::{now, Runner};
use crate::discovery::{Tracer, LOOK};
use crate::pmtu::PathMtus;
use kernel::monotonic_ns;
use std::time::{Duration, Instant};
use tracing::error;

/// Between two times that probes are sent: the rate is kept, a few at a time.
const PAUSE: Duration = Duration::from_millis(1);
/// Between two times that routers are heard: anybody may send what looks like their messages, and the agent has other work.
const LISTEN: Duration = Duration::from_millis(5);
/// The same of those that tell of MTUs, which are few.
const LISTEN_TOO_BIG: Duration = Duration::from_millis(50);

impl Runner {
    /// Who is to be traced?
    pub(super) fn look_who_was_heard(&mut self) {
        if let Err(e) = self.agent.look_who_was_heard() {
            error!("{e}");
        }
        self.next_heard = now() + LOOK;
    }

    /// Probes that are due leave.
    pub(super) fn trace(&mut self) {
        if let Some(tracer) = &mut self.agent.tracer {
            tracer.work(monotonic_ns());
        }
        self.last_trace = now();
        self.follow_paths();
    }

    /// Routers answered.
    pub(super) fn hear_routers(&mut self) {
        if let Some(tracer) = &mut self.agent.tracer {
            tracer.hear(monotonic_ns());
        }
        self.last_heard = now();
        self.follow_paths();
    }

    /// Routers told what packets pass.
    pub(super) fn hear_mtus(&mut self) {
        if let Err(e) = self.agent.hear_mtus() {
            error!("{e}");
            self.look_soon();
        }
        self.last_mtus = now();
    }

    pub(super) fn follow_paths(&mut self) {
        if let Err(e) = self.agent.follow_paths(&mut self.path_lines, now()) {
            error!("{e}");
            self.look_soon();
        }
    }
}

/// Until routers say something.
pub(super) async fn routers(tracer: &Option<Tracer>, last: Instant) {
    match tracer {
        Some(tracer) => {
            tokio::time::sleep_until((last + LISTEN).into()).await;
            tracer.readable().await; // at the end: who stops waiting has heard nothing
        }
        None => std::future::pending().await,
    }
}

/// Until routers tell of MTUs.
pub(super) async fn too_big(path_mtus: &PathMtus, last: Instant) {
    tokio::time::sleep_until((last + LISTEN_TOO_BIG).into()).await;
    path_mtus.readable().await; // at the end, as above
}

/// Until there is something to send, or to give up.
pub(super) async fn due(tracer: &Option<Tracer>, last: Instant) {
    let time = monotonic_ns();
    let Some(due) = tracer.as_ref().and_then(|tracer| tracer.due(time)) else { return std::future::pending().await };
    let due = now() + Duration::from_nanos(due.saturating_sub(time));
    tokio::time::sleep_until(due.max(last + PAUSE).into()).await;
}
