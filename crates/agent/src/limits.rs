//! Rate limits: which the configuration means ([`wanted`]), how they are put into the kernel ([`Raise`]), and how they fare
//! ([`tell()`]). What guests send is limited on a pair of devices of the agent's, what a guest gets on its port.
//!
//! What carries our root qdisc's handle is ours: so a new agent finds what an old one left. Where limits are schedules of departure
//! times, an fq stands where HTB does otherwise, or nothing.

mod classes;
mod flush;
mod limited;
mod place;
mod portions;
mod qdiscs;
mod raise;
mod spread;
mod tell;
mod wanted;

pub(crate) use flush::{empty, moved};
pub(crate) use limited::Limited;
pub(crate) use place::lower;
pub(crate) use qdiscs::remove_all;
pub(crate) use raise::Raise;
pub(crate) use tell::{past, tell};
