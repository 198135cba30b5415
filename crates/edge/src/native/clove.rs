//! Tests of `clove.h`: the tables of its specification, and what must hold whatever is heard.

use super::PathState;
use proptest::prelude::*;

extern "C" {
    fn sv_edge_clove_mark(path: *mut PathState, n: u32, at: u32, deaf: u32, clear: u32, tick: u32);
    fn sv_edge_clove_all_congested(path: *const PathState, n: u32, clear: u32, tick: u32) -> std::ffi::c_int;
    fn sv_edge_clove_next(path: *mut PathState, n: u32) -> u32;
    fn sv_edge_clove_recover(path: *mut PathState, n: u32, after: u32, tick: u32);
    fn sv_edge_clove_utilised(path: *mut PathState, value: u8, tick: u32);
    fn sv_edge_clove_least(path: *mut PathState, n: u32, clear: u32, tick: u32) -> u32;
}

const MOST: usize = 64;
const ONE: u32 = 65_536;
const FLOOR: u32 = 655;
/// Ticks without a mark after which a path is free.
const CLEAR: u32 = 100;
/// Ticks within which marks are one.
const DEAF: u32 = 5;
/// Ticks without a mark after which a path gets something back.
const RECOVER: u32 = 1000;

/// Paths to one destination.
struct Paths {
    all: [PathState; MOST],
    n: u32,
}

impl Paths {
    /// Of which nothing is known.
    fn new(n: u32) -> Paths {
        Paths { all: [PathState::default(); MOST], n }
    }

    fn mark(&mut self, at: u32, tick: u32) {
        // SAFETY: room for SV_CLOVE_PATHS paths, as for every call below; `at` may be anything.
        unsafe { sv_edge_clove_mark(self.all.as_mut_ptr(), self.n, at, DEAF, CLEAR, tick) }
    }

    fn all_congested(&self, tick: u32) -> bool {
        // SAFETY: see above.
        unsafe { sv_edge_clove_all_congested(self.all.as_ptr(), self.n, CLEAR, tick) != 0 }
    }

    fn next(&mut self) -> usize {
        // SAFETY: see above.
        unsafe { sv_edge_clove_next(self.all.as_mut_ptr(), self.n) as usize }
    }

    fn recover(&mut self, after: u32, tick: u32) {
        // SAFETY: see above.
        unsafe { sv_edge_clove_recover(self.all.as_mut_ptr(), self.n, after, tick) }
    }

    fn utilised(&mut self, at: usize, value: u8, tick: u32) {
        // SAFETY: writes one path.
        unsafe { sv_edge_clove_utilised(&mut self.all[at], value, tick) }
    }

    fn least(&mut self, tick: u32) -> usize {
        // SAFETY: as for `mark`; CLEAR is not 0.
        unsafe { sv_edge_clove_least(self.all.as_mut_ptr(), self.n, CLEAR, tick) as usize }
    }

    fn weights(&self) -> Vec<u32> {
        self.all[..self.n as usize].iter().map(|path| path.weight).collect()
    }

    /// In 1/10,000.
    fn shares(&self) -> Vec<u32> {
        self.weights().iter().map(|weight| (weight * 10_000 + ONE / 2) / ONE).collect()
    }

    fn hold(&self) -> Result<(), TestCaseError> {
        let weights = self.weights();
        prop_assert_eq!(weights.iter().sum::<u32>(), ONE);
        prop_assert!(weights.iter().all(|weight| *weight >= FLOOR), "{:?}", weights);
        Ok(())
    }
}

#[test]
fn a_mark_moves_a_third_to_the_paths_that_are_free() {
    let mut paths = Paths::new(4);
    paths.mark(0, 10);
    assert_eq!(paths.shares(), [1667, 2778, 2778, 2778]);
    paths.mark(1, 20);
    assert_eq!(paths.shares(), [1667, 1852, 3241, 3241]);
}

#[test]
fn where_all_paths_are_congested_shares_stay() {
    let mut paths = Paths::new(3);
    paths.mark(0, 10);
    paths.mark(1, 10);
    let before = paths.weights();
    assert!(!paths.all_congested(10));
    paths.mark(2, 10);
    paths.mark(0, 20);
    assert!(paths.all_congested(20));
    assert_eq!(paths.weights(), before);
    // Without marks for long enough they are free again, and shares stay: nothing says that they should be otherwise.
    assert!(paths.all_congested(10 + CLEAR) && !paths.all_congested(11 + CLEAR));
    assert_eq!(paths.weights(), before);
    assert!(!Paths::new(0).all_congested(1));
}

#[test]
fn marks_that_come_at_once_are_one() {
    let mut paths = Paths::new(4);
    for tick in [10, 11, 14] {
        paths.mark(0, tick);
        assert_eq!(paths.shares(), [1667, 2778, 2778, 2778]);
    }
    paths.mark(0, 10 + DEAF);
    assert_eq!(paths.shares()[0], 1111);
}

#[test]
fn a_clock_that_goes_back_a_little_frees_no_path() {
    let mut paths = Paths::new(2);
    paths.mark(0, 10);
    paths.mark(1, 12);
    let before = paths.weights();
    // Another CPU read its clock before these marks, and has the lock after them.
    assert!(paths.all_congested(9));
    paths.mark(0, 8);
    assert_eq!((paths.all[0].marks, paths.weights()), (1, before), "the same mark, and none that finds a free path");
    paths.utilised(0, 255, 20);
    paths.utilised(1, 100, 20);
    assert_eq!(paths.least(19), 1, "what is known is not old");
    // What is long ago is not in the future.
    assert!(!paths.all_congested(u32::MAX / 2) && !paths.all_congested(10u32.wrapping_sub(5000)));
}

#[test]
fn without_marks_shares_drift_back_to_equal_ones() {
    let mut paths = Paths::new(4);
    (0..20).for_each(|n| paths.mark(0, n * DEAF));
    let last = 19 * DEAF;
    assert_eq!(paths.weights()[0], FLOOR);
    let low = paths.weights();
    paths.recover(0, last + 50 * RECOVER);
    paths.recover(RECOVER, last + RECOVER - 1);
    assert_eq!(paths.weights(), low, "not when it is off, and not before its time");
    paths.recover(RECOVER, last + RECOVER);
    let an_eighth = (ONE / 4 - FLOOR).div_ceil(8);
    assert_eq!(paths.weights()[0], FLOOR + an_eighth);
    paths.recover(RECOVER, last + RECOVER);
    assert_eq!(paths.weights()[0], FLOOR + an_eighth, "once in that time");
    // A mark begins the time anew.
    paths.mark(0, last + 2 * RECOVER - 1);
    let marked = paths.weights();
    paths.recover(RECOVER, last + 2 * RECOVER);
    assert_eq!(paths.weights(), marked);
    // What nobody used for long is forgotten at once.
    paths.recover(RECOVER, last + 20 * RECOVER);
    assert_eq!(paths.weights(), [ONE / 4; 4]);
}

#[test]
fn flowlets_follow_the_shares_smoothly() {
    let mut paths = Paths::new(3);
    for (path, weight) in paths.all.iter_mut().zip([ONE / 2, ONE / 4, ONE / 4]) {
        path.weight = weight;
    }
    let taken: Vec<usize> = (0..8).map(|_| paths.next()).collect();
    assert_eq!(taken, [0, 1, 2, 0, 0, 1, 2, 0]);
}

#[test]
fn a_path_that_is_always_marked_keeps_its_floor() {
    let mut paths = Paths::new(4);
    for n in 0..1000 {
        paths.mark(0, n * DEAF);
    }
    assert_eq!(paths.weights()[0], FLOOR);
    let taken = (0..1000).filter(|_| paths.next() == 0).count();
    assert!((9..=11).contains(&taken), "{taken} of 1000");
}

#[test]
fn a_new_path_gets_the_mean_and_what_was_one_s_that_is_gone_goes_to_all() {
    let mut paths = Paths::new(4);
    paths.mark(0, 10);
    paths.n = 3; // the fourth is gone: what was above the floor of the others is scaled
    paths.next();
    assert_eq!(paths.shares(), [2296, 3852, 3852]);
    paths.all[1] = PathState::default(); // another path under the second index
    paths.next();
    let shares = paths.shares();
    assert!(shares[0] < shares[1] && shares[1] < shares[2] && shares[1].abs_diff(3333) < 50, "{shares:?}");
}

#[test]
fn flowlets_take_the_least_utilised_path_and_equals_in_turn() {
    let mut paths = Paths::new(3);
    assert_eq!([0; 6].map(|_| paths.least(7)), [0, 1, 2, 0, 1, 2], "nothing is known");
    for (at, value) in [178, 51, 230].into_iter().enumerate() {
        paths.utilised(at, value, 10);
    }
    assert_eq!([0; 3].map(|_| paths.least(11)), [1; 3]);
    paths.utilised(1, 240, 20);
    assert_eq!([0; 3].map(|_| paths.least(21)), [0; 3]);
    // Of the third nothing is heard any more: what is known of it halves, until it is worth a flowlet.
    paths.utilised(0, 178, 10 + CLEAR);
    paths.utilised(1, 240, 10 + CLEAR);
    assert_eq!(paths.least(10 + CLEAR), 2);
}

/// Loads of paths under a constant load, until marks stop: a path is marked while it has more than its capacity.
fn rounds_to_rest(capacity: &[u32], load: u64) -> Option<u32> {
    let mut paths = Paths::new(capacity.len() as u32);
    paths.next();
    (0..1000u32).find(|round| {
        let weights = paths.weights();
        let over: Vec<usize> = (0..capacity.len())
            .filter(|i| u64::from(weights[*i]) * load > u64::from(capacity[*i]) * u64::from(ONE))
            .collect();
        over.iter().for_each(|at| paths.mark(*at as u32, round * DEAF));
        over.is_empty()
    })
}

#[test]
fn the_papers_asymmetry_comes_to_rest_after_two_rounds_of_marks() {
    // Two spines; of the second one's two links to the other leaf one is down: its two paths share 40G.
    assert_eq!(rounds_to_rest(&[40, 40, 20, 20], 112), Some(2));
}

proptest! {
    /// Marks on any path, also on such as are not there, at any time, in any order and however often, and paths that come and go:
    /// shares have the same sum, none is below the floor, and no path gets far ahead of its share.
    #[test]
    fn shares_always_sum_to_one(
        mut n in 1u32..=64,
        heard in proptest::collection::vec((0u32..70, any::<u32>(), 0u8..4, 0u8..20, 1u32..=64), 0..300),
        after in 0u32..400,
    ) {
        let mut paths = Paths::new(n);
        let mut now = 0u32;
        for (at, pause, flowlets, event, other) in heard {
            now = now.wrapping_add(pause % 300);
            match event {
                0 => n = other,
                1 => paths.all[other as usize % MOST] = PathState::default(),
                _ => {}
            }
            for gone in n as usize..MOST {
                paths.all[gone] = PathState::default();
            }
            paths.n = n;
            prop_assert!(paths.next() < n as usize);
            paths.hold()?;
            paths.mark(at, now);
            paths.hold()?;
            paths.recover(after, now);
            paths.hold()?;
            for _ in 0..flowlets {
                prop_assert!(paths.next() < n as usize);
            }
            paths.hold()?;
            prop_assert!(paths.all.iter().all(|path| path.turn.unsigned_abs() <= 2 * ONE));
        }
    }

    /// Whatever marks have made of shares, without further ones they become equal, and no path's goes away from that meanwhile.
    #[test]
    fn shares_come_back(n in 1u32..=64, marks in proptest::collection::vec((0u32..64, 0u32..200), 0..200), after in 1u32..400) {
        let (mut paths, mut now) = (Paths::new(n), 0);
        paths.next();
        for (at, pause) in marks {
            now += pause;
            paths.mark(at, now);
        }
        let mean = ONE / n;
        for _ in 0..200 {
            let before = paths.weights();
            now += after;
            paths.recover(after, now);
            paths.hold()?;
            let closer = before.iter().zip(paths.weights()).all(|(old, new)| new.abs_diff(mean) <= old.abs_diff(mean));
            prop_assert!(closer, "{:?} {:?}", before, paths.weights());
        }
        prop_assert!(paths.weights().iter().all(|weight| *weight >= mean), "{:?}", paths.weights());
    }

    /// Any constant load of up to 60% of what 2 to 8 paths can carry, none of which has less than a quarter of the largest: within 64
    /// rounds of marks none has more than it carries, so no mark comes that could move a weight.
    #[test]
    fn a_constant_load_comes_to_rest(capacity in proptest::collection::vec(25u32..=100, 2..=8), percent in 1u64..=60) {
        let load = u64::from(capacity.iter().sum::<u32>()) * percent / 100;
        let rounds = rounds_to_rest(&capacity, load);
        prop_assert!(rounds.is_some_and(|rounds| rounds <= 64), "{:?}", rounds);
    }
}
