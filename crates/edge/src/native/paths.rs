//! Mirrors of `datapath/paths.h` and `relay.h`: the paths to one destination, and what a peer is still to be told.

use super::{Conf, MAX_LABELS};
use crate::balance;
use std::fmt;
use std::marker::PhantomData;
use units::Time;
use wire::feedback::Feedback;
use wire::Packet;

/// `struct sv_path`: what is known of one path, by its place in the schedule.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathState {
    /// Share of the new flowlets, in 1/65536; 0: none was given yet.
    pub weight: u32,
    /// Its place in the rotation, in 1/65536 of a flowlet, or when a flowlet last took it: of the scheme.
    pub turn: i32,
    /// When the last feedback that counts came, in ticks of 1,024 ns modulo 2^32; 0: never.
    pub heard: u32,
    /// When the index in its label came to name it, and no other path, in ticks.
    pub bound: u32,
    /// 1/65536
    pub congestion: u16,
    /// So long after `bound`, in ticks, feedback may be about the path before; 0: it is not.
    pub quiet: u16,
    /// For people: marks that counted, modulo 2^32.
    pub marks: u32,
    /// When a mark last took of the weight, or time gave to it, in ticks.
    pub eased: u32,
    /// When `late` was told, in ticks; 0: never.
    pub told: u32,
    /// How much later its packets arrive than others did lately, in ticks.
    pub late: u16,
    /// Of `late`: only those of one epoch are comparable.
    pub epoch: u8,
    pub pad: u8,
}
const _: () = assert!(size_of::<PathState>() == 36);

/// `SV_ONEWAY_STALE`
const STALE: u8 = 2;
/// `SV_PATH_SHIFT`
const TICK_SHIFT: u32 = 10;

/// [`PathState::weight`] of a path that takes all flowlets.
pub const WEIGHT_ONE: u32 = 65_536;

impl PathState {
    /// `sv_path_bind`: the index in its label named another path until `now_ns`.
    pub fn bind(&mut self, rtt: Time, now_ns: u64) {
        // SAFETY: writes one state, whose mirror asserts the layout.
        unsafe { sv_edge_path_bind(self, rtt.as_ns(), now_ns) }
    }

    /// Does the scheme take it for congested at `now_ns`?
    pub fn is_congested(&self, conf: &balance::Conf, now_ns: u64) -> bool {
        // SAFETY: reads a configuration and a state, whose mirrors assert the layouts.
        unsafe { sv_edge_path_congested(conf, self, now_ns) != 0 }
    }

    /// Since the last feedback that counted; `None`: there was none.
    pub fn age(&self, now_ns: u64) -> Option<Time> {
        // SAFETY: reads one state.
        (self.heard != 0).then(|| Time::from_ns(unsafe { sv_edge_path_age(self, now_ns) }))
    }

    /// How much later its packets arrive than others, as was told last; `None`: that was never, or cannot be compared with others.
    pub fn late(&self) -> Option<Time> {
        let holds = self.told != 0 && self.epoch < STALE;
        holds.then(|| Time::from_ns(u64::from(self.late) << TICK_SHIFT))
    }
}

impl balance::Conf {
    /// Least time between two feedbacks to a peer on one path: so long a peer may hold what it is to tell.
    pub fn relay(&self) -> Time {
        // SAFETY: reads one configuration, whose mirror asserts the layout.
        Time::from_ns(unsafe { sv_edge_relay_ns(self) })
    }

    /// Are packets stamped, for the delays of paths?
    pub(crate) fn stamps(&self) -> bool {
        // SAFETY: as above.
        unsafe { sv_edge_stamps(self) != 0 }
    }

    /// How many paths of a schedule the scheme takes.
    pub fn takes(&self) -> usize {
        // SAFETY: as above.
        unsafe { sv_edge_takes(self) as usize }
    }
}

/// The states of all paths to one destination.
pub(crate) type PathStates = Box<[PathState; MAX_LABELS]>;

/// `struct sv_paths`
#[repr(C)]
pub(crate) struct Paths<'a> {
    labels: *const u16,
    n: u32,
    /// Always 0: in simulator and lab a new schedule takes effect with the next cell.
    prompt: u16,
    offer: u16,
    states: *mut PathState,
    borrowed: PhantomData<(&'a [u16], &'a mut PathState)>,
}

impl<'a> Paths<'a> {
    /// For schemes that keep no states.
    pub(crate) fn none() -> Paths<'static> {
        Paths::new(&[], None)
    }

    /// At most [`MAX_LABELS`] labels.
    pub(crate) fn new(labels: &'a [u16], states: Option<&'a mut PathStates>) -> Paths<'a> {
        debug_assert!(labels.len() <= MAX_LABELS);
        let states = states.map_or(std::ptr::null_mut(), |states| states.as_mut_ptr());
        Paths { labels: labels.as_ptr(), n: labels.len() as u32, prompt: 0, offer: 0, states, borrowed: PhantomData }
    }
}

impl<'a> From<&'a [u16]> for Paths<'a> {
    fn from(labels: &'a [u16]) -> Paths<'a> {
        Paths::new(labels, None)
    }
}

impl<'a, const N: usize> From<&'a [u16; N]> for Paths<'a> {
    fn from(labels: &'a [u16; N]) -> Paths<'a> {
        Paths::new(labels, None)
    }
}

/// `struct sv_relay`: the feedback that one peer has yet to get.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Relay {
    told: [u32; MAX_LABELS],
    stamped: [u32; MAX_LABELS],
    stamp: [u16; MAX_LABELS],
    oneway: OneWay,
    kind: [u8; MAX_LABELS],
    value: [u8; MAX_LABELS],
    queue: [u8; MAX_LABELS],
    n: u16,
    head: u8,
    counted: u8,
}
const _: () = assert!(size_of::<Relay>() == 3344);

/// `struct sv_oneway`: the least difference of a peer's time and ours.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OneWay {
    pub(super) began: u32,
    pub(super) least: u16,
    pub(super) before: u16,
    pub(super) known: u8,
    pub(super) epoch: u8,
    pad: [u8; 2],
}
const _: () = assert!(size_of::<OneWay>() == 12);

extern "C" {
    fn sv_edge_hear(conf: *const Conf, paths: *const Paths, news: *const Feedback, now: u64);
    fn sv_edge_tick_paths(conf: *const Conf, paths: *const Paths, now: u64);
    fn sv_edge_path_bind(path: *mut PathState, rtt: u64, now: u64);
    fn sv_edge_path_age(path: *const PathState, now: u64) -> u64;
    fn sv_edge_path_congested(conf: *const balance::Conf, path: *const PathState, now: u64) -> std::ffi::c_int;
    fn sv_edge_relay_ns(conf: *const balance::Conf) -> u64;
    fn sv_edge_takes(conf: *const balance::Conf) -> u32;
    #[cfg(test)]
    fn sv_edge_relay_return(r: *mut Relay, news: *const Feedback);
    fn sv_edge_relay_note(r: *mut Relay, news: *const Feedback);
    fn sv_edge_relay_harvest(r: *mut Relay, p: *const Packet, label: u16);
    fn sv_edge_relay_arrived(r: *mut Relay, label: u16, stamp: u16, now: u64);
    fn sv_edge_relay_pay(conf: *const Conf, r: *mut Relay, now: u64, p: *mut Packet);
    fn sv_edge_stamps(conf: *const balance::Conf) -> u32;
    #[cfg(test)]
    fn sv_edge_keeps(conf: *const balance::Conf) -> std::ffi::c_int;
    #[cfg(test)]
    fn sv_edge_relay_take(conf: *const Conf, r: *mut Relay, now: u64, news: *mut Feedback) -> std::ffi::c_int;
}

/// `sv_hear`: a peer said something of the path to it whose label has the low byte `news.path`.
pub(crate) fn hear(conf: &Conf, paths: &Paths, news: Feedback, now: Time) {
    // SAFETY: `paths` points to labels and to MAX_LABELS states that it borrows; C keeps nothing, and looks the place of `news.path`
    // up among the labels.
    unsafe { sv_edge_hear(conf, paths, &news, now.as_ns()) }
}

/// `sv_tick_paths`
pub(crate) fn tick_paths(conf: &Conf, paths: &Paths, now: Time) {
    // SAFETY: as in `hear`.
    unsafe { sv_edge_tick_paths(conf, paths, now.as_ns()) }
}

impl Default for Relay {
    fn default() -> Relay {
        Relay {
            told: [0; MAX_LABELS],
            stamped: [0; MAX_LABELS],
            stamp: [0; MAX_LABELS],
            oneway: OneWay::default(),
            kind: [0; MAX_LABELS],
            value: [0; MAX_LABELS],
            queue: [0; MAX_LABELS],
            n: 0,
            head: 0,
            counted: 0,
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay({} waiting)", self.n)
    }
}

impl Relay {
    /// A packet that took `news.path` brought this.
    pub(crate) fn note(&mut self, news: Feedback) {
        // SAFETY: reads one feedback and writes one relay, whose mirrors assert the layouts; every index in it is a byte.
        unsafe { sv_edge_relay_note(self, &news) }
    }

    /// A packet arrived with that label, as [`ecn_arrives`](super::ecn_arrives) left it.
    pub(crate) fn harvest(&mut self, packet: &Packet, label: u16) {
        // SAFETY: as in `note`; reads one packet.
        unsafe { sv_edge_relay_harvest(self, packet, label) }
    }

    /// A packet arrived with that label, which had left at `stamp`.
    pub(crate) fn arrived(&mut self, label: u16, stamp: u16, now: Time) {
        // SAFETY: as in `note`.
        unsafe { sv_edge_relay_arrived(self, label, stamp, now.as_ns()) }
    }

    /// What a packet to the peer carries: feedback, of each path as often as the scheme wants it, or the time at which it leaves.
    pub(crate) fn pay(&mut self, conf: &Conf, now: Time, packet: &Packet) -> Feedback {
        let mut p = Packet { feedback: 0, feedback_path: 0, feedback_value: 0, ..*packet };
        // SAFETY: as in `note`; reads one configuration and writes one packet.
        unsafe { sv_edge_relay_pay(conf, self, now.as_ns(), &mut p) };
        Feedback { kind: p.feedback, path: p.feedback_path, value: p.feedback_value }
    }

    #[cfg(test)]
    pub(crate) fn take(&mut self, conf: &Conf, now: Time) -> Option<Feedback> {
        let mut news = Feedback::default();
        // SAFETY: as in `note`; reads one configuration.
        let taken = unsafe { sv_edge_relay_take(conf, self, now.as_ns(), &mut news) };
        (taken != 0).then_some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Balance, Parameter, SCHEMES};
    use wire::feedback::{CE, UTILISATION};

    fn conf(scheme: &str) -> Conf {
        Conf { idle_ns: 0, balance: scheme.parse::<Balance>().unwrap().conf(false) }
    }

    /// Under a scheme that tells of everything at once.
    fn take(relay: &mut Relay) -> Option<Feedback> {
        relay.take(&conf("ecmp"), Time::from_secs(1))
    }

    #[test]
    fn the_path_that_waited_longest_is_told_first_and_once() {
        let mut relay = Relay::default();
        let util = |path, value| Feedback { kind: UTILISATION, path, value };
        for news in [util(255, 1), util(0, 2), util(255, 3), Feedback { path: 7, ..Feedback::default() }] {
            relay.note(news);
        }
        assert_eq!(take(&mut relay), Some(util(255, 3)), "the newest value, in the first one's place");
        assert_eq!(take(&mut relay), Some(util(0, 2)));
        assert_eq!(take(&mut relay), None);
    }

    #[test]
    fn a_mark_stays_until_it_is_told() {
        let mut relay = Relay::default();
        let mark = Feedback { kind: CE, path: 3, value: 0 };
        relay.note(Feedback { kind: UTILISATION, path: 3, value: 9 });
        relay.note(mark);
        relay.note(Feedback { kind: UTILISATION, path: 3, value: 1 });
        assert_eq!((take(&mut relay), take(&mut relay)), (Some(mark), None));
    }

    #[test]
    fn what_did_not_leave_is_told_at_once_and_once() {
        let (mut relay, clove) = (Relay::default(), conf("clove,clove_relay=1s"));
        let give_back = |relay: &mut Relay, news: Feedback| {
            // SAFETY: as in `note`.
            unsafe { sv_edge_relay_return(relay, &news) }
        };
        let (mark, now) = (Feedback { kind: CE, path: 3, value: 0 }, Time::from_secs(5));
        relay.note(mark);
        assert_eq!(relay.take(&clove, now), Some(mark));
        give_back(&mut relay, mark);
        assert_eq!([relay.take(&clove, now), relay.take(&clove, now)], [Some(mark), None]);
        // Marked again meanwhile: that is one feedback.
        relay.note(mark);
        give_back(&mut relay, mark);
        assert_eq!([relay.take(&clove, now), relay.take(&clove, now)], [Some(mark), None]);
        // What is newer stands, and a mark is more than that.
        let util = |value| Feedback { kind: UTILISATION, path: 3, value };
        let later = Time::from_secs(7);
        relay.note(util(9));
        give_back(&mut relay, util(1));
        assert_eq!(relay.take(&clove, later), Some(util(9)));
        relay.note(util(9));
        give_back(&mut relay, mark);
        assert_eq!([relay.take(&clove, later), relay.take(&clove, later)], [Some(mark), None]);
        give_back(&mut relay, Feedback::default());
        assert_eq!(relay.take(&clove, later), None);
    }

    #[test]
    fn all_paths_can_wait_at_once_however_often_the_ring_goes_round() {
        let mut relay = Relay::default();
        for round in 0..3 {
            for path in 0..=255 {
                relay.note(Feedback { kind: UTILISATION, path, value: round });
            }
            let told: Vec<u8> = std::iter::from_fn(|| take(&mut relay)).map(|news| news.path).collect();
            assert_eq!(told, (0..=255).collect::<Vec<u8>>());
            // The next round starts elsewhere in the ring.
            relay.note(Feedback { kind: CE, path: 9, value: 0 });
            take(&mut relay);
        }
    }

    /// Simulator, lab and agent ask the table, and the program in the kernel asks C.
    #[test]
    fn the_table_and_c_agree_on_which_schemes_keep_states_of_paths() {
        let agrees = |balance: Balance| {
            // SAFETY: reads one configuration, whose mirror asserts the layout.
            let keeps = unsafe { sv_edge_keeps(&balance.conf(false)) != 0 };
            assert_eq!(keeps, balance.keeps().is_some(), "{balance}: sv_balance_wants, or `keeps` of the table");
        };
        for scheme in SCHEMES {
            agrees(Balance::new(scheme, |_| None));
            for set in scheme.parameters {
                agrees(Balance::new(scheme, |known: &Parameter| (known.name == set.name).then_some(known.most)));
            }
        }
    }

    #[test]
    fn a_path_is_told_of_once_in_a_while_and_others_are_not_kept_waiting() {
        let (mut relay, clove) = (Relay::default(), conf("clove,clove_relay=100us"));
        let mark = |path| Feedback { kind: CE, path, value: 0 };
        let mut at = |us, marked: &[u8]| {
            marked.iter().for_each(|path| relay.note(mark(*path)));
            relay.take(&clove, Time::from_us(us))
        };
        assert_eq!(at(5000, &[1]), Some(mark(1)));
        assert_eq!(at(5010, &[1, 1]), None, "twice within the interval is one feedback");
        assert_eq!(at(5020, &[2]), Some(mark(2)), "the first one waits, this one need not");
        assert_eq!([at(5030, &[2]), at(5095, &[])], [None, None]);
        assert_eq!([at(5110, &[]), at(5111, &[])], [Some(mark(1)), None], "and is not forgotten");
        assert_eq!([at(5200, &[]), at(5300, &[])], [Some(mark(2)), None]);
    }

    #[test]
    fn a_clock_that_goes_back_a_little_tells_nothing_twice() {
        let (mut relay, clove) = (Relay::default(), conf("clove,clove_relay=100us"));
        let mark = Feedback { kind: CE, path: 1, value: 0 };
        relay.note(mark);
        assert_eq!(relay.take(&clove, Time::from_us(5000)), Some(mark));
        relay.note(mark);
        // Another CPU read its clock before.
        assert_eq!(relay.take(&clove, Time::from_us(4997)), None);
        let mut path = PathState::default();
        path.bind(Time::from_us(100), 5_000_000);
        assert_eq!(PathState { heard: 5000, ..path }.age(4997 << 10), Some(Time::ZERO));
    }

    #[test]
    fn many_waiting_paths_cost_a_packet_no_more_than_eight_looks() {
        let (mut relay, clove) = (Relay::default(), conf("clove,clove_relay=1s"));
        let note = |relay: &mut Relay, path| relay.note(Feedback { kind: CE, path, value: 0 });
        let now = Time::from_secs(5);
        for path in 0..20 {
            note(&mut relay, path);
            assert!(relay.take(&clove, now).is_some());
        }
        (0..20).chain([99]).for_each(|path| note(&mut relay, path));
        let told: Vec<_> = (0..3).map(|_| relay.take(&clove, now).map(|news| news.path)).collect();
        assert_eq!(told, [None, None, Some(99)]);
        let later = Time::from_secs(7);
        let told: std::collections::BTreeSet<u8> =
            std::iter::from_fn(|| relay.take(&clove, later)).map(|news| news.path).collect();
        assert_eq!(told, (0..20).collect());
    }
}
