//! Manual pages and shell completions, from the definition of the command line.

use crate::cli::Cli;
use clap::CommandFactory;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot write {0}: {1}; give a directory where you may write")]
pub struct ManualError(PathBuf, io::Error);

/// Writes one page for each command into `dir`, which is made if it is missing.
///
/// # Errors
/// What the file system says.
pub fn pages(dir: &Path) -> Result<(), ManualError> {
    let failed = |e| ManualError(dir.into(), e);
    std::fs::create_dir_all(dir).map_err(failed)?;
    // No verb of that name, so no page for one.
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir).map_err(failed)
}

/// Prints the completions of a shell.
pub fn completions(shell: clap_complete::Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "selvedge", &mut text);
    say_on!("{}", String::from_utf8_lossy(&text));
}
