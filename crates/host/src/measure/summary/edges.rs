//! Metrics of edges: what they did to guests' segments.

use super::super::{windows, Samples, Summary};
use super::network::{sent_by_hosts, LEAST_FRAME};
use crate::outcome::{HostRecord, Outcome};
use edge::fastlane::Counters as FastLane;
use edge::hygenicc::Counters as Hygenicc;

/// The edge's congestion control of guests.
pub(super) fn congestion(summary: &mut Summary, outcomes: &[&Outcome]) {
    let per_run = |of: &dyn Fn(&edge::CongestionCounters) -> u64| {
        let sum: u64 = outcomes.iter().flat_map(|o| &o.hosts).map(|h| of(&h.congestion)).sum();
        sum as f64 / outcomes.len() as f64
    };
    let reports = per_run(&|c| c.packs_sent + c.facks_sent);
    if reports > 0.0 {
        summary.put("congestion.packs", per_run(&|c| c.packs_sent), "count");
        summary.put("congestion.facks", per_run(&|c| c.facks_sent), "count");
        summary.put("congestion.windows_lowered", per_run(&|c| c.windows_lowered), "count");
        summary.put("congestion.policed_segments", per_run(&|c| c.policed_segments), "count");
        summary.put("congestion.timeouts", per_run(&|c| c.timeouts), "count");
    }
    let windows = windows::windows(outcomes);
    let samples = windows.errors.len();
    if samples == 0 {
        return;
    }
    summary.put("window.limiting_share", windows.limiting as f64 / samples as f64, "ratio");
    summary.put_all("window.edge_kb", &windows.edge_kb, "KB", &["mean", "min", "max"]);
    summary.put_all("window.guest_swing", &windows.swings, "ratio", &["min"]);
    summary.put_all("window.correlation", &windows.correlations, "ratio", &["mean", "min"]);
    summary.put_tail("window.error", &Samples::new(windows.errors, 0), "ratio");
    summary.put_all("window.error_100ms", &windows.smooth_errors, "ratio", &["mean", "max"]);
}

/// Limiters between edge and NIC.
pub(super) fn limiter(summary: &mut Summary, outcomes: &[&Outcome]) {
    let delays = outcomes.iter().flat_map(|o| &o.limiter_delays).map(|delay| delay.as_us_f64());
    let delays = Samples::new(delays, 0);
    if delays.count() == 0 {
        return;
    }
    summary.put_tail("limiter.delay_us", &delays, "us");
    let backlogs: Vec<f64> = outcomes.iter().flat_map(|o| &o.limiter_backlogs).map(|&b| f64::from(b) / 1e3).collect();
    summary.put_all("limiter.backlog_kb", &backlogs, "KB", &["mean"]);
    let most = outcomes.iter().map(|o| o.limiter_backlog_max).max().unwrap_or(0);
    summary.put("limiter.backlog_max_kb", most as f64 / 1e3, "KB");
    let per_run = |of: &dyn Fn(&HostRecord) -> u64| {
        outcomes.iter().flat_map(|o| &o.hosts).map(of).sum::<u64>() as f64 / outcomes.len() as f64
    };
    summary.put("limiter.drops", per_run(&|h| h.limiter_drops), "count");
    summary.put("limiter.segments_marked", per_run(&|h| h.limiter.segments_marked), "count");
    summary.put("limiter.acks_marked", per_run(&|h| h.limiter.acks_marked), "count");
    summary.put("limiter.windows_cut", per_run(&|h| h.limiter.windows_cut), "count");
}

/// What HyGenICC did to guests' segments.
pub(super) fn tenants(summary: &mut Summary, outcomes: &[&Outcome]) {
    let per_run = |of: &dyn Fn(&Hygenicc) -> u64| {
        outcomes.iter().flat_map(|o| &o.hosts).map(|h| of(&h.hygenicc)).sum::<u64>() as f64 / outcomes.len() as f64
    };
    if outcomes.iter().flat_map(|o| &o.hosts).all(|h| h.hygenicc == Hygenicc::default()) {
        return;
    }
    summary.put("tenants.drops", per_run(&|h| h.dropped_segments), "count");
    summary.put("tenants.delayed", per_run(&|h| h.delayed_segments), "count");
    summary.put("tenants.refused", per_run(&|h| h.refused_segments), "count");
    summary.put("tenants.marks_counted", per_run(&|h| h.marks_counted), "count");
    summary.put("tenants.marks_heard", per_run(&|h| h.marks_heard), "count");
    let feedback = per_run(&|h| h.feedback_sent);
    summary.put("tenants.feedback_packets", feedback, "count");
    let sent = sent_by_hosts(outcomes) as f64 / outcomes.len() as f64;
    if sent > 0.0 {
        summary.put("tenants.feedback_bytes_per_million", feedback * LEAST_FRAME as f64 * 1e6 / sent, "ppm");
    }
}

/// What edges did about notifications. Each that arrived counts once in those of the second half.
pub(super) fn fastlane(summary: &mut Summary, outcomes: &[&Outcome]) {
    let all = || outcomes.iter().flat_map(|o| &o.hosts).map(|h| &h.fastlane);
    let per_run = |of: fn(&FastLane) -> u64| all().map(of).sum::<u64>() as f64 / outcomes.len() as f64;
    if all().all(|counters| *counters == FastLane::default()) {
        return;
    }
    type Count = fn(&FastLane) -> u64;
    let counts: [(&str, Count); 14] = [
        ("notifications", |c| c.notifications),
        ("resent_later", |c| c.resent_later),
        ("suppressed", |c| c.suppressed),
        ("resent", |c| c.resent),
        ("told", |c| c.told),
        ("left", |c| c.left),
        ("postponed", |c| c.postponed),
        ("ignored.untracked", |c| c.untracked),
        ("ignored.empty", |c| c.empty),
        ("ignored.acked", |c| c.acked),
        ("ignored.outside", |c| c.outside),
        ("ignored.stale", |c| c.stale),
        ("ignored.repeated", |c| c.repeated),
        ("ignored.unkept", |c| c.unkept),
    ];
    for (name, of) in counts {
        summary.put(format!("fastlane.{name}"), per_run(of), "count");
    }
    let most = all().map(|c| c.store_max).max().unwrap_or(0);
    summary.put("fastlane.store_max_kb", most as f64 / 1e3, "KB");
}
