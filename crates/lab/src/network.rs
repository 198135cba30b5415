//! A lab from its beginning to its end: namespaces, interfaces, the driver's thread.

use super::clock::Clock;
use super::driver::{uplink, Driver, Job, Parts};
use super::frame::mac;
use super::host::Host;
use super::limit::Queues;
use super::namespace::HostNamespace;
use edge::hidden::Peers;
use edge::Edge;
use fabric::{Fabric, Multipath, RandomLoss, SwitchConfig};
use host::experiment::{edge_address, EdgeConfig, Experiment, HostConfig};
use host::tcp::cc::Algorithm;
use host::tcp::{EcnMode, Recovery};
use port::priority::{prefer_this_thread, Rank};
use port::{Offload, Pool, Port, Tap};
use sim::{Purpose, Stream};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use topology::{HostId, LinkId, Topology};
use units::{BitRate, Time};

/// Why there is no lab. One line each, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("a lab needs the right to make network namespaces and TAP devices: run as root, or within `unshare -Urn`")]
    Privilege,
    #[error("/dev/net/tun: {0}; load the module tun, or pass the device into the container")]
    Tun(io::Error),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("cannot run {program}: {source}; install iproute2")]
    Run { program: &'static str, source: io::Error },
    #[error("{program} cannot set up a host's interface: {message}")]
    Configure { program: &'static str, message: String },
    #[error("{0} hosts are too many for a lab; at most {MAX_HOSTS} fit")]
    TooManyHosts(usize),
    #[error("this kernel has no congestion control {0}; choose one of: {1}")]
    Congestion(String, String),
    #[error("the lab's thread has ended")]
    Ended,
}

/// More would not keep up on any machine, and every host knows every other by a static neighbour entry.
pub const MAX_HOSTS: usize = 256;

/// What a lab is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub topology: Topology,
    pub switches: SwitchConfig,
    pub multipath: Multipath,
    pub loss: RandomLoss,
    pub reroute_after: Time,
    /// MTU, offloads and the receiving side of the NIC; of `tcp` what Linux has a setting for.
    pub hosts: HostConfig,
    pub edge: EdgeConfig,
    /// Numbers of the guests that each host has besides the one of its own address: see [`guest_address`].
    pub guests: Vec<u8>,
    pub seed: u64,
    /// Frames that may be under way at once.
    pub frames: u32,
    /// How long before an event the loop stops sleeping and watches the clock; `None` lets the lab measure how late
    /// this machine wakes up.
    pub spin: Option<Time>,
    /// The congestion control of connections that ask for nothing else, as this kernel knows it: see [`congestion`]. It
    /// even overrules what a socket asked for before it connected.
    pub congestion: Option<String>,
    /// The first queue of a host is its own kernel's, paced to the link: without it, a sender would never feel its own NIC
    /// (a TAP device drops what it cannot hold and tells TCP nothing).
    pub shape: bool,
}

impl From<&Experiment> for Setup {
    fn from(e: &Experiment) -> Setup {
        let guests: BTreeSet<u8> =
            e.workloads.iter().map(|workload| workload.guest).filter(|&guest| guest > 0).collect();
        Setup {
            topology: e.topology.clone(),
            switches: e.switches.clone(),
            multipath: e.multipath,
            loss: e.loss,
            reroute_after: e.reroute_after,
            hosts: e.hosts.clone(),
            edge: e.edge.clone(),
            guests: guests.into_iter().collect(),
            seed: e.seed,
            frames: 16_384,
            spin: None,
            congestion: Some(congestion(e.hosts.tcp.congestion).to_owned()),
            shape: true,
        }
    }
}

/// The address of a host: 10.0.0.1 onwards, as in the simulator.
pub fn address(host: HostId) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

/// The address of one of a host's guests, as in the simulator; guest 0 has the host's own.
pub fn guest_address(host: HostId, guest: u8) -> Ipv4Addr {
    Ipv4Addr::from(host::experiment::guest_address(host, guest)[3])
}

impl Setup {
    /// All guests of a host.
    fn guests(&self) -> impl Iterator<Item = u8> + '_ {
        std::iter::once(0).chain(self.guests.iter().copied())
    }
}

pub(super) fn address_text(words: &[u32; 4]) -> String {
    match *words {
        [0, 0, 0xffff, v4] => Ipv4Addr::from(v4).to_string(),
        [a, b, c, d] => {
            let bits = u128::from(a) << 96 | u128::from(b) << 64 | u128::from(c) << 32 | u128::from(d);
            std::net::Ipv6Addr::from(bits).to_string()
        }
    }
}

/// The interface of every host.
pub const INTERFACE: &str = "eth0";

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
        let labels: Vec<u16> = (1..=topology.trees(&[]).len() as u16).collect();
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
                seed: Stream::new(setup.seed, u64::from(host), Purpose::Edge).next_u64(),
                ..edge::Config::default()
            });
            edge.set_default_schedule(&labels);
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

/// Makes and configures a host's interface.
fn attach(namespace: &HostNamespace, setup: &Setup, host: HostId, notes: &mut Vec<String>) -> Result<Tap, LabError> {
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
fn shaper(rate: BitRate, mtu: u16) -> String {
    format!("qdisc add dev {INTERFACE} root handle 1: htb default 1\n{}", class("add", rate, mtu))
}

fn class(verb: &str, rate: BitRate, mtu: u16) -> String {
    let mtu = u64::from(mtu);
    let shown = u128::from(rate.as_bps()) * u128::from(mtu + 14) / u128::from(mtu + 38) * 99 / 100;
    let burst = mtu + 14 + rate.bytes_in(Time::from_us(100));
    format!(
        "class {verb} dev {INTERFACE} parent 1: classid 1:1 htb rate {shown}bit burst {burst}b cburst {burst}b quantum 65000\n"
    )
}

/// Linux's name of a congestion control. A DCTCP that is registered with the kernel for the occasion has a name of its own.
pub fn congestion(law: Algorithm) -> &'static str {
    match law {
        // Coupled laws of a single connection are NewReno.
        Algorithm::NewReno | Algorithm::Lia | Algorithm::Olia => "reno",
        Algorithm::Cubic => "cubic",
        Algorithm::Dctcp => "dctcp",
        Algorithm::Vegas => "vegas",
        Algorithm::Illinois => "illinois",
        Algorithm::HighSpeed => "highspeed",
        Algorithm::Bbr => "bbr",
    }
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

/// The shortest round trip without load between two hosts: propagation, one full packet there, one small one back, and
/// the wait of both for their poll.
pub fn idle_rtt(setup: &Setup, src: HostId, dst: HostId) -> Option<Time> {
    let topology = &setup.topology;
    let path = topology.routes(&[]).first_path(topology, src, dst)?;
    let full = u64::from(setup.hosts.mtu) + 38;
    let one_way = path.iter().fold(Time::ZERO, |sum, &l| {
        let link = topology.links[l as usize];
        sum + link.delay * 2 + link.rate.tx_time(full) + link.rate.tx_time(90)
    });
    Some(one_way + setup.hosts.rx_coalesce * 2)
}

/// The smallest of all pairs: between neighbours, if any two hosts share a switch.
pub fn smallest_rtt(setup: &Setup) -> Time {
    let topology = &setup.topology;
    let one = topology.leaves().first().and_then(|&leaf| topology.hosts_of(leaf).next());
    let all = one.map(|_| topology.hosts()).into_iter().flatten();
    // Hosts of one leaf are alike but for their own link, so one partner per host is enough.
    let near = |src: HostId| {
        let beside = topology.hosts_of(topology.leaf_of(src)).find(|&h| h != src);
        let pairs = match beside {
            Some(dst) => vec![dst],
            None => topology.hosts().filter(|&h| h != src).collect(),
        };
        pairs.into_iter().filter_map(|dst| idle_rtt(setup, src, dst)).min()
    };
    all.filter_map(near).min().unwrap_or(Time::ZERO)
}

/// Watching the clock costs a core that the hosts could use, so the loop does it only where waking up late would
/// matter: where it would be more than a fortieth of the round trip.
fn spin_for(rtt: Time) -> Time {
    let late = wake_up_lateness();
    if late > rtt / 40 {
        late.min(Time::from_ms(1))
    } else {
        Time::ZERO
    }
}

/// How late this machine wakes a sleeper that is preferred as the lab is, at the ninth of ten tries.
fn wake_up_lateness() -> Time {
    // On a thread of its own, as the caller's is not to be preferred.
    std::thread::spawn(measure_wake_up).join().unwrap_or_default()
}

fn measure_wake_up() -> Time {
    const TRIES: usize = 40;
    prefer_this_thread(Rank::Fabric);
    let clock = Clock::start();
    let Ok(mut poller) = super::poller::Poller::new(1) else { return Time::ZERO };
    let mut late: Vec<Time> = (0..TRIES)
        .map(|_| {
            let due = clock.now() + Time::from_us(200);
            // Without a descriptor it can only end in time.
            let _ = poller.wait(Time::from_us(200), &mut Vec::new());
            clock.now().saturating_sub(due)
        })
        .collect();
    late.sort_unstable();
    late[TRIES * 9 / 10]
}
