use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    selvedge::main(selvedge::cli::Cli::parse())
}
