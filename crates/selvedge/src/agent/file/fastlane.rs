//! The table `[fastlane]`: what this host drops of its guests' TCP is sent again, and what switches tell of drops is acted on.

use super::at_most;
use crate::agent::addresses::check_range;
use crate::parsed::Parsed;
use agent_api::config::{DropReports, FastLane, Prefix};
use config::{within, Invalid, Wrong};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;
use units::{BitRate, Bytes};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FastLaneTable {
    /// Of one guest's dropped frames, so much is looked at. What exceeds it is left to the guest.
    #[schemars(extend("x-range" = ["1Mbps", "1Tbps"]))]
    rate: BitRate,
    /// Bytes of one guest that may wait to be sent again, because they were dropped more than once.
    #[schemars(extend("x-range" = ["2KB", "1GB"]))]
    store_per_guest: Bytes,
    /// The same of all guests; at least `store_per_guest`.
    #[schemars(extend("x-range" = ["2KB", "10GB"]))]
    store: Bytes,
    /// Switches notify of what they drop in the tunnel (fastlane.md): the fabric must drop such packets where they come from elsewhere.
    pub(super) notifications: bool,
    /// Switches' drop reports arrive at this address of the host and UDP port (fastlane.md); needs `reports_from`.
    reports: Option<Parsed<SocketAddr>>,
    /// Addresses of the switches, or ranges of them, at most 1024. Nobody else is heard.
    reports_from: Vec<Parsed<Prefix>>,
    /// Most reports that are looked at; more are counted.
    #[schemars(range(min = 10, max = 100_000), extend("default" = 10_000))]
    reports_per_second: Option<u32>,
}

impl Default for FastLaneTable {
    fn default() -> FastLaneTable {
        FastLaneTable {
            rate: BitRate::from_gbps(1),
            store_per_guest: Bytes(4_000_000),
            store: Bytes(64_000_000),
            notifications: false,
            reports: None,
            reports_from: Vec::new(),
            reports_per_second: None,
        }
    }
}

impl FastLaneTable {
    pub(super) fn check(&self) -> Result<FastLane, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("fastlane.rate", self.rate, BitRate::from_mbps(1), BitRate::from_gbps(1000)));
        let (least, most) = (Bytes(2_000), Bytes(10_000_000_000));
        wrong.note(within("fastlane.store_per_guest", self.store_per_guest, least, Bytes(1_000_000_000)));
        if wrong.note(within("fastlane.store", self.store, least, most)).is_some() && self.store < self.store_per_guest
        {
            let problem = format!("{} is less than `store_per_guest`, {}", self.store, self.store_per_guest);
            wrong.add(Invalid::new("fastlane.store", problem, "give at least as much as for one guest"));
        }
        let (rate, store_per_guest, store) = (self.rate, self.store_per_guest, self.store);
        wrong.or(FastLane { rate, store_per_guest, store, notifications: self.notifications })
    }

    /// Where switches' reports arrive, if they do.
    pub(super) fn check_reports(&self) -> Result<Option<DropReports>, Wrong> {
        let mut wrong = Wrong::new();
        let Some(Parsed(at)) = self.reports else {
            for (key, given) in [
                ("reports_from", !self.reports_from.is_empty()),
                ("reports_per_second", self.reports_per_second.is_some()),
            ] {
                if given {
                    let problem = "has no meaning without `reports`";
                    wrong.add(Invalid::new(format!("fastlane.{key}"), problem, "add that, or remove this"));
                }
            }
            return wrong.or(None);
        };
        if at.port() == 0 || at.ip().is_multicast() {
            let remedy = "give an address of this host and a port, such as \"192.0.2.1:32766\"";
            wrong.add(Invalid::value("fastlane.reports", format!("nobody can send to {at}"), remedy));
        }
        if self.reports_from.is_empty() {
            let remedy = "name the switches: reports_from = [\"192.0.2.0/28\"]";
            let problem = "reports without known senders could be anybody's";
            wrong.add(Invalid::new("fastlane.reports_from", problem, remedy));
        }
        wrong.note(at_most("fastlane.reports_from", self.reports_from.len(), 1024));
        for (n, range) in self.reports_from.iter().enumerate() {
            wrong.note(check_range(&format!("fastlane.reports_from.{n}"), range.0));
        }
        let per_second = self.reports_per_second.unwrap_or(10_000);
        wrong.note(within("fastlane.reports_per_second", per_second, 10, 100_000));
        let from = self.reports_from.iter().map(|range| range.0).collect();
        wrong.or(Some(DropReports { at, from, per_second }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn read(keys: &str) -> Result<Option<agent_api::config::DropReports>, String> {
        let text = format!("[uplink]\ninterface = \"eth0\"\n[fastlane]\n{keys}\n");
        parse("a.toml", &text).map(|config| config.reports).map_err(|e| e.to_string())
    }

    #[test]
    fn reports_have_an_address_and_senders() {
        assert_eq!(read("").unwrap(), None);
        let all = read("reports = \"192.0.2.1:9000\"\nreports_from = [\"198.51.100.0/24\", \"2001:db8::1\"]")
            .unwrap()
            .unwrap();
        assert_eq!((all.at.to_string().as_str(), all.from.len(), all.per_second), ("192.0.2.1:9000", 2, 10_000));
    }

    #[test]
    fn what_cannot_be_heard_is_refused() {
        for (keys, says) in [
            ("reports = \"192.0.2.1:9000\"", "fastlane.reports_from: reports without known senders"),
            ("reports = \"192.0.2.1:0\"\nreports_from = [\"10.0.0.1\"]", "fastlane.reports: nobody can send to"),
            ("reports = \"239.0.0.1:9\"\nreports_from = [\"10.0.0.1\"]", "fastlane.reports: nobody can send to"),
            ("reports_from = [\"10.0.0.1\"]", "fastlane.reports_from: has no meaning without"),
            ("reports_per_second = 100", "fastlane.reports_per_second: has no meaning without"),
            ("reports = \"192.0.2.1:9\"\nreports_from = [\"10.0.0.1/24\"]", "reports_from"),
            ("reports = \"192.0.2.1:9\"\nreports_from = [\"::ffff:10.0.0.1\"]", "fastlane.reports_from.0: "),
            (
                "reports = \"192.0.2.1:9\"\nreports_from = [\"10.0.0.1\"]\nreports_per_second = 1",
                "reports_per_second: 1 is out of range",
            ),
        ] {
            let said = read(keys).unwrap_err();
            assert!(said.contains(says), "{keys}: {said}");
        }
    }
}
