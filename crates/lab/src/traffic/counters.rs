//! What a host's TCP counts, from `/proc/net/snmp` and `/proc/net/netstat` of its namespace, and its devices.

use std::fs;

/// Since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    pub segments_in: u64,
    pub segments_out: u64,
    /// Bytes of IP packets received.
    pub bytes_in: u64,
    pub retransmitted_segments: u64,
    /// Entries into fast recovery, with SACK or without.
    pub fast_recoveries: u64,
    pub timeouts: u64,
    /// DSACKs received: retransmissions that were not needed.
    pub spurious: u64,
    /// Recoveries that turned out to be reordering.
    pub undone: u64,
    /// Segments queued out of order by receivers.
    pub out_of_order: u64,
    /// Packets received with a congestion mark.
    pub marked: u64,
    /// Segments that its devices had no room for on the way out.
    pub tx_dropped: u64,
}

impl TcpCounters {
    /// Of the calling thread's namespace, since it exists. Zero where the kernel does not tell.
    pub(super) fn read() -> TcpCounters {
        let file = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        TcpCounters { tx_dropped: dropped(&file("dev")), ..parse(&(file("snmp") + &file("netstat"))) }
    }

    pub(super) fn since(self, before: TcpCounters) -> TcpCounters {
        TcpCounters {
            segments_in: self.segments_in.saturating_sub(before.segments_in),
            segments_out: self.segments_out.saturating_sub(before.segments_out),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            retransmitted_segments: self.retransmitted_segments.saturating_sub(before.retransmitted_segments),
            fast_recoveries: self.fast_recoveries.saturating_sub(before.fast_recoveries),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            spurious: self.spurious.saturating_sub(before.spurious),
            undone: self.undone.saturating_sub(before.undone),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            marked: self.marked.saturating_sub(before.marked),
            tx_dropped: self.tx_dropped.saturating_sub(before.tx_dropped),
        }
    }
}

/// Pairs of lines: `Group: name name ...` and `Group: value value ...`.
fn parse(text: &str) -> TcpCounters {
    let lines: Vec<&str> = text.lines().collect();
    let value = |group: &str, name: &str| {
        lines
            .chunks_exact(2)
            .filter(|pair| pair[0].split(':').next() == Some(group))
            .find_map(|pair| {
                let at = pair[0].split_whitespace().position(|word| word == name)?;
                pair[1].split_whitespace().nth(at)?.parse().ok()
            })
            .unwrap_or(0)
    };
    TcpCounters {
        segments_in: value("Tcp", "InSegs"),
        segments_out: value("Tcp", "OutSegs"),
        bytes_in: value("IpExt", "InOctets"),
        retransmitted_segments: value("Tcp", "RetransSegs"),
        fast_recoveries: value("TcpExt", "TCPSackRecovery") + value("TcpExt", "TCPRenoRecovery"),
        timeouts: value("TcpExt", "TCPTimeouts"),
        spurious: value("TcpExt", "TCPDSACKRecv"),
        undone: value("TcpExt", "TCPFullUndo") + value("TcpExt", "TCPPartialUndo") + value("TcpExt", "TCPDSACKUndo"),
        out_of_order: value("TcpExt", "TCPOFOQueue"),
        marked: value("IpExt", "InCEPkts"),
        ..TcpCounters::default()
    }
}

/// Of `/proc/net/dev`: `name: ` and sixteen numbers, of which the twelfth is meant.
fn dropped(text: &str) -> u64 {
    let of = |line: &str| line.split_once(':')?.1.split_whitespace().nth(11)?.parse::<u64>().ok();
    text.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_their_names() {
        let text = "Tcp: RtoMin InSegs OutSegs RetransSegs\nTcp: 200 11 12 3\n\
                    TcpExt: TCPSackRecovery TCPRenoRecovery TCPTimeouts TCPOFOQueue\nTcpExt: 4 1 2 9\n\
                    IpExt: InOctets InCEPkts\nIpExt: 5000 7\n";
        let counters = parse(text);
        assert_eq!((counters.segments_in, counters.segments_out, counters.retransmitted_segments), (11, 12, 3));
        assert_eq!((counters.fast_recoveries, counters.timeouts, counters.out_of_order), (5, 2, 9));
        assert_eq!((counters.bytes_in, counters.marked, counters.spurious), (5000, 7, 0));
        assert_eq!(parse("Tcp: InSegs\nTcp: many\nstray"), TcpCounters::default());
    }

    #[test]
    fn drops_of_all_devices_are_added() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets|bytes\n\
                    \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:1 2 3 4 5 6 7 8 9 10 11 30 13 14 15 16\n";
        assert_eq!(dropped(text), 42);
    }

    #[test]
    fn this_kernel_tells() {
        assert!(fs::metadata("/proc/thread-self/net/netstat").is_ok(), "the file is where we look");
        let twice = [TcpCounters::read(), TcpCounters::read()];
        assert!(twice[1].segments_in >= twice[0].segments_in);
    }
}
