//! The kernel edge on this host: its programs, their maps, and what they need of the kernel.
//!
//! [`KernelEdge`] loads the programs (`datapath/kernel`), attaches and pins them, and fills and reads their maps. [`state`] mirrors
//! what is in the maps. Other modules keep what the programs need of the kernel: qdiscs ([`htb`]), devices ([`gro`], [`cut`],
//! [`again`]), packets of their own ([`emit`], [`probes`]). Beside them, for labs, are three programs of their own: [`dctcp`],
//! [`marker`] and [`unruly`].
//!
//! [`bpf::available`] says whether clang was there to compile the programs. Without the feature `libbpf` the crate is
//! empty.
#![cfg(feature = "libbpf")]

pub mod again;
pub mod bpf;
pub mod cut;
pub mod dctcp;
pub mod emit;
pub mod gro;
pub mod htb;
mod loaded;
pub mod marker;
mod native;
mod netlink;
pub mod probes;
pub mod state;
mod sys;
pub mod unruly;
mod veth;

pub use gro::has_vxlan;
pub use htb::{has_fq, has_htb};
pub use loaded::*;
pub use native::state_version;
pub use veth::put_past;
