use crate::input::Input;
use edge::fastlane::{Config, Counters, Resend};
use edge::{Direction, Edge, Slot, Verdict};
use std::collections::BTreeMap;
use units::{Bytes, Time};
use wire::{parse, proto, tcp, Packet};

/// Of the store, with 256 bytes a segment.
const PER_GUEST: u64 = 3_000;
const IN_ALL: u64 = 5_000;
/// Less than any round trip that the edge assumes.
const ROUND_TRIP: Time = Time::from_us(10);

/// Any traffic of two guests, and any notifications, some of them from a frame's bytes: only what a guest has outstanding is sent
/// again, no packet twice within a round trip, the store keeps to its bounds, and every segment is forgotten once.
pub fn notifications(data: &[u8]) {
    play(data);
}

/// As [`notifications`]. Returns what the edge did.
pub fn play(data: &[u8]) -> Counters {
    let mut input = Input::new(data);
    let fastlane = Config { per_guest: Bytes(PER_GUEST), in_all: Bytes(IN_ALL) };
    let flow_idle = Time::from_ms(50);
    let edge = Edge::new(edge::Config { fastlane: Some(fastlane), max_flows: 3, flow_idle, ..edge::Config::default() });
    let mut run =
        Run { edge, now: Time::from_ms(1), slots: 0, kept: BTreeMap::new(), latest: BTreeMap::new(), told: None };
    while !input.is_empty() {
        match input.u8() {
            0..=31 => run.now += Time::from_us(u64::from(input.u8())),
            32..=39 => run.now += Time::from_ms(u64::from(input.u8())),
            40..=47 => run.edge.end_batch(run.now),
            48..=119 => run.send(&mut input),
            120..=159 => run.receive(&mut input),
            160..=175 => run.replay(),
            176..=191 => run.notify_frame(&mut input),
            _ => run.notify(&mut input),
        }
        run.edge.handle_timeout(run.now);
        run.drain();
    }
    run.finish()
}

struct Run {
    edge: Edge,
    now: Time,
    slots: u32,
    kept: BTreeMap<u32, Packet>,
    /// When the edge last sent a packet again: by guest, port, sequence number and payload.
    latest: BTreeMap<(u32, u16, u32, u32), Time>,
    told: Option<Packet>,
}

/// Values that collide, and now and then any value.
fn packet(input: &mut Input) -> Packet {
    let bits = input.u8();
    let near = |input: &mut Input| if bits & 0x80 != 0 { input.u32() } else { u32::from(input.u8() & 15) * 4 };
    let tcp_flags = match bits >> 4 & 7 {
        0 => tcp::SYN,
        1 => tcp::SYN | tcp::ACK,
        2 => input.u8(),
        _ => tcp::ACK,
    };
    Packet {
        saddr: [0, 0, 0xffff, u32::from(bits & 1)],
        daddr: [0, 0, 0xffff, 2 + u32::from(bits >> 1 & 1)],
        sport: u16::from(bits >> 2 & 1),
        dport: 1,
        seq: near(input),
        ack: near(input),
        payload: u32::from(input.u8() & 7) * 4,
        segment_size: u16::from(input.u8() & 1) * 4,
        window: u16::from(input.u8()) << 4,
        l4_header_len: 20 + (input.u8() & 15) * 4,
        ip_header_len: 20,
        tcp_flags,
        proto: if bits & 8 != 0 && bits & 0x80 != 0 { input.u8() } else { proto::TCP },
        family: 4,
        ..Packet::default()
    }
}

fn swapped(p: Packet) -> Packet {
    Packet { saddr: p.daddr, daddr: p.saddr, ..p }
}

impl Run {
    fn send(&mut self, input: &mut Input) {
        let mut packet = packet(input);
        let before = packet;
        self.slots += 1;
        let verdict = self.edge.process(self.now, Direction::Egress, Slot(self.slots), &mut packet);
        assert!(matches!(verdict, Verdict::Forward | Verdict::Drop(edge::DropReason::UnderWay)), "{verdict:?}");
        if let Some(slot) = self.edge.poll_kept() {
            assert_eq!((slot, verdict), (Slot(self.slots), Verdict::Forward));
            self.kept.insert(slot.0, before);
        }
    }

    fn receive(&mut self, input: &mut Input) {
        let p = packet(input);
        let mut packet = Packet { sport: p.dport, dport: p.sport, ..swapped(p) };
        let before = packet;
        assert_eq!(self.edge.process(self.now, Direction::Ingress, Slot(0), &mut packet), Verdict::Forward);
        let (window, dirty) = (packet.window, packet.dirty);
        assert_eq!(packet, Packet { window, dirty, ..before }, "only the window may change");
        assert!(window <= before.window && (window == before.window || dirty & wire::dirty::WINDOW != 0));
    }

    fn notify(&mut self, input: &mut Input) {
        let told = swapped(packet(input));
        self.told = Some(told);
        self.edge.notified(self.now, &told);
    }

    fn replay(&mut self) {
        if let Some(told) = self.told {
            self.edge.notified(self.now, &told);
        }
    }

    /// As a switch makes one of a frame, or as the frame says.
    fn notify_frame(&mut self, input: &mut Input) {
        let frame: Vec<u8> = (0..input.u8() % 80).map(|_| input.u8()).collect();
        let notification = wire::notification::notification(&frame).unwrap_or(frame);
        if let Ok(told) = parse(&notification) {
            self.edge.notified(self.now, &told);
        }
    }

    fn drain(&mut self) {
        while let Some(Resend { slot, index, .. }) = self.edge.poll_resend() {
            let mut packet = *self.kept.get(&slot.0).expect("only what is kept is sent again");
            let size = u32::from(packet.segment_size);
            let offset = index * size;
            assert!(offset == 0 || offset < packet.payload, "packet {index} of {packet:?}");
            packet.seq = packet.seq.wrapping_add(offset);
            packet.payload = if size == 0 { packet.payload } else { (packet.payload - offset).min(size) };
            packet.segment_size = 0;
            let name = (packet.saddr[3] << 8 | packet.daddr[3], packet.sport, packet.seq, packet.payload);
            let before = self.latest.insert(name, self.now);
            let spaced = before.is_none_or(|before| self.now >= before + ROUND_TRIP || packet.has_flags(tcp::SYN));
            assert!(spaced || packet.payload == 0, "twice within a round trip");
            self.slots += 1;
            let verdict = self.edge.process_resent(self.now, Slot(self.slots), &mut packet, None);
            assert_eq!((verdict, self.edge.poll_kept()), (Verdict::Forward, None));
        }
        while let Some(Slot(slot)) = self.edge.poll_forgotten() {
            let packet = self.kept.remove(&slot).expect("forgotten once");
            // A number that is used anew, by another connection, may be sent again at once.
            self.latest.retain(|(hosts, port, ..), _| {
                (*hosts, *port) != (packet.saddr[3] << 8 | packet.daddr[3], packet.sport)
            });
        }
        while let Some(made) = self.edge.poll_transmit(self.now) {
            assert_eq!((made.dir, made.packet.payload, made.packet.tcp_flags), (Direction::Ingress, 0, tcp::ACK));
        }
        let held = |guest: Option<u32>| -> u64 {
            let of = self.kept.values().filter(|p| guest.is_none_or(|guest| p.saddr[3] == guest));
            of.map(|p| u64::from(p.payload) + 256).sum()
        };
        assert!(held(None) <= IN_ALL && held(Some(0)) <= PER_GUEST && held(Some(1)) <= PER_GUEST);
        let c = self.edge.counters().fastlane;
        let acted = c.resent + c.told + c.left + c.postponed;
        let ignored = c.untracked + c.empty + c.acked + c.outside + c.stale + c.repeated + c.unkept;
        assert_eq!(c.notifications, acted + ignored, "each counts once");
    }

    /// Idle flows keep nothing.
    fn finish(mut self) -> Counters {
        self.now += Time::from_secs(60);
        self.edge.handle_timeout(self.now);
        self.drain();
        self.edge.end_batch(self.now);
        self.drain();
        assert!(self.kept.is_empty(), "{:?}", self.kept);
        assert_eq!(self.edge.flow_count(), 0);
        self.edge.counters().fastlane
    }
}
