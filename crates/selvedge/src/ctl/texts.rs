//! The agent's answers for people.

use agent_api::protocol::{
    CounterValue, Discovered, Flows, KnownPath, Limit, LimitDelays, Path as PeerPath, Port, ReorderStatus, Status,
    Tenants, Uplink,
};
use units::BitRate;

pub(super) fn status(s: &Status) -> String {
    let mut rows = vec![
        vec!["agent".into(), format!("{} (process {})", s.agent_version, s.pid)],
        vec![
            "pins".into(),
            format!("{} (state version {}, {})", s.pins, s.state_version, if s.adopted { "adopted" } else { "new" }),
        ],
    ];
    for uplink in &s.uplinks {
        let state = match (uplink.ifindex, uplink.up) {
            (0, _) => "missing",
            (_, true) => "up",
            (_, false) => "down",
        };
        let Uplink { interface, mtu, addresses, .. } = uplink;
        rows.push(vec!["uplink".into(), format!("{interface} {state}, MTU {mtu}, {}", addresses.join(" "))]);
    }
    let parameters = s.policy_parameters.iter().map(|(name, value)| format!(", {name} {value}"));
    let policy = format!("{}{}", s.policy, parameters.collect::<String>());
    rows.extend([
        vec!["UDP port".into(), s.udp_port.to_string()],
        vec!["guest MTU".into(), s.guest_mtu.to_string()],
        vec!["GRO device".into(), if s.gro { "yes" } else { "no" }.into()],
        vec!["policy".into(), policy],
        vec!["ports".into(), s.ports.to_string()],
        vec!["peers".into(), s.peers.to_string()],
        vec!["routes".into(), s.routes.to_string()],
        vec!["flows".into(), format!("{} of {}, forgotten after {} s", s.flows, s.max_flows, s.flow_idle_seconds)],
        vec!["receiver".into(), receiver(s.receiver.as_ref())],
        vec!["reloads".into(), s.reloads.to_string()],
    ]);
    if !s.reload_error.is_empty() {
        for (n, fault) in s.reload_error.lines().enumerate() {
            rows.push(vec![if n == 0 { "last reload" } else { "" }.into(), fault.into()]);
        }
    }
    rows.extend(s.other_edges.iter().map(|pins| vec!["other edge".into(), pins.clone()]));
    rows.extend(s.problems.iter().map(|problem| vec!["PROBLEM".into(), problem.clone()]));
    grid(&rows, 0)
}

fn receiver(r: Option<&ReorderStatus>) -> String {
    let Some(r) = r else { return "none: segments are handed on as they come".into() };
    let ReorderStatus { interface, flows, segments, held_segments, gaps_filled, timeouts, overflows, lost_segments } =
        r;
    format!(
        "{interface}: {segments} segments of {flows} flows, {held_segments} held: {gaps_filled} until the gap filled, \
         {timeouts} too long; {overflows} overflows, {lost_segments} lost"
    )
}

pub(super) fn ports(ports: &[Port]) -> String {
    let mut rows = vec![heading(&["interface", "ifindex", "network", "attached", "MTU", "MAC", "addresses"])];
    for p in ports {
        let attached = if p.attached { "yes" } else { "NO" };
        let learned = if p.learned > 0 { format!(" ({} learned)", p.learned) } else { String::new() };
        rows.push(vec![
            p.interface.clone(),
            p.ifindex.to_string(),
            or_dash(&p.network.map(|network| network.to_string()).unwrap_or_default()),
            attached.into(),
            p.mtu.to_string(),
            or_dash(&p.mac),
            format!("{}{learned}", or_dash(&p.addresses.join(" "))),
        ]);
    }
    grid(&rows, 0)
}

pub(super) fn flows(f: &Flows) -> String {
    let columns = [
        "proto",
        "source",
        "destination",
        "network",
        "phase",
        "sent (B)",
        "segments",
        "received (B)",
        "segments",
        "cell",
        "label",
        "age (s)",
    ];
    let mut rows = vec![heading(&columns)];
    for flow in &f.flows {
        rows.push(vec![
            flow.protocol.clone(),
            flow.source.clone(),
            flow.destination.clone(),
            flow.network.to_string(),
            flow.phase.clone(),
            flow.out_bytes.to_string(),
            flow.out_segments.to_string(),
            flow.in_bytes.to_string(),
            flow.in_segments.to_string(),
            flow.cell.to_string(),
            if flow.label == 0 { "hash".into() } else { flow.label.to_string() },
            format!("{:.1}", flow.age_seconds),
        ]);
    }
    format!("{}{}", grid(&rows, 5), not_shown(f))
}

fn not_shown(f: &Flows) -> String {
    if f.flows.len() < f.total {
        return format!("{} of {} flows; --limit shows more\n", f.flows.len(), f.total);
    }
    String::new()
}

/// TCP connections that congestion control looks at.
pub(super) fn congestion(f: &Flows) -> String {
    let columns = [
        "source",
        "destination",
        "network",
        "law",
        "peer reports",
        "window (B)",
        "cwnd (B)",
        "alpha",
        "marked (B)",
        "policed",
        "RTT (ms)",
    ];
    let mut rows = vec![heading(&columns)];
    for (flow, cc) in f.flows.iter().filter_map(|flow| Some((flow, flow.congestion.as_ref()?))) {
        rows.push(vec![
            flow.source.clone(),
            flow.destination.clone(),
            flow.network.to_string(),
            cc.law.clone(),
            if cc.peer_reports { "yes" } else { "no" }.into(),
            cc.window_bytes.map_or_else(|| "any".into(), |bytes| bytes.to_string()),
            cc.cwnd_bytes.to_string(),
            format!("{:.3}", cc.alpha),
            cc.marked_bytes.to_string(),
            cc.policed_segments.to_string(),
            format!("{:.3}", cc.rtt_seconds * 1e3),
        ]);
    }
    if rows.len() == 1 {
        return "no connection is under congestion control; [congestion] in agent.toml switches it on\n".into();
    }
    format!("{}{}", grid(&rows, 5), not_shown(f))
}

pub(super) fn paths(paths: &[PeerPath], in_detail: bool) -> String {
    let columns = [
        "peer", "address", "from", "uplink", "MTU", "format", "wire", "heard", "paths", "schedule", "labels", "guests",
    ];
    let mut rows = vec![heading(&columns)];
    for p in paths {
        let labels: Vec<String> = p.labels.iter().map(u16::to_string).collect();
        let mut guests = p.guests.iter().take(4).cloned().collect::<Vec<_>>().join(" ");
        if p.guests.len() > 4 {
            guests += &format!(" and {} more", p.guests.len() - 4);
        }
        rows.push(vec![
            p.peer.clone(),
            p.address.clone(),
            p.local.clone(),
            p.uplink.clone(),
            p.mtu.map_or_else(|| "-".into(), |mtu| mtu.to_string()),
            if p.plain_vxlan { "plain" } else { "edge" }.into(),
            if p.plain_vxlan { "-".into() } else { p.wire_version.to_string() },
            match p.heard_seconds {
                _ if p.plain_vxlan => "-".into(),
                Some(seconds) => format!("{seconds:.0} s ago"),
                None => "never".into(),
            },
            p.discovery.as_ref().map_or_else(|| "-".into(), |found| found.paths.len().to_string()),
            or_dash(&p.labels_from),
            if labels.is_empty() { "hash".into() } else { labels.join(" ") },
            or_dash(&guests),
        ]);
    }
    let detail = |path: &PeerPath| format!("{}{}", discovered(path.discovery.as_ref()), known(&path.known));
    let details = paths.iter().filter(|_| in_detail).map(detail);
    format!("{}{}", grid(&rows, 0), details.collect::<String>())
}

fn discovered(found: Option<&Discovered>) -> String {
    let Some(found) = found else {
        return "\nits paths are not traced: that needs traffic, version 2 of the wire, and paths.discovery = true\n"
            .into();
    };
    let Discovered { rounds, traced_ports, answered_ports, paths } = found;
    let rounds = format!(
        "\n{rounds} rounds; in the last one every hop and the peer answered {answered_ports} of {traced_ports} ports\n"
    );
    if paths.is_empty() {
        return rounds
            + "no path is known: do routers send ICMP \"time exceeded\" for every probe, and does the peer answer?\n";
    }
    let mut rows = vec![heading(&["index", "port", "seen (s)", "RTT (ms)", "hops"])];
    rows.extend(paths.iter().map(|path| {
        vec![
            path.index.to_string(),
            path.port.to_string(),
            format!("{:.1}", path.seen_seconds),
            path.rtt_seconds.map_or_else(|| "-".into(), |rtt| format!("{:.3}", rtt * 1e3)),
            path.hops.join(" "),
        ]
    }));
    format!("{rounds}{}", grid(&rows, 0))
}

fn known(paths: &[KnownPath]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let mut rows = vec![heading(&["label", "weight", "congested", "marks", "marked (s ago)", "late (us)"])];
    rows.extend(paths.iter().map(|path| {
        vec![
            path.label.to_string(),
            format!("{:.3}", path.weight),
            if path.congested { "yes" } else { "no" }.into(),
            path.marks.to_string(),
            path.marked_seconds.map_or_else(|| "-".into(), |age| format!("{age:.3}")),
            path.late_seconds.map_or_else(|| "-".into(), |late| format!("{:.0}", late * 1e6)),
        ]
    }));
    format!("\n{}", grid(&rows, 0))
}

pub(super) fn counters(counters: &[CounterValue]) -> String {
    let rows: Vec<Vec<String>> = counters.iter().map(|c| vec![c.name.clone(), c.value.to_string()]).collect();
    grid(&rows, 1)
}

pub(super) fn limits(limits: &[Limit]) -> String {
    if limits.is_empty() {
        return "no port is limited; `selvedge ctl limit`, or egress_rate or ingress_rate of a [[port]] in agent.toml, does so\n".into();
    }
    let columns = [
        "interface",
        "direction",
        "tenant",
        "pod",
        "law",
        "pacing",
        "rate",
        "ceiling",
        "backlog (B)",
        "delay (ms)",
        "p50 (ms)",
        "p99 (ms)",
        "sent (B)",
        "first (B)",
        "dropped",
        "marks",
        "cuts",
        "lowered",
    ];
    let mut rows = vec![heading(&columns)];
    for l in limits {
        let rate = BitRate::from_bps(l.rate_bps).to_string();
        rows.push(vec![
            l.interface.clone(),
            l.direction.clone(),
            or_dash(&l.tenant),
            or_dash(&l.pod.label()),
            l.law.clone(),
            if l.device.is_empty() { or_dash(&l.pacing) } else { format!("{} on {}", l.pacing, l.device) },
            if l.in_force { rate } else { format!("{rate} (NOT in force)") },
            BitRate::from_bps(l.ceiling_bps).to_string(),
            l.backlog_bytes.to_string(),
            format!("{:.3}", l.queue_delay_seconds * 1e3),
            delay(l.delays.as_ref(), |delays| delays.p50_seconds),
            delay(l.delays.as_ref(), |delays| delays.p99_seconds),
            l.sent_bytes.to_string(),
            l.first_bytes.to_string(),
            l.dropped_segments.to_string(),
            l.marked_segments.to_string(),
            l.window_cuts.to_string(),
            l.windows_lowered.to_string(),
        ]);
    }
    grid(&rows, 6)
}

/// Of a delay's distribution, ms.
fn delay(delays: Option<&LimitDelays>, which: fn(&LimitDelays) -> Option<f64>) -> String {
    let Some(delays) = delays.filter(|delays| delays.counts.iter().any(|count| *count > 0)) else { return "-".into() };
    let last = delays.bounds_seconds.last().copied().unwrap_or_default();
    which(delays).map_or_else(|| format!(">{:.0}", last * 1e3), |seconds| format!("{:.3}", seconds * 1e3))
}

pub(super) fn tenants(tenants: Option<&Tenants>) -> String {
    let Some(t) = tenants else {
        return "guests send as they like; [tenants] in agent.toml gives them shares of the uplink\n".into();
    };
    let rate = |bps| BitRate::from_bps(bps).to_string();
    let mut rows = vec![heading(&[
        "interface",
        "network",
        "weight",
        "active",
        "rate",
        "fair rate",
        "alpha",
        "marks",
        "segments",
        "dropped",
        "delayed",
        "refused",
    ])];
    rows.extend(t.guests.iter().map(|g| {
        vec![
            g.interface.clone(),
            g.network.to_string(),
            g.weight.to_string(),
            if g.active { "yes" } else { "no" }.into(),
            if g.active { rate(g.rate_bps) } else { "-".into() },
            if g.active { rate(g.fair_bps) } else { "-".into() },
            format!("{:.3}", g.alpha),
            g.marks.to_string(),
            g.segments.to_string(),
            g.dropped_segments.to_string(),
            g.delayed_segments.to_string(),
            g.refused_segments.to_string(),
        ]
    }));
    let about = format!(
        "{} every {:.3} ms of {}, at least {} a guest, by {}; {:.0} us late on average; {} of {} pairs{}\n\n",
        t.law,
        t.interval_seconds * 1e3,
        rate(t.uplink_bps),
        rate(t.minimum_bps),
        t.hold,
        t.mean_late_seconds * 1e6,
        t.pairs,
        t.max_pairs,
        t.admission.map_or_else(String::new, |(on, off)| format!(", new ones refused from {on:.3}, until {off:.3}")),
    );
    about + grid(&rows, 4).as_str()
}

fn heading(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// Columns two spaces apart; from column `numbers` on to the right, unless that is 0. Names of interfaces are others'
/// choice: control characters in them do not reach the terminal.
fn grid(rows: &[Vec<String>], numbers: usize) -> String {
    let clean = |cell: &String| cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(clean).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(c, (cell, width))| {
                    if numbers > 0 && c >= numbers {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                },
            )
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_stay_out() {
        let rows = vec![heading(&["name", "n"]), vec!["x\u{1b}[2J".into(), "1000".into()]];
        assert_eq!(grid(&rows, 1), "name      n\nx?[2J  1000\n");
        assert_eq!(grid(&rows, 0), "name   n\nx?[2J  1000\n");
        assert_eq!(grid(&[], 0), "");
    }

    #[test]
    fn delays_beyond_the_last_bound_are_said_to_be() {
        let delays = |counts: Vec<u64>, p99_seconds| LimitDelays {
            bounds_seconds: vec![0.016, 0.131],
            counts,
            p99_seconds,
            ..LimitDelays::default()
        };
        let p99 = |delays: &LimitDelays| delay(Some(delays), |delays| delays.p99_seconds);
        assert_eq!(p99(&delays(vec![1, 0, 0], Some(0.0125))), "12.500");
        assert_eq!(p99(&delays(vec![0, 0, 1], None)), ">131");
        assert_eq!((p99(&delays(vec![0; 3], None)), delay(None, |_| None)), ("-".into(), "-".into()));
    }

    #[test]
    fn flows_say_how_many_are_not_shown() {
        let text = flows(&Flows { total: 7, flows: Vec::new() });
        assert!(text.ends_with("0 of 7 flows; --limit shows more\n"), "{text}");
    }
}
