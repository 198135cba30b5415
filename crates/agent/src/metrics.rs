//! Prometheus metrics.

use super::error::{Error, Result};
use super::server::Asked;
use agent_api::protocol::{KnownPath, Limit, Path, TenantGuest, Tenants};
use daemon::metrics::MetricsServer;
use kernel::state::{Counter, Counters};
use nix::errno::Errno;
use nix::sys::socket::{bind, setsockopt, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// For somebody's page of metrics to come, and how much of it is read.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST: u64 = 1 << 20;

/// Serves what the agent's loop answers to `requests`.
pub(super) async fn serve(address: SocketAddr, requests: mpsc::Sender<Asked<(), String>>) -> Result<MetricsServer> {
    let page = move || {
        let requests = requests.clone();
        async move {
            let (place, text) = oneshot::channel();
            requests.send(((), place)).await.ok()?;
            text.await.ok()
        }
    };
    MetricsServer::start(address, page).await.map_err(|e| refused(address, &e))
}

fn refused(address: SocketAddr, why: &std::io::Error) -> Error {
    let remedy = "choose another agent.metrics, or bring the interface lo up";
    Error::Unresolved(format!("cannot serve metrics on {address}: {why}; {remedy}"))
}

/// Whether an agent could serve them: the address is free, or an agent serves there already.
///
/// # Errors
/// [`Error::Unresolved`] with the reason.
pub(super) fn check(address: SocketAddr) -> Result<()> {
    match bind_only(address) {
        Err(Errno::EADDRINUSE) if is_an_agents(address) => Ok(()),
        Err(error) => Err(refused(address, &error.into())),
        Ok(()) => Ok(()),
    }
}

/// Nobody can connect meanwhile, and who would listen there may.
fn bind_only(address: SocketAddr) -> nix::Result<()> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))
}

/// Does an agent's page come from there, within seconds?
fn is_an_agents(address: SocketAddr) -> bool {
    let (tell, told) = std::sync::mpsc::channel();
    let asked = move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")?;
        let mut page = Vec::new();
        // What came before it took too long.
        let _ = stream.take(MOST).read_to_end(&mut page);
        Ok(String::from_utf8_lossy(&page).into_owned())
    };
    // Who sends a byte now and then keeps a thread waiting, and nobody else.
    std::thread::spawn(move || tell.send(asked()));
    told.recv_timeout(2 * PATIENCE).is_ok_and(|page| page.is_ok_and(|page| page.contains("selvedge_build_info{")))
}

/// What one scrape shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) counters: Counters,
    /// Name without prefix and suffix, help, value.
    pub(super) own_counters: Vec<(&'static str, &'static str, u64)>,
    pub(super) gauges: Vec<(&'static str, &'static str, f64)>,
    /// With the labels `interface` and `direction`.
    pub(super) limits: Vec<Limit>,
    /// Their known paths, with the labels `peer` and `port`.
    pub(super) paths: Vec<Path>,
    /// Its guests with the label `interface`.
    pub(super) tenants: Option<Tenants>,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let of_kernel = Counter::ALL.iter().map(|c| (c.name(), help(c.name()), self.counters.get(*c)));
        for (name, help, value) in of_kernel.chain(self.own_counters.iter().copied()) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        for (name, help, value) in &self.gauges {
            let gauge = ConstGauge::new(*value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let help = "Always 1; the labels name the agent's version and the layout of its maps";
        let labels =
            [("version", env!("CARGO_PKG_VERSION").to_owned()), ("state", kernel::state_version().to_string())];
        let mut family = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        ConstGauge::new(1.0).encode(family.encode_family(&labels)?)?;
        self.encode_paths(&mut encoder)?;
        self.encode_shares(&mut encoder)?;
        self.encode_limits(&mut encoder)
    }
}

fn labels_of(limit: &Limit) -> [(&'static str, String); 2] {
    [("interface", limit.interface.clone()), ("direction", limit.direction.clone())]
}

type OfLimit<T> = (&'static str, &'static str, fn(&Limit) -> T);

const LIMIT_GAUGES: [OfLimit<f64>; 3] = [
    ("limit_rate_bytes_per_second", "Rate that a port is limited to", |l| l.rate_bps as f64 / 8.0),
    ("limit_backlog_bytes", "Bytes that wait in the queue of a limit", |l| l.backlog_bytes as f64),
    ("limit_queue_delay_seconds", "How long that lasts at the limit's rate", |l| l.queue_delay_seconds),
];

const LIMIT_COUNTERS: [OfLimit<u64>; 6] = [
    ("limit_sent_bytes", "Bytes that went through a limit", |l| l.sent_bytes),
    ("limit_first_bytes", "Bytes of flows that send little, which went past the limit's queue", |l| l.first_bytes),
    ("limit_dropped_segments", "Segments that found no room in the queue of a limit", |l| l.dropped_segments),
    ("limit_marked_segments", "Segments marked, or ACKs that got ECE, for a limit's sake", |l| l.marked_segments),
    ("limit_window_cuts", "ACKs with which the window of a limit's law shrank", |l| l.window_cuts),
    ("limit_windows_lowered", "ACKs whose receive window was lowered for a limit's sake", |l| l.windows_lowered),
];

type OfShare<T> = (&'static str, &'static str, fn(&TenantGuest) -> T);

const SHARE_GAUGES: [OfShare<f64>; 5] = [
    ("tenant_active", "1: a guest sends, and has a share; 0: it is silent", |g| f64::from(u8::from(g.active))),
    ("tenant_weight", "A guest's weight in its share", |g| f64::from(g.weight)),
    ("tenant_rate_bytes_per_second", "Rate that a guest is held to; 0 while it is silent", |g| g.rate_bps as f64 / 8.0),
    ("tenant_fair_rate_bytes_per_second", "The most that this rate may be", |g| g.fair_bps as f64 / 8.0),
    ("tenant_marked_ratio", "Smoothed part of a guest's packets that were marked", |g| g.alpha),
];

const SHARE_COUNTERS: [OfShare<u64>; 5] = [
    ("tenant_sent_bytes", "Bytes of a guest on the uplink, with headers", |g| g.bytes),
    ("tenant_marks", "Marks that peers told of a guest's packets", |g| g.marks),
    ("tenant_dropped_segments", "Segments of a guest that exceeded its share", |g| g.dropped_segments),
    ("tenant_delayed_segments", "Segments of a guest that waited for their turn", |g| g.delayed_segments),
    ("tenant_refused_segments", "Segments of a guest's new pairs that admission refused", |g| g.refused_segments),
];

impl Snapshot {
    fn encode_shares(&self, encoder: &mut DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let help = "How often the rates of guests were set";
        let counter = ConstCounter::new(tenants.ticks);
        counter.encode(encoder.encode_descriptor("tenant_ticks", help, None, counter.metric_type())?)?;
        let help = "By how much that was later than intervals' ends, in all";
        let counter = ConstCounter::new(tenants.late_seconds);
        counter.encode(encoder.encode_descriptor("tenant_late_seconds", help, None, counter.metric_type())?)?;
        if tenants.guests.is_empty() {
            return Ok(());
        }
        let labels = |g: &TenantGuest| [("interface", g.interface.clone())];
        for (name, help, value) in SHARE_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for guest in &tenants.guests {
                ConstGauge::new(value(guest)).encode(family.encode_family(&labels(guest))?)?;
            }
        }
        for (name, help, value) in SHARE_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for guest in &tenants.guests {
                ConstCounter::new(value(guest)).encode(family.encode_family(&labels(guest))?)?;
            }
        }
        Ok(())
    }

    fn encode_paths(&self, encoder: &mut DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let known = || self.paths.iter().flat_map(|to| to.known.iter().map(|path| (to.peer.clone(), path)));
        if known().next().is_none() {
            return Ok(());
        }
        let labels = |peer, path: &KnownPath| [("peer", peer), ("port", path.label.to_string())];
        let help = "Share of new flowlets to a peer that a path takes";
        let mut family = encoder.encode_descriptor("path_weight_ratio", help, None, MetricType::Gauge)?;
        for (peer, path) in known() {
            ConstGauge::new(path.weight).encode(family.encode_family(&labels(peer, path))?)?;
        }
        let help = "Feedback of marks on a path that counted";
        let mut family = encoder.encode_descriptor("path_marks", help, None, MetricType::Counter)?;
        for (peer, path) in known() {
            ConstCounter::new(u64::from(path.marks)).encode(family.encode_family(&labels(peer, path))?)?;
        }
        let late = || known().filter_map(|(peer, path)| Some((peer, path, path.late_seconds?)));
        if late().next().is_none() {
            return Ok(());
        }
        let help = "How much later than others packets of a path arrived, as the peer told last";
        let mut family = encoder.encode_descriptor("path_lateness_seconds", help, None, MetricType::Gauge)?;
        for (peer, path, late) in late() {
            ConstGauge::new(late).encode(family.encode_family(&labels(peer, path))?)?;
        }
        Ok(())
    }

    /// Which port is whose: a join adds it to what has the label `interface`, as docs/agent.md shows. As many as there are ports
    /// with limits.
    fn encode_ports(&self, encoder: &mut DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let mut ports: BTreeMap<&str, &Limit> = BTreeMap::new();
        for limit in &self.limits {
            let port = ports.entry(&limit.interface).or_insert(limit);
            if port.tenant.is_empty() {
                *port = limit; // only what guests send has a tenant
            }
        }
        let help = "Always 1; the labels name the network, tenant, owner and pod of a port with limits";
        let mut family = encoder.encode_descriptor("port_info", help, None, MetricType::Gauge)?;
        for port in ports.values() {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let labels = [
                ("interface", port.interface.clone()),
                ("network", port.network.map(|network| network.to_string()).unwrap_or_default()),
                ("tenant", port.tenant.clone()),
                ("owner", port.owner.clone()),
                ("pod", text(&port.pod.pod)),
                ("namespace", text(&port.pod.namespace)),
            ];
            ConstGauge::new(1.0).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_delays(&self, encoder: &mut DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let help = "Delay that segments find in the queue of a limit, estimated as they come to it";
        let mut family = encoder.encode_descriptor("limit_delay_seconds", help, None, MetricType::Histogram)?;
        for (limit, delays) in self.limits.iter().filter_map(|limit| Some((limit, limit.delays.as_ref()?))) {
            let bounds = delays.bounds_seconds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(delays.counts.iter().copied()).collect();
            let count = buckets.iter().map(|(_, count)| count).sum();
            let labels = labels_of(limit);
            let mut encoder = family.encode_family(&labels)?;
            encoder.encode_histogram::<NoLabelSet>(delays.sum_seconds, count, &buckets, None)?;
        }
        Ok(())
    }

    fn encode_limits(&self, encoder: &mut DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        if self.limits.is_empty() {
            return Ok(());
        }
        self.encode_ports(encoder)?;
        for (name, help, value) in LIMIT_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for limit in &self.limits {
                ConstGauge::new(value(limit)).encode(family.encode_family(&labels_of(limit))?)?;
            }
        }
        self.encode_delays(encoder)?;
        for (name, help, value) in LIMIT_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for limit in &self.limits {
                ConstCounter::new(value(limit)).encode(family.encode_family(&labels_of(limit))?)?;
            }
        }
        Ok(())
    }

    /// OpenMetrics text.
    pub(super) fn text(self) -> String {
        let mut registry = Registry::with_prefix("selvedge");
        registry.register_collector(Box::new(self));
        daemon::metrics::text(&registry)
    }
}

/// Of a counter of the data path, by its name; as `enum sv_counter` says it.
fn help(name: &str) -> &'static str {
    match name {
        "out_segments" => "Segments of guests sent to peers",
        "out_bytes" => "Bytes of guests' frames sent to peers, without the encapsulation",
        "in_segments" => "Segments of peers delivered to guests",
        "in_bytes" => "Bytes of peers' frames delivered to guests, without the encapsulation",
        "local_segments" => "Segments between guests of this host",
        "untracked_segments" => "Segments carried without flow state: neither TCP nor UDP, or fragments",
        "passed_segments" => "Segments of guests left to the host's stack",
        "flows_begun" => "Connections that began",
        "flow_table_full_segments" => "Segments handled without flow state for want of room",
        "flowcells" => "Flowcells opened",
        "in_late_segments" => "Segments received of an older flowcell than the newest seen",
        "in_ce_segments" => "Segments received with a congestion mark of the fabric",
        "in_no_guest_segments" => "Encapsulated segments for nobody here, left to the host's stack",
        "unknown_peer_segments" => "Encapsulated segments from hosts that are no peers",
        "unknown_version_segments" => "Segments whose metadata is of an unknown version",
        "feedback" => "Feedback received from peers",
        "feedback_ignored" => "Feedback received from hosts that are no peers",
        "drop_ecn_segments" => "Segments dropped because they were marked although not ECN-capable",
        "drop_too_large_segments" => "Segments dropped because no outer header can describe them, or because a peer's has more than 128 datagrams",
        "drop_error_segments" => "Segments dropped because the kernel refused to change them",
        "answered" => "ARP requests and neighbour solicitations answered",
        "mss_clamped" => "SYNs whose maximum segment size was lowered",
        "oversize_answered" => "Guests told that their packet is too big for the tunnel",
        "drop_oversize_segments" => "Segments of guests dropped because they are larger than their port's MTU",
        "drop_spoofed_segments" => "Segments of guests dropped because their source address is not their port's",
        "drop_policed_segments" => "Segments of guests dropped because they exceed the window that they were granted",
        "windows_lowered" => "ACKs delivered to guests with a smaller window",
        "packs_sent" => "Reports of received and marked bytes sent in ACKs of guests",
        "facks_asked" => "Reports of received and marked bytes to be sent in packets of their own",
        "reports_received" => "Reports of received and marked bytes from peers",
        "facks_consumed" => "Reports received in packets of their own",
        "diversions" => "Times that a flow began to go through the receiver",
        "bounced_segments" => "Segments received that went to the receiver",
        "drained_segments" => "Segments that the receiver gave back",
        "in_ahead_segments" => "Segments delivered although they may be ahead of their turn, for want of a receiver",
        "full_port_segments" => "Of flow_table_full: the guest's port held as many flows as it may",
        "full_network_segments" => "Of flow_table_full: the guest's network held as many flows as it may",
        "full_outside_segments" => "Of flow_table_full: the port held as many flows as may begin from outside",
        "facks_withheld" => "Of facks_asked: more than the agent is asked for in a while; a later report says the same",
        "cut_segments" => "Segments that the kernel was asked to cut: guests' before they are encapsulated, peers' datagrams before they leave the tunnel",
        "drop_foreign_segments" => "Frames on the receiver's device that were not its own, or for nobody any more",
        "untracked_fragments" => "Of untracked_segments: fragments, to which no law applies",
        "untracked_headers" => "Of untracked_segments: behind more IPv6 extension headers than are followed",
        "drop_tagged_segments" => "Segments of guests on strict ports dropped because of a VLAN tag",
        "drop_malformed_segments" => {
            "Frames of guests on strict ports dropped because they are neither ARP nor IP that parses"
        }
        "drop_tunnel_segments" => "Segments of guests dropped because they were for the tunnel's port of no guest",
        "drop_host_segments" => "Segments of guests dropped because they were for the host (port.host)",
        "drop_lengths_segments" => "Encapsulated segments dropped because their outer lengths are wrong",
        "drop_forged_segments" => "Segments of peers dropped because their inner source is not routed to that peer",
        "probes_answered" => "Probes of peers' path discovery answered",
        "probe_replies" => "Replies of peers to probes of path discovery",
        "feedback_sent" => "Feedback sent to peers",
        "probes_withheld" => "Probes not answered and replies not read: more than are handled in a while",
        "drops_told" => "What peers said of packets that were dropped",
        "drops_told_malformed" => "The same, ignored because it contradicts itself or comes from no peer",
        "drops_told_withheld" => "The same, ignored because it was more than is heard in a while",
        "notified" => "Switches' notifications of packets that they dropped in the tunnel",
        "notified_malformed" => {
            "The same, ignored because they are of no TCP packet of a guest here to a guest of the peer that they name"
        }
        "notified_withheld" => "The same, ignored because they were more than is heard in a while",
        "drop_over_rate_segments" => "Segments of guests dropped because they exceed the guest's share of the uplink",
        "delayed_segments" => "Segments of guests that waited for their share of the uplink",
        "marks_counted" => "Packets of peers' guests that arrived marked, counted for shares ([tenants])",
        "marks_heard" => "Marks of guests' packets that peers told of",
        "marks_asked" => "Counts of marks to be sent in packets of their own",
        "marks_withheld" => "Of marks_asked: more than the agent is asked for in a while; a later count says the same",
        "marks_consumed" => "Counts of marks received in packets of their own",
        "pairs_full_segments" => "Segments of pairs of guests for which the table of shares had no room",
        "refused_segments" => "Segments of guests' new pairs that admission refused (tenants.admission)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::pod::Pod;
    use agent_api::protocol::LimitDelays;

    #[test]
    fn who_checks_a_configuration_hears_of_a_port_that_is_taken() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let answers = std::thread::spawn(move || {
            for page in ["no page", "HTTP/1.1 200 OK\r\n\r\nselvedge_build_info{version=\"1\"} 1\n"] {
                let (mut stream, _) = taken.accept().unwrap();
                let mut request = [0; 16];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(page.as_bytes()).unwrap();
            }
            taken
        });
        let refused = check(address).unwrap_err().to_string();
        assert!(refused.contains(&address.to_string()) && refused.contains("agent.metrics"), "{refused}");
        check(address).unwrap();
        drop(answers.join().unwrap());
        check(address).unwrap();
    }

    #[test]
    fn names_have_prefix_and_suffix_and_help() {
        let snapshot = Snapshot {
            own_counters: vec![("reloads", "Configurations taken", 3)],
            gauges: vec![("flows", "Flows remembered", 12.0)],
            ..Snapshot::default()
        };
        let text = snapshot.text();
        let (version, state) = (env!("CARGO_PKG_VERSION"), kernel::state_version());
        let build = format!("selvedge_build_info{{version=\"{version}\",state=\"{state}\"}} 1.0");
        for line in [
            "# HELP selvedge_out_bytes Bytes of guests' frames sent to peers, without the encapsulation",
            "# TYPE selvedge_out_bytes counter",
            "selvedge_out_bytes_total 0",
            "selvedge_reloads_total 3",
            "selvedge_flows 12.0",
            &build,
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn each_port_is_named_once() {
        let pod = Pod { pod: Some("web".into()), namespace: None };
        let limit = |interface: &str, direction: &str, tenant: &str| Limit {
            interface: interface.into(),
            direction: direction.into(),
            tenant: tenant.into(),
            pod: pod.clone(),
            ..Limit::default()
        };
        let limits = vec![limit("a", "ingress", ""), limit("a", "egress", "blue"), limit("b", "egress", "")];
        let text = Snapshot { limits, ..Snapshot::default() }.text();
        let info: Vec<&str> = text.lines().filter(|line| line.starts_with("selvedge_port_info{")).collect();
        let of = |interface: &str, tenant: &str| {
            let labels =
                format!("interface={interface:?},network=\"\",tenant={tenant:?},owner=\"\",pod=\"web\",namespace=\"\"");
            format!("selvedge_port_info{{{labels}}} 1.0")
        };
        assert_eq!(info, [of("a", "blue"), of("b", "")]);
    }

    #[test]
    fn rates_are_in_bytes() {
        let interface = || "a".to_owned();
        let limit =
            Limit { interface: interface(), direction: "egress".into(), rate_bps: 300_000_000, ..Limit::default() };
        let guest = TenantGuest {
            interface: interface(),
            weight: 3,
            active: true,
            rate_bps: 8_000,
            fair_bps: 30_000_000,
            ..TenantGuest::default()
        };
        let tenants = Tenants { ticks: 400, late_seconds: 0.1, guests: vec![guest], ..Tenants::default() };
        let text = Snapshot { limits: vec![limit], tenants: Some(tenants), ..Snapshot::default() }.text();
        for line in [
            "selvedge_limit_rate_bytes_per_second{interface=\"a\",direction=\"egress\"} 37500000.0",
            "selvedge_tenant_rate_bytes_per_second{interface=\"a\"} 1000.0",
            "selvedge_tenant_fair_rate_bytes_per_second{interface=\"a\"} 3750000.0",
            "selvedge_tenant_weight{interface=\"a\"} 3.0",
            "selvedge_tenant_active{interface=\"a\"} 1.0",
            "selvedge_tenant_ticks_total 400",
            "selvedge_tenant_late_seconds_total 0.1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!text.contains("_bps"), "{text}");
    }

    #[test]
    fn delays_are_a_histogram() {
        let delays = LimitDelays {
            bounds_seconds: vec![0.000016, 0.000032],
            counts: vec![3, 0, 2],
            sum_seconds: 0.25,
            ..LimitDelays::default()
        };
        let limit = Limit { interface: "a".into(), direction: "egress".into(), ..Limit::default() };
        let limits = vec![Limit { delays: Some(delays), ..limit.clone() }, Limit { interface: "b".into(), ..limit }];
        let text = Snapshot { limits, ..Snapshot::default() }.text();
        let found: Vec<&str> = text.lines().filter(|line| line.contains("limit_delay_seconds")).collect();
        let of = |suffix: &str, le: &str| {
            format!("selvedge_limit_delay_seconds_{suffix}{{{le}interface=\"a\",direction=\"egress\"}}")
        };
        let bucket = |le: &str, count: u64| format!("{} {count}", of("bucket", &format!("le=\"{le}\",")));
        assert_eq!(found[1], "# TYPE selvedge_limit_delay_seconds histogram");
        assert_eq!(
            found[2..],
            [
                format!("{} 0.25", of("sum", "")),
                format!("{} 5", of("count", "")),
                bucket("0.000016", 3),
                bucket("0.000032", 3),
                bucket("+Inf", 5),
            ]
        );
    }

    #[test]
    fn packaged_alerts_and_dashboard_ask_for_metrics_that_exist() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |file: &str| std::fs::read_to_string(format!("{root}/{file}")).unwrap();
        let names = |text: &str| -> Vec<String> {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            words
                .filter(|word| word.starts_with("selvedge_") && !word.starts_with("selvedge_controller_"))
                .map(str::to_owned)
                .collect()
        };
        let mut known = names(&Snapshot::default().text());
        known.extend(names(&read("docs/agent.md")));
        for file in ["packaging/prometheus/selvedge.rules.yml", "packaging/grafana/selvedge.json"] {
            let asked = names(&read(file));
            assert!(asked.len() > 5, "{file}");
            for name in asked {
                assert!(known.contains(&name), "{file}: {name}");
            }
        }
    }

    #[test]
    fn every_counter_of_the_kernel_has_a_meaning_and_a_row_in_its_page() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md")).unwrap();
        let meant = |c: &Counter| format!("| `{}` | {} |\n", c.name(), help(c.name()));
        let rows: String = Counter::ALL.iter().map(meant).collect();
        assert!(!rows.contains("|  |"), "a counter without a meaning:\n{rows}");
        assert!(page.contains(&format!("|---|---|\n{rows}\n")), "docs/counters.md should have\n{rows}");
    }

    #[test]
    fn what_limits_and_shares_tell_is_documented() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent.md")).unwrap();
        let gauges = LIMIT_GAUGES.iter().map(|g| g.0).chain(SHARE_GAUGES.iter().map(|g| g.0)).map(str::to_owned);
        let counters = LIMIT_COUNTERS.iter().map(|c| c.0).chain(SHARE_COUNTERS.iter().map(|c| c.0));
        let counters = counters.chain(["tenant_ticks", "tenant_late_seconds"]);
        for name in gauges.chain(counters.map(|name| format!("{name}_total"))) {
            assert!(page.contains(&format!("`selvedge_{name}`")), "docs/agent.md lacks selvedge_{name}");
        }
    }
}
