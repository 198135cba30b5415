//! A spine that keeps packets for a while: with netem, or where the kernel has none, through a TAP device of this process.

use crate::delayed::Delayed;
use crate::rig::{ok, Rig};
use port::priority::{prefer_this_thread, Rank};
use port::{Offload, Tap};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends with its owner, and then the spine forwards at once again.
pub(crate) struct Slow<'a> {
    rig: &'a Rig,
    stop: Arc<AtomicBool>,
    /// `None`: netem does it.
    thread: Option<JoinHandle<()>>,
}

/// Of spine 2 to leaf 2, in the smallest fabric with two links.
const DEVICES: [&str; 2] = ["l2-1", "l2-2"];

impl Slow<'_> {
    /// What spine 2 forwards to leaf 2 from now on takes `delay` longer.
    pub(crate) fn spine2(rig: &Rig, delay: Duration) -> Slow<'_> {
        let stop = Arc::new(AtomicBool::new(false));
        if netem(rig, "add", delay) {
            return Slow { rig, stop, thread: None };
        }
        let tap = rig.namespace("spine2").run(|| Tap::open("slow0", Offload::Off)).unwrap().unwrap();
        let mac = tap.mac().map(|byte| format!("{byte:02x}")).join(":");
        let ip =
            |arguments: &str| ok(rig.spawn("spine2", "ip", &arguments.split_whitespace().collect::<Vec<_>>()).output());
        ip("addr add 169.254.77.1/30 dev slow0");
        ip("link set slow0 up");
        // Frames come back with the device's own address as destination: they are the spine's to forward, now for good.
        ip(&format!("neigh add 169.254.77.2 lladdr {mac} dev slow0 nud permanent"));
        let hops: String =
            ip("route show 10.2.0.0/16").split_whitespace().skip(1).map(|word| format!(" {word}")).collect();
        ip(&format!("route add 10.2.0.0/16 table 100{}", hops.replace(" proto static", "")));
        ip("rule add iif slow0 lookup 100");
        ip("route add 10.2.0.0/17 via 169.254.77.2 dev slow0");
        let until = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || keep(tap, delay, &until)));
        Slow { rig, stop, thread }
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            // What waits leaves first.
            netem(self.rig, "change", Duration::ZERO);
            std::thread::sleep(Duration::from_millis(50));
            for device in DEVICES {
                let _ = self.rig.spawn("spine2", "tc", &["qdisc", "del", "dev", device, "root"]).output();
            }
            return;
        };
        // Routes first, so that nothing is lost.
        let gone = self.rig.spawn("spine2", "ip", &["route", "del", "10.2.0.0/17"]).output();
        std::thread::sleep(Duration::from_millis(50));
        self.stop.store(true, SeqCst);
        let _ = thread.join();
        if !std::thread::panicking() {
            ok(gone);
            self.rig.run("spine2", "ip rule del iif slow0 lookup 100");
            self.rig.run("spine2", "ip route flush table 100");
        }
    }
}

/// False if the kernel has no netem.
fn netem(rig: &Rig, verb: &str, delay: Duration) -> bool {
    let delay = format!("{}us", delay.as_micros());
    let set = |device| {
        let words = ["qdisc", verb, "dev", device, "root", "netem", "delay", &delay, "limit", "10000"];
        rig.spawn("spine2", "tc", &words).output().status.success()
    };
    DEVICES.into_iter().all(set)
}

fn keep(mut tap: Tap, delay: Duration, stop: &AtomicBool) {
    prefer_this_thread(Rank::Fabric);
    let mut frames = Delayed::by(delay);
    while !stop.load(SeqCst) {
        frames.take(&mut tap);
        frames.give(&mut tap);
        std::thread::sleep(Duration::from_micros(100));
    }
}
