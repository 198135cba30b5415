//! A lab from its beginning to its end: namespaces, interfaces, the driver's thread.

use super::address::guest_address;
use super::clock::Clock;
use super::driver::{uplink, Driver, Job, Parts};
use super::error::LabError;
use super::host::Host;
use super::interface::{attach, class, shaper};
use super::limit::Queues;
use super::namespace::HostNamespace;
use super::setup::{Setup, MAX_HOSTS};
use super::timing::{smallest_rtt, spin_for};
use edge::hidden::Peers;
use edge::Edge;
use fabric::Fabric;
use host::experiment::edge_address;
use port::{Pool, Port};
use sim::{Purpose, Stream};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use topology::{LinkId, Topology};
use units::{BitRate, Time};

/// A running lab. Dropped, it is gone: the driver ends, TAP devices and namespaces with it.
pub struct Lab {
    namespaces: Vec<HostNamespace>,
    topology: Topology,
    jobs: mpsc::Sender<Job>,
    wake: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
    notes: Vec<String>,
    spin: Time,
    /// What [`class`] needs to know besides the rate, where hosts pace to their links.
    paced: Option<u16>,
}

impl Lab {
    /// Makes namespaces and interfaces, and sets the fabric going.
    ///
    /// # Errors
    /// Without the privileges, /dev/net/tun or `ip`; congestion controls that this kernel does not have.
    pub fn start(setup: &Setup) -> Result<Lab, LabError> {
        let topology = &setup.topology;
        if topology.n_hosts() > MAX_HOSTS {
            return Err(LabError::TooManyHosts(topology.n_hosts()));
        }
        if let Some(law) = &setup.congestion {
            is_available(law)?;
        }
        let mut notes = Vec::new();
        let mut paced = setup.shape.then_some(setup.hosts.mtu);
        let mut namespaces = Vec::new();
        let mut hosts = Vec::new();
        let labels: Vec<u16> = (1..=topology.base_trees().len() as u16).collect();
        let limiter = setup.edge.limiter.clone().map(Arc::new);
        let of = |host| setup.guests().map(move |guest| (u32::from(guest_address(host, guest)), edge_address(host)));
        let guests = topology.hosts().flat_map(of);
        let peers = setup.edge.hidden.then(|| Arc::new(Peers::new(guests)));
        for host in topology.hosts() {
            let namespace = HostNamespace::new().map_err(privilege)?;
            let tap = attach(&namespace, setup, host, &mut notes)?;
            let link = topology.links[topology.host_link(host) as usize];
            if let Some(mtu) = paced {
                if let Err(error) = namespace.batch("tc", &shaper(link.rate, mtu)) {
                    paced = None;
                    notes.push(format!("hosts do not pace to their link ({error}): senders fill their own queue"));
                }
            }
            let seed = Stream::new(setup.seed, u64::from(host), Purpose::Edge).next_u64();
            let limits = limiter.as_ref().filter(|limiter| limiter.has(host));
            let mut edge = Edge::new(edge::Config {
                balance: setup.edge.balance,
                reorder: setup.edge.reorder,
                congestion: setup.edge.congestion.clone(),
                fastlane: setup.edge.fastlane,
                hidden: peers.clone().map(|peers| edge::hidden::Config {
                    address: edge_address(host),
                    peers,
                    mtu: setup.hosts.mtu,
                }),
                hygenicc: setup.edge.tenants.as_ref().map(|tenants| tenants.of(host, link.rate)),
                limits: limits.map(|l| l.classes.iter().map(|c| c.law).collect()).unwrap_or_default(),
                seed,
                ..edge::Config::default()
            });
            edge.set_default_schedule(&host::ports::turned(&setup.edge.balance, seed, &labels));
            hosts.push(Host::new(Box::new(tap) as Box<dyn Port>, edge, Queues::new(limiter.as_ref(), host)));
            namespaces.push(namespace);
        }
        let mut fabric =
            Fabric::new(topology, &setup.switches, setup.multipath, setup.loss, setup.reroute_after, setup.seed);
        if hosts.iter().any(|host| host.edge.asks_for_utilisation()) {
            fabric.measure_utilisation();
        }
        if setup.edge.hidden {
            for (src, host) in topology.hosts().zip(&mut hosts) {
                for dst in topology.hosts().filter(|dst| *dst != src) {
                    let ports = host::ports::known(&mut fabric, src, dst, labels.len());
                    for guest in setup.guests() {
                        host.edge.set_schedule(host::experiment::guest_address(dst, guest), &ports);
                    }
                }
            }
        }
        if paced.is_some() {
            topology.hosts().for_each(|host| fabric.let_catch_up(uplink(host)));
        }
        let spin = setup.spin.unwrap_or_else(|| spin_for(smallest_rtt(setup)));
        let (jobs, receiver) = mpsc::channel();
        let system = |what| move |source| LabError::System { what, source };
        let (wake, woken) = UnixStream::pair().map_err(system("a socket pair"))?;
        let driver = Driver::new(Parts {
            clock: Clock::start(),
            fabric,
            hosts,
            config: setup.hosts.clone(),
            pool: Pool::new(setup.frames),
            jobs: receiver,
            wake: woken,
            spin,
        })
        .map_err(system("epoll"))?;
        let thread = std::thread::Builder::new()
            .name("lab".to_owned())
            .spawn(move || driver.run())
            .map_err(system("a thread"))?;
        Ok(Lab { namespaces, topology: topology.clone(), jobs, wake, thread: Some(thread), notes, spin, paced })
    }

    /// Lets the driver do something between two events and returns what came of it.
    ///
    /// # Errors
    /// If the driver has ended.
    pub fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Driver) -> T + Send + 'static) -> Result<T, LabError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |driver| {
            // Nobody waits for it any more: fine.
            let _ = reply.send(what(driver));
        });
        self.jobs.send(job).map_err(|_| LabError::Ended)?;
        // A full socket has enough bytes in it to wake the driver.
        let _ = (&self.wake).write(&[1]);
        answer.recv().map_err(|_| LabError::Ended)
    }

    /// Gives a link another rate, another delay, or both, from the next packet on; a host paces to its link's new rate.
    /// Rate and delay that the link has now.
    ///
    /// # Errors
    /// If the driver has ended, or a host cannot be told.
    pub fn set_wire(
        &self,
        link: LinkId,
        rate: Option<BitRate>,
        delay: Option<Time>,
    ) -> Result<(BitRate, Time), LabError> {
        let wire = self.ask(move |driver| driver.set_wire(link, rate, delay))?;
        let host = self.topology.hosts().find(|&host| self.topology.host_link(host) == link);
        if let (Some(rate), Some(host), Some(mtu)) = (rate, host, self.paced) {
            self.namespaces[host as usize].batch("tc", &class("change", rate, mtu))?;
        }
        Ok(wire)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }
    pub fn namespaces(&self) -> &[HostNamespace] {
        &self.namespaces
    }
    /// What is not as it was asked for, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
    /// How long before an event the driver stops sleeping.
    pub fn spin(&self) -> Time {
        self.spin
    }
    /// Has the driver ended by itself?
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.ask(Driver::stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn is_available(law: &str) -> Result<(), LabError> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if known.split_whitespace().any(|k| k == law) {
        return Ok(());
    }
    Err(LabError::Congestion(law.to_owned(), known.trim().to_owned()))
}

fn privilege(source: io::Error) -> LabError {
    match source.raw_os_error() {
        Some(nix::libc::EPERM | nix::libc::EACCES) => LabError::Privilege,
        _ => LabError::System { what: "a network namespace", source },
    }
}
