//! Rate limits as configured: of ports, and of the tenants among whom ports share.

pub use edge::limiter::Kind as LawKind;
use edge::limiter::{Law, Spring};
use std::collections::BTreeMap;
use std::path::PathBuf;
use units::{BitRate, Bytes, Time};

/// Most pairs of devices on which guests' sending is limited.
pub const MAX_PAIRS: u32 = 8;
/// CPUs for which one pair does, unless told otherwise: docs/limiters.md has the measurement.
const CPUS_PER_PAIR: usize = 2;
/// Most tenants.
pub const MAX_TENANTS: usize = 1024;
/// Least and most that a port may be limited to.
pub const MIN_RATE: BitRate = BitRate::from_bps(1_000);
pub const MAX_RATE: BitRate = BitRate::from_gbps(1_000);

/// Over all ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub pacing: Pacing,
    /// Flows with less than a quantum go past the queue of all others of their port.
    pub sparse_first: bool,
    /// SPRING lets what guests may send up to move in large steps only.
    pub hold_edge: bool,
    /// Pairs of devices, each with a queue and a lock of its own; None: by the number of CPUs.
    pub pairs: Option<u32>,
    /// Of ports that name none.
    pub law: LawKind,
    /// All ports with an egress limit together.
    pub total: Option<BitRate>,
    pub tenants: Vec<Tenant>,
    /// What Kubernetes says of pods, by the host's interface; comes before what the port's rule says.
    pub annotated: BTreeMap<String, Annotated>,
    /// Where the latter was read.
    pub annotations: Option<PathBuf>,
}

impl Limits {
    /// Among how many pairs of devices ports are spread. What is limited together is on one.
    pub fn most_pairs(&self) -> u32 {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let wanted = self.pairs.unwrap_or_else(|| (cpus() / CPUS_PER_PAIR).min(MAX_PAIRS as usize) as u32);
        match self.total {
            Some(_) => 1,
            None => wanted.clamp(1, MAX_PAIRS),
        }
    }

    pub fn tenant(&self, name: &str) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }
}

/// Ports with an egress limit that share what they are given together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub name: String,
    pub egress: Rate,
}

/// What is there in any case, and with what others leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub guarantee: BitRate,
    pub ceiling: BitRate,
}

impl Rate {
    /// Neither less nor more.
    pub fn fixed(rate: BitRate) -> Rate {
        Rate { guarantee: rate, ceiling: rate }
    }
}

/// Of one interface, by `kubernetes.io/egress-bandwidth` and `kubernetes.io/ingress-bandwidth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    pub egress: Option<BitRate>,
    pub ingress: Option<BitRate>,
}

/// What holds segments to a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Classes of the kernel's HTB, in which they wait.
    #[default]
    Htb,
    /// The times at which they may leave, to which an fq keeps.
    Departure,
    /// The same times with nothing that keeps to them: segments go at once, and laws and the bound act on what would wait.
    Virtual,
}

impl Pacing {
    pub fn name(self) -> &'static str {
        match self {
            Pacing::Htb => "htb",
            Pacing::Departure => "departure",
            Pacing::Virtual => "virtual",
        }
    }
}

/// Of a `[[port]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLimits {
    pub egress: Option<Rate>,
    pub ingress: Option<BitRate>,
    pub tenant: Option<String>,
    pub law: LawKind,
    /// K of marking and DEM, K1 of SPRING; `None`: from the rate.
    pub k1: Option<Bytes>,
    /// Of SPRING; `None`: from K1 and the rate.
    pub k2: Option<Bytes>,
}

/// How long the answer of a guest takes, its timers and segments included: what the queue must last for.
const ANSWER: Time = Time::from_us(200);
/// The same where requests do not wait for the bulk: what is longer costs them nothing, and lets guests send larger segments.
const ANSWER_OF_BULK: Time = Time::from_ms(1);

impl PortLimits {
    /// With thresholds for a queue that is drained at `rate`.
    pub fn law_for(&self, rate: BitRate, sparse_first: bool) -> Law {
        let law = self.law.for_rate(rate, if sparse_first { ANSWER_OF_BULK } else { ANSWER }, sparse_first);
        match law {
            Law::None => Law::None,
            Law::Ecn { k } => Law::Ecn { k: self.k1.unwrap_or(k) },
            Law::Dem { k } => Law::Dem { k: self.k1.unwrap_or(k) },
            Law::Spring(auto) => {
                let k1 = self.k1.unwrap_or(auto.k1);
                let band = auto.k2.get() - auto.k1.get();
                Law::Spring(Spring { k1, k2: self.k2.unwrap_or(Bytes(k1.get() + band)), ..auto })
            }
        }
    }
}
