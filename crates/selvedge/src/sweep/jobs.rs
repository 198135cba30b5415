//! The jobs of a sweep: each point with each scheme and each seed, named by what decides its result.

use crate::axes::{Axes, Point};
use crate::input;
use crate::scenario::{Choice, Plan, RecordTable, Room, Seeds};
use config::{both, closest, ConfigError, Document};
use ring::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use units::{Bytes, Time};

/// What a job was run by: the version, and a hash of the sources that decide what a run yields.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "\n", env!("SELVEDGE_SOURCES"));

/// More would be a mistake.
const MOST_JOBS: usize = 1_000_000;

/// One scheme with one seed at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// 16 hexadecimal digits. Two points of the same effective configuration have the same job.
    pub(crate) hash: String,
    /// Place in [`Jobs::points`].
    pub(crate) point: usize,
    pub(crate) scheme: String,
    pub(crate) seed: u64,
}

/// All of them, in the order of points, schemes and seeds.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) axes: Vec<String>,
    pub(crate) points: Vec<Point>,
    pub(crate) all: Vec<Job>,
    documents: Vec<Document>,
    room: Room,
    /// Points that need more memory than there is here, and what says so.
    tight: BTreeMap<usize, ConfigError>,
}

/// A plan, and what says that there is no room for it here, if there is none.
type Planned = (Plan, Option<ConfigError>);

impl Jobs {
    /// Plans every point: what is wrong at one is told before anything runs. `axes` are those of the document, if it has any; `at`
    /// chooses points. Where there is no room for a point its jobs are known all the same, because others may run them: [`Jobs::fit`].
    ///
    /// # Errors
    /// All that makes no sense at any point, labels that no point has, too many jobs.
    pub(crate) fn new(
        document: &Document,
        axes: Option<&Axes>,
        at: &[String],
        choice: &Choice,
        room: Room,
    ) -> Result<Jobs, ConfigError> {
        let points = points(axes, at)?;
        let mut jobs = Jobs {
            axes: axes.into_iter().flat_map(Axes::names).map(str::to_owned).collect(),
            points: Vec::new(),
            all: Vec::new(),
            documents: Vec::new(),
            room,
            tight: BTreeMap::new(),
        };
        let mut all = Ok(());
        for point in points {
            let mut document = document.clone();
            let applied = axes.map_or(Ok(()), |axes| axes.apply(&point, &mut document));
            all = both(all, applied.and_then(|()| jobs.add(point, document, choice))).map(drop);
            if all.as_ref().is_err_and(ConfigError::is_full) {
                break;
            }
            if jobs.all.len() > MOST_JOBS {
                let problem = format!("makes more than {MOST_JOBS} jobs");
                return Err(ConfigError::new(jobs.documents[0].name(), problem, "choose fewer points or seeds"));
            }
        }
        all.map(|()| jobs)
    }

    fn add(&mut self, point: Point, document: Document, choice: &Choice) -> Result<(), ConfigError> {
        let ((plan, tight), seeds) = self.point(&document, choice)?;
        plan.modelled()?;
        if let Some(seed) = seeds.iter().find(|seed| i64::try_from(**seed).is_err()) {
            let problem = format!("seed {seed} has no place in a table of results");
            return Err(ConfigError::new(document.name(), problem, "give seeds below 2^63"));
        }
        let content = content(&document, &plan)?;
        let n = self.points.len();
        self.tight.extend(tight.map(|why| (n, why)));
        for scheme in &plan.schemes {
            for &seed in &seeds {
                let hash = hash(BUILD, &plan.effective_of(&scheme.name, seed), &content);
                self.all.push(Job { hash, point: n, scheme: scheme.name.clone(), seed });
            }
        }
        self.points.push(point);
        self.documents.push(document);
        Ok(())
    }

    /// The plan of a point with the seeds that run at a time, and all seeds.
    fn point(&self, document: &Document, choice: &Choice) -> Result<(Planned, Vec<u64>), ConfigError> {
        let given = document.table().get("seeds").cloned();
        // Seeds that cannot be read are an error of the plan.
        let of_file = given.and_then(|seeds| seeds.try_into().ok()).unwrap_or(Seeds(vec![1]));
        let Seeds(seeds) = choice.seeds.clone().unwrap_or(of_file);
        // Memory holds the runs that there are at a time, not all seeds.
        let at_once = Seeds(seeds.iter().take(self.room.threads.max(1)).copied().collect());
        let planned = planned(document, &Choice { seeds: Some(at_once), ..choice.clone() }, self.room)?;
        Ok((planned, seeds))
    }

    /// Is there room here for these jobs?
    ///
    /// # Errors
    /// The points for which there is none.
    pub(crate) fn fit<'a>(&self, jobs: impl IntoIterator<Item = &'a Job>) -> Result<(), ConfigError> {
        let mut points: Vec<usize> = jobs.into_iter().map(|job| job.point).collect();
        points.dedup();
        let mut all = Ok(());
        for why in points.iter().filter_map(|point| self.tight.get(point)) {
            all = both(all, Err::<(), _>(why.clone())).map(drop);
        }
        all
    }

    /// The plan of every point, and how many seeds it has; `choice` is that of [`Jobs::new`].
    ///
    /// # Errors
    /// A file that has changed since.
    pub(crate) fn plans(&self, choice: &Choice) -> Result<Vec<(Plan, usize)>, ConfigError> {
        let of = |document| self.point(document, choice).map(|((plan, _), seeds)| (plan, seeds.len()));
        self.documents.iter().map(of).collect()
    }

    /// The plan of one job alone, with the room that there is now.
    ///
    /// # Errors
    /// As [`Jobs::new`]; a file that has changed since.
    pub(crate) fn plan(&self, job: &Job) -> Result<Planned, ConfigError> {
        let document = &self.documents[job.point];
        let choice = Choice { schemes: vec![job.scheme.clone()], seeds: Some(Seeds(vec![job.seed])) };
        let (plan, tight) = planned(document, &choice, Room { threads: 1, ..self.room })?;
        if hash(BUILD, &plan.effective(), &content(document, &plan)?) != job.hash {
            let problem = format!("a file that it names has changed since job {} was listed", job.hash);
            return Err(ConfigError::new(document.name(), problem, "run the command again"));
        }
        Ok((plan, tight))
    }

    /// The jobs whose hash begins so, which are one job at several points if they are more than one.
    ///
    /// # Errors
    /// None, or different ones.
    pub(crate) fn named(&self, start: &str) -> Result<&Job, ConfigError> {
        let fail = |problem: String, remedy: String| Err(ConfigError::new("--job", problem, remedy));
        let mut found = self.all.iter().filter(|job| !start.is_empty() && job.hash.starts_with(start));
        let Some(first) = found.next() else {
            let near = closest(start, self.all.iter().map(|job| job.hash.as_str()));
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let remedy = format!("{near}`--list` names the {} jobs of this version", self.all.len());
            return fail(format!("there is no job {start:?}"), remedy);
        };
        match found.find(|job| job.hash != first.hash) {
            Some(other) => fail(
                format!("{start:?} is the beginning of {} and {}", first.hash, other.hash),
                "give more digits".to_owned(),
            ),
            None => Ok(first),
        }
    }
}

#[cfg(test)]
impl Jobs {
    /// These jobs, of no scenario.
    pub(crate) fn of(all: Vec<Job>) -> Jobs {
        let (points, documents, tight) = (Vec::new(), Vec::new(), BTreeMap::new());
        Jobs { axes: Vec::new(), points, all, documents, room: Room::default(), tight }
    }
}

/// # Errors
/// All that is wrong but for the room.
fn planned(document: &Document, choice: &Choice, room: Room) -> Result<Planned, ConfigError> {
    let (document, sample_every) = unsampled(document);
    let within = |room| -> Result<Plan, ConfigError> {
        let mut plan = Plan::within(&document, choice, room)?;
        if let Some(given) = sample_every {
            plan.scenario.record.sample_every = given;
        }
        Ok(plan)
    };
    match within(room) {
        Ok(plan) => Ok((plan, None)),
        Err(why) => within(Room { most: Some(Bytes(u64::MAX)), ..room }).map(|plan| (plan, Some(why))),
    }
}

/// Jobs keep no series: the scenario without them, so that no samples are counted, and the interval that it gives them. A value that makes
/// no sense stays, to be told.
fn unsampled(document: &Document) -> (Document, Option<Time>) {
    let given = match document.table().get("record").map(|record| record.get("sample_every")) {
        None | Some(None) => Some(RecordTable::default().sample_every),
        Some(Some(given)) => given.as_str().and_then(|text| text.parse().ok()),
    };
    let sensible = |every: &Time| *every >= Time::from_us(1) && *every <= Time::from_secs(100_000);
    let mut without = document.clone();
    match given.filter(sensible) {
        Some(given) if without.set("record.sample_every=0s").is_ok() => (without, Some(given)),
        _ => (document.clone(), None),
    }
}

/// One point without a name where there are no axes.
fn points(axes: Option<&Axes>, at: &[String]) -> Result<Vec<Point>, ConfigError> {
    match (axes, at.first()) {
        (Some(axes), _) => axes.points(at),
        (None, None) => Ok(vec![Point::default()]),
        (None, Some(at)) => {
            let problem = format!("{at:?} names a point, and the scenario has no [sweep]");
            Err(ConfigError::new("--at", problem, "leave it out"))
        }
    }
}

/// What stands in the files that the scenario names: a topology, distributions, lists of flows.
fn content(document: &Document, plan: &Plan) -> Result<Vec<[u8; 32]>, ConfigError> {
    let digest = |(path, most): (PathBuf, u64)| -> Result<[u8; 32], ConfigError> {
        let bytes = files::read_regular(&path, most).map_err(|e| {
            let problem = format!("cannot be read: {e}");
            ConfigError::new(path.display().to_string(), problem, "a sweep reads it for every job: give a regular file")
        })?;
        let mut all = [0; 32];
        all.copy_from_slice(ring::digest::digest(&SHA256, &bytes).as_ref());
        Ok(all)
    };
    let beside = |key: &str, name: &str| Path::new(&document.directory_of(key)).join(name);
    let scenario = &plan.scenario;
    let topology = scenario.topology.path.iter().map(|name| (beside("topology.path", name), input::TOPOLOGY));
    let workloads = scenario.workload.iter().enumerate().flat_map(|(n, workload)| {
        let key = format!("workload.{n}");
        let cdf = workload.cdf.iter().filter(|name| host::workload::Cdf::built_in(name).is_none());
        let cdf = cdf.map(|name| (beside(&key, name), input::CDF)).collect::<Vec<_>>();
        cdf.into_iter().chain(workload.path.iter().map(move |name| (beside(&key, name), input::FLOWS)))
    });
    topology.chain(workloads).map(digest).collect()
}

/// Of the build, the configuration in effect with its seed, and what it names.
fn hash(build: &str, effective: &str, content: &[[u8; 32]]) -> String {
    let mut all = Context::new(&SHA256);
    for part in ["selvedge job 3", build, effective] {
        all.update(part.as_bytes());
        all.update(b"\n");
    }
    content.iter().for_each(|file| all.update(file));
    all.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_simulator_of_the_same_version_has_other_jobs() {
        let (version, sources) = BUILD.split_once('\n').unwrap();
        let of = |build: &str| hash(build, "duration = \"1ms\"", &[[1; 32]]);
        assert_eq!(of(BUILD), of(&format!("{version}\n{sources}")), "the same build goes on where it was");
        assert_ne!(of(BUILD), of(&format!("{version}\n{}", "0".repeat(16))));
        assert_ne!(of(BUILD), of(&format!("{version}.1\n{sources}")));
    }
}
