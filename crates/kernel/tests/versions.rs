//! From one version of the pinned state to another, and from one size of the flow table to another, while traffic flows.
//! Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use fabric::{fill, in_namespace, Fabric, HostEdge};
use kernel::state::{Config, VERSION_1};
use kernel::{Adopted, KernelEdge, Options, Role};
use std::time::Duration;

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

fn config() -> Config {
    Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), ..Config::default() }
}

/// What an agent does that finds maps that it cannot use: makes new ones, fills them, switches, removes the old ones.
fn replace(host: &HostEdge, i: usize, options: &Options) -> KernelEdge {
    let edge = KernelEdge::open(options).unwrap();
    assert_eq!(edge.adopted(), Adopted::New);
    let old = edge.other_versions();
    assert_eq!(old.len(), 1, "{old:?}");
    fill(&edge, i, (host.port, host.uplink), &config(), &LABELS, VERSION_1, false);
    edge.attach(host.port, Role::Guest).unwrap();
    edge.attach(host.uplink, Role::Uplink).unwrap();
    edge.remove_other_versions().unwrap();
    assert!(edge.other_versions().is_empty() && !old[0].exists());
    edge
}

/// Replaces the edges of both hosts in the middle of a transfer, by what `options` makes of the present ones.
fn switch(name: &str, options: impl Fn(Options) -> Options + Sync) {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new(name);
    fabric.add_edges(&config(), &LABELS);
    let scratch = tempfile::tempdir().unwrap();
    let until = scratch.path().join("until");
    let mut server = fabric.spawn(&fabric.guest(1), "tcp-server 10.7.0.2:9000 0");
    let mut client = fabric.command(&fabric.guest(0), "tcp-client 10.7.0.2:9000 200000000");
    let mut client = client.env("SELVEDGE_TEST_UNTIL", &until).spawn().expect("the test runs itself");
    std::thread::sleep(Duration::from_millis(150));
    for i in 0..2 {
        let old = &fabric.edges[i];
        let before = Options { pins: old.pins(), max_flows: 1024, ..Options::default() };
        let options = options(before);
        let new = in_namespace(&fabric.host(i), || replace(old, i, &options));
        let again = in_namespace(&fabric.host(i), || KernelEdge::open(&options).unwrap());
        assert_eq!((again.adopted(), again.maps()), (Adopted::Existing, new.maps()), "the next start finds them");
        assert!(again.other_versions().is_empty());
        fabric.edges[i].edge = new;
    }
    // The new edges see some of it, however long it took to load them.
    let seen = |host: &HostEdge| host.edge.flows().unwrap().iter().any(|(_, slot)| slot.out_segments > 10);
    let tracked = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        fabric.edges.iter().all(seen)
    });
    std::fs::write(&until, "").unwrap();
    let ended = client.wait().unwrap().success() && server.wait().unwrap().success();
    assert!(tracked, "tracked from scratch");
    assert!(ended, "no connection was lost");
    for host in &fabric.edges {
        assert_eq!(host.edge.attachments().len(), 2);
    }
}

#[test]
fn state_of_another_version_is_replaced_without_losing_a_connection() {
    switch("va", |options| Options { version: Some(kernel::state_version() + 1), ..options });
}

#[test]
fn a_flow_table_of_another_size_replaces_the_old_one_without_losing_a_connection() {
    switch("vb", |options| Options { max_flows: 4096, ..options });
}

#[test]
fn a_size_may_change_forth_and_back() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("vc");
    fabric.add_edge(0, &config(), &LABELS, VERSION_1, false, 1024);
    let host = &fabric.edges[0];
    in_namespace(&fabric.host(0), || {
        for max_flows in [2048, 1024, 512, 512] {
            let edge = KernelEdge::open(&Options { pins: host.pins(), max_flows, ..Options::default() }).unwrap();
            edge.remove_other_versions().unwrap();
            assert!(edge.other_versions().is_empty() && edge.maps().join("flows").exists());
        }
    });
}

#[test]
fn what_the_kernel_refuses_leaves_nothing() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/svr{}", std::process::id()));
    std::fs::create_dir(&pins).unwrap();
    let refused = KernelEdge::open(&Options { pins: pins.clone(), max_flows: u32::MAX, ..Options::default() });
    assert!(refused.is_err());
    std::fs::remove_dir(&pins).expect("it is empty");
}
