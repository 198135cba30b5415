//! Tests of `clove.h`: the tables of its specification, and what must hold whatever is heard.

use proptest::prelude::*;

/// `struct sv_clove_path`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    weight: u32,
    turn: i32,
    marked: u32,
    congested: u8,
    pad: [u8; 3],
}

extern "C" {
    fn sv_edge_clove_begin(path: *mut Path, n: u32);
    fn sv_edge_clove_mark(path: *mut Path, n: u32, at: u32, clear: u32, tick: u32) -> u32;
    fn sv_edge_clove_clear(path: *mut Path, n: u32, clear: u32, tick: u32) -> u32;
    fn sv_edge_clove_next(path: *mut Path, n: u32) -> u32;
}

const MOST: usize = 64;
const ONE: u32 = 65_536;
/// Ticks without a mark after which a path is free.
const CLEAR: u32 = 100;

/// Paths to one destination.
struct Paths {
    all: [Path; MOST],
    n: u32,
}

impl Paths {
    fn new(n: u32) -> Paths {
        let mut all = [Path::default(); MOST];
        // SAFETY: room for SV_CLOVE_PATHS paths, as for every call below.
        unsafe { sv_edge_clove_begin(all.as_mut_ptr(), n) };
        Paths { all, n }
    }

    fn mark(&mut self, at: u32, tick: u32) -> u32 {
        // SAFETY: see above; `at` may be anything.
        unsafe { sv_edge_clove_mark(self.all.as_mut_ptr(), self.n, at, CLEAR, tick) }
    }

    fn clear(&mut self, tick: u32) -> u32 {
        // SAFETY: see above.
        unsafe { sv_edge_clove_clear(self.all.as_mut_ptr(), self.n, CLEAR, tick) }
    }

    fn next(&mut self) -> usize {
        // SAFETY: see above.
        unsafe { sv_edge_clove_next(self.all.as_mut_ptr(), self.n) as usize }
    }

    fn weights(&self) -> Vec<u32> {
        self.all[..self.n as usize].iter().map(|path| path.weight).collect()
    }

    /// In 1/10,000.
    fn shares(&self) -> Vec<u32> {
        self.weights().iter().map(|weight| (weight * 10_000 + ONE / 2) / ONE).collect()
    }
}

#[test]
fn a_mark_moves_a_third_to_the_paths_that_are_free() {
    let mut paths = Paths::new(4);
    assert_eq!(paths.mark(0, 10), 1);
    assert_eq!(paths.shares(), [1667, 2778, 2778, 2778]);
    assert_eq!(paths.mark(1, 20), 2);
    assert_eq!(paths.shares(), [1667, 1852, 3241, 3241]);
}

#[test]
fn where_all_paths_are_congested_shares_stay() {
    let mut paths = Paths::new(3);
    assert_eq!([paths.mark(0, 10), paths.mark(1, 10)], [1, 2]);
    let before = paths.weights();
    assert_eq!([paths.mark(2, 10), paths.mark(0, 10)], [3, 3]);
    assert_eq!(paths.weights(), before);
    // Without marks for long enough all are free again, and shares stay: nothing says that they should be otherwise.
    assert_eq!((paths.clear(10 + CLEAR), paths.clear(11 + CLEAR)), (3, 0));
    assert_eq!(paths.weights(), before);
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
    for tick in 0..1000 {
        paths.mark(0, tick);
    }
    assert_eq!(paths.weights()[0], ONE / 100);
    let taken = (0..1000).filter(|_| paths.next() == 0).count();
    assert!((9..=11).contains(&taken), "{taken} of 1000");
}

proptest! {
    /// Marks on any path, also on such as are not there, at any time: shares have the same sum, none is below the floor, and
    /// no path gets far ahead of its share.
    #[test]
    fn shares_always_sum_to_one(n in 1u32..=64, heard in proptest::collection::vec((0u32..70, any::<u32>(), 0u8..4), 0..400)) {
        let mut paths = Paths::new(n);
        let floor = (ONE / 100).min(ONE / n);
        let mut now = 0u32;
        for (at, pause, flowlets) in heard {
            now = now.wrapping_add(pause % 300);
            paths.mark(at, now);
            for _ in 0..flowlets {
                prop_assert!(paths.next() < n as usize);
            }
            let weights = paths.weights();
            prop_assert_eq!(weights.iter().sum::<u32>(), ONE);
            prop_assert!(weights.iter().all(|weight| *weight >= floor), "{:?}", weights);
            prop_assert!(paths.all.iter().all(|path| path.turn.unsigned_abs() <= 2 * ONE));
        }
    }
}
