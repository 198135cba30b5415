//! What holds a port's sending where our pair of devices or its HTB cannot.

use super::alone::configure;
use super::limits::{holds, limit};
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

#[test]
fn where_others_have_all_devices_a_guest_is_held_without_a_queue() {
    let Some(mut world) = World::new("io") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    // One pair by its second name.
    ip(&format!("-n {host} link add svlimit1 type veth peer name other0"));
    configure(&world, PORT);
    let agent = world.start(0, &[]);
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit2");
    assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
    for n in 2..PAIRS {
        ip(&format!("-n {host} link add svlimit{} type veth peer name other{n}", 2 * n));
    }
    // Our pair goes; its names are another's from then on.
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(world.has_interface(0, "svlimit1") && !world.has_interface(0, "svlimit2"));
    ip(&format!("-n {host} link add svlimit2 type veth peer name other1"));
    let agent = world.start(0, &[]);
    let problems = world.ask(0, &["status"])["problems"].to_string();
    let said = "egress limits have no queue of HTB: svlimit1 is another's device; rename or remove it; what exceeds them is dropped";
    assert!(problems.contains(said), "{problems}");
    is_held(&world, "virtual");
    assert!(world.ping("10.7.0.1", 2), "what was dropped was the flood's");
    // As soon as there is room, the queue is back.
    ip(&format!("-n {host} link del other3"));
    assert!(world.ctl(0, &["reload"]).status.success());
    assert_eq!(limit(&world, "lxc0", "egress")["device"], "svlimit6");
    assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
    is_held(&world, "htb");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(
        world.has_interface(0, "svlimit1")
            && world.has_interface(0, "svlimit14")
            && !world.has_interface(0, "svlimit6")
    );
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
