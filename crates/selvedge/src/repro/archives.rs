//! What `--archive` runs, in which order, and how long it may take.

use super::archive::Archive;
use super::arguments::Repro;
use super::cost::{spoken, work};
use super::file::{Experiment, Mode};
use super::fingerprint::configuration;
use super::judge::Judged;
use crate::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// An experiment and its results that are to be run.
pub(super) struct Wanted {
    pub experiment: Experiment,
    pub ids: Vec<String>,
    /// Processor time that it may take, as looks need it.
    pub limit: Duration,
    /// What it is expected to take, seconds; 0 without an archive.
    expected_s: f64,
}

/// Records of the papers that are run, where `--archive` asks for them.
pub(super) struct Archives {
    mode: Mode,
    hours: f64,
    papers: BTreeMap<String, Archive>,
    /// Records of the same papers in this binary: they tell what takes how long.
    known: BTreeMap<String, Archive>,
    /// Results that had a record.
    pub there: usize,
    /// Results that the processor time does not reach.
    pub beyond: usize,
    /// Expected and real processor time of what was run, and its real time, seconds.
    expected_s: f64,
    core_s: f64,
    wall_s: f64,
}

impl Archives {
    pub(super) fn new(arguments: &Repro, mode: Mode) -> Archives {
        let (papers, known, there, beyond) = (BTreeMap::new(), BTreeMap::new(), 0, 0);
        Archives {
            mode,
            hours: arguments.hours.unwrap_or(3.0),
            papers,
            known,
            there,
            beyond,
            expected_s: 0.0,
            core_s: 0.0,
            wall_s: 0.0,
        }
    }

    /// What is to be run: with an archive what has no record of its configuration, the cheapest experiments first.
    ///
    /// # Errors
    /// An archive that does not read, or a scenario that makes no sense.
    pub(super) fn plan(
        &mut self,
        selected: Vec<(Experiment, Vec<String>)>,
        arguments: &Repro,
    ) -> Result<Vec<Wanted>, Failure> {
        let limit = Duration::from_secs_f64(self.hours * 3600.0);
        let mut all = Vec::new();
        for (experiment, ids) in selected {
            let Some(dir) = &arguments.archive else {
                all.push(Wanted { experiment, ids, limit, expected_s: 0.0 });
                continue;
            };
            let paper = paper(&experiment).to_owned();
            if !self.papers.contains_key(&paper) {
                self.papers.insert(paper.clone(), Archive::open(dir, &paper)?);
                self.known.insert(paper.clone(), Archive::embedded(&paper)?);
            }
            let (archive, known) = (&self.papers[&paper], &self.known[&paper]);
            let (had, mut run) = (ids.len(), Vec::new());
            for id in ids {
                let Some(result) = experiment.results.iter().find(|result| result.id == id) else { continue };
                if arguments.again || !archive.has(&id, self.mode, &configuration(&experiment, result, self.mode)?) {
                    run.push(id);
                }
            }
            self.there += had - run.len();
            if !run.is_empty() {
                let expected_s = expected(&[archive, known], &experiment, &run, self.mode)?;
                all.push(Wanted { experiment, ids: run, limit, expected_s });
            }
        }
        all.sort_by(|a, b| a.expected_s.total_cmp(&b.expected_s));
        Ok(all)
    }

    /// May the experiment still be run? If so, looks may take twice its part of what is left of its paper's processor time, or what its
    /// first look is expected to take. `later`: what comes after it.
    pub(super) fn admit(&mut self, wanted: &mut Wanted, later: &[Wanted]) -> bool {
        let Some(archive) = self.papers.get(paper(&wanted.experiment)) else { return true };
        let left = wanted.limit.as_secs_f64() - archive.core_s(self.mode);
        let expected = wanted.expected_s * self.ratio();
        if left < expected {
            let (would, left) = (spoken(expected), spoken(left.max(0.0)));
            let file = &wanted.experiment.file;
            crate::say::note(&format!(
                "{file} is left out: it would take about {would}, and of --hours {left} are left"
            ));
            self.beyond += wanted.ids.len();
            return false;
        }
        let same = later.iter().filter(|other| paper(&other.experiment) == paper(&wanted.experiment)).count() + 1;
        wanted.limit = Duration::from_secs_f64((left * 2.0 / same as f64).max(expected).min(left));
        true
    }

    /// Keeps the results of an experiment, and says how far all has come.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn keep(&mut self, wanted: &Wanted, judged: &[Judged], later: &[Wanted]) -> Result<(), Failure> {
        let experiment = &wanted.experiment;
        let Some(archive) = self.papers.get_mut(paper(experiment)) else { return Ok(()) };
        for one in judged {
            let configuration = configuration(experiment, &one.published, self.mode)?;
            archive.keep(kept(experiment), &configuration, one)?;
        }
        let Some(one) = judged.first() else { return Ok(()) };
        self.expected_s += wanted.expected_s;
        self.core_s += one.core_s;
        self.wall_s += one.wall_s;
        let left: f64 = later.iter().map(|other| other.expected_s).sum();
        let eta = left * self.wall_s / self.expected_s.max(f64::MIN_POSITIVE);
        let after = match later.len() {
            0 => "nothing is left".to_owned(),
            n => format!("{n} experiments are left, about {}", spoken(eta)),
        };
        crate::say::note(&format!("{} took {} of processor time; {after}", experiment.file, spoken(one.core_s)));
        Ok(())
    }

    /// Real over expected processor time, so far.
    fn ratio(&self) -> f64 {
        if self.expected_s > 0.0 {
            self.core_s / self.expected_s
        } else {
            1.0
        }
    }
}

/// By which an archive's file is named: the paper whose results an experiment has, or the experiment's own name.
fn paper(experiment: &Experiment) -> &str {
    let kept = kept(experiment);
    kept.split_once('/').map_or(kept.trim_end_matches(".toml"), |(paper, _)| paper)
}

/// The experiment as records name it: no directory of one machine, but that of the paper whose results it has.
fn kept(experiment: &Experiment) -> &str {
    let file = experiment.file.as_str();
    let mut from_the_end = file.rmatch_indices('/').map(|(at, _)| at);
    let Some(before_name) = from_the_end.next() else { return file };
    let from = from_the_end.next().map_or(0, |at| at + 1);
    let of = &file[from..=before_name];
    match experiment.results.iter().all(|result| result.id.starts_with(of)) {
        true => &file[from..],
        false => &file[before_name + 1..],
    }
}

/// Processor time that some results of an experiment are expected to take, seconds: by what records of its
/// configuration of now say, in this mode or another, and the work at the points of both; else by the work alone.
/// Of two archives with a record of one mode, the first is asked.
fn expected(archives: &[&Archive], experiment: &Experiment, ids: &[String], mode: Mode) -> Result<f64, Failure> {
    let wanted = |label: &str| experiment.results.iter().any(|result| result.needs(label) && ids.contains(&result.id));
    let now = work(experiment, mode, &wanted, &|_| None)?;
    let modes = [mode, Mode::Quick, Mode::Full, Mode::Paper];
    for (known, archive) in modes.iter().flat_map(|mode| archives.iter().map(|archive| (*mode, archive))) {
        let is_of_now = |id: &str| {
            let result = experiment.results.iter().find(|result| result.id == id);
            let now = result.and_then(|result| configuration(experiment, result, known).ok());
            now.is_some_and(|now| archive.has(id, known, &now))
        };
        if let Some((core_s, seeds)) = archive.took(kept(experiment), known, &is_of_now) {
            let had = |label: &str| {
                let needing = experiment.results.iter().filter(|result| result.needs(label));
                needing.filter_map(|result| seeds.get(&result.id)).max().copied()
            };
            let then = work(experiment, known, &|label| had(label).is_some(), &had)?;
            if then > 0.0 {
                return Ok(core_s * now / then);
            }
        }
    }
    Ok(now * super::cost::TYPICAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_names_no_directory_of_one_machine() {
        let (_, text) = super::super::embedded().find(|(file, _)| *file == "acdc/fig3.15.toml").unwrap();
        let mut experiment = Experiment::parse("acdc/fig3.15.toml", text).unwrap();
        for (file, name, of) in [
            ("acdc/fig3.15.toml", "acdc/fig3.15.toml", "acdc"),
            ("/a/tree/scenarios/acdc/fig3.15.toml", "acdc/fig3.15.toml", "acdc"),
            ("/a/tree/mine/fig3.15.toml", "fig3.15.toml", "fig3.15"),
            ("fig3.15.toml", "fig3.15.toml", "fig3.15"),
        ] {
            file.clone_into(&mut experiment.file);
            assert_eq!((kept(&experiment), paper(&experiment)), (name, of), "{file}");
        }
    }

    /// Those in the binary: with a directory without any, four hours were expected of half a minute.
    #[test]
    fn other_records_tell_what_a_new_directory_does_not() {
        let (file, text) = super::super::embedded().find(|(file, _)| *file == "limiters/requests.toml").unwrap();
        let experiment = Experiment::parse(file, text).unwrap();
        let all: Vec<String> = experiment.results.iter().map(|result| result.id.clone()).collect();
        let [dir, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
        let records = experiment.results.iter().map(|result| {
            let configuration = configuration(&experiment, result, Mode::Quick).unwrap();
            let record = json!({"id": result.id, "status": "holds", "mode": "quick", "file": file, "core_s": 30.0, "seeds": 3,
                "configuration": configuration});
            format!("{record}\n")
        });
        std::fs::write(other.path().join("limiters.jsonl"), records.collect::<String>()).unwrap();
        let [new, known] = [&dir, &other].map(|dir| Archive::open(dir.path(), "limiters").unwrap());
        let of = |archives: &[&Archive]| expected(archives, &experiment, &all, Mode::Quick).unwrap();
        assert!(of(&[&new, &known]) < 60.0 && of(&[&new]) > 3600.0, "{} s", of(&[&new, &known]));
        assert!(Archive::embedded("limiters").unwrap().core_s(Mode::Full) > 0.0);
    }

    #[test]
    fn records_of_some_points_tell_what_all_points_take() {
        let (file, text) = super::super::embedded().find(|(file, _)| *file == "clove/fig8b.toml").unwrap();
        let experiment = Experiment::parse(file, text).unwrap();
        let all: Vec<String> = experiment.results.iter().map(|result| result.id.clone()).collect();
        let knee = experiment.results.iter().find(|result| result.id == "clove/fig8b-knee").unwrap();
        let one = experiment.results.iter().find(|result| result.id == "clove/fig8b-ef").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let of = |configuration: &str| {
            let record = json!({"id": one.id, "status": "holds", "mode": "full", "file": file, "core_s": 100.0, "seeds": 10,
                "configuration": configuration});
            std::fs::write(dir.path().join("clove.jsonl"), format!("{record}\n")).unwrap();
            let archive = Archive::open(dir.path(), "clove").unwrap();
            let ids = [std::slice::from_ref(&one.id), std::slice::from_ref(&knee.id), &all];
            ids.map(|ids| expected(&[&archive], &experiment, ids, Mode::Full).unwrap())
        };
        // A first look has half of the record's seeds; the knee is of three other points.
        let found = of(&configuration(&experiment, one, Mode::Full).unwrap());
        for (found, wanted) in found.into_iter().zip([50.0, 150.0, 200.0]) {
            assert!((found / wanted - 1.0).abs() < 1e-9, "{found} s, not {wanted} s");
        }
        let [typical, ..] = of("another");
        let work = work(&experiment, Mode::Full, &|label| one.needs(label), &|_| None).unwrap();
        assert!((typical / (work * super::super::cost::TYPICAL) - 1.0).abs() < 1e-9, "{typical} s");
    }
}
