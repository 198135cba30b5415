//! The forms that frames have on the thread's device.

use kernel::state::{Bounce, FlowSlotKey, Mark, Plain, Return, ETHERTYPE_MARK};
use port::{gso, VnetHeader};
use wire::Packet;

const ETHERNET: usize = 14;
const BOUNCE: usize = size_of::<Bounce>();
const RETURN: usize = size_of::<Return>();

/// A frame that was diverted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diverted {
    pub(super) bounce: Bounce,
    /// With the flowcell that `bounce` names.
    pub(super) packet: Packet,
    /// Its TCP timestamp, if it has one.
    pub(super) stamp: Option<u32>,
}

/// `None` unless the data path, which knows the secret, wrote what stands in front.
pub(super) fn read(frame: &[u8], secret: u64) -> Option<Diverted> {
    let bounce = Bounce::from_bytes(frame.get(..BOUNCE)?).filter(|bounce| bounce.secret == secret)?;
    let inner = frame.get(BOUNCE..)?;
    let mut packet = wire::parse(inner).ok()?;
    let stamp = wire::timestamp(inner, &packet);
    (packet.cell, packet.has_cell) = (bounce.cell, bounce.has_cell);
    Some(Diverted { bounce, packet, stamp })
}

/// What goes in front of the rest of a frame that is given back, and where in the diverted frame that rest begins.
pub(super) struct Head {
    pub(super) header: VnetHeader,
    pub(super) bytes: [u8; ETHERNET + RETURN],
    pub(super) rest: usize,
}

/// `header` and `frame`: as it was diverted.
pub(super) fn give_back(header: VnetHeader, frame: &[u8], diverted: &Diverted) -> Option<Head> {
    let ethernet: [u8; ETHERNET] = frame.get(BOUNCE..BOUNCE + ETHERNET)?.try_into().ok()?;
    let Diverted { bounce, packet, .. } = diverted;
    let back = Return { secret: bounce.secret, port: bounce.port, vni: bounce.vni, ethernet, ..Return::default() };
    let mut bytes = [0; ETHERNET + RETURN];
    bytes[..ETHERNET].copy_from_slice(&ethernet);
    bytes[ETHERNET..].copy_from_slice(back.as_bytes());
    let headers = ETHERNET + RETURN + usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
    let header = VnetHeader {
        flags: header.flags & (VnetHeader::NEEDS_CSUM | VnetHeader::DATA_VALID),
        // The kernel still believes it to be in a tunnel; from here on it does not.
        gso_type: header.gso_type & !gso::TUNNEL,
        hdr_len: headers as u16,
        csum_start: match header.needs_csum() {
            true => header.csum_start.checked_sub(BOUNCE as u16)? + RETURN as u16,
            false => 0,
        },
        ..header
    };
    Some(Head { header, bytes, rest: BOUNCE + ETHERNET })
}

/// A frame for nobody but the data path.
pub(super) fn mark(secret: u64, key: FlowSlotKey, number: u16) -> [u8; ETHERNET + size_of::<Mark>()] {
    let mut bytes = [0; ETHERNET + size_of::<Mark>()];
    bytes[12..ETHERNET].copy_from_slice(&ETHERTYPE_MARK.to_be_bytes());
    bytes[ETHERNET..].copy_from_slice(Mark { secret, key, number, ..Mark::default() }.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{proto, tcp, v4, TcpOptions};

    #[test]
    fn a_frame_comes_back_as_it_was_diverted() {
        let packet = Packet {
            saddr: v4([10, 7, 0, 1]),
            daddr: v4([10, 7, 0, 2]),
            family: 4,
            proto: proto::TCP,
            seq: 5,
            payload: 100,
            tcp_flags: tcp::ACK,
            ..Packet::default()
        };
        let inner = wire::emit(&packet, &TcpOptions { timestamps: Some((6, 0)), ..TcpOptions::default() }).unwrap();
        let bounce = Bounce { secret: 9, port: 3, vni: 7, cell: 300, has_cell: 1, ..Bounce::default() };
        let frame = [bounce.as_bytes(), &inner].concat();
        assert!(read(&frame, 8).is_none(), "another's secret");
        assert!(read(&frame[..BOUNCE - 1], 9).is_none());
        let diverted = read(&frame, 9).unwrap();
        assert_eq!((diverted.packet.seq, diverted.packet.cell, diverted.packet.payload), (5, 300, 100));
        assert_eq!(diverted.stamp, Some(6));
        let header = VnetHeader {
            flags: 1,
            gso_type: gso::TCPV4 | 0x20,
            hdr_len: 1000,
            gso_size: 50,
            csum_start: (BOUNCE + 34) as u16,
            csum_offset: 16,
        };
        let head = give_back(header, &frame, &diverted).unwrap();
        assert_eq!((head.header.gso_type, head.header.csum_start), (gso::TCPV4, (RETURN + 34) as u16));
        assert_eq!(usize::from(head.header.hdr_len), RETURN + 66);
        let back = Return::from_bytes(&head.bytes[14..]).unwrap();
        assert_eq!((back.port, back.vni, &back.ethernet[..]), (3, 7, &inner[..14]));
        assert_eq!(frame[head.rest..], inner[14..]);
    }
}
