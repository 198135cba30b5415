//! Packet scripts and the edges that run them. `docs/testing.md` describes the format.
//!
//! A script names each packet, the verdict on it and the headers that it leaves with. [`Structs`] runs it through
//! `edge::Edge` without bytes; [`Frames`] through `wire` and `edge` on real frames, with everything around the stages
//! (routes, peers, encapsulation) written a second time here, in Rust; `crates/kernel` runs the same frames through the
//! loaded kernel program. All three must do what the script says.

mod answers;
mod config;
mod frames;
mod inner;
mod outer;
mod packet;
mod script;
mod strict;
mod structs;
mod words;
mod world;

pub use config::{Config, Congestion, Share};
pub use frames::{Frames, Outcome};
pub use outer::flow_hash;
pub use script::{Case, Error, Expected, Script};
pub use structs::Structs;
pub use world::{Guest, Peer, Verdict, Why, EDGE_MAC, GUEST, LABELS, NEIGHBOUR, PEERS, PORT, STRANGER, VNI};

/// The committed scripts: name and text.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("flowcells.txt", include_str!("../scripts/flowcells.txt")),
    ("flowlets.txt", include_str!("../scripts/flowlets.txt")),
    ("flowlets-hash.txt", include_str!("../scripts/flowlets-hash.txt")),
    ("clove.txt", include_str!("../scripts/clove.txt")),
    ("clove-int.txt", include_str!("../scripts/clove-int.txt")),
    ("clove-masks.txt", include_str!("../scripts/clove-masks.txt")),
    ("clove-shows.txt", include_str!("../scripts/clove-shows.txt")),
    ("delays.txt", include_str!("../scripts/delays.txt")),
    ("flowlets-delays.txt", include_str!("../scripts/flowlets-delays.txt")),
    ("random-path.txt", include_str!("../scripts/random-path.txt")),
    ("one-path.txt", include_str!("../scripts/one-path.txt")),
    ("headers.txt", include_str!("../scripts/headers.txt")),
    ("cuts.txt", include_str!("../scripts/cuts.txt")),
    ("tunnel.txt", include_str!("../scripts/tunnel.txt")),
    ("strangers.txt", include_str!("../scripts/strangers.txt")),
    ("hashes.txt", include_str!("../scripts/hashes.txt")),
    ("answers.txt", include_str!("../scripts/answers.txt")),
    ("local.txt", include_str!("../scripts/local.txt")),
    ("strict.txt", include_str!("../scripts/strict.txt")),
    ("isolated.txt", include_str!("../scripts/isolated.txt")),
    ("lenient.txt", include_str!("../scripts/lenient.txt")),
    ("version2.txt", include_str!("../scripts/version2.txt")),
    ("version2-reports.txt", include_str!("../scripts/version2-reports.txt")),
    ("any-peer.txt", include_str!("../scripts/any-peer.txt")),
    ("reports.txt", include_str!("../scripts/reports.txt")),
    ("windows.txt", include_str!("../scripts/windows.txt")),
    ("full.txt", include_str!("../scripts/full.txt")),
    ("shares.txt", include_str!("../scripts/shares.txt")),
];
