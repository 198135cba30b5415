//! A report as a comparison on a 16-host Clos fabric yields it, with invented but plausible numbers.

use selvedge::report::*;

/// Numbers in [0, 1) that look random and never change.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Behaviour {
    name: &'static str,
    note: &'static str,
    /// Throughput of a flow, Gbps: lowest and highest.
    gbps: (f64, f64),
    /// Median completion time of a mouse, ms, and how heavy its tail is.
    mouse_ms: f64,
    tail: f64,
    queue_kb: f64,
    on_fabric: bool,
}

const BEHAVIOURS: [Behaviour; 3] = [
    Behaviour {
        name: "ecmp",
        note: "one path a flow, by hash",
        gbps: (2.3, 9.4),
        mouse_ms: 0.42,
        tail: 2.6,
        queue_kb: 310.0,
        on_fabric: true,
    },
    Behaviour {
        name: "presto",
        note: "64 KB flowcells over all paths",
        gbps: (9.0, 9.35),
        mouse_ms: 0.19,
        tail: 0.9,
        queue_kb: 74.0,
        on_fabric: true,
    },
    Behaviour {
        name: "optimal",
        note: "one non-blocking switch",
        gbps: (9.3, 9.41),
        mouse_ms: 0.16,
        tail: 0.6,
        queue_kb: 41.0,
        on_fabric: false,
    },
];

pub(super) fn clos(leaves: usize, spines: usize, hosts_per_leaf: usize) -> TopologyDrawing {
    let node = |name: String, kind: &str, tier| Node { name, kind: kind.into(), tier, ..Node::default() };
    let link = |a: String, b: String| Link { name: format!("{a}-{b}"), a, b, rate_gbps: 10.0 };
    let mut drawing = TopologyDrawing::default();
    let hosts = leaves * hosts_per_leaf;
    drawing.nodes.extend((0..hosts).map(|h| node(format!("h{h}"), "host", 0)));
    drawing.nodes.extend((0..leaves).map(|l| node(format!("leaf{l}"), "leaf", 1)));
    drawing.nodes.extend((0..spines).map(|s| node(format!("spine{s}"), "spine", 2)));
    drawing.links.extend((0..hosts).map(|h| link(format!("h{h}"), format!("leaf{}", h / hosts_per_leaf))));
    drawing
        .links
        .extend((0..leaves * spines).map(|i| link(format!("leaf{}", i / spines), format!("spine{}", i % spines))));
    drawing.place_by_tier();
    drawing
}

fn scheme(b: &Behaviour, topology: &TopologyDrawing, noise: &mut Noise) -> SchemeReport {
    let hosts = topology.nodes.iter().filter(|n| n.kind == "host").count();
    let mut between = |low: f64, high: f64| low + (high - low) * noise.next();
    let throughput: Vec<Throughput> = (0..hosts)
        .map(|h| Throughput { name: format!("h{h}→h{}", (h + 8) % hosts), gbps: between(b.gbps.0, b.gbps.1) })
        .collect();
    let mut tailed = |median: f64, n: usize| -> Vec<f64> {
        // Log-logistic: a body around the median and a tail of the wanted weight.
        (0..n)
            .map(|_| between(0.0005, 0.9999))
            .map(|u| median * (0.35 + 0.65 * (u / (1.0 - u)).powf(b.tail / 3.0)))
            .collect()
    };
    let fct = vec![
        FctSeries { class: "mice".into(), cdf: Cdf::from_samples("ms", tailed(b.mouse_ms, 12_000), 0) },
        FctSeries { class: "elephants".into(), cdf: Cdf::from_samples("ms", tailed(b.mouse_ms * 90.0, 400), 3) },
    ];
    let rtt = Cdf::from_samples("ms", tailed(b.mouse_ms * 0.6, 20_000), 0);
    let sizes = ["< 10 KB", "10–100 KB", "0.1–1 MB", "1–10 MB", "> 10 MB"];
    let slowdown = sizes
        .iter()
        .enumerate()
        .map(|(i, size)| {
            let p50 = 1.0 + b.mouse_ms * 4.0 / (i + 1) as f64 + between(0.0, 0.2);
            SlowdownBucket {
                size_label: (*size).into(),
                count: 9000 >> i,
                p50: Some(p50),
                p99: Some(p50 * (1.0 + 3.0 * b.tail)),
            }
        })
        .collect();
    let goodput: f64 = throughput.iter().map(|t| t.gbps).sum();
    let waves: Vec<f64> = (0..200).map(|_| goodput * between(0.97, 1.02)).collect();
    let mut link_utilisation = Vec::new();
    for link in &topology.links {
        let at_host = link.a.starts_with('h');
        if !at_host && !b.on_fabric {
            continue;
        }
        for dir in [Direction::AToB, Direction::BToA] {
            let spread =
                if at_host { (b.gbps.0 / 10.0, b.gbps.1 / 10.0) } else { (b.gbps.0 / 10.0 - 0.15, b.gbps.1 / 9.6) };
            let mean = between(spread.0, spread.1).clamp(0.0, 1.0);
            let values: Vec<f64> = (0..120).map(|_| (mean + between(-0.06, 0.06)).clamp(0.0, 1.0)).collect();
            let series = Some(Series::new(0.0, 1.0, &values));
            link_utilisation.push(LinkUtilisation { link: link.name.clone(), dir, mean, series });
        }
    }
    let ports = topology.links.iter().filter(|l| b.on_fabric || l.a.starts_with('h'));
    let queue = ports
        .map(|l| {
            let mean_kb = b.queue_kb * between(0.1, 1.0);
            QueueDepth { port: format!("{}→{}", l.b, l.a), mean_kb, max_kb: mean_kb * between(2.0, 4.0) }
        })
        .collect();
    SchemeReport {
        throughput_mean_gbps: None,
        name: b.name.into(),
        note: b.note.into(),
        fct,
        slowdown,
        throughput,
        link_utilisation,
        queue,
        rtt: Some(rtt),
        goodput: Some(Series::new(0.0, 0.6, &waves)),
        unfinished_flows: Vec::new(),
    }
}

pub(super) fn stride() -> ReportData {
    let topology = clos(4, 4, 4);
    let mut noise = Noise(7);
    let schemes: Vec<SchemeReport> = BEHAVIOURS.iter().map(|b| scheme(b, &topology, &mut noise)).collect();
    let column = |key: &str, title: &str, unit: &str, better| Column {
        key: key.into(),
        title: title.into(),
        unit: unit.into(),
        better,
    };
    let columns = vec![
        column("throughput_mean_gbps", "Mean throughput", "Gbps", Better::Higher),
        column("jain", "Fairness", "Jain's index", Better::Higher),
        column("mice_p50_ms", "Mice, median", "ms", Better::Lower),
        column("mice_p99_ms", "Mice, p99", "ms", Better::Lower),
        column("mice_p999_ms", "Mice, p99.9", "ms", Better::Lower),
        column("loss_pct", "Loss", "% of packets", Better::Lower),
    ];
    let rows = schemes
        .iter()
        .zip([0.81, 0.998, 0.9996])
        .zip([0.043, 0.0008, 0.0])
        .map(|((s, jain), loss)| {
            let mean = s.throughput.iter().map(|t| t.gbps).sum::<f64>() / s.throughput.len() as f64;
            let mice = &s.fct[0].cdf;
            let throughput = Cell { value: Some(mean), ci: Some(0.04), note: None };
            let cells =
                vec![throughput, Cell::from(jain), mice.p50.into(), mice.p99.into(), mice.p999.into(), loss.into()];
            Row { scheme: s.name.clone(), cells }
        })
        .collect();
    let check = |text: &str, paper: &str, measured: &str, status| CheckReport {
        id: "presto/fig15-stride".into(),
        source: "Figure 15".into(),
        text: text.into(),
        paper: paper.into(),
        measured: measured.into(),
        paper_value: paper.split(' ').next().and_then(|word| word.parse().ok()),
        values: measured
            .split(' ')
            .next()
            .and_then(|word| word.parse::<f64>().ok())
            .map(Cell::from)
            .into_iter()
            .collect(),
        status,
        reason: (status == CheckStatus::NotRun).then(|| "p99.9 needs 10,000 samples; this run has 4,096".into()),
        absolute: false,
    };
    ReportData {
        title: "Stride(8) on a 16-host Clos".into(),
        subtitle: "Every host sends one long flow to the host eight places on, so that all traffic crosses the spine; \
                   50 KB mice every 100 ms measure what that does to latency."
            .into(),
        version: "0.1.0".into(),
        command: "selvedge sim run scenarios/presto/stride.toml --scheme ecmp,presto,optimal --seeds 1..5".into(),
        seeds: (1..=5).collect(),
        facts: vec![["host links".into(), "10Gbps".into()]],
        effective_config:
            "[fabric]\nkind = \"clos\"\nleaves = 4\nspines = 4\nhosts_per_leaf = 4\nrate = \"10Gbps\"\ndelay = \
                           \"1us\"\n\n[workload]\nkind = \"stride\"\nstep = 8\n"
                .into(),
        warnings: vec!["3 flows unfinished at the end under each scheme: counted as slower than all others".into()],
        schemes,
        topology,
        table: Table { columns, rows },
        checks: vec![
            check(
                "Presto's throughput is within 5% of the non-blocking switch",
                "≥ 0.95",
                "0.982 ± 0.004",
                CheckStatus::Holds,
            ),
            check("ECMP falls at least a third short", "0.56–0.65", "0.63 ± 0.05", CheckStatus::Holds),
            check("ECMP's p99.9 of mice is at least ten times Presto's", "≥ 10", "7.4 ± 1.1", CheckStatus::Fails),
            check("Presto's p99.9 of mice is within 350 µs of optimal", "≤ 0.35 ms", "", CheckStatus::NotRun),
        ],
        compared_with: None,
        sweep: None,
        timeline: None,
        real: None,
    }
}

/// Requests behind two limiters, from two seconds before their downloads.
pub(super) fn real() -> Real {
    let line = |name: &str, ms: f64| {
        let mut noise = Noise(ms.to_bits());
        let took = |sent: f64, noise: &mut Noise| if sent < 0.0 { 0.1 } else { ms * (1.0 + noise.next()) };
        let requests: Vec<[f64; 2]> =
            (0..500).map(|n| f64::from(n) * 0.01 - 2.0).map(|sent| [sent, took(sent, &mut noise)]).collect();
        let counted = requests.iter().filter(|[sent, _]| *sent >= 1.0).map(|[_, took]| *took).collect();
        RealLine {
            name: name.into(),
            note: "a limiter".into(),
            beside: Cdf::from_samples("ms", counted, 1),
            requests,
            downloads: Series::new(0.0, 100.0, &[285.0; 30]),
        }
    };
    let lines = vec![line("htb", 90.0), line("selvedge", 0.1)];
    let better = Better::Lower;
    let rows = lines.iter().map(|l| Row { scheme: l.name.clone(), cells: vec![l.beside.p50.into()] }).collect();
    Real {
        title: "Real traffic".into(),
        text: "a container behind a limit".into(),
        warmup_s: 1.0,
        table: Table {
            columns: vec![Column { title: "request".into(), unit: "ms".into(), better, ..Column::default() }],
            rows,
        },
        lines,
    }
}

/// Two schemes over a load, one of them not measured at one point.
pub(super) fn sweep() -> ReportData {
    let cell = |value: f64| Cell { value: Some(value), ci: Some(value / 10.0), note: None };
    let line = |scheme: &str, values: Vec<Cell>| SweepLine { scheme: scheme.into(), values };
    let metric = |title: &str, unit: &str| SweepMetric {
        column: Column { key: title.into(), title: title.into(), unit: unit.into(), better: Better::Lower },
        lines: vec![
            line("ecmp", vec![cell(1.0), cell(2.0), cell(6.0)]),
            line("presto", vec![cell(0.8), Cell { ci: Some(f64::INFINITY), ..cell(1.1) }, Cell::default()]),
        ],
    };
    let mut data = stride();
    data.schemes.retain(|s| s.name != "optimal");
    data.sweep = Some(Sweep {
        axis: "load".into(),
        points: ["load=0.2", "load=0.4", "load=0.6"].map(str::to_owned).to_vec(),
        numbers: Some(vec![0.2, 0.4, 0.6]),
        metrics: vec![metric("FCT p99", "ms"), metric("slowdown p50", "")],
    });
    data.table = Table::default();
    data
}

/// A link that fails and recovers, and flows of two schemes that did not finish.
pub(super) fn timeline() -> ReportData {
    let mut data = stride();
    let event = |at_ms, up| LinkEvent { point: String::new(), at_ms, link: "leaf1-spine2".into(), up };
    data.timeline =
        Some(Timeline { points: Vec::new(), ends_ms: 120.0, links: vec![event(40.0, false), event(80.0, true)] });
    for (scheme, n) in [(0, 12), (1, 1)] {
        data.schemes[scheme].unfinished_flows = (0..n)
            .map(|i| UnfinishedFlow {
                point: String::new(),
                flow: format!("mice {i}, 0 to 4, seed 1"),
                from_ms: 30.0 + 5.0 * f64::from(i),
                to_ms: 120.0,
                delivered: 0.25,
                cause: "lost packets and waited for timeouts".into(),
            })
            .collect();
    }
    data
}
