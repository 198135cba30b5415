//! How often flowcells interleave as TCP sees them (Presto Fig. 5a).

use crate::connection::EndId;
use std::collections::BTreeMap;

/// Of all connections.
#[derive(Debug, Default)]
pub(crate) struct Disorders {
    open: BTreeMap<u32, Disorder>,
    /// Of connections that are closed.
    closed: Vec<u32>,
}

/// Counts, for one connection's data as TCP sees it, the segments of other flowcells that came between the first and
/// the last segment of each flowcell.
#[derive(Debug, Default)]
struct Disorder {
    seen: u32,
    /// Flowcell -> index of its first and last segment, and how many it had.
    cells: BTreeMap<u32, (u32, u32, u32)>,
}

impl Disorder {
    fn note(&mut self, cell: u32) {
        let entry = self.cells.entry(cell).or_insert((self.seen, self.seen, 0));
        entry.1 = self.seen;
        entry.2 += 1;
        self.seen += 1;
    }
    fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.cells.values().map(|(first, last, own)| last - first + 1 - own)
    }
}

impl Disorders {
    /// A data segment of a flowcell reached an end.
    pub(crate) fn note(&mut self, end: EndId, cell: u32) {
        self.open.entry(end.0).or_default().note(cell);
    }

    /// The end's number will name another connection, whose flowcells count from zero again.
    pub(crate) fn forget(&mut self, end: EndId) {
        if let Some(disorder) = self.open.remove(&end.0) {
            self.closed.extend(disorder.counts());
        }
    }

    /// One count per flowcell: open connections by number, then the closed ones.
    pub(crate) fn into_counts(self) -> Vec<u32> {
        self.open.values().flat_map(Disorder::counts).chain(self.closed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disorder_counts_strangers_between_a_cells_first_and_last_segment() {
        let counts = |cells: &[u32]| {
            let mut d = Disorder::default();
            cells.iter().for_each(|&c| d.note(c));
            d.counts().collect::<Vec<_>>()
        };
        assert_eq!(counts(&[0, 0, 1, 1]), [0, 0]);
        assert_eq!(counts(&[0, 1, 0, 1, 1]), [1, 1]);
        assert_eq!(counts(&[0, 1, 1, 1, 0]), [3, 0]);
    }
}
