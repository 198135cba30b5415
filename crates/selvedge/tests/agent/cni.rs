//! The CNI plugin as a container runtime calls it, alone and behind the reference plugins.

use super::alone::configure;
use super::limits::limit;
use super::world::{eventually, ip, World};
use serde_json::{json, Value};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Debian's place of the reference plugins.
const PLUGINS: &str = "/usr/lib/cni";
pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_selvedge");

/// A container of a runtime: namespace of guest `guest`, interface eth0.
pub(super) struct Runtime<'a> {
    pub(super) world: &'a World,
    pub(super) container: &'a str,
    pub(super) guest: usize,
}

impl Runtime<'_> {
    /// Calls a plugin in host 0. What it printed, or its error.
    fn call(&self, plugin: &Path, verb: &str, network: &Value) -> Result<Value, Value> {
        answer(self.begin(plugin, verb, network), verb)
    }

    /// Calls ours where it does not find the BPF file system; it succeeds. What it says on standard error.
    pub(super) fn blind(&self, verb: &str, network: &Value) -> String {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.world.host(0), PROGRAM]);
        let output = self.spawn(command, verb, network).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
        said
    }

    pub(super) fn begin(&self, plugin: &Path, verb: &str, network: &Value) -> Child {
        // `ip netns exec` mounts another /sys, for the namespace's interfaces; runtimes have the BPF file system in theirs.
        const WITH_BPF: &str = "mount --bind /sys/fs/bpf \"$2\" && exec ip netns exec \"$0\" sh -c \
                                'mount --bind \"$1\" /sys/fs/bpf && exec \"$0\"' \"$1\" \"$2\"";
        let bpf = self.world.socket(0).with_extension("bpf");
        std::fs::create_dir_all(&bpf).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WITH_BPF, &self.world.host(0)]).arg(plugin).arg(bpf);
        self.spawn(command, verb, network)
    }

    fn spawn(&self, mut command: Command, verb: &str, network: &Value) -> Child {
        command.env("CNI_COMMAND", verb).env("CNI_CONTAINERID", self.container).env("CNI_IFNAME", "eth0");
        command.env("CNI_NETNS", format!("/run/netns/{}", self.world.guest(self.guest))).env("CNI_PATH", PLUGINS);
        // As containerd does; a runtime of no pods does not.
        if self.container.starts_with('c') {
            command
                .env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}.web", self.container));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(network.to_string().as_bytes()).unwrap();
        child
    }

    pub(super) fn selvedge(&self, verb: &str, network: &Value) -> Result<Value, Value> {
        self.call(Path::new(PROGRAM), verb, network)
    }
}

pub(super) fn answer(child: Child, verb: &str) -> Result<Value, Value> {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer = serde_json::from_str(&said).unwrap_or(Value::Null);
    match output.status.success() {
        true => Ok(answer),
        false if answer["code"].is_u64() => Err(answer),
        false => panic!("{verb}: {said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// What the agent says of whose the port is, and its metrics of each port.
fn whose(world: &World, interface: &str) -> (String, String) {
    let limit = limit(world, interface, "egress");
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let scrape = String::from_utf8_lossy(&scrape.stdout).into_owned();
    let info: Vec<&str> = scrape.lines().filter(|line| line.starts_with("selvedge_port_info{")).collect();
    (format!("{} {} {}", limit["owner"], limit["namespace"], limit["pod"]), info.join("\n"))
}

/// The configuration of a network with rates, bits per second, behind a plugin that has made `interface`.
pub(super) fn network(world: &World, interface: &str, rates: Value) -> Value {
    let interfaces = json!([
        { "name": "cni0", "mac": "02:00:00:00:00:01" },
        { "name": interface },
        { "name": "eth0", "sandbox": "a" },
    ]);
    json!({
        "cniVersion": "1.1.0", "name": "net", "type": "selvedge", "socket": world.socket(0), "wait": 0,
        "runtimeConfig": { "bandwidth": rates },
        "prevResult": { "cniVersion": "1.1.0", "interfaces": interfaces, "ips": [{ "address": "10.7.1.2/16" }] },
    })
}

pub(super) fn owners(world: &World) -> usize {
    let limits = world.ask(0, &["limits"]);
    limits.as_array().unwrap().len()
}

pub(super) fn qdiscs(world: &World) -> String {
    String::from_utf8_lossy(&world.exec(&world.host(0), "tc qdisc show").stdout).into_owned()
}

#[test]
fn containers_are_limited_from_add_to_del_whatever_becomes_of_the_agent() {
    let Some(mut world) = World::new("cn") else { return };
    world.add_neighbour();
    configure(&world, "");
    let agent = world.start(0, &[]);
    let slow =
        network(&world, "lxc0", json!({ "egressRate": 50_000_000, "egressBurst": 1, "ingressRate": 80_000_000 }));
    let fast = network(&world, "lxc0", json!({ "egressRate": 60_000_000 }));
    {
        let one = Runtime { world: &world, container: "c1", guest: 0 };
        assert_eq!(one.selvedge("STATUS", &slow), Ok(Value::Null));
        assert_eq!(one.selvedge("ADD", &slow).as_ref(), Ok(&slow["prevResult"]));
        for (direction, bps) in [("egress", 50_000_000), ("ingress", 80_000_000)] {
            let limit = limit(&world, "lxc0", direction);
            assert!(limit["in_force"] == true && limit["rate_bps"] == bps, "{limit}");
        }
        assert_eq!(one.selvedge("CHECK", &slow), Ok(Value::Null));
        let pod = "\"cni/net/c1/eth0\" \"shop\" \"c1.web\"";
        let info = "selvedge_port_info{interface=\"lxc0\",network=\"\",tenant=\"\",owner=\"cni/net/c1/eth0\",\
                    pod=\"c1.web\",namespace=\"shop\"} 1.0";
        assert_eq!(whose(&world, "lxc0"), (pod.to_owned(), info.to_owned()), "once, whatever the directions");
        let text = world.ctl(0, &["limits"]);
        assert!(String::from_utf8_lossy(&text.stdout).contains(" shop/c1.web "), "{text:?}");
        // Shorter segments, where the network asks for them: 10 ms at 50 Mb/s.
        let largest = || {
            let shown = world.exec(&world.guest(0), "ip -d link show eth0");
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            let value = shown.split("gso_max_size ").nth(1).and_then(|rest| rest.split_whitespace().next());
            value.unwrap_or_else(|| panic!("{shown}")).to_owned()
        };
        assert_eq!(largest(), "65536");
        let mut short = slow.clone();
        short["maxSegmentMs"] = 10.into();
        assert_eq!(one.selvedge("ADD", &short).as_ref(), Ok(&short["prevResult"]));
        assert_eq!(largest(), "62500");
        // Again, with other rates; and for nobody else.
        assert_eq!(one.selvedge("ADD", &fast).as_ref(), Ok(&fast["prevResult"]));
        assert_eq!(one.selvedge("CHECK", &slow).unwrap_err()["code"], 100);
        assert_eq!(owners(&world), 1);
        let thief = Runtime { container: "c2", ..one };
        let refused = thief.selvedge("ADD", &fast).unwrap_err();
        assert!(refused["code"] == 100 && refused["msg"].to_string().contains("cni/net/c1/eth0"), "{refused}");
        let nobodys = network(&world, "lo", json!({ "egressRate": 60_000_000 }));
        let wrong = Runtime { container: "c3", world: &world, guest: 0 }.selvedge("ADD", &nobodys).unwrap_err();
        assert!(wrong["code"] == 7 && wrong["msg"].to_string().contains("whose other end is eth0"), "{wrong}");
        // A new configuration leaves it alone.
        assert!(world.ctl(0, &["reload"]).status.success());
        assert_eq!(one.selvedge("CHECK", &fast), Ok(Value::Null));
    }
    world.end(agent, "KILL");
    {
        let one = Runtime { world: &world, container: "c1", guest: 0 };
        assert!(qdiscs(&world).contains("svlimit0"), "the limit is in force without its agent");
        assert_eq!(one.selvedge("STATUS", &fast).unwrap_err()["code"], 50);
        assert_eq!(one.selvedge("ADD", &fast).unwrap_err()["code"], 11);
    }
    // A container that begins while the agent is away.
    let mut patient = fast.clone();
    patient["wait"] = 120.into();
    let adding = Runtime { world: &world, container: "c1", guest: 0 }.begin(Path::new(PROGRAM), "ADD", &patient);
    let agent = world.start(0, &[]);
    assert_eq!(answer(adding, "ADD").as_ref(), Ok(&patient["prevResult"]));
    assert_eq!(Runtime { world: &world, container: "c1", guest: 0 }.selvedge("CHECK", &fast), Ok(Value::Null));
    let (pod, _) = whose(&world, "lxc0");
    assert!(pod.ends_with("\"shop\" \"c1.web\""), "another agent knows it: {pod}");
    // A container that goes while there is no agent.
    world.end(agent, "KILL");
    assert_eq!(Runtime { world: &world, container: "c1", guest: 0 }.selvedge("DEL", &fast), Ok(Value::Null));
    ip(&format!("-n {} link del lxc0", world.host(0)));
    let agent = world.start(0, &[]);
    assert!(owners(&world) == 0 && !qdiscs(&world).contains("svlimit0"), "{}", qdiscs(&world));
    world.add_guest(0);
    // Others' leavings: of this network's containers one is known to the runtime.
    for (container, guest, interface) in [("c4", 0, "lxc0"), ("c5", 2, "lxc2")] {
        let network = network(&world, interface, json!({ "egressRate": 50_000_000 }));
        Runtime { world: &world, container, guest }.selvedge("ADD", &network).unwrap();
    }
    let mut collect = network(&world, "lxc0", Value::Null);
    collect["cni.dev/valid-attachments"] = json!([{ "containerID": "c5", "ifname": "eth0" }]);
    let any = Runtime { world: &world, container: "c5", guest: 2 };
    assert_eq!(any.selvedge("GC", &collect), Ok(Value::Null));
    assert_eq!(owners(&world), 1);
    assert_eq!(limit(&world, "lxc2", "egress")["rate_bps"], 50_000_000);
    for _ in 0..2 {
        assert_eq!(any.selvedge("DEL", &slow), Ok(Value::Null), "as often as the runtime likes");
    }
    // Come and go.
    for n in 0..50 {
        let name = format!("many{n}");
        let container = Runtime { world: &world, container: &name, guest: 0 };
        container.selvedge("ADD", &slow).unwrap();
        container.selvedge("DEL", &slow).unwrap();
    }
    assert!(owners(&world) == 0 && !qdiscs(&world).contains("htb"), "{}", qdiscs(&world));
    // The same by hand.
    let by_hand = |arguments: &[&str]| world.ctl(0, arguments);
    assert!(by_hand(&["limit", "lxc2", "--egress", "20Mbps", "--ingress", "30Mbps"]).status.success());
    assert_eq!(limit(&world, "lxc2", "ingress")["rate_bps"], 30_000_000);
    let (nobody, info) = whose(&world, "lxc2");
    assert!(nobody == "\"ctl/lxc2\" null null" && info.contains("pod=\"\",namespace=\"\"}"), "{nobody} {info}");
    let taken = any.selvedge("ADD", &network(&world, "lxc2", json!({ "egressRate": 1_000_000 }))).unwrap_err();
    assert!(taken["msg"].to_string().contains("ctl/lxc2"), "{taken}");
    for wrong in
        [["limit", "lo", "--egress=1Mbps"], ["limit", "nowhere", "--egress=1Mbps"], ["limit", "lxc2", "--egress=1bps"]]
    {
        let output = by_hand(&wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.lines().count() == 1, "{wrong:?}: {said}");
    }
    assert_eq!(limit(&world, "lxc2", "egress")["rate_bps"], 20_000_000, "what was refused has changed nothing");
    assert!(by_hand(&["unlimit", "lxc2"]).status.success() && owners(&world) == 0);
    // What ends with its interface.
    assert!(by_hand(&["limit", "lxc2", "--egress", "20Mbps"]).status.success());
    ip(&format!("-n {} link del lxc2", world.host(0)));
    eventually("the limit has ended", || owners(&world) == 0);
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}

#[test]
fn it_stands_behind_the_reference_plugins() {
    if !Path::new(PLUGINS).join("bridge").exists() {
        println!("skipped: the reference plugins are not installed (containernetworking-plugins)");
        return;
    }
    let Some(mut world) = World::new("cr") else { return };
    ip(&format!("-n {} link del lxc0", world.host(0)));
    configure(&world, "");
    let agent = world.start(0, &[]);
    let state = world.socket(0).with_extension("ipam");
    let ipam = json!({ "type": "host-local", "dataDir": state, "ranges": [[{ "subnet": "10.88.0.0/24" }]] });
    let bridge = json!({ "type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": ipam });
    let ptp = json!({ "type": "ptp", "ipam": ipam });
    let mut ports = json!({ "type": "portmap" });
    ports["runtimeConfig"] = json!({ "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }] });
    let mut ours = json!({ "type": "selvedge", "socket": world.socket(0) });
    ours["runtimeConfig"] = json!({ "bandwidth": { "egressRate": 40_000_000, "ingressRate": 40_000_000 } });
    let has_iptables = world.exec(&world.host(0), "iptables -V").status.success();
    for first in [&bridge, &ptp] {
        let chain: Vec<&Value> =
            [first, &ports, &ours].into_iter().filter(|p| has_iptables || p["type"] != "portmap").collect();
        let runtime = Runtime { world: &world, container: "chained", guest: 0 };
        let call = |verb: &str, plugin: &Value, previous: &Value| {
            let mut network = plugin.clone();
            (network["cniVersion"], network["name"]) = ("1.0.0".into(), "net".into());
            if !previous.is_null() {
                network["prevResult"] = previous.clone();
            }
            let kind = plugin["type"].as_str().unwrap();
            match kind {
                "selvedge" => runtime.selvedge(verb, &network),
                _ => runtime.call(&Path::new(PLUGINS).join(kind), verb, &network),
            }
        };
        let result = chain.iter().fold(Value::Null, |previous, plugin| call("ADD", plugin, &previous).unwrap());
        let name = result["interfaces"].as_array().unwrap().iter().find_map(|one| {
            let name = one["name"].as_str().unwrap();
            (name != "cni0" && one["sandbox"].as_str().unwrap_or_default().is_empty()).then_some(name)
        });
        let name = name.expect("a veth");
        assert!(
            limit(&world, name, "egress")["in_force"] == true && limit(&world, name, "ingress")["in_force"] == true
        );
        // portmap 1.1.1 looks for rules of IPv6 that it has not made.
        for plugin in chain.iter().filter(|plugin| plugin["type"] != "portmap") {
            assert_eq!(call("CHECK", plugin, &result), Ok(Value::Null), "{plugin}");
        }
        let gateway = if first == &bridge { "10.88.0.1" } else { result["ips"][0]["gateway"].as_str().unwrap() };
        assert!(world.ping(gateway, 2), "the container reaches its host through the limit");
        for plugin in chain.iter().rev() {
            assert_eq!(call("DEL", plugin, &result), Ok(Value::Null), "{plugin}");
        }
        assert!(owners(&world) == 0 && !qdiscs(&world).contains("htb"));
    }
    if !has_iptables {
        println!("skipped: portmap: iptables is not installed");
    }
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}

/// Numbers that go to another interface: those of containers' namespaces do, when an end moves to the host.
#[test]
fn a_limit_does_not_pass_to_another_interface_of_the_same_number() {
    let Some(mut world) = World::new("ci") else { return };
    configure(&world, "");
    let (host, guest) = (world.host(0), world.guest(0));
    let replace = |old: &str, new: &str| {
        ip(&format!("-n {host} link del {old}"));
        ip(&format!("link add {new} index 7777 netns {host} type veth peer name eth0 netns {guest}"));
    };
    let rates = || json!({ "egressRate": 50_000_000, "ingressRate": 80_000_000 });
    let add = |world: &World, container: &str, interface: &str| {
        let network = network(world, interface, rates());
        Runtime { world, container, guest: 0 }.selvedge("ADD", &network).map(drop)
    };
    replace("lxc0", "lxc1");
    let agent = world.start(0, &[]);
    assert_eq!(add(&world, "c1", "lxc1"), Ok(()));
    assert_eq!(limit(&world, "lxc1", "egress")["ifindex"], 7777);
    // While there is an agent, which may not have heard of it yet.
    replace("lxc1", "lxc2");
    assert_eq!(add(&world, "c2", "lxc2"), Ok(()));
    assert_eq!((owners(&world), limit(&world, "lxc2", "egress")["in_force"].clone()), (2, true.into()));
    // While there is none.
    world.end(agent, "KILL");
    replace("lxc2", "lxc3");
    let agent = world.start(0, &[]);
    assert!(owners(&world) == 0 && !qdiscs(&world).contains("svlimit0"), "{}", qdiscs(&world));
    assert_eq!(add(&world, "c3", "lxc3"), Ok(()));
    let all = world.ask(0, &["limits"]);
    assert!(all.as_array().unwrap().iter().all(|limit| limit["owner"] == "cni/net/c3/eth0"), "{all}");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}
