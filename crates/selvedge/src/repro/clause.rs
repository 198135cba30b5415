//! Which part of a check fails, where the check's number is of another part.

use super::file::Check;
use super::Expression;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A comparison that does not hold, with its sides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clause {
    /// As it is written in the check.
    pub(super) text: String,
    sign: &'static str,
    left: f64,
    right: f64,
}

/// Longer ones first.
const SIGNS: [&str; 6] = ["<=", ">=", "==", "!=", "<", ">"];

impl fmt::Display for Clause {
    /// `0.9122, not > 0.98`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = crate::table::number;
        write!(f, "{}, not {} {}", number(self.left), self.sign, number(self.right))
    }
}

/// The first clause that fails with these values, unless the check's number is of one that fails: made of all of its metrics.
pub(super) fn unspoken(check: &Check, values: &BTreeMap<String, f64>) -> Option<Clause> {
    let spoken = check.value.as_ref().map_or(&[][..], Expression::metrics);
    let fails = |text: &&str| {
        let expression = Expression::parse(text).ok()?;
        (expression.holds(values) == Ok(false)).then_some(expression)
    };
    let failing: Vec<(&str, Expression)> =
        clauses(check.holds.source()).into_iter().filter_map(|text| Some((text, fails(&text)?))).collect();
    let is_spoken = |of: &Expression| of.metrics().iter().all(|metric| spoken.contains(metric));
    if failing.iter().any(|(_, expression)| is_spoken(expression)) {
        return None;
    }
    failing.iter().find_map(|(text, _)| compared(text, values))
}

/// What an expression's names are at a point of a record. Infinite metrics, which JSON does not have, are missing.
pub(super) fn recorded(point: &Value) -> BTreeMap<String, f64> {
    let metrics = point["metrics"].as_object().into_iter().flatten();
    let mut values: BTreeMap<String, f64> =
        metrics.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
    let parameter = point["at"].as_str().and_then(|at| at.split_once('='));
    values.extend(parameter.and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?))));
    values
}

/// The parts between `&&`, all of which must hold.
fn clauses(text: &str) -> Vec<&str> {
    let cuts: Vec<usize> = outside(text).filter(|at| text[*at..].starts_with("&&")).collect();
    if outside(text).any(|at| text[at..].starts_with("||")) {
        return vec![text];
    }
    let mut parts = Vec::new();
    let mut begin = 0;
    for cut in cuts {
        parts.push(text[begin..cut].trim());
        begin = cut + 2;
    }
    parts.push(text[begin..].trim());
    parts
}

/// The sides of the one comparison that stands in no parentheses.
fn compared(text: &str, values: &BTreeMap<String, f64>) -> Option<Clause> {
    let (at, sign) = outside(text).find_map(|at| Some((at, SIGNS.into_iter().find(|s| text[at..].starts_with(s))?)))?;
    let side = |text: &str| {
        let number = text.trim().parse().ok();
        number.or_else(|| Expression::parse(text).ok()?.value(values).ok())
    };
    Some(Clause { text: text.to_owned(), sign, left: side(&text[..at])?, right: side(&text[at + sign.len()..])? })
}

/// Where characters are that stand in no parentheses or brackets.
fn outside(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut depth = 0_usize;
    text.char_indices().filter_map(move |(at, c)| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expr: &str, value: Option<&str>) -> Check {
        Check {
            text: "t".to_owned(),
            holds: Expression::parse(expr).unwrap(),
            value: value.map(|value| Expression::parse(value).unwrap()),
            unit: String::new(),
            paper: None,
            absolute: false,
        }
    }

    #[test]
    fn the_clause_that_fails_is_found_where_the_number_is_of_another() {
        let point = json!({"at": "paths=4", "metrics": {"a.x": 0.2, "b.x": 0.5, "c.x": 2.0, "c.y[at=1]": 3.0}});
        let values = recorded(&point);
        assert_eq!(values["paths"], 4.0);
        let told = |expr: &str, value: Option<&str>| {
            unspoken(&check(expr, value), &values).map(|clause| format!("{}: {clause}", clause.text))
        };
        let both = "a.x <= 0.5 * c.x && abs(a.x / b.x - 1) <= 0.5";
        assert_eq!(told(both, Some("a.x / c.x")).unwrap(), "abs(a.x / b.x - 1) <= 0.5: 0.6000, not <= 0.5000");
        assert_eq!(told(both, Some("a.x / b.x")), None, "the number is of it");
        let least = "min(min(c.x, b.x), a.x) > 0.98";
        assert_eq!(told(least, Some("c.x")).unwrap(), format!("{least}: 0.2000, not > 0.9800"));
        assert_eq!(told(least, Some("min(min(c.x, b.x), a.x)")), None);
        assert_eq!(told("c.x > paths", None).unwrap(), "c.x > paths: 2.00, not > 4.00");
        assert_eq!(
            told("count(a.x > 1, b.x > 1, c.x > 1) >= 2", None).unwrap().split(": ").nth(1),
            Some("1.00, not >= 2.00")
        );
        assert_eq!(told("c.y[at=1] < 5 && a.x > 1 || b.x > 1", None), None, "no single part must hold");
        assert_eq!(told("a.x < 1 && d.x > 1", None), None, "unknown is not false");
    }
}
