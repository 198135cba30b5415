//! Hostile frames without a fuzzer: noise, and real frames damaged where it hurts. The same seed gives the same frames.

use crate::rng::Rng;

/// Longer noise says nothing more: no header is read beyond.
const LONGEST_NOISE: usize = 400;
/// Where damage is done: outer headers, inner headers with extensions, TCP options.
const HEADERS: usize = 200;

/// An endless stream of frames.
#[derive(Clone, Debug)]
pub struct Mutator {
    rng: Rng,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    /// `corpus`: frames to start from; with an empty one all is noise.
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Mutator {
        Mutator { rng: Rng(seed), corpus }
    }

    /// The next frame and the number of the corpus's frame that it comes from.
    pub fn frame(&mut self) -> (Vec<u8>, Option<usize>) {
        if self.corpus.is_empty() || self.below(16) == 0 {
            return (self.noise(), None);
        }
        let from = self.below(self.corpus.len());
        let mut frame = self.corpus[from].clone();
        for _ in 0..self.below(5) {
            self.damage(&mut frame);
        }
        (frame, Some(from))
    }

    /// Bytes without a meaning, more often than not behind an Ethernet header that promises one.
    fn noise(&mut self) -> Vec<u8> {
        let len = self.below(LONGEST_NOISE);
        let mut frame: Vec<u8> = (0..len).map(|_| self.next() as u8).collect();
        let ethertype = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0xa8]][self.below(4)];
        if let (Some(place), true) = (frame.get_mut(12..14), self.below(4) > 0) {
            place.copy_from_slice(&ethertype);
        }
        if let (Some(place), true) = (frame.get_mut(14), self.below(2) > 0) {
            *place = if ethertype[0] == 0x08 { 0x45 } else { 0x60 };
        }
        frame
    }

    fn damage(&mut self, frame: &mut Vec<u8>) {
        let len = frame.len();
        let at = self.below(len.clamp(1, HEADERS));
        let kind = self.below(8);
        let value = self.next();
        match kind {
            0 => frame.truncate(at),
            1 => frame.resize(len + self.below(60), value as u8),
            2 | 3 => set(frame, at, &[value as u8]),
            4 => frame.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (value % 8)),
            // What lengths and counts like least.
            5 => set(frame, at & !1, &[[0, 0], [0, 1], [0xff, 0xff], [0x7f, 0xff], [0, 20]][(value % 5) as usize]),
            6 => {
                let word = [frame.get(at & !1).copied(), frame.get(at | 1).copied()].map(Option::unwrap_or_default);
                let near = u16::from_be_bytes(word).wrapping_add((value % 9) as u16).wrapping_sub(4);
                set(frame, at & !1, &near.to_be_bytes());
            }
            // The rest of another frame.
            _ => {
                let other = self.below(self.corpus.len());
                let tail = self.corpus[other].get(at..).unwrap_or_default();
                frame.truncate(at);
                frame.extend_from_slice(tail);
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    fn next(&mut self) -> u64 {
        self.rng.next()
    }
}

/// Overwrites what lies within the frame.
fn set(frame: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in frame.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}
