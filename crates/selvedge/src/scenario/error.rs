use std::fmt;

/// What is wrong with a scenario, where, and what to do about it. One line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// `file.toml:12`, `file.toml`, or `--set switch.buffer=12`.
    pub place: String,
    /// Dotted path of the key, empty if the error is not about one.
    pub key: String,
    pub problem: String,
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}
impl std::error::Error for ConfigError {}

/// A value that parses but cannot be meant, before its place in a file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Dotted path of the key from the scenario's root; `workload.2.size` is the third workload's.
    pub key: String,
    pub problem: String,
    pub remedy: String,
}

impl Invalid {
    pub fn new(key: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Invalid {
        Invalid { key: key.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

/// The candidate most like `word`, if any is like it at all.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|&(likeness, _)| likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Turns serde's message into a problem and a remedy: an unknown key or word gets the nearest known one.
pub(super) fn explain(message: &str) -> (String, String, Option<String>) {
    for (start, what) in [("unknown field `", "unknown key"), ("unknown variant `", "unknown value")] {
        let Some((word, rest)) = message.strip_prefix(start).and_then(|rest| rest.split_once('`')) else { continue };
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let list = known.join(", ");
        let remedy = match closest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? (known: {list})"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("known: {list}"),
        };
        let key = (what == "unknown key").then(|| word.to_owned());
        return (format!("{what} `{word}`"), remedy, key);
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return (format!("`{field}` is missing"), format!("add `{field} = ...`"), Some(field.to_owned()));
    }
    if let Some((found, expected)) = message.strip_prefix("invalid type: ").and_then(|m| m.split_once(", expected ")) {
        return (format!("found {found}"), format!("write {expected}"), None);
    }
    (message.trim_end().replace('\n', ", "), String::new(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_gets_the_nearest_known_one() {
        let (problem, remedy, key) = explain("unknown field `bufer`, expected one of `buffer`, `alpha`");
        assert_eq!((problem.as_str(), key.as_deref()), ("unknown key `bufer`", Some("bufer")));
        assert_eq!(remedy, "did you mean `buffer`? (known: buffer, alpha)");
        let (_, remedy, key) = explain("unknown variant `zzz`, expected `a` or `b`");
        assert_eq!((remedy.as_str(), key), ("known: a, b", None));
    }

    #[test]
    fn a_missing_unit_says_what_to_write() {
        let (problem, remedy, _) =
            explain("invalid type: integer `10`, expected a string with its unit, such as \"10Gbps\"");
        assert_eq!(problem, "found integer `10`");
        assert_eq!(remedy, "write a string with its unit, such as \"10Gbps\"");
    }
}
