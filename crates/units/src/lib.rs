//! Quantities that every crate shares: [`Time`], [`Bytes`], [`BitRate`].
//!
//! All are integers, so that a run is bit-identical on every machine and in every build. Text form always carries
//! its unit (`"10Gbps"`, `"3us"`, `"64KiB"`): a bare number is an error, because `tc`, ns-3 and the papers disagree
//! about what a bare number means.

mod parse;
mod rate;
mod size;
mod time;

pub use parse::ParseError;
pub use rate::BitRate;
pub use size::Bytes;
pub use time::Time;

#[cfg(feature = "schemars")]
mod schema;
#[cfg(feature = "serde")]
mod text;
