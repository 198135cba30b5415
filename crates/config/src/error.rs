//! Errors of configuration files: one line each with file, line, key, problem and remedy.

use std::fmt;

/// What is wrong in one place, and what to do about it. One line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `file.toml:12`, `file.toml`, or `--set switch.buffer=12`.
    pub place: String,
    /// Dotted path of the key, empty if the fault is not about one.
    pub key: String,
    pub problem: String,
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_line(f, &self.place, 4096)?;
        f.write_str(": ")?;
        if !self.key.is_empty() {
            one_line(f, &self.key, 200)?;
            f.write_str(": ")?;
        }
        one_line(f, &self.problem, 1000)?;
        if !self.remedy.is_empty() {
            f.write_str("; ")?;
            one_line(f, &self.remedy, 1000)?;
        }
        Ok(())
    }
}

/// What a file says may have line ends and control characters in it, and be of any length.
fn one_line(f: &mut fmt::Formatter<'_>, text: &str, most: usize) -> fmt::Result {
    for (n, c) in text.chars().enumerate() {
        if n == most {
            return f.write_str("...");
        }
        match c.is_control() {
            true => write!(f, "{}", c.escape_default())?,
            false => fmt::Write::write_char(f, c)?,
        }
    }
    Ok(())
}

/// In the words of the file's language, what serde says in those of its own.
fn plainly(expected: &str) -> String {
    let of = |bits: u32, signed: bool| match (bits, signed) {
        (64, true) => "a whole number".to_owned(),
        (64, false) => "a whole number, not negative".to_owned(),
        (bits, true) => format!("a whole number from {} to {}", -(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        (bits, false) => format!("a whole number from 0 to {}", (1u64 << bits) - 1),
    };
    match expected {
        "u8" => of(8, false),
        "u16" => of(16, false),
        "u32" => of(32, false),
        "u64" | "usize" => of(64, false),
        "i32" => of(32, true),
        "i64" => of(64, true),
        "f64" | "f32" => "a number".to_owned(),
        "a boolean" | "bool" => "true or false".to_owned(),
        "map" | "a map" => "a table".to_owned(),
        "sequence" | "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => match other.strip_prefix("a tuple of size ") {
            Some(size) => format!("a list of {size} values"),
            None => other.to_owned(),
        },
    }
}

/// All that is wrong with a file, or with what was given instead of one: at least one fault, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    faults: Vec<Fault>,
    /// So many more are not kept.
    more: usize,
    /// Reading ended before the end of the file.
    unread: bool,
}

/// Faults with a line each. Of more, the place and key of the first [`MOST_NAMED`] follow on one line.
const MOST_SHOWN: usize = 100;
const MOST_NAMED: usize = 10;

impl ConfigError {
    /// Of one fault that is about no key.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> ConfigError {
        Fault { place: place.into(), key: String::new(), problem: problem.into(), remedy: remedy.into() }.into()
    }

    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The same faults, as found in another place.
    #[must_use]
    pub fn at(mut self, place: &str) -> ConfigError {
        self.faults.iter_mut().for_each(|fault| place.clone_into(&mut fault.place));
        self
    }

    /// The same faults of a file that `by` names.
    #[must_use]
    pub fn named_by(mut self, by: &str) -> ConfigError {
        self.faults.iter_mut().for_each(|fault| fault.problem.push_str(&format!(" ({by} names the file)")));
        self
    }

    /// Adds what `other` says and this does not yet.
    pub fn extend(&mut self, other: ConfigError) {
        for fault in other.faults {
            if self.faults.contains(&fault) {
                continue;
            }
            match self.is_full() {
                true => self.more += 1,
                false => self.faults.push(fault),
            }
        }
        self.more += other.more;
        self.unread |= other.unread;
    }

    /// Are there so many that more are only counted?
    pub fn is_full(&self) -> bool {
        self.faults.len() == MOST_SHOWN + MOST_NAMED
    }

    /// Counts faults that nobody kept.
    pub(crate) fn and_more(&mut self, more: usize) {
        self.more += more;
    }

    /// Says that reading ended early, so that there may be more.
    pub(crate) fn was_cut(&mut self) {
        self.unread = true;
    }

    /// Those without a line of their own.
    fn left_off(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.faults.get(MOST_SHOWN..).unwrap_or_default();
        let count = rest.len() + self.more;
        if count > 0 {
            let named: Vec<String> = rest.iter().map(|f| format!("{} {}", f.place, f.key)).collect();
            // The same fault may be counted twice.
            let (most, end) = if self.more > 0 { ("up to ", ", ...") } else { ("", "") };
            f.write_str("\n")?;
            one_line(f, &format!("and {most}{count} more: {}{end}", named.join(", ")), 4096)?;
        }
        match self.unread {
            true => f.write_str("\nand perhaps more: reading ended here, correct these first"),
            false => Ok(()),
        }
    }
}

impl From<Fault> for ConfigError {
    fn from(fault: Fault) -> ConfigError {
        ConfigError { faults: vec![fault], more: 0, unread: false }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.faults.iter().take(MOST_SHOWN).enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        self.left_off(f)
    }
}

impl std::error::Error for ConfigError {}

/// Two values.
///
/// # Errors
/// All that is wrong with either.
pub fn both<A, B>(a: Result<A, ConfigError>, b: Result<B, ConfigError>) -> Result<(A, B), ConfigError> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut all), Err(more)) => {
            all.extend(more);
            Err(all)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
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

/// Turns serde's message into a problem and a remedy: an unknown key or word gets the nearest known one. `also` are keys that
/// the message does not know of.
pub(crate) fn explain(message: &str, also: &[String]) -> (String, String, Option<String>) {
    for (start, what) in [("unknown field `", "unknown key"), ("unknown variant `", "unknown value")] {
        let Some((word, rest)) = message.strip_prefix(start).and_then(|rest| rest.split_once('`')) else { continue };
        let also = also.iter().map(String::as_str).filter(|_| what == "unknown key");
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).chain(also).collect();
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
        return (format!("found {}", plainly(found)), format!("write {}", plainly(expected)), None);
    }
    if let Some((found, expected)) = message.strip_prefix("invalid value: ").and_then(|m| m.split_once(", expected ")) {
        return (format!("found {found}"), format!("write {}", plainly(expected)), None);
    }
    let length = message.strip_prefix("invalid length ").and_then(|m| m.split_once(", expected "));
    if let Some((length, expected)) = length.filter(|(_, expected)| expected.starts_with("a tuple ")) {
        return (format!("found {length} in a list"), format!("write {}", plainly(expected)), None);
    }
    // A list where a table belongs is read as the table's values.
    if message.starts_with("invalid length ") && message.contains(", expected struct ") {
        return ("found a list".to_owned(), "write a table".to_owned(), None);
    }
    // An enum whose variants have tables of their own or none.
    if message == "wanted string or table" {
        return ("found neither a word nor a table".to_owned(), "write a word or a table".to_owned(), None);
    }
    if message.starts_with("wanted exactly 1 element, ") {
        return (
            "found a table that has not one key".to_owned(),
            "write a word, or one key with its table".to_owned(),
            None,
        );
    }
    (message.trim_end().replace('\n', ", "), String::new(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_gets_the_nearest_known_one() {
        let (problem, remedy, key) = explain("unknown field `bufer`, expected one of `buffer`, `alpha`", &[]);
        assert_eq!((problem.as_str(), key.as_deref()), ("unknown key `bufer`", Some("bufer")));
        assert_eq!(remedy, "did you mean `buffer`? (known: buffer, alpha)");
        let (_, remedy, key) = explain("unknown variant `zzz`, expected `a` or `b`", &["zz".to_owned()]);
        assert_eq!((remedy.as_str(), key), ("known: a, b", None));
        let (_, remedy, _) = explain("unknown field `sweeps`, expected `seeds`", &["sweep".to_owned()]);
        assert_eq!(remedy, "did you mean `sweep`? (known: seeds, sweep)");
    }

    #[test]
    fn what_is_expected_is_said_in_the_words_of_the_file() {
        for (message, problem, remedy) in [
            ("invalid type: map, expected a sequence", "found a table", "write a list"),
            ("wanted string or table", "found neither a word nor a table", "write a word or a table"),
            (
                "wanted exactly 1 element, found 0 elements",
                "found a table that has not one key",
                "write a word, or one key with its table",
            ),
            ("invalid type: map, expected u32", "found a table", "write a whole number from 0 to 4294967295"),
            ("invalid type: string \"x\", expected struct Table", "found string \"x\"", "write a table"),
            ("invalid value: integer `-5`, expected u16", "found integer `-5`", "write a whole number from 0 to 65535"),
            ("invalid type: integer `1`, expected a boolean", "found integer `1`", "write true or false"),
            ("invalid type: integer `1`, expected a tuple of size 2", "found integer `1`", "write a list of 2 values"),
            ("invalid length 1, expected a tuple of size 2", "found 1 in a list", "write a list of 2 values"),
        ] {
            assert_eq!(explain(message, &[]), (problem.to_owned(), remedy.to_owned(), None));
        }
        assert_eq!(explain("invalid length 2, expected struct T with 5 elements", &[]).1, "write a table");
    }

    #[test]
    fn whatever_the_file_says_the_message_is_one_line() {
        let error = Fault {
            place: "a.toml:3".into(),
            key: "a\nb".into(),
            problem: format!("unknown key `\u{1b}[2J{}`", "x".repeat(100_000)),
            remedy: "remove it".into(),
        };
        let text = error.to_string();
        assert!(text.starts_with("a.toml:3: a\\nb: unknown key `\\u{1b}[2Jxxx") && text.ends_with("...; remove it"));
        assert!(!text.contains(char::is_control) && text.len() < 1200);
    }

    #[test]
    fn of_thousands_a_hundred_are_shown_and_the_rest_counted() {
        let fault = |n: usize| Fault {
            place: format!("a.toml:{n}"),
            key: format!("peer.{n}"),
            problem: "is wrong".into(),
            remedy: String::new(),
        };
        let mut all = ConfigError::from(fault(0));
        (0..5000).for_each(|n| all.extend(fault(n).into()));
        let text = all.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[99]), (101, "a.toml:99: peer.99: is wrong"));
        assert!(
            lines[100].starts_with("and up to 4900 more: a.toml:100 peer.100, a.toml:101 peer.101, "),
            "{}",
            lines[100]
        );
        assert!(lines[100].ends_with("a.toml:109 peer.109, ..."), "{}", lines[100]);
    }

    #[test]
    fn a_missing_unit_says_what_to_write() {
        let (problem, remedy, _) =
            explain("invalid type: integer `10`, expected a string with its unit, such as \"10Gbps\"", &[]);
        assert_eq!(problem, "found integer `10`");
        assert_eq!(remedy, "write a string with its unit, such as \"10Gbps\"");
    }
}
