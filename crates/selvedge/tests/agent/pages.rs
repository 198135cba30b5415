//! What the documents have a reader type, typed as it stands there: on a host whose network and directories are the test's own.

use crate::documents::{commands, ROOT};
use crate::world::{ip, World};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Pages, and what their readers have done before, in the words below.
const READ: [(&str, &str); 9] = [
    ("docs/quick-start-operators.md", "configure packaging/deb/agent.toml; network"),
    ("docs/install.md", ""),
    ("docs/cni.md", "network"),
    ("docs/agent.md", "uninstalled"),
    ("README.md", "configure packaging/agent.toml"),
    ("docs/tenants.md", "configure packaging/agent.toml; tenants"),
    ("docs/controller.md", "fabric"),
    ("docs/lab.md", ""),
    ("docs/lab-kernel.md", ""),
];

/// What is looked at elsewhere, or would take long: simulations, results, and what draws on a terminal.
const ELSEWHERE: [&str; 11] =
    ["sim", "repro", "sweep", "compare", "bench", "topo", "lab run", "lab top", "schema", "man", "completions"];

/// All directories in which something is written are empty ones of this process, or copies.
const HOST: &str = r#"
set -eu
mount -t tmpfs none "$stage" && cp -a /etc/. "$stage/" && mount --move "$stage" /etc
for directory in /run /opt /var/lib /usr/lib/cni /usr/libexec/cni; do
    [ ! -d $directory ] || mount -t tmpfs none $directory
done
mount -t bpf bpf /sys/fs/bpf
mkdir -p /etc/selvedge /run/selvedge /opt/cni/bin /etc/cni/net.d /var/lib/selvedge-controller /run/netns
rm -f /etc/cni/net.d/*
agent='' controller=''
labs() { selvedge lab down; selvedge lab kernel down; } >/dev/null 2>&1
ends() { agent_ends; selvedge agent stop >"$logs/stop" 2>&1 || true; [ -z "$controller" ] || kill $controller; labs || true; wait; }
trap ends EXIT
say() { echo "+ $*"; }
page() { labs || true; say "$1"; }
fail() { cat "$logs"/* 2>/dev/null; echo "FAILED: $*"; exit 1; }
run() { say "$@"; timeout 120 "$@" </dev/null >"$logs/said" 2>&1 || fail "$@"; }
# A lab's own word on a busy machine is that its figures are not valid, and its exit code says so, too.
lab_status() { say "$@"; timeout 120 "$@" >"$logs/said" 2>&1 || grep -q '^NOT VALID: ' "$logs/said" || fail "$@"; }
until_it_is() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; fail "never: $*"; }
agent_runs() { [ -n "$agent" ] && kill -0 $agent 2>/dev/null; }
agent_ends() { ! agent_runs || { kill $agent; wait $agent || true; }; agent=''; }
agent_run() { agent_ends; say "$@"; "$@" >"$logs/agent" 2>&1 & agent=$!; until_it_is selvedge ctl status; }
agent_stop() { run "$@"; [ -z "$agent" ] || wait $agent || true; agent=''; }
ctl() { agent_runs || agent_run selvedge agent run --config /etc/selvedge/agent.toml; run "$@"; }
controller_run() {
    say "$@"; "$@" >"$logs/controller" 2>&1 & controller=$!
    until_it_is selvedge controller status --config /etc/selvedge/controller.toml
}
configure() { agent_ends; selvedge agent stop >/dev/null; cp "$1" /etc/selvedge/agent.toml; }
list=/etc/cni/net.d/10-pods.conflist plugin=/opt/cni/bin/selvedge
network() { echo '{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}' >$list; touch /opt/cni/bin/bridge; }
uninstalled() {
    [ -L $plugin ] && grep -q selvedge $list || fail "the plugin is not there"
    rm $plugin; echo "a copy" >$plugin
    run selvedge cni uninstall
    [ -e $plugin ] && grep -q selvedge $list || fail "somebody else's plugin is taken away, or off its list"
    rm $plugin; echo '{"selvedge": ' >/etc/cni/net.d/20-begun.conflist; run selvedge cni install
    ! selvedge cni uninstall >"$logs/said" 2>&1 && [ -e $plugin ] || fail "a plugin goes that a list may name"
    rm /etc/cni/net.d/20-begun.conflist; run selvedge cni uninstall
    [ ! -e $plugin ] && ! grep -q selvedge $list || fail "the plugin is left"
}
tenants() { cp "$blocks/tenants" /run/tenants; ctl selvedge ctl status; cat /run/tenants >>/etc/selvedge/agent.toml; }
fabric() { cp packaging/controller.toml /etc/selvedge/; cp "$blocks/fabric" /etc/selvedge/fabric.toml; }
"#;

/// A TOML block of a page: the first that begins so.
fn block(page: &str, begins: &str) -> String {
    let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let mut blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.trim_start().starts_with(begins)).unwrap_or_else(|| panic!("{page}: {begins}")).to_owned()
}

/// How the host's shell is told of a command of a page; `None`: it is looked at elsewhere.
fn typed(command: &str) -> Option<String> {
    let rest = command.strip_prefix("selvedge ")?;
    if rest.ends_with(" -o -") {
        return None; // goes on until somebody has seen enough
    }
    if ELSEWHERE.iter().any(|other| rest == *other || rest.starts_with(&format!("{other} "))) {
        return None;
    }
    Some(match rest {
        _ if rest.starts_with("agent run ") => format!("agent_run {command}"),
        _ if rest.starts_with("agent stop") => format!("agent_stop {command}"),
        _ if rest.starts_with("controller run ") => format!("controller_run {command}"),
        _ if rest.starts_with("controller certs ") => format!("run {command}; cp pki/* /etc/selvedge/"),
        _ if rest.starts_with("lab status") => format!("lab_status {command}"),
        _ if rest.starts_with("ctl ") && !rest.contains("--socket") => format!("ctl {command}"),
        _ => format!("run {command}"),
    })
}

/// Why this machine cannot be the host, if so.
fn unfit(dir: &Path) -> Option<String> {
    if !Path::new(ROOT).join("docs").is_dir() {
        return Some("the documents are not here".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("needs /dev/net/tun".to_owned());
    }
    let hidden = ["/opt", "/run", "/var/lib", "/etc", "/usr/lib/cni", "/usr/libexec/cni"];
    let needed = [dir, Path::new(ROOT), Path::new(env!("CARGO_BIN_EXE_selvedge"))];
    if let Some(path) = needed.iter().find(|path| hidden.iter().any(|hidden| path.starts_with(hidden))) {
        return Some(format!("{} would be hidden by directories of the test's own", path.display()));
    }
    let tools = ["bash", "iperf3", "ping", "unshare", "nsenter", "timeout"];
    let lacks = |tool: &&&str| Command::new(tool).arg("--version").output().is_err();
    tools.iter().find(lacks).map(|tool| format!("needs {tool}"))
}

#[test]
fn commands_of_the_documents_work_as_they_stand() {
    let Some(world) = World::new("pg") else { return };
    if let Some(why) = unfit(world.dir.path()) {
        return println!("skipped: {why}");
    }
    let host = world.host(0);
    for (old, new) in [("u0", "eth0"), ("lxc0", "veth1")] {
        ip(&format!("-n {host} link set {old} down"));
        ip(&format!("-n {host} link set {old} name {new}"));
        ip(&format!("-n {host} link set {new} up"));
    }
    ip(&format!("-n {host} addr add 10.0.0.1/24 dev eth0"));
    ip(&format!("-n {host} route add 10.0.1.0/24 dev eth0"));
    ip(&format!("-n {host} addr add 10.0.0.9/32 dev lo"));
    let dir = world.dir.path();
    for name in ["logs", "blocks", "bin", "at", "stage"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_selvedge"), dir.join("bin/selvedge")).unwrap();
    std::fs::write(dir.join("at/agent.toml"), "").unwrap(); // as README.md says
    for name in ["packaging", "examples", "docs"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(name), dir.join("at").join(name)).unwrap();
    }
    let tenants = block("docs/tenants.md", "[tenants]").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    std::fs::write(dir.join("blocks/tenants"), format!("\n{tenants}\n")).unwrap();
    std::fs::write(dir.join("blocks/fabric"), block("docs/controller.md", "[topology]")).unwrap();

    let mut script = HOST.to_owned();
    let mut found = 0;
    for (page, before) in READ {
        writeln!(script, "page {page}\n{before}").unwrap();
        let mut lines: Vec<String> = commands(page).iter().filter_map(|command| typed(command)).collect();
        // Certificates come first, wherever a page says how they are made.
        lines.sort_by_key(|line| !line.contains(" controller certs "));
        assert!(!lines.is_empty(), "{page} has no command");
        found += lines.len();
        lines.iter().for_each(|line| writeln!(script, "{line}").unwrap());
    }
    assert!(found >= 28, "{found} commands");
    std::fs::write(dir.join("script"), &script).unwrap();
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{host}"))
        .args(["unshare", "--mount", "--propagation", "private", "bash"])
        .arg(dir.join("script"))
        .current_dir(dir.join("at"))
        .env("PATH", path)
        .env("logs", dir.join("logs"))
        .env("blocks", dir.join("blocks"))
        .env("stage", dir.join("stage"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
