//! What HyGenICC is configured with.

use crate::names::{Named, Names};
use crate::native::{HygConf, HYG_AIAD, HYG_ALPHA, HYG_CARRY, HYG_KEEP_MARKS, HYG_MAX_GAIN, HYG_ONE};
use units::{BitRate, Bytes, Time};

/// What marks do to a guest's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Law {
    #[default]
    Aiad,
    Alpha,
}

impl Names for Law {
    fn table() -> &'static [Named<Law>] {
        static TABLE: [Named<Law>; 2] = [
            Named {
                value: Law::Aiad,
                name: "aiad",
                aliases: &[],
                about: "each mark takes 1/1000 of the uplink, each interval without adds as much, or 1/100 after a quiet time (section 4)",
                settings: &[],
            },
            Named {
                value: Law::Alpha,
                name: "alpha",
                aliases: &[],
                about: "the fair rate less the smoothed part of its packets that were marked (Listings 2 and 3)",
                settings: &[],
            },
        ];
        &TABLE
    }
}

impl Law {
    /// `SV_HYG_AIAD`, `SV_HYG_ALPHA`: of [`super::Conf::law`].
    pub fn number(self) -> u32 {
        match self {
            Law::Aiad => HYG_AIAD,
            Law::Alpha => HYG_ALPHA,
        }
    }
}

/// What becomes of segments that exceed the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    Drop,
    /// They wait, up to so many bytes of a guest; more are dropped.
    Delay(Bytes),
}

/// Threshold of admission that alpha still falls below.
pub const LEAST_ALPHA: f64 = 0.001;

/// HyGenICC on one host.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    pub law: Law,
    pub hold: Hold,
    /// What guests share.
    pub uplink: BitRate,
    /// No rate is below, unless the fair rate is.
    pub minimum: BitRate,
    /// Between changes of rates; above 0.
    pub interval: Time,
    /// A guest without a packet for so long has no share; at least the interval.
    pub inactive: Time,
    /// Without feedback for so long, the rate grows fast ([`Law::Aiad`]).
    pub quiet: Time,
    /// So long marks wait for a packet to go with.
    pub patience: Time,
    /// What a bucket holds at least. A larger segment is never sent.
    pub depth: Bytes,
    /// Intervals at the fair rate that a bucket holds, if that is more.
    pub bursts: u32,
    /// Gain of alpha: 1 / 2^gain, 0 to 4.
    pub gain: u32,
    /// New pairs with a destination are refused from the first alpha on, until it is below the second; both
    /// [`LEAST_ALPHA`] to 1.
    pub admission: Option<(f64, f64)>,
    /// Without a tunnel, ECT(1) stands for a guest's Not-ECT, so that guests see of ECN what they sent one another.
    pub carry: bool,
    /// [`Law::Alpha`]: marks beyond the packets of an interval, as feedback in lumps brings them, count in later ones. The listings count
    /// each interval by itself.
    pub keep_marks: bool,
    /// Addresses of the host's guests, and their weights, 1 to 65535. Nobody else is held.
    pub guests: Vec<([u32; 4], u16)>,
    /// Pairs remembered at once.
    pub max_pairs: u32,
    /// A pair without a packet for this long is forgotten.
    pub pair_idle: Time,
}

impl Config {
    /// With the defaults of docs/tenants.md for guests that share `uplink`, where a round trip takes `rtt`.
    pub fn new(uplink: BitRate, rtt: Time) -> Config {
        let rtts = |n: u64| Time::from_ps(rtt.as_ps().saturating_mul(n));
        Config {
            law: Law::default(),
            hold: Hold::Drop,
            uplink,
            minimum: BitRate::from_bps(uplink.as_bps() / 1000),
            interval: rtts(5),
            inactive: Time::from_secs(1),
            quiet: rtts(50),
            patience: rtts(2),
            depth: Bytes(70_000),
            bursts: 1,
            gain: 4,
            admission: None,
            carry: false,
            keep_marks: false,
            guests: Vec::new(),
            max_pairs: 65_536,
            pair_idle: Time::from_secs(60),
        }
    }

    /// As the data path reads it.
    pub fn conf(&self) -> HygConf {
        let alpha = |x: f64| (x.clamp(LEAST_ALPHA, 1.0) * f64::from(HYG_ONE)) as u32;
        let (refuse, admit) = self.admission.map_or((0, 0), |(on, off)| (alpha(on), alpha(off)));
        HygConf {
            interval: self.interval.as_ns().max(1),
            inactive: self.inactive.max(self.interval).as_ns(),
            quiet: self.quiet.as_ns(),
            patience: self.patience.as_ns(),
            uplink: self.uplink.as_bps() / 8,
            least: (self.minimum.as_bps() / 8).max(1),
            depth: self.depth.get(),
            bursts: self.bursts,
            law: self.law.number(),
            gain: self.gain.min(HYG_MAX_GAIN),
            refuse,
            admit,
            flags: if self.carry { HYG_CARRY } else { 0 } | if self.keep_marks { HYG_KEEP_MARKS } else { 0 },
        }
    }
}
