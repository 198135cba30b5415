//! What a reload changes while packets pass.
#![cfg(feature = "kernel")]

use super::limits::{limit, number};
use super::world::{eventually, ip, World, NAMED};
use super::WAIT;
use kernel::{monotonic_ns, KernelEdge, Options};
use std::io::Write;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

/// Rows that the reload moves, too: between the port's and its routes' there is then time for many packets.
const ROWS: usize = 10_000;
/// Between these guest 0 moves. Guest 2 stays in the first, guest 3 in the second, under the same addresses.
const NETWORKS: [u32; 2] = [7, 8];
/// The MAC address of both.
const OTHERS_MAC: &str = "02:00:00:00:00:03";
/// In place of a network's number: guest 0 has sent it.
const MOVER: u64 = 0;
/// A datagram that guests send to one another, in all, and what is noted of it: who sent it, its IP family, when it was sent and when it
/// came, ns of CLOCK_MONOTONIC.
const DATAGRAM: usize = 64;
const NOTE: usize = 32;

/// Guest 2 stays in network 7; guest 0, and what a peer has, are in `network`.
fn configure(world: &World, network: u32, limit: &str) {
    let guests: Vec<String> = (0..ROWS)
        .map(|i| {
            format!("{{ network = {network}, prefix = \"10.{}.{}.{}\" }}", 100 + i / 65_536, i / 256 % 256, i % 256)
        })
        .collect();
    world.configure(
        0,
        &format!(
            "interface = \"lxc2\"\naddresses = [\"10.7.1.3\", \"fd07:1::3\"]\n\n[[port]]\nnetwork = {network}\n{NAMED}\n{limit}\n\n\
             [[peer]]\nname = \"many\"\naddress = \"192.168.99.77\"\nguests = [{}]",
            guests.join(", ")
        ),
    );
}

/// IPv4 packets that reached the stack of the namespace of process `pid`.
fn delivered(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InDelivers").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// What `peer_process` starts for this file. `address`: the IPv4 one; IPv6 goes beside it.
pub(super) fn peer(what: &str, address: &str, from: u64) {
    let until = PathBuf::from(std::env::var_os("SELVEDGE_TEST_UNTIL").expect("a path"));
    #[allow(clippy::disallowed_methods, reason = "a process of real time")]
    let begun = std::time::Instant::now();
    let over = || until.exists() || begun.elapsed() > 5 * WAIT;
    match what {
        "stamped-sink" => note_stamps(over),
        _ => send_stamps(address, from, over),
    }
}

fn send_stamps(address: &str, from: u64, over: impl Fn() -> bool) {
    let (_, host) = address.split_once("10.7.").expect("a guest's address");
    let six = format!("[fd07:{}]:9", host.replace('.', "::"));
    let four = format!("{address}:9");
    let ways = [("0.0.0.0:0", four, 4), ("[::]:0", six, 6)];
    let ways = ways.map(|(own, to, family)| (UdpSocket::bind(own).unwrap(), to, family));
    while !over() {
        for (socket, to, family) in ways.iter().chain(&ways) {
            let mut datagram = [0; DATAGRAM];
            for (place, word) in datagram.chunks_mut(8).zip([from, *family, monotonic_ns()]) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            let _ = socket.send_to(&datagram, to.as_str()); // nobody may be there now
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn note_stamps(over: impl Fn() -> bool) {
    let socket = UdpSocket::bind("[::]:9").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut notes = std::fs::File::create(std::env::var_os("SELVEDGE_TEST_NOTES").expect("a path")).unwrap();
    while !over() {
        let mut note = [0; DATAGRAM];
        if socket.recv(&mut note).is_ok() {
            note[NOTE - 8..NOTE].copy_from_slice(&monotonic_ns().to_le_bytes());
            notes.write_all(&note[..NOTE]).unwrap();
        }
    }
}

/// One datagram that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// The network in which the one stays that does not move.
    network: u32,
    /// To guest 0, not from it.
    to_mover: bool,
    family: u64,
    sent: u64,
    received: u64,
}

/// For so long guest 0's port certainly was in a network.
#[derive(Clone, Copy, Debug)]
struct Stay {
    network: u32,
    from: u64,
    until: u64,
}

/// Guests that send to one another all the time, and what arrived. They end with this.
struct Crowd<'a> {
    world: &'a World,
    children: Vec<Child>,
}

impl Crowd<'_> {
    fn until(world: &World) -> PathBuf {
        world.dir.path().join("over")
    }

    fn notes(world: &World, guest: usize) -> PathBuf {
        world.dir.path().join(format!("notes{guest}"))
    }

    fn start(world: &World) -> Crowd<'_> {
        let mut crowd = Crowd { world, children: Vec::new() };
        let begin = |guest: usize, role: &str| {
            let mut command = world.command_in(&world.guest(guest), role, &Self::until(world));
            command.env("SELVEDGE_TEST_NOTES", Self::notes(world, guest)).spawn().expect("the test runs itself")
        };
        for guest in [0, 2, 3] {
            crowd.children.push(begin(guest, "stamped-sink - 0"));
        }
        for (guest, to, from) in [(0, "10.7.1.3", MOVER), (2, "10.7.1.2", 7), (3, "10.7.1.2", 8)] {
            crowd.children.push(begin(guest, &format!("stamped-flood {to} {from}")));
        }
        crowd
    }

    fn arrived(&self) -> Vec<Arrived> {
        let mut all = Vec::new();
        for (guest, own) in [(0, MOVER), (2, 7), (3, 8)] {
            let notes = std::fs::read(Self::notes(self.world, guest)).unwrap_or_default();
            for note in notes.chunks_exact(NOTE) {
                let mut words = note.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                let mut word = || words.next().unwrap();
                let (from, family, sent, received) = (word(), word(), word(), word());
                let network = if own == MOVER { from } else { own } as u32;
                assert!(own == MOVER || from == MOVER, "guests 2 and 3 send to guest 0 only");
                all.push(Arrived { network, to_mover: own == MOVER, family, sent, received });
            }
        }
        all
    }

    /// Waits for datagrams of this network that were sent from now on: of both families, both ways.
    fn await_all(&self, network: u32) {
        let begin = monotonic_ns();
        eventually(&format!("datagrams of network {network} arrive"), || {
            let fresh: Vec<Arrived> =
                self.arrived().into_iter().filter(|a| a.network == network && a.sent > begin).collect();
            [(4, true), (4, false), (6, true), (6, false)]
                .iter()
                .all(|way| fresh.iter().filter(|a| (a.family, a.to_mover) == *way).count() > 20)
        });
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::until(self.world), "");
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// Reloads while the port's row changes from network `from` to `to`; `at_once`: what to do then. Returns when it was certainly still in
/// the old one, and when certainly in the new.
fn reload<T>(
    world: &World,
    edge: &KernelEdge,
    port: u32,
    [from, to]: [u32; 2],
    at_once: impl FnOnce() -> T,
) -> (u64, u64, T) {
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| world.ctl(0, &["reload"]));
        let mut last = monotonic_ns();
        loop {
            let (ended, before) = (reload.is_finished(), monotonic_ns());
            let network = edge.port(port).unwrap().map(|port| port.vni);
            if network == Some(to) {
                break;
            }
            if ended {
                let told = reload.join().unwrap();
                panic!("the reload moves the port: {}{}", String::from_utf8_lossy(&told.stderr), world.log(0));
            }
            if network == Some(from) {
                last = before;
            }
        }
        let (first, done) = (monotonic_ns(), at_once());
        let told = reload.join().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        (last, first, done)
    })
}

/// The port's interface number, and the edge that the agent has loaded.
fn opened(world: &World) -> (u32, KernelEdge) {
    let index = world.exec(&world.host(0), "cat /sys/class/net/lxc0/ifindex").stdout;
    let port = String::from_utf8(index).unwrap().trim().parse().unwrap();
    let options = Options { pins: world.pins(0), max_flows: 1024, ..Options::default() };
    (port, KernelEdge::open(&options).unwrap())
}

/// A third guest of host 0, in the other network, and no neighbour is asked for: whoever was there once is sent to for good.
fn add_others(world: &World) {
    world.add_neighbour();
    let (h, g) = (world.host(0), world.guest(3));
    ip(&format!("netns add {g}"));
    ip(&format!("link add lxc3 netns {h} type veth peer name eth0 netns {g}"));
    ip(&format!("-n {g} addr add 10.7.1.3/16 dev eth0"));
    for guest in [2, 3] {
        let g = world.guest(guest);
        ip(&format!("-n {g} link set eth0 address {OTHERS_MAC}"));
        ip(&format!("-n {g} addr add fd07:1::3/16 dev eth0 nodad"));
    }
    for (namespace, device) in [(&g, "lo"), (&g, "eth0"), (&h, "lxc3")] {
        ip(&format!("-n {namespace} link set {device} up"));
    }
    let mac = world.exec(&world.guest(0), "cat /sys/class/net/eth0/address").stdout;
    let mac = String::from_utf8(mac).unwrap();
    let ways = [(0, "10.7.1.3", OTHERS_MAC), (0, "fd07:1::3", OTHERS_MAC)];
    let back = [2, 3].map(|guest| [(guest, "10.7.1.2", mac.trim()), (guest, "fd07:1::2", mac.trim())]);
    for (guest, to, mac) in ways.into_iter().chain(back.into_iter().flatten()) {
        world.succeed(&world.guest(guest), &format!("ip neigh replace {to} lladdr {mac} dev eth0 nud permanent"));
    }
}

/// Whatever the moment: a datagram that was sent and arrived while guest 0's port was in one network is of that network, whether guest 0
/// or the other has sent it.
#[test]
fn a_port_that_moves_is_at_no_moment_in_both_networks() {
    let Some(mut world) = World::new("m") else { return };
    add_others(&world);
    let configure = |world: &World, network| {
        configure(
            world,
            network,
            "\n[[port]]\nnetwork = 8\ninterface = \"lxc3\"\naddresses = [\"10.7.1.3\", \"fd07:1::3\"]",
        );
    };
    configure(&world, NETWORKS[0]);
    world.start(0, &[]);
    let (port, edge) = opened(&world);
    let crowd = Crowd::start(&world);
    let mut stays: Vec<Stay> = Vec::new();
    let mut from = monotonic_ns();
    for [here, there] in [NETWORKS, [NETWORKS[1], NETWORKS[0]]].into_iter().cycle().take(6) {
        crowd.await_all(here);
        configure(&world, there);
        let (until, next, ()) = reload(&world, &edge, port, [here, there], || {});
        stays.push(Stay { network: here, from, until });
        from = next;
    }
    crowd.await_all(NETWORKS[0]);
    stays.push(Stay { network: NETWORKS[0], from, until: monotonic_ns() });
    let arrived = crowd.arrived();
    drop(crowd);
    let crossed: Vec<(&Arrived, &Stay)> = arrived
        .iter()
        .filter_map(|a| {
            let within = |stay: &&Stay| stay.network != a.network && stay.from <= a.sent && a.received <= stay.until;
            Some((a, stays.iter().find(within)?))
        })
        .collect();
    println!("{} datagrams, {} stays", arrived.len(), stays.len());
    assert!(
        crossed.is_empty(),
        "{} of {} crossed: {:?}",
        crossed.len(),
        arrived.len(),
        &crossed[..crossed.len().min(3)]
    );
}

/// A queue with a second's datagrams in it.
#[test]
fn what_waits_in_a_limit_does_not_follow_its_port_to_another_network() {
    let limit = "ingress_rate = \"2Mbps\"";
    let Some(mut world) = World::new("ml") else { return };
    world.add_neighbour();
    configure(&world, 7, limit);
    world.start(0, &[]);
    // Guest 2 goes on whatever it is answered.
    let mac = world.exec(&world.guest(0), "cat /sys/class/net/eth0/address").stdout;
    let mac = String::from_utf8(mac).unwrap();
    world.succeed(&world.guest(2), &format!("ip neigh replace 10.7.1.2 lladdr {} dev eth0 nud permanent", mac.trim()));
    let (port, edge) = opened(&world);
    let mut sink = world.spawn(&world.guest(0), "udp-sink 10.7.1.2:9 0");
    let mut flood = world.spawn(&world.guest(2), "udp-flood 10.7.1.2:9 0");
    // Before, what is read of its process is the counts of another namespace.
    let namespace = |process: String| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    eventually("the sink enters its guest", || namespace(sink.id().to_string()) != namespace("self".into()));
    let mut late = 0;
    for _ in 0..3 {
        let before = delivered(sink.id());
        eventually("the neighbour's packets arrive", || delivered(sink.id()) > before + 300);
        configure(&world, 8, limit);
        // From the moment on that the port is in the other network, nothing comes.
        let (_, _, moved) = reload(&world, &edge, port, [7, 8], || delivered(sink.id()));
        std::thread::sleep(Duration::from_millis(200));
        late += delivered(sink.id()) - moved;
        configure(&world, 7, limit);
        assert!(world.ctl(0, &["reload"]).status.success());
    }
    for child in [&mut sink, &mut flood] {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!(late, 0, "packets of network 7 that guest 0 got while it was in network 8");
}

/// The same for what the port has sent: it would come out of the limit's queue in the other network, where its address has a guest, too.
#[test]
fn what_a_port_sent_does_not_follow_it_to_another_network() {
    // As the agent makes it, and with the limit gone in the same reload; another's queue in the class; departure times.
    let put = "tc qdisc replace dev svlimit0 parent 5e1f:1000 handle 77: bfifo limit 300000";
    let cases = [
        ("me", "htb", None, true),
        ("mg", "htb", None, false),
        ("mo", "htb", Some(put), true),
        ("md", "departure", None, true),
    ];
    for (name, pacing, put, stays) in cases {
        if pacing == "departure" && kernel::htb::has_fq() != Some(true) {
            println!("skipped: this kernel has no fq for departure times");
            continue;
        }
        let Some(mut world) = World::new(name) else { return };
        add_others(&world);
        let other = "\n[[port]]\nnetwork = 8\ninterface = \"lxc3\"\naddresses = [\"10.7.1.3\", \"fd07:1::3\"]";
        let configured = |world: &World, network, limited| {
            let limit = if limited { "egress_rate = \"2Mbps\"" } else { "" };
            configure(world, network, &format!("{limit}\n{other}\n\n[limits]\npacing = \"{pacing}\""));
        };
        configured(&world, 7, true);
        world.start(0, &[]);
        let (port, edge) = opened(&world);
        let mut sink = world.spawn(&world.guest(3), "udp-sink 10.7.1.3:9 0");
        let namespace = |process: String| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        eventually("the sink enters its guest", || namespace(sink.id().to_string()) != namespace("self".into()));
        for _ in 0..3 {
            if let Some(put) = put {
                world.succeed(&world.host(0), put);
            }
            let waits = || number(&limit(&world, "lxc0", "egress"), "backlog_bytes");
            let before = delivered(sink.id());
            configured(&world, 8, stays);
            let mut flood = world.spawn(&world.guest(0), "udp-pour 10.7.1.3:9 20");
            eventually("something waits", || waits() > 40_000.0);
            // What arrives in network 8 was sent in network 7.
            let _ = flood.kill();
            let _ = flood.wait();
            assert!(waits() > 0.0, "{name}: nothing waits any more");
            reload(&world, &edge, port, [7, 8], || {});
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(delivered(sink.id()), before, "{name}: packets that guest 0 sent in network 7");
            let problems = world.ask(0, &["status"])["problems"].to_string();
            assert!(!problems.contains("may arrive"), "{name}: {problems}");
            configured(&world, 7, true);
            assert!(world.ctl(0, &["reload"]).status.success());
        }
        // The sink would have seen them.
        configured(&world, 8, true);
        assert!(world.ctl(0, &["reload"]).status.success());
        let mut flood = world.spawn(&world.guest(0), "udp-pour 10.7.1.3:9 20");
        eventually("datagrams of network 8 arrive", || delivered(sink.id()) > 10);
        for child in [&mut sink, &mut flood] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn datagrams_of_a_flow_keep_one_path_unless_told_otherwise() {
    let Some(mut world) = World::new("u") else { return };
    world.configure(0, NAMED);
    world.start(0, &[]);
    let mut flood = world.spawn(&world.guest(0), "udp-flood 10.7.2.2:9 0");
    let mac = "ip neigh replace 10.7.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent";
    assert!(world.exec(&world.guest(0), mac).status.success());
    // More than ten flowcells of them.
    let sent = |world: &World, until: u64| eventually("datagrams", || world.counter(0, "out_bytes") > until);
    sent(&world, 700_000);
    let cells = || world.counter(0, "flowcells");
    assert_eq!(cells(), 0, "nobody restores the order of datagrams");
    let config = std::fs::read_to_string(world.config(0)).unwrap();
    std::fs::write(world.config(0), config.replace("[balance]", "[balance]\nudp = \"flowcell\"")).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    sent(&world, world.counter(0, "out_bytes") + 700_000);
    assert!(cells() >= 5, "{} flowcells", cells());
    let _ = flood.kill();
    let _ = flood.wait();
}

/// The map has 65,536 rows, for both configurations' addresses together too few.
#[test]
fn addresses_that_have_no_room_beside_the_old_ones_take_their_place() {
    let Some(mut world) = World::new("rm") else { return };
    let configure = |world: &World, first: u8| {
        let guest = |i: u32| format!("{{ network = 7, prefix = \"{first}.{}.{}.1\" }}", i / 256, i % 256);
        let guests = (0..40_000).map(guest).collect::<Vec<_>>().join(", ");
        let port = format!("{NAMED}\n\n[[peer]]\nname = \"many\"\naddress = \"192.168.99.77\"\nguests = [{guests}]");
        world.configure(0, &port);
    };
    world.configure(1, "interface = \"lxc0\"\naddresses = [\"10.7.2.2\", \"fd07:2::2\"]");
    configure(&world, 11);
    world.start_both();
    for first in [12, 11] {
        configure(&world, first);
        let reloaded = world.ctl(0, &["reload"]);
        assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
        assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
        eventually("guests reach one another", || world.ping("10.7.2.2", 1));
    }
}
