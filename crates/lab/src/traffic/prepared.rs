//! The sockets that a host has before the run begins.

use super::{socket, HostHandle};
use nix::sched::{setns, CloneFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

/// Law and port of each listener of a host.
pub(super) type Listening = Vec<(String, u16)>;

/// Sockets of a host, made in its namespace.
pub(super) struct Prepared {
    pub(super) listeners: Vec<TcpListener>,
    /// All datagrams arrive here.
    pub(super) datagrams: Option<UdpSocket>,
    pub(super) probes: Option<TcpListener>,
    pub(super) wake: EventFd,
}

/// Sockets that a host needs.
pub(super) struct Needs {
    pub(super) listening: Listening,
    pub(super) datagrams: bool,
    pub(super) probes: bool,
    /// Besides the host's own address its guests' are to be reached.
    pub(super) guests: bool,
}

pub(super) fn enter(host: &HostHandle) -> io::Result<()> {
    Ok(setns(File::open(&host.namespace)?, CloneFlags::CLONE_NEWNET)?)
}

pub(super) fn prepare(host: &HostHandle, needs: &Needs) -> io::Result<Prepared> {
    enter(host)?;
    let any = match host.address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let address = if needs.guests { any } else { host.address };
    let listen = |(law, port): &(String, u16)| socket::listener(address, law, *port);
    let listeners = needs.listening.iter().map(listen).collect::<io::Result<_>>()?;
    let datagrams = needs.datagrams.then(|| socket::datagrams(address)).transpose()?;
    let probes = needs.probes.then(|| socket::listener(host.address, &needs.listening[0].0, 0)).transpose()?;
    let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
    Ok(Prepared { listeners, datagrams, probes, wake })
}
