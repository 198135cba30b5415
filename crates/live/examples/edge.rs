//! Puts the kernel edge on an interface pair, for bench/kernel/run:
//! `edge PINS GUEST_IF UPLINK LOCAL REMOTE INNER_LOCAL INNER_REMOTE`, in the host's namespace; `edge PINS` removes it.

#[cfg(feature = "kernel")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use live::kernel::{ifindex, Edge, Options, Role};
    use live::state::{
        Config, Peer, Port, Route, Tunnel, BALANCE_FLOWCELL, PORT_PEER, ROUTE_LOCAL, ROUTE_PEER, VERSION_1,
    };

    let args: Vec<String> = std::env::args().skip(1).collect();
    let pins = args.first().ok_or("no directory for the pins")?.into();
    let edge = Edge::open(&Options { pins, ..Options::default() })?;
    let [_, guest, uplink, local, remote, inner_local, inner_remote] = &args[..] else {
        return Ok(edge.destroy()?);
    };
    let (port, uplink) = (ifindex(guest)?, ifindex(uplink)?);
    let config = Config { balance: BALANCE_FLOWCELL, ..Config::default() };
    edge.set_config(&config)?;
    edge.set_port(port, &Port { vni: 7, flags: PORT_PEER, ..Port::default() })?;
    edge.set_schedule(1, &[50_001, 50_002, 50_003, 50_004])?;
    let tunnel = Tunnel::new(local.parse()?, remote.parse()?, config.udp_port, VERSION_1).ok_or("mixed families")?;
    edge.set_peer(1, &Peer { tunnel, ifindex: uplink, schedule: 1 })?;
    edge.set_route(7, inner_local.parse()?, 32, &Route { kind: ROUTE_LOCAL, target: port, ..Route::default() })?;
    edge.set_route(7, inner_remote.parse()?, 32, &Route { kind: ROUTE_PEER, target: 1, ..Route::default() })?;
    edge.attach(port, Role::Guest)?;
    edge.attach(uplink, Role::Uplink)?;
    live::gro::add("svgro", config.udp_port, false)?;
    Ok(())
}

#[cfg(not(feature = "kernel"))]
fn main() {
    eprintln!("built without the feature `kernel`");
}
