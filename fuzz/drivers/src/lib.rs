//! The fuzz targets without libFuzzer: each takes any bytes, and panics only when something that must hold does not.

mod congestion_frames;
mod drop_reports;
mod edge_operations;
mod hidden_option;
mod input;
mod mutator;
mod notifications;
mod rng;
mod tenant;
mod tunnel_frame;
mod units_text;
mod wire_frame;

pub use congestion_frames::congestion_frames;
pub use drop_reports::drop_reports;
pub use edge_operations::edge_operations;
pub use hidden_option::hidden_option;
pub use mutator::Mutator;
pub use notifications::{notifications, play as play_notifications};
pub use tenant::{Addresses, Built, Tenant};
pub use tunnel_frame::tunnel_frame;
pub use units_text::units_text;
pub use wire_frame::wire_frame;

/// A target, by the name of its binary and of its directory of seeds.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 8] = [
    ("tunnel_frame", tunnel_frame),
    ("wire_frame", wire_frame),
    ("hidden_option", hidden_option),
    ("edge_operations", edge_operations),
    ("congestion_frames", congestion_frames),
    ("notifications", notifications),
    ("drop_reports", |data| _ = drop_reports(data)),
    ("units_text", units_text),
];
