//! `selvedge repro --tables`: the tables of README.md and docs/results.md, written from the records beside them.
//!
//! A table stands between a line `<!-- records: NAME -->` and the next line `<!-- end -->`. NAME is a paper, or `counts`.

use super::catalogue::{catalogues, Catalogue, Status};
use super::claims::count;
use super::clause::{recorded, unspoken};
use super::file::{Check, Experiment, Mode, Published};
use super::kept::Kept;
use super::measured::{measured_on_real_hosts, points, range, said};
use super::records::Recorded;
use crate::report::html::count as grouped;
use crate::Failure;
use config::ConfigError;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The pages that have such tables.
pub const PAGES: [&str; 2] = ["README.md", "docs/results.md"];

const BEGIN: &str = "<!-- records: ";
const END: &str = "<!-- end -->";

/// A page as it is and as its records make it.
#[derive(Debug)]
pub struct PageText {
    pub file: &'static str,
    pub now: String,
    pub then: String,
}

/// The pages of a source tree, by the records in its `results`.
///
/// # Errors
/// Records or pages that do not read, a mark that names no table or has no end.
pub fn pages(root: &Path) -> Result<Vec<PageText>, ConfigError> {
    let dir = root.join("results");
    let recorded = fs::read_dir(&dir).into_iter().flatten().flatten();
    let any = recorded.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let kept = if any { Kept::read(Some(&dir))? } else { Kept::default() };
    let tables = Tables { kept, experiments: super::experiments()?, catalogues: catalogues()? };
    PAGES.into_iter().map(|file| page(root, file, &tables)).collect()
}

/// Writes what has changed; returns the files' names.
///
/// # Errors
/// As [`pages`], or a page that cannot be written.
pub(super) fn write(root: &Path) -> Result<Vec<&'static str>, Failure> {
    let mut written = Vec::new();
    for PageText { file, now, then } in pages(root)? {
        if now != then {
            let path = root.join(file);
            fs::write(&path, then).map_err(|e| unreadable(&path, "written", &e))?;
            written.push(file);
        }
    }
    Ok(written)
}

fn unreadable(path: &Path, how: &str, e: &std::io::Error) -> ConfigError {
    let remedy = "name the root of Selvedge's sources with --tables";
    ConfigError::new(path.display().to_string(), format!("cannot be {how}: {e}"), remedy)
}

fn page(root: &Path, file: &'static str, tables: &Tables) -> Result<PageText, ConfigError> {
    let path = root.join(file);
    let now = files::read_regular_text(&path, 16 << 20).map_err(|e| unreadable(&path, "read", &e))?;
    let fail = |line: usize, problem: String, remedy: &str| {
        ConfigError::new(format!("{}, line {}", path.display(), line + 1), problem, remedy)
    };
    let (mut then, mut open) = (String::new(), None);
    for (n, line) in now.lines().enumerate() {
        match (line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")), open) {
            (Some(name), None) => {
                let table = tables.named(name).ok_or_else(|| {
                    fail(n, format!("there is no table {name:?}"), "write counts, or the name of a paper")
                })?;
                let _ = write!(then, "{line}\n\n{table}\n");
                open = Some(n);
            }
            (Some(_), Some(first)) => return Err(fail(first, "the table has no end".to_owned(), "write <!-- end -->")),
            (None, Some(_)) if line != END => continue,
            (None, _) => {
                open = open.filter(|_| line != END);
                let _ = writeln!(then, "{line}");
            }
        }
    }
    match open {
        Some(first) => Err(fail(first, "the table has no end".to_owned(), "write <!-- end -->")),
        None => Ok(PageText { file, now, then }),
    }
}

struct Tables {
    kept: Kept,
    experiments: Vec<Experiment>,
    catalogues: Vec<Catalogue>,
}

impl Tables {
    fn named(&self, name: &str) -> Option<String> {
        match name {
            "counts" => Some(self.counts()),
            paper => self.catalogues.iter().any(|c| c.paper == paper).then(|| self.results(paper)),
        }
    }

    /// Results of a paper's scenarios, in their order.
    fn of<'a>(&'a self, paper: &'a str) -> impl Iterator<Item = &'a Published> {
        let below = move |experiment: &&Experiment| experiment.file.split('/').next() == Some(paper);
        self.experiments.iter().filter(below).flat_map(|experiment| &experiment.results)
    }

    /// Results and claims of each paper by status.
    fn counts(&self) -> String {
        let mut out = String::from(
            "| Paper | Results | hold | fail | undecided | not run | by full runs | of them hold | Claims |",
        );
        for status in Status::ALL {
            let _ = write!(out, " {} |", status.word());
        }
        let _ = writeln!(out, "\n|---|{}", "---|".repeat(8 + Status::ALL.len()));
        for catalogue in &self.catalogues {
            let of = |wanted: Recorded| {
                let status = |result: &Published| self.kept.statuses.get(&result.id).copied();
                let word = |result: &Published| status(result).unwrap_or(Recorded::NotRun).word();
                self.of(&catalogue.paper).filter(|result| word(result) == wanted.word()).count()
            };
            let full = || self.of(&catalogue.paper).filter(|result| self.mode(result) == Some(Mode::Full.name()));
            let full_hold = full().filter(|r| self.kept.statuses.get(&r.id) == Some(&Recorded::Holds)).count();
            let _ = write!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {full_hold} | {} |",
                catalogue.paper,
                self.of(&catalogue.paper).count(),
                of(Recorded::Holds),
                of(Recorded::Fails),
                of(Recorded::Undecided),
                of(Recorded::NotRun),
                full().count(),
                catalogue.entries.len(),
            );
            for status in Status::ALL {
                let _ = write!(out, " {} |", count(catalogue, &self.kept.statuses, status));
            }
            out.push('\n');
        }
        out.push_str("\n| Paper | Claims that simulations decide | hold | by full runs alone |\n|---|---|---|---|\n");
        for catalogue in &self.catalogues {
            let [all, holding, by_full] = self.simulated(catalogue);
            let _ = writeln!(out, "| {} | {all} | {holding} | {by_full} |", catalogue.paper);
        }
        out
    }

    /// Claims with simulated results, those that hold, and those of them that rest on full runs alone.
    fn simulated(&self, catalogue: &Catalogue) -> [usize; 3] {
        let all = || catalogue.entries.iter().filter(|entry| !entry.scenario.is_empty());
        let holding = || all().filter(|entry| entry.status(&self.kept.statuses) == Status::Holds);
        let full = |id: &String| self.kept.line(id).is_some_and(|line| line["mode"] == Mode::Full.name());
        [all().count(), holding().count(), holding().filter(|entry| entry.scenario.iter().all(full)).count()]
    }

    fn mode(&self, result: &Published) -> Option<&str> {
        self.kept.line(&result.id).filter(|_| !self.kept.is_stale(&result.id))?["mode"].as_str()
    }

    /// A row for each result of a paper, and what the records were measured with.
    fn results(&self, paper: &str) -> String {
        let mut out = String::from("| Result | Status | Run | Measured | Paper |\n|---|---|---|---|---|\n");
        let mut from: BTreeSet<String> = BTreeSet::new();
        for result in self.of(paper) {
            let name = result.id.split_once('/').map_or(result.id.as_str(), |(_, name)| name);
            let line = self.kept.line(&result.id).filter(|_| !self.kept.is_stale(&result.id));
            let Some(line) = line else {
                let _ = writeln!(out, "| {name} | not run | | | {} |", cell(&printed(result)));
                continue;
            };
            let word = self.kept.statuses.get(&result.id).copied().unwrap_or(Recorded::NotRun).word();
            let word = if word == "fails" { format!("**{word}**") } else { word.to_owned() };
            let run = run(line);
            let _ = writeln!(
                out,
                "| {name} | {word} | {run} | {} | {} |",
                cell(&measured(result, line)),
                cell(&printed(result))
            );
            let told = |key: &str, before: &str| line[key].as_str().map(|text| format!("{before}{text}"));
            let parts = [
                told("version", "version "),
                told("commit", "commit "),
                told("sources", "sources "),
                told("machine", ""),
            ];
            from.insert(parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
        }
        match from.len() {
            0 => out += "\nNo result has a record.\n",
            _ => {
                let list: Vec<String> = from.into_iter().collect();
                let _ = writeln!(out, "\nMeasured with {}.", list.join("; "));
            }
        }
        out += &self.on_real_hosts(paper);
        out
    }

    /// A row for each claim of a paper that a command decides on real hosts.
    fn on_real_hosts(&self, paper: &str) -> String {
        let of = self.catalogues.iter().filter(|catalogue| catalogue.paper == paper).flat_map(|c| &c.entries);
        let rows = of.filter(|entry| entry.run.is_some()).map(|entry| {
            let name = entry.id.split_once('/').map_or(entry.id.as_str(), |(_, name)| name);
            let record = self.kept.on_real_hosts(entry);
            let word = record.and_then(|record| record["status"].as_str()).unwrap_or("not-run").replace('-', " ");
            let word = if word == "fails" { format!("**{word}**") } else { word };
            let rounds = record.and_then(|record| record["seeds"].as_u64()).map(|n| n.to_string()).unwrap_or_default();
            let measured = record.map(measured_on_real_hosts).unwrap_or_default();
            let machine = record.and_then(|record| record["machine"].as_str()).unwrap_or_default();
            format!("| {name} | {word} | {rounds} | {} | {} |\n", cell(&measured), cell(machine))
        });
        let rows: String = rows.collect();
        match rows.is_empty() {
            true => String::new(),
            false => format!(
                "\n| Claim on real hosts | Status | Rounds | Measured | Machine |\n|---|---|---|---|---|\n{rows}"
            ),
        }
    }
}

/// Mode and seeds, with the jobs of each seed where the record has them: "full, 10 × 20,000 jobs".
fn run(line: &Value) -> String {
    let mut run = line["mode"].as_str().unwrap_or_default().to_owned();
    if let Some(seeds) = line["seeds"].as_u64() {
        let _ = write!(run, ", {seeds}");
        if let Some(jobs) = jobs(line) {
            let _ = write!(run, " × {jobs} jobs");
        }
    }
    run
}

/// Over all checks and points that have such a number, the least and the largest.
fn jobs(line: &Value) -> Option<String> {
    let checks = line["checks"].as_array().into_iter().flatten();
    let all: BTreeSet<u64> = checks.flat_map(points).filter_map(|point| point["jobs"].as_u64()).collect();
    let (least, most) = (*all.first()?, *all.last()?);
    Some(if least == most { grouped(least) } else { format!("{} to {}", grouped(least), grouped(most)) })
}

/// The number that speaks for each check, over the points of a sweep from the least to the largest, and what fails where that number does
/// not show it.
fn measured(result: &Published, line: &Value) -> String {
    let none = Vec::new();
    let checks = line["checks"].as_array().unwrap_or(&none);
    let one = |(check, record): (&Check, &Value)| {
        let points = points(record);
        let fails = record["holds"] == false;
        // Of an undecided result no check is decided to fail, also where its record does not say so of each.
        let decided = record["decided"] != false && !(fails && line["status"] == Recorded::Undecided.word());
        let unspoken = points.iter().filter(|_| fails).find_map(|point| unspoken(check, &recorded(point)));
        let text = range(&points).map(|text| (text, check.unit.as_str()));
        said(text, check.absolute, fails, decided, unspoken.as_ref())
    };
    let said: Vec<String> = result.checks.iter().zip(checks).filter_map(one).collect();
    match said.is_empty() {
        true => line["reason"].as_str().unwrap_or_default().to_owned(),
        false => said.join("; "),
    }
}

/// What the paper prints for each check, the same once.
fn printed(result: &Published) -> String {
    let mut said: Vec<String> = Vec::new();
    for check in &result.checks {
        let paper = check.paper.as_ref().map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned));
        let paper = paper.unwrap_or_else(|| "no number".to_owned());
        if said.last() != Some(&paper) {
            said.push(paper);
        }
    }
    said.join("; ")
}

/// Text that stays in one cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::clause::Clause;
    use super::*;

    #[test]
    fn jobs_stand_beside_mode_and_seeds() {
        let record = |checks: Value| serde_json::json!({"mode": "full", "seeds": 10, "checks": checks});
        let one = serde_json::json!({"measured": {"value": 2.0, "jobs": 20_113}});
        let none = serde_json::json!({"measured": {"value": 2.0}});
        let sweep =
            serde_json::json!({"measured": [{"at": "load=0.4", "jobs": 935}, {"at": "load=0.7", "jobs": 20_113}]});
        assert_eq!(run(&record(serde_json::json!([one, none]))), "full, 10 × 20,113 jobs");
        assert_eq!(run(&record(serde_json::json!([one, sweep]))), "full, 10 × 935 to 20,113 jobs");
        assert_eq!(run(&record(serde_json::json!([none, {"measured": null}]))), "full, 10", "as older records");
    }

    #[test]
    fn bold_is_the_number_that_fails() {
        let check = Check {
            text: "t".to_owned(),
            holds: super::super::Expression::parse("a.x > 0.98 && b.x > 0.98").unwrap(),
            value: Some(super::super::Expression::parse("a.x").unwrap()),
            unit: "Jain index".to_owned(),
            paper: None,
            absolute: false,
        };
        let clause =
            |a: f64, b: f64| unspoken(&check, &recorded(&serde_json::json!({"metrics": {"a.x": a, "b.x": b}})));
        let cell = |absolute, fails, decided, clause: Option<&Clause>| {
            said(Some(("0.5000".to_owned(), "Jain index")), absolute, fails, decided, clause).unwrap()
        };
        let other = clause(0.99, 0.5).unwrap();
        assert!(clause(0.5, 0.5).is_none(), "the number is of it");
        assert_eq!(cell(false, false, true, None), "0.5000 Jain index");
        assert_eq!(cell(false, true, true, None), "**0.5000** Jain index");
        assert_eq!(cell(false, true, true, Some(&other)), "0.5000 Jain index (**0.5000, not > 0.9800**)");
        assert_eq!(cell(false, true, false, None), "0.5000 Jain index (undecided)");
        assert_eq!(cell(true, true, true, None), "0.5000 Jain index (absolute, fails)");
        assert_eq!(cell(true, true, true, Some(&other)), "0.5000 Jain index (absolute, fails: 0.5000, not > 0.9800)");
        assert_eq!(said(None, false, true, true, Some(&other)).unwrap(), "**0.5000, not > 0.9800**");
        assert_eq!(said(None, false, false, true, None), None);
    }
}
