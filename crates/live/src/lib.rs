//! The edge on a live host: loads the kernel edge (`datapath/kernel`), fills its maps, attaches it, sweeps and observes
//! it.
//!
//! [`bpf::available`] says whether this build can do so. The types of [`state`] mirror the maps' values; the rest needs
//! the cargo feature `kernel` (libbpf, which is compiled along and needs make, libelf and zlib) and clang at build time.

pub mod agent;
pub mod bpf;
#[cfg(feature = "kernel")]
pub mod controller;
#[cfg(feature = "kernel")]
mod cut;
#[cfg(feature = "kernel")]
pub mod dctcp;
#[cfg(feature = "kernel")]
pub mod emit;
pub mod files;
#[cfg(feature = "kernel")]
pub mod gro;
#[cfg(feature = "kernel")]
mod htb;
#[cfg(feature = "kernel")]
pub mod kernel;
pub mod lab;
mod lateness;
mod native;
#[cfg(feature = "kernel")]
mod netlink;
pub mod netns;
pub mod port;
pub mod priority;
#[cfg(feature = "kernel")]
pub mod receiver;
#[cfg(feature = "kernel")]
mod replace;
pub mod state;
#[cfg(feature = "kernel")]
mod sys;
pub mod traffic;
#[cfg(feature = "kernel")]
pub mod unruly;

#[cfg(feature = "kernel")]
pub use htb::has_fq;
pub use native::{state_version, stdout_was_closed};
