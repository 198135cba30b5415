//! Path discovery, as far as it waits for something.

use super::wait::now;
use super::Runner;
use crate::discovery::LOOK;
use kernel::monotonic_ns;
use tracing::error;

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
