use sim::queue::Key;

/// A calendar queue (Brown 1988): a year of days, each an unsorted list; it doubles or halves with the number of
/// events, and takes the width of a day from the events at hand.
pub(crate) struct Calendar<T> {
    days: Vec<Vec<(Key, T)>>,
    width_ps: u64,
    today: usize,
    /// End of today in this year.
    day_end: u64,
    len: usize,
}

impl<T: Copy> Default for Calendar<T> {
    fn default() -> Self {
        Calendar { days: vec![Vec::new(); 16], width_ps: 1_000_000, today: 0, day_end: 1_000_000, len: 0 }
    }
}

impl<T: Copy> Calendar<T> {
    fn day_of(&self, time_ps: u64) -> usize {
        ((time_ps / self.width_ps) as usize) & (self.days.len() - 1)
    }

    pub(crate) fn push(&mut self, key: Key, item: T) {
        let day = self.day_of(key.time_ps);
        self.days[day].push((key, item));
        self.len += 1;
        if self.len > 2 * self.days.len() {
            self.resize(self.days.len() * 2);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(Key, T)> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..self.days.len() {
            let due = self.days[self.today].iter().enumerate().filter(|(_, e)| e.0.time_ps < self.day_end);
            if let Some(at) = due.min_by_key(|(_, e)| e.0).map(|e| e.0) {
                return Some(self.take(self.today, at));
            }
            self.today = (self.today + 1) & (self.days.len() - 1);
            self.day_end += self.width_ps;
        }
        // Nothing for a whole year: jump to the earliest event.
        let all =
            self.days.iter().enumerate().flat_map(|(d, day)| day.iter().enumerate().map(move |(i, e)| (e.0, d, i)));
        let (key, day, at) = all.min()?;
        self.today = day;
        self.day_end = (key.time_ps / self.width_ps + 1) * self.width_ps;
        Some(self.take(day, at))
    }

    fn take(&mut self, day: usize, at: usize) -> (Key, T) {
        self.len -= 1;
        let taken = self.days[day].swap_remove(at);
        if self.days.len() > 16 && self.len < self.days.len() / 4 {
            self.resize(self.days.len() / 2);
        }
        taken
    }

    fn resize(&mut self, days: usize) {
        let mut all: Vec<_> = std::mem::take(&mut self.days).into_iter().flatten().collect();
        let start = self.day_end - self.width_ps;
        // Three times the mean gap of the nearer half, as Brown's sampling finds in effect: far timers must not
        // stretch the day.
        let middle = all.len() / 2;
        if middle > 0 {
            let (_, median, _) = all.select_nth_unstable_by_key(middle, |e| e.0);
            self.width_ps = (3 * median.0.time_ps.saturating_sub(start) / middle as u64).max(1);
        }
        self.days = vec![Vec::new(); days];
        self.today = self.day_of(start);
        self.day_end = (start / self.width_ps + 1) * self.width_ps;
        for (key, item) in all {
            let day = self.day_of(key.time_ps);
            self.days[day].push((key, item));
        }
    }
}
