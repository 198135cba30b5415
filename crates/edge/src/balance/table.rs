//! The table of schemes. Files, command lines, the agent, tests, fuzzing and docs take names, parameters and ranges from
//! here; `datapath/balance.h` has the algorithms.

#[cfg(feature = "toy")]
use super::Keeps;
use super::{Parameter, Quantity, Scheme};
use units::{Bytes, Time};

/// The fabric hashes flows.
pub static ECMP: Scheme = Scheme {
    name: "ecmp",
    aliases: &["hash"],
    about: "no label: switches hash each flow to a path",
    number: 0,
    labels: false,
    keeps: None,
    parameters: &[],
};

/// The papers' ECMP.
pub static RANDOM_PATH: Scheme = Scheme {
    name: "random-path",
    aliases: &[],
    about: "one label per flow, drawn by the flow's hash",
    number: 1,
    labels: true,
    keeps: None,
    parameters: &[],
};

/// Presto section 3.1; 64 KiB there.
pub static FLOWCELL: Scheme = Scheme {
    name: "flowcell",
    aliases: &[],
    about: "Presto's flowcells: the next label after every `threshold` of payload",
    number: 2,
    labels: true,
    keeps: None,
    parameters: &[Parameter {
        name: "threshold",
        aliases: &["flowcell"],
        about: "payload of a flowcell",
        default: Quantity::Bytes(Bytes::kib(64)),
        least: Quantity::Bytes(Bytes(1)),
        most: Quantity::Bytes(Bytes(1 << 30)),
    }],
};

/// Presto section 5.
pub static FLOWLET: Scheme = Scheme {
    name: "flowlet",
    aliases: &[],
    about: "flowlets: the next label after every pause of the flow that is longer than `flowlet_gap`",
    number: 3,
    labels: true,
    keeps: None,
    parameters: &[Parameter {
        name: "flowlet_gap",
        aliases: &[],
        about: "a pause that ends a flowlet, counted in steps of about a microsecond",
        default: Quantity::Time(Time::from_us(500)),
        least: Quantity::Time(Time::from_us(2)),
        most: Quantity::Time(Time::from_secs(4)),
    }],
};

/// What an agent does unless its file says otherwise.
pub static AGENTS: &Scheme = &FLOWCELL;

/// All schemes, in the order of docs.
pub static SCHEMES: [&Scheme; 4] = [&ECMP, &RANDOM_PATH, &FLOWCELL, &FLOWLET];

/// Every segment takes the path whose busiest link is least utilised. In no table: for tests of what such schemes are told.
#[cfg(feature = "toy")]
pub static TOY: Scheme = Scheme {
    name: "toy",
    aliases: &[],
    about: "the least utilised path for every segment",
    number: 255,
    labels: true,
    keeps: Some(Keeps { utilisation: true, tick: Time::from_ms(1) }),
    parameters: &[],
};
