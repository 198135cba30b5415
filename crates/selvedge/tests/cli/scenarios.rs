//! Every scenario that is shipped or shown.

use crate::{selvedge, stderr, Scratch, TINY};
use config::Document;
use edge::balance::Parameter;
use selvedge::repro::{embedded, experiments, Experiment, Mode};
use selvedge::run::{run_all, Bar};
use selvedge::scenario::{Choice, Plan};
use units::Time;

#[test]
fn embedded_experiments_read_in_every_mode() {
    let mut ids = Vec::new();
    for (file, text) in embedded() {
        let experiment = Experiment::parse(file, text).unwrap_or_else(|e| panic!("{e}"));
        assert!(!experiment.results.is_empty(), "{file}");
        for mode in [Mode::Quick, Mode::Full, Mode::Paper] {
            let points = experiment.points(mode, &|_| true).unwrap_or_else(|e| panic!("{e}"));
            assert!(!points.is_empty(), "{file}");
        }
        ids.extend(experiment.results.iter().map(|r| r.id.clone()));
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id is there twice");
    assert!(experiments().unwrap().len() >= 5);
}

/// Each experiment runs at the first and the last of its points, each scheme for as long as it takes to do something.
#[test]
fn embedded_experiments_run() {
    for (file, text) in embedded() {
        let experiment = Experiment::parse(file, text).unwrap();
        let mut points = experiment.points(Mode::Quick, &|_| true).unwrap();
        if points.len() > 2 {
            points.drain(1..points.len() - 1);
        }
        for point in points {
            let effective = point.plan.effective();
            // The first is enough for most, the second for what is staggered, the next two for what begins later, the last for what is rare.
            let mut idle = Vec::new();
            for ms in [3, 11, 120, 520, 1100] {
                let mut document = Document::parse(file, &effective, "docs/scenarios.md").unwrap();
                for set in [&format!("duration={ms}ms"), "warmup=1ms", "drain=1ms", "seeds=1"] {
                    document.set(set).unwrap();
                }
                let choice = Choice { schemes: std::mem::take(&mut idle), ..Choice::default() };
                let plan = Plan::new(&document, &choice).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(plan.scenario.duration, Time::from_ms(ms));
                let finished = run_all(&plan, 2, &Bar::new([&plan])).unwrap();
                assert_eq!(finished.len(), plan.schemes.len(), "{file} {}", point.label);
                idle = finished.iter().filter(|f| f.outcome.packet_hops <= 100).map(|f| f.scheme.clone()).collect();
                if idle.is_empty() {
                    break;
                }
            }
            assert!(idle.is_empty(), "{file} {}: nothing happens under {idle:?}", point.label);
        }
    }
}

/// The example that the documentation shows is a scenario, and every key that it names exists.
#[test]
fn documented_examples_are_scenarios() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let mut seen = 0;
    for file in ["scenarios.md", "repro.md", "tenants.md"] {
        let text = std::fs::read_to_string(format!("{root}{file}")).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            if !block.contains("duration") {
                continue;
            }
            seen += 1;
            if block.contains("[[result]]") || block.starts_with("include") {
                let experiment = Experiment::parse(&format!("presto/{file}"), block).unwrap_or_else(|e| panic!("{e}"));
                experiment.points(Mode::Quick, &|_| true).unwrap_or_else(|e| panic!("{e}"));
            } else {
                let document = Document::parse(file, block, "docs/scenarios.md").unwrap_or_else(|e| panic!("{e}"));
                let plan = Plan::new(&document, &Choice::default()).unwrap_or_else(|e| panic!("{e}"));
                assert!(plan.schemes.len() >= 2);
            }
        }
    }
    assert!(seen >= 2, "{seen} examples");
}

/// Every key that the configuration in effect can show is documented.
#[test]
fn every_key_is_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md")).unwrap();
    let (_, demo) = embedded().find(|(file, _)| *file == "demo.toml").unwrap();
    let experiment = Experiment::parse("demo.toml", demo).unwrap();
    // Parameters of schemes stand in a table of their own, which another test compares.
    let elsewhere = |key: &str| Parameter::find(key).is_some();
    for point in experiment.points(Mode::Quick, &|_| true).unwrap() {
        for line in point.plan.effective().lines() {
            if let Some((key, _)) = line.split_once(" = ") {
                assert!(
                    elsewhere(key) || text.contains(&format!("| `{key}` |")),
                    "docs/scenarios.md does not describe {key}"
                );
            }
        }
    }
}

/// `sim run` and `topo` read both files, and say in which of them a fault stands.
#[test]
fn a_scenario_includes_a_testbed() {
    let scratch = Scratch::new("include");
    let (own, testbed) = TINY.split_once("[topology]").unwrap();
    let (testbed, rest) = testbed.split_once("\n[").unwrap();
    std::fs::create_dir(scratch.path().join("sub")).unwrap();
    scratch.file("testbed.toml", &format!("[topology]{testbed}\nrate = \"1Gbps\"\n"));
    let text = format!("include = \"../testbed.toml\"\n{own}topology = {{ rate = \"2Gbps\" }}\n[{rest}");
    scratch.file("sub/x.toml", &text);
    let output = selvedge(scratch.path(), &["sim", "run", "sub/x.toml", "-o", "out"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let effective: toml::Table =
        std::fs::read_to_string(scratch.path().join("out/effective.toml")).unwrap().parse().unwrap();
    assert_eq!(effective["topology"]["rate"].as_str(), Some("2Gbps"));
    assert_eq!(effective["topology"]["leaves"].as_integer(), Some(2));
    assert!(!effective.contains_key("include"));
    assert!(selvedge(scratch.path(), &["topo", "show", "sub/x.toml"]).status.success());

    scratch.file("testbed.toml", &format!("[topology]{}\n", testbed.replace("leaves = 2", "leafs = 2")));
    for command in [&["sim", "run", "sub/x.toml"][..], &["topo", "show", "sub/x.toml"]] {
        let output = selvedge(scratch.path(), command);
        let said = stderr(&output);
        let line = 1 + testbed.lines().position(|line| line == "leaves = 2").unwrap();
        let place = format!("sub/../testbed.toml:{line}: topology.leafs: ");
        assert!(!output.status.success() && said.contains(&place), "{said}");
    }
}

/// Files of the binary include files of the binary, also of another directory.
#[test]
fn embedded_files_include_one_another() {
    let include = |path: &str| {
        let text = format!("include = \"{path}\"\nduration = \"1s\"\n[[workload]]\nname = \"w\"\npattern = \"long\"\npairs = [[0, 1]]\n");
        Experiment::parse("presto/x.toml", &text)
    };
    for path in ["testbed.toml", "./testbed.toml", "../presto/testbed.toml"] {
        let points = include(path).unwrap().points(Mode::Quick, &|_| true).unwrap();
        assert_eq!(points[0].plan.scenario.topology.leaves, Some(4), "{path}");
    }
    for path in ["none.toml", "../testbed.toml", "../../presto/testbed.toml", "/presto/testbed.toml"] {
        let error = include(path).unwrap_err().to_string();
        assert!(error.starts_with("presto/x.toml:1: include: ") && error.contains("there is none"), "{error}");
    }
}

#[test]
fn the_demonstration_needs_no_files() {
    let scratch = Scratch::new("demo-help");
    let output = selvedge(scratch.path(), &["demo", "--help"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// `{}` turns on in one scheme what the scenario has not, also when a run is repeated from its configuration in effect. Guests that
/// hear of drops from switches alone need switches that tell.
#[test]
fn an_empty_table_in_a_scheme_turns_something_on() {
    let text = include_str!("../../../../examples/fastlane.toml");
    let plan = |text: &str| {
        let document = Document::parse("fastlane.toml", text, "docs/scenarios.md").unwrap();
        Plan::new(&document, &Choice::default())
    };
    let first = plan(text).unwrap();
    for plan in [plan(&first.effective()).unwrap(), first] {
        for scheme in &plan.schemes {
            let template = scheme.template();
            let on = scheme.name == "fastlane";
            assert_eq!(template.switches.notify, on.then(fabric::Notify::default), "{}", scheme.name);
            assert_eq!(template.hosts.tcp.fastlane.is_some(), on, "{}", scheme.name);
        }
    }
    let silent = text.replace("switch.notify = {}\n", "");
    let error = plan(&silent).unwrap_err().to_string();
    assert!(error.contains("host.tcp.fastlane") && error.contains("add `notify = {}`"), "{error}");
}

/// Edges hear of drops from switches alone, too, and take notifications away from guests that understand them.
#[test]
fn edges_that_act_on_drops_need_switches_that_tell_and_guests_that_do_not() {
    let text = include_str!("../../../../examples/fastlane-edge.toml");
    let plan = |text: &str| {
        let document = Document::parse("fastlane-edge.toml", text, "docs/scenarios.md").unwrap();
        Plan::new(&document, &Choice::default())
    };
    let first = plan(text).unwrap();
    for plan in [plan(&first.effective()).unwrap(), first] {
        for scheme in &plan.schemes {
            let on = scheme.name.ends_with("-edge");
            let fastlane = on.then(edge::fastlane::Config::default);
            assert_eq!(scheme.template().edge.fastlane, fastlane, "{}", scheme.name);
        }
    }
    for (from, to, key, remedy) in [
        ("switch.notify = {}\nfastlane", "fastlane", "scheme.newreno-edge.fastlane", "add `switch.notify = {}`"),
        (
            "fastlane = {}\n\n[scheme.cubic]",
            "fastlane = {}\nhost.tcp.fastlane = {}\n\n[scheme.cubic]",
            "scheme.newreno-edge.fastlane",
            "`host.tcp.fastlane`",
        ),
        (
            "fastlane = {}\n\n[scheme.cubic]",
            "fastlane = {store = \"3KB\"}\n\n[scheme.cubic]",
            "fastlane.store",
            "at least as much as for one guest",
        ),
        (
            "fastlane = {}\n\n[scheme.cubic]",
            "fastlane = {store_per_guest = \"1KB\"}\n\n[scheme.cubic]",
            "fastlane.store_per_guest",
            "2KB",
        ),
    ] {
        assert!(text.contains(from));
        let error = plan(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(remedy), "{error}");
    }
}
