//! Slowdown by range of flow size.

use units::Bytes;

/// Ranges of flow sizes, each up to and including its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    bounds: Vec<u64>,
}

/// One range of flow sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// `to_10KB`, or `above_10MB` for the last.
    pub name: String,
    above: Option<u64>,
    to: Option<u64>,
}

impl Buckets {
    /// Bounds in bytes in any order, repeats ignored; no bound makes one bucket, `all_sizes`.
    pub fn new(bounds: &[u64]) -> Buckets {
        let mut bounds = bounds.to_vec();
        bounds.sort_unstable();
        bounds.dedup();
        Buckets { bounds }
    }

    /// From small to large.
    pub fn list(&self) -> Vec<Bucket> {
        let mut list = Vec::with_capacity(self.bounds.len() + 1);
        let mut above = None;
        for &to in &self.bounds {
            list.push(Bucket { name: format!("to_{}", Bytes(to)), above, to: Some(to) });
            above = Some(to);
        }
        let name = above.map_or_else(|| "all_sizes".to_owned(), |bound| format!("above_{}", Bytes(bound)));
        list.push(Bucket { name, above, to: None });
        list
    }
}

impl Bucket {
    pub fn holds(&self, size: u64) -> bool {
        self.above.is_none_or(|above| size > above) && self.to.is_none_or(|to| size <= to)
    }
}

impl Default for Buckets {
    /// Up to 10 KB, 100 KB, 1 MB, 10 MB, and above.
    fn default() -> Buckets {
        Buckets::new(&[10_000, 100_000, 1_000_000, 10_000_000])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_one_bucket() {
        let buckets = Buckets::default().list();
        let names: Vec<&str> = buckets.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["to_10KB", "to_100KB", "to_1MB", "to_10MB", "above_10MB"]);
        let index = |size| {
            let hits: Vec<usize> = (0..5).filter(|&i| buckets[i].holds(size)).collect();
            assert_eq!(hits.len(), 1, "{size}");
            hits[0]
        };
        assert_eq!([1, 10_000, 10_001, 1_000_000, 10_000_000, u64::MAX].map(index), [0, 0, 1, 2, 3, 4]);
        assert_eq!(Buckets::new(&[]).list()[0].name, "all_sizes");
    }
}
