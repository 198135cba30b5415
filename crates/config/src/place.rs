//! Places in a text: the line of a key, and the key at a position.

use std::collections::BTreeMap;
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

/// The lines of a text's keys and of the items of its lists, from one reading: a file may have a fault in each of them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Of this key or item; the first is 1.
    line: usize,
    below: BTreeMap<String, Lines>,
}

impl Lines {
    /// None of a text that is not TOML.
    pub(crate) fn of(text: &str) -> Lines {
        #[cfg(test)]
        READINGS.with(|readings| readings.set(readings.get() + 1));
        let Ok(root) = DeTable::parse(text) else { return Lines::default() };
        let ends: Vec<usize> = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(at, _)| at).collect();
        let line = |at: usize| 1 + ends.partition_point(|&end| end < at);
        Lines { line: 0, below: below(root.get_ref(), &line) }
    }

    /// The line of the key, or of the nearest one above it that the file has.
    pub(crate) fn line_of(&self, path: &[String]) -> Option<usize> {
        let mut at = self;
        for step in path {
            let Some(next) = at.below.get(step) else { break };
            at = next;
        }
        (at.line > 0).then_some(at.line)
    }
}

fn below(table: &DeTable<'_>, line: &dyn Fn(usize) -> usize) -> BTreeMap<String, Lines> {
    let all = table.iter().map(|(key, value)| {
        (key.get_ref().to_string(), Lines { line: line(key.span().start), below: inside(value.get_ref(), line) })
    });
    all.collect()
}

fn inside(value: &DeValue<'_>, line: &dyn Fn(usize) -> usize) -> BTreeMap<String, Lines> {
    match value {
        DeValue::Table(table) => below(table, line),
        DeValue::Array(items) => {
            let of = |(n, item): (usize, &Spanned<DeValue<'_>>)| {
                (n.to_string(), Lines { line: line(item.span().start), below: inside(item.get_ref(), line) })
            };
            items.iter().enumerate().map(of).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
thread_local! {
    /// How often texts were read for their lines.
    pub(crate) static READINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
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
