//! Metrics of links and switches.

use super::super::{Delays, Summary};
use crate::outcome::{Outcome, PortRecord};

/// Octets of the shortest frame on the wire, with preamble and gap.
pub(super) const LEAST_FRAME: u64 = 84;

/// What FastLane's notifications cost, where switches sent any.
fn notifications(summary: &mut Summary, outcomes: &[&Outcome]) {
    let ports = || outcomes.iter().flat_map(|outcome| &outcome.ports);
    let sum = |of: &dyn Fn(&PortRecord) -> u64| ports().map(of).sum::<u64>();
    let (sent, dropped) = (sum(&|p| p.notifications.tx_packets), sum(&|p| p.notifications.dropped_packets));
    if sent + dropped == 0 {
        return;
    }
    summary.put("notify.dropped_per_million", per_million(dropped, sent + dropped), "ppm");
    let share = per_million(sum(&|p| p.notifications.tx_bytes), sum(&|p| p.tx_bytes).max(1));
    summary.put("notify.bytes_per_million", share, "ppm");
    let queue = ports().map(|p| p.notifications.queue_max).max().unwrap_or(0);
    summary.put("notify.queue_max_bytes", queue as f64, "B");
    let drops_at = |last: bool| {
        let all = outcomes.iter().flat_map(|o| o.ports.iter().map(move |p| (o, p)));
        all.filter(|(o, p)| of_switch(o, p) && (!last || !inter_switch(o, p)))
            .map(|(_, p)| p.dropped_packets)
            .sum::<u64>()
    };
    let again = outcomes.iter().map(|o| o.controls_again).sum::<u64>() * LEAST_FRAME;
    summary.put("notify.control_bytes_per_million", per_million(again, sent_by_hosts(outcomes).max(1)), "ppm");
    if drops_at(false) > 0 {
        summary.put("notify.drops_at_last_hop", drops_at(true) as f64 / drops_at(false) as f64, "ratio");
    }
}

/// Octets.
pub(super) fn sent_by_hosts(outcomes: &[&Outcome]) -> u64 {
    outcomes.iter().flat_map(|o| o.ports.iter().filter(|p| !of_switch(o, p))).map(|p| p.tx_bytes).sum()
}

/// Hosts that take their time, and switches that quench sources.
pub(super) fn servers(summary: &mut Summary, outcomes: &[&Outcome]) {
    let mut delays = Delays::default();
    outcomes.iter().for_each(|o| delays.join(&o.server_delays));
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        if let Some(us) = delays.quantile(share) {
            summary.put(format!("server.delay_us.{name}"), us as f64, "us");
        }
    }
    let quenches: u64 = outcomes.iter().map(|o| o.quenches).sum();
    if quenches > 0 {
        summary.put("quench.messages", quenches as f64 / outcomes.len() as f64, "count");
    }
}

/// The port's link joins two switches: host i has link i.
fn inter_switch(outcome: &Outcome, port: &PortRecord) -> bool {
    port.link as usize >= outcome.hosts.len()
}

/// The port belongs to a switch: on a host's link that is the direction back, towards the host.
pub(super) fn of_switch(outcome: &Outcome, port: &PortRecord) -> bool {
    inter_switch(outcome, port) || !port.forward
}

pub(super) fn ports(summary: &mut Summary, outcomes: &[&Outcome]) {
    let mut dropped = 0u64;
    let mut carried = 0u64;
    let (mut marked, mut sent, mut worst) = (0u64, 0u64, 0.0f64);
    let (mut queue_mean, mut queue_max, mut utilisation) = (Vec::new(), 0u64, Vec::new());
    for outcome in outcomes {
        carried += outcome.hosts.iter().map(|h| h.rx_packets).sum::<u64>();
        dropped += outcome.hosts.iter().map(|h| h.rx_ring_drops).sum::<u64>() + outcome.lost_packets;
        for port in &outcome.ports {
            dropped += port.dropped_packets;
            if of_switch(outcome, port) {
                marked += port.marked_packets;
                sent += port.tx_packets;
                let arrived = port.dropped_packets + port.tx_packets;
                worst = worst.max(per_million(port.dropped_packets, arrived.max(1)));
                queue_mean.push(port.queue_mean_bytes / 1e3);
                queue_max = queue_max.max(port.queue_max_bytes);
            }
            if inter_switch(outcome, port) {
                utilisation.push(port.utilisation);
            }
        }
    }
    if carried + dropped > 0 {
        summary.put("loss.packets_per_million", per_million(dropped, carried + dropped), "ppm");
    }
    if sent > 0 {
        summary.put("loss.worst_port_per_million", worst, "ppm");
        summary.put("ecn.marked_per_million", per_million(marked, sent), "ppm");
    }
    notifications(summary, outcomes);
    if !queue_mean.is_empty() {
        summary.put("queue.max_kb", queue_max as f64 / 1e3, "KB");
        summary.put_all("queue.mean_kb", &queue_mean, "KB", &["mean", "max"]);
    }
    summary.put_all("link.utilisation", &utilisation, "ratio", &["mean", "min", "max"]);
}

pub(super) fn per_million(part: u64, whole: u64) -> f64 {
    part as f64 * 1e6 / whole as f64
}
