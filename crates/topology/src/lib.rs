//! Graphs of fabrics, and a controller's results: shortest-path routes, link-disjoint spanning trees,
//! weighted schedules over those trees, and the answer to failures.
//!
//! The crate is pure computation, without clock, I/O and randomness. Every result is ordered by node and link number, so the
//! same fabric always gives the same ports, routes, trees and labels.
//!
//! A fabric comes from a builder ([`Clos`], [`FatTree`], [`SingleSwitch`], [`Dumbbell`], [`ParkingLot`]) or from a
//! text file ([`import`]); both check their input and say what to change.
//!
//! ```
//! use topology::{schedule, Clos};
//! use units::{BitRate, Time};
//!
//! let fabric = Clos {
//!     leaves: 4,
//!     spines: 4,
//!     parallel_links: 1,
//!     hosts_per_leaf: 4,
//!     host_rate: BitRate::from_gbps(10),
//!     host_delay: Time::from_us(1),
//!     fabric_rate: BitRate::from_gbps(10),
//!     fabric_delay: Time::from_us(1),
//! }
//! .build()?;
//! let dead = fabric.link_named("leaf1-spine1").expect("a link of this fabric");
//! let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(4));
//! assert_eq!(fabric.usable_trees(l1, l2, &[dead]), [1, 2, 3]);
//! assert_eq!(schedule(&fabric.pair_weights(l1, l2, &[dead])), Ok(vec![1, 2, 3]));
//! # Ok::<(), topology::TopologyError>(())
//! ```

mod build;
mod capacity;
mod error;
mod failure;
mod graph;
mod growth;
mod ids;
mod import;
mod layout;
mod limits;
mod routes;
mod schedule;
mod tree;

pub use build::{Clos, Dumbbell, FatTree, ParkingLot, SingleSwitch};
pub use error::{ImportError, ImportProblem, TopologyError};
pub use failure::Prune;
pub use graph::{Link, Node, NodeKind, Topology};
pub use ids::{HostId, LinkId, NodeId};
pub use import::import;
pub use limits::{MAX_FORWARDING_ENTRIES, MAX_LINKS, MAX_NODES};
pub use routes::Routes;
pub use schedule::{schedule, ScheduleError, MAX_SCHEDULE};
pub use tree::{label_of, tree_of, Tree, MAX_TREES};
