//! The table of schemes. Files, command lines, the agent, tests, fuzzing and docs take names, parameters and ranges from
//! here; `datapath/balance.h` has the algorithms.

use super::{Keeps, Parameter, Quantity, Scheme, Shown, WhenSet, Word};
use units::{Bytes, Time};

/// What entries have unless they say otherwise.
const PLAIN: Scheme = Scheme {
    name: "",
    aliases: &[],
    about: "",
    number: 0,
    labels: true,
    keeps: None,
    beside_shares: None,
    beside_congestion: None,
    beside_resends: None,
    parameters: &[],
};

/// The same of their parameters.
const PARAMETER: Parameter = Parameter {
    name: "",
    aliases: &[],
    about: "",
    default: Quantity::Time(Time::ZERO),
    least: Quantity::Time(Time::ZERO),
    most: Quantity::Time(Time::from_secs(4)),
    shown: Shown::WithScheme,
    when_set: WhenSet::Nothing,
    above: None,
};

/// The fabric hashes flows.
pub static ECMP: Scheme = Scheme {
    name: "ecmp",
    aliases: &["hash"],
    about: "no label: switches hash each flow to a path",
    number: 0,
    labels: false,
    ..PLAIN
};

/// The papers' ECMP.
pub static RANDOM_PATH: Scheme =
    Scheme { name: "random-path", about: "one label per flow, drawn by the flow's hash", number: 1, ..PLAIN };

/// Presto section 3.1; 64 KiB there.
pub static FLOWCELL: Scheme = Scheme {
    name: "flowcell",
    about: "Presto's flowcells: the next label after every `threshold` of payload",
    number: 2,
    beside_shares: Some("take a sixth of large flows' goodput"),
    beside_congestion: Some("take a tenth of large flows' goodput where switches mark much less than a flowcell"),
    parameters: &[Parameter {
        name: "threshold",
        aliases: &["flowcell"],
        about: "payload of a flowcell",
        default: Quantity::Bytes(Bytes::kib(64)),
        least: Quantity::Bytes(Bytes(1)),
        most: Quantity::Bytes(Bytes(1 << 30)),
        shown: Shown::Always,
        ..PARAMETER
    }],
    ..PLAIN
};

const FLOWLET_GAP: Parameter = Parameter {
    name: "flowlet_gap",
    about: "a pause that ends a flowlet, counted in steps of about a microsecond",
    default: Quantity::Time(Time::from_us(500)),
    least: Quantity::Time(Time::from_us(2)),
    most: Quantity::Time(Time::from_secs(4)),
    shown: Shown::Always,
    ..PARAMETER
};

const FLOWLET_GAP_MOST: Parameter = Parameter {
    name: "flowlet_gap_most",
    about: "the gap is `flowlet_gap` and by how much the flow's path is later than others, at most this; 0s: always `flowlet_gap`",
    default: Quantity::Time(Time::ZERO),
    least: Quantity::Time(Time::ZERO),
    most: Quantity::Time(Time::from_secs(4)),
    shown: Shown::WhenSet,
    when_set: WhenSet::KeepsPaths,
    above: Some(FLOWLET_GAP.name),
    ..PARAMETER
};

/// `SV_FLOWLET_*`
const CHOICES: &[&str] = &["round-robin", "hash", "random"];

/// Presto section 5; Clove sections 3.2 and 5 (Edge-Flowlet).
pub static FLOWLET: Scheme = Scheme {
    name: "flowlet",
    aliases: &["edge-flowlet"],
    about: "flowlets: another label after every pause of the flow that is longer than `flowlet_gap`",
    number: 3,
    parameters: &[
        FLOWLET_GAP,
        Parameter {
            name: "flowlet_choice",
            about: "the next label, one by hash of flow and flowlet, or one at random",
            default: Quantity::Word(Word { of: CHOICES, at: 0 }),
            least: Quantity::Word(Word { of: CHOICES, at: 0 }),
            most: Quantity::Word(Word { of: CHOICES, at: 2 }),
            ..PARAMETER
        },
        FLOWLET_GAP_MOST,
    ],
    ..PLAIN
};

const CLOVE_RELAY: Parameter = Parameter {
    name: "clove_relay",
    about: "least time between two feedbacks to a peer on one path; half a round trip",
    default: Quantity::Time(Time::from_us(250)),
    least: Quantity::Time(Time::from_us(5)),
    most: Quantity::Time(Time::from_secs(4)),
    ..PARAMETER
};

const CLOVE_CLEAR: Parameter = Parameter {
    name: "clove_clear",
    about: "time without marks after which a path is free; two round trips",
    default: Quantity::Time(Time::from_ms(1)),
    least: Quantity::Time(Time::from_us(2)),
    most: Quantity::Time(Time::from_secs(4)),
    ..PARAMETER
};

/// `SV_CLOVE_SIGNAL_*`
const SIGNALS: &[&str] = &["ecn", "delay"];

/// `SV_CLOVE_MASKS_*`
const MASKS: &[&str] = &["guests", "all"];

/// Beside shares, of both Cloves.
const OTHER_PATHS: &str = "double mean completion times";

/// Clove section 3.2, Clove-ECN.
pub static CLOVE: Scheme = Scheme {
    name: "clove",
    aliases: &["waze", "clove-ecn"],
    about: "flowlets by weights of paths, which marks lower; guests see marks only while all paths are congested",
    number: 4,
    keeps: Some(Keeps { utilisation: false, marks: true, tick: None }),
    beside_shares: Some(OTHER_PATHS),
    beside_congestion: Some("lengthen mean completion times by a sixth"),
    beside_resends: Some("leave twice as many timeouts as on random paths"),
    parameters: &[
        FLOWLET_GAP,
        CLOVE_RELAY,
        CLOVE_CLEAR,
        Parameter {
            name: "clove_masks",
            about: "from whom marks are kept while a path is free: guests, or virtual congestion control as well",
            default: Quantity::Word(Word { of: MASKS, at: 0 }),
            least: Quantity::Word(Word { of: MASKS, at: 0 }),
            most: Quantity::Word(Word { of: MASKS, at: 1 }),
            ..PARAMETER
        },
        Parameter {
            name: "clove_recover",
            about: "time without marks after which a path gets back an eighth of what it lacks to an equal share; 0s: never",
            default: Quantity::Time(Time::ZERO),
            least: Quantity::Time(Time::ZERO),
            most: Quantity::Time(Time::from_secs(4)),
            shown: Shown::WhenSet,
            ..PARAMETER
        },
        Parameter {
            name: "clove_signal",
            about: "what tells that a path is congested: marks of switches, or that its packets arrive later than those of others",
            default: Quantity::Word(Word { of: SIGNALS, at: 0 }),
            least: Quantity::Word(Word { of: SIGNALS, at: 0 }),
            most: Quantity::Word(Word { of: SIGNALS, at: 1 }),
            shown: Shown::WhenSet,
            when_set: WhenSet::NoMarks,
            ..PARAMETER
        },
        Parameter {
            name: "clove_late",
            about: "with `clove_signal = \"delay\"`: a path that is later than another by more counts as marked",
            default: Quantity::Time(Time::from_us(100)),
            least: Quantity::Time(Time::from_us(2)),
            most: Quantity::Time(Time::from_ms(30)),
            shown: Shown::WhenSet,
            ..PARAMETER
        },
        FLOWLET_GAP_MOST,
    ],
    ..PLAIN
};

/// Clove section 3.2, Clove-INT.
pub static CLOVE_INT: Scheme = Scheme {
    name: "clove-int",
    aliases: &["waze-int"],
    about: "flowlets to the path whose busiest link is least utilised, as switches tell",
    number: 5,
    keeps: Some(Keeps { utilisation: true, marks: false, tick: None }),
    beside_shares: Some(OTHER_PATHS),
    parameters: &[
        FLOWLET_GAP,
        CLOVE_RELAY,
        Parameter {
            name: "clove_age",
            about: "time in which what is known of a path's utilisation halves, so that a busy one is tried again",
            default: Quantity::Time(Time::from_ms(10)),
            least: Quantity::Time(Time::from_us(2)),
            most: Quantity::Time(Time::from_secs(4)),
            ..PARAMETER
        },
    ],
    ..PLAIN
};

/// What an agent does unless its file says otherwise.
pub static AGENTS: &Scheme = &FLOWCELL;

/// All schemes, in the order of docs.
pub static SCHEMES: [&Scheme; 6] = [&ECMP, &RANDOM_PATH, &FLOWCELL, &FLOWLET, &CLOVE, &CLOVE_INT];

/// Every segment takes the path whose busiest link is least utilised. In no table: for tests of what such schemes are told.
#[cfg(any(test, feature = "toy"))]
pub static TOY: Scheme = Scheme {
    name: "toy",
    about: "the least utilised path for every segment",
    number: 255,
    keeps: Some(Keeps { utilisation: true, marks: false, tick: Some(Time::from_ms(1)) }),
    ..PLAIN
};
