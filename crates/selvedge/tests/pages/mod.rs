//! The pages of the documents, and the commands that they show.

use std::path::Path;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The lines of all `sh` blocks, and of all indented blocks, of a document that call the binary.
pub(crate) fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let indented = text.lines().filter(|l| ["    selvedge ", "    sudo selvedge "].iter().any(|c| l.starts_with(c)));
    let lines = blocks.flat_map(str::lines).chain(indented);
    let lines = lines.map(|l| l.trim().strip_prefix("sudo ").unwrap_or(l));
    let lines = lines.map(|l| {
        l.split(" #")
            .next()
            .and_then(|l| l.split(" > ").next())
            .and_then(|l| l.split(" | ").next())
            .unwrap_or(l)
            .trim()
            .to_owned()
    });
    lines.filter(|l| l.starts_with("selvedge ")).collect()
}
