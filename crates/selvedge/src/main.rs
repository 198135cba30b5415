//! The binary `selvedge`: parses the command line and runs the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    if selvedge::cni::is_called() {
        return selvedge::cni::run();
    }
    match selvedge::cli::Cli::read() {
        Ok(cli) => selvedge::main(cli),
        Err(code) => code,
    }
}
