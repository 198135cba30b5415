//! Manual pages and shell completions, from the definition of the command line.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot write {0}: {1}; {remedy}", remedy = remedy(.1))]
pub struct ManualError(PathBuf, io::Error);

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or give a directory on another disk"
        }
        _ => "give a directory where you may write",
    }
}

/// Writes one page for each command into `dir`, which is made if it is missing. A page is whole or not there.
///
/// # Errors
/// What the file system says.
pub fn pages(dir: &Path) -> Result<(), ManualError> {
    std::fs::create_dir_all(dir).map_err(|e| ManualError(dir.into(), e))?;
    // No verb of that name, so no page for one.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    page(command, dir)
}

/// Of the command, and of all below it.
fn page(command: clap::Command, dir: &Path) -> Result<(), ManualError> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        page(below.clone(), dir)?;
    }
    let man = Man::new(command);
    let path = dir.join(man.get_filename());
    let mut text = Vec::new();
    let written = man.render(&mut text).and_then(|()| files::replace_as(&path, &text, 0o644));
    written.map_err(|e| ManualError(path, e))
}

/// Prints the completions of a shell.
pub fn completions(shell: clap_complete::Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "selvedge", &mut text);
    say_on!("{}", String::from_utf8_lossy(&text));
}
