//! Checks as expressions over metrics, such as `presto.mice.fct_p99_ms <= 1.4 * optimal.mice.fct_p99_ms`.

use rhai::{Engine, EvalAltResult, Scope};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An expression whose metrics have been found out.
#[derive(Clone, Debug)]
pub struct Expression {
    source: String,
    /// With each metric replaced by a plain variable, which the engine can look up.
    rewritten: String,
    /// Metric of variable `m0`, `m1`, ..., with the point of the sweep if one is named.
    metrics: Vec<String>,
    /// Plain names, such as a sweep's.
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExpressionError {
    #[error("{0:?} is not an expression: {1}")]
    Syntax(String, String),
    #[error("{0:?} cannot be evaluated: {1}")]
    Evaluation(String, String),
}

const FUNCTIONS: [&str; 3] = ["min", "max", "abs"];

impl Expression {
    /// Metrics are dotted paths, plain names are parameters of a sweep; `+ - * / ( )`, comparisons, `&&`, `||`, `!`, `min`,
    /// `max` and `abs` work on them. `a.b[LABEL]` is a metric at that point of the sweep.
    ///
    /// # Errors
    /// Text that is not an expression.
    pub fn parse(source: &str) -> Result<Expression, ExpressionError> {
        let mut parsed =
            Expression { source: source.to_owned(), rewritten: String::new(), metrics: Vec::new(), names: Vec::new() };
        let mut rest = source;
        while let Some(first) = rest.chars().next() {
            if first.is_ascii_digit() {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
                parsed.rewritten += &rest[..end];
                rest = &rest[end..];
            } else if first.is_ascii_alphabetic() {
                let end =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
                let word = &rest[..end];
                rest = &rest[end..];
                let label = rest.starts_with('[').then(|| rest.find(']')).flatten().filter(|_| word.contains('.'));
                match label {
                    Some(close) => {
                        parsed.word(&format!("{word}{}", &rest[..=close]));
                        rest = &rest[close + 1..];
                    }
                    None => parsed.word(word),
                }
            } else {
                parsed.rewritten.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        engine()
            .compile_expression(&parsed.rewritten)
            .map_err(|e| ExpressionError::Syntax(source.to_owned(), e.to_string()))?;
        Ok(parsed)
    }

    fn word(&mut self, word: &str) {
        if !word.contains('.') {
            let constant = ["true", "false"].contains(&word) || FUNCTIONS.contains(&word);
            if !constant && !self.names.iter().any(|n| n == word) {
                self.names.push(word.to_owned());
            }
            self.rewritten += word;
            return;
        }
        let n = self.metrics.iter().position(|m| m == word).unwrap_or_else(|| {
            self.metrics.push(word.to_owned());
            self.metrics.len() - 1
        });
        self.rewritten += &format!("m{n}_");
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Dotted names, in order of appearance, with the point of the sweep that may be named in brackets.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// Points of the sweep that metrics name.
    pub fn points(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().filter_map(|m| at_point(m).1)
    }

    /// Names without a dot.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Every name with the value 1: what cannot be evaluated so never can be.
    pub fn trial(&self) -> BTreeMap<String, f64> {
        self.metrics.iter().chain(&self.names).map(|name| (name.clone(), 1.0)).collect()
    }

    /// # Errors
    /// A value that is missing or of the wrong kind.
    pub fn holds(&self, values: &BTreeMap<String, f64>) -> Result<bool, ExpressionError> {
        self.evaluate(values)
    }

    /// # Errors
    /// As for [`Expression::holds`].
    pub fn value(&self, values: &BTreeMap<String, f64>) -> Result<f64, ExpressionError> {
        self.evaluate(values)
    }

    /// What each comparison says of these values, in the order of the text; none is left out, whatever the others say.
    ///
    /// # Errors
    /// As for [`Expression::holds`].
    pub fn comparisons(&self, values: &BTreeMap<String, f64>) -> Result<Vec<Comparison>, ExpressionError> {
        let said: Rc<RefCell<Vec<Comparison>>> = Rc::default();
        let note = Rc::clone(&said);
        let engine = engine_with(Rc::new(move |sign, a, b, holds| {
            let margin = if sign == 0.0 {
                if holds {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                }
            } else {
                sign * (a - b)
            };
            note.borrow_mut().push(Comparison { margin, holds });
            holds
        }));
        self.evaluate_by::<bool>(&engine, &self.eager(), values)?;
        Ok(said.take())
    }

    /// The expression's value if its comparisons, in that order, came out like this.
    ///
    /// # Errors
    /// As for [`Expression::holds`].
    pub fn holds_if(&self, outcomes: &[bool]) -> Result<bool, ExpressionError> {
        let next = Cell::new(0);
        let outcomes = outcomes.to_vec();
        let engine = engine_with(Rc::new(move |_, _, _, holds| {
            let place = next.replace(next.get() + 1);
            outcomes.get(place).copied().unwrap_or(holds)
        }));
        self.evaluate_by(&engine, &self.eager(), &self.trial())
    }

    /// With operators that evaluate both of their sides.
    fn eager(&self) -> String {
        self.rewritten.replace("&&", "&").replace("||", "|")
    }

    fn evaluate<T: Clone + Send + Sync + 'static>(&self, values: &BTreeMap<String, f64>) -> Result<T, ExpressionError> {
        self.evaluate_by(&engine(), &self.rewritten, values)
    }

    fn evaluate_by<T: Clone + Send + Sync + 'static>(
        &self,
        engine: &Engine,
        text: &str,
        values: &BTreeMap<String, f64>,
    ) -> Result<T, ExpressionError> {
        let fail = |why: String| ExpressionError::Evaluation(self.source.clone(), why);
        let mut scope = Scope::new();
        for (n, metric) in self.metrics.iter().enumerate() {
            let value = values.get(metric).ok_or_else(|| fail(format!("{metric} is unknown")))?;
            scope.push_constant(format!("m{n}_"), *value);
        }
        for name in &self.names {
            let value = values.get(name).ok_or_else(|| fail(format!("{name} is unknown")))?;
            scope.push_constant(name.clone(), *value);
        }
        engine.eval_expression_with_scope(&mut scope, text).map_err(|e| fail(e.to_string()))
    }
}

/// A metric and the point of the sweep that it names.
pub(super) fn at_point(metric: &str) -> (&str, Option<&str>) {
    match metric.strip_suffix(']').and_then(|m| m.split_once('[')) {
        Some((name, label)) => (name, Some(label)),
        None => (metric, None),
    }
}

/// What one comparison says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// By how much it holds, in the unit of its sides; negative if it does not. Infinite for `==` and `!=`.
    pub margin: f64,
    pub holds: bool,
}

/// Hears of a comparison: 1 if more is better, -1 if less is, 0 if neither; its sides; whether it holds. Returns what it is
/// taken for.
type Listener = Rc<dyn Fn(f64, f64, f64, bool) -> bool>;

fn engine() -> Engine {
    engine_with(Rc::new(|_, _, _, holds| holds))
}

fn engine_with(listener: Listener) -> Engine {
    let mut engine = Engine::new_raw();
    // Its own operators divide by the larger number to compare, so that nothing is larger than a finite number.
    engine.set_max_operations(10_000).set_max_expr_depths(64).set_fast_operators(false);
    engine.register_fn("min", f64::min).register_fn("max", f64::max).register_fn("abs", f64::abs);
    engine.register_fn("!", |a: bool| !a).register_fn("-", |a: f64| -a).register_fn("-", |a: i64| -a);
    engine.register_fn("&", |a: bool, b: bool| a && b).register_fn("|", |a: bool, b: bool| a || b);
    comparison(&mut engine, "<", -1.0, &listener, |a, b| a < b);
    comparison(&mut engine, "<=", -1.0, &listener, |a, b| a <= b);
    comparison(&mut engine, ">", 1.0, &listener, |a, b| a > b);
    comparison(&mut engine, ">=", 1.0, &listener, |a, b| a >= b);
    comparison(&mut engine, "==", 0.0, &listener, |a, b| a == b);
    comparison(&mut engine, "!=", 0.0, &listener, |a, b| a != b);
    engine
}

/// A percentile that falls among flows without an end is infinite, and larger than any other; two such cannot be compared by
/// their difference or ratio.
fn comparison(engine: &mut Engine, operator: &str, sign: f64, listener: &Listener, of: fn(f64, f64) -> bool) {
    let decider = || {
        let listener = Rc::clone(listener);
        move |a: f64, b: f64| -> Result<bool, Box<EvalAltResult>> {
            if a.is_nan() || b.is_nan() {
                return Err("a difference or ratio of two infinite metrics has no value".into());
            }
            Ok(listener(sign, a, b, of(a, b)))
        }
    };
    let [left, right] = [decider(), decider()];
    engine
        .register_fn(operator, decider())
        .register_fn(operator, move |a: f64, b: i64| left(a, b as f64))
        .register_fn(operator, move |a: i64, b: f64| right(a as f64, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> BTreeMap<String, f64> {
        [("presto.mice.fct_p99_ms", 1.5), ("ecmp.mice.fct_p99_ms", 11.0), ("paths", 4.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    #[test]
    fn comparisons_are_all_heard_and_can_be_told() {
        let e = Expression::parse("a.x >= 2 * b.x && (a.y < 3 || a.y == 7)").unwrap();
        let values = [("a.x", 1.0), ("b.x", 2.0), ("a.y", 5.0)].map(|(name, value)| (name.to_owned(), value)).into();
        let said = e.comparisons(&values).unwrap();
        let heard: Vec<(f64, bool)> = said.iter().map(|one| (one.margin, one.holds)).collect();
        assert_eq!(heard, [(-3.0, false), (-2.0, false), (f64::NEG_INFINITY, false)]);
        for (outcomes, holds) in
            [([true, true, false], true), ([true, false, false], false), ([false, true, true], false)]
        {
            assert_eq!(e.holds_if(&outcomes), Ok(holds));
        }
    }

    #[test]
    fn checks_evaluate() {
        for (text, holds) in [
            ("ecmp.mice.fct_p99_ms >= 4 * presto.mice.fct_p99_ms", true),
            ("ecmp.mice.fct_p99_ms / presto.mice.fct_p99_ms < 7.5", true),
            ("paths == 4.0 && presto.mice.fct_p99_ms > 2", false),
            ("max(ecmp.mice.fct_p99_ms, presto.mice.fct_p99_ms) == 11.0 || false", true),
            ("abs(1 - presto.mice.fct_p99_ms / 1.5) < 1e-9", true),
            ("!(presto.mice.fct_p99_ms > 1)", false),
            ("-presto.mice.fct_p99_ms < -1 && 5 > 4 && 3 - 1 <= presto.mice.fct_p99_ms * 2", true),
        ] {
            assert_eq!(Expression::parse(text).unwrap().holds(&values()), Ok(holds), "{text}");
        }
        let ratio = Expression::parse("ecmp.mice.fct_p99_ms / presto.mice.fct_p99_ms").unwrap();
        assert!((ratio.value(&values()).unwrap() - 7.333).abs() < 1e-3);
        assert_eq!(ratio.metrics(), ["ecmp.mice.fct_p99_ms", "presto.mice.fct_p99_ms"]);
    }

    /// Flows that never end make percentiles infinite.
    #[test]
    fn an_infinite_metric_is_larger_than_any_other() {
        let values = [("a.x", f64::INFINITY), ("b.x", f64::INFINITY), ("c.x", 3.0)];
        let values: BTreeMap<String, f64> = values.map(|(name, value)| (name.to_owned(), value)).into();
        for (text, holds) in [
            ("a.x > c.x && c.x < a.x && a.x >= 4 * c.x && c.x <= a.x / 5", true),
            ("a.x > 180 && 180 <= a.x && a.x != 3 && !(a.x == c.x)", true),
            ("a.x <= c.x || a.x < 180 || 180.5 > a.x", false),
            ("max(a.x, c.x) > 1.15 * min(a.x, c.x) && c.x / a.x == 0", true),
            ("a.x == b.x && a.x >= b.x && !(a.x > b.x)", true),
        ] {
            assert_eq!(Expression::parse(text).unwrap().holds(&values), Ok(holds), "{text}");
        }
        for undecided in ["a.x - b.x <= 0.35", "abs(a.x / b.x - 1) < 0.5", "c.x > a.x - b.x"] {
            let why = Expression::parse(undecided).unwrap().holds(&values).unwrap_err().to_string();
            assert!(why.contains("has no value"), "{why}");
        }
    }

    #[test]
    fn a_metric_may_be_of_another_point() {
        let text = "a.rtt.p50[senders=47] >= 1.5 * a.rtt.p50[senders=16] && a.rtt.p50 > 0";
        let growth = Expression::parse(text).unwrap();
        assert_eq!(growth.metrics(), ["a.rtt.p50[senders=47]", "a.rtt.p50[senders=16]", "a.rtt.p50"]);
        assert_eq!(growth.points().collect::<Vec<_>>(), ["senders=47", "senders=16"]);
        for (last, holds) in [(15.0, true), (14.0, false)] {
            let values = [("a.rtt.p50[senders=47]", last), ("a.rtt.p50[senders=16]", 10.0), ("a.rtt.p50", 1.0)];
            let values = values.map(|(name, value)| (name.to_owned(), value)).into();
            assert_eq!(growth.holds(&values), Ok(holds));
        }
        assert_eq!(at_point("a.b[x]"), ("a.b", Some("x")));
        assert_eq!(at_point("a.b"), ("a.b", None));
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        for bad in
            ["a.b[x > 1", "names[1] > 1", "", "1 +", "let x = 1", "while true {}", "a.b; c.d", "fn f() {}", "a.b >= "]
        {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
        let missing = Expression::parse("optimal.x > 1").unwrap();
        assert!(missing.holds(&values()).unwrap_err().to_string().contains("optimal.x is unknown"));
        assert!(Expression::parse("1 + 1").unwrap().holds(&values()).is_err(), "a number is no verdict");
    }
}
