//! The tables that carry the verdict: the comparison of schemes and the checks against the paper.

use std::fmt::Write as _;

use super::data::{Better, Cell, CheckStatus, Column, Real, ReportData, Table};
use super::html::{escape, number, MISSING};

/// Colours that the style sheet defines; more schemes than this share them.
const COLOURS: usize = 8;

/// A table of metrics, and the names and notes of those that it compares, in the order of their colours.
struct Compared<'a> {
    table: &'a Table,
    names: Vec<(&'a str, &'a str)>,
}

impl Compared<'_> {
    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|(known, _)| *known == name)
    }
}

/// One row a scheme, the best value of each column emphasised, differences against the first row. What the intervals leave to chance
/// is neither.
pub(super) fn comparison(out: &mut String, data: &ReportData) {
    let table = &data.table;
    if table.rows.is_empty() || table.columns.is_empty() {
        return;
    }
    out.push_str("<section class=\"card\" id=\"comparison\"><div class=\"card-head\"><div><h2>Comparison</h2>");
    if let [baseline, _, ..] = table.rows.as_slice() {
        let _ = write!(out, "<p>Differences against <b>{}</b>; grey ones lie within the intervals. Best values are marked where no other \
             may be as good. \u{b1}: 95% interval over seeds.</p>", escape(&baseline.scheme));
    }
    out.push_str("</div></div>");
    let names = data.schemes.iter().map(|s| (s.name.as_str(), s.note.as_str())).collect();
    rows(out, &Compared { table, names }, "Scheme");
    out.push_str("</section>");
}

/// Title, set-up and numbers of real traffic; a row a limiter, differences against the first.
pub(super) fn real(out: &mut String, real: &Real) {
    let (title, text) = (escape(&real.title), escape(&real.text));
    let _ = write!(
        out,
        "<section class=\"card\" id=\"real\"><div class=\"card-head\"><div><h2>{title}</h2><p>{text}</p></div></div>"
    );
    let names = real.lines.iter().map(|line| (line.name.as_str(), line.note.as_str())).collect();
    rows(out, &Compared { table: &real.table, names }, "Limiter");
    out.push_str("</section>");
}

fn rows(out: &mut String, compared: &Compared<'_>, what: &str) {
    let table = compared.table;
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"summary\"><thead><tr><th scope=\"col\">{}</th>",
        escape(what)
    );
    // What no scheme has is told below.
    let of = |at: usize| table.rows.iter().map(move |row| row.cells.get(at));
    let (shown, missing): (Vec<usize>, Vec<usize>) =
        (0..table.columns.len()).partition(|&at| of(at).any(|cell| value(cell).is_some()));
    for &at in &shown {
        heading(out, &table.columns[at]);
    }
    out.push_str("</tr></thead><tbody>");
    for (index, row) in table.rows.iter().enumerate() {
        out.push_str("<tr>");
        scheme(out, compared, &row.scheme);
        for &at in &shown {
            cell(out, compared, index, at, &table.columns[at]);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    let word = |&at: &usize| {
        let why = of(at).flatten().find_map(|cell| cell.note.as_deref());
        let why = why.map(|why| format!(" ({})", escape(why))).unwrap_or_default();
        format!("{}{why}", escape(&table.columns[at].title))
    };
    if !missing.is_empty() {
        let words: Vec<String> = missing.iter().map(word).collect();
        let _ = write!(
            out,
            "<p class=\"missing\">No {} has a value of: {}.</p>",
            escape(&what.to_lowercase()),
            words.join(", ")
        );
    }
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

fn scheme(out: &mut String, compared: &Compared<'_>, name: &str) {
    let found = compared.place(name);
    let colour = found.map_or_else(String::new, |i| format!("<i class=\"swatch s{}\"></i>", i % COLOURS));
    let _ = write!(out, "<th scope=\"row\"><b>{colour}{}</b>", escape(name));
    if let Some(note) = found.map(|i| compared.names[i].1).filter(|n| !n.is_empty()) {
        let _ = write!(out, "<small>{}</small>", escape(note));
    }
    out.push_str("</th>");
}

fn cell(out: &mut String, compared: &Compared<'_>, index: usize, at: usize, column: &Column) {
    let rows = &compared.table.rows;
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
    let ahead = |x: f64, y: f64| match column.better {
        Better::Higher => x > y,
        Better::Lower => x < y,
        Better::Neither => false,
    };
    let others = || rows.iter().enumerate().filter(|(n, _)| *n != index).filter_map(|(_, row)| row.cells.get(at));
    let behind =
        |other: &Cell| value(Some(other)).is_some_and(|y| ahead(x, y)) && this.is_some_and(|c| c.differs(other));
    // Those that are as good share the place; when all are, nobody has it.
    let equals = |other: &Cell| value(Some(other)) == Some(x);
    let known = || others().filter(|other| value(Some(other)).is_some());
    let is_best = known().any(behind) && known().all(|other| behind(other) || equals(other));
    let _ = write!(out, "<td{}{title}>", if is_best { " class=\"best\"" } else { "" });
    let _ = write!(out, "<span class=\"value\">{}</span>", number(x));
    if is_best {
        out.push_str("<span class=\"unseen\"> (best)</span>");
    }
    if let Some(ci) = this.and_then(|c| c.ci).filter(|ci| ci.is_finite()) {
        let _ = write!(out, "<span class=\"ci\"> ±{}</span>", interval(ci, x));
    }
    let base = rows[0].cells.get(at).filter(|_| index > 0 && column.better != Better::Neither);
    if let Some((base, y)) = base.and_then(|base| Some((base, value(Some(base))?))) {
        difference(out, x, y, column.better, this.is_some_and(|c| c.differs(base)));
    }
    let largest = values().map(f64::abs).fold(0.0, f64::max);
    if largest > 0.0 {
        let colour = compared.place(&rows[index].scheme).unwrap_or(index) % COLOURS;
        let share = x.abs() / largest * 100.0;
        let _ = write!(out, "<span class=\"bar\"><i class=\"s{colour}\" style=\"width:{share:.1}%\"></i></span>");
    }
    out.push_str("</td>");
}

/// The half-width `ci` to the decimals that [`number`] gives `x`, or to its own digits where that would be nothing.
pub(super) fn interval(ci: f64, x: f64) -> String {
    let decimals = number(x).split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let text = format!("{ci:.decimals$}");
    if ci < 1000.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        text
    } else {
        number(ci)
    }
}

/// "+64%", coloured by whether that is good if it is `certain`; as a factor from ten times up.
fn difference(out: &mut String, x: f64, base: f64, better: Better, certain: bool) {
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
        (
            if !certain {
                "same"
            } else if good {
                "better"
            } else {
                "worse"
            },
            text,
        )
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
    let count = |status| data.checks.iter().filter(|c| !c.absolute && c.status == status).count();
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
        if check.absolute {
            out.push_str("<small>An absolute figure: reported, and decides nothing.</small>");
        }
        if let Some(reason) = &check.reason {
            let _ = write!(out, "<small class=\"reason {class}\">{}</small>", escape(reason));
        }
        let _ = write!(out, "</th><td>{}", escape(&check.paper));
        let largest = check.values.iter().filter_map(|cell| Some(cell.value? + cell.ci.unwrap_or_default()));
        let largest = largest.chain(check.paper_value).fold(0.0, f64::max);
        // One bar alone says nothing.
        let drawn = check.paper_value.is_some() || check.values.len() > 1;
        let largest = if drawn { largest } else { 0.0 };
        strip(out, "paper", check.paper_value.map(Cell::from).as_slice(), largest);
        let _ = write!(out, "</td><td>{}", escape(&check.measured));
        strip(out, "measured", &check.values, largest);
        out.push_str("</td></tr>");
    }
    out.push_str("</tbody></table></div></section>");
}

/// A bar a value, with its interval, to a scale that ends at `largest`. Values below zero have none.
fn strip(out: &mut String, class: &str, values: &[Cell], largest: f64) {
    let drawn = || values.iter().filter_map(|cell| Some((value(Some(cell))?, cell.ci.unwrap_or_default())));
    if !(largest > 0.0 && largest.is_finite()) || drawn().any(|(x, _)| x < 0.0) {
        return;
    }
    for (x, ci) in drawn() {
        let percent = |x: f64| (x / largest * 100.0).clamp(0.0, 100.0);
        let (low, high) = (percent(x - ci), percent(x + ci));
        let _ = write!(out, "<span class=\"strip {class}\"><i style=\"width:{:.1}%\"></i>", percent(x));
        if high > low {
            let _ = write!(out, "<b style=\"left:{low:.1}%;width:{:.1}%\"></b>", high - low);
        }
        out.push_str("</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::{CheckReport, Row};
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
    fn the_papers_number_is_drawn_to_the_same_scale() {
        let cell = Cell { value: Some(6.0), ci: Some(2.0), note: None };
        let check = CheckReport { paper_value: Some(4.0), values: vec![cell], ..CheckReport::default() };
        let mut out = String::new();
        checks(&mut out, &ReportData { checks: vec![check], ..ReportData::default() });
        assert!(out.contains("strip paper\"><i style=\"width:50.0%\">"), "{out}");
        assert!(
            out.contains("strip measured\"><i style=\"width:75.0%\"></i><b style=\"left:50.0%;width:50.0%\">"),
            "{out}"
        );
    }

    #[test]
    fn what_may_be_chance_is_neither_best_nor_coloured() {
        let mut data = ReportData::default();
        data.table.columns.push(Column { better: Better::Lower, ..Column::default() });
        let cell = |value, ci| Cell { value: Some(value), ci: Some(ci), note: None };
        let row = |(name, cell): (&str, Cell)| Row { scheme: name.into(), cells: vec![cell] };
        let html = |cells: [(&str, Cell); 2]| {
            let mut data = data.clone();
            data.table.rows = cells.into_iter().map(row).collect();
            let mut out = String::new();
            comparison(&mut out, &data);
            out
        };
        let sure = html([("a", cell(2.0, 0.3)), ("b", cell(1.0, 0.3))]);
        assert!(sure.contains("class=\"best\"") && sure.contains("diff better"), "{sure}");
        let chance = html([("a", cell(2.0, 1.0)), ("b", cell(1.0, 0.3))]);
        assert!(!chance.contains("class=\"best\"") && chance.contains("diff same"), "{chance}");
    }

    #[test]
    fn intervals_have_the_decimals_of_their_value() {
        assert_eq!(interval(0.04, 9.22), "0.04");
        assert_eq!(interval(0.000_2, 9.22), "0.00020");
        assert_eq!(interval(12.0, 1234.0), "12");
    }

    #[test]
    fn columns_without_a_value_are_named_below() {
        let html = table(Better::Lower, &[None, Some(f64::NAN)]);
        assert!(html.contains("No scheme has a value of: metric.</p>") && !html.contains("<td"), "{html}");
        let mut data = ReportData::default();
        data.table.columns =
            ["FCT <p99>", "FCT p50"].map(|title| Column { title: title.into(), ..Column::default() }).into();
        let refused = Cell { note: Some("3 of 1000 samples".into()), ..Cell::default() };
        data.table.rows = vec![Row { scheme: "a".into(), cells: vec![refused, 1.0.into()] }];
        let mut html = String::new();
        comparison(&mut html, &data);
        assert!(html.contains("of: FCT &lt;p99&gt; (3 of 1000 samples).</p>"), "{html}");
        assert_eq!(html.matches("<td").count(), 1, "{html}");
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
