use wire::telemetry::{Group, Reported};
use wire::{parse, proto};

const PORT: u16 = 4789;
/// TCP options that a report may lack.
const OPTIONS: usize = 40;

/// Any datagram to the address for switches' reports: what is read lies inside of it, all of it is read or nothing, and a packet that is
/// found has its headers. Returns reports and packets.
pub fn drop_reports(data: &[u8]) -> (usize, usize) {
    let Ok(group) = Group::read(data) else { return (0, 0) };
    assert!(group.hardware < 64 && group.sequence < 1 << 22);
    let (mut reports, mut packets, mut at) = (0, 0, 8);
    for report in group.reports() {
        reports += 1;
        assert_eq!(report.dropped, data[at + 3] & 0x80 != 0);
        at += 4 + 4 * usize::from(data[at + 1]);
        if let Some(found) = report.packet(PORT) {
            packets += 1;
            headers_are_the_packets(&found, data);
        }
        assert_eq!(report.packet(PORT), report.packet(PORT), "the same bytes, the same packet");
    }
    assert_eq!(at, data.len(), "all of it was read");
    for end in [8, at / 2, at.saturating_sub(1)] {
        let _ = Group::read(&data[..end.min(data.len())]);
    }
    (reports, packets)
}

fn headers_are_the_packets(found: &Reported, data: &[u8]) {
    assert!(found.headers.len() <= data.len() + OPTIONS);
    assert!(found.outer.is_none_or(|outer| usize::from(outer.add_len) < data.len()));
    let again = parse(&found.headers).expect("its headers parse");
    assert_eq!((again.proto, again.flow_key()), (proto::TCP, found.packet.flow_key()));
    assert_eq!((again.seq, again.ack, again.payload), (found.packet.seq, found.packet.ack, found.packet.payload));
}
