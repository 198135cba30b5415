//! What a record measured, in words.

use super::clause::Clause;
use serde_json::Value;

/// What a record of a run on real hosts says, in a line.
pub(super) fn on_real_hosts(record: &Value) -> String {
    let of = |key: &str| record[key].as_str().unwrap_or_default();
    let measured = measured_on_real_hosts(record).replace("**", "");
    let told: Vec<String> = [measured, of("reason").to_owned()].into_iter().filter(|text| !text.is_empty()).collect();
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
    let machine = if of("machine").is_empty() { String::new() } else { format!(" ({})", of("machine")) };
    format!("{}{told}{machine}", of("status"))
}

/// The number that speaks for each check of a run on real hosts.
pub(super) fn measured_on_real_hosts(line: &Value) -> String {
    let one = |record: &Value| {
        let points = points(record);
        let unit = points.first().and_then(|point| point["unit"].as_str()).unwrap_or_default();
        let text = range(&points).map(|text| (text, unit));
        said(text, record["absolute"] == true, record["holds"] == false, record["decided"] != false, None)
    };
    let said: Vec<String> = line["checks"].as_array().into_iter().flatten().filter_map(one).collect();
    said.join("; ")
}

/// What a check's record measured: one object, or one a point.
pub(super) fn points(record: &Value) -> Vec<&Value> {
    match &record["measured"] {
        Value::Array(points) => points.iter().collect(),
        Value::Null => Vec::new(),
        object => vec![object],
    }
}

/// The least and the largest value, or the one with its interval.
pub(super) fn range(points: &[&Value]) -> Option<String> {
    let of = |point: &&Value| Some((point["value"].as_f64()?, point["ci95_half_width"].as_f64()));
    let values: Vec<(f64, Option<f64>)> = points.iter().filter_map(of).collect();
    let least = values.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = values.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let number = crate::table::number;
    Some(match least.1 {
        _ if number(least.0) != number(most.0) => format!("{} to {}", number(least.0), number(most.0)),
        Some(half) if half > 0.0 => format!("{} ± {}", number(least.0), number(half)),
        _ => number(least.0),
    })
}

/// A check in a cell: bold is the number that fails. `text`: its number, and the unit.
pub(super) fn said(
    text: Option<(String, &str)>,
    absolute: bool,
    fails: bool,
    decided: bool,
    clause: Option<&Clause>,
) -> Option<String> {
    let bold = |text: &str| if absolute || !decided { text.to_owned() } else { format!("**{text}**") };
    let number = text.map(|(text, unit)| match fails && clause.is_none() {
        true => format!("{} {unit}", bold(&text)).trim_end().to_owned(),
        false => format!("{text} {unit}").trim_end().to_owned(),
    });
    let clause = clause.map(|clause| bold(&clause.to_string()));
    let word = match (fails, absolute) {
        (true, true) => Some("absolute, fails".to_owned()),
        _ if !decided => Some("undecided".to_owned()),
        _ => None,
    };
    let remark: Vec<String> = word.into_iter().chain(clause).collect();
    match (number, remark.is_empty()) {
        (number, true) => number,
        (Some(number), false) => Some(format!("{number} ({})", remark.join(": "))),
        (None, false) => Some(remark.join(": ")),
    }
}
