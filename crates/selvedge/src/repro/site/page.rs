//! What all pages have.

use super::super::catalogue::Status;
use crate::report::html::escape;

/// Nothing may be fetched but the files beside the page.
const POLICY: &str =
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// A whole page; `lead` and `body` are HTML.
pub(super) fn page(title: &str, lead: &str, body: &str) -> String {
    let (title, version) = (escape(title), env!("CARGO_PKG_VERSION"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"site.css\"><script src=\"site.js\"></script>\
         <script src=\"echarts.min.js\"></script></head>\n\
         <body><header><p class=\"brand\"><a href=\"index.html\">Selvedge: published results</a></p><h1>{title}</h1>\
         {lead}</header><main>{body}</main><footer>Selvedge {version}</footer></body></html>\n"
    )
}

/// A status as a word with its colour.
pub(super) fn badge(word: &str) -> String {
    format!("<span class=\"badge {}\">{}</span>", class(word), escape(word))
}

/// The class of a status's word.
pub(super) fn class(word: &str) -> &'static str {
    match word {
        "holds" => "holds",
        "fails" | "wrong size" | "wrong direction" => "fails",
        "contradicted" | "our own bound" | "undecided" => "unsure",
        _ => "none",
    }
}

/// How often each status stands in a list, as a bar with numbers.
pub(super) fn shares(counts: &[(Status, usize)]) -> String {
    let parts: String = counts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(status, n)| {
            let word = status.word();
            format!("<span class=\"{}\" style=\"flex-grow:{n}\" title=\"{word}: {n}\">{n}</span>", class(word))
        })
        .collect();
    format!("<div class=\"shares\">{parts}</div>")
}
