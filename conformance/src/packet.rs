//! The left side of a line: the packet as its words say.

use crate::inner::{Anchor, Fragment, Inner, Kind};
use crate::outer::Outer;
use crate::words::{hex, named, number, pair, range, Parsed};
use crate::world::{local, Guest, GUEST, LABELS, NEIGHBOUR, PEERS, PORT, STRANGER, VNI};
use edge::Direction;
use wire::feedback::Feedback;
use wire::{pack, proto, reserved, tcp, Packet, TcpOptions};

/// What the left side of a line says besides the inner frame.
pub(crate) struct Around {
    pub(crate) direction: Direction,
    pub(crate) cut: Option<std::ops::RangeInclusive<usize>>,
    pub(crate) outer: Outer,
    /// Of the outer headers: patches, VLAN tag, cut.
    pub(crate) patches: Vec<(usize, Vec<u8>)>,
    pub(crate) outer_vlan: bool,
    pub(crate) outer_cut: Option<std::ops::RangeInclusive<usize>>,
    pub(crate) ecn_given: bool,
    pub(crate) segment_size: u16,
    /// The inner frame is put into a tunnel once more.
    pub(crate) nested: bool,
}

/// A guest's own tunnel to the same guest: the frame within, as an edge sees it.
pub(crate) fn nest(frame: &[u8], within: &Packet) -> (Vec<u8>, Packet) {
    let Packet { saddr, daddr, family, segment_size, .. } = *within;
    let mut outer = around(Direction::Egress).outer;
    (outer.source, outer.destination, outer.family) = (saddr, daddr, family);
    let packet = Packet {
        saddr,
        daddr,
        family,
        segment_size,
        proto: proto::UDP,
        sport: outer.label,
        dport: outer.port,
        payload: (frame.len() + 8) as u32,
        ip_header_len: if family == 4 { 20 } else { 40 },
        l4_header_len: 8,
        ..Packet::default()
    };
    (outer.write(frame), packet)
}

pub(crate) fn kind(word: &str, direction: Direction) -> Parsed<Inner> {
    let (kind, protocol, family) = match word {
        "tcp4" => (Kind::Transport, proto::TCP, 4),
        "tcp6" => (Kind::Transport, proto::TCP, 6),
        "udp4" => (Kind::Transport, proto::UDP, 4),
        "udp6" => (Kind::Transport, proto::UDP, 6),
        "ip4" => (Kind::Ip(1), 1, 4),
        "ip6" => (Kind::Ip(58), 58, 6),
        "other" => (Kind::Ethernet(0x88cc), proto::UDP, 4),
        "arp" => (Kind::Arp, proto::UDP, 4),
        "nd" => (Kind::Solicitation, 58, 6),
        _ => return Err(format!("unknown kind of packet {word:?}")),
    };
    let (here, there) = (GUEST.address(family), PEERS[0].guest.address(family));
    let (saddr, daddr) = if direction == Direction::Egress { (here, there) } else { (there, here) };
    let packet = Packet { saddr, daddr, proto: protocol, family, ..Packet::default() };
    Ok(Inner {
        kind,
        packet,
        options: TcpOptions::default(),
        raw_options: None,
        ip_options: 0,
        extensions: Vec::new(),
        fragment: None,
        vlan: Vec::new(),
        patches: Vec::new(),
        pad: 0,
    })
}

fn guest(name: &str) -> Parsed<Guest> {
    let own = [("guest", GUEST), ("neighbour", NEIGHBOUR)];
    let nobody = Guest { v4: wire::v4([10, 9, 9, 9]), v6: [0xfd09_0000, 0, 0, 9], mac: [0; 6] };
    let others = PEERS.iter().map(|peer| (peer.name, peer.guest));
    let all: Vec<(&str, Guest)> = own.into_iter().chain(others).chain([("nobody", nobody)]).collect();
    named(&all, name)
}

/// False if the inner frame has no such field.
pub(crate) fn inner_field(inner: &mut Inner, key: &str, value: &str) -> Parsed<bool> {
    let packet = &mut inner.packet;
    match key {
        "to" => packet.daddr = guest(value)?.address(packet.family),
        "of" => packet.saddr = guest(value)?.address(packet.family),
        "ports" => {
            let (sport, dport) = pair(value, '>')?;
            (packet.sport, packet.dport) = (number(sport)?, number(dport)?);
        }
        "flags" => packet.tcp_flags = flags(value)?,
        "seq" => packet.seq = number(value)?,
        "ack" => packet.ack = number(value)?,
        "window" => packet.window = number(value)?,
        "payload" => packet.payload = number(value)?,
        "ecn" => packet.ecn = number(value)?,
        "mss" => packet.mss = number(value)?,
        "wscale" => packet.wscale = number::<u8>(value)? + 1,
        "sackok" => inner.options.sack_permitted = true,
        "ts" => {
            let (value, echo) = pair(value, ':')?;
            inner.options.timestamps = Some((number(value)?, number(echo)?));
        }
        "sack" => {
            for (block, place) in value.split(',').zip(&mut inner.options.sack) {
                let (left, right) = pair(block, ':')?;
                *place = (number(left)?, number(right)?);
                inner.options.n_sack += 1;
            }
        }
        "reserved" => packet.tcp_reserved = number(value)?,
        "report" => {
            let (total, ce) = pair(value, ':')?;
            (packet.pack_total, packet.pack_ce) = (low24(number(total)?), low24(number(ce)?));
            packet.pack = pack::OK;
            packet.tcp_reserved |= reserved::EDGE | reserved::PACK;
        }
        "opt" => inner.raw_options = Some(hex(value)?),
        "proto" => {
            packet.proto = number(value)?;
            inner.kind = Kind::Ip(packet.proto);
        }
        "type" => inner.kind = Kind::Ethernet(u16::from_str_radix(value, 16).map_err(|_| "type= wants hexadecimal")?),
        "ipopt" => inner.ip_options = number(value)?,
        "ext" => {
            for header in value.split(',') {
                let (kind, size) = pair(header, ':')?;
                inner.extensions.push((number(kind)?, number(size)?));
            }
        }
        "frag" => {
            inner.fragment = Some(named(&[("first", Fragment::First), ("later", Fragment::Later)], value)?);
        }
        "vlan" => inner.vlan = value.split(',').map(number).collect::<Parsed<_>>()?,
        "set" => {
            let (place, bytes) = pair(value, ':')?;
            let (anchor, at) = match place.split_once('+') {
                Some(("ip", at)) => (Anchor::Ip, at),
                Some(("l4", at)) => (Anchor::Transport, at),
                Some((other, _)) => return Err(format!("unknown place {other:?}")),
                None => (Anchor::Frame, place),
            };
            inner.patches.push((anchor, number(at)?, hex(bytes)?));
        }
        "pad" => inner.pad = number(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// As in the feedback option.
fn low24(n: u32) -> [u8; 3] {
    let [_, a, b, c] = n.to_be_bytes();
    [a, b, c]
}

pub(crate) fn flags(letters: &str) -> Parsed<u8> {
    let table = [
        ('F', tcp::FIN),
        ('S', tcp::SYN),
        ('R', tcp::RST),
        ('P', tcp::PSH),
        ('A', tcp::ACK),
        ('U', tcp::URG),
        ('E', tcp::ECE),
        ('C', tcp::CWR),
    ];
    letters.chars().try_fold(0, |all, letter| {
        let found = table.iter().find(|entry| entry.0 == letter);
        found.map(|entry| all | entry.1).ok_or_else(|| format!("unknown flag {letter:?}"))
    })
}

pub(crate) fn around(direction: Direction) -> Around {
    let outer = Outer {
        source: PEERS[0].address,
        destination: local(4),
        family: 4,
        ecn: 0,
        label: LABELS[0],
        port: PORT,
        vni: VNI,
        version: 1,
        cell: None,
        feedback: None,
        speaks2: false,
        shim: None,
    };
    Around {
        direction,
        cut: None,
        outer,
        patches: Vec::new(),
        outer_vlan: false,
        outer_cut: None,
        ecn_given: false,
        segment_size: 0,
        nested: false,
    }
}

pub(crate) fn outer_field(around: &mut Around, key: &str, value: &str) -> Parsed<()> {
    let outer = &mut around.outer;
    match key {
        "cut" => around.cut = Some(range(value)?),
        "gso" => around.segment_size = number(value)?,
        "nested" => around.nested = true,
        _ if around.direction == Direction::Egress => return Err(format!("unknown field {key:?} of a guest's frame")),
        "from" => {
            let strangers = [("stranger", 4, STRANGER[0], 1), ("stranger6", 6, STRANGER[1], 1)];
            let peers = PEERS.iter().map(|p| (p.name, p.family, p.address, p.version));
            let found = peers.chain(strangers).find(|p| p.0 == value);
            let (_, family, address, version) = found.ok_or_else(|| format!("unknown host {value:?}"))?;
            (outer.source, outer.destination) = (address, local(family));
            (outer.family, outer.version) = (family, version);
        }
        "version" => outer.version = number(value)?,
        "vni" => outer.vni = number(value)?,
        "label" => outer.label = number(value)?,
        "port" => outer.port = number(value)?,
        "cell" => outer.cell = Some(number(value)?),
        "speaks2" => outer.speaks2 = true,
        "shim" => outer.shim = Some(hex(value)?.try_into().map_err(|_| "shim= wants eight bytes")?),
        "oecn" => (outer.ecn, around.ecn_given) = (number(value)?, true),
        "feedback" => outer.feedback = Some(feedback(value)?).map(|f| (f.kind, f.path, f.value)),
        "oset" => {
            let (at, bytes) = pair(value, ':')?;
            around.patches.push((number(at)?, hex(bytes)?));
        }
        "ovlan" => around.outer_vlan = true,
        "ocut" => around.outer_cut = Some(range(value)?),
        _ => return Err(format!("unknown field {key:?}")),
    }
    Ok(())
}

/// Kind, path, value.
pub(crate) fn feedback(text: &str) -> Parsed<Feedback> {
    let (kind, rest) = pair(text, ':')?;
    let (path, value) = pair(rest, ':')?;
    Ok(Feedback { kind: number(kind)?, path: number(path)?, value: number(value)? })
}
