//! Runs jobs, several at a time. Each is kept as soon as it is done.

use super::jobs::{Job, Jobs};
use super::store::Store;
use super::tables;
use crate::run::RunError;
use crate::sharing::threads_of;
use crate::Failure;
use host::measure::{summarise, Buckets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of the jobs that were to run.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) ran: usize,
    /// Jobs that came to nothing, with the reason.
    pub(crate) failed: Vec<(String, String)>,
}

/// Runs these jobs, as many at a time as there are threads; large ones share what others leave. A job that fails, also for want of
/// memory, does not keep others from running; a file that cannot be written does.
///
/// # Errors
/// The file system's, or a scenario that was changed meanwhile.
pub(crate) fn run(jobs: &Jobs, wanted: &[&Job], store: &Store, threads: usize, flows: bool) -> Result<Done, Failure> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done = Mutex::new((Done::default(), None));
    let bar = bar(wanted.len());
    let at_once = threads.clamp(1, wanted.len().max(1));
    let work = |worker| {
        while let Some(job) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let ended = one(jobs, job, store, |hosts| threads_of(worker, threads, at_once, hosts), flows);
            bar.inc(1);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(Ended::Kept) => done.0.ran += 1,
                Ok(Ended::Failed(why)) => done.0.failed.push((job.hash.clone(), why)),
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    done.1.get_or_insert(e);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 1..at_once {
            scope.spawn(move || work(worker));
        }
        work(0);
    });
    bar.finish_and_clear();
    let (mut done, error) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.failed.sort();
    error.map_or(Ok(done), Err)
}

/// What became of one.
enum Ended {
    Kept,
    Failed(String),
}

fn one(
    jobs: &Jobs,
    job: &Job,
    store: &Store,
    threads: impl Fn(usize) -> usize,
    with_flows: bool,
) -> Result<Ended, Failure> {
    let (plan, tight) = jobs.plan(job)?;
    if let Some(why) = tight {
        return Ok(Ended::Failed(why.to_string()));
    }
    let Some(scheme) = plan.schemes.first() else { return Ok(Ended::Kept) };
    let mut experiment = scheme.experiment(job.seed);
    experiment.record.sample_every = units::Time::ZERO; // no series is kept
    let outcome = match host::run_on(&experiment, threads(experiment.topology.n_hosts()), &mut |_| {}) {
        Ok(outcome) => outcome,
        Err(problem) => {
            let failed = RunError::Workload { scheme: job.scheme.clone(), seed: job.seed, problem };
            return Ok(Ended::Failed(failed.to_string()));
        }
    };
    let names: Vec<String> = plan.scenario.workload.iter().map(|w| w.name.clone()).collect();
    let summary = summarise(&outcome, &names, plan.scenario.warmup, &Buckets::default());
    let metrics = frame::parquet(&tables::metrics(&plan, job, &summary)).map_err(Failure::Form)?;
    let flows = with_flows.then(|| frame::parquet(&tables::flows(&plan, job, &outcome))).transpose();
    let flows = flows.map_err(Failure::Form)?;
    store.keep(&job.hash, &metrics, flows.as_deref())?;
    Ok(Ended::Kept)
}

/// Progress on standard error, if that is a terminal.
fn bar(jobs: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(4),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(jobs as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} jobs, {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::Axes;
    use crate::scenario::{Choice, Room};
    use config::Document;
    use units::Bytes;

    #[test]
    fn a_job_for_which_there_is_no_room_keeps_none_from_running() {
        let text = "title = \"t\"\nduration = \"1ms\"\nschemes = [\"ecmp\"]\nseeds = \"1..2\"\n\
                    [topology]\nkind = \"single-switch\"\nhosts = 2\n[[workload]]\nname = \"w\"\npattern = \"stride\"\nk = 1\n\
                    [sweep]\nname = \"hosts\"\nvalues = [20000, 2, 4]\nkeys = [\"topology.hosts\"]\n";
        let mut document = Document::parse("s.toml", text, "p").unwrap();
        let sweep = document.take("sweep").unwrap();
        let axes = Axes::read(&document, sweep).unwrap();
        let room = Room { most: Some(Bytes(20_000_000)), threads: 1 };
        let jobs = Jobs::new(&document, Some(&axes), &[], &Choice::default(), room).unwrap();
        let wanted: Vec<&Job> = jobs.all.iter().collect();
        let said = jobs.fit(wanted.iter().copied()).unwrap_err().to_string();
        assert!(said.contains("topology.hosts: needs about") && said.lines().count() == 1, "{said}");
        assert!(jobs.fit(wanted[2..].iter().copied()).is_ok());
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::at(&scratch.path().join("d"), false).unwrap();
        let done = run(&jobs, &wanted, &store, 2, false).unwrap();
        assert_eq!((done.ran, done.failed.len()), (4, 2));
        assert!(done.failed.iter().all(|(_, why)| why.contains("--memory allows 20 MB")), "{:?}", done.failed);
        assert!(done.failed.iter().all(|(hash, _)| jobs.all[..2].iter().any(|job| job.hash == *hash)));
        assert!(jobs.all[2..].iter().all(|job| store.done(&job.hash)));
    }
}
