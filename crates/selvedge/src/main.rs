//! The binary `selvedge`: parses the command line and runs the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match selvedge::cli::Cli::read() {
        Ok(cli) => selvedge::main(cli),
        Err(code) => code,
    }
}
