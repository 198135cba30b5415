//! The tables that carry the verdict: the comparison of schemes and the checks against the paper.

use std::fmt::Write as _;

use super::data::{Better, Cell, CheckStatus, Column, ReportData};
use super::html::{escape, number, MISSING};

/// Colours that the style sheet defines; more schemes than this share them.
const COLOURS: usize = 8;

/// One row a scheme, the best value of each column emphasised, differences against the first row.
pub(super) fn comparison(out: &mut String, data: &ReportData) {
    let table = &data.table;
    if table.rows.is_empty() || table.columns.is_empty() {
        return;
    }
    out.push_str("<section class=\"card\" id=\"comparison\"><div class=\"card-head\"><div><h2>Comparison</h2>");
    if let [baseline, _, ..] = table.rows.as_slice() {
        let _ = write!(out, "<p>Differences against <b>{}</b>. Best values are marked.</p>", escape(&baseline.scheme));
    }
    out.push_str("</div></div><div class=\"scroll\"><table class=\"summary\"><thead><tr><th scope=\"col\">Scheme</th>");
    for column in &table.columns {
        heading(out, column);
    }
    out.push_str("</tr></thead><tbody>");
    for (index, row) in table.rows.iter().enumerate() {
        out.push_str("<tr>");
        scheme(out, data, &row.scheme);
        for (at, column) in table.columns.iter().enumerate() {
            cell(out, data, index, at, column);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
}

fn heading(out: &mut String, column: &Column) {
    let _ = write!(out, "<th scope=\"col\">{}<small>{}", escape(&column.title), escape(&column.unit));
    let direction = match column.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "",
    };
    let dot = if column.unit.is_empty() || direction.is_empty() { "" } else { " · " };
    let _ = write!(out, "{dot}{direction}</small></th>");
}

fn scheme(out: &mut String, data: &ReportData, name: &str) {
    let found = data.schemes.iter().position(|s| s.name == name);
    let colour = found.map_or_else(String::new, |i| format!("<i class=\"swatch s{}\"></i>", i % COLOURS));
    let _ = write!(out, "<th scope=\"row\"><b>{colour}{}</b>", escape(name));
    if let Some(note) = found.map(|i| &data.schemes[i].note).filter(|n| !n.is_empty()) {
        let _ = write!(out, "<small>{}</small>", escape(note));
    }
    out.push_str("</th>");
}

fn cell(out: &mut String, data: &ReportData, index: usize, at: usize, column: &Column) {
    let rows = &data.table.rows;
    let values = || rows.iter().filter_map(|r| value(r.cells.get(at)));
    let this = rows[index].cells.get(at);
    let note = this.and_then(|c| c.note.as_deref()).unwrap_or_default();
    let title = if note.is_empty() { String::new() } else { format!(" title=\"{}\"", escape(note)) };
    let Some(x) = value(this) else {
        let _ = write!(out, "<td{title}>{MISSING}");
        if !note.is_empty() {
            let _ = write!(out, "<small>{}</small>", escape(note));
        }
        out.push_str("</td>");
        return;
    };
    let best = match column.better {
        Better::Higher => values().max_by(f64::total_cmp),
        Better::Lower => values().min_by(f64::total_cmp),
        Better::Neither => None,
    };
    // When all are equal, nobody is best.
    let is_best = best == Some(x) && values().any(|v| v != x);
    let _ = write!(out, "<td{}{title}>", if is_best { " class=\"best\"" } else { "" });
    let _ = write!(out, "<span class=\"value\">{}</span>", number(x));
    if is_best {
        out.push_str("<span class=\"unseen\"> (best)</span>");
    }
    if let Some(ci) = this.and_then(|c| c.ci).filter(|ci| ci.is_finite()) {
        let _ = write!(out, "<span class=\"ci\"> ±{}</span>", interval(ci, x));
    }
    if let Some(base) = value(rows[0].cells.get(at)).filter(|_| index > 0 && column.better != Better::Neither) {
        difference(out, x, base, column.better);
    }
    let largest = values().map(f64::abs).fold(0.0, f64::max);
    if largest > 0.0 {
        let colour = data.schemes.iter().position(|s| s.name == rows[index].scheme).unwrap_or(index) % COLOURS;
        let share = x.abs() / largest * 100.0;
        let _ = write!(out, "<span class=\"bar\"><i class=\"s{colour}\" style=\"width:{share:.1}%\"></i></span>");
    }
    out.push_str("</td>");
}

/// The half-width `ci` to the decimals that [`number`] gives `x`, or to its own digits where that would be nothing.
fn interval(ci: f64, x: f64) -> String {
    let decimals = number(x).split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let text = format!("{ci:.decimals$}");
    if ci < 1000.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        text
    } else {
        number(ci)
    }
}

/// "+64%", coloured by whether that is good; as a factor from ten times up.
fn difference(out: &mut String, x: f64, base: f64, better: Better) {
    if base <= 0.0 || x < 0.0 {
        return;
    }
    let percent = (x / base - 1.0) * 100.0;
    let (class, text) = if percent.abs() < 0.5 {
        ("same", "±0%".to_owned())
    } else {
        let good = (percent > 0.0) == (better == Better::Higher);
        let text = match x / base {
            ratio if ratio >= 10.0 => format!("×{}", number(ratio)),
            _ if percent > 0.0 => format!("+{percent:.0}%"),
            // Nearly everything gone is not everything.
            _ if percent < -99.0 && x > 0.0 => format!("\u{2212}{:.1}%", (-percent).min(99.9)),
            _ => format!("\u{2212}{:.0}%", -percent),
        };
        (if good { "better" } else { "worse" }, text)
    };
    let _ = write!(out, "<span class=\"diff {class}\">{text}</span>");
}

fn value(cell: Option<&Cell>) -> Option<f64> {
    cell?.value.filter(|v| v.is_finite())
}

/// A badge for the head of the page, when there are checks.
pub(super) fn check_count(out: &mut String, data: &ReportData) {
    if data.checks.is_empty() {
        return;
    }
    let count = |status| data.checks.iter().filter(|c| c.status == status).count();
    let (holds, fails, not_run) = (count(CheckStatus::Holds), count(CheckStatus::Fails), count(CheckStatus::NotRun));
    let class = if fails > 0 { "fails" } else { "holds" };
    let _ = write!(out, "<li class=\"{class}\"><a href=\"#checks\">{holds} of {} checks hold", holds + fails);
    if not_run > 0 {
        let _ = write!(out, ", {not_run} not run");
    }
    out.push_str("</a></li>");
}

/// The paper's value, the measured value, and whether the check holds.
pub(super) fn checks(out: &mut String, data: &ReportData) {
    if data.checks.is_empty() {
        return;
    }
    let [against, measured] = match &data.compared_with {
        Some([against, measured]) => [against.as_str(), measured.as_str()],
        None => ["Paper", "Measured"],
    };
    let _ = write!(
        out,
        "<section class=\"card\" id=\"checks\"><div class=\"card-head\"><div><h2>Checks against the {}</h2></div></div>\
         <div class=\"scroll\"><table class=\"checks\"><thead><tr><th scope=\"col\">Status</th><th scope=\"col\">Check</th>\
         <th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead><tbody>",
        escape(&against.to_lowercase()),
        escape(against),
        escape(measured)
    );
    for check in &data.checks {
        let (class, word) = match check.status {
            CheckStatus::Holds => ("holds", "✓ holds"),
            CheckStatus::Fails => ("fails", "✗ fails"),
            CheckStatus::NotRun => ("not-run", "○ not run"),
        };
        let _ = write!(
            out,
            "<tr><td><span class=\"status {class}\">{word}</span></td><th scope=\"row\">{}",
            escape(&check.text)
        );
        let _ = write!(out, "<small>{} · {}</small>", escape(&check.id), escape(&check.source));
        if let Some(reason) = &check.reason {
            let _ = write!(out, "<small class=\"reason {class}\">{}</small>", escape(reason));
        }
        let _ = write!(out, "</th><td>{}</td><td>{}</td></tr>", escape(&check.paper), escape(&check.measured));
    }
    out.push_str("</tbody></table></div></section>");
}

#[cfg(test)]
mod tests {
    use super::super::data::Row;
    use super::*;

    fn table(better: Better, values: &[Option<f64>]) -> String {
        let row = |(i, v): (usize, &Option<f64>)| Row { scheme: format!("scheme{i}"), cells: vec![Cell::from(*v)] };
        let mut data = ReportData::default();
        data.table.columns.push(Column { title: "metric".into(), better, ..Column::default() });
        data.table.rows = values.iter().enumerate().map(row).collect();
        let mut out = String::new();
        comparison(&mut out, &data);
        out
    }

    #[test]
    fn marks_the_best_and_the_difference() {
        let html = table(Better::Higher, &[Some(5.0), Some(8.0), Some(9.0)]);
        assert!(html.contains("<td class=\"best\"><span class=\"value\">9.00"), "{html}");
        assert!(html.contains("<span class=\"diff better\">+60%"), "{html}");
        let html = table(Better::Lower, &[Some(2.0), Some(1.0), Some(24.0)]);
        assert!(html.contains("<td class=\"best\"><span class=\"value\">1.00"), "{html}");
        assert!(html.contains("better\">\u{2212}50%") && html.contains("worse\">×12.0"), "{html}");
    }

    #[test]
    fn intervals_have_the_decimals_of_their_value() {
        assert_eq!(interval(0.04, 9.22), "0.04");
        assert_eq!(interval(0.000_2, 9.22), "0.00020");
        assert_eq!(interval(12.0, 1234.0), "12");
    }

    #[test]
    fn missing_values_are_neither_best_nor_compared() {
        let html = table(Better::Lower, &[None, Some(f64::NAN), Some(3.0), Some(4.0)]);
        assert_eq!(html.matches(MISSING).count(), 2);
        assert_eq!(html.matches("class=\"best\"").count(), 1);
        assert!(!html.contains("diff") && !html.contains("NaN"), "{html}");
        assert!(!table(Better::Lower, &[Some(3.0), Some(3.0)]).contains("class=\"best\""));
        assert!(!table(Better::Neither, &[Some(3.0), Some(4.0)]).contains("class=\"best\""));
    }
}
