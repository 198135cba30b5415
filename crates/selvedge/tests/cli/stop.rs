//! `selvedge agent stop`, of an agent that only answers.

use super::Scratch;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

#[test]
fn stop_stays_until_sigterm_if_it_is_to() {
    let scratch = Scratch::new("stop");
    let socket = scratch.path().join("ctl.sock");
    let pins = "/sys/fs/bpf/selvedge-no-such-edge";
    let config =
        scratch.file("agent.toml", &format!("[agent]\npins = \"{pins}\"\nsocket = \"{}\"\n", socket.display()));
    let agent = UnixListener::bind(&socket).unwrap();
    for stay in [true, false] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["agent", "stop", "--config"]).arg(&config).args(stay.then_some("--stay"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (mut asked, _) = agent.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&asked).read_line(&mut line).unwrap();
        assert!(line.contains("\"stop\""), "{line}");
        asked.write_all(b"{\"version\":1,\"ok\":null}").unwrap();
        drop(asked);
        line.clear();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("stopped: "), "{line}");
        if stay {
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert_eq!(child.try_wait().unwrap(), None);
            kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        }
        assert!(child.wait().unwrap().success());
    }
}
