//! The site in headless Chromium: its index and a page with charts from records made up here, and all pages from those of the binary.

use super::browser::{browser, run, run_with, scratch, state};
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

/// In a frame each, one after another: what a page says of itself, with its charts and those that it has drawn.
const FRAMES: &str = "<!doctype html><html><body><iframe width=1280 height=2400></iframe><script>
const frame = document.querySelector('iframe');
const told = [];
const next = (n) => {
  if (n == pages.length) { document.body.textContent = JSON.stringify(told); document.documentElement.dataset.done = n; return; }
  frame.onload = () => {
    let looks = 0;
    const look = () => {
      const page = frame.contentDocument, own = page.documentElement.dataset;
      const charts = [...page.querySelectorAll('.dots')];
      // Lines of axes alone would be fewer. Frames wait long for their turn to animate, so data-drawn may come late.
      const drawn = charts.filter((chart) => chart.querySelectorAll('svg path').length > 4).length;
      if ((own.state != 'ready' || drawn < charts.length) && ++looks < 200) return setTimeout(look, 10);
      told.push([pages[n], own.state || 'none', own.errors || '', charts.length, drawn]);
      next(n + 1);
    };
    look();
  };
  frame.src = pages[n];
};
next(0);</script></body></html>";

#[test]
fn every_page_of_the_records_draws() {
    let Some(browser) = browser() else { return };
    let directory = scratch("site-whole");
    let mut built = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    assert!(built.current_dir(&directory).args(["repro", "--site", "pages"]).output().unwrap().status.success());
    let mut pages: Vec<String> = (std::fs::read_dir(directory.join("pages")).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".html"))
        .collect();
    pages.sort();
    let frames = directory.join("pages/frames.html");
    let list = format!("<script>const pages = {};</script>", serde_json::json!(pages));
    std::fs::write(&frames, FRAMES.replace("<body>", &format!("<body>{list}"))).unwrap();
    let flags = ["--allow-file-access-from-files", "--virtual-time-budget=600000"];
    let document = run_with(browser, &directory, &frames, &flags)
        .or_else(|| run_with(browser, &directory, &frames, &flags))
        .expect("it ends in time");
    assert!(state(&document).contains(&format!("data-done=\"{}\"", pages.len())), "{}", state(&document));
    let (_, body) = document.split_once("<body>").unwrap();
    let told: Vec<(String, String, String, u32, u32)> =
        serde_json::from_str(body.split_once("</body>").unwrap().0.trim()).expect("a list");
    for (page, ready, errors, charts, drawn) in &told {
        assert!(ready == "ready" && errors.is_empty(), "{page}: {ready} {errors}");
        assert!(charts == drawn, "{page}: {drawn} of {charts} charts are drawn");
    }
    assert!(told.iter().filter(|page| page.3 > 0).count() > told.len() / 2, "most pages have charts");
    let _ = std::fs::remove_dir_all(&directory);
}
