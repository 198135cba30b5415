//! `uplink.mode = "plain"`: what has no meaning without a tunnel.

use super::tables::{File, ModeWord, VXLAN};
use config::{Invalid, Wrong};
use edge::balance::Scheme;

/// Do guests' packets leave as they are?
pub(super) fn is_plain(file: &File) -> bool {
    file.uplink.as_ref().is_some_and(|uplink| uplink.mode == ModeWord::Plain)
}

/// What a plain uplink has no use for, and where its networks are.
pub(super) fn check(file: &File) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    if !is_plain(file) {
        if file.tenants.as_ref().is_some_and(|tenants| tenants.ecn.is_some()) {
            wrong.add(Invalid::new(
                "tenants.ecn",
                "has no meaning in the overlay, whose header has an ECN field of its own",
                "remove it, or set uplink.mode = \"plain\"",
            ));
        }
        return wrong.or(());
    }
    let uplink = |of: fn(&super::UplinkTable) -> bool| file.uplink.as_ref().is_some_and(of);
    let balance = file.balance.policy().1;
    let is_default = std::ptr::eq(balance, super::BalanceTable::default().policy().1);
    for (key, given) in [
        ("uplink.udp_port", uplink(|uplink| uplink.udp_port != VXLAN)),
        ("uplink.gro", uplink(|uplink| !uplink.gro)),
        ("balance.policy", !is_default && balance.labels),
        ("balance.labels", file.balance.rest.labels.is_some()),
        ("balance.udp", file.balance.rest.udp.is_some()),
        ("receive.reorder", file.receive.is_on()),
        ("paths.discovery", file.paths.is_on()),
        ("controller", file.controller.is_some()),
        ("fastlane.notifications", file.fastlane.as_ref().is_some_and(|fastlane| fastlane.notifications)),
    ] {
        if given {
            wrong.add(without_a_tunnel(key));
        }
    }
    if file.tenants.as_ref().is_some_and(|tenants| tenants.admission.is_some()) {
        wrong.add(Invalid::new(
            "tenants.admission",
            "has no use with uplink.mode = \"plain\": whoever sends under a peer's address could have its guests refused",
            "remove it",
        ));
    }
    for (n, port) in file.port.iter().enumerate() {
        wrong.note(check_network(format!("port.{n}.network"), port.network.unwrap_or_default()));
    }
    for (n, peer) in file.peer.iter().enumerate() {
        for (key, given) in [("plain_vxlan", peer.plain_vxlan), ("labels", peer.labels.is_some())] {
            if given {
                wrong.add(without_a_tunnel(&format!("peer.{n}.{key}")));
            }
        }
        for (i, guest) in peer.guests.iter().enumerate() {
            let at = |key: &str| format!("peer.{n}.guests.{i}.{key}");
            wrong.note(check_network(at("network"), guest.network));
            if guest.mac.is_some() {
                wrong.add(without_a_tunnel(&at("mac")));
            }
        }
    }
    wrong.or(())
}

fn without_a_tunnel(key: &str) -> Invalid {
    Invalid::new(key, "has no meaning with uplink.mode = \"plain\", which has no tunnel", "remove it")
}

/// Nothing in a packet tells networks apart.
fn check_network(key: String, network: u32) -> Result<(), Invalid> {
    if network == 0 {
        return Ok(());
    }
    let problem = format!("{network} is out of range: an uplink of mode \"plain\" has one network");
    Err(Invalid::new(key, problem, "give 0"))
}

/// The scheme of an uplink: without labels, where there is no tunnel.
pub(super) fn scheme_of(file: &File) -> (&str, &'static Scheme) {
    let (word, policy) = file.balance.policy();
    if is_plain(file) {
        return (word, edge::Balance::ecmp().scheme());
    }
    (word, policy)
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    const UPLINK: &str = "[uplink]\ninterface = \"eth0\"\nmode = \"plain\"\n";

    #[test]
    fn a_plain_uplink_has_no_labels_and_one_network() {
        let more = "[tenants]\nuplink_rate = \"1Gbps\"\necn = \"carry\"\n[[port]]\ninterface = \"a\"\nnetwork = 0\naddresses = [\"10.1.1.2\"]\n";
        let config = parse("a.toml", &format!("{UPLINK}{more}")).unwrap();
        assert!(config.plain && !config.gro && config.udp_port == 0 && config.labels.is_empty());
        assert_eq!(config.balance, edge::Balance::ecmp());
        assert_eq!(config.tenants.map(|shares| shares.conf.flags), Some(3), "marks are kept, too");
    }

    #[test]
    fn what_needs_a_tunnel_is_refused() {
        for (more, key) in [
            ("udp_port = 4790\n", "uplink.udp_port: "),
            ("gro = false\n", "uplink.gro: "),
            ("[balance]\npolicy = \"flowlet\"\n", "balance.policy: "),
            ("[balance]\nlabels = 4\n", "balance.labels: "),
            ("[receive]\nreorder = true\n", "receive.reorder: "),
            ("[paths]\ndiscovery = true\n", "paths.discovery: "),
            ("[fastlane]\nnotifications = true\n", "fastlane.notifications: "),
            ("[[peer]]\nname = \"b\"\naddress = \"10.0.0.2\"\nplain_vxlan = true\n", "peer.b.plain_vxlan: "),
            ("[[peer]]\nname = \"b\"\naddress = \"10.0.0.2\"\nlabels = 4\n", "peer.b.labels: "),
        ] {
            let error = parse("a.toml", &format!("{UPLINK}{more}")).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("which has no tunnel"), "{more}: {error}");
        }
        let guests =
            "[[peer]]\nname = \"b\"\naddress = \"10.0.0.2\"\nguests = [{ network = 7, prefix = \"10.1.2.0/24\" }]\n";
        let error = parse("a.toml", &format!("{UPLINK}{guests}")).unwrap_err().to_string();
        assert!(error.contains("7 is out of range") && error.contains("give 0"), "{error}");
        let error = parse("a.toml", &format!("{UPLINK}[tenants]\nuplink_rate = \"1Gbps\"\nadmission = [0.5, 0.25]\n"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("tenants.admission: has no use") && error.contains("remove it"), "{error}");
        let overlay = "[uplink]\ninterface = \"eth0\"\n[tenants]\nuplink_rate = \"1Gbps\"\necn = \"carry\"\n";
        let error = parse("a.toml", overlay).unwrap_err().to_string();
        assert!(error.contains("tenants.ecn") && error.contains("uplink.mode = \"plain\""), "{error}");
    }
}
