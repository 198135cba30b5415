//! What holds a port's sending where our pairs of devices or their HTB cannot.

use super::alone::configure;
use super::degraded::UNTYPED;
use super::limits::{holds, limit, limited_world};
use super::unusual::opened_in;
use super::world::{eventually, ip, World};
use nix::fcntl::{open, OFlag};
use nix::libc;
use nix::poll::{poll, PollFd, PollFlags};
use nix::sys::stat::Mode;
use nix::unistd::{read, write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const PAIRS: u32 = 8;
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
nix::ioctl_write_ptr_bad!(tun_set_iff, TUNSETIFF, libc::ifreq);

/// A device of the calling thread's namespace whose packets have no Ethernet header; `None` if it cannot be made.
fn tun(name: &str) -> Option<OwnedFd> {
    let fd = open("/dev/net/tun", OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty()).ok()?;
    // SAFETY: a struct of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is whole, and the kernel only writes the name within it.
    unsafe { tun_set_iff(fd.as_raw_fd(), &request) }.ok()?;
    Some(fd)
}

/// Hands packets on in both directions until told to stop.
fn connect(ends: &[OwnedFd; 2], stop: &AtomicBool) {
    let mut packet = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut ready = [0, 1].map(|end: usize| PollFd::new(ends[end].as_fd(), PollFlags::POLLIN));
        let _ = poll(&mut ready, 100u16);
        for (from, to) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            for _ in 0..64 {
                let Ok(len) = read(from, &mut packet) else { break };
                let _ = write(to, &packet[..len]); // one for which there is no room is lost
            }
        }
    }
}

/// Stops the thread also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn packets_without_ethernet_headers_have_plain_htb() {
    let Some(mut world) = World::new("it") else { return };
    let (host, guest) = (world.host(0), world.guest(0));
    let ends = [&host, &guest].map(|namespace| opened_in(namespace, || tun("tun0")));
    let [Some(outside), Some(inside)] = ends else {
        return println!("skipped, devices without Ethernet headers: /dev/net/tun makes none");
    };
    for (namespace, address) in [(&host, "10.66.0.1/24"), (&guest, "10.66.0.2/24")] {
        ip(&format!("-n {namespace} addr add {address} dev tun0"));
        ip(&format!("-n {namespace} link set tun0 up"));
    }
    let (stop, ends) = (AtomicBool::new(false), [outside, inside]);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| connect(&ends, &stop));
        configure(&world, "[[port]]\ninterface = \"tun0\"\negress_rate = \"30Mbps\"\ningress_rate = \"40Mbps\"\n");
        let agent = world.start(0, &[]);
        let problems = world.ask(0, &["status"])["problems"].to_string();
        assert!(problems.contains("port tun0: its limit is plain HTB"), "{problems}");
        for (direction, device) in [("egress", "svlimit0"), ("ingress", "tun0")] {
            let now = limit(&world, "tun0", direction);
            assert!(now["in_force"] == true && now["law"] == "none" && now["pacing"] == "htb", "{now}");
            assert_eq!(now["device"], device, "{now}");
        }
        let ping = world.exec(&guest, "ping -c 2 -W 5 10.66.0.1");
        assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stdout));
        world.transfer_in("client", [&guest, &host], "10.66.0.1:9000", 3_000_000, |world| {
            holds(world, "tun0", "egress", 30e6);
        });
        world.transfer_in("client", [&host, &guest], "10.66.0.2:9001", 3_000_000, |world| {
            holds(world, "tun0", "ingress", 40e6);
        });
        assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    });
}

const PORT: &str = "[[port]]\ninterface = \"lxc0\"\negress_rate = \"50Mbps\"\n";

/// The sending of a guest that heeds nothing is held to the rate.
fn is_held(world: &World, how: &str) {
    let now = limit(world, "lxc0", "egress");
    assert!(now["in_force"] == true && now["pacing"] == how, "{now}");
    let until = world.socket(0).with_extension("flood");
    let _ = std::fs::remove_file(&until);
    let mut flood = world.command_in(&world.guest(0), "flood 10.7.0.1:9 1400", &until).spawn().unwrap();
    let dropped = |world: &World| limit(world, "lxc0", "egress")["dropped_segments"].as_u64() > Some(100);
    eventually("more comes than may pass", || dropped(world));
    holds(world, "lxc0", "egress", 50e6);
    std::fs::write(&until, "").unwrap();
    assert!(flood.wait().unwrap().success());
}

/// Nobody but others has the devices of ours that there could be, the first of them by its second name.
fn take_all_names(world: &World) {
    let host = world.host(0);
    ip(&format!("-n {host} link add svlimit1 type veth peer name other0"));
    for n in 1..PAIRS {
        ip(&format!("-n {host} link add svlimit{} type veth peer name other{n}", 2 * n));
    }
}

fn problems(world: &World) -> String {
    world.ask(0, &["status"])["problems"].to_string()
}

/// What is on host 0's loopback device: our queue, somebody's, or nothing; and whether our program is there.
fn on_loopback(world: &World) -> (String, bool) {
    let shown = world.exec(&world.host(0), "tc qdisc show dev lo").stdout;
    let words = String::from_utf8_lossy(&shown).into_owned();
    let words: Vec<&str> = words.split_whitespace().skip(1).take(2).collect();
    let pins = ["links", "filters"].map(|of| world.pins(0).join(of));
    let links = pins.iter().any(|of| of.join("limiter-1").exists() || of.join("limiter-1-first").exists());
    (words.join(" "), links)
}

const HELD_ON_LO: &str = "egress limits have no devices of their own: svlimit1 is another's device; rename or remove it; an HTB on lo holds them";

fn is_on_loopback(world: &World) {
    let (told, now) = (problems(world), limit(world, "lxc0", "egress"));
    assert!(told.contains(HELD_ON_LO), "{told}");
    assert!(now["in_force"] == true && now["pacing"] == "htb" && now["device"] == "lo", "{now}");
    assert_eq!(on_loopback(world), ("htb 5e1f:".into(), true));
}

fn is_off_loopback(world: &World) {
    assert_eq!(on_loopback(world), ("noqueue 0:".into(), false));
}

#[test]
fn where_others_have_one_pair_the_next_is_taken() {
    let Some(mut world) = World::new("io") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} link add svlimit1 type veth peer name other0"));
    configure(&world, PORT);
    let agent = world.start(0, &[]);
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit2");
    assert_eq!(problems(&world), "[]");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(world.has_interface(0, "svlimit1") && !world.has_interface(0, "svlimit2"));
}

#[test]
fn where_others_have_all_devices_an_htb_on_lo_holds_a_guest() {
    let Some(mut world) = World::new("il") else { return };
    let (host, guest) = (world.host(0), world.guest(0));
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    take_all_names(&world);
    configure(&world, PORT);
    let agent = world.start(0, &[]);
    is_on_loopback(&world);
    // Nothing is dropped to hold the rate, nor lost on its way; and the law sees the queue.
    world.transfer_in("client", [&guest, &host], "10.7.0.1:9000", 3_000_000, |world| {
        holds(world, "lxc0", "egress", 50e6);
        let now = limit(world, "lxc0", "egress");
        for key in ["dropped_segments", "unread_segments"] {
            assert_eq!(now[key], 0, "{now}");
        }
        assert!(now["windows_lowered"].as_u64() > Some(0), "{now}");
    });
    // The host's own goes past it. The guest may say a word of its own meanwhile, such as a multicast report.
    let sent = |world: &World| limit(world, "lxc0", "egress")["sent_bytes"].as_u64().unwrap();
    let before = sent(&world);
    assert!(world.exec(&host, "ping -c 3 -i 0.1 -W 1 -m 7 127.0.0.1").status.success());
    world.transfer_in("client", [&host, &host], "127.0.0.1:9001", 30_000_000, |_| {});
    let more = sent(&world) - before;
    assert!(more < 10_000, "{more}");
    is_held(&world, "htb");

    // Without an agent limits stay in force, and go with the configuration's.
    assert!(!world.end(agent, "KILL"));
    assert_eq!(on_loopback(&world), ("htb 5e1f:".into(), true));
    assert!(world.ping("10.7.0.1", 2));
    configure(&world, "[[port]]\ninterface = \"lxc0\"\ningress_rate = \"1Gbps\"\n");
    let agent = world.start(0, &[]);
    assert_eq!(problems(&world), "[]");
    is_off_loopback(&world);
    configure(&world, PORT);
    assert!(world.ctl(0, &["reload"]).status.success());
    is_on_loopback(&world);
    // `agent stop` beside an agent, and after one that was killed.
    assert!(world.stop(0).status.success() && world.wait(agent));
    is_off_loopback(&world);
    let agent = world.start(0, &[]);
    is_on_loopback(&world);
    assert!(!world.end(agent, "KILL"));
    assert!(world.stop(0).status.success());
    is_off_loopback(&world);
    // Without laws, too.
    let agent = world.start(0, &UNTYPED);
    let now = limit(&world, "lxc0", "egress");
    assert!(now["in_force"] == true && now["law"] == "none" && now["device"] == "lo", "{now}");
    is_held(&world, "htb");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    is_off_loopback(&world);
    for n in 0..PAIRS {
        assert!(world.has_interface(0, &format!("other{n}")));
    }
}

#[test]
fn where_lo_has_anothers_qdisc_what_exceeds_a_limit_is_dropped() {
    let Some(mut world) = World::new("iq") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    take_all_names(&world);
    assert!(world.exec(&host, "tc qdisc add dev lo root handle 7: pfifo").status.success());
    configure(&world, PORT);
    let agent = world.start(0, &[]);
    let told = problems(&world);
    for said in [
        "egress limits have no queue of HTB: svlimit1 is another's device; rename or remove it; lo has a root qdisc that somebody set (pfifo 7:)",
        "what exceeds them is dropped",
    ] {
        assert!(told.contains(said), "{told}");
    }
    is_held(&world, "virtual");
    assert!(world.ping("10.7.0.1", 2), "what was dropped was the flood's");
    assert_eq!(on_loopback(&world), ("pfifo 7:".into(), false));
    // The best that there is room for, each time.
    assert!(world.exec(&host, "tc qdisc del dev lo root").status.success());
    assert!(world.ctl(0, &["reload"]).status.success());
    is_on_loopback(&world);
    ip(&format!("-n {host} link del other3"));
    assert!(world.ctl(0, &["reload"]).status.success());
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit6");
    assert_eq!(problems(&world), "[]");
    is_off_loopback(&world);
    is_held(&world, "htb");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(
        world.has_interface(0, "svlimit1")
            && world.has_interface(0, "svlimit14")
            && !world.has_interface(0, "svlimit6")
    );
}

#[test]
fn a_guest_of_a_network_is_held_on_lo_too() {
    let Some(mut world) = limited_world("iw", "egress_rate = \"50Mbps\"", take_all_names) else { return };
    is_on_loopback(&world);
    world.transfer("10.7.2.2:9000", 3_000_000, |world| {
        holds(world, "lxc0", "egress", 50e6);
        let now = limit(world, "lxc0", "egress");
        assert_eq!((&now["dropped_segments"], &now["unread_segments"]), (&0.into(), &0.into()), "{now}");
    });
    // What is for the host comes from the port, and from there only.
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.9.0.1/32 dev lxc0"));
    ip(&format!("-n {host} route add 10.7.1.2/32 dev lxc0"));
    ip(&format!("-n {} route add 10.9.0.1/32 dev eth0", world.guest(0)));
    assert!(world.ping("10.9.0.1", 2));
    assert!(world.stop(0).status.success());
    is_off_loopback(&world);
}

#[test]
fn where_others_have_an_fq_on_our_devices_departure_times_hold_a_guest() {
    let Some(mut world) = World::new("if") else { return };
    let host = world.host(0);
    if !world.exec(&host, "tc qdisc add dev lo root fq").status.success() {
        return println!("skipped, departure times on another's fq: this kernel has no fq");
    }
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    for n in 0..PAIRS {
        let (first, second) = (2 * n, 2 * n + 1);
        ip(&format!("-n {host} link add svlimit{first} type veth peer name svlimit{second}"));
        assert!(world.exec(&host, &format!("tc qdisc add dev svlimit{first} root handle 7: fq")).status.success());
    }
    configure(&world, PORT);
    let agent = world.start(0, &[]);
    let problems = world.ask(0, &["status"])["problems"].to_string();
    assert!(problems.contains("departure times hold them"), "{problems}");
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit0");
    is_held(&world, "departure");
    assert!(world.ping("10.7.0.1", 2));
    assert!(world.end(agent, "TERM"));
}
