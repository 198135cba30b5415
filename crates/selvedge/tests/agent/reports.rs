//! Drop reports of a switch between the hosts: a real guest without SACK hears of a loss that it would only notice by its timeout.

use super::world::{eventually, ip, Running, World, LEARNING, NAMED};
use super::{connect, WAIT};
use port::{PacketSocket, Pool, Port, VnetHeader};
use std::collections::HashSet;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;
use wire::notification::in_tunnel;

/// Where the agent of host 0 hears of drops, and the switch's own address.
const REPORTS: &str = "192.168.99.1:9100";
const SWITCH: &str = "192.168.99.100";
/// What a block of data begins with: the switch drops such a one when it first sees it, or does not.
const DROP: u8 = b'd';
const KEEP: u8 = b'k';
/// One duplicate ACK comes back: too few for a fast retransmit.
const BLOCKS: [u8; 6] = [DROP, KEEP, DROP, DROP, DROP, DROP];
const ROUNDS: u64 = 5;
/// What a switch tells of a frame.
const SNAP: usize = 128;
/// Outer headers, in front of the guest's frame.
const OUTER: usize = 50;
/// The tunnel's UDP port.
const TUNNEL: u16 = 4789;

/// What `peer_process` starts for this file.
pub(super) fn peer(what: &str, address: &str, number: u64) {
    match what {
        "switch" => switch(number, true, address),
        "notifying-switch" => switch(number, false, address),
        "burst-server" => burst_server(address, number),
        _ => burst_client(address, number),
    }
}

/// Carries frames between s0 and s1, and drops blocks that ask for it. Of each it tells `tells` times: the collector, if it `reports`, else who
/// has sent the frame, by a notification in the tunnel.
fn switch(tells: u64, reports: bool, collector: &str) {
    let mut ports = ["s0", "s1"].map(|name| PacketSocket::open(name).unwrap());
    let teller = UdpSocket::bind((SWITCH, 0)).unwrap();
    let (mut pool, mut seen) = (Pool::new(256), HashSet::new());
    println!("ready");
    #[allow(clippy::disallowed_methods, reason = "a process of real time")]
    let begun = std::time::Instant::now();
    while begun.elapsed() < WAIT {
        let mut idle = true;
        for from in [0, 1] {
            let mut frames = Vec::new();
            ports[from].receive(&mut pool, &mut frames, 64).unwrap();
            for id in frames {
                idle = false;
                let frame = pool.frame(id).to_vec();
                let dropped = asks_to_be_dropped(&frame).is_some_and(|seq| seen.insert(seq));
                if !dropped {
                    let _ = ports[1 - from].send(&pool.header(id), &[IoSlice::new(&frame)]);
                }
                for _ in 0..if dropped { tells } else { 0 } {
                    if reports {
                        teller.send_to(&report(&frame), collector).unwrap();
                    } else {
                        let notice = in_tunnel(&frame, TUNNEL).unwrap();
                        assert!(ports[from].send(&VnetHeader::default(), &[IoSlice::new(&notice)]).unwrap());
                    }
                }
                pool.release(id);
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The number of a segment with a block that is to be dropped.
fn asks_to_be_dropped(frame: &[u8]) -> Option<(u16, u32)> {
    let packet = wire::parse(frame.get(OUTER..)?).ok().filter(|packet| packet.payload > 0)?;
    let data = OUTER + 14 + usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
    (frame.get(data) == Some(&DROP)).then_some((packet.sport, packet.seq))
}

/// The report of one dropped frame: group header, one report of type 0 with Ethernet, D and F.
fn report(frame: &[u8]) -> Vec<u8> {
    let packet = &frame[..frame.len().min(SNAP) & !3];
    let mut bytes = vec![0x20, 0, 0, 1, 0, 0, 0, 7, 0x03, (packet.len() / 4) as u8, 0, 0xa0];
    bytes.extend(packet);
    bytes
}

fn burst_server(address: &str, rounds: u64) {
    let listener = TcpListener::bind(address).unwrap();
    for _ in 0..rounds {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut mss = [0; 8];
        stream.read_exact(&mut mss).unwrap();
        let mss = u64::from_be_bytes(mss) as usize;
        for rest in [mss - 8, BLOCKS.len() * mss] {
            stream.read_exact(&mut vec![0; rest]).unwrap();
            stream.write_all(&[1]).unwrap();
        }
    }
}

/// Each round has a connection of its own, with a whole first window. Prints how long each took, in microseconds.
fn burst_client(address: &str, rounds: u64) {
    for _ in 0..rounds {
        let mut stream = connect(address);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let mss = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::TcpMaxSeg).unwrap() as usize;
        // The first block tells the length of all.
        let send = |stream: &mut std::net::TcpStream, blocks: &[u8]| {
            let mut data: Vec<u8> = blocks.iter().flat_map(|first| std::iter::repeat_n(*first, mss)).collect();
            if blocks.len() == 1 {
                data[..8].copy_from_slice(&(mss as u64).to_be_bytes());
            }
            stream.write_all(&data).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        };
        send(&mut stream, &[KEEP]);
        std::thread::sleep(Duration::from_millis(50));
        #[allow(clippy::disallowed_methods, reason = "measures real traffic")]
        let begun = std::time::Instant::now();
        send(&mut stream, &BLOCKS);
        println!("took {}", begun.elapsed().as_micros());
    }
}

/// Both hosts, with the switch between them. `keys`: of `[fastlane]` of host 0.
fn world(name: &str, keys: &str) -> Option<World> {
    let world = World::new(name)?;
    let switch = world.guest(2);
    ip(&format!("-n {} link del u0", world.host(0)));
    ip(&format!("netns add {switch}"));
    for i in 0..2 {
        let h = world.host(i);
        ip(&format!("link add u0 netns {h} type veth peer name s{i} netns {switch}"));
        ip(&format!("-n {h} addr add 192.168.99.{}/24 dev u0", i + 1));
        ip(&format!("-n {h} link set u0 up"));
        ip(&format!("-n {switch} link set s{i} up"));
        let g = world.guest(i);
        ip(&format!("-n {g} link set eth0 gso_max_segs 1"));
        // Whoever waits for a timeout waits long, however slow the machine is.
        ip(&format!("-n {g} route replace 10.7.0.0/16 dev eth0 rto_min 3s"));
        for set in ["tcp_sack=0", "tcp_no_metrics_save=1"] {
            assert!(world.exec(&g, &format!("sysctl -qw net.ipv4.{set}")).status.success());
        }
    }
    ip(&format!("-n {switch} addr add {SWITCH}/24 dev s0"));
    for (i, port) in [NAMED, LEARNING].iter().enumerate() {
        world.configure(i, port);
        let table = if i == 0 { format!("\n[fastlane]\n{keys}\n") } else { String::new() };
        let text = std::fs::read_to_string(world.config(i)).unwrap() + table.as_str();
        std::fs::write(world.config(i), text).unwrap();
    }
    Some(world)
}

fn timeouts(world: &World, guest: usize) -> u64 {
    let text = world.exec(&world.guest(guest), "cat /proc/net/netstat").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.split_whitespace().zip(values.split_whitespace()).find(|(name, _)| *name == "TCPTimeouts");
    found.unwrap().1.parse().unwrap()
}

/// Plays the rounds, and returns how many timeouts guest 0 had.
fn rounds(world: &World, port: u16) -> u64 {
    let (to, before) = (format!("10.7.2.2:{port}"), timeouts(world, 0));
    let mut server = world.spawn(&world.guest(1), &format!("burst-server {to} {ROUNDS}"));
    let client = world.spawn(&world.guest(0), &format!("burst-client {to} {ROUNDS}")).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&client.stdout).into_owned();
    if !client.status.success() {
        let _ = server.kill();
    }
    assert!(server.wait().unwrap().success() && client.status.success(), "{said}");
    said.lines().filter(|line| line.starts_with("took ")).for_each(|line| eprintln!("{line} us"));
    timeouts(world, 0) - before
}

/// A switch of that kind, that tells so often of each packet that it drops.
fn start_switch(world: &World, kind: &str, tells: u64) -> Running {
    Running(world.spawn(&world.guest(2), &format!("{kind} {REPORTS} {tells}")))
}

/// False, with the reason printed, where there is no FastLane.
fn start_agents(world: &mut World) -> bool {
    world.start_both();
    let status = world.ask(0, &["status"]);
    if status["problems"].to_string().contains("what this host drops is left to guests") {
        assert_eq!(world.doctor(0, &[], "fastlane"), "no", "{}", status["problems"]);
        eprintln!("skipped: {}", status["problems"]);
        return false;
    }
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    true
}

/// The same without a collector: the switch sends the packet's headers back, in the tunnel.
#[test]
fn a_guest_hears_of_what_a_switch_notifies_of() {
    let Some(mut world) = world("rn", "notifications = true") else { return };
    let running = start_switch(&world, "notifying-switch", 0);
    if !start_agents(&mut world) {
        return;
    }
    assert!(rounds(&world, 9000) >= ROUNDS, "nobody tells, so each round has a timeout");
    assert_eq!(world.counter(0, "notified"), 0);
    drop(running);
    let running = start_switch(&world, "notifying-switch", 3);
    eventually("the switch is there", || world.ping("10.7.2.2", 1));
    // An agent that gets no CPU for some round trips is too late, and the guest has its timeout.
    let late = rounds(&world, 9001);
    assert!(late < ROUNDS, "{}", world.ask(0, &["counters"]));
    let (notified, told) = (world.counter(0, "notified"), world.counter(0, "drop_reports_told_guests"));
    assert!(notified >= 3 * 5 * ROUNDS, "{notified}");
    assert!((1..=ROUNDS).contains(&told), "{told}: at most once each, however often it is said");
    assert_eq!(["notified_malformed", "notified_withheld"].map(|name| world.counter(0, name)), [0, 0]);
    assert_eq!(world.counter(0, "drop_lengths_segments"), 0);
    // Without the key a notification is a frame whose lengths are wrong.
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    std::fs::write(world.config(0), text.replace("notifications = true", "")).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    assert!(rounds(&world, 9002) >= ROUNDS);
    assert_eq!(world.counter(0, "notified"), notified);
    assert!(world.counter(0, "drop_lengths_segments") >= 3 * 5 * ROUNDS);
    drop(running);
}

#[test]
fn a_guest_hears_of_what_a_switch_dropped() {
    let keys = format!("reports = \"{REPORTS}\"\nreports_from = [\"{SWITCH}\"]");
    let Some(mut world) = world("rp", &keys) else { return };
    let running = start_switch(&world, "switch", 0);
    if !start_agents(&mut world) {
        return;
    }
    let set_sack = |world: &World, on: u32| {
        for i in 0..2 {
            assert!(world.exec(&world.guest(i), &format!("sysctl -qw net.ipv4.tcp_sack={on}")).status.success());
        }
    };
    eprintln!("without reports");
    assert!(rounds(&world, 9000) >= ROUNDS, "nobody tells, so each round has a timeout");
    assert_eq!(world.counter(0, "drop_report_datagrams"), 0);
    set_sack(&world, 1);
    eprintln!("with SACK, without reports");
    rounds(&world, 9003);
    set_sack(&world, 0);
    drop(running);
    let running = start_switch(&world, "switch", 3);
    eventually("the switch is there", || world.ping("10.7.2.2", 1));
    eprintln!("with reports");
    // An agent that gets no CPU for some round trips is too late, and the guest has its timeout.
    let late = rounds(&world, 9001);
    assert!(late < ROUNDS, "{}", world.ask(0, &["counters"]));
    let passed = world.counter(0, "drop_reports_passed");
    assert!(passed >= 3 * 5 * ROUNDS, "{passed}");
    let told = world.counter(0, "drop_reports_told_guests");
    assert!((1..=ROUNDS).contains(&told), "{told}: at most once each, however often it is said");
    // With SACK there is no word for it.
    set_sack(&world, 1);
    eprintln!("with SACK and reports");
    rounds(&world, 9002);
    assert_eq!(world.counter(0, "drop_reports_told_guests"), told);
    let passed = world.counter(0, "drop_reports_passed");
    assert_eq!(world.counter(0, "fastlane_suppressed_segments"), 0, "a report keeps nothing of a guest's from leaving");
    // Strangers, and nonsense from the switch.
    let send = |from: &str, bytes: &[u8]| {
        let hex: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let device = format!("printf '{hex}' > /dev/udp/{}", REPORTS.replace(':', "/"));
        let args = ["netns", "exec", from, "bash", "-c", device.as_str()];
        assert!(std::process::Command::new("ip").args(args).status().unwrap().success());
    };
    let foreign = report(&[0; 100]);
    send(&world.host(1), &foreign);
    send(&world.guest(2), &[0x10; 20]);
    send(&world.guest(2), &foreign);
    eventually("they are counted", || {
        ["drop_report_strangers", "drop_report_malformed", "drop_reports_unreadable"]
            .iter()
            .all(|name| world.counter(0, name) == 1)
    });
    assert_eq!(world.counter(0, "drop_reports_passed"), passed);
    reloaded(&world, &send, &foreign);
    drop(running);
}

/// A port that another has changes nothing; an address may come later; others who may send are heard at once; without the key nobody is.
fn reloaded(world: &World, send: &impl Fn(&str, &[u8]), datagram: &[u8]) {
    let text = std::fs::read_to_string(world.config(0)).unwrap();
    let reload = |from: &str, to: &str| {
        std::fs::write(world.config(0), text.replace(from, to)).unwrap();
        world.ctl(0, &["reload"])
    };
    let taken = "192.168.99.1:9101";
    let other = Running(world.spawn(&world.host(0), &format!("udp-sink {taken} 0")));
    eventually("the other listens", || {
        String::from_utf8_lossy(&world.exec(&world.host(0), "ss -Hlun").stdout).contains(taken)
    });
    let refused = reload(REPORTS, taken);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains(&format!("cannot listen for drop reports at {taken}")), "{why}");
    drop(other);
    assert!(reload(REPORTS, "203.0.113.1:9100").status.success());
    assert!(world.log(0).contains("this host has no address 203.0.113.1 yet"), "{}", world.log(0));
    assert!(reload("", "").status.success());
    send(&world.guest(2), datagram);
    eventually("it is heard still", || world.counter(0, "drop_reports_unreadable") == 2);
    assert!(reload(SWITCH, "192.168.99.2").status.success());
    send(&world.host(1), datagram);
    send(&world.guest(2), datagram);
    eventually("another one is heard", || world.counter(0, "drop_reports_unreadable") == 3);
    eventually("and no more the first", || world.counter(0, "drop_report_strangers") == 2);
    let keys = format!("reports = \"{REPORTS}\"\nreports_from = [\"{SWITCH}\"]");
    assert!(reload(&keys, "").status.success());
    let counters = world.ask(0, &["counters"]).to_string();
    assert!(!counters.contains("drop_report_datagrams"), "{counters}");
}
