//! Two hosts with a guest each in network namespaces, and agents in them; all removed on drop.

use super::WAIT;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why the tests cannot run here, if so.
pub(crate) fn unavailable() -> Option<String> {
    static ANSWER: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ANSWER.get_or_init(find_obstacle).clone() // tests run side by side, and the probe has one name
}

fn find_obstacle() -> Option<String> {
    if let Err(why) = selvedge::kernel_edge::available() {
        return Some(why);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    if !root {
        return Some("needs root".into());
    }
    if let Some(why) = crate::bpffs::obstacle() {
        return Some(why);
    }
    let probe = format!("sva{}probe", std::process::id());
    let made = quietly("ip", &["netns", "add", &probe]);
    quietly("ip", &["netns", "del", &probe]);
    (!made).then(|| "network namespaces cannot be made here".into())
}

/// One of the doctor's findings.
pub(crate) fn finding<'a>(told: &'a serde_json::Value, list: &str, name: &str) -> &'a serde_json::Value {
    let found = told[list].as_array().unwrap().iter().find(|f| f["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {told}"))
}

fn quietly(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

pub(crate) fn ip(args: &str) {
    let output = Command::new("ip").args(args.split_whitespace()).output().expect("ip runs");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits up to a minute, and on a slow machine for as long as 600 looks take: half of the time is left to who is waited for.
#[allow(clippy::disallowed_methods, reason = "waits for the operating system")]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        let begun = Instant::now();
        if holds() {
            return;
        }
        std::thread::sleep(begun.elapsed().max(Duration::from_millis(50)));
    }
    panic!("never: {what}");
}

/// Host `i` (0 or 1) has uplink u0 with 192.168.99.<i+1>; its guest 10.7.<i+1>.2 and fd07:<i+1>::2 is behind lxc0.
pub(crate) struct World {
    tag: String,
    pub(crate) dir: tempfile::TempDir,
    agents: Vec<Child>,
}

/// Ends when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    /// `None`, with the reason printed, where the tests cannot run.
    pub(crate) fn new(name: &str) -> Option<World> {
        if let Some(why) = unavailable() {
            eprintln!("skipped: {why}");
            return None;
        }
        // Tests of one process run beside one another, and may have the same name.
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let tag = format!("sva{}-{number}{name}", std::process::id() % 100_000);
        let dir = tempfile::Builder::new().prefix(&tag).tempdir().unwrap();
        let world = World { tag, dir, agents: Vec::new() };
        for i in 0..2 {
            ip(&format!("netns add {}", world.host(i)));
            ip(&format!("netns add {}", world.guest(i)));
        }
        let [h0, h1] = [world.host(0), world.host(1)];
        ip(&format!("link add u0 netns {h0} type veth peer name u0 netns {h1}"));
        for i in 0..2 {
            let h = world.host(i);
            ip(&format!("-n {h} addr add 192.168.99.{}/24 dev u0", i + 1));
            ip(&format!("-n {h} link set u0 up"));
            ip(&format!("-n {h} link set lo up"));
            world.add_guest(i);
        }
        // The kernel takes note of carriers once in a second: until then an agent says that an uplink is down.
        for i in 0..2 {
            eventually("the uplink's carrier is noted", || {
                let told = Command::new("ip").args(["-n", &world.host(i), "-o", "link", "show", "u0"]).output();
                String::from_utf8_lossy(&told.expect("ip runs").stdout).contains(" state UP ")
            });
        }
        Some(world)
    }

    pub(crate) fn add_guest(&self, i: usize) {
        let (h, g, n) = (self.host(i), self.guest(i), i + 1);
        ip(&format!("link add lxc0 netns {h} type veth peer name eth0 netns {g}"));
        ip(&format!("-n {g} addr add 10.7.{n}.2/16 dev eth0"));
        ip(&format!("-n {g} addr add fd07:{n}::2/16 dev eth0 nodad"));
        ip(&format!("-n {g} link set lo up"));
        ip(&format!("-n {g} link set eth0 up"));
        ip(&format!("-n {h} link set lxc0 up"));
    }

    /// A second guest of host 0, number 2: 10.7.1.3 behind lxc2.
    pub(crate) fn add_neighbour(&self) {
        self.add_neighbour_as(2, "10.7.1.3");
    }

    /// Guest `i` of host 0, behind `lxc{i}`.
    pub(crate) fn add_neighbour_as(&self, i: usize, address: &str) {
        let (h, g) = (self.host(0), self.guest(i));
        ip(&format!("netns add {g}"));
        ip(&format!("link add lxc{i} netns {h} type veth peer name eth0 netns {g}"));
        ip(&format!("-n {g} addr add {address}/16 dev eth0"));
        ip(&format!("-n {g} link set lo up"));
        ip(&format!("-n {g} link set eth0 up"));
        ip(&format!("-n {h} link set lxc{i} up"));
    }

    /// A guest behind guest 0, which routes for it, number 3: 10.7.1.9. Its TCP does not know what waits in a limiter.
    pub(crate) fn add_routed(&self) {
        let (r, g) = (self.guest(0), self.guest(3));
        ip(&format!("netns add {g}"));
        ip(&format!("link add in0 netns {r} type veth peer name eth0 netns {g}"));
        ip(&format!("-n {g} addr add 10.7.1.9/32 dev eth0"));
        for (namespace, device) in [(&g, "lo"), (&g, "eth0"), (&r, "in0")] {
            ip(&format!("-n {namespace} link set {device} up"));
        }
        ip(&format!("-n {g} link set eth0 mtu 1450"));
        ip(&format!("-n {g} route add default dev eth0"));
        ip(&format!("-n {r} route add 10.7.1.9/32 dev in0"));
        for set in ["net.ipv4.ip_forward=1", "net.ipv4.conf.in0.proxy_arp=1"] {
            assert!(self.exec(&r, &format!("sysctl -qw {set}")).status.success());
        }
    }

    pub(crate) fn host(&self, i: usize) -> String {
        format!("{}h{i}", self.tag)
    }

    pub(crate) fn guest(&self, i: usize) -> String {
        format!("{}g{i}", self.tag)
    }

    pub(crate) fn pins(&self, i: usize) -> PathBuf {
        format!("/sys/fs/bpf/{}{i}", self.tag).into()
    }

    /// Of what a test itself attaches to host 0.
    #[cfg(feature = "kernel")]
    pub(crate) fn own_pin(&self) -> PathBuf {
        format!("/sys/fs/bpf/{}own", self.tag).into()
    }

    pub(crate) fn socket(&self, i: usize) -> PathBuf {
        self.dir.path().join(format!("{i}.sock"))
    }

    pub(crate) fn config(&self, i: usize) -> PathBuf {
        self.dir.path().join(format!("{i}.toml"))
    }

    pub(crate) fn log(&self, i: usize) -> String {
        fs::read_to_string(self.dir.path().join(format!("{i}.log"))).unwrap_or_default()
    }

    /// The configuration of host `i`: `port` is the text of its `[[port]]`, without the network.
    pub(crate) fn configure(&self, i: usize, port: &str) {
        let (n, other) = (i + 1, 2 - i);
        let text = format!(
            "[agent]\npins = {:?}\nsocket = {:?}\nmetrics = \"127.0.0.1:9464\"\nmax_flows = 1024\n\n\
             [uplink]\ninterface = \"u0\"\n\n[balance]\nlabels = [50001, 50002, 50003]\n\n\
             [[port]]\nnetwork = 7\n{port}\n\n\
             [[peer]]\nname = \"host{other}\"\naddress = \"192.168.99.{other}\"\n\
             guests = [{{ network = 7, prefix = \"10.7.{other}.0/24\" }}, {{ network = 7, prefix = \"fd07:{other}::/64\" }}]\n",
            self.pins(i),
            self.socket(i),
        );
        fs::write(self.config(i), text).unwrap_or_else(|e| panic!("host {n}: {e}"));
    }

    /// Both hosts' configurations become those of uplinks without a tunnel, and their fabric routes guests' addresses.
    #[cfg(feature = "kernel")]
    pub(crate) fn make_plain(&self) {
        for i in 0..2 {
            let (h, n, other) = (self.host(i), i + 1, 2 - i);
            ip(&format!("-n {h} addr add fd99::{n}/64 dev u0 nodad"));
            ip(&format!("-n {h} route add 10.7.{other}.0/24 via 192.168.99.{other}"));
            ip(&format!("-n {h} route add fd07:{other}::/64 via fd99::{other}"));
            let text = fs::read_to_string(self.config(i)).unwrap();
            let text = text.replace("interface = \"u0\"", "interface = \"u0\"\nmode = \"plain\"");
            let text =
                text.replace("[balance]\nlabels = [50001, 50002, 50003]\n", "").replace("network = 7", "network = 0");
            fs::write(self.config(i), text).unwrap();
        }
    }

    /// The usual configurations: host 0 names its port, host 1 learns.
    pub(crate) fn configure_both(&self) {
        self.configure(0, NAMED);
        self.configure(1, LEARNING);
    }

    /// `selvedge` with `args` in the namespace of host `i`, behind `before` (a program and its arguments).
    pub(crate) fn command(&self, i: usize, before: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.host(i))).args(before);
        command.arg(env!("CARGO_BIN_EXE_selvedge")).args(args);
        command
    }

    /// What `selvedge doctor` says of a feature.
    pub(crate) fn doctor(&self, i: usize, before: &[&str], feature: &str) -> String {
        let told = self.diagnose(i, before);
        finding(&told, "features", feature)["status"].as_str().unwrap().to_owned()
    }

    /// All that `selvedge doctor` says.
    pub(crate) fn diagnose(&self, i: usize, before: &[&str]) -> serde_json::Value {
        let output = self.command(i, before, &["doctor", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts an agent and waits until it answers. Its number among `agents`.
    pub(crate) fn start(&mut self, i: usize, before: &[&str]) -> usize {
        self.start_with(i, before, &[])
    }

    /// As [`World::start`], with more arguments.
    pub(crate) fn start_with(&mut self, i: usize, before: &[&str], more: &[&str]) -> usize {
        let at = self.launch(i, before, more);
        // Without hardware support the verifier takes minutes for the programs; nothing else is to run meanwhile.
        let listens = (0..6000).any(|_| {
            let ended = self.agents[at].try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended: {}", self.log(i));
            std::thread::sleep(Duration::from_millis(50));
            UnixStream::connect(self.socket(i)).is_ok()
        });
        assert!(listens, "the agent does not listen: {}", self.log(i));
        eventually("the agent answers", || self.ctl(i, &["status"]).status.success());
        at
    }

    /// The same, but nobody waits for it.
    pub(crate) fn launch(&mut self, i: usize, before: &[&str], more: &[&str]) -> usize {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join(format!("{i}.log"))).unwrap();
        let config = self.config(i);
        let mut command = self.command(i, before, &["agent", "run", "--config", config.to_str().unwrap()]);
        command.args(more);
        self.agents.push(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("nsenter runs"));
        self.agents.len() - 1
    }

    pub(crate) fn start_both(&mut self) -> [usize; 2] {
        [self.start(0, &[]), self.start(1, &[])]
    }

    /// Sends a signal and waits for the end. True if it ended as asked.
    pub(crate) fn end(&mut self, agent: usize, signal: &str) -> bool {
        let pid = self.agents[agent].id().to_string();
        assert!(quietly("kill", &["-s", signal, &pid]));
        self.agents[agent].wait().unwrap().success()
    }

    /// That it has ended, however.
    pub(crate) fn wait(&mut self, agent: usize) -> bool {
        self.agents[agent].wait().unwrap().success()
    }

    pub(crate) fn signal(&self, agent: usize, signal: &str) {
        assert!(quietly("kill", &["-s", signal, &self.agents[agent].id().to_string()]));
    }

    /// Waits as long as a test would: a busy machine's agent may take longer to answer than people wait.
    pub(crate) fn ctl(&self, i: usize, args: &[&str]) -> Output {
        let (socket, patience) = (self.socket(i), format!("{}s", WAIT.as_secs()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command
            .arg("ctl")
            .args(args)
            .args(["--timeout", &patience])
            .arg("--socket")
            .arg(socket)
            .output()
            .expect("selvedge runs")
    }

    pub(crate) fn ask(&self, i: usize, args: &[&str]) -> serde_json::Value {
        let mut all = args.to_vec();
        all.push("--json");
        let output = self.ctl(i, &all);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn counter(&self, i: usize, name: &str) -> u64 {
        let counters = self.ask(i, &["counters"]);
        let found = counters.as_array().unwrap().iter().find(|c| c["name"] == name).expect("a counter");
        found["value"].as_u64().unwrap()
    }

    pub(crate) fn stop(&self, i: usize) -> Output {
        let config = self.config(i);
        self.command(i, &[], &["agent", "stop", "--config", config.to_str().unwrap()]).output().unwrap()
    }

    pub(crate) fn exec(&self, namespace: &str, command: &str) -> Output {
        let words = command.split_whitespace();
        Command::new("ip").args(["netns", "exec", namespace]).args(words).output().expect("ip runs")
    }

    /// As [`World::exec`], for what must not fail.
    pub(crate) fn succeed(&self, namespace: &str, command: &str) {
        let output = self.exec(namespace, command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn ping(&self, to: &str, count: u32) -> bool {
        self.exec(&self.guest(0), &format!("ping -c {count} -i 0.1 -W 1 {to}")).status.success()
    }

    pub(crate) fn mtu(&self, namespace: &str, interface: &str) -> u32 {
        let output = self.exec(namespace, &format!("ip -o link show dev {interface}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.split_whitespace().skip_while(|w| *w != "mtu");
        words.nth(1).and_then(|w| w.parse().ok()).expect("an MTU")
    }

    pub(crate) fn has_interface(&self, i: usize, name: &str) -> bool {
        self.exec(&self.host(i), &format!("ip link show dev {name}")).status.success()
    }

    /// This test binary again, as `role` (see `peer_process`), in a namespace.
    pub(crate) fn spawn(&self, namespace: &str, role: &str) -> Child {
        self.role(namespace, role).spawn().expect("the test runs itself")
    }

    /// The same, to run until the file `until` is there.
    pub(crate) fn command_in(&self, namespace: &str, role: &str, until: &Path) -> Command {
        let mut command = self.role(namespace, role);
        command.env("SELVEDGE_TEST_UNTIL", until);
        command
    }

    fn role(&self, namespace: &str, role: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "peer_process", "--nocapture"])
            .env("SELVEDGE_TEST_ROLE", role)
            .stdout(Stdio::piped());
        command
    }

    /// Both guests send `bytes` at once, on one connection.
    pub(crate) fn exchange(&self, to: &str, bytes: u64) {
        self.exchange_as("both", to, bytes);
    }

    /// The same, in roles that begin with `role`.
    pub(crate) fn exchange_as(&self, role: &str, to: &str, bytes: u64) {
        let mut server = self.spawn(&self.guest(1), &format!("{role}-server {to} {bytes}"));
        let sent = self.spawn(&self.guest(0), &format!("{role}-client {to} {bytes}")).wait().unwrap().success();
        if !sent {
            let _ = server.kill();
        }
        assert!(server.wait().unwrap().success() && sent, "the exchange broke");
    }

    /// Guest 0 sends at least `bytes` to guest 1 over TCP, and goes on until `meanwhile` has happened.
    pub(crate) fn transfer(&mut self, to: &str, bytes: u64, meanwhile: impl FnOnce(&mut World)) {
        self.transfer_by("client", (0, 1), to, bytes, meanwhile);
    }

    /// The same, but nothing is sent any more after `bytes`; the connection stays until `meanwhile` has happened.
    pub(crate) fn transfer_and_rest(&mut self, to: &str, bytes: u64, meanwhile: impl FnOnce(&mut World)) {
        self.transfer_by("quiet-client", (0, 1), to, bytes, meanwhile);
    }

    /// The same from guest `from` to guest `at`, whose address is `to`.
    pub(crate) fn transfer_between(
        &mut self,
        from: usize,
        at: usize,
        to: &str,
        bytes: u64,
        meanwhile: impl FnOnce(&mut World),
    ) {
        self.transfer_by("client", (from, at), to, bytes, meanwhile);
    }

    fn transfer_by(
        &mut self,
        client: &str,
        (from, at): (usize, usize),
        to: &str,
        bytes: u64,
        meanwhile: impl FnOnce(&mut World),
    ) {
        let (from, at) = (self.guest(from), self.guest(at));
        self.transfer_in(client, [&from, &at], to, bytes, meanwhile);
    }

    /// The same from one namespace to another, by the role `client`.
    pub(crate) fn transfer_in(
        &mut self,
        client: &str,
        [from, at]: [&str; 2],
        to: &str,
        bytes: u64,
        meanwhile: impl FnOnce(&mut World),
    ) {
        let until = self.dir.path().join("until");
        let _ = fs::remove_file(&until);
        let mut server = self.spawn(at, &format!("server {to} 0"));
        let mut client = self.role(from, &format!("{client} {to} {bytes}"));
        let mut client = client.env("SELVEDGE_TEST_UNTIL", &until).spawn().expect("the test runs itself");
        meanwhile(self);
        fs::write(&until, "").unwrap();
        let sent = client.wait().unwrap().success();
        if !sent {
            let _ = server.kill();
        }
        assert!(server.wait().unwrap().success() && sent, "the connection broke");
    }
}

pub(crate) const NAMED: &str = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\", \"fd07:1::2\"]";
pub(crate) const LEARNING: &str = "pattern = \"lxc*\"\nlearn = [\"10.7.2.0/24\", \"fd07:2::/64\"]";

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of host 0:\n{}\nlog of host 1:\n{}", self.log(0), self.log(1));
        }
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        for i in 0..2 {
            if self.config(i).exists() {
                let _ = self.stop(i);
            }
            remove_tree(&self.pins(i));
            quietly("ip", &["netns", "del", &self.host(i)]);
        }
        for i in 0..5 {
            quietly("ip", &["netns", "del", &self.guest(i)]);
        }
        #[cfg(feature = "kernel")]
        let _ = fs::remove_file(self.own_pin());
    }
}

/// As `remove_dir_all`, which a bpffs does not support everywhere.
fn remove_tree(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => remove_tree(&path),
            path => drop(fs::remove_file(path)),
        }
    }
    let _ = fs::remove_dir(dir);
}
