//! The real binary as an agent: in network namespaces, as root, with BPF. Says why where it is skipped.

mod alone;
#[path = "../authority/mod.rs"]
mod authority;
mod beside;
#[path = "../bpffs/mod.rs"]
mod bpffs;
mod cni;
mod congestion;
mod controller;
mod degraded;
#[path = "../delayed/mod.rs"]
mod delayed;
mod demo;
#[path = "../pages/mod.rs"]
mod documents;
mod far;
mod fastlane;
#[path = "../../../kernel/tests/filter/mod.rs"]
mod filter;
mod forgotten;
mod instead;
mod killed;
mod learning;
mod limits;
mod many;
mod netkit;
mod operator;
mod packets;
mod pages;
mod peers;
#[cfg(feature = "kernel")]
mod plain;
#[cfg(feature = "kernel")]
mod pmtu;
#[path = "../../../kernel/tests/processor/mod.rs"]
mod processor;
#[path = "../promtool/mod.rs"]
mod promtool;
mod quotas;
mod receiver;
mod reload;
#[cfg(feature = "kernel")]
mod reports;
mod seen;
mod signed;
mod stacked;
mod straight;
mod tcx;
#[cfg(feature = "kernel")]
mod tenants;
#[cfg(feature = "kernel")]
mod united;
mod unusual;
mod uplinks;
mod world;

use nix::sys::socket::{setsockopt, sockopt};
use peers::gauge;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;
use world::{eventually, ip, World};

/// For what a connection stands still at most. A bound, not a measure.
const WAIT: Duration = Duration::from_secs(120);

/// Not a test of its own: what the others start in namespaces. `SELVEDGE_TEST_ROLE` is "<what> <address> <bytes>".
#[test]
fn peer_process() {
    let Ok(role) = std::env::var("SELVEDGE_TEST_ROLE") else { return };
    let words: Vec<&str> = role.split_whitespace().collect();
    let [what, address, bytes] = words[..] else { panic!("role {role:?}") };
    let bytes: u64 = bytes.parse().unwrap();
    match what {
        "server" => {
            let (mut stream, _) = TcpListener::bind(address).unwrap().accept().unwrap();
            stream.set_read_timeout(Some(WAIT)).unwrap();
            let (block, mut buffer, mut at) = (block(), vec![0; 1 << 18], 0u64);
            loop {
                let n = stream.read(&mut buffer).unwrap();
                if n == 0 {
                    break;
                }
                let mut read = &buffer[..n];
                while !read.is_empty() {
                    let start = (at % block.len() as u64) as usize;
                    let len = read.len().min(block.len() - start);
                    assert!(read[..len] == block[start..start + len], "a wrong byte after {at}");
                    at += len as u64;
                    read = &read[len..];
                }
            }
            stream.write_all(&at.to_be_bytes()).unwrap();
        }
        // Until somebody ends them.
        "udp-sink" => {
            let _socket = UdpSocket::bind(address).unwrap();
            std::thread::sleep(Duration::from_secs(600));
        }
        "udp-flood" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let end = WAIT.as_millis();
            for i in 0..end {
                (0..20).for_each(|_| drop(socket.send_to(&[i as u8; 64], address)));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // Datagrams of 1200 bytes, so many megabits a second of them.
        "udp-pour" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            // Or a queue of the host would hold the sender back, as far as that is its own.
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBufForce, &(8 << 20)).unwrap();
            #[allow(clippy::disallowed_methods, reason = "a rate of real traffic")]
            let (begun, datagram) = (std::time::Instant::now(), [7; 1200]);
            let mut sent = 0;
            while begun.elapsed() < WAIT {
                let due = begun.elapsed().as_micros() as u64 * bytes / 9600;
                (sent..due.min(sent + 1000)).for_each(|_| drop(socket.send_to(&datagram, address)));
                sent = due;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "client" | "quiet-client" | "segments-client" => {
            let quiet = what != "client";
            let until = std::env::var_os("SELVEDGE_TEST_UNTIL").map(std::path::PathBuf::from);
            let mut stream = connect(address);
            stream.set_read_timeout(Some(WAIT)).unwrap();
            stream.set_write_timeout(Some(WAIT)).unwrap();
            let (block, mut at) = (block(), 0u64);
            // So many segments, and no byte more.
            let exact = (what == "segments-client")
                .then(|| nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::TcpMaxSeg).unwrap());
            let bytes = exact.map_or(bytes, |mss| bytes * u64::from(mss));
            let waits = || until.as_ref().is_some_and(|until| !until.exists());
            while at < bytes || (!quiet && waits()) {
                let start = (at % block.len() as u64) as usize;
                let len = (block.len() - start).min(1 << 18).min(exact.map_or(usize::MAX, |_| (bytes - at) as usize));
                stream.write_all(&block[start..start + len]).unwrap();
                at += len as u64;
                if at > bytes {
                    std::thread::sleep(Duration::from_millis(2)); // only so that the connection is in use
                }
            }
            for _ in 0..WAIT.as_millis() / 10 {
                if !waits() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(u64::from_be_bytes(answer), at);
        }
        #[cfg(feature = "kernel")]
        "claim" => {
            // ARP announcements of this address and the 63 that follow, from an interface of the namespace.
            let std::net::IpAddr::V4(first) = address.parse().unwrap() else { panic!("{address}") };
            let interface = kernel::emit::Interface::open(kernel::ifindex("eth0").unwrap()).unwrap();
            let said = Command::new("ip").args(["-o", "link", "show", "dev", "eth0"]).output().unwrap().stdout;
            let said = String::from_utf8_lossy(&said).into_owned();
            let mac = said.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
            let mac: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            for _ in 0..bytes {
                for n in 0..64 {
                    let claimed = (u32::from(first) + n).to_be_bytes();
                    let mut frame = [&[0xff; 6], mac.as_slice(), &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
                    frame.extend([mac.as_slice(), &claimed, &[0; 6], &claimed].concat());
                    interface.send(&frame).unwrap();
                    std::thread::sleep(Duration::from_millis(1)); // the agent is told of one in 10 ms
                }
            }
        }
        "vxlan" => {
            // Who has the receiver's address? In the network of that number.
            let std::net::SocketAddr::V4(to) = address.parse().unwrap() else { panic!("{address}") };
            let mut frame = [0x0800_0000u32.to_be_bytes(), ((bytes as u32) << 8).to_be_bytes()].concat();
            frame.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x66, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend([2, 0, 0, 0, 0, 0x66, 192, 168, 99, 66, 0, 0, 0, 0, 0, 0]);
            frame.extend(to.ip().octets());
            std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&frame, to).unwrap();
        }
        #[cfg(feature = "kernel")]
        "switch" | "notifying-switch" | "burst-server" | "burst-client" => reports::peer(what, address, bytes),
        #[cfg(feature = "kernel")]
        "stamped-sink" | "stamped-flood" => reload::peer(what, address, bytes),
        "crowd-server" | "crowd-client" => many::peer(what, address, bytes),
        #[cfg(feature = "kernel")]
        "forge" => pmtu::forge(address, bytes),
        "datagram-sink" | "datagram-source" => packets::peer(what == "datagram-sink", address, bytes),
        "sctp-server" | "sctp-client" => unusual::sctp_peer(what == "sctp-server", address, bytes),
        "both-server" | "both-client" | "signed-server" | "signed-client" => {
            let server = what.ends_with("-server");
            let mut stream = match server {
                _ if what.starts_with("signed") => signed::stream(server, address),
                true => TcpListener::bind(address).unwrap().accept().unwrap().0,
                false => connect(address),
            };
            stream.set_read_timeout(Some(WAIT)).unwrap();
            stream.set_write_timeout(Some(WAIT)).unwrap();
            // Short questions and answers first: here TCP has no ACK to send that carries no data.
            stream.set_nodelay(true).unwrap();
            for i in 0..400 {
                if server || i > 0 {
                    stream.read_exact(&mut [0; 100]).unwrap();
                }
                stream.write_all(&[1; 100]).unwrap();
            }
            if !server {
                stream.read_exact(&mut [0; 100]).unwrap();
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (block, mut at, mut stream) = (block(), 0u64, &stream);
                    while at < bytes {
                        let len = block.len().min((bytes - at) as usize);
                        stream.write_all(&block[..len]).unwrap();
                        at += len as u64;
                    }
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                });
                let (mut received, mut reader) = (Vec::new(), &stream);
                reader.read_to_end(&mut received).unwrap();
                assert_eq!(received.len() as u64, bytes);
                assert!(received.chunks(1_048_583).all(|chunk| block().starts_with(chunk)), "a wrong byte");
            });
        }
        "flood" => {
            // As fast as it goes, until the file is there: whoever limits this must do it without TCP's help.
            let until = std::path::PathBuf::from(std::env::var_os("SELVEDGE_TEST_UNTIL").unwrap());
            // What waits of one socket is bounded by its buffer.
            let sockets: Vec<_> = (0..16).map(|_| std::net::UdpSocket::bind("0.0.0.0:0").unwrap()).collect();
            sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
            // Forty datagrams a call, which are one segment as far as they go together: without, a slow machine is no flood.
            let gso = sockets.iter().all(|socket| setsockopt(socket, sockopt::UdpGsoSegment, &(bytes as i32)).is_ok());
            let block = vec![0; if gso { 40 * bytes as usize } else { bytes as usize }];
            while !until.exists() {
                for socket in &sockets {
                    let _ = socket.send_to(&block, address); // a full queue is what this is about
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        // So many datagrams of 1,400 bytes, and once the file is there fifty of 56 from the same port, in half a second.
        "pausing" => {
            let until = std::path::PathBuf::from(std::env::var_os("SELVEDGE_TEST_UNTIL").unwrap());
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            (0..bytes).for_each(|_| drop(socket.send_to(&[0; 1400], address)));
            eventually("the pause is over", || until.exists());
            for _ in 0..50 {
                let _ = socket.send_to(&[0; 56], address);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        "five-tuples" => {
            // Connections that nobody will use, and datagrams to all ports.
            let until = std::path::PathBuf::from(std::env::var_os("SELVEDGE_TEST_UNTIL").unwrap());
            let to: std::net::SocketAddr = address.parse().unwrap();
            std::thread::scope(|scope| {
                for first in 0..8u16 {
                    let until = &until;
                    scope.spawn(move || {
                        let ports = (1024..=u16::MAX).cycle().skip(usize::from(first) * 8000);
                        for port in ports.take_while(|_| !until.exists()) {
                            let _ = TcpStream::connect_timeout(&(to.ip(), port).into(), Duration::from_millis(1));
                        }
                    });
                }
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
                for port in (1024..=u16::MAX).cycle().take_while(|_| !until.exists()) {
                    let _ = socket.send_to(&[0], (to.ip(), port)); // a full queue, or nobody is there
                    if port % 5 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        "http" => {
            let mut stream = connect(address);
            stream.set_read_timeout(Some(WAIT)).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            println!("{text}");
        }
        _ => panic!("role {role:?}"),
    }
}

/// What is sent again and again. Its length is a prime, so that no segment or flowcell repeats with it.
fn block() -> Vec<u8> {
    (0..1_048_583u32).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

fn connect(address: &str) -> TcpStream {
    for _ in 0..3000 {
        if let Ok(stream) = TcpStream::connect(address) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no connection to {address}");
}

/// What Prometheus's tool says of a page. Behind it is what the harness says of the process that fetched it.
fn check_metrics(scrape: &str) {
    let page = scrape.split_once("\r\n\r\n").and_then(|(_, body)| body.split("\n\n").next());
    promtool::check(&["metrics"], page.unwrap());
}

#[test]
fn two_agents_make_a_network() {
    let Some(mut world) = World::new("a") else { return };
    world.configure_both();
    let [named, learning] = world.start_both();
    // Guest 1's address is learned from what it sends.
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    eventually("guest 1's other address is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 fd07:1::2").status.success() && world.ping("fd07:2::2", 1)
    });
    let mut flows = serde_json::Value::Null;
    world.transfer("10.7.2.2:9000", 50_000_000, |world| {
        eventually("the flow is told", || {
            flows = world.ask(0, &["flows", "--limit", "1"]);
            flows["flows"][0]["out_bytes"].as_u64() >= Some(50_000_000)
        });
    });
    world.transfer("[fd07:2::2]:9001", 20_000_000, |_| {});

    assert!(world.counter(0, "flowcells") > 300);
    assert!(world.counter(0, "answered") > 0, "ARP and neighbour discovery");
    assert!(world.counter(0, "out_bytes") > 70_000_000);
    let status = world.ask(0, &["status"]);
    assert_eq!((status["ports"].as_u64(), status["peers"].as_u64()), (Some(1), Some(1)));
    assert_eq!((status["guest_mtu"].as_u64(), status["gro"].as_bool()), (Some(1450), Some(true)));
    assert_eq!(status["problems"].as_array().unwrap().len(), 0, "{status}");
    let port = &world.ask(1, &["ports"])[0];
    assert_eq!((port["interface"].as_str(), port["learned"].as_u64()), (Some("lxc0"), Some(2)));
    assert_eq!(port["attached"], true);
    let flow = &flows["flows"][0];
    assert!(flow["destination"] == "10.7.2.2:9000" && flow["network"] == 7 && flow["protocol"] == "tcp");
    assert!((50_001..=50_003).contains(&flow["label"].as_u64().unwrap()));
    let path = &world.ask(0, &["paths"])[0];
    assert_eq!((path["peer"].as_str(), path["labels"].as_array().map(Vec::len)), (Some("host2"), Some(3)));
    for question in ["status", "ports", "flows", "paths", "counters"] {
        let text = world.ctl(0, &[question]);
        assert!(text.status.success() && text.stdout.iter().filter(|b| **b == b'\n').count() >= 2, "{question}");
    }
    let scrape = world.spawn(&world.host(0), "http 127.0.0.1:9464 0").wait_with_output().unwrap();
    let scrape = String::from_utf8_lossy(&scrape.stdout).into_owned();
    assert!(scrape.contains("200 OK") && scrape.contains("selvedge_out_bytes_total "), "{scrape}");
    check_metrics(&scrape);
    assert!(scrape.contains("# HELP selvedge_flows ") && scrape.contains("selvedge_ports 1.0"), "{scrape}");

    assert_eq!(world.mtu(&world.host(0), "lxc0"), 1500, "as the guest's end");
    let second = world.config(0);
    let second = world.command(0, &[], &["agent", "run", "--config", second.to_str().unwrap()]).output().unwrap();
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && why.contains("another agent holds") && why.lines().count() == 1, "{why}");
    assert!(world.end(named, "TERM") && world.end(learning, "TERM"));
    assert!(world.ping("10.7.2.2", 2), "the edge needs no agent");
}

#[test]
fn agents_come_and_go_under_a_transfer() {
    let Some(mut world) = World::new("b") else { return };
    world.configure_both();
    let [mut named, mut learning] = world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    world.transfer("10.7.2.2:9000", 1_000_000_000, |world| {
        for signal in ["TERM", "KILL"] {
            for (i, agent) in [(0, &mut named), (1, &mut learning)] {
                std::thread::sleep(Duration::from_millis(50));
                world.end(*agent, signal);
                *agent = world.start(i, &[]);
            }
        }
        eventually("one flow throughout", || {
            let flows = world.ask(0, &["flows"]);
            let whole = |flow: &serde_json::Value| flow["out_bytes"].as_u64() >= Some(1_000_000_000);
            flows["flows"].as_array().unwrap().iter().any(whole)
        });
    });
    for i in 0..2 {
        let log = world.log(i);
        assert_eq!(log.matches("maps: nothing to change").count(), 2, "{log}");
        assert_eq!(world.ask(i, &["status"])["adopted"], true);
    }
    // Another size of the flow table needs new maps: what was learned and what is connected goes on.
    let grown = std::fs::read_to_string(world.config(1)).unwrap().replace("max_flows = 1024", "max_flows = 2048");
    std::fs::write(world.config(1), grown).unwrap();
    world.transfer("10.7.2.2:9001", 10_000_000, |world| {
        world.end(learning, "TERM");
        world.start(1, &[]);
    });
    let status = world.ask(1, &["status"]);
    assert_eq!((status["adopted"].as_bool(), status["max_flows"].as_u64()), (Some(false), Some(2048)));
    assert_eq!(world.ask(1, &["ports"])[0]["learned"], 1, "what was learned is adopted");
}

#[test]
fn stop_leaves_nothing_behind() {
    let Some(mut world) = World::new("c") else { return };
    world.configure_both();
    let [running, killed] = world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    world.end(killed, "KILL");
    let other = world.pins(1).display().to_string();
    assert!(world.ask(0, &["status"])["other_edges"].as_array().unwrap().iter().any(|pins| *pins == *other));
    assert!(gauge(&world, "selvedge_other_edges").is_some_and(|others| others >= 1.0));
    for i in 0..2 {
        assert!(["svgro4789", "svcut0"].iter().all(|name| world.has_interface(i, name)) && world.pins(i).exists());
        let output = world.stop(i);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8_lossy(&output.stdout)
            .contains(&format!("still there: the edge of {}", world.pins(1).display()));
        assert_eq!(told, i == 0, "the other is told of while it is there");
        assert!(!["svgro4789", "svcut0"].iter().any(|name| world.has_interface(i, name)));
        assert!(!world.pins(i).exists() && !world.socket(i).exists(), "pins and socket");
        assert_eq!(world.mtu(&world.host(i), "lxc0"), 1500, "restored");
        assert!(world.stop(i).status.success(), "nothing to stop is fine");
    }
    assert!(world.wait(running), "the agent that was asked ends by itself");
    assert!(!world.ping("10.7.2.2", 1), "no program is left");
    let no_agent = world.ctl(0, &["status"]);
    assert!(String::from_utf8_lossy(&no_agent.stderr).contains("no agent answers"));
}

#[test]
fn a_reload_is_taken_whole_or_not_at_all() {
    let Some(mut world) = World::new("d") else { return };
    world.configure_both();
    let [agent, _] = world.start_both();
    let good = std::fs::read_to_string(world.config(0)).unwrap();
    for (old, new, why) in [
        ("network = 7", "netwrok = 7", "did you mean `network`?"),
        ("\"u0\"", "\"nowhere0\"", "there is no such interface"),
        ("max_flows = 1024", "max_flows = 2048", "cannot change while the agent runs"),
    ] {
        std::fs::write(world.config(0), good.replacen(old, new, 1)).unwrap();
        let output = world.ctl(0, &["reload"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why) && text.lines().count() == 1, "{text}");
        let status = world.ask(0, &["status"]);
        assert_eq!((status["ports"].as_u64(), status["routes"].as_u64()), (Some(1), Some(4)), "the old one holds");
        assert!(status["reload_error"].as_str().unwrap().contains(why));
    }
    // A pipe is not waited for: nobody writes to it.
    std::fs::remove_file(world.config(0)).unwrap();
    assert!(Command::new("mkfifo").arg(world.config(0)).status().unwrap().success());
    let output = world.ctl(0, &["reload"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("it is no regular file"), "{text}");
    assert!(world.ctl(0, &["status"]).status.success());
    std::fs::remove_file(world.config(0)).unwrap();
    let more = "\n[[peer]]\nname = \"host3\"\naddress = \"192.168.99.3\"\nguests = [{ network = 7, prefix = \"10.7.3.0/24\" }]\n";
    std::fs::write(
        world.config(0),
        format!("{good}{more}").replace("labels = [50001, 50002, 50003]", "policy = \"hash\""),
    )
    .unwrap();
    world.signal(agent, "HUP");
    eventually("the new configuration is in force", || world.ask(0, &["paths"]).as_array().unwrap().len() == 2);
    let status = world.ask(0, &["status"]);
    assert_eq!((status["policy"].as_str(), status["reload_error"].as_str()), (Some("ecmp"), Some("")));
    std::fs::write(world.config(0), good).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    assert_eq!(world.ask(0, &["paths"]).as_array().unwrap().len(), 1);
    assert!(world.log(0).contains("the old configuration stays in force: "));
}

#[test]
fn a_service_manager_is_told() {
    let Some(mut world) = World::new("i") else { return };
    world.configure_both();
    let path = world.socket(0).with_extension("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(WAIT)).unwrap();
    let told = |what: &str| {
        let mut buffer = [0; 4096];
        loop {
            let n = manager.recv(&mut buffer).unwrap_or_else(|e| panic!("never told {what}: {e}"));
            if String::from_utf8_lossy(&buffer[..n]).lines().any(|line| line.starts_with(what)) {
                return;
            }
        }
    };
    let notify = format!("NOTIFY_SOCKET={}", path.display());
    let agent = world.start(0, &["env", &notify, "JOURNAL_STREAM=8:1", "WATCHDOG_USEC=400000"]);
    told("READY=1");
    told("WATCHDOG=1");
    world.signal(agent, "HUP");
    told("RELOADING=1");
    told("READY=1");
    assert!(world.end(agent, "INT"));
    told("STOPPING=1");
    assert!(world.log(0).lines().all(|line| line.starts_with("<6>")), "{}", world.log(0));
}

#[test]
fn interfaces_come_and_go() {
    let Some(mut world) = World::new("e") else { return };
    world.configure_both();
    let [_, learning] = world.start_both();
    let learned = |world: &World| {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    };
    eventually("guest 1 is learned", || learned(&world));
    let ports = |world: &World, i| world.ask(i, &["ports"]).as_array().unwrap().len();
    for i in 0..2 {
        ip(&format!("-n {} link del lxc0", world.host(i)));
        eventually("the port is gone", || ports(&world, i) == 0);
        world.add_guest(i);
        eventually("the port is back", || ports(&world, i) == 1);
    }
    eventually("the new guest 1 is learned", || learned(&world));
    // While nobody watches, an older version's maps appear, a guest ends and another takes its interface's number.
    world.end(learning, "KILL");
    ip(&format!("-n {} link del lxc0", world.host(1)));
    world.add_guest(1);
    let older = world.pins(1).join("v1");
    std::fs::create_dir(&older).unwrap();
    world.start(1, &[]);
    assert!(!older.exists(), "maps of another version are removed");
    eventually("guest 1 is learned again", || learned(&world));
    // The uplink loses its carrier.
    let problems = |world: &World| world.ask(0, &["status"])["problems"].to_string();
    ip(&format!("-n {} link set u0 down", world.host(1)));
    eventually("the uplink is down", || problems(&world).contains("uplink u0: it is down"));
    ip(&format!("-n {} link set u0 up", world.host(1)));
    eventually("the uplink is up", || problems(&world) == "[]");
    // What was pinned for the old one is replaced.
    ip(&format!("-n {} link del u0", world.host(0)));
    eventually("the uplink is missed", || !world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());
    ip(&format!("link add u0 netns {} type veth peer name u0 netns {}", world.host(0), world.host(1)));
    for i in 0..2 {
        ip(&format!("-n {} addr add 192.168.99.{}/24 dev u0", world.host(i), i + 1));
        ip(&format!("-n {} link set u0 up", world.host(i)));
    }
    eventually("traffic crosses the new uplink", || learned(&world));
    eventually("nothing is missed any more", || problems(&world) == "[]");
    let heard = world.ask(0, &["paths"])[0]["heard_seconds"].as_f64();
    assert!(heard.is_some_and(|seconds| seconds < 120.0), "{heard:?}");
}

#[test]
fn strangers_take_nothing() {
    let Some(mut world) = World::new("f") else { return };
    world.configure_both();
    world.start_both();
    let g = world.guest(1);
    ip(&format!("-n {g} addr add 10.7.9.9/16 dev eth0"));
    assert!(!world.exec(&g, "ping -c 2 -i 0.1 -W 1 -I 10.7.9.9 10.7.1.2").status.success());
    assert!(world.counter(1, "drop_spoofed_segments") > 0);
    eventually("the refusal is logged", || world.log(1).contains("10.7.9.9 is not learned: outside"));
    assert_eq!(world.ask(1, &["ports"])[0]["learned"], 0);
    // In the GRO device's own network nobody gets through to the host.
    let host = world.host(0);
    assert!(world.spawn(&world.host(1), "vxlan 192.168.99.1:4789 16777215").wait().unwrap().success());
    eventually("it comes to the device", || {
        let received = world.exec(&host, "cat /sys/class/net/svgro4789/statistics/rx_packets").stdout;
        String::from_utf8_lossy(&received).trim() != "0"
    });
    let neighbours = world.exec(&host, "ip neighbour show 192.168.99.66").stdout;
    assert_eq!(String::from_utf8_lossy(&neighbours), "");
    let asked = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_selvedge"), "ctl", "status", "--socket"])
        .arg(world.socket(0))
        .output();
    if let Ok(asked) = asked {
        assert!(!asked.status.success(), "only root may ask");
    }
}

#[test]
fn four_capabilities_are_enough() {
    let Some(mut world) = World::new("g") else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setpriv");
        return;
    }
    world.configure_both();
    let tun = std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_ok();
    for i in (0..2).filter(|_| tun) {
        let text = std::fs::read_to_string(world.config(i)).unwrap();
        std::fs::write(world.config(i), text + "\n[receive]\nreorder = true\n").unwrap();
    }
    let only = "--bounding-set=-all,+net_admin,+bpf,+perfmon,+net_raw";
    let before = ["setpriv", only, "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"];
    for i in 0..2 {
        world.start(i, &before);
        assert_eq!(world.ask(i, &["status"])["problems"], serde_json::json!([]));
    }
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    assert!(world.has_interface(0, "svcut0"));
    assert!(world.has_interface(0, "svgro4789"));
    assert_eq!(world.has_interface(0, "svhold0"), tun);
    // Where HTB is a module, its types are found without CAP_SYS_ADMIN.
    let limited = world.ctl(0, &["limit", "lxc0", "--egress", "300Mbps"]);
    assert!(limited.status.success(), "{limited:?}");
    let limits = world.ask(0, &["limits"]);
    assert!(limits[0]["law"] == "spring" && limits[0]["in_force"] == true, "{limits}");
    for i in 0..2 {
        assert_eq!(world.ask(i, &["status"])["problems"], serde_json::json!([]));
        assert!(world.stop(i).status.success());
    }
}

#[test]
fn connections_that_say_nothing_are_in_nobodys_way() {
    let Some(mut world) = World::new("s") else { return };
    world.configure_both();
    world.start(0, &[]);
    let idle: Vec<_> = (0..300).map(|_| std::os::unix::net::UnixStream::connect(world.socket(0)).unwrap()).collect();
    // If each had its five seconds, an answer would take minutes.
    let output = world.ctl(0, &["status"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(idle);
}

#[test]
fn an_agent_that_does_not_answer_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ctl.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap(); // takes nothing
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .args(["ctl", "status", "--timeout", "200ms", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("has not answered within 200ms"), "{text}");
}

#[test]
fn a_patience_that_cannot_be_meant_is_refused() {
    for (time, remedy) in [("0", "write \"3s\""), ("soon", "write \"3s\""), ("3us", "write 1ms to 3600s")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_selvedge")).args(["ctl", "status", "--timeout", time]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(remedy), "{time}: {text}");
    }
}

#[test]
fn the_wrong_place_is_named() {
    let Some(mut world) = World::new("h") else { return };
    world.configure_both();
    let say = |verb: &str| {
        let config = world.config(0);
        let output = world.command(0, &[], &["agent", verb, "--config", config.to_str().unwrap()]).output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let run = || say("run");
    // Nor does a check let through what no agent could run with.
    let refused = || {
        let said = run();
        assert_eq!(said, say("check"));
        said
    };
    let both = || {
        let said = refused();
        assert!(said.contains(&*world.config(0).to_string_lossy()), "{said}");
        said
    };
    let good = std::fs::read_to_string(world.config(0)).unwrap();
    let with = |old: &str, new: &str| std::fs::write(world.config(0), good.replacen(old, new, 1)).unwrap();
    with("\"/sys/fs/bpf", "\"/tmp");
    assert!(both().contains("cannot be a directory in a BPF file system: mount -t bpf"));
    let pins = format!("{:?}", world.pins(0));
    with(&pins, "\"/sys/fs/bpf\"");
    assert!(both().contains("it is one; name a directory below"));
    with(&pins, "\"/sys/fs/bpf/a.b\"");
    assert!(both().contains("names in it have no dots"));
    with("\"u0\"", "\"nowhere0\"");
    assert!(both().contains("uplink nowhere0: there is no such interface"));
    with("[uplink]", "[uplink]\naddress = \"192.168.99.77\"");
    assert!(both().contains("is no address of this host"));
    let socket = format!("{:?}", world.socket(0));
    with(&socket, "\"/dev/null/ctl.sock\"");
    assert!(refused().contains("cannot listen on /dev/null/ctl.sock: "));
    with(&socket, &format!("{:?}", world.config(1)));
    assert!(refused().contains("there is something that is no socket"));
    with(&socket, &socket);
    ip(&format!("-n {} addr del 127.0.0.1/8 dev lo", world.host(0)));
    let said = refused();
    assert!(said.contains("cannot serve metrics on 127.0.0.1:9464: "), "{said}");
    ip(&format!("-n {} addr add 127.0.0.1/8 dev lo", world.host(0)));
    let controller =
        "[controller]\nurls = [\"https://c:7443\"]\nedge = \"a\"\nca = \"no.crt\"\ncertificate = \"no.crt\"\nkey = \"no.key\"\n\n[uplink]";
    with("[uplink]", controller);
    let said = refused();
    assert!(said.contains("no.crt"), "{said}");
    with(&socket, &socket);
    let state = world.dir.path().join("0.sock.state");
    std::fs::create_dir(&state).unwrap();
    assert!(refused().contains(&format!("cannot write {}: ", state.display())));
    std::fs::remove_dir(&state).unwrap();
    assert!(!world.pins(0).exists(), "nothing was changed");
    let check =
        world.command(1, &[], &["agent", "check", "--config", world.config(1).to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success() && text.contains("peer host1: from 192.168.99.2 to 192.168.99.1 by u0"), "{text}");
    assert!(text.contains("port lxc0: ifindex") && text.contains("packets of at most 1450 bytes"), "{text}");
    // Of several uplinks, each peer gets the one that routes lead to.
    let h = world.host(1);
    ip(&format!("-n {h} link add u1 type veth peer name u1x"));
    ip(&format!("-n {h} addr add 192.168.98.2/24 dev u1"));
    ip(&format!("-n {h} link set u1 up"));
    ip(&format!("-n {h} link set u1x up")); // without a carrier it is avoided
    let two = std::fs::read_to_string(world.config(1)).unwrap();
    let two = two.replace("interface = \"u0\"", "interfaces = [\"u0\", \"u1\"]")
        + "\n[[peer]]\nname = \"host3\"\naddress = \"192.168.98.3\"\n";
    std::fs::write(world.config(1), two).unwrap();
    let config = world.config(1);
    // The kernel takes a second to notice that links are there.
    eventually("each peer has its uplink", || {
        let check = world.command(1, &[], &["agent", "check", "--config", config.to_str().unwrap()]).output().unwrap();
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        text.contains("to 192.168.99.1 by u0") && text.contains("to 192.168.98.3 by u1")
    });
    // An edge belongs to one network namespace. There, the peer's address would be its own.
    std::fs::write(world.config(0), good.replace("\"192.168.99.2\"", "\"192.168.99.9\"")).unwrap();
    let agent = world.start(0, &[]);
    world.end(agent, "KILL");
    let config = world.config(0);
    let elsewhere =
        |verb| world.command(1, &[], &["agent", verb, "--config", config.to_str().unwrap()]).output().unwrap();
    for verb in ["check", "run"] {
        let refused = elsewhere(verb);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains("holds the edge of another network namespace"),
            "{verb}: {said}"
        );
    }
    let filters = std::fs::read_dir(world.pins(0).join("filters")).is_ok_and(|mut entries| entries.next().is_some());
    for _ in 0..2 {
        let stopped = elsewhere("stop");
        let text = String::from_utf8_lossy(&stopped.stderr).into_owned();
        assert_eq!(stopped.status.code(), Some(1), "{text}");
        assert!(!String::from_utf8_lossy(&stopped.stdout).contains("nothing"));
        assert!(text.contains("the device svgro4789, the devices svcut0 and svcut1"), "{text}");
        assert!(text.contains(&format!("nsenter --net=/run/netns/{} selvedge agent stop", world.host(0))), "{text}");
        assert!(world.has_interface(0, "svgro4789") && world.has_interface(0, "svcut0"));
        // Without tcx, filters must be taken off where their interfaces are.
        assert_eq!(world.pins(0).exists(), filters);
    }
    // Where it says, the rest goes.
    assert!(world.stop(0).status.success());
    assert!(!world.has_interface(0, "svgro4789") && !world.has_interface(0, "svcut0"));
}
