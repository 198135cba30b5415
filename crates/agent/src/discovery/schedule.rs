//! From paths to a schedule of labels.

use ::discovery::{index_of, Binding, Change};
use kernel::state::MAX_LABELS;

/// The schedule that follows `old`: each path once. A path keeps its place, also where it has another port now, so that flows on it
/// notice nothing else than the port. New paths take the places of those that are gone; what is left over is filled from the end.
pub(crate) fn schedule(old: &[u16], change: &Change) -> Vec<u16> {
    let path_at = |label: &u16| -> Option<&Binding> {
        // A label that was guessed names no path, whatever its number.
        let index = index_of(*label)?;
        let index = match change.moved.iter().find(|(from, _)| *from == index) {
            Some((_, to)) => *to,
            None if change.gone.contains(&index) => return None,
            None => index,
        };
        change.paths.iter().find(|path| path.index == index && !change.new.contains(&index))
    };
    let mut places: Vec<Option<u16>> = old.iter().map(|label| path_at(label).map(|path| path.port)).collect();
    let kept: Vec<u16> = places.iter().flatten().copied().collect();
    let mut rest = change.paths.iter().map(|path| path.port).filter(|port| !kept.contains(port));
    for place in places.iter_mut().filter(|place| place.is_none()) {
        *place = rest.next();
    }
    places.extend(rest.map(Some));
    // Holes are left only where all paths have a place.
    while let Some(hole) = places.iter().position(Option::is_none) {
        let last = places.pop().flatten();
        if let Some(place) = places.get_mut(hole) {
            *place = last;
        }
    }
    places.into_iter().flatten().take(MAX_LABELS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::fabric::Fabric;
    use std::collections::BTreeSet;

    fn ports(change: &Change) -> BTreeSet<u16> {
        change.paths.iter().map(|path| path.port).collect()
    }

    #[test]
    fn every_path_is_there_once_and_keeps_its_place() {
        let mut fabric = Fabric::new(3);
        let steps = [0b1111, 0b1011, 0b1111, 0b0001, 0b1111_1111];
        let told: Vec<Change> = steps.into_iter().flat_map(|up| fabric.changes(up, 40_503)).collect();
        assert!(told.len() >= 5, "{told:?}");
        let mut labels = vec![50_000, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007];
        let mut before: Option<Change> = None;
        for change in told {
            let new = schedule(&labels, &change);
            assert_eq!(new.len(), change.paths.len());
            assert_eq!(new.iter().copied().collect::<BTreeSet<u16>>(), ports(&change));
            for (place, label) in labels.iter().enumerate().take(new.len()) {
                let hops = before.iter().flat_map(|old| &old.paths).find(|path| path.port == *label);
                let now = hops.and_then(|old| change.paths.iter().find(|path| path.hops == old.hops));
                assert!(now.is_none_or(|path| path.port == new[place]), "place {place} of {labels:?}, {new:?}");
            }
            (labels, before) = (new, Some(change));
        }
        assert_eq!(labels.len(), 8);
    }

    #[test]
    fn without_paths_there_are_no_labels() {
        assert_eq!(schedule(&[50_000, 50_001], &Change::default()), [0; 0]);
    }
}
