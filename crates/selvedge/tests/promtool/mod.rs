//! What Prometheus's own tool says of metrics and rules.

use std::io::Write;
use std::process::{Command, Stdio};

/// `promtool check WHAT` with a text on its standard input, where it is installed.
pub(crate) fn check(what: &[&str], text: &str) {
    run(&[&["check"], what].concat(), text);
}

/// The same of any of its commands.
pub(crate) fn run(words: &[&str], text: &str) {
    let mut command = Command::new("promtool");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return println!("skipped: promtool: {e}"),
    };
    let _ = child.stdin.take().unwrap().write_all(format!("{text}\n").as_bytes()); // or it wants none
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&said));
}
