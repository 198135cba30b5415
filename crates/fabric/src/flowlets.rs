//! A switch's table of flowlets: bursts of one flow, which a pause separates, so that each may take a path of its own without
//! overtaking the last.

use crate::port::PortId;
use units::Time;

/// Entries of a table, as many as CONGA's and LetFlow's switches have. Flows that share one share its port, too, which
/// does no harm but the loss of some pauses.
const ENTRIES: usize = 1 << 16;

/// Octets that a switch's table takes once a packet has looked into it.
pub const FLOWLET_TABLE_BYTES: u64 = (ENTRIES * size_of::<Entry>()) as u64;

/// The port that no flowlet has.
const NONE: PortId = PortId::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When the last packet came.
    at_ps: u64,
    port: PortId,
}

/// A switch's table. Times are exact: the papers' age bit ends a flowlet after one to two gaps, this table after one.
#[derive(Clone, Debug)]
pub(crate) struct Flowlets {
    gap_ps: u64,
    /// Empty until the first packet.
    entries: Vec<Entry>,
}

/// What the table knows about a packet's flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flowlet {
    /// The packet belongs to the flowlet that goes by this port.
    Goes(PortId),
    /// It begins a flowlet; the last one went by this port.
    After(PortId),
    /// It is the first of its flow.
    First,
}

impl Flowlets {
    pub(crate) fn new(gap: Time) -> Flowlets {
        Flowlets { gap_ps: gap.as_ps(), entries: Vec::new() }
    }

    /// The place of a flow whose hash a switch has mixed with its seed.
    pub(crate) fn place(hash: u32) -> usize {
        hash as usize % ENTRIES
    }

    /// Looks a packet up that has come at `now`, which must not fall.
    pub(crate) fn find(&mut self, place: usize, now: u64) -> Flowlet {
        if self.entries.is_empty() {
            self.entries = vec![Entry { at_ps: 0, port: NONE }; ENTRIES];
        }
        let entry = &mut self.entries[place];
        let pause = now.saturating_sub(entry.at_ps);
        entry.at_ps = now;
        match entry.port {
            NONE => Flowlet::First,
            port if pause > self.gap_ps => Flowlet::After(port),
            port => Flowlet::Goes(port),
        }
    }

    /// The flowlet that the last packet began goes by `port`.
    pub(crate) fn set(&mut self, place: usize, port: PortId) {
        self.entries[place].port = port;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_longer_than_the_gap_begins_a_flowlet() {
        let mut table = Flowlets::new(Time::from_us(100));
        let at = |us: u64| Time::from_us(us).as_ps();
        assert_eq!(table.find(7, at(0)), Flowlet::First);
        table.set(7, 3);
        // The specification's arrivals: 0, 100, 201. A pause of the gap itself does not end the flowlet.
        assert_eq!(table.find(7, at(100)), Flowlet::Goes(3));
        assert_eq!(table.find(7, at(201)), Flowlet::After(3));
        table.set(7, 4);
        assert_eq!(table.find(7, at(201)), Flowlet::Goes(4));
        assert_eq!(table.find(8, at(201)), Flowlet::First, "another place is another flow's");
    }

    #[test]
    fn every_hash_has_a_place() {
        assert_eq!(Flowlets::place(5), Flowlets::place(5 + ENTRIES as u32));
        assert!(Flowlets::place(u32::MAX) < ENTRIES);
    }
}
