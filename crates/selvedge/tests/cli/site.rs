//! `repro --site`: pages from records.

use super::{selvedge, stderr, stdout, Scratch};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// A record as `--archive` keeps it, of a sweep with two points, with a reason that a page must not take for its own text.
fn record(dir: &Path) -> Value {
    let listed = stdout(&selvedge(dir, &["repro", "--list", "--json", "presto/fig17-throughput"]));
    let listed: Value = serde_json::from_str(listed.trim()).unwrap();
    let texts: Vec<&str> = listed["checks"].as_array().unwrap().iter().map(|check| check.as_str().unwrap()).collect();
    let seen = |at: &str, value: f64| json!({"at": at, "value": value, "ci95_half_width": 0.01, "unit": "x", "jobs": 20_113, "metrics": {}});
    let checks: Vec<Value> = texts
        .iter()
        .map(|text| json!({"text": text, "holds": true, "measured": [seen("L1-L4", 0.751), seen("L4-L1", 0.749)], "paper": null}))
        .collect();
    json!({
        "id": "presto/fig17-throughput", "status": "fails", "reason": "<script>bad</script>", "checks": checks, "mode": "full",
        "seeds": 5, "core_s": 12.5, "machine": "a machine",
    })
}

fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn the_site_shows_what_records_say_and_every_link_leads_somewhere() {
    let scratch = Scratch::new("site");
    let dir = scratch.path();
    std::fs::create_dir(dir.join("records")).unwrap();
    std::fs::write(dir.join("records/presto.jsonl"), format!("{}\n", record(dir))).unwrap();
    let output = selvedge(dir, &["repro", "--site", "site", "--records", "records"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let took = said.split_once(" pages in ").and_then(|(_, rest)| rest.split_once(" s: ")?.0.parse::<f64>().ok());
    assert!(took.is_some_and(|took| took >= 0.0), "{said}");
    let read = |name: &str| std::fs::read_to_string(dir.join("site").join(name)).unwrap();
    let page = read("presto-fig17.html");
    let (_, result) = page.split_once("id=\"presto/fig17-throughput\"").unwrap();
    let (result, others) = result.split_once("</section>").unwrap();
    for text in [
        "badge fails",
        "&lt;script&gt;bad",
        "0.751",
        "\u{b1} 0.0100",
        "L4-L1",
        "--full, 5 seeds",
        "a machine",
        "20,113 jobs a seed",
    ] {
        assert!(result.contains(text), "{text}: {result}");
    }
    assert!(others.contains("badge none"), "the others of the page have no record");
    assert_eq!(page.matches("class=\"dots\"").count(), 2, "a chart for each unit of the one result");
    let index = read("index.html");
    let (_, row) = index.split_once("<tr id=\"presto/fig17-throughput\">").unwrap();
    assert!(row.split("</tr>").next().unwrap().contains("our own bound"), "the paper prints no number");

    let mut pages = BTreeSet::new();
    for entry in std::fs::read_dir(dir.join("site")).unwrap() {
        pages.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    for name in pages.iter().filter(|name| name.ends_with(".html")) {
        let page = read(name);
        assert!(!page.contains("http:") && !page.contains("https:"), "{name} needs a network");
        for link in links(&page) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { name } else { file };
            assert!(pages.contains(target), "{name}: {link}");
            assert!(anchor.is_empty() || read(target).contains(&format!("id=\"{anchor}\"")), "{name}: {link}");
        }
    }
    assert!(pages.len() > 50, "{pages:?}");

    let again = selvedge(dir, &["repro", "--site", "site"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert!(read("presto-fig17.html").contains("badge fails"), "the old pages are there");
    assert!(selvedge(dir, &["repro", "--site", "site", "--force"]).status.success());
    assert!(!read("presto-fig17.html").contains("&lt;script&gt;bad"));
}

/// The absolute figure fails, the order holds; the paper's number stands beside a metric that a check's value is in proportion to.
#[test]
fn absolute_figures_are_reported_and_the_papers_numbers_have_our_interval() {
    let scratch = Scratch::new("site-absolute");
    let dir = scratch.path();
    let listed = stdout(&selvedge(dir, &["repro", "--list", "--json", "acdc/parkinglot-rtt999"]));
    let listed: Value = serde_json::from_str(listed.trim()).unwrap();
    let texts: Vec<&str> = listed["checks"].as_array().unwrap().iter().map(|check| check.as_str().unwrap()).collect();
    assert_eq!(texts.len(), 3);
    let metrics = json!({"acdc.rtt.fct_ms.p999": 0.26, "dctcp.rtt.fct_ms.p999": 0.25, "cubic.rtt.fct_ms.p999": 13.5});
    let halves = json!({"dctcp.rtt.fct_ms.p999": 0.004});
    let seen = |value: f64, half: f64| json!({"value": value, "ci95_half_width": half, "unit": "x", "metrics": metrics, "metrics_ci95_half_width": halves});
    let check = |n: usize, holds: bool, seen: Value| json!({"text": texts[n], "holds": holds, "measured": seen});
    let line = json!({
        "id": "acdc/parkinglot-rtt999", "status": "fails", "reason": "of the absolute check", "mode": "full", "seeds": 5,
        "checks": [check(0, true, seen(1.04, 0.01)), check(1, true, seen(51.9, 0.5)), check(2, false, seen(260.0, 13.0))],
    });
    scratch.file("acdc.jsonl", &format!("{line}\n"));
    assert!(selvedge(dir, &["repro", "--site", "site", "--records", "."]).status.success());
    let page = std::fs::read_to_string(dir.join("site/acdc-parkinglot.html")).unwrap();
    let (_, result) = page.split_once("id=\"acdc/parkinglot-rtt999\"").unwrap();
    let (result, _) = result.split_once("</section>").unwrap();
    assert!(result.contains("<h2><span class=\"badge holds\">") && result.contains("absolute: fails"), "{result}");
    assert!(!result.contains("of the absolute check"), "it is no reason any more");
    // Its number is AC/DC's, and CUBIC's fails.
    assert!(result.contains("abs(cubic.rtt.fct_ms.p999 - 3.9)") && result.contains("9.60, not &lt;= 1.17"), "{result}");
    let (_, numbers) = result.split_once("The paper's numbers").unwrap();
    assert!(numbers.contains("<code>acdc.rtt.fct_ms.p999</code></td><td>0.260 \u{b1} 0.0130</td>"), "{numbers}");
    assert!(
        numbers.contains("<code>dctcp.rtt.fct_ms.p999</code></td><td>0.250 \u{b1} 0.00400</td>"),
        "as recorded: {numbers}"
    );
    assert!(
        numbers.contains("<code>cubic.rtt.fct_ms.p999</code></td><td>13.5</td>"),
        "no check's value is its: {numbers}"
    );
}

#[test]
fn a_record_of_another_scenario_counts_as_none() {
    let scratch = Scratch::new("site-stale");
    let dir = scratch.path();
    let mut line = record(dir);
    line["configuration"] = json!("0000000000000000");
    scratch.file("presto.jsonl", &format!("{line}\n"));
    assert!(selvedge(dir, &["repro", "--site", "site", "--records", "."]).status.success());
    let page = std::fs::read_to_string(dir.join("site/presto-fig17.html")).unwrap();
    let (_, result) = page.split_once("id=\"presto/fig17-throughput\"").unwrap();
    let (result, _) = result.split_once("</section>").unwrap();
    assert!(result.contains("badge none\">not run") && result.contains("of another scenario"), "{result}");
}

#[test]
fn records_that_do_not_read_are_named_and_leave_no_site() {
    let scratch = Scratch::new("site-bad");
    let dir = scratch.path();
    for name in ["empty", "broken", "twice"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("broken/a.jsonl"), "\n{\"id\": 3}\n").unwrap();
    for name in ["a", "b"] {
        std::fs::write(dir.join("twice").join(format!("{name}.jsonl")), "{\"id\":\"x/y\",\"status\":\"holds\"}\n")
            .unwrap();
    }
    for (arguments, said) in [
        (&["--records", "empty"][..], "there is no *.jsonl file"),
        (&["--records", "none"], "none: cannot be read"),
        (&["--records", "broken"], "a.jsonl, line 2: is no record"),
        (&["--records", "twice"], "x/y has a record in another file"),
        (&["--full"], "cannot be used with"),
        (&["presto"], "cannot be used with"),
    ] {
        let output = selvedge(dir, &[&["repro", "--site", "site"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(!dir.join("site").exists());
    }
    assert_eq!(scratch.names(), ["broken", "empty", "twice"], "nothing half-written is left");
}

/// Text without white space and marks of Markdown.
fn bare(text: &str) -> String {
    text.replace("**", "").chars().filter(|c| !c.is_whitespace() && !"`|".contains(*c)).collect()
}

/// The text of a page.
fn text_of(html: &str) -> String {
    let text: String = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let escapes = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    bare(&escapes.iter().fold(text, |text, (escape, plain)| text.replace(escape, plain)))
}

#[test]
fn every_word_about_a_figure_stands_on_its_page() {
    let scratch = Scratch::new("site-prose");
    let dir = scratch.path();
    assert!(selvedge(dir, &["repro", "--site", "site"]).status.success());
    let files: BTreeSet<String> = selvedge::repro::experiments().unwrap().into_iter().map(|e| e.file).collect();
    let sections = selvedge::repro::prose::prose().unwrap();
    for section in &sections {
        for name in &section.experiments {
            assert!(files.contains(&format!("{name}.toml")), "results/prose has {name}, which is no experiment");
        }
        let pages = section.experiments.iter().map(|name| format!("{}.html", name.replace('/', "-")));
        let whole = section.experiments.is_empty().then(|| "index.html".to_owned());
        for page in pages.chain(whole) {
            let shown = text_of(&std::fs::read_to_string(dir.join("site").join(&page)).unwrap());
            for line in section.text.lines().filter(|line| !line.starts_with("|---")) {
                assert!(shown.contains(&bare(line)), "{page} does not say: {line}");
            }
        }
    }
    assert!(sections.len() > 40, "{}", sections.len());
    let page = std::fs::read_to_string(dir.join("site/acdc-parkinglot.html")).unwrap();
    let (_, card) = page.split_once("<section class=\"card prose\">").unwrap();
    let (card, rest) = card.split_once("</section>").unwrap();
    assert!(card.contains("<strong>Fairness.</strong>") && card.contains("<td>100 ns, 9,000 bytes</td>"), "{card}");
    assert!(rest.contains("id=\"acdc/parkinglot-fairness\""), "it stands before the results");
    assert!(!std::fs::read_to_string(dir.join("site/acdc-fig3.6.html")).unwrap().contains("card prose"));
}
