//! What the jobs of one point and scheme, which differ in their seed, have together.

use super::jobs::Job;
use crate::axes::{AxisValue, Point};
use frame::{Column, Frame, Kind, Values};
use host::measure::estimate;

/// The table in the making. Jobs come in order, so that those of one point and scheme follow one another.
pub(crate) struct Summaries {
    columns: Vec<Column>,
    /// Point and scheme whose jobs are being added, with (metric, unit, values) in order of first appearance.
    now: Option<(Point, String)>,
    metrics: Vec<(String, String, Vec<f64>)>,
}

impl Summaries {
    pub(crate) fn new(axes: &[(&str, Kind)]) -> Summaries {
        let mut columns = vec![("point", Kind::Text)];
        columns.extend(axes);
        columns.extend([("scheme", Kind::Text), ("metric", Kind::Text), ("unit", Kind::Text), ("mean", Kind::Number)]);
        columns.extend([("ci95_half_width", Kind::Number), ("min", Kind::Number), ("max", Kind::Number)]);
        columns.push(("runs", Kind::Whole));
        let column = |(name, kind): (&str, Kind)| Column { name: name.to_owned(), values: Values::new(kind) };
        Summaries { columns: columns.into_iter().map(column).collect(), now: None, metrics: Vec::new() }
    }

    /// Adds the metrics of a job; `None` if its table lacks a column.
    pub(crate) fn add(&mut self, point: &Point, job: &Job, frame: &Frame) -> Option<()> {
        if !self.now.as_ref().is_some_and(|(at, scheme)| at.label == point.label && *scheme == job.scheme) {
            self.flush();
            self.now = Some((point.clone(), job.scheme.clone()));
        }
        let (metric, unit, value) = (frame.column("metric")?, frame.column("unit")?, frame.column("value")?);
        for n in 0..frame.rows() {
            let Some(value) = value.number(n) else { continue };
            let name = metric.text(n)?;
            // As a rule every job has the same metrics in the same order.
            let known = self.metrics.get(n).is_some_and(|(known, ..)| known == name).then_some(n);
            match known.or_else(|| self.metrics.iter().position(|(known, ..)| known == name)) {
                Some(at) => self.metrics[at].2.push(value),
                None => self.metrics.push((name.to_owned(), unit.text(n).unwrap_or_default().to_owned(), vec![value])),
            }
        }
        Some(())
    }

    fn flush(&mut self) {
        let Some((point, scheme)) = self.now.take() else { return };
        for (metric, unit, values) in self.metrics.drain(..) {
            let Some(e) = estimate(&values) else { continue };
            let text = AxisValue::Text;
            let mut cells = vec![Some(text(point.label.clone()))];
            cells.extend(point.values.iter().cloned().map(Some));
            cells.extend([text(scheme.clone()), text(metric), text(unit)].map(Some));
            cells.extend([Some(e.mean), e.half_width, Some(e.min), Some(e.max)].map(|n| n.map(AxisValue::Number)));
            cells.push(i64::try_from(e.runs).ok().map(AxisValue::Whole));
            for (column, cell) in self.columns.iter_mut().zip(cells) {
                match (cell, &mut column.values) {
                    (Some(cell), values) => again(values, &cell, 1),
                    (None, Values::Number(cells)) => cells.push(None),
                    (None, Values::Whole(cells)) => cells.push(None),
                    (None, Values::Text(cells)) => cells.push(None),
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Column> {
        self.flush();
        self.columns
    }
}

/// Adds a value so many times.
pub(crate) fn again(values: &mut Values, value: &AxisValue, times: usize) {
    match (values, value) {
        (Values::Whole(cells), AxisValue::Whole(v)) => cells.extend(std::iter::repeat_n(Some(*v), times)),
        (Values::Number(cells), AxisValue::Whole(v)) => cells.extend(std::iter::repeat_n(Some(*v as f64), times)),
        (Values::Number(cells), AxisValue::Number(v)) => cells.extend(std::iter::repeat_n(Some(*v), times)),
        (Values::Text(cells), value) => cells.extend(std::iter::repeat_n(Some(value.to_string()), times)),
        // The kind of a column follows from all of its values.
        (Values::Whole(cells), _) => cells.extend(std::iter::repeat_n(None, times)),
        (Values::Number(cells), _) => cells.extend(std::iter::repeat_n(None, times)),
    }
}
