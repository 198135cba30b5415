//! Checks as expressions over metrics, such as `presto.mice.fct_p99_ms <= 1.4 * optimal.mice.fct_p99_ms`.

use rhai::{Dynamic, Engine, EvalAltResult, Scope};
use std::any::TypeId;
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
    /// It compares two infinite values, or what is made of two.
    #[error("{0:?} compares what has no end within the runs: {ENDLESS}")]
    Endless(String),
}

const ENDLESS: &str = "a difference, ratio or order of two infinite metrics has no value";

const FUNCTIONS: [&str; 4] = ["min", "max", "abs", "count"];

/// Most arguments of `min`, `max` and `count`.
const ARGUMENTS: usize = 40;

impl Expression {
    /// Metrics are dotted paths, plain names are parameters of a sweep; `+ - * / ( )`, comparisons, `&&`, `||`, `!`, `min`,
    /// `max` and `abs` work on them. `count` says how many of its comparisons hold. `a.b[LABEL]` is a metric at that point of the
    /// sweep.
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

    /// Compares metrics with one another, and with no number or distance: who is ahead, not by how much.
    pub fn is_order(&self) -> bool {
        let mut rest = self.rewritten.clone();
        for n in (0..self.metrics.len()).rev() {
            rest = rest.replace(&format!("m{n}_"), "");
        }
        self.names.is_empty() && !rest.contains("abs") && !rest.contains(|c: char| c.is_ascii_digit())
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
        let value: Dynamic = self.evaluate(values)?;
        let count = value.clone().try_cast::<Count>().map(|count| count.0 as f64);
        let number = count.or_else(|| value.as_float().ok());
        number.ok_or_else(|| ExpressionError::Evaluation(self.source.clone(), "it is no number".to_owned()))
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

    fn evaluate<T: Clone + 'static>(&self, values: &BTreeMap<String, f64>) -> Result<T, ExpressionError> {
        self.evaluate_by(&engine(), &self.rewritten, values)
    }

    fn evaluate_by<T: Clone + 'static>(
        &self,
        engine: &Engine,
        text: &str,
        values: &BTreeMap<String, f64>,
    ) -> Result<T, ExpressionError> {
        let fail = |why: String| match why.contains(ENDLESS) {
            true => ExpressionError::Endless(self.source.clone()),
            false => ExpressionError::Evaluation(self.source.clone(), why),
        };
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
    engine.register_fn("abs", f64::abs);
    for n in 2..=ARGUMENTS {
        fold(&mut engine, "min", n, f64::min);
        fold(&mut engine, "max", n, f64::max);
    }
    for n in 1..=ARGUMENTS {
        engine.register_raw_fn("count", vec![TypeId::of::<bool>(); n], |_, all| {
            Ok(Count(all.iter().filter(|one| one.as_bool() == Ok(true)).count() as i64))
        });
    }
    engine
        .register_fn("<", |a: Count, b: i64| a.0 < b)
        .register_fn("<=", |a: Count, b: i64| a.0 <= b)
        .register_fn(">", |a: Count, b: i64| a.0 > b)
        .register_fn(">=", |a: Count, b: i64| a.0 >= b)
        .register_fn("==", Count::equal)
        .register_fn("!=", Count::equal);
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

/// How many comparisons hold. What compares it is not heard: what holds of the whole follows from what is known of its parts. Only
/// orders are defined, so that more that hold change a verdict in one direction.
#[derive(Clone, Copy, Debug)]
struct Count(i64);

impl Count {
    fn equal(self, _: i64) -> Result<bool, Box<EvalAltResult>> {
        Err("a count is compared with < <= > >= only".into())
    }
}

/// A function of `n` numbers from one of two.
fn fold(engine: &mut Engine, name: &str, n: usize, of: fn(f64, f64) -> f64) {
    engine.register_raw_fn(name, vec![TypeId::of::<f64>(); n], move |_, all| {
        Ok(all.iter().filter_map(|one| one.as_float().ok()).reduce(of).unwrap_or(f64::NAN))
    });
}

/// A percentile that falls among flows without an end is infinite, and larger than any finite one; which of two such is larger nobody
/// knows.
fn comparison(engine: &mut Engine, operator: &str, sign: f64, listener: &Listener, of: fn(f64, f64) -> bool) {
    let decider = || {
        let listener = Rc::clone(listener);
        move |a: f64, b: f64| -> Result<bool, Box<EvalAltResult>> {
            if a.is_nan() || b.is_nan() || a.is_infinite() && a == b {
                return Err(ENDLESS.into());
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
            ("min(ecmp.mice.fct_p99_ms, paths, presto.mice.fct_p99_ms) == 1.5 && max(paths, 1.0, 2.0) == 4.0", true),
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

    /// Of three cells the first gains, the second does not, and seeds disagree of the third.
    #[test]
    fn a_count_is_decided_by_what_is_decided_of_its_parts() {
        let values: BTreeMap<String, f64> = [("a.x", 1.0), ("a.y", 5.0), ("a.z", 3.0), ("b.x", 4.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let cells = "count(\n a.x < b.x,\n a.y < b.x, a.z < b.x && a.z > 0)";
        for (bar, holds, if_not) in
            [("> 1", true, false), (">= 1", true, true), (">= 3", false, false), ("< 2", false, true)]
        {
            let e = Expression::parse(&format!("{cells} {bar}")).unwrap();
            assert_eq!(e.holds(&values), Ok(holds), "{bar}");
            assert_eq!(e.comparisons(&values).unwrap().len(), 4, "the count itself is none");
            assert_eq!(e.holds_if(&[true, false, true, true]), Ok(holds), "{bar}");
            assert_eq!(e.holds_if(&[true, false, false, true]), Ok(if_not), "{bar}");
        }
        assert_eq!(Expression::parse(cells).unwrap().value(&values), Ok(2.0));
        let equal = Expression::parse("count(a.x < b.x) == 1").unwrap();
        assert!(equal.holds(&values).is_err(), "how many exactly cannot be known of what is undecided");
        let number = Expression::parse("count(a.x) > 1").unwrap();
        assert!(number.holds(&values).is_err(), "a number is no comparison");
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
        ] {
            assert_eq!(Expression::parse(text).unwrap().holds(&values), Ok(holds), "{text}");
        }
        for undecided in [
            "a.x - b.x <= 0.35",
            "abs(a.x / b.x - 1) < 0.5",
            "c.x > a.x - b.x",
            "a.x <= b.x",
            "a.x <= 0.7 * b.x",
            "a.x == b.x",
            "c.x < a.x && a.x > b.x",
        ] {
            let why = Expression::parse(undecided).unwrap().holds(&values).unwrap_err();
            assert!(matches!(why, ExpressionError::Endless(_)) && why.to_string().contains("has no value"), "{why}");
        }
    }

    #[test]
    fn an_order_has_no_number() {
        for (text, order) in [
            ("a.rtt.p99 <= b.rtt.p99 && b.rtt.p99 < max(c.x, d.x)", true),
            ("a.mice.fct_ms.p50[senders=47] > b.x", true),
            ("a.loss == 0", false),
            ("abs(a.x - b.x) <= c.x", false),
            ("a.x < b.x && a.x >= 0.9 * b.x", false),
            ("a.x <= 0.9 * b.x", false),
            ("a.x <= b.x + 2", false),
            ("a.x <= b.x / flows", false),
        ] {
            assert_eq!(Expression::parse(text).unwrap().is_order(), order, "{text}");
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
