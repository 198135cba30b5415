//! What is looked at before anything is changed.

use crate::check;
use crate::error::{Error, Result};
use crate::lock;
use agent_api::config::Config;
use kernel::{KernelEdge, Options};
use std::sync::Mutex;
use tracing::warn;

/// Asked first: what the kernel refuses for want of it, it refuses in many ways.
pub(super) fn may_run() -> Result<()> {
    // Numbers of linux/capability.h.
    const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim();
    let have = u64::from_str_radix(hex, 16).unwrap_or(0);
    let have_all = if have & CAP_SYS_ADMIN != 0 { 3 << 38 } else { 0 } | have; // it stands for both of BPF's
    match NEEDED.iter().find(|(_, bit)| have_all & 1 << bit == 0) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Unresolved(format!("the agent lacks {name}; run it as root"))),
    }
}

/// What the host lacks is an error, or with `agent.unchecked` a warning.
pub(super) fn check_operator(config: &Config) -> Result<()> {
    lock::check_bpffs(&config.pins)?; // whoever may write in a place that is wrong does not matter
    check::unmet(config)?.iter().chain(&check::cautions(config)).for_each(|one| warn!("{one}"));
    check::place(&config.socket)
}

/// libbpf explains on its own what the kernel refuses; that is of interest only if it does refuse.
pub(super) fn open_edge(config: &Config) -> Result<KernelEdge> {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    /// The end of a verifier's log says why.
    const MAX_SAID: usize = 20;
    fn note(_: libbpf_rs::PrintLevel, text: String) {
        if let Ok(mut said) = SAID.lock() {
            said.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
            let excess = said.len().saturating_sub(MAX_SAID);
            said.drain(..excess);
        }
    }
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, note)));
    let (pins, max_flows, place, plain) = (config.pins.clone(), config.max_flows, config.place, config.plain);
    let edge = KernelEdge::open(&Options { pins, max_flows, place, plain, ..Options::default() });
    let said = SAID.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
    if edge.is_err() {
        said.iter().for_each(|line| warn!("{line}"));
    }
    Ok(edge?)
}
