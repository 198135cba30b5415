//! The agent of the kernel edge: fills the maps from a configuration, keeps them in step with the host's interfaces,
//! observes, and answers on a socket. [`run`] is the agent, [`stop`] removes what it left in the kernel, and [`resolve`]
//! looks up what a configuration names.
//!
//! The kernel edge outlives the agent: everything it needs is pinned, and a new agent changes only what differs. One task
//! owns the edge and does everything in turn; connections only pass requests to it.
//!
//! | Step | Module |
//! |---|---|
//! | what is there | `watch`, `carrier` (uplinks that fail), `interfaces`, `host`, `learned`, `probe` |
//! | what should be | `rules`, `desired`, `limits`, `follow` (a controller's schedules), `requested` (limits asked for on the socket) |
//! | the difference | `reconcile`, `uplinks` (away from those that fail), `tables`, `attached`, `mtus`, `remembered`, `teardown` |
//! | in between | `run`, `originate` (packets of the edge's own), [`reordering`], `discovery` (paths), `pmtu` (what paths carry), `fastlane`, `drops` and `reports` (what was dropped) |
//! | who asks | `server`, `answers`, `metrics`, `tally`, `check` (without an agent), `grant` (limits) |
#![cfg(feature = "libbpf")]

mod answers;
mod asking;
mod attached;
mod carrier;
mod check;
mod desired;
mod discovery;
mod drops;
mod error;
mod fastlane;
mod follow;
mod grant;
mod host;
mod interfaces;
mod labels;
mod learned;
mod limits;
mod lock;
mod log;
mod metrics;
mod mtus;
mod originate;
mod paths;
mod pmtu;
mod probe;
mod quoted;
mod reconcile;
mod remembered;
pub mod reordering;
mod reports;
mod requested;
mod rows;
mod rules;
mod run;
mod runtime;
mod server;
mod shares;
mod silent;
mod tables;
mod tally;
mod teardown;
mod tenants;
mod uplinks;
mod watch;

pub use check::resolve;
pub use error::Error;
pub use run::{run, Load};
pub use teardown::stop;
