//! DCTCP in the running kernel: over a router that marks, and over one that drops. Skips, with a reason, without root,
//! clang or the object.
#![cfg(feature = "libbpf")]

#[path = "../fabric/mod.rs"]
mod fabric;
#[path = "../filter/mod.rs"]
mod filter;
#[path = "../processor/mod.rs"]
mod processor;

use filter::Filter;
use kernel::dctcp::{is_registered, Dctcp};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;

const MARK: Filter =
    Filter { source: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dctcp/mark.bpf.c"), object: "dctcp-mark.o" };
const BYTES: u64 = 20_000_000;
/// `tcpi_options` of `struct tcp_info`.
const OPT_ECN: u8 = 8;

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two hosts and a router between them, which forwards to the second host at 100 Mbit/s.
struct Path {
    tag: String,
}

impl Path {
    fn new(name: &str, queue_packets: u32) -> Path {
        let path = Path { tag: format!("dc{}{name}", std::process::id() % 100_000) };
        let [a, r, b] = ["a", "r", "b"].map(|n| path.namespace(n));
        for ns in [&a, &r, &b] {
            ip(&format!("netns add {ns}"));
        }
        for (host, n) in [(&a, 1), (&b, 2)] {
            ip(&format!("link add eth0 netns {host} type veth peer name p{n} netns {r}"));
            ip(&format!("-n {host} addr add 10.9.{n}.2/24 dev eth0"));
            ip(&format!("-n {r} addr add 10.9.{n}.1/24 dev p{n}"));
            ip(&format!("-n {host} link set eth0 up"));
            ip(&format!("-n {r} link set p{n} up"));
            ip(&format!("-n {host} route add default via 10.9.{n}.1"));
            // Marks are to fall on packets, not on segments of 64 KB.
            path.exec(host, "ethtool -K eth0 tso off gso off gro off");
            path.exec(&r, &format!("ethtool -K p{n} tso off gso off gro off"));
        }
        path.exec(&r, "sysctl -qw net.ipv4.ip_forward=1");
        path.exec(&r, "tc qdisc add dev p2 root handle 1: htb default 1");
        // So slow that a busy machine fills the queue, too.
        path.exec(&r, "tc class add dev p2 parent 1: classid 1:1 htb rate 100mbit burst 3kb");
        path.exec(&r, &format!("tc qdisc add dev p2 parent 1:1 pfifo limit {queue_packets}"));
        path
    }

    fn mark(&self, object: &std::path::Path) {
        let router = self.namespace("r");
        self.exec(&router, "tc qdisc add dev p2 clsact");
        self.exec(&router, &format!("tc filter add dev p2 egress bpf da obj {} sec tc", object.display()));
    }

    /// Packets that the router's queues have dropped.
    fn dropped(&self) -> u64 {
        let arguments = ["netns", "exec", &self.namespace("r"), "tc", "-s", "qdisc", "show", "dev", "p2"];
        let output = Command::new("ip").args(arguments).output().expect("ip runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let counts = text.split("(dropped ").skip(1).map(|rest| rest.split(',').next().unwrap_or("").parse::<u64>());
        let counts: Result<Vec<u64>, _> = counts.collect();
        counts.ok().filter(|counts| counts.len() >= 2).unwrap_or_else(|| panic!("no counts in {text}")).iter().sum()
    }

    fn namespace(&self, node: &str) -> String {
        format!("{}{node}", self.tag)
    }

    fn exec(&self, namespace: &str, command: &str) {
        ip(&format!("netns exec {namespace} {command}"));
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for node in ["a", "r", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).status();
        }
    }
}

fn enter(namespace: &str) {
    processor::stay_on_one(); // TCP would take what overtakes for loss
    let file = std::fs::File::open(format!("/run/netns/{namespace}")).expect("the namespace exists");
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter it");
}

/// Sends [`BYTES`] from host a to host b under `law` at both ends. Yields what arrived, and of the sender's `tcp_info`
/// the options, the window in packets and the packets sent again.
fn transfer(path: &Path, law: &str) -> (u64, u8, u32, u32) {
    let (ready, listening) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            enter(&path.namespace("b"));
            let listener = TcpListener::bind("10.9.2.2:5000").unwrap();
            setsockopt(&listener, sockopt::TcpCongestion, &OsString::from(law)).unwrap();
            ready.send(()).unwrap();
            let (mut socket, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            let mut received = 0;
            loop {
                match socket.read(&mut buffer).unwrap() {
                    0 => break received,
                    n => received += n as u64,
                }
            }
        });
        let sender = scope.spawn(move || {
            enter(&path.namespace("a"));
            listening.recv().unwrap();
            let socket = nix::sys::socket::socket(
                nix::sys::socket::AddressFamily::Inet,
                nix::sys::socket::SockType::Stream,
                nix::sys::socket::SockFlag::SOCK_CLOEXEC,
                None,
            )
            .unwrap();
            // Before the SYN, which is to ask for ECN.
            setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(law)).unwrap();
            let to: std::net::SocketAddrV4 = "10.9.2.2:5000".parse().unwrap();
            nix::sys::socket::connect(socket.as_raw_fd(), &nix::sys::socket::SockaddrIn::from(to)).unwrap();
            let mut socket = TcpStream::from(socket);
            assert_eq!(
                getsockopt(&socket, sockopt::TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0'),
                law
            );
            let chunk = vec![7; 1 << 16];
            let mut left = BYTES;
            while left > 0 {
                left -= socket.write(&chunk[..chunk.len().min(left as usize)]).unwrap() as u64;
            }
            let info = tcp_info(&socket);
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap(), 0);
            info
        });
        let (options, cwnd, again) = sender.join().unwrap();
        (receiver.join().unwrap(), options, cwnd, again)
    })
}

fn tcp_info(socket: &TcpStream) -> (u8, u32, u32) {
    // SAFETY: `info` is plain integers and as long as `length` says; the kernel writes no more.
    let info = unsafe {
        let mut info: nix::libc::tcp_info = std::mem::zeroed();
        let mut length = std::mem::size_of_val(&info) as u32;
        let level = nix::libc::IPPROTO_TCP;
        let done =
            nix::libc::getsockopt(socket.as_raw_fd(), level, nix::libc::TCP_INFO, (&raw mut info).cast(), &mut length);
        assert_eq!(done, 0);
        info
    };
    (info.tcpi_options, info.tcpi_snd_cwnd, info.tcpi_total_retrans)
}

/// DCTCP under a name of its own, or why this test cannot be made.
fn register(name: &str) -> Option<Dctcp> {
    let older = || fabric::older_than(fabric::WITH_DCTCP, "a congestion control that asks for ECN");
    if let Some(why) = fabric::unavailable().or_else(older) {
        eprintln!("skipped: {why}");
        return None;
    }
    if fabric::lacks("ethtool") {
        return None;
    }
    match Dctcp::register(name) {
        Ok(dctcp) => Some(dctcp),
        Err(error @ kernel::dctcp::Error::Unavailable(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    MARK.build_for_another_machine();
}

#[test]
fn marks_keep_the_window_short_and_nothing_is_lost() {
    let name = format!("sv_dc_m{}", std::process::id() % 100_000);
    let Some(dctcp) = register(&name) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let object = scratch.path().join("mark.o");
    if let Err(why) = MARK.put(&object) {
        eprintln!("skipped: {why}");
        return;
    }
    let path = Path::new("m", 1000);
    path.mark(&object);

    let (received, options, cwnd, again) = transfer(&path, &name);
    let stats = dctcp.stats().unwrap();
    println!("cwnd {cwnd}, retransmitted {again}, alpha {:.3}, {stats:?}", stats.mean_alpha().unwrap());
    assert_eq!(received, BYTES);
    assert_eq!(options & OPT_ECN, OPT_ECN, "ECN was negotiated");
    // Not counted by what was sent again: TCP probes for a lost tail when ACKs are late, as they are on a busy machine.
    assert_eq!(path.dropped(), 0, "a thousand packets of queue never fill");
    // 40 packets at the threshold and hardly any on the wire; a law that fills the queue would have a thousand.
    assert!(cwnd < 300, "{cwnd}");
    assert!(stats.reductions > 3 && stats.windows > stats.reductions, "{stats:?}");
    assert!((0.005..0.9).contains(&stats.mean_alpha().unwrap()), "{stats:?}");
    assert_eq!(stats.losses, 0, "{stats:?}");

    drop(dctcp);
    assert!(!is_registered(&name), "it is gone with its owner");
}

#[test]
fn without_marks_losses_halve_the_window_and_all_arrives() {
    let name = format!("sv_dc_l{}", std::process::id() % 100_000);
    let Some(dctcp) = register(&name) else { return };
    assert!(matches!(Dctcp::register(&name), Err(kernel::dctcp::Error::Taken(_))));
    let path = Path::new("l", 100);
    let (received, options, cwnd, again) = transfer(&path, &name);
    let stats = dctcp.stats().unwrap();
    println!("cwnd {cwnd}, retransmitted {again}, {stats:?}");
    assert_eq!(received, BYTES);
    assert_eq!(options & OPT_ECN, OPT_ECN);
    assert!(stats.losses > 0 && again > 0 && path.dropped() > 0, "{stats:?}");
    assert!(cwnd < 1000, "{cwnd}");
    assert_eq!(stats.reductions, 0);
}
