//! The agent's configuration file: a whole one, its defaults, and every mistake with its message.

use super::*;
use proptest::prelude::*;
use units::Bytes;

const WHOLE: &str = r#"[agent]
pins = "/sys/fs/bpf/selvedge"
socket = "/run/selvedge/ctl.sock"
metrics = "127.0.0.1:9464"
max_flows = 65536
flow_idle = "5min"

[uplink]
interface = "eth0"
address = "10.0.0.1"
udp_port = 4789
gro = true

[balance]
policy = "flowcell"
flowcell = "64KB"
labels = 8

[[port]]
interface = "veth1"
network = 100
addresses = ["10.1.1.2", "fd00::2"]
mac = "02:00:00:00:00:02"
mtu = 1450

[[port]]
pattern = "lxc*"
network = 101
learn = ["10.1.1.0/24"]

[[peer]]
name = "host2"
address = "10.0.1.1"
plain_vxlan = false
labels = [50000, 50001, 50001]
guests = [{ network = 100, prefix = "10.1.2.0/24" }, { network = 100, prefix = "10.1.3.7", mac = "02:00:00:00:00:07" }]

[receive]
reorder = true
timeout = "2ms"
"#;

#[test]
fn clove_must_know_which_labels_take_which_paths() {
    let file = |labels: &str, of_peer: &str, more: &str| {
        let balance = "policy = \"flowcell\"\nflowcell = \"64KB\"\nlabels = 8\n";
        let text = WHOLE.replace(balance, &format!("policy = \"clove\"\n{labels}\n"));
        parse("a.toml", &(text.replace("labels = [50000, 50001, 50001]\n", of_peer) + more)).map_err(|e| e.to_string())
    };
    for (labels, of_peer, more) in [
        ("", "", "[paths]\ndiscovery = true\n"),
        ("labels = 4", "", "[paths]\ndiscovery = true\n"),
        ("labels = [50000, 50001]", "", ""),
        ("", "labels = [50000, 50001]\n", ""),
    ] {
        let config = file(labels, of_peer, more).unwrap();
        assert_eq!(config.balance, "clove".parse().unwrap());
    }
    for (labels, of_peer, says) in [
        (
            "labels = 4",
            "",
            "a.toml:15: balance.policy: \"clove\" must know which labels take which paths; set paths.discovery",
        ),
        ("labels = [50000, 50256]", "", "balance.labels.1: 50256 has the same low byte as 50000"),
        ("", "labels = [50000, 50000]\n", "peer.host2.labels.1: 50000 has the same low byte as 50000"),
    ] {
        let error = file(labels, of_peer, "").unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_whole_file_means_what_it_says() {
    let config = parse("a.toml", WHOLE).unwrap();
    assert_eq!(config.labels, (50_000..50_008).collect::<Vec<_>>());
    assert_eq!(config.balance, Balance::flowcell(Bytes(64_000)));
    assert_eq!(config.flow_idle_ns, 300_000_000_000);
    assert_eq!((config.ports.len(), config.ports[1].selector.to_string().as_str()), (2, "lxc*"));
    assert_eq!(config.peers[0].labels.as_deref(), Some([50_000, 50_001, 50_001].as_slice()));
    assert!(config.peers[0].guests[1].prefix.is_host());
    assert_eq!(config.reorder, Some(edge::reorder::Timeout::Fixed(Time::from_ms(2))));
}

#[test]
fn limits_need_neither_network_nor_uplink() {
    let port = "[[port]]\ninterface = \"veth1\"\n";
    let limited = format!("{port}egress_rate = \"10Mbps\"\n");
    let config = parse("a.toml", &limited).unwrap();
    assert_eq!((config.uplinks.len(), config.ports[0].network), (0, None));
    assert!(parse("a.toml", &format!("[uplink]\ninterface = \"eth0\"\n{limited}")).is_ok(), "beside an overlay, too");
    assert!(parse("a.toml", "").is_ok(), "limits may be asked for while the agent runs");
    assert!(parse("a.toml", &format!("[limits]\nannotations = \"/etc/pods.json\"\n{port}")).is_ok());
    for (text, problem, remedy) in [
        (port.into(), "a.toml:1: port.0: has neither a network nor a rate", "add `egress_rate`"),
        (format!("{limited}network = 1\naddresses = [\"10.0.0.1\"]"), "number 1 is in a network", "add `[uplink]`"),
        (
            format!("{limited}[[peer]]\nname = \"a\"\naddress = \"10.0.0.1\""),
            "[[peer]] needs an uplink",
            "add `[uplink]`",
        ),
        (format!("[congestion]\n{limited}"), "a.toml:1: congestion: has no meaning without an uplink", "remove it"),
        (
            format!("{limited}[receive]\nreorder = true\n"),
            "a.toml:5: receive.reorder: has no meaning without an uplink",
            "remove it",
        ),
        (
            format!("{limited}[paths]\ndiscovery = true\n"),
            "a.toml:5: paths.discovery: has no meaning without an uplink",
            "remove it",
        ),
        (format!("{limited}mtu = 1500"), "a.toml:4: port.0.mtu: has no meaning without `network`", "remove it for"),
        (limited.replace("veth1", "veth*"), "a.toml:2: port.0.interface: \"veth*\" is one name", "write `pattern ="),
        (format!("{limited}strict = false"), "port.0.strict: has no meaning", "or add `network`"),
        (format!("{limited}learn = [\"10.0.0.0/8\"]"), "port.0.learn: has no meaning", "or add `network`"),
    ] {
        let error = parse("a.toml", &text).map(drop).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains(remedy), "{error}");
    }
}

#[test]
fn little_needs_to_be_said() {
    let config = parse("a.toml", "[uplink]\ninterface = \"eth0\"").unwrap();
    assert_eq!((config.pins, config.socket), (PINS.into(), SOCKET.into()));
    assert_eq!((config.udp_port, config.gro, config.labels.len(), config.max_flows), (4789, true, 8, 65_536));
    assert_eq!((config.balance, config.reorder), (Balance::flowcell(Bytes::kib(64)), None));
    assert_eq!((config.place, config.tcp_only), (Place::Last, true));
    let other = "agent.place = \"first\"\nbalance.udp = \"flowcell\"\nuplink.interface = \"eth0\"";
    let other = parse("a.toml", other).unwrap();
    assert_eq!((other.place, other.tcp_only), (Place::First, false));
    for (wrong, says) in [
        ("agent.place = \"middle\"", "a.toml:1: agent.place: unknown value `middle`"),
        ("balance.udp = \"flows\"", "a.toml:1: balance.udp: unknown value `flows`"),
        ("balance.policy = \"hash\"\nbalance.udp = \"flow\"", "a.toml:2: balance.udp: has no meaning"),
    ] {
        let error = parse("a.toml", &format!("{wrong}\nuplink.interface = \"eth0\"")).map(drop).unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}");
    }
    let order = parse("a.toml", "uplink.interface = \"eth0\"\nreceive.reorder = true").unwrap();
    assert_eq!(order.reorder, Some(agent_api::config::ADAPTIVE));
    let hash = parse("a.toml", "balance.policy = \"hash\"\nuplink.interfaces = [\"a\", \"b\"]").unwrap();
    assert_eq!((hash.balance, hash.labels.len(), hash.uplinks.len()), (Balance::ecmp(), 0, 2));
}

/// What to put in place of what in [`WHOLE`], and how the one line must begin and end.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("pins =", "pinz =", "a.toml:2: agent.pinz: unknown key `pinz`", "did you mean `pins`?"),
    ("[uplink]", "[uplinks]", "a.toml:8: uplinks: unknown key `uplinks`", "did you mean `uplink`?"),
    ("\"/sys/fs", "\"sys/fs", "a.toml:2: agent.pins: ", "begin it with /"),
    ("\"/sys/fs/bpf/selvedge\"", "\"/sys/fs/bpf/a/..\"", "a.toml:2: agent.pins: ", "without .."),
    ("\"/run/selvedge/ctl.sock\"", "\"/run/\"", "a.toml:3: agent.socket: \"/run/\" has no name", "below it"),
    ("\"fd00::2\"", "\"::ffff:10.1.1.2\"", "a.toml:22: port.0.addresses.1: ", "write it as IPv4"),
    ("\"fd00::2\"", "\"fe80::2\"", "a.toml:22: port.0.addresses.1: fe80::2 means another", "such as \"10.0.0.1\""),
    ("\"10.1.2.0/24\"", "\"::/0\"", "a.toml:36: peer.host2.guests.0.prefix: ::/0 has ", "\"fc00::/7\""),
    ("\"10.1.1.0/24\"", "\"::/80\"", "a.toml:29: port.1.learn.0: ::/80 has ", "\"fc00::/7\""),
    ("network = 100\n", "network = -1\n", "a.toml:21: port.0.network: ", "write a whole number from 0 to 4294967295"),
    ("\"/run/selvedge/ctl.sock\"", "\"ctl.sock\"", "a.toml:3: agent.socket: ", "begin it with /"),
    ("\"127.0.0.1:9464\"", "\"0.0.0.0:9464\"", "a.toml:4: agent.metrics: ", "such as \"127.0.0.1:9464\""),
    ("\"127.0.0.1:9464\"", "\"127.0.0.1:0\"", "a.toml:4: agent.metrics: ", "such as \"127.0.0.1:9464\""),
    ("\"127.0.0.1:9464\"", "9464", "a.toml:4: agent.metrics: found integer `9464`", "such as \"127.0.0.1:9464\""),
    ("= 65536", "= 0", "a.toml:5: agent.max_flows: ", "give 1 to 1048576"),
    ("= 65536", "= -1", "a.toml:5: agent.max_flows: ", ""),
    (
        "= 65536",
        "= 9\nmax_flows_per_port = 10",
        "a.toml:6: agent.max_flows_per_port: 10 is out of range",
        "give 1 to 9",
    ),
    ("= 65536", "= 9\nmax_flows_per_network = 0", "a.toml:6: agent.max_flows_per_network: 0 is", "give 1 to 9"),
    ("\"5min\"", "\"5\"", "a.toml:6: agent.flow_idle: ", "min)"),
    ("\"5min\"", "300", "a.toml:6: agent.flow_idle: ", ""),
    ("\"5min\"", "\"1ms\"", "a.toml:6: agent.flow_idle: ", "give \"1s\" to \"1440min\""),
    ("interface = \"eth0\"\n", "", "a.toml:8: uplink: `interface` is missing", "add `interface = \"eth0\"`"),
    ("\"eth0\"", "\"a/b\"", "a.toml:9: uplink.interface: \"a/b\" is no name of an interface", "such as \"eth0\""),
    ("\"eth0\"", "\"seventeen-letters\"", "a.toml:9: uplink.interface: ", "such as \"eth0\""),
    ("\"10.0.0.1\"", "\"10.0.0\"", "a.toml:10: uplink.address: ", "such as \"10.0.0.1\""),
    ("\"10.0.0.1\"", "\"127.0.0.1\"", "a.toml:10: uplink.address: ", "give a routable address"),
    ("\"10.0.0.1\"", "\"10.0.1.1\"", "a.toml:33: peer.host2.address: is this host's own", "give the other host's"),
    ("\"10.0.0.1\"", "\"fd99::1\"", "a.toml:33: peer.host2.address: is of another family", "of its family"),
    ("4789", "0", "a.toml:11: uplink.udp_port: ", "give 1 to 65535"),
    ("4789", "65536", "a.toml:11: uplink.udp_port: ", ""),
    ("gro = true", "gro = 1", "a.toml:12: uplink.gro: found integer `1`", "write true or false"),
    (
        "\"flowcell\"",
        "\"flowcel\"",
        "a.toml:15: balance.policy: unknown value `flowcel`",
        "(known: ecmp, hash, random-path, flowcell, flowlet",
    ),
    (
        "\"flowcell\"",
        "\"waze-int\"",
        "a.toml:15: balance.policy: no switch tells the kernel edge of its links' utilisation",
        "give ecmp, random-path, flowcell, flowlet, clove",
    ),
    ("\"flowcell\"", "\"hash\"", "a.toml:16: balance.flowcell: has no meaning with policy = \"hash\"", "remove it"),
    ("\"64KB\"", "\"64kb\"", "a.toml:16: balance.flowcell: ", "GiB)"),
    ("flowcell =", "flowlet_gap =", "a.toml:16: balance.flowlet_gap: ", "min)"),
    ("flowcell =", "flowcel =", "a.toml:16: balance.flowcel: unknown key", "(known: policy, threshold, flowlet_gap, "),
    (
        "= \"flowcell\"",
        "= \"flowlet\"",
        "a.toml:16: balance.flowcell: has no meaning with policy = \"flowlet\"",
        "remove it",
    ),
    ("\"64KB\"", "\"1KB\"\nthreshold = \"1KB\"", "a.toml:17: balance.threshold: means the same", "remove one of them"),
    ("\"64KB\"", "\"0B\"", "a.toml:16: balance.flowcell: ", "give \"1B\" to \"1GiB\""),
    ("labels = 8", "labels = 0", "a.toml:17: balance.labels: 0 is out of range", "give 1 to 256"),
    ("labels = 8", "labels = 257", "a.toml:17: balance.labels: ", "give 1 to 256"),
    ("labels = 8", "labels = []", "a.toml:17: balance.labels: 0 labels are listed", "list 1 to 256"),
    ("labels = 8", "labels = [80]", "a.toml:17: balance.labels.0: 80 is out of range", "give 1024 to 65535"),
    ("labels = 8", "labels = \"8\"", "a.toml:17: balance.labels: ", "such as [50000, 50001]"),
    ("\"veth1\"", "\"eth0\"", "a.toml:20: port.0.interface: \"eth0\" is the uplink", "name a guest's interface"),
    ("interface = \"veth1\"\n", "", "a.toml:19: port.0: neither", "or `pattern = \"lxc*\"`"),
    ("network = 100\n", "network = 16777215\n", "a.toml:21: port.0.network: ", "give 0 to 16777214"),
    ("network = 100\n", "", "a.toml:21: port.0.addresses: has no meaning without `network`", "or add `network`"),
    ("\"fd00::2\"]", "\"fd00::2\", \"10.1.1.2\"]", "a.toml:22: port.0.addresses.2: 10.1.1.2/32 of", "keep one of them"),
    ("\"fd00::2\"", "\"224.0.0.1\"", "a.toml:22: port.0.addresses.1: ", "such as \"10.0.0.1\""),
    ("addresses = [\"10.1.1.2\", \"fd00::2\"]\n", "", "a.toml:19: port.0: has no addresses", "[\"10.1.1.2\"]`"),
    ("\"02:00:00:00:00:02\"", "\"01:00:00:00:00:02\"", "a.toml:23: port.0.mac: ", "write \"02:00:00:00:00:02\""),
    ("mtu = 1450", "mtu = 100", "a.toml:24: port.0.mtu: ", "give 576 to 65535"),
    ("\"lxc*\"", "\"lxc\"", "a.toml:27: port.1.pattern: ", "or \"lxc*\""),
    (
        "\"lxc*\"",
        "\"lxc*\"\ninterface = \"v\"",
        "a.toml:27: port.1.pattern: `interface` is there too",
        "remove one of them",
    ),
    ("learn =", "addresses = [\"10.9.9.9\"]\nlearn =", "a.toml:29: port.1.addresses: ", "or name the interface"),
    ("\"10.1.1.0/24\"", "\"10.1.1.1/24\"", "a.toml:29: port.1.learn.0: ", "write \"10.1.1.0/24\""),
    ("learn =", "learn_limit = 65\nlearn =", "a.toml:29: port.1.learn_limit: ", "1 to 64"),
    ("mtu = 1450", "learn_limit = 2", "a.toml:24: port.0.learn_limit: ", "remove it"),
    ("name = \"host2\"", "name = \"\"", "a.toml:32: peer.", "give 1 to 63 characters"),
    ("\"10.0.1.1\"", "\"::1\"", "a.toml:33: peer.host2.address: ", "give a routable address"),
    ("plain_vxlan = false", "plain_vlan = false", "a.toml:34: peer.host2.plain_vlan: unknown key", ""),
    ("[50000, 50001, 50001]", "[50000, 7]", "a.toml:35: peer.host2.labels.1: 7 is out of range", "give 1024 to 65535"),
    (
        "\"10.1.2.0/24\"",
        "\"10.1.2.0/33\"",
        "a.toml:36: peer.host2.guests.0.prefix: ",
        "is not a range of addresses such as",
    ),
    ("\"10.1.2.0/24\"", "\"10.1.1.2\"", "a.toml:36: peer.host2.guests.0.prefix: ", "keep one of them"),
    ("\"10.1.3.7\"", "\"10.1.3.0/24\"", "a.toml:36: peer.host2.guests.1.mac: ", "or give a single address"),
    (
        "\"2ms\"",
        "\"1s\"",
        "a.toml:40: receive.timeout: 1s is out of range",
        "give \"10us\" to \"100ms\", or \"adaptive\"",
    ),
    ("\"2ms\"", "\"soon\"", "a.toml:40: receive.timeout: ", "or \"adaptive\""),
    ("reorder = true", "reorder = false", "a.toml:40: receive.timeout: has no meaning", "add that, or remove this"),
    ("[[peer]]", "[[peer]", "a.toml:31: this is not TOML", "docs/agent.md has an example"),
];

#[test]
fn each_mistake_is_a_line_with_its_place_and_remedy() {
    for (old, new, begins, ends) in WRONG {
        assert!(WHOLE.contains(old), "{old}");
        let text = WHOLE.replacen(old, new, 1);
        let error = parse("a.toml", &text).map(drop).expect_err(new).to_string();
        assert!(error.starts_with(begins) && error.contains(ends), "{new}:\n{error}\nshould be {begins} .. {ends}");
        assert!(error.lines().all(|line| line.starts_with("a.toml:")), "{new}:\n{error}");
    }
    let twice = format!("{WHOLE}\n[[peer]]\nname = \"host2\"\naddress = \"10.0.9.9\"\n");
    assert!(parse("a.toml", &twice).unwrap_err().to_string().contains("another peer has it"));
    let twice = format!("{WHOLE}\n[[peer]]\nname = \"b\"\naddress = \"10.0.1.1\"\n");
    assert!(parse("a.toml", &twice).unwrap_err().to_string().contains("peer \"host2\" has it"));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = WHOLE
        .replacen("\"127.0.0.1:9464\"", "\"0.0.0.0:9464\"", 1)
        .replacen("4789", "0", 1)
        .replacen("labels = 8", "labels = 0", 1)
        .replacen("mtu = 1450", "mtu = 100", 1)
        .replacen("\"2ms\"", "\"1s\"", 1);
    let error = parse("a.toml", &text).map(drop).unwrap_err().to_string();
    let mut lines: Vec<u32> = error.lines().map(|line| line.split(':').nth(1).unwrap().parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, [4, 11, 17, 24, 40], "{error}");
}

fn lines(text: &str) -> Vec<String> {
    let error = parse("a.toml", text).map(drop).unwrap_err();
    error.faults().iter().map(|fault| format!("{} {}", fault.place.trim_start_matches("a.toml:"), fault.key)).collect()
}

#[test]
fn what_cannot_be_read_hides_nothing_that_cannot_be_meant() {
    let text = WHOLE
        .replacen("gro = true", "gro = 1", 1)
        .replacen("mtu = 1450", "mtv = 1450", 1)
        .replacen("4789", "0", 1)
        .replacen("labels = 8", "labels = 0", 1)
        .replacen("\"fd00::2\"", "\"::1\"", 1)
        .replacen("\"2ms\"", "\"1s\"", 1);
    let mut found = lines(&text);
    found.sort();
    let all = [
        "11 uplink.udp_port",
        "12 uplink.gro",
        "17 balance.labels",
        "22 port.0.addresses.1",
        "24 port.0.mtv",
        "40 receive.timeout",
    ];
    assert_eq!(found, all);
}

#[test]
fn what_may_come_from_what_cannot_be_read_is_not_told() {
    for (old, new, told) in [
        // Without uplink, ports and peers in networks would be wrong.
        ("[uplink]", "[uplinks]", "8 uplinks"),
        ("interface = \"eth0\"", "interfase = \"eth0\"", "9 uplink.interfase"),
        ("network = 100\n", "netwrk = 100\n", "21 port.0.netwrk"),
        // The usual policy has no such parameter.
        ("\"flowcell\"\nflowcell", "\"flowlett\"\nflowlet_gap", "15 balance.policy"),
        ("reorder = true", "reorder = 1", "39 receive.reorder"),
    ] {
        assert!(WHOLE.contains(old), "{old}");
        let text = WHOLE.replacen(old, new, 1).replacen(
            "\"64KB\"",
            if old.contains("cell") { "\"1ms\"" } else { "\"64KB\"" },
            1,
        );
        assert_eq!(lines(&text), [told], "{new}");
    }
}

#[test]
fn every_table_tells_all_its_faults() {
    let text = "[agent]\npins = \"a\"\nsocket = \"/\"\nmax_flows = 0\nflow_idle = \"1ms\"\nmetrics = \"1.1.1.1:1\"\n\
        [uplink]\ninterfaces = [\"a/b\", \"c\", \"c\"]\nudp_port = 0\naddress = \"::1\"\n\
        [balance]\npolicy = \"clove\"\nflowlet_gap = \"5s\"\nclove_clear = \"5s\"\nthreshold = \"0B\"\nlabels = [1, 2]\n\
        [paths]\ndiscovery = true\ncount = 0\nidle = \"0s\"\n\
        [limits]\ntotal = \"1bps\"\ndevices = 9\nannotations = \"x\"\n\
        [[tenant]]\nname = \"\"\negress_rate = \"1bps\"\n\
        [[port]]\ninterface = \"e/\"\nnetwork = 16777215\nlearn_limit = 0\nmtu = 1\nweight = 2\n\
        [[peer]]\nname = \"\"\naddress = \"::1\"\nguests = [{ network = 16777215, prefix = \"::/0\" }]\n\
        [controller]\nurls = [\"http://a\", \"b\"]\nedge = \"\"\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n\
        [fastlane]\nrate = \"1bps\"\nstore = \"1B\"\nreports = \"224.0.0.1:0\"\nreports_per_second = 1\n";
    let mut found: Vec<usize> =
        lines(text).iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    found.sort_unstable();
    // Each line that has a fault, and those of lists and of missing keys.
    let missing: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(n, line)| line.contains('=') && !found.contains(&(n + 1)))
        .map(|(n, _)| n + 1)
        .collect();
    let files = ["annotations = \"x\"", "ca = \"a\"", "certificate = \"b\"", "key = \"c\""];
    let right = ["policy = \"clove\"", "discovery = true"].into_iter().chain(files);
    let right: Vec<usize> = right.map(|key| text.lines().position(|line| line == key).unwrap() + 1).collect();
    assert_eq!(missing, right, "{found:?}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Path::new("/nowhere/agent.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/agent.toml: cannot read the configuration"), "{error}");
    assert!(load(Path::new("/dev/zero")).unwrap_err().to_string().contains("no regular file"));
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in "\\PC{0,200}") {
        let _ = parse("a.toml", &text);
    }

    /// Near misses reach further than noise: tokens of a real file, shuffled and repeated.
    #[test]
    fn any_mixture_of_tokens_is_taken_or_refused(picks in proptest::collection::vec((any::<prop::sample::Index>(), 0..4usize), 0..40)) {
        let tokens: Vec<&str> = WHOLE.split_inclusive([' ', '\n', '=', '[', ']', ',']).collect();
        let text: String = picks
            .iter()
            .map(|(index, end)| format!("{}{}", tokens[index.index(tokens.len())], ["", "\n", "\"", "]"][*end]))
            .collect();
        let _ = parse("a.toml", &text);
    }

    /// One line of a real file, changed.
    #[test]
    fn any_changed_line_is_taken_or_refused(at in any::<prop::sample::Index>(), line in "\\PC{0,40}") {
        let mut lines: Vec<&str> = WHOLE.lines().collect();
        let at = at.index(lines.len());
        lines[at] = &line;
        if let Err(error) = parse("a.toml", &lines.join("\n")) {
            let text = error.to_string();
            prop_assert!(text.lines().all(|line| line.starts_with("a.toml")), "{text}");
        }
    }
}

#[test]
fn discovery_has_cloves_values_and_ranges() {
    let uplink = "uplink.interface = \"eth0\"\n";
    let with = |paths: &str| parse("a.toml", &format!("{uplink}{paths}"));
    let plain = with("").unwrap();
    assert_eq!((plain.discovery, plain.labels_listed), (None, false));
    let on = with("paths.discovery = true\nbalance.labels = [50000, 50001]").unwrap();
    assert_eq!((on.discovery, on.labels_listed), (Some(discovery::Config::default()), true));
    let chosen =
        "[paths]\ndiscovery = true\nperiod = \"2s\"\npatience = \"20ms\"\ncount = 4\nsurvey_ports = 32\nmax_hops = 6\n\
                  probes_per_second = 500\nidle = \"10s\"";
    let expected = discovery::Config {
        period: Time::from_secs(2),
        patience: Time::from_ms(20),
        paths: 4,
        survey_ports: 32,
        max_hops: 6,
        probes_per_second: 500,
        idle: Time::from_secs(10),
        ..discovery::Config::default()
    };
    assert_eq!(with(chosen).unwrap().discovery, Some(expected));
    for (paths, what, remedy) in [
        ("paths.count = 4", "paths.count: has no meaning without discovery = true", "add that, or remove this"),
        ("paths = { discovery = true, count = 65 }", "paths.count: 65 is out of range", "1 to 64"),
        ("paths = { discovery = true, survey_ports = 0 }", "paths.survey_ports: 0 is out of range", "1 to 256"),
        ("paths = { discovery = true, max_hops = 1 }", "paths.max_hops: 1 is out of range", "2 to 32"),
        ("paths = { discovery = true, probes_per_second = 9 }", "paths.probes_per_second: 9 is", "10 to 100000"),
        (
            "paths = { discovery = true, period = \"99ms\" }",
            "paths.period: 99ms is out of range",
            "\"100ms\" to \"60s\"",
        ),
        ("paths = { discovery = true, patience = \"2s\" }", "paths.patience: 2s is out of range", "\"10ms\" to \"1s\""),
        ("paths = { discovery = true, idle = \"7200s\" }", "paths.idle: ", "\"1s\" to \"3600s\""),
        ("paths = { discover = true }", "discover", "discovery"),
        ("paths.discovery = true\nbalance.policy = \"hash\"", "the policy \"hash\" takes no labels", "\"flowcell\""),
        ("paths = { discovery = true, count = 9, survey_ports = 8 }", "8 ports cannot lead to 9 paths", "paths.count"),
    ] {
        let error = with(paths).unwrap_err().to_string();
        assert!(error.starts_with("a.toml:2: ") && error.contains(what) && error.contains(remedy), "{paths}: {error}");
    }
}
