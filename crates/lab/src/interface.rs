//! The interface of a host: a TAP device, addresses, neighbours, and what Linux has a setting for of the modelled TCP.

use super::address::{address, guest_address};
use super::error::LabError;
use super::frame::mac;
use super::namespace::HostNamespace;
use super::setup::Setup;
use host::experiment::HostConfig;
use host::tcp::cc::Algorithm;
use host::tcp::{EcnMode, Recovery};
use port::{Offload, Tap};
use std::fmt::Write;
use topology::HostId;
use units::{BitRate, Time};

/// The interface of every host.
pub const INTERFACE: &str = "eth0";

/// Makes and configures a host's interface.
pub(super) fn attach(
    namespace: &HostNamespace,
    setup: &Setup,
    host: HostId,
    notes: &mut Vec<String>,
) -> Result<Tap, LabError> {
    let offload = if setup.hosts.tso { Offload::Segmentation } else { Offload::Checksum };
    let tap = namespace.enter(|| Tap::open(INTERFACE, offload)).map_err(|e| match e.raw_os_error() {
        Some(nix::libc::EPERM) => LabError::Privilege,
        _ => LabError::Tun(e),
    })?;
    let mut missing = Vec::new();
    let settings = settings(&setup.hosts);
    namespace
        .enter(|| {
            for (key, value) in &settings {
                if let Err(error) = std::fs::write(format!("/proc/sys/net/{key}"), value) {
                    missing.push((*key, value.clone(), error));
                }
            }
            Ok(())
        })
        .map_err(|source| LabError::System { what: "a host's settings", source })?;
    for (key, value, error) in missing {
        if host == 0 {
            notes.push(format!("hosts run without {} = {value}: {error}", key.replace('/', ".")));
        }
    }
    namespace.batch("ip", &interface(setup, host))?;
    Ok(tap)
}

/// Commands of `ip` for one host. Every other host is a static neighbour, so nobody asks for addresses.
fn interface(setup: &Setup, host: HostId) -> String {
    let text = |m: [u8; 6]| m.map(|b| format!("{b:02x}")).join(":");
    let mut lines = format!(
        "link set lo up\nlink set {INTERFACE} address {} mtu {} addrgenmode none\nlink set {INTERFACE} up\n",
        text(mac(host)),
        setup.hosts.mtu
    );
    // Writing to a string cannot fail.
    let _ = writeln!(lines, "addr add {}/8 dev {INTERFACE} noprefixroute", address(host));
    let tcp = &setup.hosts.tcp;
    let _ = writeln!(
        lines,
        "route add 10.0.0.0/8 dev {INTERFACE} src {} rto_min {}ms initcwnd {}{}{}{}",
        address(host),
        tcp.rto_min.as_ms_f64().max(1.0).round(),
        tcp.initial_cwnd,
        match tcp.cwnd_clamp {
            u64::MAX => String::new(),
            clamp => format!(" cwnd lock {}", (clamp / u64::from(setup.hosts.mss()).max(1)).clamp(1, 1 << 20)),
        },
        if tcp.delayed_ack == Time::ZERO { " quickack 1" } else { "" },
        // A namespace may not make most of them its default, but a route may.
        setup.congestion.as_ref().map(|law| format!(" congctl {law}")).unwrap_or_default()
    );
    if setup.hosts.tso {
        let _ = writeln!(lines, "link set {INTERFACE} gso_max_size {}", tcp.tso_max.clamp(2048, 65_536));
    }
    for guest in &setup.guests {
        let _ = writeln!(lines, "addr add {}/32 dev {INTERFACE}", guest_address(host, *guest));
    }
    for peer in setup.topology.hosts().filter(|&peer| peer != host) {
        for guest in setup.guests() {
            let (address, mac) = (guest_address(peer, guest), text(mac(peer)));
            let _ = writeln!(lines, "neigh replace {address} lladdr {mac} dev {INTERFACE} nud permanent");
        }
    }
    lines
}

/// Commands of `tc`: a class that sends 1% slower than the link, so that queues form here, where TCP's small queues see
/// them, and what bunches up because the lab read it late drains. The model counts 38 octets around each IP packet, the
/// kernel 14 in front of it.
pub(super) fn shaper(rate: BitRate, mtu: u16) -> String {
    format!("qdisc add dev {INTERFACE} root handle 1: htb default 1\n{}", class("add", rate, mtu))
}

pub(super) fn class(verb: &str, rate: BitRate, mtu: u16) -> String {
    let mtu = u64::from(mtu);
    let shown = u128::from(rate.as_bps()) * u128::from(mtu + 14) / u128::from(mtu + 38) * 99 / 100;
    let burst = mtu + 14 + rate.bytes_in(Time::from_us(100));
    format!(
        "class {verb} dev {INTERFACE} parent 1: classid 1:1 htb rate {shown}bit burst {burst}b cburst {burst}b quantum 65000\n"
    )
}

/// What of the modelled TCP's configuration Linux has a setting for, under /proc/sys/net.
fn settings(hosts: &HostConfig) -> Vec<(&'static str, String)> {
    let tcp = &hosts.tcp;
    let flag = |on: bool| u8::from(on).to_string();
    let ecn = match tcp.ecn {
        EcnMode::Off => "0",
        EcnMode::Request => "1",
        EcnMode::Accept if tcp.congestion == Algorithm::Dctcp => "1",
        EcnMode::Accept => "2",
    };
    let mut settings = vec![
        ("ipv6/conf/all/disable_ipv6", flag(true)),
        ("ipv4/tcp_ecn", ecn.to_owned()),
        ("ipv4/tcp_timestamps", flag(tcp.timestamps)),
        ("ipv4/tcp_sack", flag(tcp.recovery != Recovery::NewReno)),
        // From Linux 6.17 on without effect.
        ("ipv4/tcp_recovery", flag(tcp.recovery == Recovery::Rack)),
        // Tail loss probes are part of RACK's RFC, but a switch of their own in Linux.
        (
            "ipv4/tcp_early_retrans",
            if tcp.recovery == Recovery::Rack && tcp.tail_loss_probe { "3" } else { "0" }.to_owned(),
        ),
        ("ipv4/tcp_reordering", tcp.reordering.to_string()),
        ("ipv4/tcp_max_reordering", tcp.max_reordering.to_string()),
        ("ipv4/tcp_slow_start_after_idle", flag(tcp.slow_start_after_idle)),
        ("ipv4/tcp_no_metrics_save", flag(true)),
        // Room for the window that the modelled receiver offers; half of it is for bookkeeping.
        ("ipv4/tcp_rmem", format!("4096 131072 {}", tcp.rcvbuf.saturating_mul(2).clamp(131_072, 1 << 30))),
        ("ipv4/tcp_wmem", format!("4096 65536 {}", tcp.rcvbuf.saturating_mul(2).clamp(131_072, 1 << 30))),
    ];
    // Linux 6.15 has it; before, and by default, it is 120 s.
    if tcp.rto_max != host::tcp::Config::default().rto_max {
        let ms = tcp.rto_max.as_ms_f64().round().clamp(1_000.0, 120_000.0);
        settings.push(("ipv4/tcp_rto_max_ms", ms.to_string()));
    }
    settings
}
