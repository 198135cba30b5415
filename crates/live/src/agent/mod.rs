//! The agent of the kernel edge: fills the maps from a configuration, keeps them in step with the host's interfaces,
//! observes, and answers on a socket.
//!
//! [`config`] is what a file means once it was checked, [`protocol`] what the socket speaks; both are there in every
//! build. With the feature `kernel`, [`run`] is the agent, [`stop`] removes what it left in the kernel, and [`resolve`]
//! looks up what a configuration names. The kernel edge outlives the agent: everything it needs is pinned, and a new
//! agent changes only what differs.
//!
//! One task owns the edge and does everything in turn; connections only pass requests to it.

pub mod config;
pub mod operator;
pub mod protocol;
mod rates;

#[cfg(feature = "kernel")]
mod answers;
#[cfg(feature = "kernel")]
mod desired;
#[cfg(feature = "kernel")]
mod error;
#[cfg(feature = "kernel")]
mod follow;
#[cfg(feature = "kernel")]
mod interfaces;
#[cfg(feature = "kernel")]
mod learned;
#[cfg(feature = "kernel")]
mod limits;
#[cfg(feature = "kernel")]
mod lock;
#[cfg(feature = "kernel")]
mod log;
#[cfg(feature = "kernel")]
mod metrics;
#[cfg(feature = "kernel")]
mod originate;
#[cfg(feature = "kernel")]
mod probe;
#[cfg(feature = "kernel")]
mod reconcile;
#[cfg(feature = "kernel")]
mod remembered;
#[cfg(feature = "kernel")]
mod run;
#[cfg(feature = "kernel")]
mod server;
#[cfg(feature = "kernel")]
mod tables;
#[cfg(feature = "kernel")]
mod teardown;
#[cfg(feature = "kernel")]
mod watch;

#[cfg(feature = "kernel")]
pub use error::Error;
#[cfg(feature = "kernel")]
pub use run::{resolve, run, Load};
#[cfg(feature = "kernel")]
pub use teardown::stop;
