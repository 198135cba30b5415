//! What a configuration means on this host, without an agent.

use super::desired::{self, desired};
use super::error::{Error, Result};
use super::follow;
use super::host::look_around;
use super::interfaces::{by_name, Interfaces, Netlink};
use super::labels::Learnt;
use super::learned::Learned;
use super::limits::Limited;
use super::lock;
use super::metrics;
use super::remembered::Remembered;
use super::reports;
use super::rows::Kept;
use super::runtime::runtime;
use super::server;
use super::tenants;
use agent_api::config::{Config, Shares};
use agent_api::operator;
use edge::hygenicc::Law;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// What the host lacks for the configuration, each with its remedy, where that may be.
///
/// # Errors
/// [`Error::Unresolved`] with all of it, unless the configuration has `agent.unchecked`.
pub(super) fn unmet(config: &Config) -> Result<Vec<String>> {
    let unmet = operator::unmet(config);
    if unmet.is_empty() || config.unchecked {
        return Ok(unmet);
    }
    Err(Error::Unresolved(format!("{}; agent.unchecked = true runs nevertheless", unmet.join("; "))))
}

/// Whether an agent can have its socket there, and what it remembers beside it.
///
/// # Errors
/// [`Error::Io`]
pub(super) fn place(socket: &Path) -> Result<()> {
    server::check(socket)?;
    Remembered::check(socket)
}

/// What does not go well together, a sentence each.
pub(super) fn cautions(config: &Config) -> Vec<String> {
    let mut cautions = of_systems(config);
    cautions.extend(of_links(config, |uplink| {
        let path = format!("/proc/sys/net/ipv6/conf/{uplink}/ignore_routes_with_linkdown");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
    }));
    cautions
}

/// Uplinks that cannot be left over IPv6: whatever interface a packet is to leave by, the kernel takes the next hop of the best route, also
/// if that is another interface's. `stays`: do an interface's routes stay when its link is down?
fn of_links(config: &Config, stays: impl Fn(&str) -> bool) -> Option<String> {
    if config.uplinks.len() < 2 || config.plain || config.peers.iter().all(|peer| peer.address.is_ipv4()) {
        return None;
    }
    let staying: Vec<&str> = config.uplinks.iter().map(String::as_str).filter(|uplink| stays(uplink)).collect();
    let first = staying.first()?;
    Some(format!(
        "peers with IPv6 addresses cannot be reached past an uplink whose link is down ({}), as long as its routes stay; set \
         net.ipv6.conf.{first}.ignore_routes_with_linkdown=1, the same for each uplink",
        staying.join(", ")
    ))
}

/// What the configuration combines although one part costs another.
fn of_systems(config: &Config) -> Vec<String> {
    let scheme = config.balance.scheme();
    let beside = format!("balance.policy = {:?}", scheme.name);
    let shares = config.tenants.is_some();
    let balance = scheme.beside_shares.filter(|_| shares).map(|cost| {
        format!("[tenants] beside {beside} can {cost}: guests' rates fall with every mark (docs/united.md)")
    });
    let congestion = config.congestion.as_ref().filter(|_| shares).map(|_| {
        "[congestion] can halve the fairness that [tenants] gives to guests of different hosts (docs/united.md)"
            .to_owned()
    });
    let starves = config.tenants.as_ref().filter(|shares| starves(shares)).map(|shares| {
        format!(
            "[tenants] with law = \"alpha\" and hold = \"drop\" leaves TCP a third of its share beside a flood of datagrams; hold = \"delay\" \
             leaves it most of it, and so does bursts = {} where uplink_rate is no more than the link carries (docs/tenants.md)",
            bursts(shares).clamp(1, 1000)
        )
    });
    let windows = scheme
        .beside_congestion
        .filter(|_| config.congestion.is_some())
        .map(|cost| format!("[congestion] beside {beside} can {cost} (docs/united.md)"));
    let resends = scheme
        .beside_resends
        .filter(|_| config.fastlane.is_some())
        .map(|cost| format!("[fastlane] beside {beside} can {cost} (docs/united.md)"));
    balance.into_iter().chain(congestion).chain(starves).chain(windows).chain(resends).collect()
}

/// Intervals at the fair rate that a bucket has to hold: so long TCP waits for its timer, and longer, once what exceeded its rate was dropped.
fn bursts(shares: &Shares) -> u64 {
    250_000_000 / shares.conf.interval.max(1) + 1
}

/// Would TCP that lost what exceeds its rate lose its share of the time as well in which it waits for its timer?
fn starves(shares: &Shares) -> bool {
    let conf = &shares.conf;
    conf.law == Law::Alpha.number() && shares.backlog == 0 && u64::from(conf.bursts) * 2 < bursts(shares).min(1000)
}

/// What the configuration's names mean on this host now, for people: one line each.
///
/// # Errors
/// [`Error::Named`], [`Error::NotBpffs`], [`Error::Unresolved`], [`Error::Io`].
pub fn resolve(config: &Config) -> Result<Vec<String>> {
    runtime()?.block_on(async {
        let mut netlink = Netlink::new(false)?;
        let (interfaces, routes) = look_around(config, &mut netlink).await?;
        let mut lines = check(config, &interfaces, &routes)?;
        // First: who may write in a wrong place does not matter.
        let unmounted = unmounted(&config.pins)?;
        // Nobody else runs an agent; of files others cannot say whether root would find them right.
        if nix::unistd::geteuid().is_root() {
            lines.extend(unmet(config)?);
            place(&config.socket)?;
            Remembered::recall(config)?;
            if let Some(rule) = &config.controller {
                follow::clients(rule).map_err(Error::Config)?;
            }
            if let Some(address) = config.metrics {
                metrics::check(address)?;
            }
        }
        let uplinks: Vec<(u32, String)> = config.uplinks.iter().filter_map(|name| found(&interfaces, name)).collect();
        lines.extend(tenants::cannot_wait(config, &uplinks));
        lines.extend(cautions(config));
        lines.extend(unheard(config, &interfaces));
        lines.extend(unmounted);
        Ok(lines)
    })
}

fn found(interfaces: &Interfaces, name: &str) -> Option<(u32, String)> {
    by_name(interfaces, name).map(|(ifindex, interface)| (ifindex, interface.name.clone()))
}

/// Where switches' reports would not arrive yet.
fn unheard(config: &Config, interfaces: &Interfaces) -> Option<String> {
    let at = config.reports.as_ref()?.at.ip();
    let is_here = at.is_unspecified() || at.is_loopback() || interfaces.values().any(|i| i.addresses.contains(&at));
    (!is_here).then(|| reports::nowhere(at))
}

/// Where the system's BPF file system is not mounted, which may be because the agent's host is another.
///
/// # Errors
/// [`Error::NotBpffs`] if no agent could have its pins there.
fn unmounted(pins: &Path) -> Result<Option<String>> {
    const MOUNT: &str = "/sys/fs/bpf";
    match lock::check_bpffs(pins) {
        Ok(()) => Ok(None),
        Err(error) if pins.starts_with(MOUNT) && !lock::is_bpffs(Path::new(MOUNT)).unwrap_or(false) => {
            Ok(Some(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// What [`desired`] needs where nothing is pinned.
fn check(config: &Config, interfaces: &Interfaces, routes: &BTreeMap<IpAddr, Vec<u32>>) -> Result<Vec<String>> {
    let resolved = desired::resolve(config, interfaces, routes).map_err(Error::Named)?;
    let want = desired(
        config,
        &Learnt::default(),
        &resolved,
        interfaces,
        &Learned::default(),
        &Limited::default(),
        &Kept::default(),
    );
    let mut lines: Vec<String> =
        resolved.uplinks.iter().map(|(ifindex, name)| format!("uplink {name}: ifindex {ifindex}")).collect();
    for (peer, (local, uplink)) in config.peers.iter().zip(&resolved.peers) {
        let name = interfaces.get(uplink).map_or("?", |i| i.name.as_str());
        lines.push(format!("peer {}: from {local} to {} by {name}", peer.name, peer.address));
    }
    for ifindex in want.mtus.keys() {
        let name = interfaces.get(ifindex).map_or("?", |i| i.name.as_str());
        lines.push(format!("port {name}: ifindex {ifindex}, packets of at most {} bytes", want.mtus[ifindex]));
    }
    lines.extend(want.problems);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::config::FastLane;
    use edge::balance::{Balance, CLOVE, FLOWCELL, RANDOM_PATH};
    use units::{BitRate, Bytes};

    #[test]
    fn what_one_part_costs_another_has_a_caution() {
        let mut config = desired::tests::config();
        let shares = Shares { conf: Default::default(), backlog: 0 };
        for (tenants, scheme, cautions) in [
            (None, &FLOWCELL, 0),
            (None, &CLOVE, 0),
            (Some(shares), &RANDOM_PATH, 0),
            (Some(shares), &FLOWCELL, 1),
            (Some(shares), &CLOVE, 1),
        ] {
            (config.tenants, config.balance) = (tenants, Balance::new(scheme, |_| None));
            let said = of_systems(&config);
            assert_eq!(said.len(), cautions, "{said:?}");
            assert!(said.iter().all(|one| one.starts_with("[tenants] beside")), "{said:?}");
        }
        let law = |bursts| edge::hygenicc::Conf {
            law: Law::Alpha.number(),
            interval: 2_500_000,
            bursts,
            ..Default::default()
        };
        for (backlog, bursts, cautions) in [(0, 1, 2), (200_000, 1, 1), (0, 101, 1)] {
            config.tenants = Some(Shares { conf: law(bursts), backlog });
            let said = of_systems(&config);
            assert_eq!(said.len(), cautions, "{said:?}");
            assert!(cautions == 1 || said[1].contains("bursts = 101 "), "{said:?}");
        }
        config.tenants = Some(shares);
        config.congestion = Some(edge::vcc::Config::new(Default::default()));
        assert_eq!(of_systems(&config).len(), 3);
        config.tenants = None;
        for (scheme, cautions) in [(&RANDOM_PATH, 0), (&FLOWCELL, 1), (&CLOVE, 1)] {
            config.balance = Balance::new(scheme, |_| None);
            let said = of_systems(&config);
            assert_eq!(said.len(), cautions, "{said:?}");
            assert!(said.iter().all(|one| one.starts_with("[congestion] beside")), "{said:?}");
        }
        config.congestion = None;
        let (rate, store_per_guest, store) = (BitRate::from_mbps(1), Bytes(1), Bytes(1));
        config.fastlane = Some(FastLane { rate, store_per_guest, store, notifications: false });
        assert!(of_systems(&config)[0].starts_with("[fastlane] beside"));
        config.balance = Balance::new(&FLOWCELL, |_| None);
        assert!(of_systems(&config).is_empty());
    }

    #[test]
    fn routes_over_dead_links_have_a_caution_where_they_matter() {
        let mut config = desired::tests::config();
        config.uplinks.push("eth1".into());
        assert_eq!(of_links(&config, |_| true), None, "over IPv4 the kernel heeds the interface");
        config.peers[1].address = "fd99::2".parse().unwrap();
        let caution = of_links(&config, |uplink| uplink == "eth1").unwrap();
        assert!(caution.contains("net.ipv6.conf.eth1.ignore_routes_with_linkdown=1"), "{caution}");
        assert_eq!(of_links(&config, |_| false), None);
        config.uplinks.pop();
        assert_eq!(of_links(&config, |_| true), None, "there is no other");
    }
}
