//! Rate limiters without a standing queue (`datapath/limiter.h`): the law that keeps the queue of a class short.

use crate::names::{Amount, Named, Names, Preset, Setting};
use crate::native::{self, Limit};
use units::{BitRate, Bytes, Time};

/// 1.0 of [`Spring::alpha`] and [`Spring::beta`].
pub const ONE: u16 = native::LIMIT_ONE;

/// What is done about the backlog of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Law {
    #[default]
    None,
    /// Outgoing ECN-capable segments are marked while more than `k` wait (He 2017, section 4.3.2).
    Ecn { k: Bytes },
    /// ACKs for ECN-capable guests get ECE while more than `k` wait (section 4.4.1).
    Dem { k: Bytes },
    /// ACKs get a receive window (section 4.4.2).
    Spring(Spring),
}

/// A law without its thresholds, as files choose it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    None,
    Ecn,
    Dem,
    #[default]
    Spring,
    /// No law: the queue of the class is another, [`shape::Class::fq_codel`](crate::shape::Class::fq_codel).
    FqCodel,
}

/// Thresholds that nobody gives.
const OF_RATE: Preset = Preset::From("the rate");
const SHARES: [Amount; 2] = [Amount::Share(0.0), Amount::Share(1.0)];
const MOST: Amount = Amount::Bytes(Bytes(1_000_000_000));

/// Threshold of ECN and DEM.
pub static K: Setting = Setting {
    name: "k",
    of_port: Some("k1"),
    about: "backlog above which outgoing segments, or incoming ACKs, are marked",
    preset: OF_RATE,
    least: Amount::Bytes(Bytes(1)),
    most: MOST,
};

/// Lower threshold of SPRING, below K2.
pub static K1: Setting = Setting {
    name: "k1",
    of_port: Some("k1"),
    about: "backlog below which windows grow; less than K2",
    preset: OF_RATE,
    least: Amount::Bytes(Bytes(1)),
    most: MOST,
};

/// Upper threshold of SPRING.
pub static K2: Setting = Setting {
    name: "k2",
    of_port: Some("k2"),
    about: "backlog above which windows are cut",
    preset: OF_RATE,
    least: Amount::Bytes(Bytes(1)),
    most: MOST,
};

/// [`Spring::alpha`]
pub static ALPHA: Setting = Setting {
    name: "alpha",
    of_port: None,
    about: "share of the newest change in the gradient",
    preset: Preset::Is(Amount::Share(0.5)),
    least: SHARES[0],
    most: SHARES[1],
};

/// [`Spring::beta`]
pub static BETA: Setting = Setting {
    name: "beta",
    of_port: None,
    about: "strength of cuts",
    preset: Preset::Is(Amount::Share(0.5)),
    least: SHARES[0],
    most: SHARES[1],
};

impl Names for Kind {
    fn table() -> &'static [Named<Kind>] {
        static TABLE: [Named<Kind>; 5] = [
            Named {
                value: Kind::Spring,
                name: "spring",
                aliases: &[],
                about: "a smaller receive window in ACKs for the sender (SPRING; He 2017, section 4.4.2)",
                settings: &[&K1, &K2, &ALPHA, &BETA],
            },
            Named {
                value: Kind::Dem,
                name: "dem",
                aliases: &[],
                about: "ECE in these ACKs while more than K wait (DEM, section 4.4.1)",
                settings: &[&K],
            },
            Named {
                value: Kind::Ecn,
                name: "ecn",
                aliases: &["mark"],
                about: "CE on outgoing segments while more than K wait (the strawman of section 4.3.2)",
                settings: &[&K],
            },
            Named {
                value: Kind::None,
                name: "none",
                aliases: &["off"],
                about: "nothing: plain HTB",
                settings: &[],
            },
            Named {
                value: Kind::FqCodel,
                name: "fq_codel",
                aliases: &[],
                about: "no law but another queue: fair queueing with CoDel (RFC 8290), to compare with; simulator and lab only",
                settings: &[],
            },
        ];
        &TABLE
    }
}

impl Kind {
    /// The name in files and output.
    pub fn name(self) -> &'static str {
        Names::name(self)
    }

    /// Whether the kernel edge has it.
    pub fn is_for_kernels(self) -> bool {
        self != Kind::FqCodel
    }

    /// The law with thresholds for a queue that drains at `rate`. `rtt`: round trip without the limiter. `sparse_first`: some go past the queue.
    pub fn for_rate(self, rate: BitRate, rtt: Time, sparse_first: bool) -> Law {
        let one = rate.bytes_in(LEAST_OF_BULK.1).clamp(LEAST_OF_BULK.0, LEAST);
        let k = threshold(rate, rtt, if sparse_first { one } else { LEAST });
        match self {
            Kind::None | Kind::FqCodel => Law::None,
            Kind::Ecn => Law::Ecn { k },
            Kind::Dem => Law::Dem { k },
            Kind::Spring => Law::Spring(Spring::above(k, rate)),
        }
    }
}

/// Parameters of SPRING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spring {
    /// Below this the window grows.
    pub k1: Bytes,
    /// Above this it is cut; between the two the gradient decides.
    pub k2: Bytes,
    /// Share of the newest change in the gradient, in 1/[`ONE`].
    pub alpha: u16,
    /// Strength of cuts, in 1/[`ONE`].
    pub beta: u16,
    /// What a guest may send up to moves in large steps (`datapath/bound.h`).
    pub hold_edge: bool,
}

/// Parameters that cannot be meant.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum Invalid {
    #[error("K1 {0} is not below K2 {1}; raise K2")]
    Order(Bytes, Bytes),
    #[error("{1} is out of range; give {range}", range = .0.range())]
    Range(&'static Setting, Amount),
}

/// The packets' way from a queue to the receiver and back, where nobody said how long it is: an idle host's or rack's.
pub const DEFAULT_RTT: Time = Time::from_us(100);

impl Spring {
    /// Alpha and beta as printed, and thresholds from the rate: see docs/limiters.md.
    pub fn for_rate(rate: BitRate, rtt: Time) -> Spring {
        Spring::above(threshold(rate, rtt, LEAST), rate)
    }

    fn above(k1: Bytes, rate: BitRate) -> Spring {
        let k2 = Bytes(k1.get() + rate.bytes_in(BAND).max(LEAST_BAND));
        Spring { k1, k2, alpha: units_of(ALPHA.share()), beta: units_of(BETA.share()), hold_edge: false }
    }
}

/// A share as [`Spring::alpha`] and [`Spring::beta`] have it.
pub fn units_of(share: f64) -> u16 {
    (share * f64::from(ONE)).round() as u16
}

fn share_of(units: u16) -> Amount {
    Amount::Share(f64::from(units) / f64::from(ONE))
}

/// Between K1 and K2: the text's 10 KB at 1 Gbps and 20 KB at 2 Gbps.
const BAND: Time = Time::from_us(80);
const LEAST_BAND: u64 = 10_000;
/// Of K1 and K, bytes: two packets each of many flows.
const LEAST: u64 = 32_000;
/// The same where some go past the queue: one flow's, and what the rate brings in so long, up to [`LEAST`]. Thresholds grow with the number of
/// flows there (`sv_limit_widen`).
const LEAST_OF_BULK: (u64, Time) = (16_000, Time::from_ms(2));

/// K of ECN and DEM, K1 of SPRING: what leaves while an answer is under way, or else the limiter runs dry.
fn threshold(rate: BitRate, rtt: Time, least: u64) -> Bytes {
    Bytes(rate.bytes_in(rtt).max(least))
}

impl Law {
    /// # Errors
    /// The first parameter that is out of range, or K1 that is not below K2.
    pub fn check(&self) -> Result<(), Invalid> {
        let within = |values: &[(&'static Setting, Amount)]| {
            let wrong = values.iter().find(|(setting, value)| !setting.allows(*value));
            wrong.map_or(Ok(()), |(setting, value)| Err(Invalid::Range(setting, *value)))
        };
        match *self {
            Law::None => Ok(()),
            Law::Ecn { k } | Law::Dem { k } => within(&[(&K, k.into())]),
            Law::Spring(Spring { k1, k2, alpha, beta, .. }) => {
                within(&[(&K1, k1.into()), (&K2, k2.into()), (&ALPHA, share_of(alpha)), (&BETA, share_of(beta))])?;
                if k1 < k2 {
                    Ok(())
                } else {
                    Err(Invalid::Order(k1, k2))
                }
            }
        }
    }

    /// SPRING with [`Spring::hold_edge`] as given; the others have no windows.
    #[must_use]
    pub fn holding(self, hold_edge: bool) -> Law {
        match self {
            Law::Spring(spring) => Law::Spring(Spring { hold_edge, ..spring }),
            other => other,
        }
    }

    /// Whether it acts on ACKs, so that connections must be followed.
    pub fn follows(&self) -> bool {
        matches!(self, Law::Dem { .. } | Law::Spring(_))
    }

    /// `struct sv_limit` for a segment that finds the queue so.
    pub(crate) fn limit(&self, standing: &Standing) -> Limit {
        let bytes = |size: Bytes| u32::try_from(size.get()).unwrap_or(u32::MAX);
        let at = Limit {
            backlog: bytes(Bytes(standing.backlog)),
            flags: if standing.first { native::LIMIT_GOES_FIRST } else { 0 },
            flows: standing.flows,
            ..Limit::default()
        };
        let mut limit = match *self {
            Law::None => Limit { law: native::LIMIT_NONE, ..at },
            Law::Ecn { k } => Limit { k1: bytes(k), law: native::LIMIT_ECN, ..at },
            Law::Dem { k } => Limit { k1: bytes(k), law: native::LIMIT_DEM, ..at },
            Law::Spring(s) => Limit {
                k1: bytes(s.k1),
                k2: bytes(s.k2),
                alpha: s.alpha,
                beta: s.beta,
                law: native::LIMIT_SPRING,
                flags: at.flags | if s.hold_edge { native::LIMIT_HOLD } else { 0 },
                ..at
            },
        };
        if standing.flows > 0 {
            native::widen(&mut limit, standing.rate);
        }
        limit
    }

    /// `struct sv_limit` with no backlog, as a kernel program reads it.
    pub fn to_bytes(&self) -> [u8; 24] {
        // SAFETY: repr(C), integers only, and the sizes of its fields add up to its own: no byte of it is padding.
        unsafe { std::mem::transmute(self.limit(&Standing::default())) }
    }
}

/// The class of a limiter that a flow's segments go through, and how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Index in [`Config::limits`](crate::Config::limits).
    pub class: usize,
    /// Bytes that wait in it, without the segment at hand, and bytes that have left before their time.
    pub backlog: u64,
    /// The segment at hand goes past them.
    pub first: bool,
    /// Flows that sent through the queue lately, where some go past it; else 0.
    pub flows: u16,
    /// What their class guarantees, bytes per second; else 0.
    pub rate: u64,
}

/// What limiters have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// ECN: segments marked.
    pub segments_marked: u64,
    /// DEM: ACKs that got ECE.
    pub acks_marked: u64,
    /// SPRING: ACKs that made a flow's window smaller.
    pub windows_cut: u64,
}

impl Counters {
    pub(crate) fn note(&mut self, law: u8) {
        match law {
            native::LIMIT_ECN => self.segments_marked += 1,
            native::LIMIT_DEM => self.acks_marked += 1,
            _ => self.windows_cut += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let spring = |k1, k2, alpha, beta| {
            Law::Spring(Spring { k1: Bytes(k1), k2: Bytes(k2), alpha, beta, hold_edge: false }).check()
        };
        assert_eq!(spring(20_000, 30_000, 512, 512), Ok(()));
        assert_eq!(spring(20_000, 30_000, 0, 1024), Ok(()));
        assert_eq!(spring(20_000, 20_000, 512, 512), Err(Invalid::Order(Bytes(20_000), Bytes(20_000))));
        assert_eq!(spring(30_000, 20_000, 512, 512), Err(Invalid::Order(Bytes(30_000), Bytes(20_000))));
        assert_eq!(spring(0, 20_000, 512, 512), Err(Invalid::Range(&K1, Bytes(0).into())));
        assert!(matches!(spring(1, 2, 1025, 512), Err(Invalid::Range(setting, _)) if *setting == ALPHA));
        let wrong = spring(1, 2, 512, 1025).unwrap_err();
        assert_eq!(wrong.to_string(), "1.0009765625 is out of range; give 0.0 to 1.0");
        assert!(spring(1, 1 << 31, 512, 512).is_err() && Law::Dem { k: Bytes(u64::MAX) }.check().is_err());
    }

    #[test]
    fn automatic_thresholds_make_sense_at_every_rate() {
        for mbps in [1, 10, 100, 500, 1000, 2000, 4000, 10_000, 100_000] {
            for us in [0, 10, 100, 1000, 50_000] {
                let spring = Spring::for_rate(BitRate::from_mbps(mbps), Time::from_us(us));
                assert_eq!(Law::Spring(spring).check(), Ok(()), "{mbps} Mbps, {us} us");
            }
        }
    }

    #[test]
    fn one_flow_that_others_pass_needs_half_the_least_at_low_rates() {
        let k1 = |mbps, sparse_first| match Kind::Spring.for_rate(
            BitRate::from_mbps(mbps),
            Time::from_ms(1),
            sparse_first,
        ) {
            Law::Spring(Spring { k1, k2, .. }) => (k1.get(), k2.get()),
            other => panic!("{other:?}"),
        };
        assert_eq!((k1(20, false), k1(20, true)), ((32_000, 42_000), (16_000, 26_000)));
        assert_eq!(k1(80, true), (20_000, 30_000));
        assert_eq!((k1(200, false), k1(200, true)), ((32_000, 42_000), (32_000, 42_000)));
        assert_eq!((k1(1000, false), k1(1000, true)), ((125_000, 135_000), (125_000, 135_000)));
    }

    #[test]
    fn a_kernel_program_reads_the_same() {
        let law = Law::Spring(Spring { k1: Bytes(0x0102), k2: Bytes(0x0304), alpha: 512, beta: 256, hold_edge: true });
        let mut bytes = [0; 24];
        bytes[4..6].copy_from_slice(&[2, 1]);
        bytes[8..10].copy_from_slice(&[4, 3]);
        bytes[12..18].copy_from_slice(&[0, 2, 0, 1, 3, 2]);
        if cfg!(target_endian = "little") {
            assert_eq!(law.to_bytes(), bytes);
        }
        assert_eq!(law.limit(&Standing { backlog: u64::MAX, ..Standing::default() }).backlog, u32::MAX);
    }
}
