//! The text format: one packet a line, `what it is => what becomes of it`.

use crate::frames::merged_ecn;
use crate::inner::{Anchor, Fragment, Inner, Kind, ETHERNET};
use crate::outer::Outer;
use crate::words::{hex, named, number, pair, range, Parsed};
use crate::world::{local, Guest, Verdict, Why, GUEST, LABELS, NEIGHBOUR, PEERS, PORT, STRANGER, VNI};
use edge::names::Names;
use edge::vcc::{self, Law};
use edge::{hygenicc, Balance, Direction};
use units::{BitRate, Bytes, Time};
use wire::feedback::Feedback;
use wire::{pack, proto, reserved, tcp, Packet, TcpOptions};

/// What the edges of one script are configured as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    pub balance: Balance,
    /// Of TCP only.
    pub tcp_only: bool,
    /// Of the flow hash.
    pub seed: u64,
    pub max_flows: usize,
    /// Strangers' packets are delivered.
    pub any_peer: bool,
    /// Of the guest's port: the largest IP packet to peers, bytes; 0: no bound.
    pub mtu: u16,
    /// The same of the neighbour's.
    pub neighbour_mtu: u16,
    /// The guest may only speak under its own address.
    pub strict: bool,
    /// Nothing that the guest sends reaches the host.
    pub isolated: bool,
    /// The edge has a MAC address of its own to answer with.
    pub answers: bool,
    /// Virtual congestion control; `None`: TCP is left alone.
    pub congestion: Option<Congestion>,
    /// The guest's share of the uplink; `None`: it sends as it likes.
    pub share: Option<Share>,
}

/// Of the guest's IPv4 packets: a host of the scripts holds no others in all worlds alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// What it has alone.
    pub uplink: BitRate,
    /// Of the bucket.
    pub depth: Bytes,
}

impl Share {
    /// The bucket holds `depth` whatever the rate, and marks wait for a packet to go with however long it takes.
    pub fn config(&self) -> hygenicc::Config {
        hygenicc::Config {
            depth: self.depth,
            bursts: 0,
            patience: Time::from_secs(600),
            guests: vec![(GUEST.v4, 1)],
            ..hygenicc::Config::new(self.uplink, Time::from_us(100))
        }
    }
}

/// Of all flows, beside the defaults of [`edge::vcc::Class`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congestion {
    pub law: Law,
    /// The window is never larger.
    pub clamp: Option<Bytes>,
}

impl Congestion {
    pub fn config(&self) -> vcc::Config {
        vcc::Config::new(vcc::Class { law: self.law, clamp: self.clamp, ..vcc::Class::default() })
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            balance: Balance::ecmp(),
            tcp_only: false,
            seed: 0,
            max_flows: 1024,
            any_peer: false,
            mtu: 0,
            neighbour_mtu: 0,
            strict: false,
            isolated: false,
            answers: false,
            congestion: None,
            share: None,
        }
    }
}

/// One frame and what must become of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Line of the script, from 1; frames of one range share it.
    pub line: usize,
    pub text: String,
    /// Since the script began.
    pub at: Time,
    pub direction: Direction,
    /// As the edge's interface receives it.
    pub frame: Vec<u8>,
    /// What is to be read from the inner frame, where it can be read at all.
    pub packet: Packet,
    /// Payload bytes per packet of a segment that offload left whole; 0: one packet.
    pub segment_size: u16,
    /// Of a frame from the fabric: the codepoint that leaves the tunnel, before the stages.
    pub arrived_ecn: u8,
    /// The host at the other end of the tunnel speaks plain VXLAN.
    pub plain_peer: bool,
    /// Of a frame from the fabric: version 2, from a peer that may speak it; and it was marked on its way.
    pub two: bool,
    pub marked: bool,
    /// The report in its shim.
    pub shim: Option<[u8; 8]>,
    /// What its header says of a path.
    pub feedback: Feedback,
    pub expected: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    pub verdict: Verdict,
    /// Given exactly where the stages are not reached.
    pub why: Option<Why>,
    /// Outer source port.
    pub label: Option<u16>,
    /// Full number of the flowcell; `None`: it carries none.
    pub cell: Option<u32>,
    /// Codepoint that the guest gets; `None`: as in the inner frame.
    pub ecn: Option<u8>,
    /// A newer flowcell came before.
    pub late: bool,
    /// The window that it leaves with; `None`: as it came.
    pub lowered: Option<u16>,
    /// The report that it leaves with: bytes in all, and marked.
    pub report: Option<(u32, u32)>,
    /// It leaves in version 2, with this codepoint in the outer header.
    pub two: Option<u8>,
    /// It leaves with this feedback on a path.
    pub feedback: Option<Feedback>,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub config: Config,
    pub cases: Vec<Case>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}:{line}: {what}; docs/testing.md describes the format")]
pub struct Error {
    pub name: String,
    pub line: usize,
    pub what: String,
}

impl Script {
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(name: &str, text: &str) -> Result<Script, Error> {
        let mut script = Script { config: Config::default(), cases: Vec::new() };
        let mut at = Time::ZERO;
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let done = match text.split_once(' ') {
                Some(("config", words)) => config(words).map(|config| script.config = config),
                Some(("wait", time)) => pause(time).map(|pause| at += pause),
                _ => cases(line, text, at).map(|cases| script.cases.extend(cases)),
            };
            done.map_err(|what| Error { name: name.to_owned(), line, what })?;
        }
        Ok(script)
    }
}

fn config(words: &str) -> Parsed<Config> {
    let mut config = Config::default();
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} has no value"))?;
        match key {
            "balance" => config.balance = value.parse()?,
            "udp" => config.tcp_only = value == "flow",
            "seed" => config.seed = number(value)?,
            "flows" => config.max_flows = number(value)?,
            "any-peer" => config.any_peer = value == "yes",
            "mtu" => config.mtu = number(value)?,
            "neighbour-mtu" => config.neighbour_mtu = number(value)?,
            "strict" => config.strict = value == "yes",
            "isolated" => config.isolated = value == "yes",
            "answers" => config.answers = value == "yes",
            "law" => {
                let law = Option::<Law>::find(value).and_then(|choice| choice.value);
                let law = law.ok_or_else(|| format!("there is no law {value:?}"))?;
                config.congestion = Some(Congestion { law, clamp: None });
            }
            "clamp" => {
                let law = config.congestion.map_or(Law::None, |congestion| congestion.law);
                config.congestion = Some(Congestion { law, clamp: Some(Bytes(number(value)?)) });
            }
            "uplink" => {
                let uplink = value.parse().map_err(|e: units::ParseError| e.to_string())?;
                config.share = Some(Share { uplink, depth: Bytes::kib(64) });
            }
            "depth" => {
                let share = config.share.as_mut().ok_or("depth= comes after uplink=")?;
                share.depth = Bytes(number(value)?);
            }
            _ => return Err(format!("unknown key {key:?}")),
        }
    }
    Ok(config)
}

/// What the left side of a line says besides the inner frame.
struct Around {
    direction: Direction,
    cut: Option<std::ops::RangeInclusive<usize>>,
    outer: Outer,
    /// Of the outer headers: patches, VLAN tag, cut.
    patches: Vec<(usize, Vec<u8>)>,
    outer_vlan: bool,
    outer_cut: Option<std::ops::RangeInclusive<usize>>,
    ecn_given: bool,
    segment_size: u16,
    /// The inner frame is put into a tunnel once more.
    nested: bool,
}

/// Whole microseconds: the kernel edge's clock of tests has no others.
fn pause(text: &str) -> Parsed<Time> {
    let time: Time = text.trim().parse().map_err(|e: units::ParseError| e.to_string())?;
    let whole = time == Time::from_us(time.as_ns() / 1000) && time <= Time::from_secs(600);
    whole.then_some(time).ok_or_else(|| format!("{time} is no number of microseconds, or longer than 600 s"))
}

fn cases(line: usize, text: &str, at: Time) -> Parsed<Vec<Case>> {
    let (left, right) = text.split_once("=>").ok_or("no => between packet and verdict")?;
    let mut words = left.split_whitespace();
    let direction = match words.next() {
        Some("egress") => Direction::Egress,
        Some("ingress") => Direction::Ingress,
        _ => return Err("neither egress nor ingress".into()),
    };
    let mut inner = kind(words.next().unwrap_or_default(), direction)?;
    let mut around = around(direction);
    let words: Vec<&str> = words.collect();
    for word in &words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !inner_field(&mut inner, key, value)? {
            outer_field(&mut around, key, value)?;
        }
    }
    let mut packet = Packet { segment_size: around.segment_size, ..inner.packet() };
    let expected = expected(right, &mut packet)?;
    if !around.ecn_given {
        around.outer.ecn = inner.packet.ecn;
    }
    let mut whole = inner.frame();
    if around.nested {
        (whole, packet) = nest(&whole, &packet);
    }
    let cuts = around.cut.clone().unwrap_or(whole.len()..=whole.len());
    let plain_peer = match direction {
        Direction::Egress => PEERS.iter().any(|peer| peer.version == 0 && peer.guest.has(&packet.daddr)),
        Direction::Ingress => around.outer.version == 0,
    };
    let mut cases = Vec::new();
    for cut in cuts {
        let cut = cut.min(whole.len());
        let mut frame = whole[..cut].to_vec();
        let headers = usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
        let whole_len = ETHERNET + 4 * inner.vlan.len() + headers + packet.payload as usize;
        let before = frame.len();
        if direction == Direction::Ingress {
            frame = around.outer.write(&frame);
            for (at, bytes) in &around.patches {
                frame.get_mut(*at..at + bytes.len()).ok_or("a patch beyond the frame")?.copy_from_slice(bytes);
            }
            if around.outer_vlan {
                frame.splice(12..12, [0x81, 0, 0, 5]);
            }
        }
        let outer_len = frame.len() - before;
        for cut in around.outer_cut.clone().unwrap_or(frame.len()..=frame.len()) {
            let truncated = u8::from(cut < outer_len + whole_len) | packet.truncated;
            cases.push(Case {
                line,
                text: text.to_owned(),
                at,
                direction,
                frame: frame[..cut.min(frame.len())].to_vec(),
                packet: Packet { truncated, ..packet },
                segment_size: around.segment_size,
                arrived_ecn: merged_ecn(packet.ecn, around.outer.ecn).unwrap_or(packet.ecn),
                plain_peer,
                two: around.outer.version == 2
                    && PEERS.iter().any(|peer| peer.version == 2 && peer.address == around.outer.source),
                marked: around.outer.ecn == 3 || packet.ecn == 3,
                shim: around.outer.shim,
                feedback: around.outer.feedback.map_or_else(Feedback::default, |(kind, path, value)| Feedback {
                    kind,
                    path,
                    value,
                }),
                expected,
            });
        }
    }
    Ok(cases)
}

/// A guest's own tunnel to the same guest: the frame within, as an edge sees it.
fn nest(frame: &[u8], within: &Packet) -> (Vec<u8>, Packet) {
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

fn kind(word: &str, direction: Direction) -> Parsed<Inner> {
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
fn inner_field(inner: &mut Inner, key: &str, value: &str) -> Parsed<bool> {
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

fn flags(letters: &str) -> Parsed<u8> {
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

fn around(direction: Direction) -> Around {
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

fn outer_field(around: &mut Around, key: &str, value: &str) -> Parsed<()> {
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
fn feedback(text: &str) -> Parsed<Feedback> {
    let (kind, rest) = pair(text, ':')?;
    let (path, value) = pair(rest, ':')?;
    Ok(Feedback { kind: number(kind)?, path: number(path)?, value: number(value)? })
}

/// Fields of the headers on the right side correct what the left side says, where bytes were patched.
fn expected(text: &str, packet: &mut Packet) -> Parsed<Expected> {
    let mut words = text.split_whitespace();
    let verdict = named(&Verdict::NAMES, words.next().unwrap_or_default())?;
    let mut expected = Expected {
        verdict,
        why: None,
        label: None,
        cell: None,
        ecn: None,
        late: false,
        lowered: None,
        report: None,
        two: None,
        feedback: None,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "label" => expected.label = Some(number(value)?),
            "cell" => expected.cell = Some(number(value)?),
            "ecn" => expected.ecn = Some(number(value)?),
            "late" => expected.late = true,
            "lowered" => expected.lowered = Some(number(value)?),
            "report" => {
                let (total, ce) = pair(value, ':')?;
                expected.report = Some((number(total)?, number(ce)?));
            }
            "two" => expected.two = Some(number(value)?),
            "feedback" => expected.feedback = Some(feedback(value)?),
            "payload" => packet.payload = number(value)?,
            "mss" => packet.mss = number(value)?,
            "wscale" => packet.wscale = number::<u8>(value)? + 1,
            "no-wscale" => packet.wscale = 0,
            "truncated" => packet.truncated = 1,
            "seq" => packet.seq = number(value)?,
            "window" => packet.window = number(value)?,
            "flags" => packet.tcp_flags = flags(value)?,
            "iplen" => packet.ip_header_len = number(value)?,
            "l4len" => packet.l4_header_len = number(value)?,
            _ => expected.why = Some(named(&Why::NAMES, key)?),
        }
    }
    let explains = matches!(verdict, Verdict::Carry | Verdict::Pass | Verdict::Nobody);
    if explains && expected.why.is_none() {
        return Err(
            "a reason is missing: one of short, malformed, not-ip, fragment, transport, tagged, route, format".into()
        );
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_line() {
        for (text, what) in [
            ("egress tcp4 ports=1>2", "no =>"),
            ("sideways tcp4 => pass short", "neither egress nor ingress"),
            ("egress tcp5 => forward", "unknown kind"),
            ("egress tcp4 oecn=1 => forward", "unknown field \"oecn\" of a guest's frame"),
            ("ingress tcp4 flags=X => forward", "unknown flag"),
            ("ingress tcp4 => pass", "a reason is missing"),
            ("ingress tcp4 set=ip+0:6 => forward", "not hexadecimal"),
            ("config colour=red", "unknown key"),
            ("config depth=7", "after uplink="),
            ("config uplink=fast", "fast"),
        ] {
            let error = Script::parse("x.txt", &format!("# a comment\n{text}")).unwrap_err().to_string();
            assert!(error.starts_with("x.txt:2: ") && error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_make_a_case_for_each_length() {
        let script = Script::parse("x", "egress tcp4 cut=0..53 => pass short").unwrap();
        assert_eq!(script.cases.len(), 54);
        assert_eq!(script.cases[53].frame.len(), 53);
    }
}
