//! Places in a text: the line of a key, and the key at a position.

use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

pub(crate) fn join(a: &str, b: &str) -> String {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.to_owned(),
        (_, true) => a.to_owned(),
        _ => format!("{a}.{b}"),
    }
}

pub(crate) fn split(path: &str) -> Vec<String> {
    path.split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

/// Line (from 1) of the key, or of the nearest one above it that the file has.
pub(crate) fn line_of(text: &str, path: &[String]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut offset = None;
    let mut value: Option<&Spanned<DeValue<'_>>> = None;
    for step in path {
        let found = match value.map(Spanned::get_ref) {
            None => root.get_ref().get_key_value(step.as_str()).map(|(k, v)| (k.span().start, v)),
            Some(DeValue::Table(table)) => table.get_key_value(step.as_str()).map(|(k, v)| (k.span().start, v)),
            Some(DeValue::Array(items)) => {
                step.parse::<usize>().ok().and_then(|n| items.get(n)).map(|v| (v.span().start, v))
            }
            Some(_) => None,
        };
        let Some((start, next)) = found else { break };
        offset = Some(start);
        value = Some(next);
    }
    offset.map(|at| line_at(text, at))
}

/// The key whose name or value encloses `span` most tightly.
pub(crate) fn path_at(text: &str, span: &Range<usize>) -> Vec<String> {
    let Ok(root) = DeTable::parse(text) else { return Vec::new() };
    if root.span() == *span {
        return Vec::new();
    }
    let mut best: (usize, Vec<String>) = (usize::MAX, Vec::new());
    for (key, value) in root.get_ref() {
        enclose(vec![key.get_ref().to_string()], &key.span(), value, span, &mut best);
    }
    best.1
}

fn enclose(
    path: Vec<String>,
    key: &Range<usize>,
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    best: &mut (usize, Vec<String>),
) {
    for range in [key, &value.span()] {
        if range.start <= span.start && span.end <= range.end && range.len() <= best.0 {
            *best = (range.len(), path.clone());
        }
    }
    let child = |step: String| {
        let mut longer = path.clone();
        longer.push(step);
        longer
    };
    match value.get_ref() {
        DeValue::Table(table) => {
            for (k, v) in table {
                enclose(child(k.get_ref().to_string()), &k.span(), v, span, best);
            }
        }
        DeValue::Array(items) => {
            for (n, v) in items.iter().enumerate() {
                enclose(child(n.to_string()), &v.span(), v, span, best);
            }
        }
        _ => {}
    }
}
