//! `selvedge doctor`: what this machine can run, and why not. It leaves nothing changed, but that the kernel may load modules that it tries.

pub mod bundle;
mod uplinks;

pub use uplinks::uplinks;

use crate::kernel_edge;
use agent_api::lacking::{
    Module, Part, DEPARTURE_TIMES, FASTLANE, FQ, HTB, LIMIT_LAWS, MERGING, RATE_LIMITS, RECEIVER, TUN, VXLAN,
};
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Yes,
    No,
    /// It depends on something that cannot be found out by looking.
    Unknown,
}

/// One thing that was looked at, or one thing that can be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub status: Status,
    /// What was found.
    pub reason: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    pub version: &'static str,
    /// What can be run here.
    pub features: Vec<Finding>,
    /// What that was concluded from.
    pub probes: Vec<Finding>,
}

fn finding(name: &'static str, ok: bool, reason: impl Into<String>, remedy: &str) -> Finding {
    let status = if ok { Status::Yes } else { Status::No };
    Finding { name, status, reason: reason.into(), remedy: if ok { String::new() } else { remedy.to_owned() } }
}

pub fn diagnose() -> Diagnosis {
    let probes = vec![
        cores(),
        kernel(),
        btf(),
        bpf(),
        bpffs(),
        tcx(),
        tried_module(HTB, kernel_edge::has_htb, "htb_enqueue"),
        tried_module(FQ, kernel_edge::has_fq, "fq_enqueue"),
        tried_module(VXLAN, kernel_edge::has_vxlan, "vxlan_xmit"),
        built_in(),
        programs(),
        laws(),
        drops(),
        namespaces(),
        tun(),
        packet_sockets(),
        cgroup(),
        clang(),
        program("cc", &["cc", "gcc", "clang"], "install a C compiler: apt install build-essential"),
        program("chromium", &["chromium", "chromium-browser", "google-chrome"], "apt install chromium"),
        program("ip", &["ip"], "apt install iproute2"),
    ];
    Diagnosis { version: env!("CARGO_PKG_VERSION"), features: features(&probes), probes }
}

/// What each part of the edge takes.
const NEEDS: [(Part, &[&str]); 6] = [
    (RATE_LIMITS, &["kernel", "bpf", "bpffs", "htb", "edge", "programs"]),
    (LIMIT_LAWS, &["kernel", "btf", "bpf", "bpffs", "htb", "edge", "programs", "laws"]),
    (FASTLANE, &["kernel", "btf", "bpf", "bpffs", "tcx", "edge", "programs", "drops"]),
    (DEPARTURE_TIMES, &["kernel", "btf", "bpf", "bpffs", "htb", "fq", "edge", "programs", "laws"]),
    (MERGING, &["kernel", "btf", "bpf", "bpffs", "vxlan", "edge", "programs"]),
    (RECEIVER, &["kernel", "btf", "bpf", "bpffs", "tun", "edge", "programs"]),
];

fn features(probes: &[Finding]) -> Vec<Finding> {
    let mut features = vec![
        finding("simulator", true, "needs nothing but this program", ""),
        conclude("kernel-edge", probes, &["kernel", "btf", "bpf", "bpffs", "edge", "programs"]),
    ];
    let limits = conclude(RATE_LIMITS.feature, probes, NEEDS[0].1).status;
    features.extend(NEEDS.iter().map(|(part, needs)| {
        let found = conclude(part.feature, probes, needs);
        let of_limits = [LIMIT_LAWS, DEPARTURE_TIMES].contains(part);
        let without = if of_limits && limits == Status::No { RATE_LIMITS.without } else { part.without };
        match found.status {
            Status::No => Finding { reason: format!("{}: {without}", found.reason), ..found },
            _ => found,
        }
    }));
    features.extend([
        conclude("kernel-lab", probes, &["namespaces", "ip"]),
        lab(probes),
        conclude("report-test", probes, &["chromium"]),
    ]);
    features
}

/// What an operator must see to before an agent runs with that configuration.
pub fn operator(config: &agent_api::config::Config) -> Finding {
    let unmet = agent_api::operator::unmet(config);
    let reason = if unmet.is_empty() { "the host is set as SECURITY.md asks".into() } else { unmet.join("\n") };
    finding("configuration", unmet.is_empty(), reason, "as said, or set agent.unchecked = true")
}

fn conclude(name: &'static str, probes: &[Finding], needs: &[&str]) -> Finding {
    let missing: Vec<&Finding> = probes.iter().filter(|p| needs.contains(&p.name) && p.status != Status::Yes).collect();
    let names: Vec<&str> = missing.iter().map(|p| p.name).collect();
    let status = match missing.iter().any(|p| p.status == Status::No) {
        true => Status::No,
        false if missing.is_empty() => Status::Yes,
        false => Status::Unknown,
    };
    let reason = match status {
        Status::Yes => format!("has {}", needs.join(", ")),
        Status::No => format!("lacks {}", names.join(", ")),
        Status::Unknown => format!("could not find out about {}", names.join(", ")),
    };
    let remedy = missing.iter().map(|p| p.remedy.as_str()).filter(|r| !r.is_empty()).collect::<Vec<_>>().join("; ");
    Finding { name, status, reason, remedy }
}

/// Fabrics against the wall clock: as root, or within a user namespace that has the privileges.
fn lab(probes: &[Finding]) -> Finding {
    let plain = conclude("lab", probes, &["namespaces", "tun", "ip"]);
    let status = |name: &str| probes.iter().find(|p| p.name == name).map(|p| p.status);
    let lacks_privilege_only = capabilities() & CAP_NET_ADMIN == 0
        && OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok()
        && status("namespaces") == Some(Status::Yes)
        && status("ip") == Some(Status::Yes);
    match plain.status != Status::Yes && lacks_privilege_only {
        true => finding("lab", true, "within a user namespace: call it from a shell that `unshare -Urn` started", ""),
        false => plain,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cores() -> Finding {
    let cores = crate::run::default_threads();
    let memory = read("/proc/meminfo");
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)).unwrap_or("?");
    finding("cores", true, format!("{cores} cores, {total} kB of memory"), "")
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease");
    let version = version();
    let lacks: Vec<&str> =
        KERNEL_FEATURES.iter().filter(|(since, _)| version < *since).map(|(_, what)| *what).collect();
    let but = if lacks.is_empty() { String::new() } else { format!("; too old for {}", lacks.join("; ")) };
    match agent_api::release::too_old() {
        Some(why) => finding("kernel", false, why, "boot Linux 6.1 or later"),
        None => finding("kernel", true, format!("Linux {release}{but}"), ""),
    }
}

fn version() -> (u32, u32) {
    agent_api::release::version_of(&read("/proc/sys/kernel/osrelease")).unwrap_or_default()
}

/// Several programs on one interface, in an order. FastLane needs it.
fn tcx() -> Finding {
    let ok = version() >= TCX_SINCE;
    let reason = if ok {
        "the kernel is new enough for tcx"
    } else {
        "the kernel is too old for tcx: filters on clsact serve instead"
    };
    finding("tcx", ok, reason, "only FastLane needs it; Linux 6.6 has it")
}

const TCX_SINCE: (u32, u32) = (6, 6);

/// The only way to know: the programs are loaded, and dropped.
fn programs() -> Finding {
    tried("programs", "the kernel takes the programs of the edge", kernel_edge::try_edge)
}

fn laws() -> Finding {
    tried("laws", "the kernel takes the programs of rate limits", kernel_edge::try_laws)
}

fn drops() -> Finding {
    tried(
        "drops",
        "the kernel takes the programs of FastLane, and names why its queues drop packets",
        kernel_edge::try_drops,
    )
}

fn tried(name: &'static str, good: &str, load: fn() -> Result<(), String>) -> Finding {
    if !kernel_edge::BUILT {
        let remedy = "make build (or make dev, faster to build), with clang and the headers that selvedge doctor names";
        return finding(name, false, "this program has none", remedy);
    }
    if !may_load() {
        let reason = "only who may load BPF programs can try them".to_owned();
        return Finding { name, status: Status::Unknown, reason, remedy: "run as root".to_owned() };
    }
    match load() {
        Ok(()) => finding(name, true, good, ""),
        Err(why) => finding(name, false, why, "boot a kernel that docs/kernels.md names"),
    }
}

/// The kernel loads a module when it is asked for what is in it. That is tried, where it is possible, in a network namespace of its own;
/// elsewhere the kernel's `symbol` is looked for, and the file.
fn tried_module(module: Module, try_it: fn() -> Option<bool>, symbol: &str) -> Finding {
    let name = module.name;
    match try_it() {
        Some(true) => finding(module.probe, true, format!("the kernel has {name}"), ""),
        Some(false) => {
            let (reason, remedy) = module.told();
            finding(module.probe, false, reason, &format!("{remedy}, or boot a kernel with {}", module.setting))
        }
        None if is_listed(name, symbol) => {
            finding(module.probe, true, format!("the kernel has {name}, or its file"), "")
        }
        None => {
            let reason = format!("neither /proc/kallsyms nor the list of modules has {name}, and only root can try");
            let remedy = "run as root, with a program that has the kernel edge".to_owned();
            Finding { name: module.probe, status: Status::Unknown, reason, remedy }
        }
    }
}

fn is_listed(module: &str, symbol: &str) -> bool {
    let release = read("/proc/sys/kernel/osrelease");
    let has = |file: &str, what: &str| fs::read_to_string(file).is_ok_and(|text| text.contains(what));
    let mut lists = ["modules.builtin", "modules.dep"].iter();
    lists.any(|list| has(&format!("/lib/modules/{release}/{list}"), &format!("/{module}.ko")))
        || has("/proc/kallsyms", &format!(" {symbol}\n"))
}

/// What works with later versions only, and what happens without.
pub const KERNEL_FEATURES: [((u32, u32), &str); 3] = [
    ((6, 6), "tcx (filters on clsact serve instead) and FastLane"),
    ((6, 10), "DCTCP guests in the lab"),
    ((6, 17), "whole segments through the agent's receiver (they get through in packets)"),
];

fn btf() -> Finding {
    let ok = fs::metadata("/sys/kernel/btf/vmlinux").is_ok_and(|m| m.len() > 0);
    let reason = if ok { "/sys/kernel/btf/vmlinux is there" } else { "no /sys/kernel/btf/vmlinux" };
    finding("btf", ok, reason, "boot a kernel built with CONFIG_DEBUG_INFO_BTF")
}

/// Bits of the effective capability set.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_BPF: u64 = 1 << 39;

fn capabilities() -> u64 {
    let status = read("/proc/self/status");
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim();
    u64::from_str_radix(hex, 16).unwrap_or(0)
}

fn may_load() -> bool {
    let caps = capabilities();
    caps & CAP_SYS_ADMIN != 0 || (caps & CAP_BPF != 0 && caps & CAP_NET_ADMIN != 0)
}

/// May this process make network namespaces, and mount within one?
pub(crate) fn may_make_networks() -> bool {
    capabilities() & (CAP_SYS_ADMIN | CAP_NET_ADMIN) == CAP_SYS_ADMIN | CAP_NET_ADMIN
}

fn bpf() -> Finding {
    if !may_load() {
        return finding(
            "bpf",
            false,
            "this process may not load BPF programs",
            "run as root, or with CAP_BPF and CAP_NET_ADMIN",
        );
    }
    if fs::metadata("/proc/sys/kernel/unprivileged_bpf_disabled").is_err() {
        return finding("bpf", false, "the kernel has no bpf system call", "boot a kernel with CONFIG_BPF_SYSCALL");
    }
    if read("/sys/kernel/security/lockdown").contains("[confidentiality]") {
        return finding("bpf", false, "kernel lockdown forbids BPF", "boot without lockdown=confidentiality");
    }
    let filtered = read("/proc/self/status").lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2'));
    if filtered {
        let reason = "the capabilities are there, but a seccomp filter may refuse the bpf system call".to_owned();
        let remedy = "if loading fails, allow bpf(2) in the container's seccomp profile".to_owned();
        return Finding { name: "bpf", status: Status::Unknown, reason, remedy };
    }
    finding("bpf", true, "privileged, no seccomp filter, no lockdown", "")
}

fn bpffs() -> Finding {
    let mounted = read("/proc/self/mounts").lines().any(|line| line.split(' ').nth(2) == Some("bpf"));
    let reason = if mounted { "a BPF file system is mounted" } else { "no BPF file system is mounted" };
    finding("bpffs", mounted, reason, "mount -t bpf bpf /sys/fs/bpf")
}

/// Needed only to build this program.
fn built_in() -> Finding {
    let available = kernel_edge::available();
    let reason = available.as_ref().map_or_else(Clone::clone, |()| "the kernel edge is in this program".into());
    finding(
        "edge",
        available.is_ok(),
        reason,
        "apt install clang libelf-dev zlib1g-dev, and build it anew: make build, or make dev",
    )
}

/// Makes a namespace that ends with the process that made it.
fn namespaces() -> Finding {
    let own = ["--net", "true"];
    let mapped = ["--user", "--map-root-user", "--net", "true"];
    for (arguments, how) in [(own.as_slice(), "as this user"), (mapped.as_slice(), "within a user namespace")] {
        let made = Command::new("unshare").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match made {
            Ok(status) if status.success() => {
                return finding("namespaces", true, format!("network namespaces can be made {how}"), "");
            }
            Ok(_) => {}
            Err(e) => {
                let remedy = "install util-linux to let this check run".to_owned();
                let reason = format!("cannot run unshare: {e}");
                return Finding { name: "namespaces", status: Status::Unknown, reason, remedy };
            }
        }
    }
    let remedy = "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1";
    finding("namespaces", false, "network namespaces cannot be made", remedy)
}

fn tun() -> Finding {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let (missing, remedy) = TUN.told();
    match opened {
        Ok(_) if capabilities() & CAP_NET_ADMIN != 0 => finding("tun", true, "/dev/net/tun opens", ""),
        Ok(_) => finding("tun", false, "/dev/net/tun opens, but CAP_NET_ADMIN is missing", "run as root"),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            finding("tun", false, format!("/dev/net/tun: {e}"), "run as root")
        }
        Err(e) => finding("tun", false, format!("{missing} ({e})"), remedy),
    }
}

fn packet_sockets() -> Finding {
    let known = fs::metadata("/proc/net/packet").is_ok();
    let may = capabilities() & CAP_NET_RAW != 0;
    let reason = match (known, may) {
        (false, _) => "the kernel has no packet sockets",
        (true, false) => "CAP_NET_RAW is missing",
        (true, true) => "packet sockets may be opened",
    };
    finding("packet-sockets", known && may, reason, "run as root on a kernel with CONFIG_PACKET")
}

fn cgroup() -> Finding {
    let controllers = read("/sys/fs/cgroup/cgroup.controllers");
    let ok = fs::metadata("/sys/fs/cgroup/cgroup.controllers").is_ok();
    let reason = if ok { format!("cgroup v2 with {controllers}") } else { "no cgroup v2 at /sys/fs/cgroup".to_owned() };
    finding("cgroup", ok, reason, "boot with systemd.unified_cgroup_hierarchy=1")
}

fn clang() -> Finding {
    let remedy = "apt install clang llvm libelf-dev";
    let Some(path) = on_path(&["clang"]) else { return finding("clang", false, "not on the path", remedy) };
    let targets = Command::new(&path).arg("--print-targets").output();
    let version = Command::new(&path).arg("--version").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).lines().next().unwrap_or("").to_owned());
    let bpf = targets.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("bpf"));
    let version = version.unwrap_or_default();
    let reason =
        if bpf { format!("{version}, with the BPF target") } else { format!("{version} cannot compile for BPF") };
    finding("clang", bpf, reason, remedy)
}

fn program(name: &'static str, candidates: &[&str], remedy: &str) -> Finding {
    match on_path(candidates) {
        Some(path) => finding(name, true, path.display().to_string(), ""),
        None => finding(name, false, "not on the path", remedy),
    }
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    names.iter().find_map(|name| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file()))
}

/// For people.
pub fn print(diagnosis: &Diagnosis) -> String {
    let mut text = format!("selvedge {}\n", diagnosis.version);
    for (heading, findings) in [("Can be run here", &diagnosis.features), ("Looked at", &diagnosis.probes)] {
        text += &format!("\n{heading}\n");
        for f in findings {
            let status = match f.status {
                Status::Yes => "yes",
                Status::No => "NO",
                Status::Unknown => "?",
            };
            let reason = f.reason.replace('\n', &format!("\n{:22}", ""));
            text += &format!("  {status:<4}{:<16}{reason}\n", f.name);
            if !f.remedy.is_empty() {
                text += &format!("{:22}-> {}\n", "", f.remedy);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::lacking::PARTS;
    use std::collections::BTreeSet;

    /// All that features are concluded from, there but for one.
    fn without(missing: &str) -> Vec<Finding> {
        let needed = NEEDS.iter().flat_map(|(_, needs)| needs.iter().copied()).chain(["namespaces", "ip", "chromium"]);
        let each: BTreeSet<&str> = needed.collect();
        each.into_iter().map(|name| finding(name, name != missing, "as it is", "see to it")).collect()
    }

    #[test]
    fn what_is_missing_is_missed_by_what_takes_it_and_by_nothing_else() {
        const LIMITS: &str = RATE_LIMITS.without;
        for (missing, lost) in [
            ("nothing", &[][..]),
            ("htb", &[(RATE_LIMITS, LIMITS), (LIMIT_LAWS, LIMITS), (DEPARTURE_TIMES, LIMITS)]),
            ("laws", &[(LIMIT_LAWS, LIMIT_LAWS.without), (DEPARTURE_TIMES, DEPARTURE_TIMES.without)]),
            ("fq", &[(DEPARTURE_TIMES, DEPARTURE_TIMES.without)]),
            ("tcx", &[(FASTLANE, FASTLANE.without)]),
            ("drops", &[(FASTLANE, FASTLANE.without)]),
            ("vxlan", &[(MERGING, MERGING.without)]),
            ("tun", &[(RECEIVER, RECEIVER.without)]),
        ] {
            let features = features(&without(missing));
            for part in PARTS {
                let found = features.iter().find(|found| found.name == part.feature).unwrap();
                match lost.iter().find(|(of, _)| *of == part) {
                    Some((_, then)) => {
                        assert_eq!(found.status, Status::No, "{missing}: {found:?}");
                        assert_eq!(found.reason, format!("lacks {missing}: {then}"));
                        assert_eq!(found.remedy, "see to it");
                    }
                    None => assert_eq!(found.status, Status::Yes, "{missing}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn what_is_looked_at_is_named_as_what_needs_it_names_it() {
        let probes = diagnose().probes;
        for name in NEEDS.iter().flat_map(|(_, needs)| needs.iter()) {
            assert!(probes.iter().any(|probe| probe.name == *name), "{name}");
        }
        for module in [HTB, FQ, VXLAN, TUN] {
            assert!(probes.iter().any(|probe| probe.name == module.probe), "{module:?}");
            let (what, remedy) = module.told();
            assert!(!what.is_empty() && remedy.contains(&format!("load the module {}", module.name)), "{module:?}");
        }
    }
}
