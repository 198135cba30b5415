//! The list of every published claim of the reproduced systems, and the status of each: `results/catalogue/*.toml`.
//! A claim is decided by all that its entry names.

use super::file::Check;
use super::fingerprint;
use super::recorded::{Recorded, Records};
use config::{ConfigError, Document, Faults, Invalid};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::BTreeSet;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));
}

/// Where the reader finds an example.
const PAGE: &str = "docs/repro.md";

/// How a claim can be decided.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Simulation,
    RealHost,
    Analytic,
}

/// What decides a claim; absolute figures are reported and decide nothing.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A factor or share, or equality.
    Ratio,
    /// An order alone.
    Ordinal,
}

/// One claim of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// `presto/fig15-stride`
    pub id: String,
    /// All ways in which it can be decided.
    pub kind: Vec<Kind>,
    pub form: Form,
    /// What must hold, in one line.
    pub what: String,
    /// Ids of results of scenarios.
    #[serde(default)]
    pub scenario: Vec<String>,
    /// Tests that need no privilege: the crate, then the path, as in `edge native::tests::cell_number_wraps`.
    #[serde(default)]
    pub test: Vec<String>,
    /// A command of the source tree that measures what `checks` need on real hosts: `selvedge repro --real-hosts` starts it.
    pub run: Option<String>,
    /// What must hold of what `run` measures.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What has to be built before it can be decided.
    pub open: Option<String>,
    /// What the machines here forbid.
    pub not_run: Option<String>,
    /// The paper prints no number: the bound that decides is ours. This excuses no order that is reversed.
    #[serde(default)]
    pub own_bound: bool,
    /// Where the paper contradicts itself.
    pub contradiction: Option<String>,
    /// What the checks leave out of the claim.
    pub weaker: Option<String>,
    /// What the checks that decide ask for beyond the claim.
    pub stricter: Option<String>,
    /// Ids of results, sweeps or ablations, that show why it fails; or tests, as in `test`, that show it.
    #[serde(default)]
    pub cause: Vec<String>,
    /// What is known of why it fails, where no result shows the cause.
    pub unexplained: Option<String>,
}

/// All claims of one paper.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub paper: String,
    pub entries: Vec<Entry>,
    /// Results of scenarios that are no claim of the paper, but ours.
    pub own: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    own: Vec<String>,
    entry: Vec<Entry>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Holds,
    WrongSize,
    WrongDirection,
    /// A result fails, but no model could satisfy all that the paper says.
    Contradicted,
    OwnBound,
    Undecided,
    NotRun,
    Open,
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::Holds,
        Status::WrongSize,
        Status::WrongDirection,
        Status::Contradicted,
        Status::OwnBound,
        Status::Undecided,
        Status::NotRun,
        Status::Open,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Status::Holds => "holds",
            Status::WrongSize => "wrong size",
            Status::WrongDirection => "wrong direction",
            Status::Contradicted => "contradicted",
            Status::OwnBound => "our own bound",
            Status::Undecided => "undecided",
            Status::NotRun => "not run",
            Status::Open => "open",
        }
    }
}

/// Does a cause name a test, and not a result?
pub fn is_test(cause: &str) -> bool {
    cause.split_once(' ').is_some_and(|(_, path)| path.contains("::"))
}

impl Entry {
    /// Tests that decide it, or show why it fails.
    pub fn tests(&self) -> impl Iterator<Item = &String> {
        self.test.iter().chain(self.cause.iter().filter(|cause| is_test(cause)))
    }

    /// By all that the entry names: what is open or forbidden first, then the results, else the real run under the
    /// entry's own id. Tests alone hold, because a version whose tests fail is no version.
    pub fn status(&self, records: &Records) -> Status {
        if self.open.is_some() {
            return Status::Open;
        }
        if self.not_run.is_some() {
            return Status::NotRun;
        }
        let own = self.run.as_ref().filter(|_| self.scenario.is_empty()).map(|_| &self.id);
        let seen: Vec<Recorded> =
            (self.scenario.iter().chain(own)).map(|id| records.get(id).copied().unwrap_or(Recorded::NotRun)).collect();
        match seen {
            _ if seen.iter().any(|said| said.fails()) => match self.form {
                _ if self.contradiction.is_some() => Status::Contradicted,
                _ if seen.contains(&Recorded::Reversed) => Status::WrongDirection,
                Form::Ordinal => Status::WrongDirection,
                Form::Ratio if self.own_bound => Status::OwnBound,
                Form::Ratio => Status::WrongSize,
            },
            _ if seen.contains(&Recorded::Undecided) => Status::Undecided,
            _ if seen.contains(&Recorded::NotRun) => Status::NotRun,
            _ => Status::Holds,
        }
    }

    /// Hash of what decides it on real hosts.
    pub fn configuration(&self) -> Option<String> {
        self.run.as_ref().map(|run| fingerprint::on_real_hosts(run, &self.checks))
    }

    /// One object, as `--json` prints it; `on_real_hosts`: the record of its `run`.
    pub fn json(&self, records: &Records, on_real_hosts: Option<&Value>) -> Value {
        json!({
            "id": self.id, "status": self.status(records).word(), "what": self.what, "kind": self.kind, "form": self.form,
            "scenario": self.scenario, "test": self.test, "run": self.run, "open": self.open, "not_run": self.not_run,
            "own_bound": self.own_bound, "contradiction": self.contradiction, "weaker": self.weaker,
            "stricter": self.stricter, "cause": self.cause, "unexplained": self.unexplained,
            "on_real_hosts": on_real_hosts,
        })
    }

    /// Remarks with their keys, for the reader.
    pub fn remarks(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("run", &self.run),
            ("open", &self.open),
            ("not run", &self.not_run),
            ("the paper contradicts itself", &self.contradiction),
            ("weaker than the claim", &self.weaker),
            ("stricter than the claim", &self.stricter),
            ("cause not shown", &self.unexplained),
        ];
        all.into_iter().filter_map(|(key, text)| text.as_deref().map(|text| (key, text)))
    }
}

impl Catalogue {
    /// `file` is `presto.toml`, or a path that ends with it.
    ///
    /// # Errors
    /// All that is wrong with the file, each with its line, key and remedy.
    pub fn parse(file: &str, text: &str) -> Result<Catalogue, ConfigError> {
        let document = Document::parse(file, text, PAGE)?;
        let File { own, entry: entries } = document.read()?;
        let paper = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".toml").to_owned();
        let mut faults = Faults::of(&document);
        let mut ids = BTreeSet::new();
        for (n, entry) in entries.iter().enumerate() {
            for invalid in wrong(entry, &paper) {
                faults.tell(invalid.below(&format!("entry.{n}")));
            }
            if !ids.insert(&entry.id) {
                let problem = format!("{} is there twice", entry.id);
                faults.tell(Invalid::new(format!("entry.{n}.id"), problem, "remove one of the entries"));
            }
        }
        let named: BTreeSet<&String> = entries.iter().flat_map(|entry| &entry.scenario).collect();
        for (n, id) in own.iter().enumerate() {
            let problem = match id {
                _ if named.contains(id) => format!("an entry names {id} too"),
                _ if own[..n].contains(id) => format!("{id} is there twice"),
                _ => continue,
            };
            faults.tell(Invalid::new("own", problem, "remove it from own"));
        }
        faults.unless(Some(Catalogue { paper, entries, own }))
    }
}

/// What contradicts itself within one entry.
fn wrong(entry: &Entry, paper: &str) -> Vec<Invalid> {
    let mut found = Vec::new();
    let mut unless = |holds: bool, key: &str, problem: &str, remedy: &str| {
        if !holds {
            found.push(Invalid::new(key, problem, remedy));
        }
    };
    let below = entry.id.strip_prefix(paper).and_then(|rest| rest.strip_prefix('/'));
    unless(below.is_some_and(|name| !name.is_empty()), "id", "does not name the file's paper", "write PAPER/NAME");
    unless(!entry.what.trim().is_empty() && !entry.what.contains('\n'), "what", "is no line", "say what must hold");
    unless(!entry.kind.is_empty(), "kind", "is empty", "write simulation, real-host or analytic");
    let decided = !entry.scenario.is_empty() || !entry.test.is_empty() || entry.run.is_some();
    unless(
        decided || entry.open.is_some() || entry.not_run.is_some(),
        "id",
        "nothing accounts for this claim",
        "add scenario, test or run; or open with what has to be built",
    );
    unless(
        entry.not_run.is_none() || !(decided || entry.open.is_some()),
        "not_run",
        "stands beside what decides the claim",
        "remove it, or all of scenario, test, run and open",
    );
    unless(
        entry.run.is_none() || !entry.checks.is_empty(),
        "run",
        "measures what nothing judges",
        "add [[entry.checks]] with text and expr",
    );
    unless(entry.run.is_some() || entry.checks.is_empty(), "checks", "stand without run", "add the command as run");
    unless(
        entry.checks.is_empty() || entry.checks.iter().any(|check| !check.absolute),
        "checks",
        "are all absolute, so that none decides",
        "add a check of a ratio or an order",
    );
    for (key, used, kind) in [
        ("scenario", !entry.scenario.is_empty(), Kind::Simulation),
        ("run", entry.run.is_some(), Kind::RealHost),
        ("not_run", entry.not_run.is_some(), Kind::RealHost),
    ] {
        unless(!used || entry.kind.contains(&kind), key, "is not of the entry's kind", "add the kind to kind");
    }
    unless(
        entry.unexplained.is_none() || entry.cause.is_empty(),
        "unexplained",
        "stands beside cause",
        "keep one of them",
    );
    for (key, list) in [("scenario", &entry.scenario), ("test", &entry.test), ("cause", &entry.cause)] {
        let unique: BTreeSet<&String> = list.iter().collect();
        unless(unique.len() == list.len(), key, "names something twice", "name it once");
    }
    unless(
        entry.test.iter().all(|test| is_test(test)),
        "test",
        "is no crate and path",
        "write \"edge native::tests::cell_number_wraps\"",
    );
    for (key, text) in entry.remarks() {
        unless(!text.trim().is_empty(), key, "is empty", "give the reason in a line");
    }
    found
}

/// The catalogues in the binary.
///
/// # Errors
/// A file that does not read, which a test rules out.
pub fn catalogues() -> Result<Vec<Catalogue>, ConfigError> {
    embedded::CATALOGUE.iter().map(|(file, text)| Catalogue::parse(file, text)).collect()
}
