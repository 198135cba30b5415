//! What Prometheus sees of a controller.

use crate::authority::Authority;
use crate::{curl, eventually, free_port, on_port, promtool, selvedge, Running, FABRIC};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The page, in the format that `accept` gets.
fn page(port: u16, accept: &str, kind: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(kind), "{head}");
    body.to_owned()
}

pub(crate) fn metrics(port: u16) -> String {
    page(port, "*/*", "text/plain; version=0.0.4")
}

/// The value of one sample.
pub(crate) fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix("selvedge_controller_")?.strip_prefix(name)?.trim().parse().ok())
}

fn assert_samples(page: &str, samples: &[(&str, f64)]) {
    for (name, value) in samples {
        assert_eq!(sample(page, name), Some(*value), "{name} in\n{page}");
    }
}

/// The words of a text that are names of a controller's metrics.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("selvedge_controller_")).collect()
}

fn with_metrics(config: &Path) -> (u16, u16) {
    let (port, page) = (free_port(), free_port());
    on_port(config, port);
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, format!("metrics = \"127.0.0.1:{page}\"\n{text}")).unwrap();
    (port, page)
}

#[test]
fn prometheus_sees_what_an_operator_would_want_to_know() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let (port, page) = with_metrics(&config);
    let _controller = Running::start(&config);
    let begun = metrics(page);
    promtool::check(&["metrics"], begun.trim_end());
    assert_samples(
        &begun,
        &[
            (&format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
            ("links", 4.0),
            ("links_failed", 0.0),
            ("edges", 4.0),
            ("edges_connected", 0.0),
            ("edges_behind", 0.0),
            ("store_up{store=\"file\"}", 1.0),
            ("store_failures_total", 0.0),
            ("schedules_given_total", 0.0),
            ("link_changes_total", 0.0),
            ("refusals_total{reason=\"handshake\"}", 0.0),
            ("requests_total{request=\"links\"}", 0.0),
        ],
    );
    let expiry = sample(&begun, "certificate_expiry_timestamp_seconds").unwrap();
    let change = sample(&begun, "last_change_timestamp_seconds").unwrap();
    assert!((1.9..2.1).contains(&((expiry - change) / 86_400.0)), "a certificate of two days: {expiry} {change}");
    // Operators, edges, and those who are neither.
    assert!(selvedge(&["fail", "leaf1-spine1"], &config).status.success());
    assert!(!selvedge(&["fail", "leaf1-spine9"], &config).status.success());
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    eventually("the stranger's handshake has failed", || {
        sample(&metrics(page), "refusals_total{reason=\"handshake\"}") == Some(1.0)
    });
    let Some((code, _)) = curl(&authority, "host1", port, "/v1/schedules/host1?after=1") else { return };
    assert_eq!(code, "200");
    for (name, path, code) in [
        ("host1", "/v1/schedules/host2?after=1", "403"),
        ("leaf1", "/v1/schedules/leaf1?after=1", "404"),
        ("host1", "/v1/nothing", "404"),
    ] {
        assert_eq!(curl(&authority, name, port, path).unwrap().0, code, "{path}");
    }
    let now = metrics(page);
    promtool::check(&["metrics"], now.trim_end());
    assert_samples(
        &now,
        &[
            ("links_failed", 1.0),
            ("edges_connected", 1.0),
            ("edges_behind", 1.0),
            ("schedules_given_total", 1.0),
            ("link_changes_total", 1.0),
            ("requests_total{request=\"links\"}", 2.0),
            ("requests_total{request=\"schedules\"}", 3.0),
            ("requests_total{request=\"other\"}", 1.0),
            ("refusals_total{reason=\"certificate\"}", 1.0),
            ("refusals_total{reason=\"request\"}", 3.0),
            ("refusals_total{reason=\"store\"}", 0.0),
        ],
    );
    assert_eq!(sample(&now, "revision").unwrap(), sample(&begun, "revision").unwrap() + 1.0);
    // A scraper that asks for OpenMetrics gets it.
    let open =
        self::page(page, "application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1", "application/openmetrics-text");
    assert!(open.contains("# TYPE selvedge_controller_link_changes counter\n") && open.ends_with("# EOF\n"), "{open}");
}

#[test]
fn a_page_that_cannot_be_served_is_said_at_the_start() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let (_, page) = with_metrics(&config);
    let _there = std::net::TcpListener::bind(("127.0.0.1", page)).unwrap();
    let output = selvedge(&["run"], &config);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("cannot serve metrics on") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn packaged_alerts_and_dashboard_ask_for_metrics_that_exist() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let (_, page) = with_metrics(&config);
    let _controller = Running::start(&config);
    let text = metrics(page);
    let there = names(&text);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |file: &str| std::fs::read_to_string(format!("{root}/{file}")).unwrap();
    let described = read("docs/controller.md");
    assert_eq!(names(&described), there, "docs/controller.md");
    let rules = "packaging/prometheus/selvedge.rules.yml";
    for file in [rules, "packaging/grafana/selvedge.json"] {
        let asked = read(file);
        assert!(names(&asked).len() > 3 && names(&asked).is_subset(&there), "{file}: {:?}", names(&asked));
    }
    promtool::check(&["rules", &format!("{root}/{rules}")], "");
}

#[test]
fn packaged_alerts_come_when_they_should() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    let read = |file: &str| std::fs::read_to_string(format!("{directory}/{file}")).unwrap();
    let (rules, tests) = (read("selvedge.rules.yml"), read("selvedge.tests.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("alertname=\"{alert}\"}}', value: 1")), "{alert} has no test");
    }
    promtool::run(&["test", "rules", &format!("{directory}/selvedge.tests.yml")], "");
}
