mod expression;
pub use expression::{Expression, ExpressionError};
/// Keys of a scenario file that only the harness reads.
pub const KEYS: [&str; 3] = ["result", "sweep", "mode"];
