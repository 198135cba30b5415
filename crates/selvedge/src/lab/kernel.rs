//! `selvedge lab kernel`: the leaf-spine fabric of `live::netns`.

use clap::Subcommand;
use live::netns::Error;

#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Take the fabric down, also one that was left half-made
    Down {
        /// Which lab
        #[arg(long, default_value = "lab")]
        name: String,
    },
}

/// # Errors
/// What the fabric cannot do, in one line.
pub fn run(command: &Kernel) -> Result<bool, Error> {
    match command {
        Kernel::Down { name } => Err(Error::Name(name.clone())),
    }
}
