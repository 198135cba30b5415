//! What the devices of the uplinks do with the edge's packets, a finding for each uplink and question.

use super::{Finding, Status};
use agent_api::config::Config;
use port::device::{self, Flows, RxHash};
use std::fs;
use std::io;
use std::path::Path;

/// Looks at each uplink that the configuration names.
pub fn uplinks(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in &config.uplinks {
        for (flows, word, v4) in [(Flows::UdpV4, "udp4", true), (Flows::UdpV6, "udp6", false)] {
            if !config.plain && config.peers.iter().any(|peer| peer.address.is_ipv4() == v4) {
                found.push(judge_hash(name, word, queues(name), device::rx_hash(name, flows)));
            }
        }
        let cuts = if config.plain { "tx-tcp-segmentation" } else { "tx-udp_tnl-segmentation" };
        found.push(judge_cutting(name, cuts, device::feature(name, cuts)));
        let hardware = Path::new("/sys/class/net").join(name).join("device").exists();
        found.push(judge_merging(name, hardware, device::feature(name, "rx-gro")));
    }
    found
}

/// Receive queues.
fn queues(interface: &str) -> usize {
    let entries = fs::read_dir(format!("/sys/class/net/{interface}/queues")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count()
}

fn finding(name: &'static str, status: Status, reason: String, remedy: String) -> Finding {
    Finding { name, status, reason, remedy }
}

/// What is not an answer.
fn unanswered(name: &'static str, interface: &str, error: &io::Error) -> Finding {
    match error.raw_os_error() {
        Some(nix::libc::ENODEV) => {
            let remedy = "`ip link` lists interfaces; uplink.interface names one".to_owned();
            finding(name, Status::No, format!("{interface}: there is no such interface"), remedy)
        }
        Some(nix::libc::EOPNOTSUPP | nix::libc::EINVAL) => {
            let reason = format!("{interface}: not known, because the device does not say");
            finding(name, Status::Unknown, reason, String::new())
        }
        _ => finding(name, Status::Unknown, format!("{interface}: not known: {error}"), String::new()),
    }
}

/// Labels are UDP source ports: a hash of addresses alone brings all of a peer's packets into one queue, and so to one CPU.
fn judge_hash(interface: &str, flows: &str, queues: usize, hash: io::Result<RxHash>) -> Finding {
    const NAME: &str = "rx-flow-hash";
    let of = format!("{interface} ({flows})");
    match hash {
        Ok(RxHash { ports: true, .. }) => {
            finding(NAME, Status::Yes, format!("{of}: a packet's UDP ports choose its receive queue"), String::new())
        }
        Ok(_) if queues == 1 => finding(NAME, Status::Yes, format!("{of}: there is one receive queue"), String::new()),
        Ok(_) => {
            let reason = format!("{of}: UDP ports do not choose the receive queue: one CPU does the work for a peer");
            let remedy =
                "and receive.reorder = true, because flowcells then overtake one another (docs/presto-kernel.md)";
            finding(NAME, Status::No, reason, format!("ethtool -N {interface} rx-flow-hash {flows} sdfn, {remedy}"))
        }
        Err(error) => unanswered(NAME, &of, &error),
    }
}

fn judge_cutting(interface: &str, feature: &str, on: io::Result<Option<bool>>) -> Finding {
    const NAME: &str = "tx-segmentation";
    match on {
        Ok(Some(true)) => finding(NAME, Status::Yes, format!("{interface}: {feature} is on"), String::new()),
        Ok(Some(false)) => {
            let reason = format!("{interface}: {feature} is off: the CPU cuts segments into packets");
            finding(NAME, Status::No, reason, format!("ethtool -K {interface} {feature} on, if the device can"))
        }
        Ok(None) => finding(NAME, Status::Unknown, format!("{interface}: {feature} is not known"), String::new()),
        Err(error) => unanswered(NAME, interface, &error),
    }
}

fn judge_merging(interface: &str, hardware: bool, on: io::Result<Option<bool>>) -> Finding {
    const NAME: &str = "gro";
    match on {
        Ok(Some(true)) => {
            finding(NAME, Status::Yes, format!("{interface}: received packets are merged"), String::new())
        }
        Ok(Some(false)) if hardware => {
            let reason = format!("{interface}: received packets are not merged, which costs CPU for each");
            finding(NAME, Status::No, reason, format!("ethtool -K {interface} gro on"))
        }
        Ok(Some(false)) => {
            let reason = format!("{interface}: off; whether it matters is not known of a virtual device");
            finding(NAME, Status::Unknown, reason, String::new())
        }
        Ok(None) => finding(NAME, Status::Unknown, format!("{interface}: rx-gro is not known"), String::new()),
        Err(error) => unanswered(NAME, interface, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc::{ENODEV, EOPNOTSUPP, EPERM};

    fn error(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn a_hash_without_ports_matters_where_there_are_queues() {
        let told = |addresses, ports| Ok(RxHash { addresses, ports });
        let cases = [
            (8, told(true, true), Status::Yes, ""),
            (8, told(true, false), Status::No, "ethtool -N eth0 rx-flow-hash udp4 sdfn"),
            (1, told(true, false), Status::Yes, ""),
            (8, told(false, false), Status::No, "ethtool -N eth0 rx-flow-hash udp4 sdfn"),
            (8, Err(error(EOPNOTSUPP)), Status::Unknown, ""),
            (8, Err(error(EPERM)), Status::Unknown, ""),
            (0, Err(error(ENODEV)), Status::No, "`ip link` lists interfaces; uplink.interface names one"),
        ];
        for (queues, hash, status, remedy) in cases {
            let found = judge_hash("eth0", "udp4", queues, hash);
            assert_eq!(found.status, status, "{}", found.reason);
            assert!(
                found.remedy.starts_with(remedy) && found.remedy.is_empty() == remedy.is_empty(),
                "{}",
                found.remedy
            );
            assert!(found.reason.starts_with("eth0 (udp4): "), "{}", found.reason);
        }
    }

    #[test]
    fn offloads_that_are_off_have_a_remedy() {
        let cut = |on| judge_cutting("eth0", "tx-udp_tnl-segmentation", on);
        assert_eq!(cut(Ok(Some(true))).status, Status::Yes);
        assert_eq!(cut(Ok(Some(false))).remedy, "ethtool -K eth0 tx-udp_tnl-segmentation on, if the device can");
        assert_eq!(cut(Ok(None)).status, Status::Unknown);
        assert_eq!(cut(Err(error(ENODEV))).status, Status::No);
        let merges = |hardware, on| judge_merging("eth0", hardware, Ok(on));
        assert_eq!(merges(true, Some(true)).status, Status::Yes);
        let off = merges(true, Some(false));
        assert_eq!((off.status, off.remedy.as_str()), (Status::No, "ethtool -K eth0 gro on"));
        assert_eq!(merges(false, Some(false)).status, Status::Unknown);
    }
}
