//! Every file of the tree is valid, and bad ones are not.

use crate::agreement::{read_agent, read_controller, read_scenario};
use crate::{faults, text_of, validator, ROOT};
use selvedge::schema::File;
use std::path::{Path, PathBuf};
use toml::Table;

/// The TOML files below a directory of the root.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found
}

/// The TOML blocks of a page that have this line.
fn blocks(page: &str, line: &str) -> Vec<String> {
    let text = text_of(page);
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.lines().any(|l| l.starts_with(line))).map(str::to_owned).collect()
}

fn valid(file: File, texts: impl IntoIterator<Item = (String, String)>, least: usize) {
    let validator = validator(file);
    let mut count = 0;
    for (name, text) in texts {
        let wrong = faults(&validator, &text.parse().unwrap_or_else(|e| panic!("{name}: {e}")));
        assert_eq!(wrong, [""; 0], "{name}");
        count += 1;
    }
    assert!(count >= least, "{count} files of {file:?}");
}

#[test]
fn every_scenario_is_valid() {
    let files = ["examples", "scenarios", "bench/validation"]
        .into_iter()
        .flat_map(|directory| below(&Path::new(ROOT).join(directory)));
    let files = files.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    valid(File::Scenario, files.map(part), 50);
}

/// A testbed alone lacks what its experiments have. The schema takes it for one of those that include another file.
fn part((name, text): (String, String)) -> (String, String) {
    match name.ends_with("/testbed.toml") {
        true => (name, format!("include = \"other.toml\"\n{text}")),
        false => (name, text),
    }
}

/// What may be missing where a file includes another must be there where it does not, at any depth.
#[test]
fn only_a_file_that_includes_another_may_lack_keys() {
    let validator = validator(File::Scenario);
    let workload = "[[workload]]\nname = \"w\"\npattern = \"stride\"\nk = 1\n";
    for (text, faults_then) in [
        (workload.to_owned(), 0),
        (format!("duration = \"1s\"\n[topology]\nleaves = 2\n{workload}"), 0),
        (format!("duration = \"1s\"\n[topology]\nleafs = 2\n{workload}"), 1),
        ("[[workload]]\nname = \"w\"\nk = 1\n".to_owned(), 1),
    ] {
        let alone: Table = text.parse().unwrap();
        assert_ne!(faults(&validator, &alone), [""; 0], "{text}");
        let including: Table = format!("include = \"t.toml\"\n{text}").parse().unwrap();
        assert_eq!(faults(&validator, &including).len(), faults_then, "{text}");
    }
}

/// The configuration in effect, as a run writes it, has every default.
#[test]
fn the_configuration_in_effect_is_valid() {
    let text = text_of("examples/clos.toml");
    let document = config::Document::parse("clos.toml", &text, "docs/scenarios.md").unwrap();
    let plan = selvedge::scenario::Plan::new(&document, &selvedge::scenario::Choice::default()).unwrap();
    valid(File::Scenario, [("effective.toml".to_owned(), plan.effective())], 1);
}

#[test]
fn every_packaged_file_is_valid() {
    let packaged = ["packaging/agent.toml", "packaging/deb/agent.toml", "packaging/kubernetes/limits/agent.toml"];
    valid(File::Agent, packaged.map(|path| (path.to_owned(), text_of(path))), 3);
    let controller = "packaging/controller.toml";
    valid(File::Controller, [(controller.to_owned(), text_of(controller))], 1);
}

/// Blocks of docs may show a part of a file. It stands beside these keys, where it does not give them itself.
fn beside(file: File) -> Table {
    let keys = match file {
        File::Agent => "[uplink]\ninterface = \"eth0\"\n",
        File::Controller => {
            "listen = \"127.0.0.1:7443\"\nurl = \"https://127.0.0.1:7443\"\ntopology = \"fabric.toml\"\n\
             store = \"s\"\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\noperators = [\"d\"]\n"
        }
        File::Scenario => {
            "duration = \"1s\"\n[topology]\nkind = \"clos\"\n[[workload]]\nname = \"web\"\npattern = \"poisson\"\n\
             cdf = \"websearch\"\nload = 0.5\n"
        }
    };
    keys.parse().unwrap()
}

/// The kind of file that knows all of the block's keys. A controller's `topology` is a name, a scenario's is a table.
fn kind(block: &Table) -> Vec<File> {
    let kinds = [File::Scenario, File::Agent, File::Controller].into_iter().filter(|file| {
        let schema = file.schema();
        block.keys().all(|key| schema["properties"].get(key).is_some())
    });
    let fabric = block.get("topology").is_some_and(toml::Value::is_table);
    kinds.filter(|file| !(fabric && *file == File::Controller)).collect()
}

/// All TOML blocks of all pages: page with line, and text. The page about a scheme that is not there yet gets one that is.
fn shown() -> Vec<(String, String)> {
    let pages = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let pages = pages.map(|page| format!("docs/{}", page.unwrap().file_name().into_string().unwrap()));
    let pages = pages.chain(["README.md".to_owned(), "SECURITY.md".to_owned()]).filter(|page| page.ends_with(".md"));
    let mut blocks = Vec::new();
    for page in pages {
        let mut open: Option<(usize, String)> = None;
        for (n, line) in text_of(&page).lines().enumerate() {
            match &mut open {
                None if line.starts_with("```toml") => open = Some((n + 1, String::new())),
                Some((at, text)) if line == "```" => {
                    blocks.push((
                        format!("{page}:{at}"),
                        text.replace("growcell_most", "threshold").replace("growcell", "flowcell"),
                    ));
                    open = None;
                }
                Some((_, text)) => *text += &format!("{line}\n"),
                None => {}
            }
        }
        assert!(open.is_none(), "{page}: a block does not end");
    }
    blocks
}

#[test]
fn every_block_of_the_docs_is_valid_and_read() {
    let mut count = [0; 3];
    for (place, text) in shown() {
        let mut table: Table = text.parse().unwrap_or_else(|e| panic!("{place}: {e}"));
        if table.is_empty() {
            continue; // a comment that names the schema
        }
        let kinds = kind(&table);
        let [file] = kinds[..] else { panic!("{place} could be a file of {kinds:?}") };
        count[file as usize] += 1;
        let includes = table.contains_key("include");
        if !includes {
            for (key, value) in beside(file) {
                table.entry(key).or_insert(value);
            }
        }
        assert_eq!(faults(&validator(file), &table), [""; 0], "{place}");
        // Several axes are for `selvedge sweep`; their keys are for a workload of another page.
        let read = match file {
            File::Scenario if includes || table.get("sweep").is_some_and(toml::Value::is_array) => continue,
            File::Scenario => read_scenario,
            File::Agent => read_agent,
            File::Controller => read_controller,
        };
        assert_eq!(read(&table.to_string()), Ok(()), "{place}");
    }
    let [scenarios, agents, controllers] = count;
    assert!(scenarios >= 9 && agents >= 13 && controllers >= 1, "{count:?}");
}

/// What to put in place of what in a valid file.
const SCENARIO: &[(&str, &str)] = &[
    ("duration", "durration"),
    ("duration = \"", "duration = 1 # \""),
    ("kind = \"clos\"", "kind = \"close\""),
    ("kind = \"clos\"\n", ""),
    ("leaves = 4", "leaves = \"4\""),
    ("leaves = 4", "leafs = 4"),
    ("leaves = 4", "leaves = -4"),
    ("\"10Gbps\"", "\"10 gigabit\""),
    ("\"10Gbps\"", "\"10\""),
    ("\"10Gbps\"", "10"),
    ("\"9MB\"", "\"9ms\""),
    ("shared = true", "shared = \"yes\""),
    ("ecn = { k = \"65KB\" }", "ecn = { kk = \"65KB\" }"),
    ("ecn = { k = \"65KB\" }", "priorities = 9"),
    ("ecn = { k = \"65KB\" }", "alpha = 0.0"),
    ("congestion = \"dctcp\"", "congestion = \"dctp\""),
    ("rto_min", "rto_minimum"),
    ("pattern = \"stride\"", "pattern = \"strides\""),
    ("pattern = \"stride\"\n", ""),
    ("every = \"10ms\"", "priority = 8"),
    ("every = \"10ms\"", "pairs = [[0, 1, 2]]"),
    ("link = \"leaf1-spine2\"\n", ""),
    ("balance = \"flowcell\"", "balance = \"flowcel\""),
    ("balance = \"flowcell\"", "threshold = 64"),
    ("balance = \"flowcell\"", "treshold = \"64KiB\""),
    ("receiver = \"stock\"", "mptcp = { subflows = 17 }"),
    ("receiver = \"stock\"", "congestion = { law = \"tahoe\" }"),
    ("receiver = \"stock\"", "limiter = { rate = \"1Gbps\", law = \"red\" }"),
    ("rx_coalesce = \"50us\"", "rx_coalesced = \"50us\""),
    ("seeds = \"1..5\"", "seeds = \"1-5\""),
];

const AGENT: &[(&str, &str)] = &[
    ("[agent]", "[agents]"),
    ("metrics = ", "metric = "),
    ("interface = \"eth0\"", "interface = \"seventeen-letters\""),
    ("interface = \"eth0\"", "interface = \"eth0\"\nudp_port = 0"),
    ("interface = \"eth0\"", "interface = \"eth0\"\nudp_port = 65536"),
    ("interface = \"eth0\"", "interface = \"eth0\"\ngro = 1"),
    ("[balance]", "[balance]\npolicy = \"flowcel\""),
    ("[balance]", "[balance]\nthreshold = 64"),
    ("[balance]", "[balance]\nlabels = 0"),
    ("[balance]", "[balance]\nlabels = [80]"),
    ("[balance]", "[receive]\nreorder = true\ntimeout = \"often\"\n[balance]"),
    ("[balance]", "[limits]\nlaw = \"red\"\n[balance]"),
    ("[balance]", "[congestion]\nbeta = 1.5\n[balance]"),
    ("[balance]", "[congestion]\nclamp = \"none\"\n[balance]"),
    ("network = 100\naddresses", "addresses"),
    ("network = 100\naddresses", "network = 16777215\naddresses"),
    ("network = 100\naddresses", "network = 100\nmtu = 575\naddresses"),
    ("network = 100\naddresses", "network = 100\negress_rate = \"fast\"\naddresses"),
    ("network = 100\naddresses", "network = 100\nannotations = { rate = \"10M\" }\naddresses"),
    ("learn = [\"10.1.1.0/24\"]", "learn = \"10.1.1.0/24\""),
    ("name = \"host2\"\n", ""),
    ("name = \"host2\"", "name = \"\""),
    ("prefix = ", "range = "),
];

const CONTROLLER: &[(&str, &str)] = &[
    ("listen = ", "listens = "),
    ("operators = [\"operator\"]", "operators = []"),
    ("operators = [\"operator\"]", "operators = \"operator\""),
    ("operators = [\"operator\"]", "operators = [\"operator\"]\nmetrics = 9465"),
    ("operators = [\"operator\"]", "operators = [\"operator\"]\nfirst_port = 80"),
    ("operators = [\"operator\"]", "operators = [\"operator\"]\nprune = \"some\""),
];

fn refused(file: File, good: &str, bad: &[(&str, &str)]) {
    let validator = validator(file);
    for (from, to) in bad {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let table: Table = text.parse().unwrap_or_else(|e| panic!("{to}: {e}"));
        assert_ne!(faults(&validator, &table), [""; 0], "{file:?} with {to}");
    }
}

#[test]
fn bad_files_are_not_valid() {
    refused(File::Scenario, &blocks("docs/scenarios.md", "duration")[0], SCENARIO);
    refused(File::Agent, &text_of("packaging/agent.toml"), AGENT);
    refused(File::Controller, &blocks("docs/controller.md", "listen")[0], CONTROLLER);
}
