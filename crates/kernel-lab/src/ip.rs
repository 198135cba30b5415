//! Many commands to iproute2 at once: one process per namespace, commands on its standard input.

use super::{Error, NamedNamespace};
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// A running `ip -batch` or `bridge -batch`.
pub(super) struct Batch {
    program: &'static str,
    place: String,
    lines: Vec<String>,
    child: Child,
}

impl Batch {
    /// Starts the commands, in `namespace` or where this process is.
    pub(super) fn start(
        program: &'static str,
        namespace: Option<&NamedNamespace>,
        lines: Vec<String>,
    ) -> Result<Batch, Error> {
        let mut command = Command::new(program);
        if let Some(namespace) = namespace {
            command.args(["-n", namespace.name()]);
        }
        let mut child = command
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Error::Program(program.into(), e, "iproute2"))?;
        let place = namespace.map_or_else(|| "this namespace".to_owned(), |n| n.name().to_owned());
        let text = lines.join("\n") + "\n";
        // It stops reading at the first error; that shows at the end.
        match child.stdin.take().map(|mut pipe| pipe.write_all(text.as_bytes())) {
            Some(Err(e)) if e.kind() != io::ErrorKind::BrokenPipe => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::Inside("give commands to ip", place, e))
            }
            _ => Ok(Batch { program, place, lines, child }),
        }
    }

    /// Waits for its end.
    pub(super) fn finish(self) -> Result<(), Error> {
        let Batch { program, place, lines, child } = self;
        let output = child.wait_with_output().map_err(|e| Error::Program(program.into(), e, "iproute2"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(blame(program, place, &lines, &said))
    }
}

/// `Command failed -:3` names the line; what came before it says why.
fn blame(program: &'static str, place: String, lines: &[String], said: &str) -> Error {
    let number = said.lines().find_map(|line| line.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok());
    let command = number.and_then(|n| lines.get(n.checked_sub(1)?)).cloned().unwrap_or_default();
    let why = said.lines().find(|line| !line.trim().is_empty() && !line.starts_with("Command failed"));
    let why = why.unwrap_or("it failed and does not say why").trim().to_owned();
    Error::Command { program, place, command, why }
}

/// Runs the commands to their end.
pub(super) fn batch(
    program: &'static str,
    namespace: Option<&NamedNamespace>,
    lines: Vec<String>,
) -> Result<(), Error> {
    Batch::start(program, namespace, lines)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let lines = ["link set lo up", "addr add x dev lo"].map(str::to_owned);
        let said = "Error: any valid prefix is expected rather than \"x\".\nCommand failed -:2\n";
        let error = blame("ip", "sv-a-leaf1".into(), &lines, said).to_string();
        assert_eq!(
            error,
            r#"ip: "addr add x dev lo" in sv-a-leaf1: Error: any valid prefix is expected rather than "x"."#
        );
        assert!(blame("ip", "x".into(), &[], "").to_string().contains("does not say why"));
    }
}
