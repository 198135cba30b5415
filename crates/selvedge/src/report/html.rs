//! HTML text: escaping, numbers, tables.

use std::fmt::Write as _;

/// `text` as element content or as the value of a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // HTML allows no control characters but these; a NUL would be an error even as a reference.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON that may stand inside a `<script>` element: `<` is written as an escape, so that no string can close it.
pub(crate) fn script_json(value: &impl serde::Serialize) -> String {
    // Plain structs of strings, numbers and lists always serialise; floats that are not finite become null.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()).replace('<', "\\u003c")
}

/// What a missing value looks like.
pub(crate) const MISSING: &str = "\u{2013}";

/// A number for reading: three significant digits, all digits of the integer part in groups of three.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() {
        return MISSING.to_owned();
    }
    let size = x.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{x:.2e}");
    }
    let decimals = match size {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        _ => 5,
    };
    let text = format!("{size:.decimals$}");
    let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if x < 0.0 { "\u{2212}" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", grouped(integer))
}

/// A count, with its digits in groups of three.
pub(crate) fn count(n: u64) -> String {
    grouped(&n.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// As [`number`], for a value that may be missing.
pub(super) fn optional(x: Option<f64>) -> String {
    x.map_or_else(|| MISSING.to_owned(), number)
}

/// A table of the numbers behind a chart, folded away. `head` and `rows` are plain text; the first column names the row.
/// Without rows nothing is written.
pub(super) fn data_table(out: &mut String, caption: &str, head: &[String], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<details class=\"data\"><summary>{}</summary><div class=\"scroll\"><table><thead><tr>",
        escape(caption)
    );
    for title in head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(title));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let (open, close) = if i == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            let _ = write!(out, "{open}{}{close}", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_could_end_text_or_attribute() {
        assert_eq!(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(escape("x\0\u{7f}\ny"), "x\u{fffd}\u{fffd}\ny");
    }

    #[test]
    fn json_cannot_close_its_script() {
        let json = script_json(&vec!["</script><!--", "\u{2028}"]);
        assert!(!json.contains('<'), "{json}");
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, ["</script><!--", "\u{2028}"]);
    }

    #[test]
    fn numbers_read_well() {
        for (x, text) in [
            (0.0, "0"),
            (9.313_4, "9.31"),
            (12.35, "12.3"),
            (0.012_34, "0.0123"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1234.5, "\u{2212}1,234"),
            (1.5e-7, "1.50e-7"),
            (f64::NAN, MISSING),
        ] {
            assert_eq!(number(x), text, "{x}");
        }
    }

    #[test]
    fn tables_escape_their_cells() {
        let mut out = String::new();
        data_table(&mut out, "c", &["<h>".into()], &[vec!["<r>".into()]]);
        assert!(out.contains("&lt;h&gt;") && out.contains("&lt;r&gt;"));
        let mut none = String::new();
        data_table(&mut none, "c", &[], &[]);
        assert_eq!(none, "");
    }
}
