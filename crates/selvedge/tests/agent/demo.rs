//! `selvedge demo`: real traffic where it can be, one line where it cannot, and nothing left over.

use super::world::{eventually, unavailable};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory for a demonstration and its temporary files, removed on drop. Anybody may write there.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::Builder::new().prefix("svdemo").tempdir().unwrap());
        fs::create_dir(place.path("tmp")).unwrap();
        for directory in ["", "tmp"] {
            fs::set_permissions(place.path(directory), fs::Permissions::from_mode(0o777)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn demo(&self, before: &[&str], arguments: &[&str]) -> Command {
        let words: Vec<&str> = before.iter().copied().chain([env!("CARGO_BIN_EXE_selvedge"), "demo"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).arg("--output").arg(self.path("out"));
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn out(&self, file: &str) -> PathBuf {
        self.path("out").join(file)
    }

    /// What the demonstration has beside its results: directories of agents.
    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Processes that were started with a file of this place.
    fn processes(&self) -> Vec<String> {
        let file = self.path("tmp").display().to_string();
        let numbers = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
        let lines =
            numbers.filter_map(|path| fs::read(path).ok()).map(|text| String::from_utf8_lossy(&text).into_owned());
        lines.filter(|line| line.contains(&file)).collect()
    }
}

/// What the demonstration makes, if it is here: not in its own namespaces.
fn outside() -> Vec<PathBuf> {
    let made = ["/sys/fs/bpf/selvedge-demo", "/sys/class/net/veth1", "/sys/class/net/br0", "/sys/class/net/svlimit0"];
    made.iter().map(PathBuf::from).filter(|path| path.exists()).collect()
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn real_traffic_is_limited_and_leaves_nothing() {
    if let Some(why) = unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let (place, before) = (Place::new(), outside());
    let output = place.demo(&[], &["--only", "traffic", "--seconds", "3"]).output().unwrap();
    let (said, errors) = text(&output);
    assert!(output.status.success() && errors.is_empty(), "{said}{errors}");
    assert!(said.contains("Real traffic on this machine:") && said.contains("request, p99 (ms)"), "{said}");

    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place.out("traffic.json")).unwrap()).unwrap();
    let limiters = results["limiters"].as_array().unwrap();
    assert_eq!(limiters.iter().map(|l| l["law"].as_str().unwrap()).collect::<Vec<_>>(), ["none", "spring"]);
    let mut medians = Vec::new();
    for limiter in limiters {
        let share = limiter["downloads_mbps"].as_f64().unwrap() / results["limit_mbps"].as_f64().unwrap();
        assert!((0.5..1.05).contains(&share), "{} of the limit behind {}", share, limiter["limiter"]);
        let [p50, p99] = ["p50", "p99"].map(|key| limiter["request_ms"][key].as_f64().unwrap());
        assert!(p50 > 0.0 && p50 <= p99 && limiter["idle_ms"]["p50"].as_f64().unwrap() > 0.0, "{limiter}");
        assert!(limiter["request_ms"]["count"].as_u64().unwrap() > 100);
        assert!(limiter["requests"].as_array().unwrap().len() > 300, "those before counting, too");
        assert!(limiter["downloads"]["mbps"].as_array().unwrap().len() >= 30);
        medians.push(p50);
    }
    assert!(medians[1] < medians[0], "{medians:?}");

    let report = fs::read_to_string(place.out("report.html")).unwrap();
    assert!(report.contains("<h2>Real traffic on this machine</h2>") && report.contains("law = &quot;spring&quot;"));
    assert!(!report.contains("Nothing was recorded") && !report.contains("<dt>Seeds</dt>"));
    assert!(place.left().is_empty() && place.processes().is_empty(), "{:?} {:?}", place.left(), place.processes());
    assert_eq!(outside(), before);
}

#[test]
fn interrupted_it_leaves_nothing() {
    if let Some(why) = unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let (place, before) = (Place::new(), outside());
    let child = place.demo(&[], &["--only", "traffic"]).spawn().unwrap();
    eventually("the agent listens", || place.left().iter().any(|dir: &PathBuf| dir.join("ctl.sock").exists()));
    assert_eq!(place.processes().len(), 1, "the agent");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{:?}", text(&output));
    eventually("the agent ends", || place.processes().is_empty());
    assert!(place.left().is_empty() && !place.out("").exists(), "{:?}", place.left());
    assert_eq!(outside(), before);
}

/// SIGKILL, of which nobody hears: the agent ends with its standard input, and what is in the kernel with its namespaces.
#[test]
fn killed_it_leaves_nothing_that_runs() {
    if let Some(why) = unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let (place, before) = (Place::new(), outside());
    let mut child = place.demo(&[], &["--only", "traffic"]).spawn().unwrap();
    eventually("the agent listens", || place.left().iter().any(|dir: &PathBuf| dir.join("ctl.sock").exists()));
    assert_eq!(place.processes().len(), 1, "the agent");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the agent ends", || place.processes().is_empty());
    assert_eq!(outside(), before);
}

/// Without privileges, or none where there are none to give up; `None` where they cannot be given up.
fn unprivileged() -> Option<Vec<&'static str>> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some(Vec::new());
    }
    let given_up = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let runs = |program: &Path| Command::new(given_up[0]).args(&given_up[1..]).arg(program).arg("--version").output();
    match runs(Path::new(env!("CARGO_BIN_EXE_selvedge"))) {
        Ok(output) if output.status.success() => Some(given_up),
        _ => {
            eprintln!("skipped: privileges cannot be given up here, or others may not run this build");
            None
        }
    }
}

const WHY: &str = match cfg!(feature = "kernel") {
    true => "it needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)",
    false => "the kernel edge is not in this program: built without the feature `kernel`",
};

#[test]
fn traffic_alone_fails_without_privileges() {
    let Some(before) = unprivileged() else { return };
    let place = Place::new();
    let output = place.demo(&before, &["--only", "traffic"]).output().unwrap();
    let (_, errors) = text(&output);
    assert_eq!(
        (output.status.code(), errors.as_str()),
        (Some(1), format!("selvedge: no real traffic here: {WHY}\n").as_str())
    );
    assert!(!place.out("").exists(), "earlier results stay");
}

/// What most machines see: the simulation, and one line.
#[test]
fn without_privileges_one_line_says_why_there_is_no_traffic() {
    let Some(before) = unprivileged() else { return };
    let place = Place::new();
    let output = place.demo(&before, &[]).output().unwrap();
    let (said, errors) = text(&output);
    assert!(output.status.success() && errors.is_empty(), "{said}{errors}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("traffic")).collect();
    assert_eq!(lines, [format!("No real traffic here: {WHY}")]);
    assert!(said.contains("5 of 5 checks hold"), "{said}");
    assert!(place.out("report.html").exists() && !place.out("traffic.json").exists());
}
