//! The binary, as a user meets it.

mod bad_input;
mod cni;
mod compare;
mod jobs;
mod real_hosts;
mod records;
mod repro;
mod results;
mod scenarios;
mod settings;
mod site;
mod stop;
mod sweep;
mod topo;
mod validation;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own for each test, removed at its end.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        Scratch(tempfile::Builder::new().prefix(&format!("selvedge-{name}-")).tempdir().unwrap())
    }
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
    /// Names of what is in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(self.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Runs the binary in `dir`.
pub(crate) fn selvedge(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_selvedge")).current_dir(dir).args(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A scenario that takes a fraction of a second.
pub(crate) const TINY: &str = r#"title = "tiny"
duration = "3ms"
warmup = "1ms"
drain = "3ms"
seeds = "1..2"
[topology]
kind = "clos"
leaves = 2
spines = 2
hosts_per_leaf = 2
[[workload]]
name = "elephants"
pattern = "stride"
k = 2
[[workload]]
name = "mice"
pattern = "mice"
to = "stride"
k = 2
size = "10KB"
every = "200us"
"#;

#[test]
fn help_and_version_are_there() {
    let scratch = Scratch::new("help");
    for arguments in [&["--help"][..], &["sim", "run", "--help"], &["repro", "--help"], &["--version"]] {
        let output = selvedge(scratch.path(), arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(stdout(&output).contains("selvedge"), "{arguments:?}");
    }
    let bench = stdout(&selvedge(scratch.path(), &["bench", "sim", "--help"]));
    assert!(bench.contains("Scheme: ecmp, presto, optimal, mptcp [default: ecmp]"), "{bench}");
    assert_eq!(selvedge(scratch.path(), &["simm"]).status.code(), Some(2));
    // Either rate will do.
    let without = selvedge(scratch.path(), &["ctl", "limit", "veth1"]);
    assert!(without.status.code() == Some(2) && stderr(&without).contains("--ingress"), "{}", stderr(&without));
    let nobody = selvedge(scratch.path(), &["ctl", "--socket", "none", "limit", "veth1", "--ingress", "1Mbps"]);
    assert!(nobody.status.code() == Some(1) && stderr(&nobody).contains("agent run"), "{}", stderr(&nobody));
}

#[test]
fn doctor_gives_a_reason_for_everything_and_a_remedy_for_what_is_missing() {
    let scratch = Scratch::new("doctor");
    let output = selvedge(scratch.path(), &["doctor", "--json"]);
    assert!(output.status.success());
    let diagnosis: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    for finding in ["features", "probes"].iter().flat_map(|list| diagnosis[*list].as_array().unwrap()) {
        assert!(!finding["reason"].as_str().unwrap().is_empty(), "{finding}");
        let fine = finding["status"] == "yes";
        assert_eq!(fine, finding["remedy"].as_str().unwrap().is_empty(), "{finding}");
    }
    assert_eq!(diagnosis["features"][0]["name"], "simulator");
    assert_eq!(diagnosis["features"][0]["status"], "yes");
    assert!(stdout(&selvedge(scratch.path(), &["doctor"])).contains("Can be run here"));
    assert!(scratch.names().is_empty(), "doctor only looks");
}

#[test]
fn a_bundle_has_all_that_can_be_had_and_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("bundle");
    std::fs::write(scratch.path().join("agent.toml"), "[uplynk]\n").unwrap();
    let asked = ["doctor", "--bundle", "bundle.json", "--config", "agent.toml", "--socket", "nobody.sock"];
    let output = selvedge(scratch.path(), &asked);
    assert_eq!(output.status.code(), Some(2), "the configuration is wrong, and the bundle there");
    let file = scratch.path().join("bundle.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bundle: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(bundle["doctor"]["features"][0]["name"], "simulator");
    assert!(bundle["configuration"]["text"] == "[uplynk]\n" && bundle["host"]["uname -a"]["status"] == 0);
    let agent = bundle["agent"].as_object().unwrap();
    assert!(agent.len() == 1 && agent["status"]["error"].as_str().unwrap().contains("no agent answers"), "{agent:?}");
    let nowhere = selvedge(scratch.path(), &["doctor", "--bundle", "no/such/directory"]);
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(nowhere.status.code() == Some(1) && said.contains("cannot write no/such/directory"), "{said}");
}

#[test]
fn bench_prints_one_object() {
    let scratch = Scratch::new("bench");
    let output = selvedge(scratch.path(), &["bench", "sim", "--hosts", "16", "--duration", "1ms", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let speed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(speed["packet_hops_per_s"].as_f64().unwrap() > 0.0);
    assert!(speed["packet_hops"].as_u64().unwrap() > 1000);
    assert_eq!(speed["flows"], 16);
    let more = ["bench", "sim", "--hosts", "16", "--duration", "1ms", "--json", "--threads", "4"];
    let speed: serde_json::Value = serde_json::from_str(&stdout(&selvedge(scratch.path(), &more))).unwrap();
    let windows = &speed["windows"];
    let [four, any] = ["speedup", "most_speedup"].map(|key| windows[key].as_f64().unwrap());
    assert!(1.0 < four && four <= any && four <= 4.0, "{windows}");
}
