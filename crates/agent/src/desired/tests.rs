//! Which rows a configuration and what the host has give, on plain values.

use super::*;
use crate::follow::Followed;
use crate::interfaces::PairEnd;
use ::controller::{Schedules, Slots};
use agent_api::config::{ControllerRule, GuestRule, MAX_NETWORK};
use kernel::state::{Plain, PEER_DISCOVERED, PORT_CLOSED};

#[test]
fn whose_labels_are_discovered_is_noted_and_whose_are_guessed_is_said() {
    let mut config = config();
    config.balance = "clove".parse().unwrap();
    config.peers[0].labels = Some(vec![0xc001, 0xc002]);
    let resolved = resolved(&config).unwrap();
    let mut learnt = Learnt::default();
    let rows = |config: &Config, learnt: &Learnt| {
        let (learned, limited) = (Learned::default(), Limited::default());
        let want = desired(config, learnt, &resolved, &interfaces(), &learned, &limited, &Kept::default());
        let peers = want.peers.values().map(|row| Peer::from_bytes(row).unwrap());
        (peers.map(|peer| (peer.flags, peer.labels().to_vec())).collect::<Vec<_>>(), want.problems)
    };
    let (listed, guessed) = ((0, vec![0xc001, 0xc002]), (0, vec![50_000, 50_001]));
    let (peers, problems) = rows(&config, &learnt);
    assert_eq!(peers, [listed.clone(), guessed]);
    assert!(
        matches!(problems.as_slice(), [one] if one.starts_with("peer host3: the controller has ordered no labels"))
    );
    config.controller = Some(controller());
    let slots = Slots { ports: vec![0xc003], edges: vec!["host3".into()] };
    learnt.followed = Followed::new(Schedules { revision: 1, schedules: vec![slots] }, &config.peers);
    assert_eq!(rows(&config, &learnt), (vec![listed.clone(), (0, vec![0xc003])], Vec::new()));
    learnt = Learnt::default();
    learnt.discovered.insert(config.peers[1].address, vec![0xc004]);
    config.discovery = Some(discovery::Config::default());
    assert_eq!(rows(&config, &learnt), (vec![listed, (PEER_DISCOVERED, vec![0xc004])], Vec::new()));
}

fn port(selector: Selector, addresses: &[&str], learn: &[&str]) -> PortRule {
    PortRule {
        selector,
        network: Some(100),
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        learn: learn.iter().map(|a| a.parse().unwrap()).collect(),
        learn_limit: agent_api::config::LEARN_LIMIT,
        mac: None,
        mtu: None,
        strict: true,
        host: true,
        weight: 1,
        limits: Default::default(),
    }
}

fn peer(name: &str, address: &str, prefix: &str) -> PeerRule {
    let guests = vec![GuestRule { network: 100, prefix: prefix.parse().unwrap(), mac: None }];
    PeerRule { name: name.into(), address: address.parse().unwrap(), plain_vxlan: false, labels: None, guests }
}

pub(crate) fn controller() -> ControllerRule {
    ControllerRule {
        urls: vec!["https://10.0.0.9:7443".into()],
        edge: "host1".into(),
        ca: "/ca".into(),
        certificate: "/c".into(),
        key: "/k".into(),
    }
}

pub(crate) fn config() -> Config {
    Config {
        pins: "/sys/fs/bpf/selvedge".into(),
        socket: "/run/selvedge/ctl.sock".into(),
        metrics: None,
        max_flows: 1024,
        max_flows_per_port: 1024,
        max_flows_per_network: 1024,
        flow_idle_ns: 1,
        place: Default::default(),
        unchecked: false,
        uplinks: vec!["eth0".into()],
        plain: false,
        address: None,
        udp_port: 4789,
        gro: true,
        balance: edge::Balance::flowcell(units::Bytes::kib(64)),
        tcp_only: true,
        labels: vec![50_000, 50_001],
        labels_listed: false,
        discovery: None,
        reorder: None,
        congestion: None,
        limits: Default::default(),
        tenants: None,
        fastlane: None,
        reports: None,
        ports: vec![
            port(Selector::Pattern("lxc*".into()), &[], &["10.1.1.0/24"]),
            port(Selector::Name("lxc0".into()), &["10.1.1.2"], &[]),
        ],
        peers: vec![peer("host2", "10.0.1.1", "10.1.2.0/24"), peer("host3", "10.0.2.1", "10.1.3.0/24")],
        controller: None,
    }
}

fn interface(name: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    Interface { name: name.into(), up: true, mtu: 1500, addresses, ..Interface::default() }
}

pub(crate) fn interfaces() -> Interfaces {
    let lo = Interface { loopback: true, ..interface("lo", &["127.0.0.1"]) };
    [
        (1, lo),
        (2, interface("eth0", &["10.0.0.1", "fd99::1"])),
        (10, Interface { other_end: Some(PairEnd { ifindex: 2, namespace: None }), ..interface("lxc0", &[]) }),
        (11, interface("lxc1", &[])),
        (12, interface("lxc2", &[])),
        (13, interface("other", &[])),
    ]
    .into()
}

fn resolved(config: &Config) -> Result<Resolved, String> {
    resolve(config, &interfaces(), &BTreeMap::new())
}

#[test]
fn a_host_is_no_peer_of_its_own() {
    let mut config = config();
    assert!(resolved(&config).is_ok());
    config.peers[1].address = "10.0.0.1".parse().unwrap();
    let why = resolved(&config).unwrap_err();
    assert!(why.contains("peer host3") && why.contains("10.0.0.1 is this host's own"), "{why}");
}

#[test]
fn names_come_before_patterns_and_uplinks_are_no_ports() {
    let mut config = config();
    config.ports.push(port(Selector::Pattern("*".into()), &[], &["10.9.0.0/16"]));
    let rule = |name| rule_for(&config, &interface(name, &[])).map(|r| r.selector.to_string());
    assert_eq!(rule("lxc0").as_deref(), Some("lxc0"));
    assert_eq!(rule("lxc7").as_deref(), Some("lxc*"));
    assert_eq!(rule("other").as_deref(), Some("*"));
    assert_eq!((rule("eth0"), rule("svgro4789")), (None, None));
    assert_eq!(rule_for(&config, &interfaces()[&1]), None, "loopback");
}

#[test]
fn what_is_missing_is_said() {
    let mut config = config();
    assert_eq!(resolved(&config).unwrap().guest_mtu, 1450);
    config.peers[1].address = "fd99::2".parse().unwrap();
    let both = resolved(&config).unwrap();
    assert_eq!((both.guest_mtu, both.peers[1].0), (1430, "fd99::1".parse().unwrap()));
    config.address = Some("10.0.0.1".parse().unwrap());
    assert!(resolved(&config).unwrap_err().contains("no IPv6 address, which peer host3 needs"));
    config.address = Some("10.0.0.9".parse().unwrap());
    assert!(resolved(&config).unwrap_err().contains("is no address of this host"));
    config.uplinks = vec!["eth7".into()];
    assert!(resolved(&config).unwrap_err().starts_with("uplink eth7: there is no such interface"));
    let mut bare = interfaces();
    bare.insert(14, Interface { bare: true, ..interface("wg0", &["10.0.0.1"]) });
    for (uplinks, key) in [(vec!["wg0"], "uplink.interface: "), (vec!["eth0", "wg0"], "uplink.interfaces: ")] {
        config.uplinks = uplinks.into_iter().map(String::from).collect();
        let refused = resolve(&config, &bare, &BTreeMap::new()).unwrap_err();
        assert!(refused.starts_with(&format!("{key}packets of wg0 have no Ethernet header")), "{refused}");
    }
}

/// The kernel refuses to make a longer frame of one that it will not cut.
#[test]
fn no_guest_has_packets_that_get_no_tunnel() {
    let mut config = config();
    let mut large = interfaces();
    large.values_mut().for_each(|interface| interface.mtu = 65_535);
    let guest_mtu = |config: &Config| resolve(config, &large, &BTreeMap::new()).unwrap().guest_mtu;
    assert_eq!(guest_mtu(&config), 16_000);
    config.peers[1].address = "fd99::2".parse().unwrap();
    assert_eq!(guest_mtu(&config), 15_980);
    config.plain = true;
    assert_eq!(guest_mtu(&config), 65_535, "no tunnel");
}

#[test]
fn each_peer_leaves_by_the_uplink_that_routes_name() {
    let mut config = config();
    config.uplinks.push("other".into());
    let routes = BTreeMap::from([("10.0.1.1".parse().unwrap(), vec![13]), ("10.0.2.1".parse().unwrap(), vec![11])]);
    let chosen = |interfaces: &Interfaces, routes| {
        let resolved = resolve(&config, interfaces, routes).unwrap();
        resolved.peers.iter().map(|peer| peer.1).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&interfaces(), &routes), [13, 2], "lxc1 is no uplink");
    let mut down = interfaces();
    down.get_mut(&13).unwrap().up = false;
    assert_eq!(chosen(&down, &routes), [2, 2], "routes over a link without carrier stay");
    down.get_mut(&2).unwrap().up = false;
    assert_eq!(chosen(&down, &routes), [13, 2], "nothing carries, nothing moves");
    down.get_mut(&13).unwrap().up = true;
    assert_eq!(chosen(&down, &BTreeMap::new()), [13, 13]);
    let resolved = resolve(&config, &down, &routes).unwrap();
    assert_eq!((resolved.down, &resolved.ways), (vec!["eth0".to_owned()], &vec![vec![13, 2], vec![2, 13]]));
    let resolved = resolve(&config, &down, &routes).unwrap();
    let (learned, limited) = (Learned::default(), Limited::default());
    let want = desired(&config, &Learnt::default(), &resolved, &down, &learned, &limited, &Kept::default());
    assert!(want.problems.iter().any(|problem| problem.starts_with("uplink eth0: it is down")), "{:?}", want.problems);
}

#[test]
fn numbers_of_peers_stay() {
    let config = config();
    assert_eq!(numbers(&config, &Kept::default()), [1, 2]);
    let tunnel = Tunnel::new("10.0.0.1".parse().unwrap(), "10.0.2.1".parse().unwrap(), 4789, 1).unwrap();
    let kept = Kept { peers: vec![(1, Peer { tunnel, ..Peer::default() })], ..Kept::default() };
    assert_eq!(numbers(&config, &kept), [2, 1]);
}

#[test]
fn the_same_input_gives_the_same_rows() {
    let (config, learned) = (config(), Learned::default());
    let resolved = resolved(&config).unwrap();
    let want =
        desired(&config, &Learnt::default(), &resolved, &interfaces(), &learned, &Limited::default(), &Kept::default());
    assert_eq!((want.ports.len(), want.peers.len(), want.routes.len()), (3, 2, 3));
    assert_eq!(want.attach.len(), 4);
    assert_eq!(want.problems, [""; 0]);
    assert_eq!(
        want,
        desired(&config, &Learnt::default(), &resolved, &interfaces(), &learned, &Limited::default(), &Kept::default())
    );
    let mut tap = interfaces();
    tap.get_mut(&10).unwrap().other_end = None;
    let want = desired(&config, &Learnt::default(), &resolved, &tap, &learned, &Limited::default(), &Kept::default());
    assert!(matches!(want.problems.as_slice(), [one] if one.starts_with("port lxc0: the MAC address of its guest")));
    let mut hash = config.clone();
    hash.balance = edge::Balance::ecmp();
    let of = |config: &Config| {
        let want = desired(
            config,
            &Learnt::default(),
            &resolved,
            &interfaces(),
            &learned,
            &Limited::default(),
            &Kept::default(),
        );
        want.peers.values().map(|row| Peer::from_bytes(row).unwrap().n_labels).collect::<Vec<_>>()
    };
    assert_eq!((of(&config), of(&hash)), (vec![2, 2], vec![0, 0]));
    let mut gone = interfaces();
    gone.remove(&10);
    let want = desired(&config, &Learnt::default(), &resolved, &gone, &learned, &Limited::default(), &Kept::default());
    assert_eq!(want.routes.len(), 2);
    assert!(want.problems[0].contains("port lxc0"), "{:?}", want.problems);
    let mut own = config.clone();
    own.ports.push(port(Selector::Name("lo".into()), &["10.1.1.9"], &[]));
    let want =
        desired(&own, &Learnt::default(), &resolved, &interfaces(), &learned, &Limited::default(), &Kept::default());
    assert_eq!(want.problems, ["port lo: it is no guest's interface; name another"]);
    assert_eq!(MAX_NETWORK + 1, kernel::gro::VNI);
}

#[test]
fn pairs_without_ethernet_addresses_or_with_marks_of_guests_are_closed() {
    let (mut config, learned) = (config(), Learned::default());
    let resolved = resolved(&config).unwrap();
    let pair = |config: &Config, mac, keeps_marks| {
        let mut seen = interfaces();
        let own = seen.get_mut(&10).unwrap();
        (own.mac, own.keeps_marks) = (mac, keeps_marks);
        let want =
            desired(config, &Learnt::default(), &resolved, &seen, &learned, &Limited::default(), &Kept::default());
        let vni = want.ports.get(&row(&10u32)).map(|port| u32::from_ne_bytes(port[..4].try_into().unwrap()));
        assert_eq!(want.attach.contains(&(10, Role::Guest)), vni.is_some(), "who is closed has a program, too");
        let routes = want.routes.values().filter(|route| Route::from_bytes(route).unwrap().target == 10).count();
        (vni, routes, want.problems.join(", "))
    };
    let mac = Some([2, 0, 0, 0, 0, 1]);
    let (vni, routes, problem) = pair(&config, mac, false);
    assert!(vni.is_some_and(|vni| vni != PORT_CLOSED) && routes > 0 && problem.is_empty(), "{problem}");
    let (vni, routes, problem) = pair(&config, Some([0; 6]), false);
    assert_eq!((vni, routes), (Some(PORT_CLOSED), 0));
    assert!(problem.starts_with("port lxc0: its pair has no Ethernet addresses"), "{problem}");
    let (vni, routes, problem) = pair(&config, mac, true);
    assert_eq!((vni, routes), (Some(PORT_CLOSED), 0));
    assert!(problem.starts_with("port lxc0: its pair keeps marks"), "{problem}");
    // Who has limits alone is told of marks, and needs no Ethernet addresses.
    config.ports.iter_mut().for_each(|port| port.network = None);
    assert_eq!(pair(&config, Some([0; 6]), false), (None, 0, String::new()));
    let (vni, _, problem) = pair(&config, mac, true);
    assert!(vni.is_none() && problem.starts_with("port lxc0: its pair keeps marks"), "{problem}");
}
