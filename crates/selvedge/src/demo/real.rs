//! Real traffic of a limited container, behind one limiter after the other.

use super::agent::{Agent, Law};
use super::network::Network;
use super::traffic::{self, Phases, Seen};
use crate::report::Cdf;
use crate::{doctor, kernel_edge};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use units::BitRate;

/// Of the container, both ways.
pub(super) const RATE: BitRate = BitRate::from_mbps(300);

/// What keeps the container to its rate.
pub(super) struct Limiter {
    pub(super) name: &'static str,
    /// In files.
    pub(super) key: &'static str,
    pub(super) note: &'static str,
    pub(super) law: Law,
}

/// In the order in which they are measured; others are compared with the first.
pub(super) const LIMITERS: [Limiter; 2] = [
    Limiter {
        name: "plain HTB",
        key: "htb",
        note: "the kernel's limiter, with a queue of at most 100 ms",
        law: Law { name: "none", sparse_first: false },
    },
    Limiter {
        name: "Selvedge",
        key: "selvedge",
        note: "the same limit: SPRING keeps the queue short, small requests go first",
        law: Law { name: "spring", sparse_first: true },
    },
];

/// What was seen behind one limiter.
pub(super) struct Behind {
    pub(super) limiter: &'static Limiter,
    pub(super) seen: Seen,
    /// Round trips of requests without downloads, ms.
    pub(super) idle: Cdf,
    /// Beside downloads, after the warm-up.
    pub(super) beside: Cdf,
}

pub(super) struct Real {
    pub(super) phases: Phases,
    pub(super) behind: Vec<Behind>,
}

/// What keeps real traffic from this machine, as far as can be said without trying.
pub(super) fn obstacle() -> Option<String> {
    if let Err(why) = kernel_edge::available() {
        return Some(why);
    }
    (!doctor::may_make_networks()).then(|| "it needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)".to_owned())
}

/// Measures behind all limiters, for so long each.
///
/// # Errors
/// Why there is no real traffic on this machine, in one line.
pub(super) fn measure(measured: Duration) -> Result<Real, String> {
    if let Some(why) = obstacle() {
        return Err(why);
    }
    let phases = Phases { idle: Duration::from_secs(2), warmup: Duration::from_secs(2), measured };
    let bar = bar(phases.whole() * LIMITERS.len() as u32);
    let network = Network::new()?;
    bar.set_message("the agent loads its programs");
    let agent = Agent::start(&network, &LIMITERS[0].law)?;
    let mut behind = Vec::new();
    for (n, limiter) in LIMITERS.iter().enumerate() {
        bar.set_message(format!("real traffic behind {}", limiter.name));
        agent.limit(RATE, &limiter.law)?;
        let before = phases.whole() * n as u32;
        let mut tell = |done: Duration| bar.set_position((before + done).as_millis() as u64);
        let seen = traffic::run(&network, phases, &mut tell)
            .map_err(|e| format!("the connections behind {} broke: {e}", limiter.name))?;
        behind.push(judge(limiter, seen, phases)?);
    }
    bar.finish_and_clear();
    Ok(Real { phases, behind })
}

/// # Errors
/// That nothing came through.
fn judge(limiter: &'static Limiter, seen: Seen, phases: Phases) -> Result<Behind, String> {
    let idle = within(&seen, f64::NEG_INFINITY, 0.0);
    let beside = within(&seen, phases.warmup.as_secs_f64(), f64::INFINITY);
    if seen.mbps <= 0.0 || beside.p50.is_none() {
        return Err(format!("nothing came through {}", limiter.name));
    }
    Ok(Behind { limiter, seen, idle, beside })
}

/// Of requests that were sent within this time.
fn within(seen: &Seen, from: f64, to: f64) -> Cdf {
    let chosen = || seen.sent.iter().enumerate().filter(|(_, sent)| (from..to).contains(*sent));
    let samples: Vec<f64> = chosen().filter_map(|(n, _)| seen.answered.get(n).copied()).collect();
    let censored = chosen().count() - samples.len();
    Cdf::from_samples("ms", samples, censored as u64)
}

/// On standard error, if that is a terminal.
fn bar(whole: Duration) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(4),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(whole.as_millis() as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}% {msg}, {eta} left") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_measured_part_and_count_what_was_not_answered() {
        // Two seconds without downloads, two of warm-up, two that count; the last request was not answered.
        let sent: Vec<f64> = (0..600).map(|n| f64::from(n) * 0.01 - 2.0).collect();
        let took = |sent: f64| if sent < 0.0 { 0.05 } else { 10.0 + sent };
        let answered = sent.iter().take(599).map(|sent| took(*sent)).collect();
        let seen = Seen { sent, answered, mbps: 285.0, ..Seen::default() };
        let second = Duration::from_secs(1);
        let phases = Phases { idle: second * 2, warmup: second * 2, measured: second * 2 };
        let behind = judge(&LIMITERS[0], seen, phases).unwrap();
        assert_eq!((behind.idle.count, behind.idle.p50, behind.idle.p99), (200, Some(0.05), Some(0.05)));
        assert_eq!((behind.beside.count, behind.beside.censored), (199, 1));
        assert!((behind.beside.p50.unwrap() - 12.99).abs() < 0.02, "{:?}", behind.beside.p50);
        assert!((behind.beside.p99.unwrap() - 13.97).abs() < 0.02, "{:?}", behind.beside.p99);
        assert!(judge(&LIMITERS[0], Seen::default(), phases).is_err());
    }
}
