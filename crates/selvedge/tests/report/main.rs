//! The report as a whole: its text here, its behaviour in a browser in [`browser`].

mod browser;
mod sample;
mod site;

use selvedge::report::{self, *};

/// The page without the chart library, whose text holds the addresses of its licence and of XML name spaces.
fn without_library(page: &str) -> String {
    let library = include_str!("../../assets/echarts/echarts.min.js");
    assert_eq!(page.matches(library).count(), 1, "the library is in the page once, unchanged");
    page.replace(library, "")
}

fn embedded_json(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"report-data\">").expect("data in the page");
    let (json, _) = rest.split_once("</script>").expect("end of data");
    serde_json::from_str(json).expect("data is JSON")
}

#[test]
fn nothing_points_outside() {
    let page = without_library(&report::render(&sample::stride()));
    for outside in [" src=", "href=\"http", "http://", "https://", "@import", "url(", "<link", "<iframe"] {
        assert!(!page.contains(outside), "the page holds {outside:?}");
    }
    assert!(page.contains("content=\"default-src 'none'; "));
}

#[test]
fn strings_cannot_break_out() {
    let evil = "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
    let mut data = sample::stride();
    for text in [&mut data.title, &mut data.subtitle, &mut data.version, &mut data.command, &mut data.effective_config]
    {
        *text = evil.into();
    }
    data.warnings = vec![evil.into()];
    data.schemes[0].name = evil.into();
    data.schemes[0].note = evil.into();
    data.schemes[0].fct[0].class = evil.into();
    data.schemes[0].fct[0].cdf.unit = evil.into();
    data.schemes[0].slowdown[0].size_label = evil.into();
    data.schemes[0].throughput[0].name = evil.into();
    data.schemes[0].queue[0].port = evil.into();
    data.schemes[0].link_utilisation[0].link = evil.into();
    data.topology.nodes[0].name = evil.into();
    data.topology.nodes[0].kind = evil.into();
    data.topology.links[0].name = evil.into();
    data.table.columns[0].title = evil.into();
    data.table.columns[0].unit = evil.into();
    data.table.rows[0].scheme = evil.into();
    data.table.rows[0].cells[0].note = Some(evil.into());
    data.checks[0].text = evil.into();
    data.checks[0].id = evil.into();
    data.checks[0].source = evil.into();
    data.checks[0].paper = evil.into();
    data.checks[0].measured = evil.into();
    data.checks[0].reason = Some(evil.into());

    let mut sweep = sample::sweep().sweep.unwrap();
    (sweep.axis, sweep.points[0]) = (evil.into(), evil.into());
    (sweep.metrics[0].column.title, sweep.metrics[0].column.unit) = (evil.into(), evil.into());
    sweep.metrics[0].lines[0].scheme = evil.into();
    data.sweep = Some(sweep);
    let mut real = sample::real();
    (real.title, real.text) = (evil.into(), evil.into());
    (real.lines[0].name, real.lines[0].note) = (evil.into(), evil.into());
    (real.table.columns[0].title, real.table.rows[0].scheme) = (evil.into(), evil.into());
    data.real = Some(real);

    let page = without_library(&report::render(&data));
    let usual = without_library(&report::render(&sample::stride()));
    assert!(!page.contains("<img"), "markup from a string");
    for tag in ["<script", "</script>", "<title>", "</title>"] {
        assert_eq!(page.matches(tag).count(), usual.matches(tag).count(), "{tag}");
    }
    assert_eq!(embedded_json(&page)["schemes"][0]["name"], evil, "and yet the data is the same");
}

#[test]
fn an_empty_report_renders() {
    let page = report::render(&ReportData::default());
    assert!(page.contains("Nothing was recorded."));
    assert!(!page.contains("class=\"chart\""), "a chart of nothing");
    let mut no_flows = ReportData { title: "idle".into(), ..ReportData::default() };
    no_flows.schemes.push(SchemeReport { name: "ecmp".into(), ..SchemeReport::default() });
    no_flows.schemes[0].fct.push(FctSeries { class: "all".into(), cdf: Cdf::from_samples("ms", vec![], 4) });
    assert!(report::render(&no_flows).contains("ecmp"));
}

#[test]
fn a_report_may_have_real_traffic_alone() {
    let data = ReportData { real: Some(sample::real()), effective_config: "[limits]".into(), ..ReportData::default() };
    let page = report::render(&data);
    assert!(!page.contains("Nothing was recorded.") && !page.contains("<dt>Seeds</dt>"), "of what was not run");
    assert!(page.contains("<th scope=\"col\">Limiter</th>") && page.contains("<i class=\"swatch s1\"></i>selvedge"));
    assert!(page.contains("<span class=\"diff better\">\u{2212}99.9%"), "against the first limiter");
    assert!(!page.contains("href=\"#real\""), "there is nothing to jump over");
    let both = report::render(&ReportData { real: data.real, ..sample::stride() });
    assert!(both.contains("href=\"#real\"") && both.contains("id=\"comparison\"") && both.contains("id=\"real\""));
}

#[test]
fn values_that_are_no_numbers_are_missing() {
    let mut data = sample::stride();
    let scheme = &mut data.schemes[0];
    scheme.throughput[0].gbps = f64::NAN;
    scheme.queue[0].max_kb = f64::INFINITY;
    scheme.link_utilisation[0].mean = f64::NEG_INFINITY;
    scheme.slowdown[0].p99 = Some(f64::NAN);
    scheme.goodput = Some(Series::new(0.0, 1.0, &[f64::NAN, 1.0]));
    data.table.rows[0].cells[0] = Cell { value: Some(f64::NAN), ci: Some(f64::NAN), note: None };
    let page = report::render(&data);
    let json = embedded_json(&page);
    assert!(json["schemes"][0]["throughput"][0]["gbps"].is_null());
    assert!(json["schemes"][0]["queue"][0]["max_kb"].is_null());
    let (_, body) = page.split_once("<body>").expect("a body");
    let (tables, _) = body.split_once("<script").expect("scripts after the tables");
    assert!(!tables.contains("NaN") && !tables.contains("inf"), "a table shows what is no number");
}

#[test]
fn the_same_data_gives_the_same_bytes() {
    assert_eq!(report::render(&sample::stride()), report::render(&sample::stride()));
}

#[test]
fn writing_replaces_whole_files_only() {
    let directory = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report-write");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("report.html");
    std::fs::write(&path, "older").unwrap();
    report::write(&path, &sample::stride()).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");

    // A directory stands under the name: the rename fails, and nothing is left beside it.
    let taken = directory.join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(report::write(&taken, &ReportData::default()).is_err());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
    assert!(report::write(&directory.join("absent/report.html"), &ReportData::default()).is_err());
}
