//! Errors of builders and of imported files. Each message says what to change.

use crate::limits::{MAX_DELAY, MAX_RATE, MIN_RATE};
use std::fmt;
use units::{BitRate, ParseError, Time};

/// Why a builder's fields do not describe a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    TooSmall {
        field: &'static str,
        value: u64,
        least: u64,
    },
    /// A fat-tree's switches have half of their ports up and half down.
    OddPorts {
        field: &'static str,
        value: u64,
    },
    /// `fields` together make more of `what` than this crate is willing to hold.
    TooLarge {
        what: &'static str,
        count: u64,
        most: u64,
        fields: &'static str,
    },
    Rate {
        field: &'static str,
        value: BitRate,
    },
    Delay {
        field: &'static str,
        value: Time,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TopologyError::TooSmall { field, value, least } => {
                write!(f, "{field} is {value}: give at least {least}")
            }
            TopologyError::OddPorts { field, value } => {
                write!(f, "{field} is {value}: a fat-tree needs an even number of ports, such as {}", value + 1)
            }
            TopologyError::TooLarge { what, count, most, fields } => {
                write!(f, "{fields} make {count} {what}, of which at most {most} are allowed: lower {fields}")
            }
            TopologyError::Rate { field, value } => {
                write!(f, "{field} is {value}: give a rate from {MIN_RATE} to {MAX_RATE}")
            }
            TopologyError::Delay { field, value } => write!(f, "{field} is {value}: give a delay up to {MAX_DELAY}"),
        }
    }
}
impl std::error::Error for TopologyError {}

/// What is wrong with a topology file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// Counted from 1; the last line if something is missing.
    pub line: usize,
    pub problem: ImportProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportProblem {
    /// The first line is not three counts.
    Header,
    /// More nodes, switches or links than allowed.
    TooLarge {
        what: &'static str,
        count: u64,
        most: u64,
    },
    /// More switches than nodes, or no switch, or no host.
    Counts {
        nodes: u64,
        switches: u64,
    },
    NotANode {
        text: String,
        nodes: u64,
    },
    SwitchTwice {
        id: u64,
    },
    /// The file ends before all that its first line announces.
    Missing {
        what: &'static str,
        announced: u64,
        found: u64,
    },
    /// A further link line after the announced number of links, or a further switch on the switches' line.
    Surplus {
        what: &'static str,
        announced: u64,
    },
    /// Not the five fields of a link.
    LinkFields {
        found: usize,
    },
    Quantity(ParseError),
    Rate {
        value: BitRate,
    },
    Delay {
        value: Time,
    },
    /// The fifth field is not 0.
    LossRate {
        text: String,
    },
    SelfLink {
        id: u64,
    },
    HostToHost {
        a: u64,
        b: u64,
    },
    HostTwice {
        id: u64,
    },
    HostAlone {
        id: u64,
    },
    /// No way between two nodes.
    Apart {
        a: u64,
        b: u64,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}
impl std::error::Error for ImportError {}

impl fmt::Display for ImportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ImportProblem::*;
        match self {
            Header => f.write_str("expected three counts, \"nodes switches links\", such as \"20 4 32\""),
            TooLarge { what, count, most } => write!(f, "{count} {what}: at most {most} are allowed"),
            Counts { nodes, switches } => {
                write!(
                    f,
                    "{nodes} nodes of which {switches} are switches: there must be at least one switch and one host"
                )
            }
            NotANode { text, nodes } => write!(f, "{text:?} is no node: give a number from 0 to {}", nodes - 1),
            SwitchTwice { id } => write!(f, "switch {id} is listed twice: remove one"),
            Missing { what, announced, found } => {
                write!(f, "the file ends after {found} of {announced} {what}: add the rest or correct the first line")
            }
            Surplus { what, announced } => {
                write!(f, "more than the {announced} {what} of the first line: remove this or correct the first line")
            }
            LinkFields { found } => {
                write!(f, "{found} fields: expected \"src dst rate delay error\", such as \"0 16 10Gbps 1us 0\"")
            }
            Quantity(error) => error.fmt(f),
            Rate { value } => write!(f, "rate {value}: give a rate from {MIN_RATE} to {MAX_RATE}"),
            Delay { value } => write!(f, "delay {value}: give a delay up to {MAX_DELAY}"),
            LossRate { text } => {
                write!(
                    f,
                    "error rate {text:?}: links here lose nothing by themselves; write 0 and configure loss elsewhere"
                )
            }
            SelfLink { id } => write!(f, "node {id} is linked to itself: remove the link"),
            HostToHost { a, b } => write!(f, "hosts {a} and {b} are linked to each other: put a switch between them"),
            HostTwice { id } => {
                write!(f, "host {id} already has a link: a host has one; list it as a switch if it forwards")
            }
            HostAlone { id } => write!(f, "host {id} has no link: add one or list it as a switch"),
            Apart { a, b } => write!(f, "there is no way between nodes {a} and {b}: add links"),
        }
    }
}
