//! Settings of the reordering engine: the timeout of a gap, and bounds on held segments.

use units::{Bytes, Time};

/// How long a segment behind a gap between flowcells waits for the gap to fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// From the first flush that holds the segment.
    Fixed(Time),
    /// Presto section 3.2: per-flow average of the durations of gaps that did fill, gain 1/8.
    ///
    /// Fires once the segment has waited `alpha` times the average and nothing was merged into it during the last
    /// average / `beta`.
    Adaptive {
        /// The average before the first sample; must not be zero.
        start: Time,
        /// Bounds of the average.
        min: Time,
        max: Time,
        alpha: u32,
        beta: u32,
        /// Also sample gaps that fill after they timed out. The paper says that it follows reordering, and not how.
        late: bool,
    },
}

impl Timeout {
    /// The adaptive timeout with the paper's alpha = beta = 2, starting at 500 us within 50 us to 10 ms (the paper
    /// does not state these three).
    pub const ADAPTIVE: Timeout = Timeout::Adaptive {
        start: Time::from_us(500),
        min: Time::from_us(50),
        max: Time::from_ms(10),
        alpha: 2,
        beta: 2,
        late: false,
    };
}

/// Settings of the reordering engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Default fixed, 500 us.
    pub timeout: Timeout,
    /// Keep Algorithm 2 as printed: cases 2(b) and 3 leave the expected sequence number alone even when the segment
    /// covers it. Default false.
    pub literal: bool,
    /// Payload held per flow; beyond it everything of the flow is pushed in order. Default 1 MiB.
    pub flow_bytes: Bytes,
    /// Slots held over all flows. Default 65536.
    pub total_slots: usize,
}

impl Config {
    /// Segments of one flow that are not released yet: a bound on the search for the one that a packet continues.
    pub const MAX_SEGMENTS: usize = 1024;
}

impl Default for Config {
    fn default() -> Config {
        Config {
            timeout: Timeout::Fixed(Time::from_us(500)),
            literal: false,
            flow_bytes: Bytes::kib(1024),
            total_slots: 65_536,
        }
    }
}
