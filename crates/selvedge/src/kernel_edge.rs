//! The kernel edge and what else needs BPF, where this build has them. A build without the feature `kernel` answers the same
//! calls, with what it lacks.

#[cfg_attr(feature = "kernel", path = "kernel_edge/with.rs")]
#[cfg_attr(not(feature = "kernel"), path = "kernel_edge/without.rs")]
mod build;

pub use build::*;
