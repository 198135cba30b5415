//! The list of published claims: complete, and every thing that it names exists.

mod fastlane;
mod hygenicc;
mod lines;
mod published;
mod requirements;
mod summary;

use selvedge::repro::catalogue::{catalogues, Catalogue, Entry, Status};
use selvedge::repro::records::{current, read_records, records, Recorded, Records};
use selvedge::repro::tables::pages;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn entries() -> Vec<Entry> {
    catalogues().unwrap().into_iter().flat_map(|catalogue| catalogue.entries).collect()
}

#[test]
fn every_claim_is_there_once() {
    let catalogues = catalogues().unwrap();
    let counts: Vec<_> = catalogues.iter().map(|c| (c.paper.as_str(), c.entries.len())).collect();
    assert_eq!(
        counts,
        [("acdc", 84), ("clove", 85), ("fastlane", 75), ("hygenicc", 69), ("limiters", 69), ("presto", 100)]
    );
    let ids: BTreeSet<String> = entries().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids.len(), 482);
}

#[test]
fn entries_and_results_of_scenarios_name_each_other() {
    let results: BTreeSet<String> =
        selvedge::repro::experiments().unwrap().iter().flat_map(|e| &e.results).map(|r| r.id.clone()).collect();
    let mut named = BTreeSet::new();
    for catalogue in catalogues().unwrap() {
        let file = format!("results/catalogue/{}.toml", catalogue.paper);
        for id in catalogue.entries.iter().flat_map(|entry| &entry.scenario).chain(&catalogue.own) {
            assert!(results.contains(id), "{file} names the result {id}, which no scenario has");
            named.insert(id.clone());
        }
    }
    for id in results {
        assert!(
            named.contains(&id),
            "{id} is in no entry of results/catalogue; name it in one, or in `own` of its file"
        );
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Is there such a test: the crate, modules as files or within one, and a function that is a test?
fn exists(test: &str) -> bool {
    let (name, path) = test.split_once(' ').unwrap();
    let root =
        if name == "conformance" { Path::new(ROOT).join(name) } else { Path::new(ROOT).join("crates").join(name) };
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    let (modules, function) = path.rsplit_once("::").unwrap();
    let inner = modules.strip_suffix("::tests").unwrap_or(modules);
    files.iter().any(|file| {
        let below = file.strip_prefix(&root).unwrap().with_extension("");
        let parts: Vec<&str> = below.iter().skip(1).map(|part| part.to_str().unwrap()).collect();
        let module = parts.join("::");
        let module = module.trim_end_matches("::mod").trim_end_matches("::main");
        // An integration test's directory is its binary, which is no part of a test's path.
        let in_binary = parts.get(1..).filter(|_| below.starts_with("tests")).map(|rest| rest.join("::"));
        let here = [modules, inner].into_iter().any(|m| m == module || in_binary.as_deref() == Some(m));
        let text = std::fs::read_to_string(file).unwrap();
        let found = text.find(&format!("fn {function}(")).map(|at| &text[..at]);
        here && found.is_some_and(|before| before.rsplit('}').next().unwrap_or("").contains("#[test]"))
    })
}

#[test]
fn every_named_test_exists() {
    let missing: Vec<String> = entries()
        .iter()
        .flat_map(|e| e.tests().map(move |t| (e, t)))
        .filter(|(_, t)| !exists(t))
        .map(|(e, t)| format!("{}: {t}", e.id))
        .collect();
    assert!(missing.is_empty(), "no such tests:\n{}", missing.join("\n"));
    assert!(!exists("edge native::tests::no_such_test") && !exists("edge tests::cell_number_wraps"));
}

#[test]
fn every_run_is_a_script_or_a_test_of_the_tree() {
    for entry in entries() {
        let Some(run) = &entry.run else { continue };
        let words: Vec<&str> = run.split_whitespace().collect();
        match &words[..] {
            ["cargo", "test", "-p", name, .., test] => {
                assert!(exists(&format!("{name} {test}")), "{}: {run}", entry.id);
            }
            [script, ..] => assert!(Path::new(ROOT).join(script).is_file(), "{}: {run}", entry.id),
            [] => panic!("{}", entry.id),
        }
    }
}

#[test]
fn the_page_of_validation_names_tests_that_exist() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/validation.md")).unwrap();
    let named: Vec<&str> = page.split('`').filter(|words| words.starts_with("host ") && words.contains("::")).collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<&str> = named.into_iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

const GOOD: &str = r#"
[[entry]]
id = "x/one"
kind = ["simulation"]
form = "ratio"
what = "more than nothing"
scenario = ["x/a", "x/b"]
"#;

fn parse(text: &str) -> Result<Catalogue, String> {
    Catalogue::parse("results/catalogue/x.toml", text).map_err(|error| error.to_string())
}

#[test]
fn bad_files_are_told_line_key_and_remedy() {
    assert!(parse(GOOD).is_ok());
    let cases = [
        ("scenario = [\"x/a\", \"x/b\"]", "", "x.toml:3", "id", "add scenario, test or run"),
        ("ratio", "absolute", "x.toml:5", "form", "ratio"),
        ("\"simulation\"", "\"analytic\"", "x.toml:7", "scenario", "add the kind"),
        ("\"x/b\"", "\"x/a\"", "x.toml:7", "scenario", "name it once"),
        ("x/one", "y/one", "x.toml:3", "id", "PAPER/NAME"),
        ("more than nothing", "", "x.toml:6", "what", "say what must hold"),
        ("form = \"ratio\"", "", "x.toml:2", "form", "form"),
        ("what", "wat", "x.toml:6", "wat", "what"),
        ("form =", "test = [\"edge\"]\nform =", "x.toml:5", "test", "edge native::tests::cell_number_wraps"),
        ("form =", "not_run = \"no\"\nform =", "x.toml:5", "not_run", "remove it"),
        ("form =", "open = \"\"\nform =", "x.toml:5", "open", "give the reason"),
        ("form =", "run = \"bench/edge/run\"\nform =", "x.toml:5", "run", "add [[entry.checks]]"),
        ("form =", "checks = [{ text = \"t\", expr = \"a.x > 1\" }]\nform =", "x.toml:5", "checks", "add the command"),
        ("form =", "checks = [{ text = \"t\", expr = \"1 > 0\" }]\nform =", "x.toml:5", "checks", "it names no metric"),
    ];
    for (old, new, place, key, remedy) in cases {
        let error = parse(&GOOD.replacen(old, new, 1)).unwrap_err();
        for part in [place, key, remedy] {
            assert!(error.contains(part), "{new:?} instead of {old:?}: {part:?} is not in\n{error}");
        }
    }
    let twice = parse(&format!("{GOOD}{GOOD}")).unwrap_err();
    assert!(twice.contains("x/one is there twice") && twice.contains("x.toml:10"), "{twice}");
    let own = parse(&format!("own = [\"x/a\"]\n{GOOD}")).unwrap_err();
    assert!(own.contains("an entry names x/a too"), "{own}");
}

#[test]
fn a_claim_has_the_status_of_all_that_it_names() {
    let status = |keys: &str, records: &[(&str, Recorded)]| {
        let text = GOOD
            .replace("scenario = [\"x/a\", \"x/b\"]", keys)
            .replace("[\"simulation\"]", "[\"simulation\", \"real-host\"]");
        let records: Records = records.iter().map(|&(id, status)| (id.to_owned(), status)).collect();
        parse(&text).unwrap().entries[0].status(&records)
    };
    let both = "scenario = [\"x/a\", \"x/b\"]";
    use Recorded::{Fails, Holds, NotRun, Reversed, Undecided};
    assert_eq!(status(both, &[]), Status::NotRun);
    assert_eq!(status(both, &[("x/a", Holds)]), Status::NotRun, "half a claim is none");
    assert_eq!(status(both, &[("x/a", Holds), ("x/b", Holds)]), Status::Holds);
    assert_eq!(status(both, &[("x/a", Holds), ("x/b", NotRun)]), Status::NotRun);
    assert_eq!(status(both, &[("x/a", Undecided)]), Status::Undecided);
    assert_eq!(status(both, &[("x/a", Undecided), ("x/b", Fails)]), Status::WrongSize);
    assert_eq!(status(&format!("{both}\nown_bound = true"), &[("x/b", Fails)]), Status::OwnBound);
    // Whose bound it is excuses no order.
    assert_eq!(status(both, &[("x/b", Reversed)]), Status::WrongDirection);
    assert_eq!(status(&format!("{both}\nown_bound = true"), &[("x/b", Reversed)]), Status::WrongDirection);
    let contradiction = format!("{both}\ncontradiction = \"3 is not 2\"\nown_bound = true");
    assert_eq!(status(&contradiction, &[("x/b", Fails)]), Status::Contradicted);
    assert_eq!(status(&contradiction, &[("x/a", Holds), ("x/b", Holds)]), Status::Holds);
    let open = format!("{both}\nopen = \"the other half\"");
    assert_eq!(status(&open, &[("x/a", Holds), ("x/b", Holds)]), Status::Open);
    assert_eq!(status("not_run = \"needs a switch\"", &[("x/one", Holds)]), Status::NotRun);
    assert_eq!(status("test = [\"edge a::b\"]", &[]), Status::Holds);
    let run = "run = \"bench/edge/run\"\nchecks = [{ text = \"t\", expr = \"a.x < b.x\" }]";
    assert_eq!(status(run, &[]), Status::NotRun);
    assert_eq!(status(run, &[("x/one", Holds)]), Status::Holds);
    assert_eq!(status(run, &[("x/one", Reversed)]), Status::WrongDirection);
    let ordinal = GOOD.replace("ratio", "ordinal");
    let records: Records = [("x/a".to_owned(), Fails)].into();
    for own_bound in ["", "\nown_bound = true\n"] {
        let text = ordinal.replace("form = \"ordinal\"", &format!("form = \"ordinal\"{own_bound}"));
        assert_eq!(parse(&text).unwrap().entries[0].status(&records), Status::WrongDirection);
    }
}

#[test]
fn records_are_read_line_by_line() {
    let good =
        "{\"id\": \"x/a\", \"status\": \"holds\", \"seeds\": [1]}\n\n{\"id\": \"x/b\", \"status\": \"not-run\"}\n";
    let read = read_records("results/x.jsonl", good).unwrap();
    assert_eq!(
        read.iter().map(|r| (r.id.as_str(), r.status)).collect::<Vec<_>>(),
        [("x/a", Recorded::Holds), ("x/b", Recorded::NotRun)]
    );
    for (bad, problem) in [
        ("{\"id\": \"x/a\"}", "missing field `status`"),
        ("{\"id\": \"x/a\", \"status\": \"good\"}", "unknown variant `good`"),
        ("{\"id\": \"x/b\", \"status\": \"fails\"}", "x/b is there twice"),
        ("holds", "is no record"),
    ] {
        let error = read_records("results/x.jsonl", &format!("{good}{bad}\n")).unwrap_err().to_string();
        assert!(error.contains("results/x.jsonl, line 4") && error.contains(problem), "{error}");
        assert!(error.contains("write {\"id\"") || error.ends_with("remove one of the lines"), "{error}");
    }
    // The same result may have a quick and a full record.
    let both =
        ["quick", "full"].map(|mode| format!("{{\"id\": \"x/a\", \"status\": \"holds\", \"mode\": \"{mode}\"}}\n"));
    assert_eq!(read_records("results/x.jsonl", &both.concat()).unwrap().len(), 2);
    records().unwrap();
}

#[test]
fn tables_of_the_pages_are_those_of_the_records() {
    for page in pages(Path::new(ROOT)).unwrap() {
        assert!(page.now.contains("<!-- records: "), "{} has no table of records", page.file);
        assert!(page.now == page.then, "{} is not up to date: run selvedge repro --tables", page.file);
    }
    let results = std::fs::read_to_string(Path::new(ROOT).join("docs/results.md")).unwrap();
    for catalogue in catalogues().unwrap() {
        assert!(results.contains(&format!("<!-- records: {} -->", catalogue.paper)), "{}", catalogue.paper);
    }
}

/// `--archive` writes all of a file again when it adds a record. In tests a dependency, too, has numbers keep their last digits; in all other
/// builds it is Cargo.toml that asks serde_json for it.
#[test]
fn records_survive_being_read_and_written() {
    for catalogue in catalogues().unwrap() {
        let file = Path::new(ROOT).join(format!("results/{}.jsonl", catalogue.paper));
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(read.to_string(), line, "{}", file.display());
        }
    }
}

#[test]
fn every_record_is_of_a_result_or_a_claim_that_exists() {
    let results: BTreeSet<String> =
        selvedge::repro::experiments().unwrap().iter().flat_map(|e| &e.results).map(|r| r.id.clone()).collect();
    let claims: BTreeSet<String> = entries().into_iter().map(|entry| entry.id).collect();
    for id in records().unwrap().into_keys() {
        assert!(results.contains(&id) || claims.contains(&id), "results/*.jsonl has a record of {id}");
    }
}

#[test]
fn a_record_of_another_configuration_is_none() {
    let line = |id: &str, more: &str| format!("{{\"id\": \"{id}\", \"status\": \"fails\"{more}}}\n");
    let kept = |text: &str| current(read_records("results/x.jsonl", text).unwrap()).unwrap();
    let old = line("presto/fig6-throughput", ", \"configuration\": \"0123456789abcdef\"");
    assert!(kept(&old).is_empty());
    let others = [line("presto/fig6-throughput", ", \"mode\": \"quick\""), line("presto/design-tso-off", "")].concat();
    assert_eq!(kept(&others).len(), 2, "a record without one counts, as does that of a run on real hosts");
    let entry = entries().into_iter().find(|entry| entry.id == "presto/design-tso-off").unwrap();
    let of = |hash: &str| kept(&line(&entry.id, &format!(", \"configuration\": \"{hash}\""))).len();
    assert_eq!((of(&entry.configuration().unwrap()), of("0123456789abcdef")), (1, 0), "the command or checks differ");
    assert!(kept(&line("presto/fig6-throughput", "")).is_empty(), "real hosts do not decide what the simulator does");
}

fn catalogue_command(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(["repro", "--catalogue"])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_prints_every_claim_and_the_counts() {
    let (code, text, _) = catalogue_command(&[]);
    assert_eq!(code, Some(0));
    let records = records().unwrap();
    for entry in entries() {
        let status = entry.status(&records).word();
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(&entry.id)).unwrap();
        assert!(line[entry.id.len()..].trim_start().starts_with(status), "{line}");
    }
    let (_, lines, _) = catalogue_command(&["limiters", "--json"]);
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (counts, claims) = lines.split_last().unwrap();
    assert_eq!((claims.len(), &counts["paper"], &counts["entries"]), (69, &"limiters".into(), &69.into()));
    for (word, number) in counts["counts"].as_object().unwrap() {
        assert_eq!(
            claims.iter().filter(|claim| claim["status"] == word.as_str()).count() as u64,
            number.as_u64().unwrap()
        );
    }
    let (code, _, error) = catalogue_command(&["limiter"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("there is no catalogue of \"limiter\"") && error.contains("did you mean limiters?"),
        "{error}"
    );
}

#[test]
fn the_papers_numbers_belong_to_metrics_of_results() {
    let experiments = selvedge::repro::experiments().unwrap();
    let numbers = selvedge::repro::printed::printed().unwrap();
    let problems: Vec<String> = numbers.iter().filter_map(|number| number.problem(&experiments)).collect();
    assert!(problems.is_empty(), "results/printed: {}", problems.join("\n"));
    assert!(numbers.len() > 100, "{}", numbers.len());
}
