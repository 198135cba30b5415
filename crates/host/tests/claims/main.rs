//! Claims of papers about mechanisms that no figure shows, decided by packets of the simulator. `results/catalogue` names these tests.

mod acdc;
mod clove;
mod limiters;
mod placement;
mod presto;
mod trace;
