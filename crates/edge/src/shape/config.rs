//! Settings of the token buckets: classes with guarantee, ceiling and quantum, and their checks.

use units::{BitRate, Bytes, Time};

/// One class of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Rate that it gets whatever the others send.
    pub guarantee: BitRate,
    /// Largest rate, borrowed rate included.
    pub ceiling: BitRate,
    /// What may go out at once after a pause, within the guarantee and within the ceiling.
    pub burst: Bytes,
    pub ceiling_burst: Bytes,
    /// Share of the borrowed rate, bytes a turn; `None`: in proportion to the guarantees.
    pub quantum: Option<Bytes>,
    /// What waits at most; more is dropped. `None`: no limit.
    pub queue: Option<Bytes>,
    /// Flows that send little go past that queue, within half of the guarantee (`datapath/sparse.h`).
    pub sparse_first: bool,
    /// In place of the queue: fair queueing and CoDel, without `queue` and `sparse_first`.
    pub fq_codel: Option<aqm::FqCodel>,
}

/// As `tc` computes it if timers are precise: a packet of 1500 bytes and the clock's grain.
pub const DEFAULT_BURST: Bytes = Bytes(1600);

impl Class {
    /// A class of one fixed rate.
    pub fn fixed(rate: BitRate) -> Class {
        Class {
            guarantee: rate,
            ceiling: rate,
            burst: DEFAULT_BURST,
            ceiling_burst: DEFAULT_BURST,
            quantum: None,
            queue: None,
            sparse_first: false,
            fq_codel: None,
        }
    }
}

/// A hierarchy of two levels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// All classes together, and the rate that they may borrow from; `None`: nothing holds them together, nothing is lent.
    pub total: Option<BitRate>,
    pub classes: Vec<Class>,
}

/// A hierarchy that cannot work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    #[error("there is no class; give one")]
    NoClass,
    #[error("the total rate is zero; give a rate above 0")]
    NoTotal,
    #[error("the guarantee of class {0} is zero; give a rate above 0")]
    NoGuarantee(usize),
    #[error("the ceiling of class {0} is below its guarantee; raise it")]
    LowCeiling(usize),
    #[error("the quantum of class {0} is zero; give at least a segment")]
    NoQuantum(usize),
}

impl Config {
    /// # Errors
    /// [`Invalid`].
    pub fn check(&self) -> Result<(), Invalid> {
        if self.classes.is_empty() {
            return Err(Invalid::NoClass);
        }
        if self.total == Some(BitRate::from_bps(0)) {
            return Err(Invalid::NoTotal);
        }
        for (n, class) in self.classes.iter().enumerate() {
            if class.guarantee.as_bps() == 0 {
                return Err(Invalid::NoGuarantee(n));
            }
            if class.ceiling < class.guarantee {
                return Err(Invalid::LowCeiling(n));
            }
            if class.quantum == Some(Bytes(0)) {
                return Err(Invalid::NoQuantum(n));
            }
        }
        Ok(())
    }

    /// Bytes of borrowing per turn: the smallest guarantee gets a whole segment, since one is sent in every turn.
    pub(super) fn quantum(&self, class: &Class) -> i64 {
        const SEGMENT: u128 = 65_536;
        let least = self.classes.iter().map(|c| c.guarantee.as_bps()).min().unwrap_or(1).max(1);
        let share = SEGMENT * u128::from(class.guarantee.as_bps()) / u128::from(least);
        let quantum = class.quantum.map_or(share, |quantum| quantum.get().into());
        i64::try_from(quantum).unwrap_or(i64::MAX >> 2).clamp(1, i64::MAX >> 2)
    }
}

/// Tokens in picoseconds of sending: how far a rate is ahead (or, below zero, behind).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: BitRate,
    depth: i64,
    tokens: i64,
}

/// No debt is longer, as in Linux.
const MOST_DEBT: i64 = 60_000_000_000_000;

impl Bucket {
    pub(super) fn new(rate: BitRate, burst: Bytes) -> Bucket {
        let depth = signed(rate.tx_time(burst.get())).min(MOST_DEBT);
        Bucket { rate, depth, tokens: depth }
    }

    /// `elapsed` since the last call of this or of `charge`.
    pub(super) fn charge(&mut self, elapsed: Time, bytes: u64) {
        let filled = self.tokens.saturating_add(signed(elapsed)).min(self.depth);
        self.tokens = filled.saturating_sub(signed(self.rate.tx_time(bytes))).max(-MOST_DEBT);
    }

    /// Time passes; nothing was taken.
    pub(super) fn fill(&mut self, elapsed: Time) {
        self.charge(elapsed, 0);
    }

    /// Bytes that it has sent before their time, if `elapsed` has passed since it was charged last.
    pub(super) fn unpaid(&self, elapsed: Time) -> u64 {
        self.rate.bytes_in(self.wait(elapsed))
    }

    /// How long until it may send, if `elapsed` has passed since it was charged last.
    pub(super) fn wait(&self, elapsed: Time) -> Time {
        Time::from_ps(self.tokens.saturating_add(signed(elapsed)).min(0).unsigned_abs())
    }
}

fn signed(time: Time) -> i64 {
    i64::try_from(time.as_ps()).unwrap_or(i64::MAX)
}
