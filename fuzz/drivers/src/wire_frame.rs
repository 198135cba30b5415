use crate::input::Input;
use wire::{dirty, emit_snapped, parse, proto, write_back, Packet, TcpOptions};

/// Bytes that a change of window and ECN may touch: window, traffic class and both checksums, at most two each.
const MAX_CHANGED_BYTES: usize = 8;

/// More than an IPv6 header with extensions and a TCP header can reach beyond the end of a frame.
const MARGIN: usize = 400;

/// Parsing, writing back and emitting hold together for any frame, any packet written into any frame is safe, and
/// neither depends on what lies around the frame in memory.
pub fn wire_frame(data: &[u8]) {
    let parsed = parse(data);
    for fill in [0x00, 0xff, 0x06] {
        assert_eq!(parse(&surrounded(data, fill)[MARGIN..MARGIN + data.len()]), parsed, "a read outside the frame");
    }
    if let Ok(packet) = parsed {
        headers_fit(&packet, data);
        clean_packet_changes_nothing(&packet, data);
        changes_are_read_back(&packet, data);
        emitted_frame_is_read_back(&packet);
    }
    foreign_packet_is_safe(data);
}

fn headers_fit(packet: &Packet, frame: &[u8]) {
    let headers = 14 + usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
    assert!(headers <= frame.len(), "{headers} bytes of headers in a frame of {}", frame.len());
    assert!(matches!(packet.proto, proto::TCP | proto::UDP) && matches!(packet.family, 4 | 6));
    assert!(packet.ecn <= 3 && (packet.wscale <= 15 || packet.wscale == wire::SIGNED) && packet.truncated <= 1);
    assert_eq!((packet.dirty, packet.has_cell, packet.emit), (0, 0, 0), "metadata that no frame carries");
}

fn clean_packet_changes_nothing(packet: &Packet, frame: &[u8]) {
    let mut written = frame.to_vec();
    assert_eq!(write_back(packet, &mut written), Ok(()));
    assert_eq!(written, frame);
}

fn changes_are_read_back(packet: &Packet, frame: &[u8]) {
    let mut changed = Packet { ecn: packet.ecn ^ 3, dirty: dirty::ECN, ..*packet };
    if packet.proto == proto::TCP {
        changed.window = !packet.window;
        changed.dirty |= dirty::WINDOW;
    }
    let mut written = frame.to_vec();
    assert_eq!(write_back(&changed, &mut written), Ok(()));
    assert_eq!(parse(&written), Ok(Packet { dirty: 0, ..changed }));
    let differing = written.iter().zip(frame).filter(|(a, b)| a != b).count();
    assert!(differing <= MAX_CHANGED_BYTES, "{differing} bytes changed");
}

/// What the emitted frame says again is all that a packet says but for what `emit` normalises: lengths of headers and
/// options, and the truncation of a snapped frame.
fn emitted_frame_is_read_back(packet: &Packet) {
    const SNAP: usize = 256;
    let mut frame = Vec::new();
    let Ok(full) = emit_snapped(packet, &TcpOptions::default(), SNAP, &mut frame) else { return };
    assert_eq!(frame.len(), full.min(SNAP));
    let again = parse(&frame).expect("an emitted frame parses");
    assert_eq!(again.flow_key(), packet.flow_key());
    assert_eq!((again.payload, again.ecn, again.truncated), (packet.payload, packet.ecn, u8::from(full > SNAP)));
    if packet.proto == proto::TCP {
        assert_eq!((again.seq, again.ack, again.window), (packet.seq, packet.ack, packet.window));
        assert_eq!((again.tcp_flags, again.mss, again.wscale), (packet.tcp_flags, packet.mss, packet.wscale));
    }
}

/// The first bytes make a packet, the rest is a frame that it does not come from: an error leaves the frame alone.
fn foreign_packet_is_safe(data: &[u8]) {
    let (head, frame) = data.split_at(data.len().min(8));
    let mut input = Input::new(head);
    let packet = Packet {
        dirty: input.u16(),
        ip_header_len: input.u8(),
        l4_header_len: input.u8(),
        proto: input.u8(),
        family: input.u8(),
        ecn: input.u8(),
        window: u16::from(input.u8()),
        ..Packet::default()
    };
    foreign_packet_stays_inside(&packet, frame);
    // The same with the fields that the frame itself would have, so that more of the checks pass.
    if let Ok(own) = parse(data) {
        let Packet { dirty, ip_header_len, ecn, window, .. } = packet;
        foreign_packet_stays_inside(&Packet { dirty, ip_header_len, ecn, window, ..own }, data);
    }
}

fn foreign_packet_stays_inside(packet: &Packet, frame: &[u8]) {
    let inside = MARGIN..MARGIN + frame.len();
    let mut buffer = surrounded(frame, 0xa5);
    let result = write_back(packet, &mut buffer[inside.clone()]);
    if result.is_err() {
        assert_eq!(&buffer[inside.clone()], frame, "an error must leave the frame as it was");
    }
    buffer[inside].fill(0xa5);
    assert!(buffer.iter().all(|byte| *byte == 0xa5), "a write outside the frame");
}

/// The frame with a margin of `fill` on both sides, so that plain tests see what only a sanitizer would.
fn surrounded(frame: &[u8], fill: u8) -> Vec<u8> {
    let margin = [fill; MARGIN];
    [margin.as_slice(), frame, margin.as_slice()].concat()
}
