//! What a controller counts, and its Prometheus metrics. No label takes a value that others choose.

use super::brain::Status;
use hyper::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An edge that lives asks at least so often: a question is held for 20 s, and one without an answer is asked again after 15 s.
const CONNECTED: Duration = Duration::from_secs(60);

/// What requests are for.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    Schedules,
    Status,
    Links,
    Other,
}

/// Why one got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No certificate of the authority, or not in time.
    Handshake,
    /// Of too many handshakes, the one that had lasted longest.
    Crowd,
    /// Too many connections, of one certificate or in total.
    Connections,
    /// A certificate for something else.
    Certificate,
    /// No such thing, or not in the right form.
    Request,
    /// The store, which did not keep a change.
    Store,
}

impl Asked {
    const ALL: [Asked; 4] = [Asked::Schedules, Asked::Status, Asked::Links, Asked::Other];

    fn label(self) -> Label {
        let name = match self {
            Asked::Schedules => "schedules",
            Asked::Status => "status",
            Asked::Links => "links",
            Asked::Other => "other",
        };
        [("request", name)]
    }
}

impl Refused {
    const ALL: [Refused; 6] = [
        Refused::Handshake,
        Refused::Crowd,
        Refused::Connections,
        Refused::Certificate,
        Refused::Request,
        Refused::Store,
    ];

    /// `None` if an answer of this status is none.
    pub(super) fn by(status: StatusCode) -> Option<Refused> {
        match status {
            StatusCode::FORBIDDEN => Some(Refused::Certificate),
            status if status.is_client_error() => Some(Refused::Request),
            status if status.is_server_error() => Some(Refused::Store),
            _ => None,
        }
    }

    fn label(self) -> Label {
        let name = match self {
            Refused::Handshake => "handshake",
            Refused::Crowd => "crowd",
            Refused::Connections => "connections",
            Refused::Certificate => "certificate",
            Refused::Request => "request",
            Refused::Store => "store",
        };
        [("reason", name)]
    }
}

type Label = [(&'static str, &'static str); 1];
type By = Family<Label, Counter>;

#[derive(Default)]
pub(super) struct Tally {
    requests: By,
    refusals: By,
    pub(super) given: Counter,
    pub(super) unchanged: Counter,
    pub(super) link_changes: Counter,
    pub(super) reloads: Counter,
    pub(super) reload_failures: Counter,
    store_failures: Counter,
    /// Did the store fail the last time?
    store_fails: AtomicBool,
    /// Seconds since 1970; 0: not known.
    last_change: AtomicU64,
    expiry: AtomicU64,
    /// When edges of the topology asked last.
    heard: Mutex<HashMap<String, Instant>>,
}

/// What one scrape shows besides.
pub(super) struct State {
    pub(super) status: Status,
    pub(super) links: usize,
    pub(super) edges: usize,
    pub(super) connections: usize,
    pub(super) store: &'static str,
}

impl Tally {
    /// Everything is there from the start, so that rates begin at zero.
    pub(super) fn new() -> Tally {
        let tally = Tally::default();
        for asked in Asked::ALL {
            drop(tally.requests.get_or_create(&asked.label()));
        }
        for reason in Refused::ALL {
            drop(tally.refusals.get_or_create(&reason.label()));
        }
        tally
    }

    pub(super) fn ask(&self, what: Asked) {
        self.requests.get_or_create(&what.label()).inc();
    }

    pub(super) fn refuse(&self, reason: Refused) {
        self.refusals.get_or_create(&reason.label()).inc();
    }

    /// An edge of the topology asks.
    pub(super) fn hear(&self, edge: &str) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(edge.to_owned(), now());
    }

    /// The store was asked for something.
    pub(super) fn store_did(&self, well: bool) {
        self.store_fails.store(!well, Relaxed);
        if !well {
            self.store_failures.inc();
        }
    }

    /// Another revision is in force.
    #[allow(clippy::disallowed_methods, reason = "a controller runs in real time")]
    pub(super) fn change(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.last_change.store(now.map_or(0, |since| since.as_secs()), Relaxed);
    }

    /// When the controller's certificate expires, seconds since 1970.
    pub(super) fn expires(&self, at: Option<u64>) {
        self.expiry.store(at.unwrap_or(0), Relaxed);
    }

    /// OpenMetrics text.
    pub(super) fn page(&self, state: &State) -> String {
        let (status, (connected, behind)) = (&state.status, self.edges(state));
        let mut registry = Registry::with_prefix("selvedge_controller");
        let well = status.problem.is_empty() && !self.store_fails.load(Relaxed);
        for (name, help, label, value) in [
            ("build_info", "Always 1; the label names the version", ("version", env!("CARGO_PKG_VERSION")), 1.0),
            (
                "store_up",
                "1 if the last read or write of the store succeeded, else 0",
                ("store", state.store),
                f64::from(u8::from(well)),
            ),
        ] {
            let family = Family::<Label, Gauge<f64, AtomicU64>>::default();
            family.get_or_create(&[label]).set(value);
            registry.register(name, help, family);
        }
        for (name, help, value) in [
            ("revision", "Revision of the schedules in force", status.revision as f64),
            ("last_change_timestamp_seconds", "When it came into force here", self.last_change.load(Relaxed) as f64),
            ("links", "Links between switches of the topology", state.links as f64),
            ("links_failed", "Links reported as failed", status.failed.len() as f64),
            ("edges", "Edges of the topology", state.edges as f64),
            ("edges_connected", "Edges that have asked in the last minute", connected as f64),
            ("edges_behind", "Edges of these that do not have the revision in force", behind as f64),
            ("connections", "Connections with a certificate", state.connections as f64),
        ] {
            registry.register(name, help, gauge(value));
        }
        if let expiry @ 1.. = self.expiry.load(Relaxed) {
            let help = "When the controller's certificate expires";
            registry.register("certificate_expiry_timestamp_seconds", help, gauge(expiry as f64));
        }
        registry.register("requests", "Requests, by what they are for", self.requests.clone());
        registry.register("refusals", "Connections and requests refused, by reason", self.refusals.clone());
        for (name, help, counter) in [
            ("schedules_given", "Answers with schedules", &self.given),
            ("unchanged_answers", "Answers without news", &self.unchanged),
            ("link_changes", "Changes of links that operators asked this controller for", &self.link_changes),
            ("store_failures", "Reads and writes of the store that failed", &self.store_failures),
            ("reloads", "Times that new certificates came into use", &self.reloads),
            ("reload_failures", "Times that new certificates could not be used", &self.reload_failures),
        ] {
            registry.register(name, help, counter.clone());
        }
        daemon::metrics::text(&registry)
    }

    /// How many asked lately, and how many of these do not have the revision in force.
    fn edges(&self, state: &State) -> (usize, usize) {
        let (heard, now) = (self.heard.lock().unwrap_or_else(PoisonError::into_inner), now());
        let lately = || heard.iter().filter(|(_, at)| now.duration_since(**at) <= CONNECTED);
        let behind = lately().filter(|(edge, _)| state.status.edges.get(*edge) != Some(&state.status.revision));
        (lately().count(), behind.count())
    }
}

fn gauge(value: f64) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

#[allow(clippy::disallowed_methods, reason = "a controller runs in real time")]
fn now() -> Instant {
    Instant::now()
}
