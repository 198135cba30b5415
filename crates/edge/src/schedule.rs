//! Schedules: the labels of the paths to each destination, in the order in which flows take them.

use crate::native::MAX_LABELS;
use rustc_hash::FxHashMap;

/// The label lists of all destinations. List 0 is the default one.
#[derive(Debug)]
pub(crate) struct Schedules {
    lists: Vec<Box<[u16]>>,
    by_destination: FxHashMap<[u32; 4], u32>,
}

impl Schedules {
    pub(crate) fn new() -> Schedules {
        Schedules { lists: vec![Box::default()], by_destination: FxHashMap::default() }
    }

    pub(crate) fn set_default(&mut self, labels: &[u16]) {
        self.lists[0] = bounded(labels);
    }

    pub(crate) fn set(&mut self, daddr: [u32; 4], labels: &[u16]) {
        let next = self.lists.len() as u32;
        let id = *self.by_destination.entry(daddr).or_insert(next);
        match self.lists.get_mut(id as usize) {
            Some(list) => *list = bounded(labels),
            None => self.lists.push(bounded(labels)),
        }
    }

    /// The list for a destination; stays the same until the number of lists changes.
    pub(crate) fn find(&self, daddr: &[u32; 4]) -> u32 {
        self.by_destination.get(daddr).copied().unwrap_or(0)
    }

    pub(crate) fn labels(&self, id: u32) -> &[u16] {
        &self.lists[id as usize]
    }

    /// Grows whenever [`find`](Schedules::find) may give another answer than before.
    pub(crate) fn generation(&self) -> u32 {
        self.lists.len() as u32
    }
}

fn bounded(labels: &[u16]) -> Box<[u16]> {
    labels[..labels.len().min(MAX_LABELS)].into()
}
