//! The file system that agents pin their maps in, which a fresh machine has not mounted.

use std::process::{Command, Stdio};

/// `None` once it is at /sys/fs/bpf, else why it cannot be.
pub(crate) fn obstacle() -> Option<String> {
    let mounted =
        quietly("mountpoint", &["-q", "/sys/fs/bpf"]) || quietly("mount", &["-t", "bpf", "bpf", "/sys/fs/bpf"]);
    (!mounted).then(|| "no bpffs can be mounted at /sys/fs/bpf".into())
}

fn quietly(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
