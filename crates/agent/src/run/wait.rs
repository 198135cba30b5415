//! What the agent's loop waits for, and by which clocks.

use crate::discovery::Tracer;
use crate::pmtu::PathMtus;
use crate::reports::Reports;
use kernel::monotonic_ns;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Between two times that probes are sent: the rate is kept, a few at a time.
const PAUSE: Duration = Duration::from_millis(1);
/// Between two times that routers are heard: anybody may send what looks like their messages, and the agent has other work.
const LISTEN: Duration = Duration::from_millis(5);
/// The same of those that tell of MTUs, which are few.
const LISTEN_TOO_BIG: Duration = Duration::from_millis(50);

/// Until `time` of the monotonic clock, ns, and 50 ms after `last`: what cannot be done must not keep the agent busy. Both are
/// points in time: whatever else wakes the agent does not put this off.
pub(super) async fn until(time: Option<u64>, last: Instant) {
    let Some(time) = time else { return std::future::pending().await };
    let due = now() + Duration::from_nanos(time.saturating_sub(monotonic_ns()));
    tokio::time::sleep_until(due.max(last + Duration::from_millis(50)).into()).await;
}

/// Until there may be events.
pub(super) async fn readable(events: &AsyncFd<OwnedFd>) {
    match events.readable().await {
        Ok(mut ready) => ready.clear_ready(),
        Err(_) => std::future::pending().await,
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

/// Until there are reports of drops, not before `time`.
pub(super) async fn reports(reports: &Option<Reports>, time: Instant) {
    let Some(reports) = reports else { return std::future::pending().await };
    tokio::time::sleep_until(time.into()).await;
    reports.readable().await;
}

/// What this thread, which does all of the agent's work, has used.
pub(super) fn cpu_time() -> Duration {
    nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

#[allow(clippy::disallowed_methods, reason = "the agent runs in real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}
