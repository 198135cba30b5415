//! Progress of `lab run` on standard error, if that is a terminal.

use lab::traffic::Progress;
use std::io::IsTerminal;
use units::Time;

/// One line that is written over and over.
pub(super) struct Line {
    terminal: bool,
    label: String,
    /// Runs in all, and which this is, from 1.
    runs: usize,
    run: usize,
    /// What each run lasts at least, in the lab's time.
    duration: Time,
}

/// What a lab takes to come up and go down, about.
const AROUND_S: f64 = 1.0;

impl Line {
    pub(super) fn new(runs: usize, duration: Time) -> Line {
        Line { terminal: std::io::stderr().is_terminal(), label: String::new(), runs, run: 0, duration }
    }

    pub(super) fn begin(&mut self, scheme: &str, seed: u64) {
        self.run += 1;
        self.label = format!("{scheme}, seed {seed}");
        if self.terminal {
            eprint!("\r\x1b[K{}: coming up", self.shown());
        }
    }

    pub(super) fn show(&self, progress: Progress) {
        if self.terminal {
            let Progress { now, end, finished, flows } = progress;
            let (now_s, end_s) = (now.as_secs_f64(), end.as_secs_f64());
            let left = self.left_s(now);
            eprint!(
                "\r\x1b[K{}: {now_s:.1} of at most {end_s:.1} s, {finished} of {flows} flows; about {left:.0} s left",
                self.shown()
            );
        }
    }

    pub(super) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn shown(&self) -> String {
        match self.runs {
            1 => self.label.clone(),
            runs => format!("run {} of {runs}, {}", self.run, self.label),
        }
    }

    /// Seconds of all runs, without the drain.
    fn left_s(&self, now: Time) -> f64 {
        let later = (self.duration.as_secs_f64() + AROUND_S) * self.runs.saturating_sub(self.run) as f64;
        self.duration.saturating_sub(now).as_secs_f64() + later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_counts_the_runs_to_come() {
        let mut line = Line::new(3, Time::from_secs(10));
        line.begin("ecmp", 1);
        assert_eq!(line.left_s(Time::from_secs(4)), 6.0 + 2.0 * 11.0);
        line.begin("ecmp", 2);
        line.begin("presto", 1);
        assert_eq!(line.left_s(Time::from_secs(12)), 0.0, "it drains");
    }
}
