//! Limits of guests whose peers are far away: a path of 20 ms, made of two TAP devices and a thread that keeps frames.

use super::alone::configure;
use super::limits::holds;
use super::world::{ip, World};
use crate::delayed::Delayed;
use nix::sched::{setns, CloneFlags};
use port::{Offload, Tap};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const ONE_WAY: Duration = Duration::from_millis(10);

/// Carries frames between two namespaces until it is dropped.
struct Path {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Devices `far0` of these namespaces.
    fn between(namespaces: [String; 2]) -> Path {
        let taps = namespaces.map(|name| {
            let open = move || {
                setns(File::open(format!("/run/netns/{name}"))?, CloneFlags::CLONE_NEWNET)?;
                Tap::open("far0", Offload::Off)
            };
            std::thread::spawn(open).join().expect("it ends").expect("a TAP device")
        });
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        Path { stop, thread: Some(std::thread::spawn(move || carry(taps, &until))) }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn carry([mut near, mut far]: [Tap; 2], stop: &AtomicBool) {
    let [mut there, mut back] = [Delayed::by(ONE_WAY), Delayed::by(ONE_WAY)];
    while !stop.load(SeqCst) {
        there.take(&mut near);
        back.take(&mut far);
        there.give(&mut far);
        back.give(&mut near);
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// SPRING as printed never comes so far, nor would SPRING with sparse flows first if it did not count what a path holds.
#[test]
fn a_limit_is_filled_over_a_long_path() {
    let Some(mut world) = World::new("fa") else { return };
    let (host, guest, far) = (world.host(0), world.guest(0), world.guest(2));
    ip(&format!("netns add {far}"));
    let _path = Path::between([host.clone(), far.clone()]);
    for (namespace, address) in [(&host, "10.8.0.1"), (&far, "10.8.0.2")] {
        ip(&format!("-n {namespace} addr add {address}/24 dev far0"));
        ip(&format!("-n {namespace} link set far0 up"));
    }
    ip(&format!("-n {host} addr add 10.7.0.1/32 dev lxc0"));
    ip(&format!("-n {host} route add 10.7.1.2/32 dev lxc0"));
    ip(&format!("-n {guest} route add 10.8.0.0/24 via 10.7.0.1"));
    ip(&format!("-n {far} route add default via 10.8.0.1"));
    assert!(world.exec(&host, "sysctl -qw net.ipv4.ip_forward=1").status.success());
    for namespace in [&guest, &far] {
        assert!(world.exec(namespace, "sysctl -qw net.ipv4.tcp_congestion_control=reno").status.success());
    }
    configure(&world, "[[port]]\ninterface = \"lxc0\"\negress_rate = \"100Mbps\"\ningress_rate = \"60Mbps\"\n");
    let agent = world.start(0, &[]);
    assert!(world.exec(&guest, "ping -c 2 -i 0.2 -W 5 10.8.0.2").status.success());
    world.transfer_in("client", [&guest, &far], "10.8.0.2:9000", 10_000_000, |world| {
        holds(world, "lxc0", "egress", 100e6);
    });
    // What the guest receives: its ACKs have the long way to their sender.
    world.transfer_in("client", [&far, &guest], "10.7.1.2:9001", 10_000_000, |world| {
        holds(world, "lxc0", "ingress", 60e6);
    });
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}
