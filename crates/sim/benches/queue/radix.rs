use sim::queue::Key;

/// A monotone radix heap on the time, with a sorted run for the current instant.
///
/// An event lands in the bucket of the highest bit in which its time differs from the last one popped; a bucket is
/// redistributed when it becomes the lowest.
pub(crate) struct Radix<T> {
    last: u64,
    buckets: Vec<Vec<(Key, T)>>,
    len: usize,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Radix { last: 0, buckets: (0..65).map(|_| Vec::new()).collect(), len: 0 }
    }
}

impl<T: Copy> Radix<T> {
    fn bucket(&self, time_ps: u64) -> usize {
        (64 - (time_ps ^ self.last).leading_zeros()) as usize
    }

    pub(crate) fn push(&mut self, key: Key, item: T) {
        let bucket = self.bucket(key.time_ps);
        self.buckets[bucket].push((key, item));
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(Key, T)> {
        if self.len == 0 {
            return None;
        }
        if self.buckets[0].is_empty() {
            let lowest = self.buckets.iter().position(|b| !b.is_empty())?;
            let items = std::mem::take(&mut self.buckets[lowest]);
            self.last = items.iter().map(|i| i.0.time_ps).min()?;
            for &(key, item) in &items {
                let bucket = self.bucket(key.time_ps);
                self.buckets[bucket].push((key, item));
            }
            let mut empty = items;
            empty.clear();
            self.buckets[lowest] = empty;
        }
        // All of bucket 0 is due at one instant: the order decides.
        let least = self.buckets[0].iter().enumerate().min_by_key(|(_, i)| i.0)?.0;
        self.len -= 1;
        Some(self.buckets[0].swap_remove(least))
    }
}
