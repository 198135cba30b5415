//! A guest's frame: what a script says about it, as a [`Packet`] and as bytes.

use wire::checksum::Sum;
use wire::{emit, proto, Packet, TcpOptions};

pub(crate) const ETHERNET: usize = 14;

/// What follows the Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// TCP or UDP, as `packet.proto` says.
    Transport,
    /// Another IP protocol.
    Ip(u8),
    /// Another ethertype.
    Ethernet(u16),
    /// An ARP request from the packet's source for its destination.
    Arp,
    /// A neighbour solicitation, likewise.
    Solicitation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fragment {
    First,
    Later,
}

/// Where an offset counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Frame,
    Ip,
    Transport,
}

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) kind: Kind,
    /// The headers that it has; lengths of headers are filled in by [`Inner::packet`].
    pub(crate) packet: Packet,
    pub(crate) options: TcpOptions,
    /// Instead of `options` and what the packet has of them.
    pub(crate) raw_options: Option<Vec<u8>>,
    /// Bytes of IPv4 options, a multiple of 4.
    pub(crate) ip_options: usize,
    /// IPv6 extension headers: type, and bytes, a multiple of 8.
    pub(crate) extensions: Vec<(u8, usize)>,
    pub(crate) fragment: Option<Fragment>,
    pub(crate) vlan: Vec<u16>,
    /// Bytes that are overwritten at last.
    pub(crate) patches: Vec<(Anchor, usize, Vec<u8>)>,
    /// Bytes behind the end of the IP packet.
    pub(crate) pad: usize,
}

impl Inner {
    /// What a correct parser makes of the frame before patches and cuts.
    pub(crate) fn packet(&self) -> Packet {
        let tcp = match &self.raw_options {
            Some(options) => 20 + options.len(),
            None => 20 + self.option_bytes(),
        };
        let announced = wire::reserved::EDGE | wire::reserved::PACK;
        let missing = self.packet.tcp_reserved & announced == announced && self.packet.pack != wire::pack::OK;
        Packet {
            pack: if missing { wire::pack::MALFORMED } else { self.packet.pack },
            ip_header_len: self.ip_header_len() as u8,
            l4_header_len: if self.packet.proto == proto::TCP { tcp as u8 } else { 8 },
            ..self.packet
        }
    }

    fn ip_header_len(&self) -> usize {
        match self.packet.family {
            4 => 20 + self.ip_options,
            _ => 40 + self.extensions.iter().map(|(_, size)| size).sum::<usize>(),
        }
    }

    /// Each option with the padding in front of it that `wire::emit` writes.
    fn option_bytes(&self) -> usize {
        let syn = self.packet.has_flags(wire::tcp::SYN);
        let sizes = [
            (syn && self.packet.mss != 0, 4),
            (syn && self.packet.wscale != 0, 4),
            (syn && self.options.sack_permitted, 4),
            (self.options.timestamps.is_some(), 12),
            (self.options.n_sack > 0, 4 + 8 * usize::from(self.options.n_sack)),
            (self.packet.pack == wire::pack::OK, usize::from(wire::pack::LEN)),
        ];
        sizes.iter().filter(|(there, _)| *there).map(|(_, size)| size).sum()
    }

    /// The whole frame, patched and padded.
    pub(crate) fn frame(&self) -> Vec<u8> {
        match self.kind {
            Kind::Arp => return self.finished(self.arp()),
            Kind::Solicitation => return self.finished(self.solicitation()),
            _ => {}
        }
        let base =
            Packet { proto: if self.packet.proto == proto::TCP { proto::TCP } else { proto::UDP }, ..self.packet };
        let options = if self.raw_options.is_some() { TcpOptions::default() } else { self.options };
        let base = if self.raw_options.is_some() { Packet { mss: 0, wscale: 0, ..base } } else { base };
        let mut frame = emit(&base, &options).unwrap_or_default();
        if let Some(options) = &self.raw_options {
            let tcp = ETHERNET + if self.packet.family == 4 { 20 } else { 40 };
            frame.splice(tcp + 20..tcp + 20, options.iter().copied());
            frame[tcp + 12] = (((20 + options.len()) / 4) << 4) as u8;
            tcp_checksum(&mut frame, tcp);
        }
        if let Kind::Ip(number) = self.kind {
            frame[ETHERNET + if self.packet.family == 4 { 9 } else { 6 }] = number;
        }
        if self.packet.family == 4 {
            self.finish_v4(&mut frame);
        } else {
            self.finish_v6(&mut frame);
        }
        if let Kind::Ethernet(kind) = self.kind {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        self.finished(frame)
    }

    fn arp(&self) -> Vec<u8> {
        let (asker, asked) = (self.packet.saddr[3].to_be_bytes(), self.packet.daddr[3].to_be_bytes());
        let mac = [[2, 0], [asker[0], asker[1]], [asker[2], asker[3]]].concat();
        let ethernet = [&[0xff; 6], &mac[..], &[0x08, 0x06]].concat();
        [&ethernet[..], &[0, 1, 8, 0, 6, 4, 0, 1], &mac, &asker, &[0; 6], &asked].concat()
    }

    fn solicitation(&self) -> Vec<u8> {
        let octets = |address: [u32; 4]| address.map(u32::to_be_bytes).concat();
        let (asker, asked) = (octets(self.packet.saddr), octets(self.packet.daddr));
        let mac = [2, 0, 0, 0, 0, asker[15]];
        let group = [&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff], &asked[13..]].concat();
        let mut icmp = [&[135, 0, 0, 0, 0, 0, 0, 0], &asked[..], &[1, 1], &mac].concat();
        let sum = Sum::default().bytes(&asker).bytes(&group).word(58).word(icmp.len() as u32);
        let check = sum.bytes(&icmp).finish();
        icmp[2..4].copy_from_slice(&check.to_be_bytes());
        let ethernet = [&[0x33, 0x33, 0xff], &asked[13..], &mac[..], &[0x86, 0xdd]].concat();
        [&ethernet[..], &[0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 255], &asker, &group, &icmp].concat()
    }

    /// With tags, padding and patches.
    fn finished(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let tags: Vec<u8> = self.vlan.iter().flat_map(|tag| [[0x81, 0], tag.to_be_bytes()].concat()).collect();
        frame.splice(12..12, tags);
        frame.resize(frame.len() + self.pad, 0);
        for (anchor, at, bytes) in &self.patches {
            let ip = ETHERNET + 4 * self.vlan.len();
            let from = at
                + match anchor {
                    Anchor::Frame => 0,
                    Anchor::Ip => ip,
                    Anchor::Transport => ip + self.ip_header_len(),
                };
            if let Some(place) = frame.get_mut(from..from + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        frame
    }

    fn finish_v4(&self, frame: &mut Vec<u8>) {
        let options = std::iter::repeat_n(1, self.ip_options); // "no operation"
        frame.splice(ETHERNET + 20..ETHERNET + 20, options);
        let total = (frame.len() - ETHERNET) as u16;
        let ip = &mut frame[ETHERNET..ETHERNET + 20 + self.ip_options];
        ip[0] = 0x40 | (5 + self.ip_options / 4) as u8;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        match self.fragment {
            Some(Fragment::First) => ip[6..8].copy_from_slice(&[0x20, 0]),
            Some(Fragment::Later) => ip[6..8].copy_from_slice(&[0, 0xb9]),
            None => {}
        }
        ip[10..12].fill(0);
        let check = Sum::default().bytes(ip).finish();
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    }

    fn finish_v6(&self, frame: &mut Vec<u8>) {
        let mut chain: Vec<(u8, Vec<u8>)> = Vec::new();
        for (kind, size) in &self.extensions {
            let mut header = vec![0; *size];
            header[1] = (size / 8 - 1) as u8;
            chain.push((*kind, header));
        }
        if let Some(fragment) = self.fragment {
            let offset = if fragment == Fragment::First { [0, 1] } else { [5, 0xc8] };
            chain.push((44, vec![0, 0, offset[0], offset[1], 0, 0, 0, 9]));
        }
        let mut next = frame[ETHERNET + 6];
        for (kind, header) in chain.iter_mut().rev() {
            header[0] = next;
            next = *kind;
        }
        frame[ETHERNET + 6] = next;
        let headers: Vec<u8> = chain.into_iter().flat_map(|(_, header)| header).collect();
        frame.splice(ETHERNET + 40..ETHERNET + 40, headers);
        let length = (frame.len() - ETHERNET - 40) as u16;
        frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
    }
}

fn tcp_checksum(frame: &mut [u8], tcp: usize) {
    let addresses = if tcp == ETHERNET + 20 { 26..34 } else { 22..54 };
    let len = (frame.len() - tcp) as u32;
    let sum = Sum::default().bytes(&frame[addresses]).word(u32::from(proto::TCP)).word(len);
    frame[tcp + 16..tcp + 18].fill(0);
    let check = sum.bytes(&frame[tcp..]).finish();
    frame[tcp + 16..tcp + 18].copy_from_slice(&check.to_be_bytes());
}
