//! `lab status` and `lab top`.

use super::control::{ask, Request};
use super::state::Record;
use super::LabFailure;
use crate::Failure;
use lab::{LinkStatus, Status};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;
use units::Time;

fn status_of(name: &str) -> Result<(Record, Status), LabFailure> {
    let record = Record::read(name)?;
    let value = ask(name, &Request::Status)?;
    let status =
        serde_json::from_value(value).map_err(|e| LabFailure::Io { what: "the lab's answer", source: e.into() })?;
    Ok((record, status))
}

/// Whether the lab keeps up; one that has seen no frames does.
///
/// # Errors
/// No such lab, or one whose process is gone.
pub(super) fn status(name: &str, json: bool) -> Result<bool, Failure> {
    let (record, status) = status_of(name)?;
    if json {
        crate::say::json(&serde_json::json!({ "lab": record, "status": status }));
    } else {
        say_on!("{}", text(&record, &status));
    }
    Ok(status.valid || status.verdict.frames == 0)
}

fn text(record: &Record, status: &Status) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "lab {}: {}, scheme {}, up for {:.0}s (process {})",
        record.name,
        record.title,
        record.scheme,
        status.time.as_secs_f64(),
        record.pid
    );
    let _ = writeln!(out, "{}", status.verdict);
    for note in &record.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(
        out,
        "\n{:<10} {:<12} {:>12} {:>12} {:>10} {:>8}",
        "host", "address", "sent", "received", "held", "lost"
    );
    for h in &status.hosts {
        let lost = h.counters.rx_ring_drops + h.counters.rx_refused;
        let _ = writeln!(
            out,
            "{:<10} {:<12} {:>12} {:>12} {:>10} {:>8}",
            h.name,
            h.address,
            bytes(h.counters.tx_bytes),
            bytes(h.counters.rx_bytes),
            h.segments_held,
            lost
        );
    }
    let _ = writeln!(
        out,
        "\n{:<20} {:>9} {:>9} {:>5} {:>12} {:>9} {:>10} {:>10}",
        "port", "rate", "delay", "", "sent", "dropped", "marked", "queue max"
    );
    for l in &status.links {
        let _ = writeln!(
            out,
            "{:<20} {:>9} {:>9} {:>5} {:>12} {:>9} {:>10} {:>10}",
            l.port,
            l.rate.to_string(),
            l.delay.to_string(),
            if l.up { "" } else { "DOWN" },
            bytes(l.tx_bytes),
            l.dropped_packets,
            l.marked_packets,
            bytes(l.queue_max_bytes)
        );
    }
    out
}

fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    if unit == "B" {
        format!("{n} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Redraws what happens, until interrupted or `count` pictures have been drawn.
///
/// # Errors
/// No such lab, or one that ends meanwhile.
pub(super) fn top(name: &str, every: Time, count: Option<u64>) -> Result<bool, Failure> {
    let wait = Duration::from_nanos(every.as_ns().max(100_000_000));
    let terminal = std::io::stdout().is_terminal();
    let (record, mut before) = status_of(name)?;
    let mut drawn = 0;
    while count.is_none_or(|count| drawn < count) {
        std::thread::sleep(wait);
        let (_, now) = status_of(name)?;
        let picture = picture(&record, &before, &now);
        if terminal {
            // From the top left corner, clearing what was there.
            crate::say::picture(&picture);
        } else {
            say!("{picture}");
        }
        // A terminal that is gone ends the program at the next picture.
        let _ = std::io::stdout().flush();
        before = now;
        drawn += 1;
    }
    Ok(true)
}

const SHOWN: usize = 16;

fn picture(record: &Record, before: &Status, now: &Status) -> String {
    let span = now.time.saturating_sub(before.time).as_secs_f64().max(1e-3);
    let mut out = String::new();
    let hops = (now.packet_hops - before.packet_hops) as f64 / span;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "lab {} ({}, {})  {:.1}s  {:.0} packet-hops/s  {} packets under way, {} of {} buffers free",
        record.name,
        record.title,
        record.scheme,
        now.time.as_secs_f64(),
        hops,
        now.packets,
        now.frames_free,
        now.frames
    );
    let _ = writeln!(out, "{}\n", now.verdict);
    let old: HashMap<&str, &LinkStatus> = before.links.iter().map(|l| (l.port.as_str(), l)).collect();
    let mut links: Vec<(&LinkStatus, f64, u64, u64)> = now
        .links
        .iter()
        .map(|l| {
            let was = old.get(l.port.as_str());
            let since = |now: u64, then: fn(&LinkStatus) -> u64| now.saturating_sub(was.map_or(0, |w| then(w)));
            let bits = since(l.tx_bytes, |w| w.tx_bytes) as f64 * 8.0 / span;
            (l, bits, since(l.dropped_packets, |w| w.dropped_packets), since(l.marked_packets, |w| w.marked_packets))
        })
        .collect();
    links.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.port.cmp(&b.0.port)));
    let _ = writeln!(
        out,
        "{:<20} {:>10} {:>6}  {:<20} {:>10} {:>8} {:>8}",
        "port", "Mbps", "use", "", "queue", "drops", "marks"
    );
    for (l, bits, drops, marks) in links.iter().take(SHOWN) {
        let share = bits / l.rate.as_bps() as f64;
        let bar = "#".repeat((share * 20.0).round().clamp(0.0, 20.0) as usize);
        let state = if l.up { bar } else { "DOWN".to_owned() };
        let _ = writeln!(
            out,
            "{:<20} {:>10.1} {:>5.0}%  {:<20} {:>10} {:>8} {:>8}",
            l.port,
            bits / 1e6,
            share * 100.0,
            state,
            bytes(l.queue_bytes),
            drops,
            marks
        );
    }
    let old: HashMap<&str, u64> = before.flows.iter().map(|f| (f.flow.as_str(), f.bytes)).collect();
    let mut flows: Vec<_> = now
        .flows
        .iter()
        .map(|f| (f, f.bytes.saturating_sub(old.get(f.flow.as_str()).copied().unwrap_or(0)) as f64 * 8.0 / span))
        .filter(|(_, bits)| *bits > 0.0)
        .collect();
    flows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.flow.cmp(&b.0.flow)));
    let _ = writeln!(out, "\n{:<44} {:>10} {:>12}  paths", "flow", "Mbps", "sent");
    for (f, bits) in flows.iter().take(SHOWN) {
        let labels: Vec<String> =
            f.labels.iter().map(|l| if *l == 0 { "hashed".into() } else { l.to_string() }).collect();
        let _ = writeln!(out, "{:<44} {:>10.2} {:>12}  {}", f.flow, bits / 1e6, bytes(f.bytes), labels.join(","));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_have_units() {
        let shown: Vec<String> = [0, 999, 1000, 1_500_000, 2_000_000_000].map(bytes).to_vec();
        assert_eq!(shown, ["0 B", "999 B", "1.0 KB", "1.5 MB", "2.0 GB"]);
    }
}
