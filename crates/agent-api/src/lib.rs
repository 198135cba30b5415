//! What agent and command line say to one another: what a file of the agent means once it was checked ([`config`],
//! [`rates`]), what must hold on its host ([`operator`], [`release`]), and what its socket speaks ([`protocol`], [`pod`]).

pub mod config;
pub mod operator;
pub mod pod;
pub mod protocol;
pub mod rates;
pub mod release;
