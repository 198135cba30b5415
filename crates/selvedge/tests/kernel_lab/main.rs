//! `selvedge lab kernel` and real traffic through it: root only, and the edge's part only where it was built in. Each
//! test says why it skips.
#![cfg(target_os = "linux")]

#[path = "../bpffs/mod.rs"]
mod bpffs;
mod capture;
mod clove;
#[path = "../delayed/mod.rs"]
mod delayed;
mod discovery;
mod edge;
mod fabric;
#[path = "../../../kernel/tests/filter/mod.rs"]
mod filter;
mod marks;
mod receiver;
mod rig;
mod skew;
mod slow;
mod stream;
mod wire;
