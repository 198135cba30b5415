//! The report in headless Chromium. Skipped, with the reason on stderr, where there is none.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge::report::{self, *};

use super::sample;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// `None`, with a word on stderr, if no browser starts.
pub(crate) fn browser() -> Option<&'static str> {
    let starts = |name: &&&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found = BROWSERS.iter().find(starts).copied();
    if found.is_none() {
        // Not eprintln: the harness would swallow it, for the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no Chromium here (looked for {})", BROWSERS.join(", "));
    }
    found
}

pub(crate) fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-browser").join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The document as it stands after the page's scripts have run, `extra` among them.
fn drawn(browser: &str, name: &str, data: &ReportData, extra: &str) -> String {
    let directory = scratch(name);
    let path = directory.join("report.html");
    report::write(&path, data).unwrap();
    if !extra.is_empty() {
        let mut page = std::fs::read_to_string(&path).unwrap();
        page.insert_str(page.rfind("</body>").expect("the end of the page"), extra);
        std::fs::write(&path, page).unwrap();
    }
    // A browser that hangs on a loaded machine says nothing about the page: one more try, then it counts.
    let document = run(browser, &directory, &path).or_else(|| run(browser, &directory, &path));
    let _ = std::fs::remove_dir_all(directory.join("profile"));
    document.expect("the browser ends in time")
}

/// The browser's output, or `None` if it does not end within a minute and a half.
pub(crate) fn run(browser: &str, directory: &Path, page: &Path) -> Option<String> {
    run_with(browser, directory, page, &["--virtual-time-budget=8000"])
}

pub(crate) fn run_with(browser: &str, directory: &Path, page: &Path, flags: &[&str]) -> Option<String> {
    let dump = directory.join("dom.html");
    let profile = directory.join("profile");
    let _ = std::fs::remove_dir_all(&profile);
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--window-size=1280,2400", "--dump-dom"])
        .args(flags)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stdout(File::create(&dump).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..900 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{browser}: {status}");
            return Some(std::fs::read_to_string(&dump).unwrap());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// The start tag of the document element, where the page reports on itself.
pub(crate) fn state(document: &str) -> &str {
    let start = document.find("<html").expect("a document");
    let end = document[start..].find('>').expect("a whole tag");
    &document[start..start + end]
}

fn assert_all_drawn(document: &str, charts: usize) {
    let state = state(document);
    assert!(!state.contains("data-errors"), "{state}");
    assert!(state.contains("data-state=\"ready\""), "{state}");
    assert!(state.contains(&format!("data-charts=\"{charts}\"")), "{state}");
    let (_, body) = document.split_once("<body").expect("a body");
    let (cards, _) = body.split_once("id=\"report-data\"").expect("cards before the data");
    assert_eq!(cards.matches("data-drawn=\"true\"").count(), charts);
    assert!(cards.matches("<svg").count() + cards.matches("<canvas").count() >= charts);
}

#[test]
fn every_chart_draws() {
    let Some(browser) = browser() else { return };
    let document = drawn(browser, "every-chart", &sample::stride(), "");
    assert_all_drawn(&document, 8);
    assert!(document.contains("<title>Stride(8) on a 16-host Clos</title>"));
    // Curves, not just frames: three schemes in three line charts at the least.
    for colour in ["#0067a8", "#d05a00", "#008a66"] {
        let curves = document.matches(&format!("stroke=\"{colour}\"")).count();
        assert!(curves >= 3, "{curves} lines in {colour}");
    }
}

#[test]
fn every_switch_and_tooltip_works() {
    let Some(browser) = browser() else { return };
    let press = "<script>let pressed = 0, tips = new Set();\
        const hover = () => { for (const e of document.querySelectorAll('.chart')) for (const seriesIndex of [0, 1]) {\
          echarts.getInstanceByDom(e).dispatchAction({ type: 'showTip', seriesIndex, dataIndex: 1 });\
          if (e.querySelector('b')) tips.add(e.id); } };\
        hover();\
        for (const i of document.querySelectorAll('.choice input')) { i.click(); hover(); pressed += 1; }\
        for (const s of document.querySelectorAll('.controls select')) for (let i = 0; i < s.options.length; i++) {\
          s.selectedIndex = i; s.dispatchEvent(new Event('change')); pressed += 1; }\
        window.dispatchEvent(new Event('beforeprint')); window.dispatchEvent(new Event('afterprint'));\
        document.documentElement.dataset.pressed = pressed; document.documentElement.dataset.tips = tips.size;</script>";
    let document = drawn(browser, "switches", &sample::stride(), press);
    assert_all_drawn(&document, 8);
    // Throughput 2, FCT 2 + 2, slowdown 2, links 2 + 4, queue 2, RTT 2, topology 3.
    let state = state(&document);
    assert!(state.contains("data-pressed=\"21\"") && state.contains("data-tips=\"8\""), "{state}");
}

#[test]
fn metrics_over_an_axis_draw() {
    let Some(browser) = browser() else { return };
    let look = "<script>const e = document.getElementById('chart-sweep'); const c = echarts.getInstanceByDom(e);\
        const data = (i) => c.getOption().series[i].data;\
        const told = [data(0).length, data(1)[2].join('_'), data(2).length].join('-');\
        document.querySelectorAll('#controls-sweep input')[1].click();\
        document.documentElement.dataset.told = told + '-' + c.getOption().yAxis[0].name;</script>";
    let mut data = sample::sweep();
    let document = drawn(browser, "sweep", &data, look);
    assert_all_drawn(&document, 9);
    // Three points of one scheme, the interval of its last, two of the other.
    assert!(state(&document).contains("data-told=\"3-0.6_5.4_6.6-2-slowdown p50\""), "{}", state(&document));
    assert!(document.contains("<td>1.10</td>") && document.contains("<td>6.00 \u{b1}0.60</td>"), "the numbers below");
    data.sweep.as_mut().unwrap().numbers = None;
    assert_all_drawn(&drawn(browser, "sweep-labels", &data, ""), 9);
}

#[test]
fn failures_and_unfinished_flows_draw() {
    let Some(browser) = browser() else { return };
    let document = drawn(browser, "timeline", &sample::timeline(), "");
    assert_all_drawn(&document, 9);
    let (_, card) = document.split_once("id=\"chart-timeline\"").unwrap();
    let (card, _) = card.split_once("<details").unwrap();
    assert!(card.contains("leaf1-spine2 fails") && card.contains("leaf1-spine2 recovers"), "{card}");
    assert_eq!(card.matches("fill=\"#0067a8\"").count(), 12, "a bar a flow: {card}");
    assert!(document.contains("<td>lost packets and waited for timeouts</td>"));
    // Of a sweep: a row for each point and scheme that left flows unfinished.
    let mut swept = sample::timeline();
    let name = swept.schemes[0].name.clone();
    swept.schemes[1].unfinished_flows.clear();
    for (n, flow) in swept.schemes[0].unfinished_flows.iter_mut().enumerate() {
        flow.point = if n < 5 { "load=1" } else { "load=2" }.to_owned();
    }
    swept.timeline.as_mut().unwrap().points = vec!["load=1".to_owned(), "load=2".to_owned()];
    let document = drawn(browser, "timeline-swept", &swept, "");
    let (_, card) = document.split_once("id=\"chart-timeline\"").unwrap();
    let (card, table) = card.split_once("<details").unwrap();
    for point in ["load=1", "load=2"] {
        assert!(card.contains(&format!("{point}: {name}")), "{card}");
        assert!(table.contains(&format!("<th scope=\"row\">{point}</th><td>{name}</td>")));
    }
    assert_eq!(card.matches("fill=\"#0067a8\"").count(), 12, "a bar a flow: {card}");
}

#[test]
fn real_traffic_draws_with_and_without_a_simulation() {
    let Some(browser) = browser() else { return };
    let look = "<script>const of = (id) => echarts.getInstanceByDom(document.getElementById(id)).getOption();\
        const told = [of('chart-requests').series.map((s) => s.data.length).join('_'), of('chart-requests').yAxis[0].type];\
        document.querySelectorAll('#controls-requests input')[1].click();\
        told.push(of('chart-requests').series[1].data.length > 50, of('chart-downloads').series[0].data.length);\
        document.documentElement.dataset.told = told.join('-');</script>";
    let alone = ReportData { real: Some(sample::real()), ..ReportData::default() };
    let document = drawn(browser, "real", &alone, look);
    assert_all_drawn(&document, 2);
    // All requests of both, on a log axis; a curve of those that count; steps of 100 ms.
    assert!(state(&document).contains("data-told=\"500_500-log-true-30\""), "{}", state(&document));
    let both = ReportData { real: alone.real, ..sample::stride() };
    assert_all_drawn(&drawn(browser, "real-too", &both, ""), 10);
    let empty = ReportData { real: Some(Real::default()), ..ReportData::default() };
    assert_all_drawn(&drawn(browser, "real-empty", &empty, ""), 0);
}

#[test]
fn reports_with_little_in_them_draw() {
    let Some(browser) = browser() else { return };
    assert_all_drawn(&drawn(browser, "empty", &ReportData::default(), ""), 0);

    let mut sparse = sample::stride();
    sparse.schemes.truncate(1);
    let scheme = &mut sparse.schemes[0];
    scheme.rtt = None;
    scheme.goodput = None;
    scheme.fct = vec![FctSeries { class: "all".into(), cdf: Cdf::from_samples("ms", vec![], 2) }];
    scheme.throughput[0].gbps = f64::NAN;
    scheme.slowdown = vec![SlowdownBucket { size_label: "all".into(), ..SlowdownBucket::default() }];
    scheme.link_utilisation[0].mean = f64::NAN;
    scheme.link_utilisation.iter_mut().for_each(|u| u.series = None);
    scheme.queue[0].mean_kb = f64::INFINITY;
    assert_all_drawn(&drawn(browser, "sparse", &sparse, ""), 6);

    let fct = vec![FctSeries { class: "all".into(), cdf: Cdf::from_samples("ms", vec![1.0], 0) }];
    let scheme = SchemeReport { name: "</script><b>".into(), fct, ..SchemeReport::default() };
    let one_sample = ReportData { schemes: vec![scheme], ..ReportData::default() };
    assert_all_drawn(&drawn(browser, "one-sample", &one_sample, ""), 1);
}

#[test]
fn a_large_fabric_draws() {
    let Some(browser) = browser() else { return };
    let mut data = sample::stride();
    data.topology = sample::clos(16, 16, 16);
    for (i, scheme) in data.schemes.iter_mut().enumerate() {
        let used = |l: &Link, dir| LinkUtilisation { link: l.name.clone(), dir, mean: 0.3 * i as f64, series: None };
        let both = |l: &Link| [used(l, Direction::AToB), used(l, Direction::BToA)];
        scheme.link_utilisation = data.topology.links.iter().flat_map(both).collect();
        scheme.throughput = (0..256).map(|h| Throughput { name: format!("h{h}"), gbps: f64::from(h % 10) }).collect();
    }
    assert_all_drawn(&drawn(browser, "large", &data, ""), 8);
}

#[test]
fn the_page_tells_of_errors_and_blocked_requests() {
    let Some(browser) = browser() else { return };
    let faults = "<script>undefined_function()</script><img src=\"http://127.0.0.1:9/x.png\">";
    let document = drawn(browser, "faults", &ReportData::default(), faults);
    let state = state(&document);
    assert!(state.contains("undefined_function") && state.contains("blocked: img-src"), "{state}");
}
