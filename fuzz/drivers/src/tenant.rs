//! Frames of a guest that wants to be where it does not belong: tags, fragments, headers of all kinds around tunnels that
//! look like the edge's own, and lengths that are wrong by a little. Most are well formed: noise gets nowhere.

use crate::rng::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whom the guest knows of.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub own_mac: [u8; 6],
    pub macs: Vec<[u8; 6]>,
    pub own4: Ipv4Addr,
    pub own6: Ipv6Addr,
    /// Guests of all networks.
    pub guests4: Vec<Ipv4Addr>,
    pub guests6: Vec<Ipv6Addr>,
    /// Hosts: outer addresses.
    pub hosts4: Vec<Ipv4Addr>,
    pub hosts6: Vec<Ipv6Addr>,
    pub networks: Vec<u32>,
    pub port: u16,
}

/// What a guest sends: frames that belong together, and what a host would make of them that puts fragments together.
#[derive(Clone, Debug, Default)]
pub struct Built {
    pub frames: Vec<Vec<u8>>,
    pub whole: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Tenant {
    rng: Rng,
    known: Addresses,
}

/// Tunnels within tunnels.
const DEEPEST: u32 = 3;

impl Tenant {
    pub fn new(seed: u64, known: Addresses) -> Tenant {
        Tenant { rng: Rng(seed), known }
    }

    pub fn known(&self) -> &Addresses {
        &self.known
    }

    /// A number of the stream, for the caller's own choices.
    pub fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    /// What the guest sends next.
    pub fn send(&mut self) -> Built {
        let (kind, packet) = self.packet(0);
        if kind == 0x0800 && packet.len() > 36 && packet[0] == 0x45 && self.rng.one_in(8) {
            return self.fragmented(&packet);
        }
        let mut frame = self.ethernet(kind, &packet);
        if self.rng.one_in(10) {
            self.damage(&mut frame);
        }
        Built { frames: vec![frame], whole: None }
    }

    /// What a host sends that is a peer, or an impostor: any network, anybody's guest inside.
    pub fn tunnelled(&mut self) -> Vec<u8> {
        let udp = self.udp_to_tunnel(1);
        self.carried(&udp)
    }

    /// The same of what edges tell one another in version 2.
    pub fn told(&mut self) -> Vec<u8> {
        let kind = self.rng.pick(&[0x24, 0x24, 0x23, 0x27]);
        let udp = self.udp_to_tunnel_of(1, kind);
        self.carried(&udp)
    }

    /// What reaches a host on a network without a tunnel: between two guests, with all that edges write into packets there.
    pub fn bare(&mut self) -> Vec<u8> {
        let proto = self.rng.pick(&[6, 17, 17, 17, 253, 253]);
        let body = match proto {
            6 => self.tcp(),
            17 => self.udp(9, &[7; 20]),
            _ => [0, 5, 0, 0].into_iter().take(self.rng.below(5)).collect(),
        };
        let (kind, packet) = if self.rng.one_in(3) {
            let (from, to) = (self.rng.pick(&self.known.guests6), self.rng.pick(&self.known.guests6));
            (0x86dd, self.ipv6(from, to, proto, &body, true))
        } else {
            let (from, to) = (self.rng.pick(&self.known.guests4), self.rng.pick(&self.known.guests4));
            let mut packet = self.ipv4(from, to, proto, &body, true);
            packet[6] ^= self.rng.pick(&[0, 0, 0x80]);
            (0x0800, packet)
        };
        self.ethernet(kind, &packet)
    }

    fn carried(&mut self, udp: &[u8]) -> Vec<u8> {
        let (kind, packet) = if self.rng.one_in(2) {
            let (from, to) = (self.host4(), self.host4());
            (0x0800, self.ipv4(from, to, 17, udp, false))
        } else {
            let (from, to) = (self.host6(), self.host6());
            (0x86dd, self.ipv6(from, to, 17, udp, false))
        };
        let mut frame = [[0u8; 12].as_slice(), &(kind as u16).to_be_bytes(), &packet].concat();
        if self.rng.one_in(10) {
            self.damage(&mut frame);
        }
        frame
    }

    fn ethernet(&mut self, kind: u16, packet: &[u8]) -> Vec<u8> {
        let to = self.rng.pick(&self.known.macs);
        let from = if self.rng.one_in(12) { self.rng.pick(&self.known.macs) } else { self.known.own_mac };
        let mut frame = [to, from].concat();
        let tags = if !self.rng.one_in(3) { 0 } else { self.rng.pick(&[0, 1, 1, 1, 2, 3, 4, 5, 6]) };
        for _ in 0..tags {
            frame.extend(self.rng.pick(&[[0x81, 0], [0x81, 0], [0x88, 0xa8]]));
            frame.extend(self.rng.pick(&[[0, 0], [0, 0], [0, 0], [0xe0, 0], [0, 5]]));
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(packet);
        frame
    }

    /// Of what type, and its bytes.
    fn packet(&mut self, depth: u32) -> (u16, Vec<u8>) {
        match self.rng.below(20) {
            0 => (0x0806, self.arp()),
            1 => (self.rng.next() as u16, vec![0x45; self.rng.below(80)]),
            2..=12 => {
                let (from, to) = (self.address4(depth), self.address4(depth + 1));
                let (proto, body) = self.transport(depth, false);
                (0x0800, self.ipv4(from, to, proto, &body, true))
            }
            _ => {
                let (from, to) = (self.address6(depth), self.address6(depth + 1));
                let (proto, body) = self.transport(depth, true);
                (0x86dd, self.ipv6(from, to, proto, &body, true))
            }
        }
    }

    /// Protocol and bytes behind an IP header.
    fn transport(&mut self, depth: u32, six: bool) -> (u8, Vec<u8>) {
        match self.rng.below(16) {
            0 => (6, self.tcp()),
            1 => (if six { 58 } else { 1 }, self.icmp(six)),
            2 => (58, self.icmp(true)),
            3 if depth < DEEPEST => {
                let (kind, packet) = self.packet(depth + 1);
                match kind {
                    0x0800 => (4, packet),
                    0x86dd => (41, packet),
                    _ => (47, [[0, 0].as_slice(), &kind.to_be_bytes(), &packet].concat()),
                }
            }
            4 => (if self.rng.one_in(4) { 253 } else { self.rng.next() as u8 }, vec![0; self.rng.below(40)]),
            5 => (17, self.udp(53, &[0; 20])),
            _ => (17, self.udp_to_tunnel(depth)),
        }
    }

    fn udp_to_tunnel(&mut self, depth: u32) -> Vec<u8> {
        let feedback = if self.rng.one_in(3) { self.rng.below(4) as u8 } else { 0 };
        let version = self.rng.pick(&[0u8, 0x10, 0x10, 0x14, 0x18, 0x20, 0x20, 0x24, 0x2c, 0xf0]);
        self.udp_to_tunnel_of(depth, version | feedback)
    }

    /// `second`: the VXLAN header's second byte, of version, cell, shim and feedback (docs/wire.md).
    fn udp_to_tunnel_of(&mut self, depth: u32, second: u8) -> Vec<u8> {
        let (has_shim, counts) = (second & 0xf4 == 0x24, second & 0xf3 == 0x23);
        let inner = if depth >= DEEPEST {
            vec![0; self.rng.below(60)]
        } else if (has_shim || counts) && !self.rng.one_in(3) {
            self.inner_of_edges(has_shim)
        } else {
            self.inner(depth + 1)
        };
        let network = self.rng.pick(&self.known.networks);
        let flags = if self.rng.one_in(30) { self.rng.next() as u8 } else { 8 };
        let mut body = vec![flags, second];
        body.extend((self.rng.below(3) as u16 * 300).to_be_bytes());
        body.extend(&network.to_be_bytes()[1..]);
        body.push(self.rng.next() as u8);
        if has_shim {
            body.extend([self.rng.pick(&[1, 2, 2, 2, 3, 4, 5, 6, 6, 6, 7]), self.rng.pick(&[0, 1])]);
            body.extend(self.rng.pick(&[0u16, 1000]).to_be_bytes());
            body.extend(self.rng.pick(&[0u32, 1000, 3000, 70_000]).to_be_bytes());
        }
        body.extend(inner);
        let port = self.known.port;
        self.udp(port, &body)
    }

    /// A frame as it stands in a tunnel.
    fn inner(&mut self, depth: u32) -> Vec<u8> {
        let (kind, packet) = if self.rng.one_in(3) {
            self.packet(depth)
        } else if self.rng.one_in(3) {
            let (from, to) = (self.rng.pick(&self.known.guests6), self.rng.pick(&self.known.guests6));
            let udp = self.udp(9, &[7; 9]);
            (0x86dd, self.ipv6(from, to, 17, &udp, true))
        } else {
            let (from, to) = (self.rng.pick(&self.known.guests4), self.rng.pick(&self.known.guests4));
            let udp = if self.rng.one_in(2) { self.udp(9, &[7; 9]) } else { self.tcp() };
            (0x0800, self.ipv4(from, to, if udp.len() == 17 { 17 } else { 6 }, &udp, true))
        };
        self.ethernet(kind, &packet)
    }

    /// What edges tell one another between two guests: of dropped packets, or nothing but what the tunnel's header counts.
    fn inner_of_edges(&mut self, dropped: bool) -> Vec<u8> {
        let mut tcp = Vec::new();
        if dropped {
            tcp = [80u16, 9].map(u16::to_be_bytes).concat();
            tcp.extend(self.rng.next().to_be_bytes());
            tcp.extend([0x50, self.rng.pick(&[0x02, 0x10, 0x11]), 0, 0, 0, 0, 0, 0]);
        }
        let (kind, packet) = if self.rng.one_in(3) {
            let (from, to) = (self.rng.pick(&self.known.guests6), self.rng.pick(&self.known.guests6));
            (0x86dd, self.ipv6(from, to, 253, &tcp, false))
        } else {
            let (from, to) = (self.rng.pick(&self.known.guests4), self.rng.pick(&self.known.guests4));
            (0x0800, self.ipv4(from, to, 253, &tcp, false))
        };
        self.ethernet(kind, &packet)
    }

    /// A length, or one that is wrong by a little.
    fn length(&mut self, right: usize) -> u16 {
        match self.rng.below(24) {
            0 => right as u16 + 1,
            1 => (right as u16).wrapping_sub(1),
            2 => self.rng.pick(&[0, 1, 7, 8, 20, 0xffff]),
            _ => right as u16,
        }
    }

    fn udp(&mut self, to: u16, body: &[u8]) -> Vec<u8> {
        let from = self.rng.pick(&[9u16, 4789, 50_001, 50_002]);
        let len = self.length(body.len() + 8);
        [from, to, len, 0].into_iter().flat_map(u16::to_be_bytes).chain(body.iter().copied()).collect()
    }

    fn tcp(&mut self) -> Vec<u8> {
        let options = self.rng.below(3) * 4;
        let mut out = [self.rng.pick(&[80u16, 9]), self.rng.pick(&[80u16, 4789])].map(u16::to_be_bytes).concat();
        out.extend([0; 8]);
        let offset = if self.rng.one_in(20) { self.rng.next() as u8 } else { ((5 + options / 4) as u8) << 4 };
        out.extend([offset, self.rng.pick(&[0x02, 0x10, 0x18, 0x12]), 1, 0, 0, 0, 0, 0]);
        out.extend(vec![1; options + self.rng.below(30)]);
        out
    }

    fn icmp(&mut self, six: bool) -> Vec<u8> {
        let kind =
            if six { self.rng.pick(&[133, 134, 135, 135, 136, 136, 137, 128]) } else { self.rng.pick(&[8, 5, 3]) };
        let mut out = vec![kind, 0, 0, 0, 0x60, 0, 0, 0];
        out.extend(self.address6(1).octets());
        out.extend([2, 1]);
        out.extend(self.rng.pick(&self.known.macs));
        out
    }

    fn arp(&mut self) -> Vec<u8> {
        let mut out = vec![0, 1, 8, 0, 6, 4, 0, self.rng.pick(&[1, 1, 2, 3])];
        let mac = if self.rng.one_in(4) { self.rng.pick(&self.known.macs) } else { self.known.own_mac };
        out.extend(mac);
        out.extend(self.address4(0).octets());
        out.extend([0; 6]);
        out.extend(self.address4(1).octets());
        if self.rng.one_in(8) {
            out.truncate(self.rng.below(28));
        }
        out
    }

    /// `any`: with options and fragments.
    fn ipv4(&mut self, from: Ipv4Addr, to: Ipv4Addr, proto: u8, body: &[u8], any: bool) -> Vec<u8> {
        let options = if any && self.rng.one_in(8) { self.rng.below(11) * 4 } else { 0 };
        let head = if any && self.rng.one_in(40) { self.rng.next() as u8 } else { 0x45 + (options / 4) as u8 };
        let mut out = vec![head, self.rng.next() as u8 & 3];
        out.extend(self.length(20 + options + body.len()).to_be_bytes());
        let fragment =
            if any && self.rng.one_in(10) { self.rng.pick(&[0x2000, 1, 0x2001, 0x1fff, 0x8000]) } else { 0x4000u16 };
        out.extend([0x12, 0x34]);
        out.extend(fragment.to_be_bytes());
        out.extend([64, proto, 0, 0]);
        out.extend(from.octets());
        out.extend(to.octets());
        out.extend(vec![1; options]);
        out.extend(body);
        if any && self.rng.one_in(12) {
            out.extend(vec![0; self.rng.below(20)]);
        }
        out
    }

    fn ipv6(&mut self, from: Ipv6Addr, to: Ipv6Addr, proto: u8, body: &[u8], any: bool) -> Vec<u8> {
        let headers = if any && self.rng.one_in(4) { self.rng.pick(&[1, 1, 2, 4, 5, 8, 10]) } else { 0 };
        let mut chain = Vec::new();
        let mut next = proto;
        for _ in 0..headers {
            let kind = self.rng.pick(&[0, 60, 60, 43, 44, 51]);
            let mut header = vec![next, 0, 0, 0, 0, 0, 0, 0];
            if kind == 44 {
                header[2..4].copy_from_slice(&self.rng.pick(&[[0, 0], [0, 1], [0, 8], [5, 0xc8]]));
            } else if self.rng.one_in(6) {
                let more = self.rng.pick(&[1, 2, 25, 31]);
                header[1] = more as u8;
                header.resize(8 + 8 * more, 0);
            }
            chain.splice(0..0, header);
            next = kind;
        }
        let mut out = vec![0x60, (self.rng.next() as u8 & 3) << 4, 0, 0];
        if any && self.rng.one_in(60) {
            out[0] = self.rng.next() as u8;
        }
        out.extend(self.length(chain.len() + body.len()).to_be_bytes());
        out.extend([next, 255]);
        out.extend(from.octets());
        out.extend(to.octets());
        out.extend(chain);
        out.extend(body);
        out
    }

    /// In two parts, each of which is well formed.
    fn fragmented(&mut self, packet: &[u8]) -> Built {
        let body = &packet[20..];
        let cut = (8 + 8 * self.rng.below(body.len() / 8)).min(body.len());
        let parts = [(0, &body[..cut], 0x2000u16), (cut, &body[cut..], 0)];
        let frames = parts.map(|(at, part, more)| {
            let mut out = packet[..20].to_vec();
            out[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            out[6..8].copy_from_slice(&(more | (at / 8) as u16).to_be_bytes());
            out.extend(part);
            self.ethernet(0x0800, &out)
        });
        let mut whole = packet.to_vec();
        whole[6..8].copy_from_slice(&[0, 0]);
        Built { frames: frames.into(), whole: Some([[0u8; 12].as_slice(), &[8, 0], &whole].concat()) }
    }

    /// Of the guest itself mostly, outside; of a host or another guest as the case may be. `what` 0: a source.
    fn address4(&mut self, what: u32) -> Ipv4Addr {
        match self.rng.below(10) {
            0..=4 if what == 0 => self.known.own4,
            0..=6 => self.host4(),
            7 => self.rng.pick(&[Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 99, 0, 1)]),
            _ => self.rng.pick(&self.known.guests4),
        }
    }

    fn address6(&mut self, what: u32) -> Ipv6Addr {
        match self.rng.below(10) {
            0..=4 if what == 0 => self.known.own6,
            0..=6 => self.host6(),
            7 => {
                let local = |n| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n);
                let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                self.rng.pick(&[
                    Ipv6Addr::UNSPECIFIED,
                    local(1),
                    local(2),
                    all,
                    Ipv6Addr::new(0xfd55, 0, 0, 0, 0, 0, 0, 1),
                ])
            }
            _ => self.rng.pick(&self.known.guests6),
        }
    }

    fn host4(&mut self) -> Ipv4Addr {
        self.rng.pick(&self.known.hosts4)
    }

    fn host6(&mut self) -> Ipv6Addr {
        self.rng.pick(&self.known.hosts6)
    }

    fn damage(&mut self, frame: &mut Vec<u8>) {
        for _ in 0..1 + self.rng.below(3) {
            let at = self.rng.below(frame.len());
            match self.rng.below(4) {
                0 => frame.truncate(at),
                1 => frame.extend(vec![0; self.rng.below(20)]),
                _ => {
                    let value = self.rng.next() as u8;
                    frame.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
                }
            }
        }
    }
}
