//! Congestion control laws behind one enum, so that a call costs a branch. A new law is a file here that implements
//! [`Law`], and a line in [`Algorithm`] and [`Cc`].

mod coupled;
mod cubic;
mod dctcp;
mod highspeed;
mod illinois;
mod law;
mod newreno;
mod vegas;

pub use crate::tcp::algorithm::Algorithm;
use crate::tcp::Config;
use coupled::Coupled;
pub(crate) use coupled::Path;
use cubic::Cubic;
use dctcp::Dctcp;
use highspeed::HighSpeed;
use illinois::Illinois;
#[cfg(test)]
pub(crate) use law::test_ack;
pub(crate) use law::{AckEvent, Congestion, Law, Window};
use newreno::NewReno;
use units::Time;
use vegas::Vegas;

#[derive(Clone, Debug)]
pub(crate) enum Cc {
    NewReno(NewReno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Vegas(Vegas),
    Illinois(Illinois),
    HighSpeed(HighSpeed),
    Coupled(Coupled),
}

macro_rules! dispatch {
    ($cc:expr, $law:ident => $call:expr) => {
        match $cc {
            Cc::NewReno($law) => $call,
            Cc::Cubic($law) => $call,
            Cc::Dctcp($law) => $call,
            Cc::Vegas($law) => $call,
            Cc::Illinois($law) => $call,
            Cc::HighSpeed($law) => $call,
            Cc::Coupled($law) => $call,
        }
    };
}

impl Cc {
    /// `start` is the first sequence number of the stream.
    pub(crate) fn new(config: &Config, start: u64) -> Cc {
        match config.congestion {
            Algorithm::NewReno | Algorithm::Bbr => Cc::NewReno(NewReno),
            Algorithm::Cubic => Cc::Cubic(Cubic::new(config.hystart.then_some(config.hystart_ticks), start)),
            Algorithm::Dctcp => Cc::Dctcp(Dctcp::new(start)),
            Algorithm::Vegas => Cc::Vegas(Vegas::new()),
            Algorithm::Illinois => Cc::Illinois(Illinois::new(start)),
            Algorithm::HighSpeed => Cc::HighSpeed(HighSpeed),
            Algorithm::Lia => Cc::Coupled(Coupled::new(coupled::Kind::Lia)),
            Algorithm::Olia => Cc::Coupled(Coupled::new(coupled::Kind::Olia)),
        }
    }

    /// DCTCP's estimate of the marked fraction, 0 to 1.
    pub(crate) fn alpha(&self) -> Option<f64> {
        match self {
            Cc::Dctcp(law) => Some(law.alpha()),
            _ => None,
        }
    }

    /// Tells a coupled law of all subflows of its connection, this one being `me`; others do not care.
    pub(crate) fn couple(&mut self, paths: &[Path], me: usize) {
        if let Cc::Coupled(law) = self {
            law.couple(paths, me);
        }
    }

    /// Bytes that a coupled law saw delivered between losses; 0 of others.
    pub(crate) fn between_losses(&self) -> u64 {
        match self {
            Cc::Coupled(law) => law.between_losses(),
            _ => 0,
        }
    }

    pub(crate) fn on_delivered(&mut self, ack: &AckEvent) {
        dispatch!(self, law => law.on_delivered(ack));
    }
    pub(crate) fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        dispatch!(self, law => law.grow(ack, window));
    }
    pub(crate) fn reduce(&mut self, why: Congestion, window: &Window) -> u64 {
        dispatch!(self, law => law.reduce(why, window)).max(2 * window.mss)
    }
    pub(crate) fn undo(&mut self) {
        dispatch!(self, law => law.undo());
    }
    pub(crate) fn on_restart(&mut self, idle: Time) {
        dispatch!(self, law => law.on_restart(idle));
    }
}
