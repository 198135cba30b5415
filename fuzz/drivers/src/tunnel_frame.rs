use crate::input::Input;
use wire::dropped::Dropped;
use wire::{encap, notification, parse, proto, tcp, version, Packet};

const PORT: u16 = 4789;

/// Reading the outer headers of any frame stays inside the frame and gives what the bytes say; the header's two words, and a shim of a
/// known type, survive being written again, and so does what edges say of dropped packets; ECN and cells of any value have an answer.
pub fn tunnel_frame(data: &[u8]) {
    words(data);
    let Some(outer) = encap::read_outer(data, PORT) else { return };
    let shim = if outer.encap.shim == 1 { 8 } else { 0 };
    let (len, whole) = (usize::from(outer.add_len) - shim, usize::from(outer.add_len));
    assert!(matches!(len, 50 | 70) && data.len() >= whole + 14, "{outer:?} of {} bytes", data.len());
    assert!(shim == 0 || outer.encap.version == 2, "only version 2 has a shim");
    let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    assert_eq!(encap::Encap::unpack(word(len - 8), word(len - 4)), Some(outer.encap));
    assert_eq!([data[len - 16], data[len - 15]], outer.sport.to_be_bytes());
    if shim != 0 {
        assert_eq!(outer.shim, data[len..whole]);
        shims(outer.shim);
        dropped(outer.shim, &data[whole..]);
    }
    for fill in [0x00, 0xff] {
        let mut longer = data.to_vec();
        longer.resize(data.len() + 100, fill);
        assert_eq!(encap::read_outer(&longer, PORT), Some(outer), "bytes behind the frame matter");
    }
    notified(data, &outer);
    if let Ok(inner) = parse(&data[whole..]) {
        let merged = encap::decapsulated_ecn(inner.ecn, outer.ecn);
        assert_eq!(merged.is_none(), inner.ecn == 0 && outer.ecn == 3);
        assert!(merged.is_none_or(|ecn| ecn <= 3));
        for wire in [version::ONE, version::TWO] {
            let mut packet = inner;
            let passes = encap::arrives(&mut packet, outer.ecn, wire);
            assert_eq!(passes, merged.is_some() || wire == version::TWO);
            assert_eq!(packet.marked == 1, outer.ecn == 3 || inner.ecn == 3, "each mark is harvested");
            assert_eq!(packet.ecn, merged.unwrap_or(inner.ecn), "and a guest without ECN sees none");
        }
    }
}

/// A notification of any frame is as long as its headers, and says of the dropped packet what that said of itself.
fn notified(data: &[u8], outer: &encap::Outer) {
    let Some(notice) = notification::in_tunnel(data, PORT) else { return };
    let whole = usize::from(outer.add_len);
    assert!(notification::is_notification(&notice) && notice.len() <= data.len());
    let said = encap::read_outer(&notice, PORT).unwrap();
    assert_eq!((said.saddr, said.daddr, said.encap, said.ecn), (outer.daddr, outer.saddr, outer.encap, 0));
    let (was, is) = (parse(&data[whole..]).unwrap(), parse(&notice[whole..]).unwrap());
    let of = notification::of_dropped(is).unwrap();
    let key = |p: &Packet| (p.flow_key(), p.seq, p.ack, p.payload, p.tcp_flags);
    assert_eq!(key(&of), key(&was));
}

fn shims(bytes: [u8; 8]) {
    if let Some(shim) = encap::Shim::read(&bytes) {
        assert!((encap::Shim::REPORT..=encap::Shim::AGAIN).contains(&shim.kind));
        assert_eq!(shim.bytes(), bytes, "{shim:?}");
    }
}

/// What edges say of dropped packets is bounded, and survives being written again.
fn dropped(shim: [u8; 8], frame: &[u8]) {
    let Some(read) = Dropped::read(shim, frame) else { return };
    let p = read.packet;
    assert!(matches!(read.kind, encap::Shim::DROP | encap::Shim::AGAIN) && p.proto == proto::TCP);
    assert!(p.payload <= 0xffff && p.packet_count() <= Dropped::MAX_PACKETS, "{p:?}");
    assert!(p.payload > 0 || p.has_flags(tcp::SYN | tcp::FIN), "a pure ACK needs nothing");
    let (shim, frame) = read.frame().unwrap();
    let again = Dropped::read(shim, &frame).unwrap();
    let said = |d: &Dropped| {
        let p = &d.packet;
        (d.kind, d.detail, p.flow_key(), p.seq, p.ack, p.payload, p.segment_size, p.tcp_flags, p.window)
    };
    assert_eq!(said(&again), said(&read));
}

fn words(data: &[u8]) {
    let mut input = Input::new(data);
    let (first, second) = (input.u32(), input.u32());
    if let Some(encap) = encap::Encap::unpack(first, second) {
        let (again, cell) = encap.pack();
        assert_eq!(first & 0xff00_0000, 0x0800_0000);
        assert!(!matches!(encap.version, 1 | 2) || encap::Encap::unpack(again, cell) == Some(encap), "{encap:?}");
        assert_eq!((encap.vni, again >> 24), (second >> 8, 8));
    }
    let mut shim = [0; 8];
    shim[0] = input.u8() % 8;
    shim[1..].fill_with(|| input.u8());
    shims(shim);
    // Most bytes are no such message: one of each kind, with a length that may be right, in front of what there is.
    let carrier = Packet { proto: proto::TCP, family: if shim[1] & 1 == 0 { 4 } else { 6 }, ..Packet::default() };
    for kind in [encap::Shim::DROP, encap::Shim::AGAIN] {
        let message = Dropped { kind, detail: shim[1], packet: carrier };
        let Ok((_, mut frame)) = message.frame() else { continue };
        let tcp = frame.len() - 20;
        frame[tcp..].fill_with(|| input.u8());
        dropped([kind, shim[1], shim[2], shim[3], 0, shim[5] & 1, shim[6], shim[7]], &frame);
    }
    let (newest, cell) = (input.u32(), input.u8());
    let full = encap::full_cell(newest, cell);
    assert_eq!(full as u8, cell);
    assert!((full.wrapping_sub(newest) as i32).abs() <= 128, "{full} is far from {newest}");
}
