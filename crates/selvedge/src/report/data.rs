//! What a report shows, as plain data. Nothing here knows the simulator: whoever ran an experiment (simulator,
//! reproduction harness, lab) fills these structs, and [`super::render`] draws them.
//!
//! Schemes are identified by name: [`SchemeReport::name`] and [`Row::scheme`] that are equal share a colour. The order of
//! [`ReportData::schemes`] is the order everywhere, and the first row of the table is the baseline of all differences.
//! Units are in the field's name or beside it. Values that are not finite are shown as missing.

use serde::{Deserialize, Serialize};

/// A complete report. Every list may be empty: a section without data says so or is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportData {
    pub title: String,
    /// The scenario in its own words.
    pub subtitle: String,
    pub version: String,
    /// The command line that made the report.
    pub command: String,
    pub seeds: Vec<u64>,
    /// Name and value of what else belongs into the head, such as the rates of links.
    pub facts: Vec<[String; 2]>,
    /// The configuration that was in effect, as TOML.
    pub effective_config: String,
    /// What a reader must know before trusting a number, such as "3 flows unfinished at the end: censored".
    pub warnings: Vec<String>,
    pub schemes: Vec<SchemeReport>,
    pub topology: TopologyDrawing,
    pub table: Table,
    /// Metrics over an axis, of runs at several points.
    pub sweep: Option<Sweep>,
    /// Failures of links and the end of the run; `None` if nothing failed and everything finished.
    pub timeline: Option<Timeline>,
    /// Checks against published numbers; empty unless the run is a reproduction.
    pub checks: Vec<CheckReport>,
    /// What was measured with real traffic, beside what was simulated.
    pub real: Option<Real>,
    /// Where checks are not against a paper: what [`CheckReport::paper`] and [`CheckReport::measured`] are instead.
    pub compared_with: Option<[String; 2]>,
}

/// Requests beside downloads, of real TCP behind rate limiters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Real {
    pub title: String,
    /// What was done.
    pub text: String,
    /// When counting begins, s after the downloads.
    pub warmup_s: f64,
    /// One row a limiter.
    pub table: Table,
    pub lines: Vec<RealLine>,
}

/// What was measured behind one limiter. The order is that of the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealLine {
    /// [`Row::scheme`] of the table.
    pub name: String,
    pub note: String,
    /// When each request was sent, s since the downloads began, and its round trip, ms.
    pub requests: Vec<[f64; 2]>,
    /// Round trips of those that count.
    pub beside: Cdf,
    /// Payload of all downloads together, Mb/s.
    pub downloads: Series,
}

/// What a report of a sweep shows beside that of a single point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sweep {
    /// What changes from point to point.
    pub axis: String,
    /// Labels, in the order of the sweep.
    pub points: Vec<String>,
    /// Where the points stand on the axis; labels stand side by side unless all points have a number.
    pub numbers: Option<Vec<f64>>,
    pub metrics: Vec<SweepMetric>,
}

/// One metric of all schemes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepMetric {
    pub column: Column,
    pub lines: Vec<SweepLine>,
}

/// One scheme: a value a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepLine {
    /// [`SchemeReport::name`].
    pub scheme: String,
    pub values: Vec<Cell>,
}

/// Everything measured under one scheme.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemeReport {
    pub name: String,
    /// A few words on what the scheme does, shown under its name; may be empty.
    pub note: String,
    pub fct: Vec<FctSeries>,
    /// In ascending order of size; the same labels in every scheme.
    pub slowdown: Vec<SlowdownBucket>,
    /// Of flows of all seeds; some of them where there are many.
    pub throughput: Vec<Throughput>,
    /// Over all such flows, Gbit/s.
    pub throughput_mean_gbps: Option<f64>,
    pub link_utilisation: Vec<LinkUtilisation>,
    pub queue: Vec<QueueDepth>,
    pub rtt: Option<Cdf>,
    /// Goodput of all flows together, Gbit/s.
    pub goodput: Option<Series>,
    /// Flows of bounded size that had not finished; some of them where there are many.
    pub unfinished_flows: Vec<UnfinishedFlow>,
}

/// A flow that had not finished when its run ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnfinishedFlow {
    /// The point of a sweep; empty without one.
    pub point: String,
    pub flow: String,
    pub from_ms: f64,
    pub to_ms: f64,
    /// Part of its bytes that the receiver had, 0 to 1.
    pub delivered: f64,
    /// Completes "flows that ...".
    pub cause: String,
}

/// When links changed, and when the runs ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Points of a sweep that have something to show; empty without one.
    pub points: Vec<String>,
    /// Of the longest run.
    pub ends_ms: f64,
    pub links: Vec<LinkEvent>,
}

/// A link that failed, or recovered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkEvent {
    /// The point of a sweep; empty without one.
    pub point: String,
    pub at_ms: f64,
    pub link: String,
    pub up: bool,
}

/// Flow completion times of one class of flows ("mice", "all", ...).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FctSeries {
    pub class: String,
    pub cdf: Cdf,
}

/// A distribution, ready to draw. [`Cdf::from_samples`] makes one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cdf {
    /// Unit of the sample values. Times should be "ms": the axis then labels them from ns to s.
    pub unit: String,
    /// Samples observed.
    pub count: u64,
    /// Samples known to exist but not observed to their end; they count as larger than every observed one.
    pub censored: u64,
    /// `[value, fraction of samples at most this value]`, ascending in both.
    pub points: Vec<[f64; 2]>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
}

/// FCT divided by the ideal FCT, for the flows of one range of sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowdownBucket {
    /// Such as "10-100 KB".
    pub size_label: String,
    pub count: u64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// Throughput of one flow or host, averaged over the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub name: String,
    pub gbps: f64,
}

/// Direction on a link, from the ends as its [`Link`] names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    #[default]
    AToB,
    BToA,
}

/// How busy one direction of a link was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUtilisation {
    /// [`Link::name`] of a link of the topology.
    pub link: String,
    pub dir: Direction,
    /// Fraction of the link's rate, 0 to 1, over the measured interval.
    pub mean: f64,
    /// The same fraction over time.
    pub series: Option<Series>,
}

/// Values at equal steps of simulated time. [`Series::new`] makes one of bounded length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Time of the first step's beginning, ms.
    pub start_ms: f64,
    pub step_ms: f64,
    /// Mean over each step.
    pub values: Vec<f64>,
}

/// Occupancy of one output queue, KB (1000 bytes).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDepth {
    pub port: String,
    pub mean_kb: f64,
    pub max_kb: f64,
}

/// The network, as it is to be drawn. [`TopologyDrawing::place_by_tier`] finds coordinates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyDrawing {
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
}

/// A host or switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub name: String,
    /// "host" is drawn as a host; anything else ("leaf", "spine", "switch") as a switch.
    pub kind: String,
    /// 0 for hosts, 1 for the switches they attach to, and so on.
    pub tier: u32,
    /// Any scale, to the right.
    pub x: f64,
    /// Any scale, downwards.
    pub y: f64,
}

/// A full-duplex link; `a` and `b` are names of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    pub a: String,
    pub b: String,
    /// Unique; parallel links differ in it.
    pub name: String,
    pub rate_gbps: f64,
}

/// The comparison that heads the report: one row a scheme.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

/// One metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Stable name, as in the JSON and CSV results.
    pub key: String,
    pub title: String,
    /// May be empty.
    pub unit: String,
    pub better: Better,
}

/// Which values of a column are good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// No value is emphasised and no difference is shown.
    #[default]
    Neither,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// [`SchemeReport::name`].
    pub scheme: String,
    /// One a column.
    pub cells: Vec<Cell>,
}

/// A value, perhaps missing, perhaps with an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    pub value: Option<f64>,
    /// Half-width of the confidence interval over seeds; infinite where there are several and they do not give one.
    pub ci: Option<f64>,
    /// Why the value is missing, or what to beware of.
    pub note: Option<String>,
}

impl Cell {
    /// Is the difference to another more than their intervals leave to chance? What has none, as in a single run, adds nothing; an
    /// infinite one says that the seeds do not tell.
    pub fn differs(&self, other: &Cell) -> bool {
        let (Some(a), Some(b)) = (self.value, other.value) else { return false };
        let chance = self.ci.unwrap_or_default().hypot(other.ci.unwrap_or_default());
        (a - b).abs() > chance
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell { value: Some(value), ..Cell::default() }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        Cell { value, ..Cell::default() }
    }
}

/// One check of one result against what its paper printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckReport {
    /// Result id, such as `presto/fig15-stride`.
    pub id: String,
    /// Figure or section.
    pub source: String,
    /// What is checked, in words.
    pub text: String,
    pub paper: String,
    /// With its interval, where there is one.
    pub measured: String,
    /// The paper's number, to be drawn beside what was measured.
    pub paper_value: Option<f64>,
    /// What was measured, in the order in which `measured` tells it.
    pub values: Vec<Cell>,
    pub status: CheckStatus,
    /// Why it was not run, or how it failed.
    pub reason: Option<String>,
    /// It is reported, and decides nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absolute: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckStatus {
    Holds,
    Fails,
    #[default]
    NotRun,
}
