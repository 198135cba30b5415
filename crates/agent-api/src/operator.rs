//! What an operator must see to on a host before guests may use a configuration, as SECURITY.md says. Only what the configuration uses.

use super::config::{Config, PortRule, Selector};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a port's interface has under `net.ipv4.conf` and `net.ipv6.conf`.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    forwards4: bool,
    /// The larger of the interface's and that of `all`, which the kernel uses.
    rp_filter: u32,
    forwards6: bool,
    accept_ra: u32,
}

/// Of a directory.
#[derive(Clone, Copy, Debug)]
struct Owned {
    uid: u32,
    mode: u32,
}

/// What is missing on this host, each with its remedy. Empty: nothing.
pub fn unmet(config: &Config) -> Vec<String> {
    let uid = nix::unistd::geteuid().as_raw();
    let mut found = Vec::new();
    let parent = config.socket.parent().filter(|dir| !dir.as_os_str().is_empty());
    for (key, dir) in [("agent.socket", parent), ("agent.pins", Some(config.pins.as_path()))] {
        // The agent makes what is missing, and makes it right.
        if let Some((dir, owned)) = dir.and_then(|dir| Some((dir, owned(dir)?))) {
            found.extend(of_directory(key, dir, owned, uid));
        }
    }
    for name in interfaces() {
        if rule_for(config, &name).is_some_and(|rule| is_at_risk(config, rule)) {
            found.extend(of_port(&name, settings(&name)));
        }
    }
    found
}

/// As the agent chooses: names before patterns.
fn rule_for<'a>(config: &'a Config, name: &str) -> Option<&'a PortRule> {
    let mut rules = config.ports.iter().filter(|rule| rule.selector.matches(name)).peekable();
    let first = rules.peek().copied();
    let named = rules.find(|rule| matches!(rule.selector, Selector::Name(_)));
    named.or(first).filter(|_| name != "lo" && !config.uplinks.iter().any(|uplink| uplink == name))
}

/// May the guest speak under any address to the host's stack, by way of an overlay? Limits alone change nothing about a guest.
fn is_at_risk(config: &Config, rule: &PortRule) -> bool {
    let in_overlay = !config.peers.is_empty() || !rule.addresses.is_empty() || !rule.learn.is_empty();
    in_overlay && !rule.strict && rule.host
}

fn of_directory(key: &str, dir: &Path, owned: Owned, uid: u32) -> Option<String> {
    let dir = dir.display();
    if owned.uid != uid {
        return Some(format!(
            "{key}: {dir} belongs to user {}, who can put other files there: chown {uid} {dir}, or name another directory",
            owned.uid
        ));
    }
    (owned.mode & 0o022 != 0).then(|| {
        let mode = owned.mode & 0o7777;
        format!("{key}: {dir} has mode {mode:04o}, others may write there: chmod go-w {dir}, or name another directory")
    })
}

fn of_port(name: &str, now: Settings) -> Vec<String> {
    let mut found = Vec::new();
    if now.forwards4 && now.rp_filter == 0 {
        found.push(format!(
            "port {name} is not strict and the host forwards IPv4, so that its guest can send under any address: set \
             net.ipv4.conf.{name}.rp_filter = 1 (sysctl), or port.strict = true, or have the firewall drop other sources and set \
             agent.unchecked = true"
        ));
    }
    if now.accept_ra == 2 || (now.accept_ra == 1 && !now.forwards6) {
        found.push(format!(
            "port {name} is not strict and the host believes router advertisements of its guest: set \
             net.ipv6.conf.{name}.accept_ra = 0 (sysctl), or port.strict = true"
        ));
    }
    found
}

fn owned(dir: &Path) -> Option<Owned> {
    let meta = fs::metadata(dir).ok().filter(fs::Metadata::is_dir)?; // what is none is refused by whoever uses it
    Some(Owned { uid: meta.uid(), mode: meta.mode() })
}

/// Interfaces of this network namespace. Those without IPv4 are no guests'.
fn interfaces() -> Vec<String> {
    let listed = fs::read_dir("/proc/sys/net/ipv4/conf").into_iter().flatten().flatten();
    let mut names: Vec<String> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name != "all" && name != "default");
    names.sort();
    names
}

fn settings(name: &str) -> Settings {
    // A family that the kernel does not have forwards nothing.
    let value = |family: &str, name: &str, key: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/{family}/conf/{name}/{key}")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    Settings {
        forwards4: value("ipv4", name, "forwarding") != 0,
        rp_filter: value("ipv4", name, "rp_filter").max(value("ipv4", "all", "rp_filter")),
        forwards6: value("ipv6", name, "forwarding") != 0,
        accept_ra: value("ipv6", name, "accept_ra"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_its_users_alone() {
        let of = |uid, mode| of_directory("agent.socket", Path::new("/run/x"), Owned { uid, mode }, 0);
        for mode in [0o40700, 0o40755, 0o40711] {
            assert_eq!(of(0, mode), None, "{mode:o}");
        }
        for mode in [0o40775, 0o40757, 0o41777] {
            let said = of(0, mode).unwrap_or_else(|| panic!("{mode:o}"));
            assert!(said.starts_with("agent.socket: /run/x has mode ") && said.contains("chmod go-w /run/x"), "{said}");
        }
        assert!(
            of(7, 0o40700).is_some_and(|said| said.contains("belongs to user 7") && said.contains("chown 0 /run/x"))
        );
    }

    #[test]
    fn settings_count_where_they_matter() {
        let of = |forwards4, rp_filter, forwards6, accept_ra| {
            of_port("lxc0", Settings { forwards4, rp_filter, forwards6, accept_ra }).len()
        };
        assert_eq!(of(false, 0, false, 0), 0, "nothing is forwarded");
        assert_eq!([of(true, 0, false, 0), of(true, 1, false, 0), of(true, 2, false, 0)], [1, 0, 0]);
        assert_eq!(
            [of(false, 0, false, 1), of(false, 0, true, 1)],
            [1, 0],
            "a host that forwards believes with 2 only"
        );
        assert_eq!([of(false, 0, false, 2), of(false, 0, true, 2)], [1, 1]);
        assert_eq!(of(true, 0, true, 2), 2);
    }
}
