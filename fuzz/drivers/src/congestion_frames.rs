use crate::input::Input;
use edge::names::Names;
use edge::vcc::{Class, Config as Congestion, Law};
use edge::{Config, Direction, Edge, Slot, Verdict};
use units::{Bytes, Time};
use wire::checksum::Sum;
use wire::{ecn, emit, pack, parse, proto, reserved, tcp, v4, write_back_resized, Packet, TcpOptions};

/// Fewer than there are connections, so that some find no room.
const MAX_FLOWS: usize = 3;
const CONNECTIONS: usize = 4;
/// What a call may have the edge send by itself: a report, or the duplicates of each flow's timeout.
const MAX_SENT: usize = 3 * MAX_FLOWS;

/// Any stream of frames of a few connections, in both directions, through an edge with virtual congestion control: no
/// window is raised, none closed that its receiver left open, checksums stay right, nothing else of a frame changes, and
/// what the edge remembers or sends by itself stays within its bounds.
pub fn congestion_frames(data: &[u8]) {
    let mut input = Input::new(data);
    let config = Config {
        congestion: Some(congestion(&mut input)),
        max_flows: MAX_FLOWS,
        flow_idle: Time::from_ms(200),
        ..Config::default()
    };
    let mut run = Run { edge: Edge::new(config), now: Time::from_ms(1), ends: Default::default() };
    while !input.is_empty() {
        run.operation(&mut input);
    }
    assert!(run.edge.poll_timeout().is_none_or(|due| due <= run.now.saturating_add(Time::from_secs(3600))));
}

fn congestion(input: &mut Input) -> Congestion {
    let bits = input.u8();
    let size = |input: &mut Input, on: bool| on.then(|| Bytes(u64::from(input.u16()) + 1));
    let laws: Vec<Law> = Option::<Law>::table().iter().filter_map(|choice| choice.value).collect();
    let law = laws[usize::from(input.u8()) % laws.len()];
    let class = Class {
        law,
        beta: u16::from(input.u8()) * 4,
        clamp: size(input, bits & 4 != 0),
        floor: size(input, bits & 8 != 0),
        police: bits & 16 != 0,
        observe: bits & 32 != 0,
    };
    Congestion::new(class).duplicate_acks(bits & 64 == 0).rto_min(Time::from_us(u64::from(input.u16())))
}

/// What a receiver of one direction may be offered: the widest window of its peer so far.
#[derive(Clone, Copy, Default)]
struct End {
    next: u32,
    widest: u16,
}

struct Run {
    edge: Edge,
    now: Time,
    /// Guest and peer of each connection.
    ends: [[End; 2]; CONNECTIONS],
}

impl Run {
    fn operation(&mut self, input: &mut Input) {
        match input.u8() {
            0..=31 => {
                self.now += Time::from_us(u64::from(input.u16()));
                self.edge.handle_timeout(self.now);
                self.drain();
            }
            32..=35 => {
                self.edge.set_congestion(self.now, &congestion(input));
                self.edge.handle_timeout(self.now);
                self.drain();
            }
            36..=39 => self.edge.end_batch(self.now),
            40..=127 => self.frame(Direction::Egress, input),
            _ => self.frame(Direction::Ingress, input),
        }
        assert!(self.edge.flow_count() <= MAX_FLOWS);
    }

    fn frame(&mut self, direction: Direction, input: &mut Input) {
        let (connection, packet, options) = self.packet(direction, input);
        let Ok(frame) = emit(&packet, &options) else { return };
        let mut parsed = parse(&frame).expect("an emitted frame parses");
        parsed.segment_size = packet.segment_size;
        let before = parsed;
        let verdict = self.edge.process(self.now, direction, Slot(0), &mut parsed);
        if direction == Direction::Ingress && before.tcp_flags & tcp::ACK != 0 {
            let end = &mut self.ends[connection][0];
            end.widest = end.widest.max(before.window);
        }
        self.drain();
        match verdict {
            Verdict::Forward => {}
            Verdict::Drop(_) => return assert_eq!(direction, Direction::Egress, "only guests are policed"),
            Verdict::Consume => return assert_eq!(direction, Direction::Ingress, "only edges make reports"),
            Verdict::Hold => panic!("nothing reorders here"),
        }
        let mut written = frame.clone();
        write_back_resized(&parsed, &mut written).expect("what the stages did can be written");
        let after = parse(&written).expect("it is a frame still");
        checksums_are_right(&written, &after);
        same_but_for_congestion(&before, &after);
        if direction == Direction::Egress {
            assert_eq!(after.window, before.window, "the guest's own window is its own business");
        } else {
            assert!(after.window <= before.window, "a window was raised");
            assert!(after.window > 0 || before.window == 0, "a window was closed");
            if before.tcp_reserved & reserved::EDGE != 0 {
                assert_eq!((after.tcp_reserved, after.pack), (0, pack::NONE), "the edges' words are not the guest's");
            }
        }
    }

    /// Takes what the edge sends by itself.
    fn drain(&mut self) {
        let mut sent = 0;
        while let Some(transmit) = self.edge.poll_transmit(self.now) {
            sent += 1;
            let packet = transmit.packet;
            let frame = emit(&packet, &TcpOptions::default()).expect("it can be sent");
            let read = parse(&frame).expect("and read");
            assert_eq!((read.payload, read.flow_key()), (0, packet.flow_key()));
            if transmit.dir == Direction::Egress {
                assert_eq!((read.pack, read.tcp_flags), (pack::OK, 0), "a report and nothing else");
            } else {
                assert_eq!((read.pack, read.tcp_flags), (pack::NONE, tcp::ACK));
                let widest = self.ends[usize::from(packet.dport) % CONNECTIONS][0].widest;
                assert!(read.window <= widest, "{} offered, {widest} at most by the receiver", read.window);
            }
        }
        assert!(sent <= MAX_SENT, "{sent} packets at once");
    }

    /// A packet of one of the connections: near what is expected of it, and now and then anything.
    fn packet(&mut self, direction: Direction, input: &mut Input) -> (usize, Packet, TcpOptions) {
        let bits = input.u8();
        let connection = usize::from(bits & 3);
        let (from, to) = match direction {
            Direction::Egress => (0, 1),
            Direction::Ingress => (1, 0),
        };
        let wide = bits & 0x80 != 0;
        let near = |input: &mut Input| match wide {
            true => input.u32(),
            false => (i32::from(input.u8() as i8) * 724) as u32,
        };
        let kind = input.u8();
        let tcp_flags = match kind & 15 {
            0 => tcp::SYN,
            1 | 2 => tcp::SYN | tcp::ACK | if kind & 16 != 0 { tcp::ECE } else { 0 },
            3 => tcp::FIN | tcp::ACK,
            4 => input.u8(),
            _ => tcp::ACK,
        };
        let syn = tcp_flags & tcp::SYN != 0;
        let payload = if kind & 32 != 0 || syn { 0 } else { u32::from(input.u8()) * 256 };
        let [seq_off, ack_off] = if kind & 64 != 0 { [near(input), near(input)] } else { [0, 0] };
        let ends = self.ends[connection];
        let seq = ends[from].next.wrapping_add(seq_off);
        let words = input.u8();
        let tcp_reserved = match words & 3 {
            0 => words >> 4 & reserved::MASK,
            1 => reserved::EDGE | reserved::ECT,
            _ => reserved::EDGE,
        };
        let reports = words & 12 == 0 && tcp_flags & tcp::SYN == 0;
        let counters = |input: &mut Input| if wide { input.u32() } else { u32::from(input.u16()) }.to_be_bytes();
        let ([_, a, b, c], [_, d, e, f]) = if reports { (counters(input), counters(input)) } else { ([0; 4], [0; 4]) };
        let port = 40_000 + connection as u16;
        let (guest, peer) = (v4([10, 0, 0, 1]), v4([10, 0, 0, 2]));
        let sixes = |address: [u32; 4]| [0xfd00_0000, 0, 0, address[3]];
        let family = if bits & 4 != 0 { 6 } else { 4 };
        let address = |end: usize| match (end == 0, family) {
            (true, 4) => guest,
            (false, 4) => peer,
            (true, _) => sixes(guest),
            (false, _) => sixes(peer),
        };
        let packet = Packet {
            saddr: address(from),
            daddr: address(to),
            sport: if from == 0 { port } else { 80 },
            dport: if from == 0 { 80 } else { port },
            proto: proto::TCP,
            family,
            seq,
            ack: ends[to].next.wrapping_add(ack_off),
            tcp_flags,
            payload,
            segment_size: if payload > 1448 && bits & 8 != 0 { 1448 } else { 0 },
            window: if bits & 16 != 0 { u16::from(bits >> 5) } else { input.u16() },
            mss: if syn { input.u16() } else { 0 },
            wscale: match if syn { input.u8() } else { 0 } {
                0xf0.. => wire::SIGNED,
                scale => scale & 15,
            },
            ecn: if words & 0x80 != 0 { ecn::CE } else { words >> 4 & 3 },
            tcp_reserved: if reports { tcp_reserved | reserved::PACK } else { tcp_reserved },
            pack: if reports { pack::OK } else { pack::NONE },
            pack_total: [a, b, c],
            pack_ce: [d, e, f],
            ..Packet::default()
        };
        if seq_off == 0 {
            self.ends[connection][from].next = packet.end_seq();
        }
        let options = TcpOptions {
            timestamps: (kind & 128 != 0).then_some((u32::from(kind), 1)),
            n_sack: if syn { 0 } else { words >> 6 },
            ..TcpOptions::default()
        };
        (connection, packet, options)
    }
}

/// Of a whole frame without VLAN tags.
fn checksums_are_right(frame: &[u8], packet: &Packet) {
    let l4 = 14 + usize::from(packet.ip_header_len);
    if packet.family == 4 {
        assert_eq!(Sum::default().bytes(&frame[14..l4]).finish(), 0, "the IP checksum");
    }
    let addresses = if packet.family == 4 { 3..4 } else { 0..4 };
    let sum = addresses.fold(Sum::default(), |sum, i| sum.word(packet.saddr[i]).word(packet.daddr[i]));
    let sum = sum.word(u32::from(packet.proto)).word((frame.len() - l4) as u32).bytes(&frame[l4..]);
    assert_eq!(sum.finish(), 0, "the TCP checksum");
}

/// Congestion control may change the window, ECN in both headers, reserved bits and its option; and the number of an ACK without data,
/// which may become that of what comes next.
fn same_but_for_congestion(before: &Packet, after: &Packet) {
    let neutral = |p: &Packet| Packet {
        seq: 0,
        window: 0,
        ecn: 0,
        tcp_flags: p.tcp_flags & !(tcp::ECE | tcp::CWR),
        tcp_reserved: 0,
        pack: 0,
        pack_total: [0; 3],
        pack_ce: [0; 3],
        l4_header_len: 0,
        segment_size: 0,
        dirty: 0,
        emit: 0,
        ..*p
    };
    assert_eq!(neutral(before), neutral(after));
    let pure = before.payload == 0 && before.tcp_flags & (tcp::ACK | tcp::SYN | tcp::FIN | tcp::RST) == tcp::ACK;
    let moved = after.seq.wrapping_sub(before.seq);
    assert!(moved == 0 || (pure && (2..=1 << 30).contains(&moved)), "{} became {}", before.seq, after.seq);
    if before.tcp_flags & tcp::SYN != 0 {
        assert_eq!((before.tcp_flags, before.window), (after.tcp_flags, after.window), "SYNs negotiate by themselves");
    }
}
