//! From paths to a schedule of labels.

use ::discovery::Change;
use kernel::state::MAX_LABELS;

/// The ports of [`discovery::schedule`]: what is known of paths follows them elsewhere ([`crate::paths`]).
pub(crate) fn schedule(old: &[u16], change: &Change) -> Vec<u16> {
    ::discovery::schedule(old, change, MAX_LABELS).into_iter().map(|place| place.port).collect()
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
