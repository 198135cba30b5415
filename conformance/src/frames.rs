use crate::answers;
use crate::config::Config;
use crate::inner::ETHERNET;
use crate::outer::{flow_hash, merged_ecn, port_without_label, Outer};
use crate::strict;
use crate::structs::new_edge;
use crate::world::{local, Peer, Verdict, Why, GUEST, NEIGHBOUR, PEERS, PORT, VNI};
use edge::{Direction, Edge, Slot};
use std::collections::{BTreeMap, HashMap};
use units::Time;
use wire::feedback::Feedback;
use wire::{dirty, ecn, encap, pack, parse, write_back_resized, FlowKey, Packet, ParseError};

/// What became of a frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    pub why: Option<Why>,
    /// As it leaves; unchanged where it is passed, meaningless where it is dropped.
    pub frame: Vec<u8>,
    /// As the stages left it.
    pub packet: Option<Packet>,
}

/// The edge on bytes: `wire`, `edge`, and what `datapath/kernel` does around the stages, in Rust.
#[derive(Debug)]
pub struct Frames {
    edge: Edge,
    config: Config,
    /// Newest flowcell received, by the key of the outgoing direction.
    newest: HashMap<FlowKey, u32>,
    /// When peers were heard last, by name, and whether they understood version 2.
    heard: HashMap<&'static str, (Time, bool)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Frames {
    pub fn new(config: &Config) -> Frames {
        Frames {
            edge: new_edge(config),
            config: *config,
            newest: HashMap::new(),
            heard: HashMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// One frame that the guest sends (egress) or that the uplink receives (ingress).
    pub fn run(&mut self, now: Time, direction: Direction, frame: &[u8], segment_size: u16) -> Outcome {
        let outcome = match direction {
            Direction::Egress => self.guest(now, frame, segment_size),
            Direction::Ingress => self.uplink(now, frame, segment_size),
        };
        let shares = self.edge.counters().hygenicc;
        for (name, n) in [
            ("drop_over_rate_segments", shares.dropped_segments),
            ("marks_counted", shares.marks_counted),
            ("marks_heard", shares.marks_heard),
        ] {
            self.counts.insert(name, n);
        }
        outcome
    }

    /// Counters under the names of `kernel::state::Counter`; those that were never counted are missing.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// The key under which the kernel remembers the flow of such a frame, if it would reach the stages.
    pub fn flow_key(&self, direction: Direction, frame: &[u8]) -> Option<FlowKey> {
        match direction {
            Direction::Egress => parse(frame).ok().map(|packet| packet.flow_key()),
            Direction::Ingress => {
                let outer = encap::read_outer(frame, PORT)?;
                parse(frame.get(outer.add_len.into()..)?).ok().map(|packet| packet.flow_key().reversed())
            }
        }
    }

    fn count(&mut self, name: &'static str, n: u64) {
        *self.counts.entry(name).or_default() += n;
    }

    fn left(&mut self, verdict: Verdict, why: Why, frame: &[u8]) -> Outcome {
        match verdict {
            Verdict::Pass => self.count("passed_segments", 1),
            _ => self.count("in_no_guest_segments", 1),
        }
        Outcome { verdict, why: Some(why), frame: frame.to_vec(), packet: None }
    }

    fn dropped(&mut self, verdict: Verdict, counter: Option<&'static str>) -> Outcome {
        counter.into_iter().for_each(|name| self.count(name, 1));
        Outcome { verdict, why: None, frame: Vec::new(), packet: None }
    }

    /// What is not for a guest.
    fn leave(&mut self, why: Why, frame: &[u8], question: Option<&answers::Question>) -> Outcome {
        match strict::leave(&self.config, frame, why, question) {
            (Verdict::Pass, _) => self.left(Verdict::Pass, why, frame),
            (verdict, counter) => self.dropped(verdict, counter),
        }
    }

    /// What is carried without flow state.
    fn untracked(&mut self, why: ParseError, ip: &[u8]) {
        self.count("untracked_segments", 1);
        self.count("untracked_fragments", u64::from(why == ParseError::Fragment));
        let hidden = why == ParseError::NotTransport && strict::hides_transport(ip);
        self.count("untracked_headers", u64::from(hidden));
    }

    /// The version to speak to a peer: version 1 at first, version 2 for 60 ticks of 2^30 ns after it was heard to understand that.
    fn version_to(&self, now: Time, peer: &Peer) -> u8 {
        let tick = |time: Time| (time.as_ns() >> 30) as u32;
        match self.heard.get(peer.name) {
            Some((at, true)) if peer.version == 2 && tick(now).wrapping_sub(tick(*at)) <= 60 => 2,
            _ => peer.version.min(1),
        }
    }

    fn guest(&mut self, now: Time, frame: &[u8], segment_size: u16) -> Outcome {
        if self.config.strict && strict::claims_more(frame) {
            return self.dropped(Verdict::DropMalformed, Some("drop_malformed_segments"));
        }
        let question = answers::question(frame);
        if let Some(question) = &question {
            if self.config.strict && !answers::is_own(&question.asker) {
                return self.dropped(Verdict::DropSpoofed, Some("drop_spoofed_segments"));
            }
            if let Some(frame) = answers::answer(&self.config, frame, question) {
                self.count("answered", 1);
                return Outcome { verdict: Verdict::Answer, why: None, frame, packet: None };
            }
        }
        let read = match read(frame) {
            Ok(read) => read,
            Err(why) => return self.leave(why, frame, question.as_ref()),
        };
        let key = read.key();
        let hidden =
            read.why() == Some(Why::Parse(ParseError::NotTransport)) && strict::hides_transport(&frame[ETHERNET..]);
        if self.config.strict && hidden {
            return self.dropped(Verdict::DropMalformed, Some("drop_malformed_segments"));
        }
        if self.config.strict && key.proto == strict::ICMPV6 && strict::claims_others(frame) {
            return self.dropped(Verdict::DropSpoofed, Some("drop_spoofed_segments"));
        }
        if self.config.strict && !answers::is_own(&key.saddr) {
            return self.dropped(Verdict::DropSpoofed, Some("drop_spoofed_segments"));
        }
        let unrouted = answers::is_unrouted(&key.saddr)
            || key.proto == strict::ICMPV6 && strict::target(frame).is_some_and(|target| answers::is_unrouted(&target));
        if self.config.strict && unrouted {
            return self.leave(Why::Route, frame, question.as_ref());
        }
        if NEIGHBOUR.has(&key.daddr) {
            let split = read.packet().map(|packet| Packet { segment_size, ..packet });
            if answers::oversize(self.config.neighbour_mtu, frame, split.as_ref()) {
                return self.dropped(Verdict::Oversize, Some("drop_oversize_segments"));
            }
            let mut frame = frame.to_vec();
            let bounds = [self.config.mtu, self.config.neighbour_mtu];
            let both = bounds.into_iter().filter(|mtu| *mtu != 0).min().unwrap_or(0);
            let clamped = read.packet().is_some_and(|mut packet| answers::clamp(both, &mut frame, &mut packet));
            self.count("mss_clamped", clamped.into());
            self.count("local_segments", 1);
            let frame = with_mac(&frame, NEIGHBOUR.mac);
            return Outcome { verdict: Verdict::Local, why: read.why(), frame, packet: None };
        }
        let Some(peer) = PEERS.iter().find(|peer| peer.guest.has(&key.daddr)) else {
            return self.leave(Why::Route, frame, question.as_ref());
        };
        let split = read.packet().map(|packet| Packet { segment_size, ..packet });
        if answers::oversize(self.config.mtu, frame, split.as_ref()) {
            return self.dropped(Verdict::Oversize, Some("drop_oversize_segments"));
        }
        let mut out = frame.to_vec();
        let (mut verdict, mut packet) = (Verdict::Carry, None);
        let mut label = 0;
        let mut cell = None;
        let mut codepoint = read.ecn(frame);
        let version = self.version_to(now, peer);
        let mut shim = None;
        let mut feedback = None;
        if let Read::Addresses { why, .. } = read {
            self.untracked(why, &frame[ETHERNET..]);
        } else if let Read::Packet(parsed) = read {
            let wire = if version == 2 { wire::version::TWO } else { wire::version::ONE };
            let mut parsed = Packet { segment_size, wire, ..parsed };
            let clamped = answers::clamp(self.config.mtu, &mut out, &mut parsed);
            self.count("mss_clamped", clamped.into());
            match self.stages(now, Direction::Egress, peer.version == 0, &mut parsed) {
                edge::Verdict::Forward => {}
                edge::Verdict::Drop(edge::DropReason::OverRate) => return self.dropped(Verdict::DropOverRate, None),
                _ => return self.dropped(Verdict::DropPoliced, None),
            }
            if peer.version != 0 {
                let told = self.edge.feedback_to(now, &parsed);
                feedback = (told != Feedback::default()).then_some((told.kind, told.path, told.value));
                self.count("feedback_sent", u64::from(told.kind != 0));
            }
            label = parsed.label;
            cell = (parsed.has_cell == 1).then_some(parsed.cell as u8);
            codepoint = if version == 2 && parsed.ecn == ecn::NOT_ECT { parsed.outer_ecn } else { parsed.ecn };
            shim = (parsed.pack == pack::SHIM).then(|| report_shim(&parsed));
            if write_back_resized(&parsed, &mut out).is_err() {
                return self.dropped(Verdict::DropLarge, Some("drop_error_segments"));
            }
            (verdict, packet) = (Verdict::Forward, Some(parsed));
        }
        if out.len() > 65_535 - 70 {
            return self.dropped(Verdict::DropLarge, Some("drop_too_large_segments"));
        }
        if label == 0 {
            label = port_without_label(flow_hash(&key, self.config.seed));
        }
        if let Some(packet) = &mut packet {
            packet.label = label;
        }
        self.count("out_segments", 1);
        self.count("out_bytes", out.len() as u64);
        let out = with_mac(&out, peer.guest.mac);
        let around = Outer { version, shim, feedback, ..towards(peer, label, cell, codepoint) };
        let frame = Outer { speaks2: peer.version == 2 && version == 1, ..around }.write(&out);
        Outcome { verdict, why: read.why(), frame, packet }
    }

    fn uplink(&mut self, now: Time, frame: &[u8], segment_size: u16) -> Outcome {
        let Some(outer) = encap::read_outer(frame, PORT) else {
            return Outcome { verdict: Verdict::Pass, why: Some(Why::Format), frame: frame.to_vec(), packet: None };
        };
        if outer.frame_len as usize != frame.len() {
            return self.dropped(Verdict::DropLengths, Some("drop_lengths_segments"));
        }
        let inner = &frame[usize::from(outer.add_len)..];
        let read = match read(inner) {
            Ok(read) => read,
            // Inside the tunnel a tag is no reason of its own.
            Err(Why::Tagged) => return self.left(Verdict::Nobody, Why::Parse(ParseError::NotIp), frame),
            Err(why) => return self.left(Verdict::Nobody, why, frame),
        };
        let key = read.key();
        let to = [GUEST, NEIGHBOUR].into_iter().find(|guest| outer.encap.vni == VNI && guest.has(&key.daddr));
        let Some(to) = to else { return self.left(Verdict::Nobody, Why::Route, frame) };

        let mut carried = outer.encap;
        let peer = PEERS.iter().find(|peer| peer.address == outer.saddr);
        if peer.is_none() {
            self.count("unknown_peer_segments", 1);
            self.count("feedback_ignored", u64::from(carried.feedback != 0));
            (carried.has_cell, carried.feedback) = (0, 0);
            if !self.config.any_peer {
                return self.dropped(Verdict::DropStranger, None);
            }
        } else {
            let most = peer.map_or(1, |peer| peer.version.max(1));
            self.count("unknown_version_segments", u64::from(carried.version > most));
            if carried.version > most {
                (carried.has_cell, carried.feedback) = (0, 0);
            }
            self.count("feedback", u64::from(carried.feedback != 0));
        }
        if peer.is_some_and(|peer| !peer.guest.has(&key.saddr)) {
            return self.dropped(Verdict::DropForged, Some("drop_forged_segments"));
        }
        let asked = peer.filter(|peer| peer.version == 2);
        if let Some(peer) = asked {
            self.heard.insert(peer.name, (now, carried.version == 2 || carried.speaks2 == 1));
        }
        let two = asked.is_some() && carried.version == 2;
        self.count("in_ce_segments", u64::from(outer.ecn == ecn::CE));
        let before = read.ecn(inner);
        let codepoint = match merged_ecn(before, outer.ecn) {
            Some(codepoint) => codepoint,
            None if two => before,
            None => return self.dropped(Verdict::DropEcn, Some("drop_ecn_segments")),
        };
        let changed = if codepoint == before { 0 } else { dirty::ECN };
        let mut out = inner.to_vec();
        let (verdict, packet) = match read {
            Read::Packet(mut parsed) => {
                // Only the guest whose port the scripts use has a bound.
                if to == GUEST {
                    let clamped = answers::clamp(self.config.mtu, &mut out, &mut parsed);
                    self.count("mss_clamped", clamped.into());
                }
                let mut parsed = Packet {
                    segment_size,
                    label: outer.sport,
                    ecn: codepoint,
                    dirty: changed,
                    wire: if two { wire::version::TWO } else { wire::version::ONE },
                    sent_ecn: before,
                    marked: (outer.ecn == ecn::CE || before == ecn::CE).into(),
                    ..parsed
                };
                let reports = parsed.tcp_reserved & wire::reserved::EDGE != 0 && parsed.payload == 0;
                let reports = reports && parsed.proto == wire::proto::TCP;
                if let (true, [1, _, a, b, c, d, e, f]) = (two && carried.shim == 1 && reports, outer.shim) {
                    if parsed.pack == pack::NONE && self.config.congestion.is_some() {
                        (parsed.pack, parsed.pack_total, parsed.pack_ce) = (pack::SHIM, [a, b, c], [d, e, f]);
                    }
                }
                if carried.has_cell == 1 {
                    let newest = self.newest.get(&key.reversed()).copied().unwrap_or(0);
                    (parsed.has_cell, parsed.cell) = (1, encap::full_cell(newest, carried.cell));
                }
                let told = Feedback { kind: carried.feedback, path: carried.path, value: carried.value };
                self.edge.hear(now, &parsed, outer.sport, None, told);
                let plain = outer.encap.version == 0;
                if self.stages(now, Direction::Ingress, plain, &mut parsed) != edge::Verdict::Forward {
                    return self.dropped(Verdict::Consume, Some("facks_consumed"));
                }
                (Verdict::Forward, parsed)
            }
            Read::Addresses { key, why } => {
                self.untracked(why, &inner[ETHERNET..]);
                let (family, ip_header_len) = if inner[ETHERNET] >> 4 == 4 { (4, 20) } else { (6, 40) };
                let packet = Packet { family, ip_header_len, ecn: codepoint, dirty: changed, ..Packet::default() };
                (Verdict::Carry, Packet { proto: key.proto, ..packet })
            }
        };
        self.count("in_segments", 1);
        self.count("in_bytes", inner.len() as u64);
        if write_back_resized(&packet, &mut out).is_err() {
            return self.dropped(Verdict::DropLarge, Some("drop_error_segments"));
        }
        let packet = (verdict == Verdict::Forward).then_some(packet);
        Outcome { verdict, why: read.why(), frame: with_mac(&out, to.mac), packet }
    }

    /// `plain`: the other host speaks plain VXLAN.
    fn stages(&mut self, now: Time, direction: Direction, plain: bool, packet: &mut Packet) -> edge::Verdict {
        let before = self.edge.counters();
        let verdict = if plain {
            self.edge.process_unmanaged(now, direction, Slot(0), packet)
        } else {
            self.edge.process(now, direction, Slot(0), packet)
        };
        while self.edge.poll_transmit(now).is_some() {}
        assert_ne!(verdict, edge::Verdict::Hold, "nothing reorders here");
        let after = self.edge.counters();
        let began = after.flows_begun != before.flows_begun;
        let key = packet.flow_key();
        if after.flow_table_full != before.flow_table_full {
            (packet.has_cell, packet.cell) = (0, 0);
        } else if direction == Direction::Egress {
            if began {
                self.newest.remove(&key);
            }
        } else if packet.has_cell == 1 {
            let newest = self.newest.entry(key.reversed()).or_insert(packet.cell);
            if began || packet.cell.wrapping_sub(*newest) as i32 > 0 {
                *newest = packet.cell;
            }
        } else if began {
            self.newest.remove(&key.reversed());
        }
        self.count("flows_begun", after.flows_begun - before.flows_begun);
        self.count("flow_table_full_segments", after.flow_table_full - before.flow_table_full);
        self.count("flowcells", after.flowcells - before.flowcells);
        self.count("in_late_segments", after.ingress_late - before.ingress_late);
        let (before, after) = (before.congestion, after.congestion);
        self.count("drop_policed_segments", after.policed_segments - before.policed_segments);
        self.count("windows_lowered", after.windows_lowered - before.windows_lowered);
        self.count("packs_sent", after.packs_sent - before.packs_sent);
        self.count("facks_asked", after.facks_sent - before.facks_sent);
        self.count("reports_received", after.reports_received - before.reports_received);
        verdict
    }
}

fn towards(peer: &Peer, label: u16, cell: Option<u8>, ecn: u8) -> Outer {
    Outer {
        source: local(peer.family),
        destination: peer.address,
        family: peer.family,
        ecn,
        label,
        port: PORT,
        vni: VNI,
        version: peer.version,
        cell,
        feedback: None,
        speaks2: false,
        shim: None,
    }
}

/// Type 1, a byte of zero, bytes that came, bytes that came marked.
fn report_shim(packet: &Packet) -> [u8; 8] {
    let ([a, b, c], [d, e, f]) = (packet.pack_total, packet.pack_ce);
    [1, 0, a, b, c, d, e, f]
}

fn with_mac(frame: &[u8], mac: [u8; 6]) -> Vec<u8> {
    let mut out = frame.to_vec();
    if mac != [0; 6] {
        out[..6].copy_from_slice(&mac);
    }
    out
}

/// What can be read of a guest's frame.
#[derive(Clone, Copy, Debug)]
enum Read {
    Packet(Packet),
    /// Enough to carry it: addresses and protocol, ports zero.
    Addresses {
        key: FlowKey,
        why: ParseError,
    },
}

impl Read {
    fn key(&self) -> FlowKey {
        match self {
            Read::Packet(packet) => packet.flow_key(),
            Read::Addresses { key, .. } => *key,
        }
    }

    fn packet(&self) -> Option<Packet> {
        match self {
            Read::Packet(packet) => Some(*packet),
            Read::Addresses { .. } => None,
        }
    }

    fn why(&self) -> Option<Why> {
        match self {
            Read::Packet(_) => None,
            Read::Addresses { why, .. } => Some(Why::Parse(*why)),
        }
    }

    fn ecn(&self, frame: &[u8]) -> u8 {
        match self {
            Read::Packet(packet) => packet.ecn,
            Read::Addresses { .. } if frame[ETHERNET] >> 4 == 4 => frame[ETHERNET + 1] & 3,
            Read::Addresses { .. } => frame[ETHERNET + 1] >> 4 & 3,
        }
    }
}

fn read(frame: &[u8]) -> Result<Read, Why> {
    if matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8])) {
        return Err(Why::Tagged);
    }
    match parse(frame) {
        Ok(packet) => Ok(Read::Packet(packet)),
        Err(why @ (ParseError::NotTransport | ParseError::Fragment)) => {
            Ok(Read::Addresses { key: addresses(&frame[ETHERNET..]), why })
        }
        Err(why) => Err(Why::Parse(why)),
    }
}

/// Of an IP packet that the parser has found whole as far as it went.
fn addresses(ip: &[u8]) -> FlowKey {
    let word = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    if ip[0] >> 4 == 4 {
        return FlowKey::new([0, 0, 0xffff, word(12)], [0, 0, 0xffff, word(16)], 0, 0, ip[9]);
    }
    let address = |at: usize| [word(at), word(at + 4), word(at + 8), word(at + 12)];
    FlowKey::new(address(8), address(24), 0, 0, last_header(ip))
}

/// What stands behind at most four extension headers that end before byte 256.
fn last_header(ip: &[u8]) -> u8 {
    let (mut next, mut at) = (ip[6], 40);
    for _ in 0..4 {
        if !matches!(next, 0 | 43 | 60) || at > 255 {
            break;
        }
        next = ip[at];
        at += (usize::from(ip[at + 1]) + 1) * 8;
    }
    next
}
