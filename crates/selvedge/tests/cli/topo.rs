//! `selvedge topo`: a controller's work on paper.

use crate::{selvedge, stderr, stdout, Scratch};
use serde_json::Value;

/// The fabric of Presto's testbed, and nothing else.
const CLOS: &str = "[topology]\nkind = \"clos\"\nleaves = 4\nspines = 4\nhosts_per_leaf = 4\n";

/// Two leaves over three spines, the middle one of twice the rate.
const UNEVEN: &str = "7 5 8\n2 3 4 5 6\n0 2 10Gbps 1us 0\n1 3 10Gbps 1us 0\n2 4 10Gbps 1us 0\n3 4 10Gbps 1us 0\n\
                      2 5 20Gbps 1us 0\n3 5 20Gbps 1us 0\n2 6 10Gbps 1us 0\n3 6 10Gbps 1us 0\n";

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let output = selvedge(scratch.path(), &[&["topo"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_clos_has_a_tree_per_spine_and_parallel_link() {
    let scratch = Scratch::new("topo-trees");
    scratch.file("f.toml", &CLOS.replace("hosts_per_leaf = 4", "hosts_per_leaf = 4\nparallel = 2"));
    let trees = json(&scratch, &["trees", "f.toml", "--fail", "leaf1-spine2#2"]);
    assert_eq!(trees["trees"].as_array().unwrap().len(), 8);
    assert_eq!(trees["coverage"]["disjoint"], true);
    assert_eq!(trees["coverage"]["equal"], true);
    let broken: Vec<&Value> =
        trees["trees"].as_array().unwrap().iter().filter(|t| t["broken"][0].is_string()).collect();
    assert_eq!(broken.len(), 1, "one of the spine's two");
    assert_eq!((&broken[0]["label"], &broken[0]["root"]), (&6.into(), &"spine2".into()));
    let text = stdout(&selvedge(scratch.path(), &["topo", "trees", "f.toml"]));
    assert!(text.contains("8 trees: link-disjoint, every link in exactly one tree"), "{text}");
}

#[test]
fn a_failure_takes_a_label_from_the_pairs_it_hits_or_from_all() {
    let scratch = Scratch::new("topo-schedule");
    scratch.file("f.toml", CLOS);
    let whole = json(&scratch, &["schedule", "f.toml"]);
    assert_eq!(whole["schedules"].as_array().unwrap().len(), 1);
    assert_eq!(whole["schedules"][0]["labels"], serde_json::json!([1, 2, 3, 4]));

    let hit = json(&scratch, &["schedule", "f.toml", "--fail", "spine1-leaf1"]);
    let [rule, exception] = &hit["schedules"].as_array().unwrap()[..] else { panic!("{hit}") };
    assert_eq!((&rule["labels"], &exception["labels"]), (&whole["schedules"][0]["labels"], &[2, 3, 4][..].into()));
    for pair in exception["pairs"].as_array().unwrap() {
        assert!(pair[0] == "leaf1" || pair[1] == "leaf1", "{pair}");
    }
    assert_eq!(exception["pairs"].as_array().unwrap().len(), 6);

    let all = json(&scratch, &["schedule", "f.toml", "--fail", "spine1-leaf1", "--prune", "all"]);
    assert_eq!(all["schedules"].as_array().unwrap().len(), 1);
    assert_eq!(all["schedules"][0]["labels"], exception["labels"]);

    let one = json(&scratch, &["schedule", "f.toml", "--from", "host0", "--to", "leaf4"]);
    assert_eq!(one["schedules"][0]["pairs"], serde_json::json!([["leaf1", "leaf4"]]));
}

#[test]
fn a_faster_path_is_named_more_often() {
    let scratch = Scratch::new("topo-weights");
    scratch.file("links.txt", UNEVEN);
    let schedule = json(&scratch, &["schedule", "links.txt"]);
    assert_eq!(schedule["schedules"][0]["labels"], serde_json::json!([1, 2, 3, 2]));
    assert_eq!(schedule["schedules"][0]["shares"]["2"], 50.0);
}

#[test]
fn check_fails_where_a_pair_is_cut_off() {
    let scratch = Scratch::new("topo-check");
    scratch.file("f.toml", &CLOS.replace("spines = 4", "spines = 2"));
    let good = json(&scratch, &["check", "f.toml", "--fail", "leaf1-spine1"]);
    assert_eq!(good["holds"], true);
    let failures = good["findings"].as_array().unwrap().iter().find(|f| f["name"] == "failures").unwrap();
    assert_eq!(failures["status"], "note", "leaf1 hangs by one link");
    assert!(failures["text"].as_str().unwrap().contains("leaf1-spine2"), "{failures}");

    let cut =
        selvedge(scratch.path(), &["topo", "check", "f.toml", "--fail", "leaf1-spine1", "--fail", "leaf1-spine2"]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(stdout(&cut).contains("FAILS"), "{}", stdout(&cut));
    let one = "[topology]\nkind = \"single-switch\"\nhosts = 3\n";
    scratch.file("one.toml", one);
    assert_eq!(json(&scratch, &["check", "one.toml"])["holds"], true);
}

#[test]
fn the_fabric_of_any_scenario_can_be_shown_and_drawn() {
    let scratch = Scratch::new("topo-show");
    scratch.file("f.toml", CLOS);
    scratch.file("links.txt", UNEVEN);
    scratch.file("fat.toml", "[topology]\nkind = \"fat-tree\"\nk = 4\n");
    let shown = json(&scratch, &["show", "f.toml", "--picture", "f.svg"]);
    assert_eq!((&shown["hosts"], &shown["switches"], &shown["trees"]), (&16.into(), &[4, 4][..].into(), &4.into()));
    assert_eq!((&shown["bisection_gbps"], &shown["oversubscription"]), (&80.0.into(), &1.0.into()));
    let picture = std::fs::read_to_string(scratch.path().join("f.svg")).unwrap();
    assert_eq!(picture.matches("<line").count(), 32);
    json(&scratch, &["trees", "links.txt", "--picture", "l.dot", "--fail", "node2-node5"]);
    let picture = std::fs::read_to_string(scratch.path().join("l.dot")).unwrap();
    assert_eq!((picture.matches(" -- ").count(), picture.matches("dashed").count()), (8, 1));
    let coverage = &json(&scratch, &["trees", "fat.toml"])["coverage"];
    assert_eq!((&coverage["least"], &coverage["most"]), (&1.into(), &2.into()), "edge links serve two cores");
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let scratch = Scratch::new("topo-mistakes");
    scratch.file("f.toml", CLOS);
    scratch.file("none.toml", "title = \"x\"\n");
    scratch.file("links.txt", "4 2 3\n2 3\n0 2 10Gbps 1us 0\n");
    for (arguments, what) in [
        (&["show", "absent.toml"][..], "cannot be read"),
        (&["show", "none.toml"], "topology: is missing"),
        (&["show", "links.txt"], "links.txt:3"),
        (&["show", "f.toml", "--picture", "f.png"], ".svg or .dot"),
        (&["trees", "f.toml", "--fail", "leaf1-spine9"], "did you mean leaf1-spine"),
        (&["trees", "f.toml", "--fail", "host0-leaf1"], "no such link between switches"),
        (&["schedule", "f.toml", "--from", "leaf9"], "did you mean"),
        (&["schedule", "f.toml", "--to", "spine1"], "has no hosts"),
    ] {
        let output = selvedge(scratch.path(), &[&["topo"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(what), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{arguments:?}");
    }
}

#[test]
fn a_fat_tree_is_oversubscribed_at_its_edge() {
    let scratch = Scratch::new("topo-fat-tree");
    let show = |keys: &str| {
        scratch.file("f.toml", &format!("[topology]\nkind = \"fat-tree\"\nk = 4\nrate = \"10Gbps\"\n{keys}"));
        let shown = json(&scratch, &["show", "f.toml"]);
        (shown["hosts"].clone(), shown["oversubscription"].as_f64().unwrap())
    };
    assert_eq!(show(""), (16.into(), 1.0));
    assert_eq!(show("hosts_per_edge = 6"), (48.into(), 3.0));
    assert_eq!(show("oversubscription = 3.0"), (48.into(), 3.0));
    assert_eq!(show("oversubscription = 2"), (32.into(), 2.0), "a whole number will do");
    // Faster links up: 2 links of 40 Gbps balance 8 hosts of 10.
    assert_eq!(show("oversubscription = 1.5\nfabric_rate = \"40Gbps\""), (96.into(), 1.5));
}
