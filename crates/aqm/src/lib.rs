//! Active queue management, sans-IO: CoDel's control law (RFC 8289) for any queue, and fq_codel (RFC 8290), which is queues and that law.
//! `now` is an argument of every call and never decreases.

pub mod codel;
pub mod fq_codel;

pub use codel::Codel;
pub use fq_codel::FqCodel;
