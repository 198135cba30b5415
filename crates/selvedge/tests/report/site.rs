//! The site in headless Chromium: its index, and a page with charts.

use super::browser::{browser, run, scratch, state};
use std::process::Command;

#[test]
fn index_and_charts_draw_from_files() {
    let Some(browser) = browser() else { return };
    let directory = scratch("site");
    let selvedge = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_selvedge")).current_dir(&directory).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed: serde_json::Value =
        serde_json::from_str(selvedge(&["repro", "--list", "--json", "presto/fig15-stride"]).trim()).unwrap();
    let checks: Vec<serde_json::Value> = listed["checks"]
        .as_array()
        .unwrap()
        .iter()
        .zip(1..)
        .map(|(text, n)| {
            let half = (n > 1).then_some(0.1); // one without an interval
            serde_json::json!({"text": text, "holds": n > 1, "measured": {"value": f64::from(n), "ci95_half_width": half, "metrics": {}}})
        })
        .collect();
    let record = serde_json::json!({"id": "presto/fig15-stride", "status": "fails", "reason": null, "checks": checks});
    std::fs::create_dir(directory.join("records")).unwrap();
    std::fs::write(directory.join("records/presto.jsonl"), format!("{record}\n")).unwrap();
    selvedge(&["repro", "--site", "pages", "--records", "records"]);
    for (name, drawn) in [("index.html", false), ("presto-fig15.html", true)] {
        let page = directory.join("pages").join(name);
        let document =
            run(browser, &directory, &page).or_else(|| run(browser, &directory, &page)).expect("it ends in time");
        let state = state(&document);
        assert!(!state.contains("data-errors"), "{name}: {state}");
        assert!(state.contains("data-state=\"ready\""), "{name}: {state}");
        let charts = document.matches("class=\"dots\"").count();
        assert!((charts > 0) == drawn && state.contains(&format!("data-charts=\"{charts}\"")), "{name}: {state}");
        assert_eq!(document.matches("data-drawn=\"true\"").count(), charts, "{name}");
        assert_eq!(document.matches("<svg").count(), charts, "{name}");
    }
    let _ = std::fs::remove_dir_all(&directory);
}
