//! `selvedge repro --real-hosts`: starts the commands that decide claims on real hosts, and judges what they measured.
//!
//! A claim's `run` is a command of the source tree. It writes [`Samples`] into the file that the environment's `SELVEDGE_SAMPLES` names; the
//! claim's checks are expressions over their names, judged by the interval over rounds.

use super::archive::Archive;
use super::arguments::Repro;
use super::catalogue::{catalogues, Entry};
use super::decide::{by_interval, outcome};
use super::expression::Comparison;
use super::file::{Check, Published};
use super::fingerprint::COMMIT;
use super::judge::{three_digits, Judged, Seen, Verdict};
use super::Expression;
use crate::interrupt::{Companion, Scratch};
use crate::report::CheckStatus;
use crate::{interrupt, say, Failure};
use config::{closest, ConfigError};
use host::measure::estimate;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a command measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Samples {
    machine: String,
    /// Counted, so that every round yields the same: one is enough.
    #[serde(default)]
    exact: bool,
    /// Values by name, all measured in turn within a round.
    rounds: Vec<BTreeMap<String, f64>>,
}

/// Claims of one command that are to be decided.
struct Job {
    run: String,
    entries: Vec<Entry>,
}

/// True if every selected claim holds.
///
/// # Errors
/// An id that no command decides, no source tree, an archive that does not read or cannot be written.
pub(super) fn run(arguments: &Repro) -> Result<bool, Failure> {
    let all: Vec<Entry> = catalogues()?.into_iter().flat_map(|catalogue| catalogue.entries).collect();
    let selected = select(all, &arguments.ids)?;
    if arguments.list {
        for entry in &selected {
            let run = entry.run.as_deref().unwrap_or_default();
            match arguments.json {
                true => say::json(
                    &json!({ "id": entry.id, "run": run, "what": entry.what, "configuration": entry.configuration() }),
                ),
                false => say!("{:<26}  {:<52}  {}", entry.id, run, entry.what),
            }
        }
        return Ok(true);
    }
    let tree = tree()?;
    let mut archives = BTreeMap::new();
    let (mut jobs, mut there): (Vec<Job>, usize) = (Vec::new(), 0);
    for entry in selected {
        let paper = paper(&entry.id);
        if let Some(dir) = arguments.archive.as_deref().filter(|_| !archives.contains_key(paper)) {
            archives.insert(paper.to_owned(), Archive::open(dir, paper)?);
        }
        if !arguments.again
            && archives.get(paper).is_some_and(|archive| known(archive, &entry).is_some_and(is_measured))
        {
            there += 1;
            continue;
        }
        let run = entry.run.clone().unwrap_or_default();
        match jobs.iter_mut().find(|job| job.run == run) {
            Some(job) => job.entries.push(entry),
            None => jobs.push(Job { run, entries: vec![entry] }),
        }
    }
    if arguments.archive.is_some() {
        interrupt::say("interrupted; what was judged before is kept");
    }
    let mut all = Vec::new();
    #[allow(clippy::disallowed_methods, reason = "what real hosts do takes real time")]
    let begun = Instant::now();
    let budget = Duration::from_secs_f64(arguments.hours.unwrap_or(3.0) * 3600.0);
    for (n, job) in jobs.iter().enumerate() {
        let ids: Vec<&str> = job.entries.iter().map(|entry| entry.id.as_str()).collect();
        say::note(&format!("{} of {}: {} ({})", n + 1, jobs.len(), job.run, ids.join(", ")));
        let before = begun.elapsed();
        let measured = measure(&tree, &job.run, budget.saturating_sub(before));
        let wall_s = (begun.elapsed() - before).as_secs_f64();
        for entry in &job.entries {
            let judged = judge(entry, measured.as_ref().map_err(String::as_str), wall_s);
            if let Some(archive) = archives.get_mut(paper(&entry.id)) {
                // What could not be run today leaves what was measured before.
                if measured.is_ok() || known(archive, entry).is_none() {
                    archive.put(&judged, record(&judged, entry, measured.as_ref().ok()))?;
                }
            }
            match arguments.json {
                true => say::json(&judged.json()),
                false => say!("{}", judged.text()),
            }
            all.push(judged);
        }
    }
    let having = |word: &str| all.iter().filter(|judged| judged.word() == word).count();
    let holding = having("holds");
    if !arguments.json {
        say!(
            "{} claims on real hosts: {holding} hold, {} fail, {} undecided, {} not run",
            all.len(),
            having("fails"),
            having("undecided"),
            having("not-run")
        );
        if there > 0 {
            say!("{there} more have a record of this configuration: --again runs them, too");
        }
    }
    Ok(holding == all.len())
}

/// An argument is the id of a claim, or the beginning of some: `acdc`, `acdc/fig3.12*`.
fn select(all: Vec<Entry>, arguments: &[String]) -> Result<Vec<Entry>, ConfigError> {
    for argument in arguments {
        let meant: Vec<&Entry> = all.iter().filter(|entry| is_meant(&entry.id, argument)).collect();
        let fail = |problem: String, remedy: String| Err(ConfigError::new("--real-hosts", problem, remedy));
        match meant[..] {
            [] => {
                let near = closest(argument, all.iter().map(|entry| entry.id.as_str()));
                let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                return fail(
                    format!("there is no claim {argument:?}"),
                    format!("{near}see selvedge repro --real-hosts --list"),
                );
            }
            _ if meant.iter().any(|entry| entry.run.is_some()) => {}
            [one] => {
                let why = one.not_run.as_ref().or(one.open.as_ref()).map(|why| format!(": {why}")).unwrap_or_default();
                let remedy = "see selvedge repro --real-hosts --list; --catalogue says what decides a claim";
                return fail(format!("no command decides {argument} on real hosts{why}"), remedy.to_owned());
            }
            _ => {
                let remedy = "see selvedge repro --real-hosts --list".to_owned();
                return fail(format!("no command decides a claim of {argument} on real hosts"), remedy);
            }
        }
    }
    let wanted = |entry: &Entry| arguments.is_empty() || arguments.iter().any(|argument| is_meant(&entry.id, argument));
    Ok(all.into_iter().filter(|entry| entry.run.is_some() && wanted(entry)).collect())
}

fn is_meant(id: &str, argument: &str) -> bool {
    match argument.strip_suffix('*') {
        Some(beginning) => id.starts_with(beginning),
        None => {
            id == argument || id.strip_prefix(argument.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        }
    }
}

fn paper(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

fn known<'a>(archive: &'a Archive, entry: &Entry) -> Option<&'a Value> {
    archive.on_real_hosts(&entry.id, &entry.configuration()?)
}

fn is_measured(record: &Value) -> bool {
    record["status"] != "not-run"
}

/// The source tree that this directory is in: it has the commands.
fn tree() -> Result<PathBuf, ConfigError> {
    let here = std::env::current_dir().unwrap_or_default();
    let found = here.ancestors().find(|dir| dir.join("results/catalogue").is_dir() && dir.join("bench").is_dir());
    found.map(Path::to_owned).ok_or_else(|| {
        let problem = "this directory is in no source tree of Selvedge, which has the commands";
        ConfigError::new("--real-hosts", problem, "run it in the source tree of this version")
    })
}

/// Starts a command, and reads what it measured; else why there is nothing to judge.
fn measure(tree: &Path, run: &str, left: Duration) -> Result<Samples, String> {
    let scratch = Scratch::new("selvedge-real-hosts").map_err(|e| format!("no directory for what it measures: {e}"))?;
    let file = scratch.path().join("samples.json");
    let mut words = run.split_whitespace();
    let program = words.next().unwrap_or_default();
    let program = if program.contains('/') { tree.join(program) } else { PathBuf::from(program) };
    let mut command = Command::new(&program);
    command.args(words).current_dir(tree).env("SELVEDGE_SAMPLES", &file);
    if let Ok(own) = std::env::current_exe() {
        command.env("SELVEDGE", own);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut companion =
        Companion::spawn_tidy(&mut command).map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
    let last: Arc<Mutex<String>> = Arc::default();
    let ended = companion.stderr().map(|stderr| listen(stderr, Arc::clone(&last)));
    #[allow(clippy::disallowed_methods, reason = "a command must end")]
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = companion.ended() {
            break status;
        }
        if begun.elapsed() >= left {
            return Err("the time of --hours is over: give more".to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    };
    // What it started may hold its standard error open.
    let _ = ended.map(|ended| ended.recv_timeout(Duration::from_secs(1)));
    match std::fs::read_to_string(&file) {
        Ok(text) => read(&text).map_err(|why| format!("{run} wrote what cannot be judged: {why}")),
        Err(_) => {
            let last = last.lock().unwrap_or_else(PoisonError::into_inner);
            Err(if last.is_empty() { format!("{run} measured nothing ({status})") } else { last.clone() })
        }
    }
}

/// Passes on what a command says, and remembers its last line that is no progress.
fn listen(stderr: ChildStderr, last: Arc<Mutex<String>>) -> Receiver<()> {
    let (done, ended) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = writeln!(std::io::stderr(), "{}", say::harmless(&line));
            if !line.trim().is_empty() && !line.starts_with('#') {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_owned();
            }
        }
        let _ = done.send(());
    });
    ended
}

fn read(text: &str) -> Result<Samples, String> {
    let samples: Samples = serde_json::from_str(text).map_err(|e| e.to_string())?;
    match samples.rounds.is_empty() {
        true => Err("there is no round".to_owned()),
        false => Ok(samples),
    }
}

/// What became of a claim: a check that is decided to fail decides, then one that could not be judged, then one that is undecided.
fn judge(entry: &Entry, measured: Result<&Samples, &str>, wall_s: f64) -> Judged {
    let published = Published::claim(&entry.id, &entry.what, &entry.checks);
    let verdict = |check: &Check| match measured {
        Ok(samples) => verdict(check, samples),
        Err(why) => not_run(why.to_owned()),
    };
    let verdicts: Vec<Verdict> = entry.checks.iter().map(verdict).collect();
    let deciding =
        || entry.checks.iter().zip(&verdicts).filter(|(check, _)| !check.absolute).map(|(_, verdict)| verdict);
    let having = |status| deciding().filter(move |verdict| verdict.status == status && !verdict.undecided);
    let status = [CheckStatus::Fails, CheckStatus::NotRun].into_iter().find(|status| having(*status).next().is_some());
    let undecided = status.is_none() && deciding().any(|verdict| verdict.undecided);
    let status = status.unwrap_or(CheckStatus::Holds);
    let mut reasons: Vec<&str> = having(status).filter_map(|verdict| verdict.reason.as_deref()).collect();
    reasons.dedup();
    let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    let seeds = measured.map(|samples| (1..=samples.rounds.len() as u64).collect()).unwrap_or_default();
    let undecided = undecided.then_some("the rounds do not decide every check");
    Judged { published, status, reason, verdicts, mode: "", seeds, wall_s, undecided, core_s: 0.0 }
}

fn not_run(why: String) -> Verdict {
    Verdict { status: CheckStatus::NotRun, reason: Some(why), points: Vec::new(), undecided: false }
}

/// A comparison is decided if the 95% interval of its margin over rounds lies on one side of zero.
fn verdict(check: &Check, samples: &Samples) -> Verdict {
    let rounds = &samples.rounds;
    let mut seen = Seen::default();
    let expressions = [Some(&check.holds), check.value.as_ref()];
    for name in expressions.into_iter().flatten().flat_map(Expression::metrics) {
        let Some(values) = rounds.iter().map(|round| round.get(name).copied()).collect::<Option<Vec<f64>>>() else {
            return not_run(format!("{name} was not measured in every round"));
        };
        if seen.metrics.iter().any(|(known, _)| known == name) {
            continue;
        }
        let Some(across) = estimate(&values) else { continue };
        seen.metrics.push((name.clone(), across.mean));
        seen.halves.extend(across.half_width.map(|half| (name.clone(), three_digits(half))));
    }
    let means = seen.metrics.iter().cloned().collect();
    let said: Result<Vec<Vec<Comparison>>, _> = rounds.iter().map(|round| check.holds.comparisons(round)).collect();
    let (whole, said) = match (check.holds.holds(&means), said) {
        (Ok(whole), Ok(said)) => (whole, said),
        (Err(e), _) | (_, Err(e)) => return not_run(e.to_string()),
    };
    if let Some(expression) = &check.value {
        let values: Result<Vec<f64>, _> = rounds.iter().map(|round| expression.value(round)).collect();
        match values {
            Ok(values) => {
                seen.value = estimate(&values).map(|across| (across.mean, across.half_width.map(three_digits)))
            }
            Err(e) => return not_run(e.to_string()),
        }
    }
    let known: Vec<Option<bool>> = (0..said.first().map_or(0, Vec::len))
        .map(|n| one(&said.iter().filter_map(|round| round.get(n).copied()).collect::<Vec<_>>(), samples.exact))
        .collect();
    let decided = outcome(check, &known);
    let holds = decided.unwrap_or(whole);
    seen.holds = Some(holds);
    let number = crate::table::number;
    let value = seen.value.map(|(value, _)| format!(" ({} {})", number(value), check.unit).replace(" )", ")"));
    let reason = (!holds).then(|| format!("does not hold{}: {}", value.unwrap_or_default(), check.text));
    let status = if holds { CheckStatus::Holds } else { CheckStatus::Fails };
    Verdict { status, reason, points: vec![seen], undecided: decided.is_none() }
}

/// One comparison, over rounds.
fn one(said: &[Comparison], exact: bool) -> Option<bool> {
    if exact {
        let first = said.first()?.holds;
        return said.iter().all(|one| one.holds == first).then_some(first);
    }
    let margins: Vec<f64> = said.iter().map(|one| one.margin).collect();
    match said.len() {
        0 | 1 => None,
        _ => by_interval(said, estimate(&margins)?.half_width.unwrap_or(f64::NAN)),
    }
}

/// The line of an archive. Its `sources` are the version's: what a simulation yields is no part of it.
fn record(judged: &Judged, entry: &Entry, samples: Option<&Samples>) -> Value {
    let mut record = judged.json();
    if let Value::Object(fields) = &mut record {
        for unused in ["source", "holds", "mode"] {
            fields.remove(unused);
        }
        fields.insert("seeds".into(), json!(judged.seeds.len()));
        fields.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        fields.extend(COMMIT.map(|commit| ("commit".to_owned(), json!(commit))));
        fields.insert("configuration".into(), json!(entry.configuration()));
        fields.insert("wall_s".into(), json!((judged.wall_s * 10.0).round() / 10.0));
        fields.insert("machine".into(), json!(samples.map(|samples| &samples.machine)));
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::catalogue::Catalogue;
    use crate::repro::records::{Record, Recorded};

    const CLAIMS: &str = r#"
[[entry]]
id = "x/cpu"
kind = ["real-host"]
form = "ratio"
what = "it costs little"
run = "bench/x"
[[entry.checks]]
text = "at most a tenth more"
expr = "with.cpu <= 1.1 * without.cpu"
value = "with.cpu / without.cpu"
unit = "of that without"
[[entry.checks]]
text = "and no slower"
expr = "with.rate >= without.rate"
"#;

    fn entry() -> Entry {
        Catalogue::parse("x.toml", CLAIMS).unwrap().entries.remove(0)
    }

    /// Rounds of what costs and how fast it is, both with and without.
    fn samples(rounds: &[[f64; 4]], exact: bool) -> Samples {
        let names = ["with.cpu", "without.cpu", "with.rate", "without.rate"];
        let round =
            |values: &[f64; 4]| names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Samples { machine: "here".to_owned(), exact, rounds: rounds.iter().map(round).collect() }
    }

    fn word(rounds: &[[f64; 4]], exact: bool) -> &'static str {
        judge(&entry(), Ok(&samples(rounds, exact)), 1.0).word()
    }

    #[test]
    fn an_interval_over_rounds_decides() {
        let small = [[1.02, 1.0, 5.6, 5.0], [1.03, 1.0, 5.7, 5.0], [1.01, 1.0, 5.6, 5.0]];
        assert_eq!(word(&small, false), "holds");
        assert_eq!(word(&small[..1], false), "undecided", "one round has no interval");
        assert_eq!(word(&small[..1], true), "holds", "unless it is counted");
        assert_eq!(word(&[[1.05, 1.0, 5.6, 5.0], [1.3, 1.0, 5.7, 5.0], [0.9, 1.0, 5.6, 5.0]], false), "undecided");
        assert_eq!(word(&[[1.3, 1.0, 5.6, 5.0], [1.31, 1.0, 5.7, 5.0], [1.29, 1.0, 5.6, 5.0]], false), "fails");
        let judged = judge(&entry(), Ok(&samples(&small, false)), 1.0);
        let (value, half) = judged.verdicts[0].points[0].value.unwrap();
        assert!((value - 1.02).abs() < 1e-9 && (half.unwrap() - 0.0248).abs() < 1e-3, "{value} {half:?}");
    }

    #[test]
    fn a_record_tells_size_from_direction() {
        let kept = |rounds: &[[f64; 4]]| {
            let (entry, samples) = (entry(), samples(rounds, false));
            let line = record(&judge(&entry, Ok(&samples), 1.04), &entry, Some(&samples));
            (serde_json::from_value::<Record>(line.clone()).unwrap().says(&entry.checks), line)
        };
        let (dear, line) = kept(&[[1.3, 1.0, 5.6, 5.0], [1.32, 1.0, 5.7, 5.0]]);
        assert_eq!(dear, Recorded::Fails);
        assert_eq!(line["reason"], "does not hold (1.31 of that without): at most a tenth more");
        assert_eq!((&line["seeds"], &line["machine"], &line["wall_s"]), (&json!(2), &json!("here"), &json!(1.0)));
        assert_eq!(line["configuration"], json!(entry().configuration()));
        assert_eq!(line["checks"][0]["measured"]["metrics"]["without.cpu"], 1.0);
        assert!(line.get("mode").is_none() && line.get("sources").is_none());
        let (slow, _) = kept(&[[1.0, 1.0, 4.1, 5.0], [1.01, 1.0, 4.2, 5.0]]);
        assert_eq!(slow, Recorded::Reversed, "an order alone fails");
        let (open, line) = kept(&[[1.0, 1.0, 6.0, 5.0], [1.01, 1.0, 4.9, 5.0]]);
        assert_eq!((open, &line["checks"][1]["decided"]), (Recorded::Undecided, &json!(false)));
    }

    #[test]
    fn what_is_missing_is_named() {
        let judged = judge(&entry(), Err("bench/x: needs root"), 0.0);
        assert_eq!((judged.word(), judged.reason.as_deref()), ("not-run", Some("bench/x: needs root")));
        assert!(judged.text().contains("not run: bench/x: needs root"), "{}", judged.text());
        let mut half = samples(&[[1.0; 4], [1.0; 4]], false);
        half.rounds[1].remove("with.rate");
        let judged = judge(&entry(), Ok(&half), 0.0);
        assert_eq!(judged.reason.as_deref(), Some("with.rate was not measured in every round"));
        for (text, says) in [
            ("{\"machine\":\"m\",\"rounds\":[]}", "there is no round"),
            ("{\"machine\":\"m\"}", "missing field `rounds`"),
            ("{\"machine\":\"m\",\"rounds\":[{\"a.b\":NaN}]}", "expected value"),
        ] {
            assert!(read(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_command_gives_samples_or_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let told = |script: &str, left: u64| {
            let path = dir.path().join("bench");
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            measure(Path::new("/"), &format!("sh {}", path.display()), Duration::from_millis(left))
        };
        let line = r#"{"machine": "m", "exact": true, "rounds": [{"a.b": 1.5}]}"#;
        let good = told(&format!("echo '{line}' >\"$SELVEDGE_SAMPLES\"; exit 1"), 20_000).unwrap();
        assert!(good.exact && good.rounds[0]["a.b"] == 1.5, "a bar of its own that fails is no error");
        let why =
            told("echo '# round 1' >&2; echo 'bench: needs root' >&2; echo '# end' >&2; exit 1", 20_000).unwrap_err();
        assert_eq!(why, "bench: needs root");
        assert!(told("echo '{}' >\"$SELVEDGE_SAMPLES\"", 20_000).unwrap_err().contains("missing field"));
        assert!(told("exit 3", 20_000).unwrap_err().contains("measured nothing (exit status: 3)"));
        assert!(told("exec sleep 1000", 200).unwrap_err().contains("--hours"));
        assert!(measure(Path::new("/"), "no-such-program-here", Duration::ZERO)
            .unwrap_err()
            .contains("cannot be started"));
    }
}
