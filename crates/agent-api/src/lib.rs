//! What agent and command line say to one another: what a file of the agent means once it was checked ([`config`],
//! [`rates`]), what must hold on its host ([`operator`], [`release`]), what that may lack ([`lacking`]), and what its socket speaks
//! ([`protocol`], [`pod`]).

pub mod config;
pub mod lacking;
pub mod operator;
pub mod pod;
pub mod protocol;
pub mod rates;
pub mod release;
