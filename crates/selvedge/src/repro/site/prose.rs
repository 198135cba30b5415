//! Sections of `results/prose` as HTML: paragraphs, tables, indented commands, `code` and **bold**. Other Markdown stays as it is written.

use super::super::prose::Section;
use crate::report::html::escape;
use std::fmt::Write as _;

/// A card with these sections, or nothing.
pub(super) fn card<'a>(title: &str, sections: impl Iterator<Item = &'a Section>) -> String {
    let body: String = sections.map(|section| html(&section.text)).collect();
    if body.is_empty() {
        return body;
    }
    format!("<section class=\"card prose\"><h2>{}</h2>{body}</section>", escape(title))
}

/// The text of a section. Blank lines part its blocks.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for block in lines.split(|line| line.trim().is_empty()).filter(|block| !block.is_empty()) {
        let all = |prefix: &str| block.iter().all(|line| line.starts_with(prefix));
        if all("|") {
            table(&mut out, block);
        } else if all("    ") {
            let commands: Vec<&str> = block.iter().map(|line| line.trim()).collect();
            let _ = write!(out, "<pre><code>{}</code></pre>", escape(&commands.join("\n")));
        } else {
            let _ = write!(out, "<p>{}</p>", inline(&block.join(" ")));
        }
    }
    out
}

/// The first row is the head; the second only rules it off.
fn table(out: &mut String, rows: &[&str]) {
    out.push_str("<div class=\"scroll\"><table>");
    for (n, row) in rows.iter().enumerate().filter(|(n, _)| *n != 1) {
        let tag = if n == 0 { "th" } else { "td" };
        let cells = row.trim().trim_start_matches('|').strip_suffix('|').unwrap_or(row).split('|');
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", inline(cell.trim()))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</table></div>");
}

/// Text between pairs of back quotes is code, between pairs of two stars bold.
fn inline(text: &str) -> String {
    pairs(text, "`", "code", escape, |plain| pairs(plain, "**", "strong", escape, escape))
}

/// What stands between two marks goes into an element; a mark without another stays.
fn pairs(text: &str, mark: &str, tag: &str, inner: impl Fn(&str) -> String, outer: impl Fn(&str) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, marked)) = rest.split_once(mark) {
        let Some((within, after)) = marked.split_once(mark) else { break };
        let _ = write!(out, "{}<{tag}>{}</{tag}>", outer(before), inner(within));
        rest = after;
    }
    out + outer(rest).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_tables_and_commands() {
        let text = "**Hosts** of `a < b` are\nslow & few.\n\n| A | B |\n|---|---|\n| `x` | |\n\n    sim run <file>\n    again\n";
        assert_eq!(
            html(text),
            "<p><strong>Hosts</strong> of <code>a &lt; b</code> are slow &amp; few.</p>\
             <div class=\"scroll\"><table><tr><th>A</th><th>B</th></tr><tr><td><code>x</code></td><td></td></tr></table></div>\
             <pre><code>sim run &lt;file&gt;\nagain</code></pre>"
        );
        assert_eq!(html("1.44/100^2 * 3 ** and ` alone\n"), "<p>1.44/100^2 * 3 ** and ` alone</p>");
        assert_eq!(html("\n\n"), "");
    }
}
