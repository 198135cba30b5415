//! The controller: computes weighted schedules of labels from a topology and its failed links, and hands them to agents.
//!
//! Agents ask over HTTP with JSON bodies, on TLS 1.3; both sides show certificates of one authority. An agent's certificate is
//! for its edge's name, a host of the topology, and it gets that edge's schedules and no other's. A question is held until
//! there is something new. Agents keep the last schedule when the controller is lost.
//!
//! | Request | Who may | Answer |
//! |---|---|---|
//! | `GET /v1/schedules/EDGE?after=N` | EDGE | [`Schedules`] of a revision above N, or 204 after a while |
//! | `GET /v1/status` | operators | [`Status`] |
//! | `POST /v1/links` with [`LinkChange`] | operators | [`Status`] |

mod answers;
mod authority;
mod brain;
mod client;
mod error;
mod etcd;
mod http;
mod metrics;
mod record;
mod server;
mod shared;
mod store;
mod tls;

pub use authority::{certify, Station};
pub use brain::{Brain, LinkChange, Schedules, Slots, Status};
pub use client::{operate, Client, Fetched};
pub use error::Error;
pub use http::is_url;
pub use server::{run, Config, Keep};
pub use tls::{is_name, Identity};
