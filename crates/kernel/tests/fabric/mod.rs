//! Two hosts and their guests in network namespaces, joined by a veth pair; removed on drop.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod peer;

use kernel::state::{Config, Peer, Port, Route, Tunnel, PORT_PEER, ROUTE_LOCAL, ROUTE_PEER, VERSION_1};
use kernel::{Attachment, KernelEdge, Options, Role};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const VNI: u32 = 7;

/// Why the tests cannot run here, if so.
pub(crate) fn unavailable() -> Option<String> {
    static ANSWER: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ANSWER.get_or_init(find_obstacle).clone() // tests run side by side, and the probe has one name
}

/// Kernels with an order among programs, which FastLane needs.
pub(crate) const WITH_TCX: (u32, u32) = (6, 6);
/// Kernels that let a program be a congestion control that asks for ECN.
pub(crate) const WITH_DCTCP: (u32, u32) = (6, 10);

/// Why the running kernel is too old for this, if so.
pub(crate) fn older_than(since: (u32, u32), what: &str) -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version = agent_api::release::version_of(&release);
    version.is_some_and(|version| version < since).then(|| format!("{what} needs Linux {}.{}", since.0, since.1))
}

/// Says so if a program is not installed here; the test then has to end.
pub(crate) fn lacks(program: &str) -> bool {
    let there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    !there
}

fn find_obstacle() -> Option<String> {
    if let Err(why) = kernel::bpf::available() {
        return Some(why.to_string());
    }
    if !root() {
        return Some("needs root".into());
    }
    if !run_status("mountpoint", &["-q", "/sys/fs/bpf"]) && !run_status("mount", &["-t", "bpf", "bpf", "/sys/fs/bpf"]) {
        return Some("no bpffs can be mounted at /sys/fs/bpf".into());
    }
    let probe = format!("sv{}probe", std::process::id());
    let made = run_status("ip", &["netns", "add", &probe]);
    run_status("ip", &["netns", "del", &probe]);
    (!made).then(|| "network namespaces cannot be made here".into())
}

fn root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn run_status(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

pub(crate) fn ip(args: &str) {
    let output = Command::new("ip").args(args.split_whitespace()).output().expect("ip runs");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Host `i` (0 or 1) has uplink 192.168.99.<i+1>, its guest 10.7.0.<i+1>.
pub(crate) struct Fabric {
    tag: String,
    pub(crate) edges: Vec<HostEdge>,
    /// For the edges to come; `None`: as the kernel can.
    pub(crate) attachment: Option<Attachment>,
    /// For the edges to come; their pins and size are others.
    pub(crate) options: Options,
}

/// The edge of one host, in that host's namespace.
pub(crate) struct HostEdge {
    pub(crate) edge: KernelEdge,
    pub(crate) uplink: u32,
    pub(crate) port: u32,
    pins: PathBuf,
}

impl HostEdge {
    /// As a restarted agent does: the old edge is dropped, everything is opened and attached anew.
    pub(crate) fn reopen(self) -> HostEdge {
        drop(self.edge);
        let edge =
            KernelEdge::open(&Options { pins: self.pins.clone(), max_flows: 1024, ..Options::default() }).unwrap();
        edge.attach(self.port, Role::Guest).unwrap();
        edge.attach(self.uplink, Role::Uplink).unwrap();
        HostEdge { edge, ..self }
    }

    pub(crate) fn pins(&self) -> PathBuf {
        self.pins.clone()
    }
}

impl Fabric {
    /// Guests' neighbour entries are permanent, as if an agent had made them.
    pub(crate) fn new(name: &str) -> Fabric {
        // Tests of one process run beside one another, and may have the same name.
        static FABRICS: AtomicU32 = AtomicU32::new(0);
        let number = FABRICS.fetch_add(1, Ordering::Relaxed);
        let tag = format!("sv{}-{number}{name}", std::process::id() % 100_000);
        let fabric = Fabric { tag, edges: Vec::new(), attachment: None, options: Options::default() };
        for i in 0..2 {
            ip(&format!("netns add {}", fabric.host(i)));
            ip(&format!("netns add {}", fabric.guest(i)));
        }
        let [h0, h1] = [fabric.host(0), fabric.host(1)];
        ip(&format!("link add u0 netns {h0} type veth peer name u0 netns {h1}"));
        for i in 0..2 {
            let (h, g, n, other) = (fabric.host(i), fabric.guest(i), i + 1, 2 - i);
            ip(&format!("link add g netns {h} type veth peer name eth0 netns {g}"));
            ip(&format!("-n {h} addr add 192.168.99.{n}/24 dev u0"));
            ip(&format!("-n {h} addr add fd99::{n}/64 dev u0 nodad"));
            ip(&format!("-n {g} link set eth0 address 02:00:0a:07:00:0{n} mtu 1430"));
            ip(&format!("-n {g} addr add 10.7.0.{n}/24 dev eth0"));
            ip(&format!("-n {g} addr add fd07::{n}/64 dev eth0 nodad"));
            for (ns, dev) in [(&h, "u0"), (&h, "g"), (&h, "lo"), (&g, "eth0"), (&g, "lo")] {
                ip(&format!("-n {ns} link set {dev} up"));
            }
            for address in [format!("10.7.0.{other}"), format!("fd07::{other}")] {
                ip(&format!("-n {g} neigh add {address} lladdr 02:00:0a:07:00:0{other} dev eth0 nud permanent"));
            }
        }
        fabric
    }

    pub(crate) fn host(&self, i: usize) -> String {
        format!("{}h{i}", self.tag)
    }

    pub(crate) fn guest(&self, i: usize) -> String {
        format!("{}g{i}", self.tag)
    }

    /// Puts an edge on host `i`, towards the other host, over outer IPv4 or IPv6.
    pub(crate) fn add_edge(
        &mut self,
        i: usize,
        config: &Config,
        labels: &[u16],
        version: u8,
        outer_v6: bool,
        max_flows: u32,
    ) {
        let host = self.host(i);
        let pins = PathBuf::from(format!("/sys/fs/bpf/{}{i}", self.tag));
        let _ = std::fs::create_dir(&pins);
        let options = Options { pins: pins.clone(), max_flows, ..self.options.clone() };
        let attachment = self.attachment;
        let edge = in_namespace(&host, || {
            let edge = KernelEdge::open(&options).unwrap();
            let (uplink, port) = (kernel::ifindex("u0").unwrap(), kernel::ifindex("g").unwrap());
            fill(&edge, i, (port, uplink), config, labels, version, outer_v6);
            for (ifindex, role) in [(port, Role::Guest), (uplink, Role::Uplink)] {
                match attachment {
                    Some(attachment) => edge.attach_with(ifindex, role, attachment).unwrap(),
                    None => edge.attach(ifindex, role).unwrap(),
                };
            }
            HostEdge { edge, uplink, port, pins: pins.clone() }
        });
        self.edges.push(edge);
    }

    pub(crate) fn add_edges(&mut self, config: &Config, labels: &[u16]) {
        for i in 0..2 {
            self.add_edge(i, config, labels, VERSION_1, false, 1024);
        }
    }

    /// Guests forget one another's MAC addresses: from now on they ask.
    pub(crate) fn forget_neighbours(&self) {
        for i in 0..2 {
            let (g, other) = (self.guest(i), 2 - i);
            for address in [format!("10.7.0.{other}"), format!("fd07::{other}")] {
                ip(&format!("-n {g} neigh del {address} dev eth0"));
            }
        }
    }

    /// Runs a program in a namespace to its end.
    pub(crate) fn exec(&self, namespace: &str, command: &[&str]) -> Output {
        Command::new("ip").args(["netns", "exec", namespace]).args(command).output().expect("ip runs")
    }

    pub(crate) fn exec_ok(&self, namespace: &str, command: &str) {
        let output = self.exec(namespace, &command.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// This test binary again, as `role` (see [`peer::run`]), in a namespace.
    pub(crate) fn spawn(&self, namespace: &str, role: &str) -> Child {
        self.command(namespace, role).spawn().expect("the test runs itself")
    }

    /// As [`Fabric::spawn`], not yet started.
    pub(crate) fn command(&self, namespace: &str, role: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().expect("the test has a path"))
            .args(["--exact", "peer_process", "--nocapture"])
            .env("SELVEDGE_TEST_ROLE", role)
            .stdout(Stdio::piped());
        command
    }
}

/// What the agent of host `i` would write into new maps.
pub(crate) fn fill(
    edge: &KernelEdge,
    i: usize,
    (port, uplink): (u32, u32),
    config: &Config,
    labels: &[u16],
    version: u8,
    outer_v6: bool,
) {
    edge.set_config(config).unwrap();
    edge.set_port(port, &guest_port(i)).unwrap();
    let outer = |n: usize| -> IpAddr {
        let text = if outer_v6 { format!("fd99::{n}") } else { format!("192.168.99.{n}") };
        text.parse().unwrap()
    };
    let tunnel = Tunnel::new(outer(i + 1), outer(2 - i), config.udp_port, version).unwrap();
    edge.set_peer(1, &Peer::new(tunnel, uplink).with_labels(labels)).unwrap();
    for family in ["10.7.0.", "fd07::"] {
        let (me, other) = (format!("{family}{}", i + 1), format!("{family}{}", 2 - i));
        let local = Route { kind: ROUTE_LOCAL, target: port, ..Route::default() };
        let remote = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
        edge.set_route(VNI, me.parse().unwrap(), 128, &local).unwrap();
        edge.set_route(VNI, other.parse().unwrap(), 128, &remote).unwrap();
    }
}

/// The port of host `i`'s guest.
pub(crate) fn guest_port(i: usize) -> Port {
    Port { vni: VNI, flags: PORT_PEER, mac: guest_mac(i), ..Port::default() }
}

pub(crate) fn guest_mac(i: usize) -> [u8; 6] {
    [2, 0, 0x0a, 7, 0, i as u8 + 1]
}

/// A frame from host 1 to host 0, over IPv4, in version 1 without metadata.
pub(crate) fn encapsulated(inner: &[u8], vni: u32) -> Vec<u8> {
    let len = inner.len() as u16;
    let mut out = vec![0; 12];
    out.extend([8, 0, 0x45, 0]);
    out.extend((len + 36).to_be_bytes());
    out.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 168, 99, 2, 192, 168, 99, 1]);
    out.extend(50_001u16.to_be_bytes());
    out.extend(4789u16.to_be_bytes());
    out.extend((len + 16).to_be_bytes());
    out.extend([0, 0, 8, 0x10, 0, 0]);
    out.extend(&vni.to_be_bytes()[1..]);
    out.push(0);
    out.extend(inner);
    out
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for host in self.edges.drain(..) {
            let _ = host.edge.destroy();
            let _ = std::fs::remove_dir_all(&host.pins);
        }
        for i in 0..2 {
            run_status("ip", &["netns", "del", &self.guest(i)]);
            run_status("ip", &["netns", "del", &self.host(i)]);
        }
    }
}

/// Runs `f` on a thread of its own that has entered the namespace.
pub(crate) fn in_namespace<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = std::fs::File::open(format!("/run/netns/{name}")).expect("the namespace exists");
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter it");
            f()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
