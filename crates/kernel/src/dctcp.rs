//! DCTCP (RFC 8257) as a congestion control of the running kernel, for guests where it has none of its own.
//!
//! The program is `datapath/kernel/dctcp.bpf.c`. Both ends of a connection have to use it, as the receiver's echo of
//! marks is part of it. Set it by `TCP_CONGESTION` on the connecting and on the listening socket.

#[cfg(dctcp_object)]
use libbpf_rs::ObjectBuilder;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::fs;

/// What [`Dctcp::register`] calls it unless told otherwise.
pub const NAME: &str = "selvedge_dctcp";

/// Longest name that the kernel takes (`TCP_CA_NAME_MAX` - 1).
const NAME_MAX: usize = 15;
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

#[cfg(dctcp_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o"));

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("DCTCP is not in this program: {0}")]
    Unavailable(&'static str),
    #[error("{0:?} names no congestion control; give 1 to 15 letters, digits, `_` or `-`")]
    Name(String),
    #[error("a congestion control {0:?} is registered already; choose another name")]
    Taken(String),
    #[error("cannot {0}: {1}")]
    Bpf(&'static str, libbpf_rs::Error),
    #[error("the object lacks {0}")]
    Missing(&'static str),
}

/// What all sockets under it have done since it was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Observation windows ended: about one per round trip and connection.
    pub windows: u64,
    /// Sum of alpha at their ends, in 1/1024.
    pub alpha_sum: u64,
    /// Window reductions on ECN echoes.
    pub reductions: u64,
    /// Recoveries entered.
    pub losses: u64,
    pub timeouts: u64,
    /// ACKs that receivers sent because the mark changed while one was delayed.
    pub early_acks: u64,
}

impl Stats {
    /// Mean of alpha over all observation windows, 0 to 1; `None` before the first ended.
    pub fn mean_alpha(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.alpha_sum as f64 / self.windows as f64 / 1024.0)
    }
}

/// DCTCP, registered with the kernel until this is dropped, or its process ends. Sockets that use it then keep it;
/// nothing else remains.
#[derive(Debug)]
pub struct Dctcp {
    _link: Link,
    object: Object,
    name: String,
}

impl Dctcp {
    /// Registers it as `name`, by default [`NAME`]. Names are one list for all network namespaces, so that two programs
    /// that may run at once need two names.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the build lacks the program; [`Error::Name`] and [`Error::Taken`]; otherwise what the
    /// kernel refuses: privileges (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON), or a kernel before Linux 6.10.
    #[cfg(dctcp_object)]
    pub fn register(name: &str) -> Result<Dctcp, Error> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
            return Err(Error::Name(name.to_owned()));
        }
        if is_registered(name) {
            return Err(Error::Taken(name.to_owned()));
        }
        let mut open =
            ObjectBuilder::default().open_memory(OBJECT).map_err(|e| Error::Bpf("read the DCTCP program", e))?;
        let mut operations =
            open.maps_mut().find(|map| map.name() == NAME).ok_or(Error::Missing("the operations of DCTCP"))?;
        // The name is the first member.
        let value = operations.initial_value_mut().filter(|value| value.len() > NAME_MAX);
        let place = value.ok_or(Error::Missing("the name of DCTCP"))?;
        place[..=NAME_MAX].fill(0);
        place[..name.len()].copy_from_slice(name.as_bytes());
        let mut object = open.load().map_err(|e| Error::Bpf("load DCTCP into the kernel", e))?;
        let mut operations =
            object.maps_mut().find(|map| map.name() == NAME).ok_or(Error::Missing("the operations of DCTCP"))?;
        let link = operations.attach_struct_ops().map_err(|e| Error::Bpf("register DCTCP with the kernel", e))?;
        Ok(Dctcp { _link: link, object, name: name.to_owned() })
    }

    /// As this build lacks the program, always an error.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    #[cfg(not(dctcp_object))]
    pub fn register(_: &str) -> Result<Dctcp, Error> {
        Err(Error::Unavailable(option_env!("SELVEDGE_NO_DCTCP").unwrap_or("the build left it out")))
    }

    /// What to give to `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// # Errors
    /// If the kernel does not let the counters be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let map = self.object.maps().find(|map| map.name() == "dctcp_stats").ok_or(Error::Missing("dctcp_stats"))?;
        let per_cpu = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::Bpf("read the counters of DCTCP", e))?
            .unwrap_or_default();
        let mut stats = Stats::default();
        for cpu in &per_cpu {
            let mut words = cpu.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
            for sum in [
                &mut stats.windows,
                &mut stats.alpha_sum,
                &mut stats.reductions,
                &mut stats.losses,
                &mut stats.timeouts,
                &mut stats.early_acks,
            ] {
                *sum += words.next().unwrap_or_default();
            }
        }
        Ok(stats)
    }
}

/// The kernel knows a congestion control of this name.
pub fn is_registered(name: &str) -> bool {
    fs::read_to_string(AVAILABLE).is_ok_and(|list| list.split_whitespace().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_anything_is_loaded() {
        for name in ["", "sixteen_letters_", "with space", "sl/ash"] {
            let error = Dctcp::register(name).unwrap_err();
            assert!(matches!(error, Error::Name(_) | Error::Unavailable(_)), "{name:?}: {error}");
        }
    }

    #[test]
    fn alpha_is_a_mean() {
        assert_eq!(Stats::default().mean_alpha(), None);
        assert_eq!(Stats { windows: 4, alpha_sum: 1024, ..Stats::default() }.mean_alpha(), Some(0.25));
    }
}
