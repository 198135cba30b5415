//! How a round's hosts are configured.

use super::guests::{Guest, GUESTS};
use kernel::state::{VERSION_1, VERSION_2, VERSION_PLAIN};

/// How the attacker's port is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    None,
    /// By a class of HTB, which the program finds, and where some goes first.
    Class,
    /// The same without laws (`limits_plain.bpf.c`).
    Lawless,
    /// By departure times, for a qdisc on the limiter's device.
    Times,
    /// By departure times that nothing waits for.
    Stamps,
}

/// How a round's hosts are configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) strict: bool,
    pub(super) isolated: bool,
    pub(super) congestion: bool,
    /// The underlay between the hosts.
    pub(super) six: bool,
    /// The highest that hosts speak to one another.
    pub(super) version: u8,
    /// Guests share the uplink: marks are counted, told and heard.
    pub(super) shares: bool,
    pub(super) limit: Limit,
    /// Segments that cannot be encapsulated whole are cut.
    pub(super) cutter: bool,
    /// The agent is told of the attacker's addresses.
    pub(super) learn: bool,
    /// The uplink has no tunnel: network 7 is the one without a number.
    pub(super) plain: bool,
}

impl Shape {
    pub(super) fn of(round: usize) -> Shape {
        let bit = |n: usize| round >> n & 1 == 1;
        let version = [VERSION_2, VERSION_1, VERSION_2, VERSION_PLAIN][(round + round / 4) % 4];
        let (isolated, shares) = (round % 7 == 6, round % 5 < 2);
        let limit = [Limit::None, Limit::Class, Limit::Times, Limit::None, Limit::Stamps, Limit::Lawless][round % 6];
        let (cutter, learn, plain) = (round % 4 < 2, matches!(round % 5, 2 | 4), matches!(round % 11, 1 | 4 | 10));
        Shape {
            strict: !bit(0),
            six: bit(1),
            congestion: bit(2),
            version,
            isolated,
            shares,
            limit,
            cutter,
            learn,
            plain,
        }
    }

    pub(super) fn network(self, guest: Guest) -> u32 {
        if self.plain && guest.network == GUESTS[0].network {
            0
        } else {
            guest.network
        }
    }
}
