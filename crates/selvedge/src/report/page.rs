//! The page's frame: head, header, one card a chart, set-up.

use std::fmt::Write as _;

use serde::Serialize;

use super::data::{Real, ReportData, SchemeReport, Sweep, Timeline, TopologyDrawing};
use super::html::{escape, script_json};
use super::{summary, tables};

const STYLE: &str = include_str!("../../assets/report/page.css");
const ERRORS: &str = include_str!("../../assets/report/errors.js");
const ECHARTS: &str = include_str!("../../assets/echarts/echarts.min.js");
/// In this order, in one function.
const SCRIPTS: [&str; 7] = [
    include_str!("../../assets/report/base.js"),
    include_str!("../../assets/report/sweep.js"),
    include_str!("../../assets/report/flows.js"),
    include_str!("../../assets/report/timeline.js"),
    include_str!("../../assets/report/fabric.js"),
    include_str!("../../assets/report/real.js"),
    include_str!("../../assets/report/start.js"),
];

/// Nothing may be fetched, framed or sent. Style and script are inline; a chart saved as a picture is a `data:` URL.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// What the charts need. The rest of the report is text already.
#[derive(Serialize)]
struct ChartData<'a> {
    schemes: &'a [SchemeReport],
    topology: &'a TopologyDrawing,
    sweep: Option<&'a Sweep>,
    timeline: Option<&'a Timeline>,
    real: Option<&'a Real>,
}

pub(super) fn render(data: &ReportData) -> String {
    let mut out = String::with_capacity(ECHARTS.len() + 512 * 1024);
    head(&mut out, data);
    header(&mut out, data);
    out.push_str("<main>");
    // Where there are verdicts, they are what matters.
    summary::checks(&mut out, data);
    summary::comparison(&mut out, data);
    charts(&mut out, data);
    real(&mut out, data);
    set_up(&mut out, data);
    out.push_str("</main>");
    let _ =
        write!(out, "<footer>Selvedge {} · this file is complete: it needs no network</footer>", escape(&data.version));
    let json = script_json(&ChartData {
        schemes: &data.schemes,
        topology: &data.topology,
        sweep: data.sweep.as_ref(),
        timeline: data.timeline.as_ref(),
        real: data.real.as_ref(),
    });
    let _ = write!(out, "<script type=\"application/json\" id=\"report-data\">{json}</script>");
    let _ = write!(out, "<script>{ECHARTS}</script>");
    let _ = write!(out, "<script>(() => {{\n'use strict';\n{}}})();</script>", SCRIPTS.concat());
    out.push_str("</body></html>\n");
    out
}

fn head(out: &mut String, data: &ReportData) {
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{}</title>\n<style>{STYLE}</style>\n<script>{ERRORS}</script></head><body>",
        escape(&data.title)
    );
}

fn header(out: &mut String, data: &ReportData) {
    let _ = write!(out, "<header><p class=\"brand\">Selvedge</p><h1>{}</h1>", escape(&data.title));
    if !data.subtitle.is_empty() {
        let _ = write!(out, "<p class=\"lead\">{}</p>", escape(&data.subtitle));
    }
    out.push_str("<ul class=\"facts\">");
    summary::check_count(out, data);
    if data.real.is_some() && !data.schemes.is_empty() {
        out.push_str("<li><a href=\"#real\">and real traffic</a></li>");
    }
    let names: Vec<&str> = data.schemes.iter().map(|s| s.name.as_str()).collect();
    fact(out, "schemes", &names.join(", "));
    let hosts = data.topology.nodes.iter().filter(|n| n.kind == "host").count();
    if !data.topology.nodes.is_empty() {
        fact(out, "hosts", &hosts.to_string());
        fact(out, "switches", &(data.topology.nodes.len() - hosts).to_string());
    }
    data.facts.iter().for_each(|[name, value]| fact(out, name, value));
    fact(out, if data.seeds.len() == 1 { "seed" } else { "seeds" }, &seeds(&data.seeds));
    fact(out, "version", &data.version);
    out.push_str("</ul>");
    if !data.warnings.is_empty() {
        out.push_str("<div class=\"warnings\" role=\"note\"><strong>Before you trust a number</strong><ul>");
        for warning in &data.warnings {
            let _ = write!(out, "<li>{}</li>", escape(warning));
        }
        out.push_str("</ul></div>");
    }
    out.push_str("</header><noscript><p class=\"warnings\">The charts need JavaScript; the tables below are complete without it.</p></noscript>");
}

fn fact(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        let _ = write!(out, "<li><span>{name}</span> {}</li>", escape(value));
    }
}

/// "1–5" for a run of seeds, else the list.
fn seeds(seeds: &[u64]) -> String {
    let run = seeds.windows(2).all(|w| w[0].checked_add(1) == Some(w[1]));
    match seeds {
        [first, .., last] if run && seeds.len() > 2 => format!("{first}\u{2013}{last}"),
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The cards, in reading order. A chart without data has no card, and its neighbour gets the room.
fn charts(out: &mut String, data: &ReportData) {
    let any = |has: fn(&SchemeReport) -> bool| data.schemes.iter().any(has);
    let sweep = Card {
        id: "sweep",
        title: "Over the axis",
        lead: "A metric at each point of the sweep: the value of all seeds, with its 95% interval over seeds.",
        shown: data.sweep.is_some(),
    };
    let throughput = Card {
        id: "throughput",
        title: "Throughput",
        lead: "Bar: mean over the flows of all seeds. Dots: flows.",
        shown: any(|s| !s.throughput.is_empty()),
    };
    let goodput = Card {
        id: "goodput",
        title: "Goodput over time",
        lead: "All flows together, the mean over seeds.",
        shown: any(|s| s.goodput.is_some()),
    };
    let fct = Card {
        id: "fct",
        title: "Flow completion times",
        lead: "Share of flows done within a time: further left is better.",
        shown: any(|s| !s.fct.is_empty()),
    };
    let slowdown = Card {
        id: "slowdown",
        title: "Slowdown by flow size",
        lead: "Completion time over the time that the bytes of the flow need on an idle path. Handshake and the hosts' interrupt coalescing \
               are not in it, so short flows never reach 1.",
        shown: any(|s| !s.slowdown.is_empty()),
    };
    let timeline = Card {
        id: "timeline",
        title: "Failures and unfinished flows",
        lead: "Strokes: links that fail or recover. Bars: flows that had not finished, from their start to the end of their run.",
        shown: data.timeline.is_some(),
    };
    let heat = Card {
        id: "heat",
        title: "Link utilisation",
        lead: "Share of each link's capacity in use, each direction by itself: the mean over seeds.",
        shown: any(|s| !s.link_utilisation.is_empty()),
    };
    let queue = Card {
        id: "queue",
        title: "Queue depth",
        lead: "Occupancy of output queues, deepest first: the mean over seeds, and the largest of any.",
        shown: any(|s| !s.queue.is_empty()),
    };
    let rtt = Card {
        id: "rtt",
        title: "Round-trip times",
        lead: "Share of samples at most this long.",
        shown: any(|s| s.rtt.is_some()),
    };
    let topology = Card {
        id: "topology",
        title: "Topology",
        lead: "Coloured by mean utilisation; each line is one direction of a link.",
        shown: !data.topology.nodes.is_empty(),
    };
    let below_each_other = group("stack", &[queue.html(tables::queue, data), rtt.html(tables::rtt, data)]);
    let all = [
        sweep.html(tables::sweep, data),
        group("pair", &[throughput.html(tables::throughput, data), goodput.html(tables::goodput, data)]),
        group("pair", &[fct.html(tables::fct, data), slowdown.html(tables::slowdown, data)]),
        timeline.html(tables::timeline, data),
        group("pair", &[heat.html(tables::links, data), below_each_other]),
        topology.html(|_, _| (), data),
    ]
    .concat();
    let nothing = all.is_empty() && data.real.is_none();
    out.push_str(if nothing { "<p class=\"card empty\">Nothing was recorded.</p>" } else { &all });
}

/// The section of real traffic: its numbers, then its charts.
fn real(out: &mut String, data: &ReportData) {
    let Some(real) = &data.real else { return };
    summary::real(out, real);
    let requests = Card {
        id: "requests",
        title: "Requests beside downloads",
        lead: "Round trip of each request, by when it was sent; or the share of those that count which took at most so long.",
        shown: real.lines.iter().any(|line| !line.requests.is_empty()),
    };
    let downloads = Card {
        id: "downloads",
        title: "Downloads",
        lead: "Payload that the container receives, all downloads together.",
        shown: real.lines.iter().any(|line| !line.downloads.values.is_empty()),
    };
    out.push_str(&group("pair", &[requests.html(tables::requests, data), downloads.html(tables::downloads, data)]));
}

/// A chart with its title, its switches and the numbers behind it.
struct Card {
    /// The scripts look for `chart-<id>` and `controls-<id>`.
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    shown: bool,
}

impl Card {
    /// Empty if the card is not shown.
    fn html(&self, numbers: fn(&mut String, &ReportData), data: &ReportData) -> String {
        let Card { id, title, lead, shown } = self;
        if !shown {
            return String::new();
        }
        let mut out = format!(
            "<section class=\"card\" id=\"{id}\"><div class=\"card-head\"><div><h2>{title}</h2><p>{lead}</p></div>\
             <div class=\"controls\" id=\"controls-{id}\"></div></div>\
             <div class=\"chart\" id=\"chart-{id}\" role=\"img\" aria-label=\"{title}. {lead}\"></div>"
        );
        numbers(&mut out, data);
        out.push_str("</section>");
        out
    }
}

fn group(class: &str, cards: &[String]) -> String {
    let cards = cards.concat();
    if cards.is_empty() {
        return cards;
    }
    format!("<div class=\"{class}\">{cards}</div>")
}

fn set_up(out: &mut String, data: &ReportData) {
    out.push_str("<section class=\"card\" id=\"set-up\"><details><summary><h2>Set-up</h2></summary><dl>");
    let rows = [("Command", &data.command), ("Version", &data.version), ("Seeds", &seeds(&data.seeds))];
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, "<dt>{name}</dt><dd><code>{}</code></dd>", escape(value));
    }
    let _ = write!(
        out,
        "</dl><h3>Effective configuration</h3><pre><code>{}</code></pre></details></section>",
        escape(&data.effective_config)
    );
}
