//! What differs from the papers, and why, in words: `results/prose/PAPER.md`. Text before the first heading is about the whole paper. A heading
//! `## fig7, fig7-mptcp` names the experiments whose pages show the text below it.

use config::ConfigError;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/prose.rs"));
}

const HEADING: &str = "## ";

/// One section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub paper: String,
    /// Files below `scenarios/`, with the paper and without `.toml`; none: the section is about the whole paper.
    pub experiments: Vec<String>,
    /// Markdown: paragraphs, tables, indented commands, `code` and **bold**.
    pub text: String,
}

impl Section {
    /// Does the page of `file`, a path below `scenarios/`, show it?
    pub fn is_of(&self, file: &str) -> bool {
        self.experiments.iter().any(|name| Some(name.as_str()) == file.strip_suffix(".toml"))
    }
}

/// The sections of one file; `file` is `presto.md`.
///
/// # Errors
/// A heading that names nothing, or has no text below it.
pub fn parse(file: &str, text: &str) -> Result<Vec<Section>, ConfigError> {
    let paper = file.trim_end_matches(".md");
    let section = |experiments| Section { paper: paper.to_owned(), experiments, text: String::new() };
    let fail = |n: usize, problem: &str, remedy: &str| {
        Err(ConfigError::new(format!("results/prose/{file}, line {}", n + 1), problem.to_owned(), remedy))
    };
    // Each with the line of its heading.
    let mut sections = vec![(0, section(Vec::new()))];
    for (n, line) in text.lines().enumerate() {
        if let Some(names) = line.strip_prefix(HEADING) {
            let names: Vec<&str> = names.split(',').map(str::trim).collect();
            if names.iter().any(|name| name.is_empty()) {
                return fail(n, "names no experiment", "write ## fig7, fig7-mptcp");
            }
            sections.push((n, section(names.iter().map(|name| format!("{paper}/{name}")).collect())));
        } else if line.starts_with('#') {
            return fail(n, "is a heading of another depth", "write ## and the names of experiments");
        } else if let Some((_, section)) = sections.last_mut() {
            section.text += line;
            section.text.push('\n');
        }
    }
    let empty = |section: &Section| section.text.trim().is_empty();
    if let Some((n, _)) = sections.iter().skip(1).find(|(_, section)| empty(section)) {
        return fail(*n, "has no text below it", "write what differs, or remove the heading");
    }
    Ok(sections.into_iter().map(|(_, section)| section).filter(|section| !empty(section)).collect())
}

/// All sections in the binary.
///
/// # Errors
/// A file that does not read, which a test rules out.
pub fn prose() -> Result<Vec<Section>, ConfigError> {
    let mut all = Vec::new();
    for (file, text) in embedded::PROSE {
        all.extend(parse(file, text)?);
    }
    Ok(all)
}
