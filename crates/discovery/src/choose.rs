//! Which of the known paths to use.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The `k` most disjoint of `paths`, each a list of hops: greedily, each next one shares the fewest hops with those taken
/// already; ties go to the earlier one. Returns places in `paths`, in the order of choice (Clove, section 3.1).
pub fn choose<'a>(paths: &[&'a [IpAddr]], k: usize) -> Vec<usize> {
    let mut union: BTreeSet<&'a IpAddr> = BTreeSet::new();
    let mut taken = Vec::new();
    while taken.len() < k.min(paths.len()) {
        let left = (0..paths.len()).filter(|place| !taken.contains(place));
        let shared = |place: &usize| paths[*place].iter().filter(|hop| union.contains(hop)).count();
        let Some(next) = left.min_by_key(shared) else { break };
        union.extend(paths[next]);
        taken.push(next);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(names: &str) -> Vec<IpAddr> {
        names.bytes().map(|name| IpAddr::from([10, 0, 0, name])).collect()
    }

    #[test]
    fn each_next_path_shares_the_fewest_hops() {
        let paths = ["ab", "ac", "de", "db"].map(hops);
        let paths: Vec<&[IpAddr]> = paths.iter().map(Vec::as_slice).collect();
        assert_eq!(choose(&paths, 3), [0, 2, 1]);
        assert_eq!(choose(&paths, 9), [0, 2, 1, 3]);
        assert_eq!(choose(&paths, 0), [0; 0]);
        assert_eq!(choose(&[], 4), [0; 0]);
    }
}
