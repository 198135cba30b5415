//! The event engine: a virtual clock, a queue of events in a total order, timers and random streams. It knows no
//! networking; `fabric` and `host` define the events.
//!
//! A run is a function of its inputs. Events fire in the order (time, node, rank, sequence), and every random draw comes
//! from a [`Stream`] named by seed, node and purpose. A [`Crew`] runs the parts of a model on several threads, window by window.

mod crew;
pub mod queue;
mod rng;
mod scheduler;
mod timer;
pub mod wheel;

pub use crew::{Crew, Done};
pub use rng::{Purpose, Stream};
pub use scheduler::{Fired, NodeId, Scheduler};
pub use timer::{TimerId, Timers};
