//! The agents of a lab whose overlay is the edge: their configuration, start and signs of life.

use super::{
    guest_address, guest_mac, namespace, port, Error, Interrupted, KernelLab, Node, Overlay, Shape, NETWORK, UPLINK,
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long an agent has until its socket answers: the kernel first verifies its programs, which takes an emulated processor
/// half a minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// Files of one host's agent.
pub(super) struct Files {
    pub(super) config: PathBuf,
    pub(super) socket: PathBuf,
    log: PathBuf,
}

impl Files {
    pub(super) fn of(lab: &KernelLab, host: u16) -> Files {
        let dir = lab.directory().join(Node::Host(host).to_string());
        Files { config: dir.join("agent.toml"), socket: dir.join("ctl.sock"), log: dir.join("agent.log") }
    }

    /// Does the agent answer?
    pub(super) fn alive(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Is it this one that answers? What one that was killed listened on ends some time after its process.
    fn answers_from(&self, agent: &Child) -> bool {
        let Ok(stream) = UnixStream::connect(&self.socket) else { return false };
        getsockopt(&stream, PeerCredentials).is_ok_and(|peer| u32::try_from(peer.pid()) == Ok(agent.id()))
    }
}

/// `agent.toml` of a host: its guests are ports, all other hosts peers.
pub(super) fn config(lab: &KernelLab, shape: &Shape, host: u16) -> String {
    let files = Files::of(lab, host);
    let mut text = format!(
        "# Made by `selvedge lab kernel up`.\n[agent]\npins = {:?}\nsocket = {:?}\n\n[uplink]\ninterface = {UPLINK:?}\n\
         address = \"{}\"\n\n[balance]\npolicy = \"{}\"\n",
        lab.pins(Node::Host(host)),
        files.socket,
        shape.host_address(host).0,
        shape.policy.scheme().name,
    );
    for (parameter, value) in shape.policy.values() {
        let _ = writeln!(text, "{} = \"{value}\"", parameter.name);
    }
    if shape.policy.scheme().labels {
        let _ = writeln!(text, "labels = {}", shape.labels);
    }
    if shape.policy.keeps().is_some() {
        text += "\n[paths]\ndiscovery = true\n";
    }
    for guest in 1..=shape.guests {
        let (v4, v6) = guest_address(host, guest);
        let _ = write!(
            text,
            "\n[[port]]\ninterface = {:?}\nnetwork = {NETWORK}\naddresses = [\"{v4}\", \"{v6}\"]\nmac = {:?}\n",
            port(guest),
            guest_mac(host, guest)
        );
    }
    for peer in (1..=shape.host_count()).filter(|peer| *peer != host) {
        let address = shape.host_address(peer).0;
        let _ = write!(text, "\n[[peer]]\nname = \"{}\"\naddress = \"{address}\"\nguests = [\n", Node::Host(peer));
        for guest in 1..=shape.guests {
            let ((v4, v6), mac) = (guest_address(peer, guest), guest_mac(peer, guest));
            for prefix in [format!("{v4}/32"), format!("{v6}/128")] {
                let _ = writeln!(text, "  {{ network = {NETWORK}, prefix = {prefix:?}, mac = {mac:?} }},");
            }
        }
        text += "]\n";
    }
    text
}

impl KernelLab {
    /// Writes the configurations and starts all agents: `program agent run --config ..` in each host's namespace.
    pub(super) fn start_agents(
        &self,
        shape: &Shape,
        program: &Path,
        interrupted: &Interrupted<'_>,
    ) -> Result<(), Error> {
        debug_assert_eq!(shape.overlay, Overlay::Edge);
        let mut started = Vec::new();
        for host in 1..=shape.host_count() {
            let files = Files::of(self, host);
            let dir = self.directory().join(Node::Host(host).to_string());
            fs::create_dir_all(&dir).map_err(|e| Error::Io("create", e, dir))?;
            fs::write(&files.config, config(self, shape, host))
                .map_err(|e| Error::Io("write", e, files.config.clone()))?;
            started.push((host, self.start_agent(host, program)?));
        }
        // Their children they become are nobody's to wait for: they live on when this process ends.
        started.iter_mut().try_for_each(|(host, child)| self.agent_answers(*host, child, interrupted))
    }

    /// Starts a host's agent with the configuration that is there, as after it was killed; does not wait for it.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be run.
    pub fn start_agent(&self, host: u16, program: &Path) -> Result<Child, Error> {
        let files = Files::of(self, host);
        let log = File::options().create(true).append(true).open(&files.log);
        let log = log.map_err(|e| Error::Io("open", e, files.log.clone()))?;
        let for_errors = log.try_clone().map_err(|e| Error::Io("open", e, files.log.clone()))?;
        let mut command = Command::new(program);
        command
            .args([OsStr::new("agent"), OsStr::new("run"), OsStr::new("--config"), files.config.as_os_str()])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(for_errors)
            .process_group(0); // an interrupt typed at the terminal is not for it
        let namespace = self.namespace(Node::Host(host));
        let spawned = namespace.run(|| command.spawn());
        spawned
            .and_then(|child| child)
            .map_err(|e| Error::Program(program.display().to_string(), e, "selvedge with the kernel edge"))
    }

    /// Waits until a host's agent answers on its socket.
    ///
    /// # Errors
    /// [`Error::Agent`], with the end of its log: who cannot start a lab takes its files away.
    pub fn await_agent(&self, host: u16, agent: &mut Child) -> Result<(), Error> {
        self.agent_answers(host, agent, &|| false)
    }

    fn agent_answers(&self, host: u16, agent: &mut Child, interrupted: &Interrupted<'_>) -> Result<(), Error> {
        let files = Files::of(self, host);
        let mut ended = None;
        let answered = namespace::wait(PATIENCE, || {
            ended = agent.try_wait().ok().flatten();
            ended.is_some() || interrupted() || files.answers_from(agent)
        });
        match (ended, answered) {
            _ if interrupted() => Err(Error::Interrupted),
            (None, true) => Ok(()),
            (Some(status), _) => {
                let why = last_lines(&files.log, 1).unwrap_or_else(|_| status.to_string());
                Err(Error::Agent { node: Node::Host(host), why })
            }
            (None, false) => {
                let said = match last_lines(&files.log, 5) {
                    Ok(lines) => format!("the end of its log: {lines}"),
                    Err(_) => "its log is empty".into(),
                };
                let why = format!("no answer within {} s; {said}", PATIENCE.as_secs());
                Err(Error::Agent { node: Node::Host(host), why })
            }
        }
    }
}

/// The last lines that say something, on one line, of a log of any size.
fn last_lines(path: &Path, most: usize) -> io::Result<String> {
    const TAIL: u64 = 4096;
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<&str> = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(most).collect();
    if lines.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    lines.reverse();
    Ok(lines.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_end_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "first\n".repeat(5000) + "one\n two \n\nthree\n").unwrap();
        assert_eq!(last_lines(&path, 1).unwrap(), "three");
        assert_eq!(last_lines(&path, 3).unwrap(), "one | two | three");
        fs::write(&path, "\n").unwrap();
        assert!(last_lines(&path, 3).is_err());
        fs::remove_file(&path).unwrap();
        assert!(last_lines(&path, 3).is_err());
    }

    #[test]
    fn a_hosts_configuration_names_its_guests_and_all_other_hosts() {
        let shape = Shape { guests: 2, overlay: Overlay::Edge, ..Shape::default() };
        let text = config(&KernelLab::new("t").unwrap(), &shape, 3);
        let table: toml::Table = text.parse().unwrap();
        let list = |key: &str| table[key].as_array().unwrap().clone();
        assert_eq!((list("port").len(), list("peer").len()), (2, 3));
        assert_eq!(table["uplink"]["address"].as_str(), Some("10.2.3.2"));
        let peer = &list("peer")[0];
        assert_eq!(peer["address"].as_str(), Some("10.1.1.2"));
        assert_eq!(peer["guests"].as_array().unwrap().len(), 4, "two guests, two families");
    }
}
