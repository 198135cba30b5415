//! `selvedge lab`: networks on this machine that real programs run in.

pub mod kernel;

use crate::Failure;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Lab {
    /// A leaf-spine fabric of network namespaces, routed by the kernel
    Kernel {
        #[command(subcommand)]
        command: kernel::Kernel,
    },
}

/// Whether what was asked for holds.
///
/// # Errors
/// What the verb cannot do, in one line.
pub fn run(lab: &Lab) -> Result<bool, Failure> {
    match lab {
        Lab::Kernel { command } => Ok(kernel::run(command)?),
    }
}
