//! Source ports that name their path's index (docs/wire.md): `0xC000 | six free bits << 8 | index`.

use rand_core::Rng;
use rand_pcg::Pcg32;
use std::collections::BTreeSet;

const LABELS: u16 = 0xC000;
/// Ports of one index.
const SAME: u16 = 64;

/// The index that a port names. A port that is no label names none.
pub fn index_of(port: u16) -> Option<u8> {
    (port >= LABELS).then_some(port as u8)
}

/// Candidates of one survey or check, without repetition.
#[derive(Debug, Default)]
pub(crate) struct Ports(BTreeSet<u16>);

impl Ports {
    pub(crate) fn add(&mut self, port: u16) {
        self.0.insert(port);
    }

    /// `n` ports of an index, beginning at a random one.
    pub(crate) fn add_of_index(&mut self, index: u8, n: u16, rng: &mut Pcg32) {
        let first = rng.next_u32() as u16;
        for k in 0..n.min(SAME) {
            self.0.insert(LABELS | ((first.wrapping_add(k) % SAME) << 8) | u16::from(index));
        }
    }

    /// Up to `n` in all: each further one with an index that none of these has, nor `taken`.
    pub(crate) fn fill(&mut self, n: usize, taken: &BTreeSet<u8>, rng: &mut Pcg32) {
        let mut used: BTreeSet<u8> =
            self.0.iter().filter_map(|port| index_of(*port)).chain(taken.iter().copied()).collect();
        let first = rng.next_u32() as u8;
        // An odd step visits every index once.
        let step = rng.next_u32() as u8 | 1;
        for k in 0..=u8::MAX {
            if self.0.len() >= n {
                return;
            }
            let index = first.wrapping_add(step.wrapping_mul(k));
            if used.insert(index) {
                self.add_of_index(index, 1, rng);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_have_indices_of_their_own() {
        let (mut rng, mut ports) = (Pcg32::new(1, 1), Ports::default());
        ports.add(0xC000 | 7);
        ports.fill(64, &BTreeSet::from([8]), &mut rng);
        let indices: BTreeSet<u8> = ports.iter().filter_map(index_of).collect();
        assert_eq!((ports.iter().count(), indices.len()), (64, 64));
        assert!(indices.contains(&7) && !indices.contains(&8));
        ports.fill(1000, &BTreeSet::new(), &mut rng);
        assert_eq!(ports.iter().count(), 256, "there are no more indices");
    }

    #[test]
    fn ports_of_an_index_name_it() {
        let (mut rng, mut ports) = (Pcg32::new(2, 1), Ports::default());
        ports.add_of_index(200, 1000, &mut rng);
        assert_eq!(ports.iter().count(), 64);
        assert!(ports.iter().all(|port| index_of(port) == Some(200)));
        assert_eq!(index_of(0xBFFF), None);
    }
}
