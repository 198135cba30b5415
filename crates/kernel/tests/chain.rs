//! Programs and filters of others on the same interfaces: what the edge lets pass, they see. Real traffic in network
//! namespaces; root only, says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use fabric::{in_namespace, Fabric};
use kernel::state::Config;
use kernel::{Attachment, KernelEdge, Options, Place, Role};
use std::path::PathBuf;
use std::process::Command;

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// Two hosts with edges; `None`, with the reason printed, where the tests cannot run.
fn fabric(name: &str, place: Place) -> Option<Fabric> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    let mut fabric = Fabric::new(name);
    fabric.options.place = place;
    fabric.add_edges(
        &Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), ..Config::default() },
        &LABELS,
    );
    // The host and its guest speak to one another past the overlay.
    fabric.exec_ok(&fabric.host(0), "ip addr add 10.9.0.1/24 dev g");
    fabric.exec_ok(&fabric.guest(0), "ip addr add 10.9.0.2/24 dev eth0");
    Some(fabric)
}

/// Somebody else's program, which drops all that it sees: the edge's own for devices without traffic, loaded a second time.
struct Dropper {
    edge: KernelEdge,
    pins: PathBuf,
}

impl Dropper {
    fn new(name: &str) -> Dropper {
        let pins = PathBuf::from(format!("/sys/fs/bpf/sv{}{name}drop", std::process::id()));
        let edge = KernelEdge::open(&Options { pins: pins.clone(), max_flows: 16, ..Options::default() }).unwrap();
        Dropper { edge, pins }
    }

    /// Behind what is there on tcx. Without that, as a filter of the given priority: ours have 2 and 24095. Returns what undoes it.
    fn attach(&self, host: &str, device: &str, priority: u16) -> Attached {
        let ifindex = in_namespace(host, || kernel::ifindex(device).unwrap());
        let by_tcx = in_namespace(host, || self.edge.attach_with(ifindex, Role::Nothing, Attachment::Tcx));
        if !matches!(&by_tcx, Err(kernel::Error::Io(_, _, e)) if e.raw_os_error() == Some(nix::libc::EINVAL)) {
            by_tcx.unwrap();
            return Attached::Tcx(ifindex);
        }
        // Loopback's filter pins the program.
        in_namespace(host, || self.edge.attach_with(1, Role::Nothing, Attachment::Clsact).unwrap());
        let program = self.pins.join("filters/nothing-1");
        let program = program.to_str().unwrap();
        // Not by `ip netns exec`, which hides the pins.
        let command = format!("filter add dev {device} ingress prio {priority} bpf da object-pinned {program}");
        let added = in_namespace(host, || Command::new("tc").args(command.split(' ')).status().unwrap());
        assert!(added.success(), "{command}");
        Attached::Filter(format!("tc filter del dev {device} ingress prio {priority}"))
    }

    fn detach(&self, fabric: &Fabric, host: &str, attached: Attached) {
        match attached {
            Attached::Tcx(ifindex) => in_namespace(host, || self.edge.detach(ifindex, Role::Nothing).unwrap()),
            Attached::Filter(undo) => fabric.exec_ok(host, &undo),
        }
    }
}

enum Attached {
    Tcx(u32),
    Filter(String),
}

fn has_tcx(fabric: &Fabric) -> bool {
    let (edge, uplink) = (&fabric.edges[0].edge, fabric.edges[0].uplink);
    let tried = in_namespace(&fabric.host(0), || edge.attach_with(uplink, Role::Uplink, Attachment::Tcx));
    !matches!(&tried, Err(kernel::Error::Io(_, _, e)) if e.raw_os_error() == Some(nix::libc::EINVAL))
}

impl Drop for Dropper {
    fn drop(&mut self) {
        for (ifindex, role) in self.edge.attachments() {
            let _ = self.edge.detach(ifindex, role);
        }
        let _ = kernel::remove_edge(&self.pins);
    }
}

fn pings(fabric: &Fabric, from: &str, to: &str) -> bool {
    fabric.exec(from, &["ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", to]).status.success()
}

#[test]
fn a_program_behind_the_edge_sees_what_the_edge_lets_pass() {
    let Some(fabric) = fabric("pb", Place::Last) else { return };
    let (guest, host) = (fabric.guest(0), fabric.host(0));
    let dropper = in_namespace(&host, || Dropper::new("pb"));
    for (device, from, to) in [("g", &guest, "10.9.0.1"), ("u0", &host, "192.168.99.2")] {
        assert!(pings(&fabric, from, to), "{to} is there");
        let attached = dropper.attach(&host, device, 40_000);
        assert!(!pings(&fabric, from, to), "{to}: the program behind ours never saw its packets");
        assert!(pings(&fabric, &guest, "10.7.0.2"), "what goes through the overlay ends with the edge");
        dropper.detach(&fabric, &host, attached);
        assert!(pings(&fabric, from, to), "{to} is there again");
    }
}

#[test]
fn filters_of_clsact_see_what_the_edge_lets_pass() {
    for (name, attachment, place) in [("cf", Attachment::Tcx, Place::Last), ("cg", Attachment::Clsact, Place::First)] {
        let Some(fabric) = fabric(name, place) else { return };
        let host = fabric.host(0);
        if attachment == Attachment::Tcx && !has_tcx(&fabric) {
            eprintln!(
                "skipped: this kernel has no tcx (Linux 6.6), so there is no program of ours in front of its filters"
            );
            continue;
        }
        let (edge, uplink) = (&fabric.edges[0].edge, fabric.edges[0].uplink);
        in_namespace(&host, || edge.attach_with(uplink, Role::Uplink, attachment).unwrap());
        assert!(pings(&fabric, &host, "192.168.99.2"));
        let dropper = in_namespace(&host, || Dropper::new(name));
        in_namespace(&host, || dropper.edge.attach_with(uplink, Role::Nothing, Attachment::Clsact).unwrap());
        assert!(!pings(&fabric, &host, "192.168.99.2"), "{attachment:?}: the filter was never asked");
        assert!(pings(&fabric, &fabric.guest(0), "10.7.0.2"), "{attachment:?}: what is the edge's goes on");
        in_namespace(&host, || dropper.edge.detach(uplink, Role::Nothing).unwrap());
    }
}

/// An interface takes its programs along, and its number may be another's afterwards.
#[test]
fn an_interface_that_ended_is_told_from_another_of_its_number() {
    const NUMBER: u32 = 7777;
    for (name, attachment) in [("ea", Attachment::Clsact), ("eb", Attachment::Tcx)] {
        let Some(fabric) = fabric(name, Place::Last) else { return };
        if attachment == Attachment::Tcx && !has_tcx(&fabric) {
            eprintln!("skipped: this kernel has no tcx (Linux 6.6)");
            continue;
        }
        let (host, edge) = (fabric.host(0), &fabric.edges[0].edge);
        let has_ended = || in_namespace(&host, || edge.has_ended(NUMBER, Role::Nothing));
        let attach = || in_namespace(&host, || edge.attach_with(NUMBER, Role::Nothing, attachment).unwrap());
        let add = || fabric.exec_ok(&host, &format!("ip link add e0 index {NUMBER} type veth peer name e1"));
        add();
        assert!(!has_ended(), "{attachment:?}: nothing was ever there");
        for _ in 0..2 {
            attach();
            assert!(!has_ended(), "{attachment:?}");
        }
        fabric.exec_ok(&host, "ip link del e0");
        add();
        assert!(has_ended(), "{attachment:?}: it is another one");
        attach();
        assert!(!has_ended(), "{attachment:?}");
        in_namespace(&host, || edge.detach(NUMBER, Role::Nothing).unwrap());
        assert!(!has_ended(), "{attachment:?}");
    }
}

/// Whoever stands in front can end the chain: the place decides.
#[test]
fn the_place_in_the_chain_is_what_is_configured() {
    for (name, place) in [("pf", Place::First), ("pl", Place::Last)] {
        if let Some(why) = fabric::unavailable() {
            eprintln!("skipped: {why}");
            return;
        }
        let mut fabric = Fabric::new(name);
        let host = fabric.host(0);
        let (dropper, port) = in_namespace(&host, || (Dropper::new(name), kernel::ifindex("g").unwrap()));
        fabric.exec(&host, &["tc", "qdisc", "add", "dev", "g", "clsact"]);
        dropper.attach(&host, "g", 100);
        fabric.options.place = place;
        fabric.add_edges(
            &Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), ..Config::default() },
            &LABELS,
        );
        assert_eq!(pings(&fabric, &fabric.guest(0), "10.7.0.2"), place == Place::First, "{place:?}");
        // Another agent moves the program, and what was in the old place goes.
        let other = if place == Place::First { Place::Last } else { Place::First };
        let pins = fabric.edges[0].pins();
        let moved = KernelEdge::open(&Options { pins, max_flows: 1024, place: other, ..Options::default() }).unwrap();
        in_namespace(&host, || moved.attach(port, Role::Guest).unwrap());
        assert_eq!(moved.attachments().iter().filter(|(at, _)| *at == port).count(), 1);
        assert_eq!(pings(&fabric, &fabric.guest(0), "10.7.0.2"), other == Place::First, "moved to {other:?}");
        fabric.edges[0].edge = moved;
    }
}
