//! What the agent and the command line share: the configuration, what it needs of its host, and the socket's protocol.
//!
//! [`config`] and [`rates`] hold what an agent's file means once it was checked. [`operator`] and [`release`] say what must hold
//! on the agent's host, and [`lacking`] what that host may lack. [`protocol`] and [`pod`] are what the agent's socket speaks.

pub mod config;
pub mod lacking;
pub mod operator;
pub mod pod;
pub mod protocol;
pub mod rates;
pub mod release;
