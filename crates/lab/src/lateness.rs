//! How far the lab ran behind the wall clock, and whether its results can be believed.

use units::Time;

/// Sixteen steps per power of two: a value is known to 6%.
const STEPS: u32 = 4;
const BUCKETS: usize = (64 - STEPS as usize) << STEPS;

/// A histogram of delays. The lab's is of each frame handed to a host after its time in the model, and of each frame
/// read from a host after it may have arrived; the traffic generator's is of each timer of a host's program.
#[derive(Clone, Debug)]
pub struct Lateness {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { buckets: Box::new([0; BUCKETS]), count: 0, max_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    let octave = 63 - (ns | 1).leading_zeros();
    if octave < STEPS {
        return ns as usize;
    }
    let within = (ns >> (octave - STEPS)) & ((1 << STEPS) - 1);
    (((octave - STEPS + 1) << STEPS) as usize + within as usize).min(BUCKETS - 1)
}

/// The largest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let (octave, within) = (bucket as u32 >> STEPS, bucket as u64 & ((1 << STEPS) - 1));
    match octave.checked_sub(1) {
        None => within,
        Some(shift) => (((1 << STEPS) + within + 1) << shift) - 1,
    }
}

impl Lateness {
    #[inline]
    pub fn note(&mut self, late: Time, frames: u64) {
        let ns = late.as_ns();
        self.buckets[bucket(ns)] += frames;
        self.count += frames;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn add(&mut self, other: &Lateness) {
        self.buckets.iter_mut().zip(other.buckets.iter()).for_each(|(sum, &n)| *sum += n);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The value that a share of all frames, such as 0.99, did not exceed; never above the true maximum.
    pub fn quantile(&self, share: f64) -> Time {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (i, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank.max(1) {
                return Time::from_ns(upper(i).min(self.max_ns));
            }
        }
        Time::from_ns(self.max_ns)
    }

    pub fn count(&self) -> u64 {
        self.count
    }
    pub fn max(&self) -> Time {
        Time::from_ns(self.max_ns)
    }

    /// What it means where packets take `rtt` there and back.
    pub fn verdict(&self, rtt: Time) -> Verdict {
        Verdict {
            frames: self.count,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: self.max(),
            programs_p99: None,
            rtt,
            limit: Time::from_ps(rtt.as_ps() / 100 * u64::from(LIMIT_PERCENT)),
        }
    }
}

/// The share of the round-trip time that the 99th percentile of lateness may reach.
pub const LIMIT_PERCENT: u32 = 10;

/// Whether the machine kept up.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// Frames measured.
    pub frames: u64,
    pub p50: Time,
    pub p99: Time,
    pub max: Time,
    /// How late hosts' programs ran, where these are the lab's own and enough of it is known.
    pub programs_p99: Option<Time>,
    /// The shortest round trip without load between hosts that matter.
    pub rtt: Time,
    /// [`LIMIT_PERCENT`] of it.
    pub limit: Time,
}

/// Below this many samples their 99th percentile says nothing.
const ENOUGH: u64 = 100;

impl Verdict {
    /// Judges the programs that made the traffic, too: what they send or read late is late however well the lab keeps up.
    pub fn with_programs(self, late: &Lateness) -> Verdict {
        Verdict { programs_p99: (late.count >= ENOUGH).then(|| late.quantile(0.99)), ..self }
    }

    /// What the limit holds for.
    fn judged(&self) -> impl Iterator<Item = (&'static str, Time)> {
        [("p99", Some(self.p99)), ("programs p99", self.programs_p99)]
            .into_iter()
            .filter_map(|(name, late)| Some((name, late?)))
    }

    /// Results count: at least one frame, 99% of them at most the limit late, and programs no later than that.
    pub fn is_valid(&self) -> bool {
        self.frames > 0 && self.judged().all(|(_, late)| late <= self.limit)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |t: Time| format!("{:.0}us", t.as_us_f64());
        if self.frames == 0 {
            return f.write_str("no frames yet: nothing to judge");
        }
        let valid = self.is_valid();
        let share = |(name, late): (&str, Time)| {
            format!("{name} is {:.1}%", late.as_ps() as f64 / self.rtt.as_ps().max(1) as f64 * 100.0)
        };
        // Of results that do not count, what is at fault.
        let named: Vec<String> = self.judged().filter(|(_, late)| valid || *late > self.limit).map(share).collect();
        let word = if valid { "valid" } else { "NOT VALID" };
        write!(f, "{word}: lateness p50 {}, p99 {}, max {}; ", us(self.p50), us(self.p99), us(self.max))?;
        if let Some(programs) = self.programs_p99 {
            write!(f, "programs p99 {}; ", us(programs))?;
        }
        let named = named.join(" and ");
        write!(f, "{named} of the shortest RTT of {}, {LIMIT_PERCENT}% is allowed", us(self.rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for ns in (0..2000).chain((11..63).flat_map(|s| [(1u64 << s) - 1, 1 << s, (1 << s) + 12345])) {
            let b = bucket(ns);
            assert!(ns <= upper(b) && (b == 0 || ns > upper(b - 1)), "{ns} in {b}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_to_a_sixteenth() {
        let mut late = Lateness::default();
        (1..=1000).for_each(|us| late.note(Time::from_us(us), 1));
        for (share, us) in [(0.5, 500.0), (0.99, 990.0)] {
            let got = late.quantile(share).as_us_f64();
            assert!(got >= us && got <= us * 1.07, "{got} for {us}");
        }
        assert_eq!((late.quantile(1.0), late.max(), late.count()), (Time::from_us(1000), Time::from_us(1000), 1000));
    }

    #[test]
    fn of_what_does_not_count_the_measure_at_fault_is_named() {
        let verdict = |p99: u64, programs: Option<u64>| {
            let [p50, p99, max] = [12, p99, 900].map(Time::from_us);
            let (rtt, limit) = (Time::from_us(2561), Time::from_ns(256_100));
            let text =
                Verdict { frames: 9, p50, p99, max, programs_p99: programs.map(Time::from_us), rtt, limit }.to_string();
            text.rsplit_once("; ").unwrap().1.to_owned()
        };
        let rest = "of the shortest RTT of 2561us, 10% is allowed";
        assert_eq!(verdict(51, Some(377)), format!("programs p99 is 14.7% {rest}"));
        assert_eq!(verdict(377, Some(51)), format!("p99 is 14.7% {rest}"));
        assert_eq!(verdict(377, Some(377)), format!("p99 is 14.7% and programs p99 is 14.7% {rest}"));
        assert_eq!(verdict(51, Some(51)), format!("p99 is 2.0% and programs p99 is 2.0% {rest}"));
        assert_eq!(verdict(51, None), format!("p99 is 2.0% {rest}"));
    }

    #[test]
    fn a_tenth_of_the_round_trip_is_the_limit() {
        let mut late = Lateness::default();
        let rtt = Time::from_ms(2);
        assert!(!late.verdict(rtt).is_valid(), "nothing measured proves nothing");
        late.note(Time::from_us(150), 99);
        late.note(Time::from_ms(50), 1);
        assert!(late.verdict(rtt).is_valid(), "{}", late.verdict(rtt));
        let punctual = late.verdict(rtt);
        late.note(Time::from_ms(50), 1);
        assert!(!late.verdict(rtt).is_valid(), "{}", late.verdict(rtt));

        let mut programs = Lateness::default();
        programs.note(Time::from_ms(50), 99);
        assert!(punctual.with_programs(&programs).is_valid(), "too few to tell");
        programs.add(&programs.clone());
        assert!(!punctual.with_programs(&programs).is_valid(), "the machine was late elsewhere");
    }
}
