//! What the kernel edge's programs cost per segment, by BPF_PROG_TEST_RUN on a warm flow: ns, the median and the fastest
//! of many runs. Root; in a network namespace of its own. `program_cost [RUNS]`.

#[cfg(feature = "libbpf")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use edge::Balance;
    use kernel::state::{
        Config, Peer, Port, Route, Tunnel, CONFIG_CONGESTION, CONFIG_REORDER, PORT_PEER, ROUTE_LOCAL, ROUTE_PEER,
        VERSION_2,
    };
    use kernel::{ifindex, KernelEdge, Options, Role, Segment};
    use std::net::IpAddr;
    use wire::{proto, tcp, Packet, TcpOptions};

    let runs: usize = std::env::args().nth(1).map_or(Ok(20_000), |n| n.parse())?;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
    for pair in ["g0 type veth peer name e0", "g1 type veth peer name e1", "u0 type veth peer name u1"] {
        let made = std::process::Command::new("ip").args(["link", "add"]).args(pair.split(' ')).status()?;
        assert!(made.success(), "ip link add {pair}");
    }
    let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/svcost{}", std::process::id()));
    let edge = KernelEdge::open(&Options { pins, ..Options::default() })?;
    let (port, other, uplink) = (ifindex("g0")?, ifindex("g1")?, ifindex("u0")?);
    let outer: [IpAddr; 2] = ["192.168.99.1".parse()?, "192.168.99.2".parse()?];
    let tunnel = Tunnel::new(outer[0], outer[1], 4789, VERSION_2).ok_or("mixed families")?;
    edge.set_peer(1, &Peer::new(tunnel, uplink).with_labels(&[50_001, 50_002, 50_003, 50_004]))?;
    edge.keep_paths(&std::collections::BTreeMap::from([(1, edge.peer(1)?.ok_or("no peer")?.schedule)]))?;
    edge.set_congestion(&edge::vcc::Config::new(edge::vcc::Class::default()))?;
    for port in [port, other] {
        edge.set_port(port, &Port { vni: 7, flags: PORT_PEER, mac: [2, 0, 0, 0, 0, 1], ..Port::default() })?;
    }
    for (address, kind, target) in [
        ("10.7.0.1", ROUTE_LOCAL, port),
        ("10.7.0.3", ROUTE_LOCAL, other),
        ("10.7.0.2", ROUTE_PEER, 1),
        ("fd07::1", ROUTE_LOCAL, port),
        ("fd07::2", ROUTE_PEER, 1),
    ] {
        let address: IpAddr = address.parse()?;
        edge.set_route(7, address, 128, &Route { kind, target, ..Route::default() })?;
    }
    for i in 0..200u8 {
        edge.set_route(7, [10, 9, 0, i].into(), 32, &Route { kind: ROUTE_PEER, target: 1, ..Route::default() })?;
    }
    let segment = |from: &str, to: &str| -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let (from, to): (IpAddr, IpAddr) = (from.parse()?, to.parse()?);
        let packet = Packet {
            saddr: kernel::state::words(from),
            daddr: kernel::state::words(to),
            family: if from.is_ipv4() { 4 } else { 6 },
            proto: proto::TCP,
            sport: 5000,
            dport: 6000,
            tcp_flags: tcp::ACK,
            payload: 1000,
            ecn: 2,
            ..Packet::default()
        };
        Ok(wire::emit(&packet, &TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() })?)
    };
    // What a peer would send back: the outgoing frame's tunnel, with addresses exchanged.
    let encapsulated = |inner: &[u8]| {
        let mut encap = wire::encap::Encap::new(7, VERSION_2);
        encap.has_cell = 1;
        let (first, second) = encap.pack();
        let udp_len = (inner.len() + 16) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 2];
        frame.extend((udp_len + 20).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 168, 99, 2, 192, 168, 99, 1]);
        for half in [50_001, 4789, udp_len, 0] {
            frame.extend(half.to_be_bytes());
        }
        frame.extend(first.to_be_bytes());
        frame.extend(second.to_be_bytes());
        frame.extend(inner);
        frame
    };
    let cases = [
        ("to a peer, IPv4", Role::Guest, port, segment("10.7.0.1", "10.7.0.2")?),
        ("to a peer, IPv6", Role::Guest, port, segment("fd07::1", "fd07::2")?),
        ("to a guest here", Role::Guest, port, segment("10.7.0.1", "10.7.0.3")?),
        ("not routed", Role::Guest, port, segment("10.7.0.1", "10.8.0.3")?),
        ("from a peer, IPv4", Role::Uplink, uplink, encapsulated(&segment("10.7.0.2", "10.7.0.1")?)),
        ("from a peer, IPv6", Role::Uplink, uplink, encapsulated(&segment("fd07::2", "fd07::1")?)),
        ("not ours", Role::Uplink, uplink, segment("192.168.99.2", "192.168.99.1")?),
    ];
    println!("| Segment | flowcells: ns, median | fastest | by hash: median | fastest | flowlets: median | fastest | Clove: median | fastest | flowcells, AC/DC: median | fastest | flowcells, order followed: median | fastest | \
         verdict |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, role, ifindex, frame) in &cases {
        print!("| {name} ");
        let mut verdict = 0;
        let (flowcells, hash) = (Balance::flowcell(units::Bytes::kib(64)), Balance::ecmp());
        let flowlets = Balance::flowlet(units::Time::from_us(500));
        let clove: Balance = "clove".parse()?;
        for (balance, flags) in [
            (flowcells, 0),
            (hash, 0),
            (flowlets, 0),
            (clove, 0),
            (flowcells, CONFIG_CONGESTION),
            (flowcells, CONFIG_REORDER),
        ] {
            edge.set_config(&Config { balance: balance.conf(false), flags, ..Config::default() })?;
            let mut times = Vec::with_capacity(runs);
            for _ in 0..runs {
                let run = edge.test_run_timed(*role, frame, Segment { ifindex: *ifindex, ..Segment::default() })?;
                verdict = run.verdict;
                times.push(run.duration.as_nanos());
            }
            times.sort_unstable();
            print!("| {} | {} ", times[times.len() / 2], times[times.len() / 100]);
        }
        println!("| {} |", verdict as i32);
    }
    Ok(edge.destroy()?)
}

#[cfg(not(feature = "libbpf"))]
fn main() {
    eprintln!("built without the feature `kernel`");
}
