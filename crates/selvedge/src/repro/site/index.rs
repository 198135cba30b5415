//! The index: counts by paper and status, and every claim.

use super::super::catalogue::{is_test, Catalogue, Entry, Status};
use super::super::file::Experiment;
use super::super::kept::Kept;
use super::super::measured::on_real_hosts;
use super::page::{badge, page, shares};
use super::{page_of, prose, Sources};
use crate::report::html::escape;
use std::fmt::Write as _;

pub(super) fn render(experiments: &[Experiment], sources: &Sources<'_>) -> String {
    let Sources { claims, kept, .. } = *sources;
    let mut body = String::from("<section class=\"card\" id=\"counts\"><h2>Papers</h2><div class=\"scroll\"><table><thead><tr><th>Paper</th><th>Claims</th>");
    for status in Status::ALL {
        let _ = write!(body, "<th>{}</th>", status.word());
    }
    body.push_str("<th class=\"wide\"></th></tr></thead><tbody>");
    for catalogue in claims {
        let counts: Vec<(Status, usize)> = Status::ALL.map(|status| (status, count(catalogue, kept, status))).to_vec();
        let paper = escape(&catalogue.paper);
        let _ = write!(body, "<tr><th><a href=\"#{paper}\">{paper}</a></th><td>{}</td>", catalogue.entries.len());
        for (_, n) in &counts {
            let _ = write!(body, "<td>{n}</td>");
        }
        let _ = write!(body, "<td>{}</td></tr>", shares(&counts));
    }
    body.push_str("</tbody></table></div></section>");
    for catalogue in claims {
        let paper = escape(&catalogue.paper);
        let _ = write!(body, "<section class=\"card\" id=\"{paper}\"><h2>{paper}</h2>");
        for section in sources.prose.iter().filter(|s| s.paper == catalogue.paper && s.experiments.is_empty()) {
            body.push_str(&prose::html(&section.text));
        }
        body.push_str("<div class=\"scroll\"><table class=\"claims\"><thead><tr><th>Status</th><th>Claim</th><th class=\"wide\">What must hold</th></tr></thead><tbody>");
        for entry in &catalogue.entries {
            row(&mut body, entry, experiments, kept);
        }
        body.push_str("</tbody></table></div></section>");
    }
    let lead = format!(
        "<p class=\"lead\">Every claim of the papers that Selvedge reproduces, what decides it, and what was measured ({} records). A claim is \
         decided by its ratio or its order; absolute figures are reported and decide nothing. A claim that names a test holds if \
         the tests of this version pass.{}</p>",
        kept.len(),
        match kept.of_other_sources() {
            0 => String::new(),
            n => format!(" {n} records were measured before the simulator's sources were last changed; their pages say so."),
        }
    );
    page("Published results", &lead, &body)
}

fn count(catalogue: &Catalogue, kept: &Kept, status: Status) -> usize {
    catalogue.entries.iter().filter(|entry| entry.status(&kept.statuses) == status).count()
}

fn row(out: &mut String, entry: &Entry, experiments: &[Experiment], kept: &Kept) {
    let name = entry.id.split_once('/').map_or(entry.id.as_str(), |(_, name)| name);
    let _ = write!(
        out,
        "<tr id=\"{}\"><td>{}</td><td><code>{}</code></td><td>{}",
        escape(&entry.id),
        badge(entry.status(&kept.statuses).word()),
        escape(name),
        escape(&entry.what)
    );
    for (key, ids) in [("scenario", &entry.scenario), ("cause shown by", &entry.cause)] {
        let links: Vec<String> = ids.iter().filter_map(|id| link(id, experiments)).collect();
        if !links.is_empty() {
            let _ = write!(out, "<p class=\"remark\">{key}: {}</p>", links.join(", "));
        }
    }
    let causes = entry.cause.iter().filter(|cause| is_test(cause));
    for (key, test) in entry.test.iter().map(|test| ("test", test)).chain(causes.map(|test| ("cause shown by", test))) {
        let _ = write!(out, "<p class=\"remark\">{key}: <code>{}</code></p>", escape(test));
    }
    for (key, text) in entry.remarks() {
        let _ = write!(out, "<p class=\"remark\">{key}: {}</p>", escape(text));
    }
    if let Some(record) = kept.on_real_hosts(entry) {
        let _ = write!(out, "<p class=\"remark\">on real hosts: {}</p>", escape(&on_real_hosts(record)));
    }
    out.push_str("</td></tr>");
}

/// To the page that has a result.
fn link(id: &str, experiments: &[Experiment]) -> Option<String> {
    let of = experiments.iter().find(|experiment| experiment.results.iter().any(|result| result.id == id))?;
    let (page, id) = (page_of(of), escape(id));
    Some(format!("<a href=\"{}#{id}\">{id}</a>", escape(&page)))
}
