//! Runs every scheme with every seed, several at a time.

use crate::scenario::Plan;
use crate::sharing::threads_of;
use host::outcome::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Why a run came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("scheme {scheme}, seed {seed}: {problem}")]
    Workload { scheme: String, seed: u64, problem: host::workload::WorkloadError },
}

/// One scheme with one seed, done.
#[derive(Debug)]
pub struct Finished {
    pub scheme: String,
    pub seed: u64,
    pub outcome: Outcome,
    pub wall: Duration,
}

/// As many as the machine has cores.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Parses `--threads` and `--jobs`: 1 to 1024.
///
/// # Errors
/// Everything else.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=1024).contains(&n) => Ok(n),
        _ => Err("give a number from 1 to 1024".to_owned()),
    }
}

/// Results in the plan's order of schemes, then of seeds, however many threads made them.
///
/// # Errors
/// The first in that order.
pub fn run_all(plan: &Plan, threads: usize, bar: &Bar) -> Result<Vec<Finished>, RunError> {
    let jobs: Vec<(usize, u64)> = plan
        .schemes
        .iter()
        .enumerate()
        .flat_map(|(scheme, _)| plan.scenario.seeds.0.iter().map(move |&seed| (scheme, seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots: Vec<Mutex<Option<Result<Finished, RunError>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let at_once = threads.clamp(1, jobs.len().max(1));
    let work = |worker| loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(&(scheme, seed)) = jobs.get(at) else { break };
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let result = run_one(plan, scheme, seed, |hosts| threads_of(worker, threads, at_once, hosts), bar);
        failed.fetch_or(result.is_err(), Ordering::Relaxed);
        if let Ok(mut slot) = slots[at].lock() {
            *slot = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for worker in 1..at_once {
            scope.spawn(move || work(worker));
        }
        work(0);
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

#[allow(clippy::disallowed_methods)] // how long the run took is reported, not used
fn run_one(
    plan: &Plan,
    scheme: usize,
    seed: u64,
    threads: impl Fn(usize) -> usize,
    bar: &Bar,
) -> Result<Finished, RunError> {
    let scheme = &plan.schemes[scheme];
    let experiment = scheme.experiment(seed);
    let threads = threads(experiment.topology.n_hosts());
    let begun = Instant::now();
    let mut reported = (0, 0);
    let outcome = host::run_on(&experiment, threads, &mut |progress| {
        let now = progress.now.as_ns();
        bar.advance(now.saturating_sub(reported.0), progress.packet_hops.saturating_sub(reported.1));
        reported = (now, progress.packet_hops);
    })
    .map_err(|problem| RunError::Workload { scheme: scheme.name.clone(), seed, problem })?;
    let until = plan.scenario.duration.saturating_add(plan.scenario.drain).as_ns();
    bar.advance(until.saturating_sub(reported.0), 0);
    if let Some(why) = &outcome.windows.refused {
        bar.suspend(|| crate::say::note(&format!("{}, seed {seed}, runs on one thread: {why}", scheme.name)));
    }
    Ok(Finished { scheme: scheme.name.clone(), seed, outcome, wall: begun.elapsed() })
}

/// Memory of which people want to know before a run takes it, bytes.
const MUCH: f64 = 1e9;

/// Progress on standard error, if that is a terminal: simulated time done, packet-hops per second, time left; and before, if it is
/// [`MUCH`], how much memory the runs take.
pub struct Bar {
    bar: ProgressBar,
    hops: AtomicU64,
    begun: Instant,
}

impl Bar {
    /// For the runs of these plans.
    #[allow(clippy::disallowed_methods)] // the rate shown is per second of wall time
    pub fn new<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Bar {
        let mut memory = 0.0f64;
        let total = plans
            .into_iter()
            .map(|plan| {
                memory = memory.max(plan.memory());
                let runs = plan.schemes.len() * plan.scenario.seeds.0.len();
                plan.scenario.duration.saturating_add(plan.scenario.drain).as_ns().saturating_mul(runs as u64)
            })
            .fold(0, u64::saturating_add);
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(4),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}% {msg}, {eta} left") {
            bar.set_style(style);
        }
        if memory >= MUCH {
            bar.println(format!("The runs take about {} of memory", crate::scenario::shown_bytes(memory)));
        }
        Bar { bar, hops: AtomicU64::new(0), begun: Instant::now() }
    }

    fn advance(&self, ns: u64, hops: u64) {
        let hops = self.hops.fetch_add(hops, Ordering::Relaxed) + hops;
        self.bar.inc(ns);
        if !self.bar.is_hidden() {
            let rate = hops as f64 / self.begun.elapsed().as_secs_f64().max(1e-3);
            self.bar.set_message(format!("{:.2} M packet-hops/s", rate / 1e6));
        }
    }

    /// Prints while the bar is away.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
