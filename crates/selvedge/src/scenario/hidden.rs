//! What the hidden overlay can and cannot stand beside.

use super::scheme::RestTable;
use config::{Invalid, Wrong};
use fabric::{Multipath, SwitchConfig};
use host::experiment::HostConfig;

/// Hosts of the hidden overlay at most that know their ports without looking for them.
const KNOWING: usize = 256;

/// The option of 20 bytes has no place for what some stages say to one another, and no switch knows what is in it.
pub(super) fn suits(
    name: &str,
    table: &RestTable,
    switches: &SwitchConfig,
    multipath: Multipath,
    guests: &HostConfig,
    hosts: usize,
) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    if table.overlay.is_encapsulated() {
        return Ok(());
    }
    let at = format!("scheme.{name}");
    let remedy = "remove it, or `overlay = \"hidden\"`";
    let beside = [
        ("congestion", table.congestion.is_some()),
        ("limiter", table.limiter.is_some()),
        ("tenants", table.tenants.is_some()),
        ("fastlane", table.fastlane.is_some()),
        ("mptcp", guests.mptcp.is_some()),
        ("controller", table.controller.0.is_some()),
    ];
    for (key, _) in beside.into_iter().filter(|(_, there)| *there) {
        let problem = "the hidden overlay has no place for it";
        wrong.add(Invalid::new(format!("{at}.{key}"), problem, remedy));
    }
    if switches.notify.is_some() || switches.quench || switches.ranked {
        let problem = "switches would answer to edges, or rank by what the hidden overlay hides";
        let remedy = "remove `notify`, `quench` and `pfabric` from [switch], or it";
        wrong.add(Invalid::new(format!("{at}.overlay"), problem, remedy));
    }
    if matches!(multipath, Multipath::Conga { .. } | Multipath::EcmpFlowcell) {
        let problem = "switches with this `multipath` read a tunnel's header, and there is none";
        wrong.add(Invalid::new(format!("{at}.overlay"), problem, "remove it, or choose another `multipath`"));
    }
    if hosts > KNOWING && table.discovery.0.is_none() {
        let problem = format!("edges of {hosts} hosts would have to know the ports of all paths");
        let remedy = format!("add `discovery = \"500ms\"`, or take at most {KNOWING} hosts");
        wrong.add(Invalid::new(format!("{at}.overlay"), problem, remedy));
    }
    wrong.or(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SchemeTable;

    fn faults(keys: &str, multipath: Multipath, hosts: usize) -> Vec<String> {
        let table: SchemeTable = toml::from_str(keys).unwrap();
        let (switches, guests) = (SwitchConfig::default(), HostConfig::default());
        match suits("s", &table.rest, &switches, multipath, &guests, hosts) {
            Ok(()) => Vec::new(),
            Err(wrong) => wrong.faults().iter().map(|fault| format!("{}: {}", fault.key, fault.problem)).collect(),
        }
    }

    #[test]
    fn what_needs_a_tunnel_is_refused_beside_the_hidden_overlay() {
        let none: [&str; 0] = [];
        assert_eq!(faults("balance = \"clove\"\noverlay = \"hidden\"", Multipath::Ecmp, 32), none);
        assert_eq!(faults("congestion = {}\noverlay = \"encapsulated\"", Multipath::Ecmp, 32), none);
        for key in
            ["congestion = {}", "tenants = {}", "fastlane = {}", "controller = \"1ms\"", "limiter = {rate = \"1Gbps\"}"]
        {
            let told = faults(&format!("{key}\noverlay = \"hidden\""), Multipath::Ecmp, 32);
            let named = format!("scheme.s.{}", key.split(' ').next().unwrap());
            assert!(told.len() == 1 && told[0].starts_with(&named), "{key}: {told:?}");
        }
        assert_eq!(faults("overlay = \"hidden\"", Multipath::EcmpFlowcell, 32).len(), 1);
        assert_eq!(faults("overlay = \"hidden\"", Multipath::Ecmp, 257).len(), 1);
        assert_eq!(
            faults("balance = \"clove\"\noverlay = \"hidden\"\ndiscovery = \"20ms\"", Multipath::Ecmp, 257),
            none
        );
    }

    #[test]
    fn results_without_it_are_filed_as_before() {
        let table: SchemeTable = toml::from_str("overlay = \"encapsulated\"").unwrap();
        assert!(!table.to_table().unwrap().contains_key("overlay"));
        let hidden: SchemeTable = toml::from_str("overlay = \"hidden\"").unwrap();
        assert_eq!(hidden.to_table().unwrap()["overlay"].as_str(), Some("hidden"));
    }
}
