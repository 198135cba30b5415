//! Lines and errors of files with flows or flow sizes.

use super::{number, Cdf, CdfError, Connection, FlowSpec};
use std::fmt;
use units::Time;

/// Why a file cannot be read as a flow-size distribution or a list of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    pub file: String,
    /// Counted from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub problem: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.problem),
            line => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for ImportError {}

/// A file's name and its meaningful lines, numbered from 1: comments (`#` to the end of the line) and blank lines are
/// left out.
pub(super) struct Lines<'a> {
    pub file: &'a str,
    pub lines: Vec<(usize, &'a str)>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Lines<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let meaningful = |(i, line): (usize, &'a str)| {
            let line = line.split('#').next().unwrap_or("").trim();
            (!line.is_empty()).then_some((i + 1, line))
        };
        Lines { file, lines: text.lines().enumerate().filter_map(meaningful).collect() }
    }

    pub(super) fn error(&self, line: usize, problem: impl Into<String>) -> ImportError {
        ImportError { file: self.file.to_owned(), line, problem: problem.into() }
    }
}

/// What a message shows of a file's text.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

impl Cdf {
    /// Reads a distribution from `text`, the contents of `file`, in one of two forms, separated by blanks or commas:
    ///
    /// - `bytes probability`, as ns-3 and HPCC users keep them;
    /// - `bytes index probability`, as htsim and CONGA (ns-2) users keep them; the index is not used. Files that count
    ///   packets are to be [scaled](Cdf::scaled) by the bytes of a packet.
    ///
    /// Probabilities are cumulative, as fractions that end at 1 or as percentages that end at 100. `#` starts a comment.
    ///
    /// # Errors
    /// With the line at fault.
    pub fn parse(file: &str, text: &str) -> Result<Cdf, ImportError> {
        let lines = Lines::new(file, text);
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(lines.lines.len());
        let mut columns = None;
        for &(at, line) in &lines.lines {
            let fields: Vec<&str> =
                line.split(|c: char| c.is_whitespace() || c == ',').filter(|f| !f.is_empty()).collect();
            let (size, p) = match fields[..] {
                [size, p] | [size, _, p] => (size, p),
                _ => {
                    let found = fields.len();
                    return Err(lines.error(
                        at,
                        format!("found {found} columns; write `bytes probability` or `bytes index probability`"),
                    ));
                }
            };
            if *columns.get_or_insert(fields.len()) != fields.len() {
                return Err(lines.error(at, "this line has another number of columns than those before; use one form"));
            }
            let read = |what: &str, field: &str| {
                number::finite(field).ok_or_else(|| {
                    lines.error(at, format!("the {what} {} is not a number; write digits, such as 10000", shown(field)))
                })
            };
            points.push((read("size", size)?, read("probability", p)?));
        }
        // Percentages end at 100: a distribution in fractions never exceeds 1.
        if points.last().is_some_and(|&(_, p)| p > 1.5) {
            for (_, p) in &mut points {
                *p /= 100.0;
            }
        }
        Cdf::new(file, &points).map_err(|error| {
            let at = match error {
                CdfError::BadSize { point, .. }
                | CdfError::BadProbability { point, .. }
                | CdfError::SizeFalls { point, .. }
                | CdfError::ProbabilityFalls { point, .. }
                | CdfError::EndsElsewhere { point, .. } => lines.lines.get(point).map_or(0, |l| l.0),
                CdfError::Empty | CdfError::AllZero => 0,
            };
            lines.error(at, error.to_string())
        })
    }
}

/// A flow and its line.
pub(super) type Numbered = (usize, FlowSpec);

pub(super) fn flow(start: Time, src: u32, dst: u32, size: Option<u64>) -> FlowSpec {
    FlowSpec { start, src, dst, size, class: 0, reply: false, request: None, connection: Connection::Fresh, tag: 0 }
}

/// A host's number, not that of the other end.
pub(super) fn host(lines: &Lines<'_>, at: usize, text: &str) -> Result<u32, ImportError> {
    number::whole(text)
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| lines.error(at, format!("the host {} is not a number from 0 up", shown(text))))
}

pub(super) fn ends(lines: &Lines<'_>, at: usize, src: &str, dst: &str) -> Result<(u32, u32), ImportError> {
    let (src, dst) = (host(lines, at, src)?, host(lines, at, dst)?);
    if src == dst {
        return Err(lines.error(at, format!("host {src} sends to itself; give the flow another destination")));
    }
    Ok((src, dst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERCENT: &str = "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n2000000 80\n\
                           5000000 90\n10000000 97\n30000000 100\n";

    #[test]
    fn percentages_fractions_and_three_columns_agree() {
        let built_in = Cdf::built_in("websearch").unwrap();
        let percent = Cdf::parse("ws.txt", PERCENT).unwrap();
        assert_eq!(percent.points(), built_in.points());
        let three = "# web search\n10000, 1, .15\n20000 1 0.2\r\n30000 1 0.3\n50000 1 .4\n80000 1 .53\n\n200000 1 .6\n\
                     1000000 1 .7\n2e6 1 .8\n5e6 1 .9 # nearly\n10e6 1 .97\n30e6 1 1\n";
        assert_eq!(Cdf::parse("ws3.txt", three).unwrap().points(), built_in.points());
    }

    #[test]
    fn packets_are_scaled() {
        let packets = Cdf::parse("p.tcl", "1 1 0\n6 1 0.5\n10 1 1\n").unwrap().scaled(1460.0).unwrap();
        assert_eq!((packets.size_at(0.0), packets.size_at(0.5)), (1460, 8760));
    }

    #[test]
    fn errors_name_file_line_and_remedy() {
        for (text, line, remedy) in [
            ("", 0, "give at least one"),
            ("10 0.5\n20\n", 2, "write `bytes probability`"),
            ("# c\n\n10 0.5\nx 1\n", 4, "write digits"),
            ("10 0.5\n5 1\n", 2, "sort the points"),
            ("10 0.5\n20 0.4\n30 1\n", 2, "must be cumulative"),
            ("10 0.5\n20 0.9\n", 2, "ends at 1"),
            ("10 50\n20 90\n", 2, "ends at 1"),
            ("10 0.5\n20 1 1\n", 2, "one form"),
            ("-1 1\n", 1, "not between 0"),
            ("inf 1\n", 1, "write digits"),
        ] {
            let error = Cdf::parse("sizes.txt", text).unwrap_err();
            let shown = error.to_string();
            assert_eq!(error.line, line, "{text:?}: {shown}");
            assert!(shown.starts_with("sizes.txt:") && shown.contains(remedy), "{text:?}: {shown}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_text_panics(text in "\\PC*", lines in prop::collection::vec("[-0-9.,e#x%\t ]{0,12}", 0..6)) {
            let _ = Cdf::parse("x", &text);
            let _ = Cdf::parse("x", &lines.join("\n"));
        }
    }
}
