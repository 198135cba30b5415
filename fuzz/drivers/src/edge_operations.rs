use crate::input::Input;
use edge::balance::{Balance, Quantity, SCHEMES};
use edge::{hygenicc, reorder, Config, Direction, Edge, Slot, Verdict};
use units::{BitRate, Bytes, Time};
use wire::feedback::Feedback;
use wire::{proto, tcp, Packet};

/// Few enough that flows have to be turned away and forgotten.
const MAX_FLOWS: usize = 4;
const MAX_PAIRS: u32 = 3;
/// Later than any deadline that an edge may ask for.
const LONG: Time = Time::from_secs(5);

/// Any sequence of calls: every held slot comes back once, outgoing segments pass, bounds hold, the last deadline is
/// met. The first bytes choose the configuration, the rest are operations.
pub fn edge_operations(data: &[u8]) {
    let mut input = Input::new(data);
    let config = config(&mut input);
    let mut run = Run { edge: Edge::new(config), now: Time::ZERO, slots: Vec::new() };
    for _ in 0..input.u8() % 4 {
        schedule(&mut run.edge, &mut input);
    }
    while !input.is_empty() {
        operation(&mut run, &mut input);
        run.drain();
    }
    run.finish();
}

fn config(input: &mut Input) -> Config {
    let bits = input.u8();
    let scheme = SCHEMES[usize::from(input.u8()) % SCHEMES.len()];
    let parameter = u64::from(input.u16());
    // Time passes in steps of a microsecond: so that pauses are as often shorter as longer.
    let balance = Balance::new(scheme, |known| match known.default {
        Quantity::Bytes(_) => Some(known.nearest(parameter)),
        // Off as often as not.
        Quantity::Time(_) if known.above.is_some() => Some(known.nearest(parameter % 2 * parameter * 4000)),
        Quantity::Time(_) => Some(known.nearest(parameter * 1000)),
        Quantity::Word(_) => Some(known.nearest(parameter % 4)),
    });
    let timeout = match bits & 2 {
        0 => reorder::Timeout::ADAPTIVE,
        _ => reorder::Timeout::Fixed(Time::from_us(u64::from(input.u16()))),
    };
    let reorder = (bits & 4 != 0).then(|| reorder::Config {
        timeout,
        literal: bits & 8 != 0,
        flow_bytes: Bytes(u64::from(input.u16())),
        total_slots: usize::from(input.u8()),
    });
    let flow_idle = Time::from_ms(10);
    let hygenicc = (bits & 16 != 0).then(|| shares(bits));
    Config {
        balance,
        tcp_only: bits & 1 != 0,
        reorder,
        hygenicc,
        max_flows: MAX_FLOWS,
        flow_idle,
        seed: u64::from(bits),
        ..Config::default()
    }
}

/// Two of the four hosts that packets name are guests here. Buckets are small, so that some packets exceed them.
fn shares(bits: u8) -> hygenicc::Config {
    hygenicc::Config {
        law: if bits & 32 != 0 { hygenicc::Law::Alpha } else { hygenicc::Law::Aiad },
        hold: if bits & 64 != 0 { hygenicc::Hold::Delay(Bytes(500)) } else { hygenicc::Hold::Drop },
        depth: Bytes(1000),
        inactive: Time::from_ms(1),
        admission: (bits & 128 != 0).then_some((0.5, 0.25)),
        guests: (0..2).map(|guest| ([0, 0, 0xffff, guest], 1 + guest as u16)).collect(),
        max_pairs: MAX_PAIRS,
        pair_idle: Time::from_ms(2),
        ..hygenicc::Config::new(BitRate::from_mbps(100), Time::from_us(20))
    }
}

fn schedule(edge: &mut Edge, input: &mut Input) {
    let labels: Vec<u16> = (0..input.u8()).map(|_| u16::from(input.u8())).collect();
    match input.u8() % 4 {
        0 => edge.set_default_schedule(&labels),
        host => edge.set_schedule([0, 0, 0xffff, u32::from(host)], &labels),
    }
}

fn operation(run: &mut Run, input: &mut Input) {
    match input.u8() {
        0..=15 => run.edge.end_batch(run.now),
        16..=31 => run.now = run.now.saturating_add(Time::from_us(u64::from(input.u16()))),
        32..=39 => run.edge.handle_timeout(run.now),
        40..=43 => schedule(&mut run.edge, input),
        44..=75 => run.send(packet(input)),
        76..=91 => run.hear(input),
        _ => run.receive(packet(input)),
    }
}

/// Values that collide, and now and then any value.
fn packet(input: &mut Input) -> Packet {
    let bits = input.u8();
    let wide = bits & 0x80 != 0;
    let near = |input: &mut Input| if wide { input.u32() } else { i32::from(input.u8() as i8) as u32 };
    Packet {
        saddr: [0, 0, 0xffff, u32::from(bits & 3)],
        daddr: [0, 0, 0xffff, u32::from(bits >> 2 & 3)],
        sport: u16::from(bits >> 4 & 1),
        dport: 1,
        seq: near(input).wrapping_mul(4),
        ack: near(input),
        cell: near(input),
        payload: if wide { u32::from(input.u16()) } else { u32::from(input.u8() & 15) * 4 },
        segment_size: u16::from(input.u8() & 3) * 4,
        tcp_flags: if bits & 0x20 != 0 { input.u8() } else { tcp::ACK },
        proto: if bits & 0x40 != 0 { input.u8() } else { proto::TCP },
        marked: bits >> 6 & 1,
        wire: bits >> 5 & 2,
        has_cell: u8::from(input.u8() & 7 != 0),
        family: 4,
        ..Packet::default()
    }
}

/// Where each slot stands, by its number.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Forwarded,
    Held,
    /// For its guest's rate.
    Waiting,
    Released,
}

struct Run {
    edge: Edge,
    now: Time,
    slots: Vec<State>,
}

impl Run {
    fn send(&mut self, mut packet: Packet) {
        let before = packet;
        let slot = self.next_slot();
        packet.wire = self.edge.wire();
        let before = Packet { wire: packet.wire, ..before };
        let verdict = self.edge.process(self.now, Direction::Egress, slot, &mut packet);
        let may_drop = self.edge.config().hygenicc.is_some();
        let state = match verdict {
            Verdict::Forward => State::Forwarded,
            Verdict::Drop(_) if may_drop => State::Forwarded,
            Verdict::Hold if may_drop => State::Waiting,
            verdict => panic!("no stage gives {verdict:?}"),
        };
        self.slots.push(state);
        let Packet { label, cell, has_cell, outer_ecn, dirty, .. } = packet;
        assert_eq!(packet, Packet { label, cell, has_cell, outer_ecn, dirty, ..before }, "only metadata may change");
        assert!(label == before.label || dirty & wire::dirty::LABEL != 0, "a change that the driver is not told");
    }

    /// Anything about paths, from a host that may or may not be a peer.
    fn hear(&mut self, input: &mut Input) {
        let bits = input.u8();
        let host = [0, 0, 0xffff, u32::from(bits & 3)];
        let marked = bits >> 2 & 1;
        let daddr = [0, 0, 0xffff, u32::from(bits >> 1 & 1)];
        let packet =
            Packet { saddr: host, daddr, wire: bits >> 3 & 2, marked, sent_ecn: bits >> 6, ..Packet::default() };
        let told = Feedback { kind: bits >> 4 & 3, path: input.u8(), value: input.u8() };
        let utilisation = (bits & 0x80 != 0).then_some(told.value);
        let label = u16::from(input.u8());
        self.edge.hear(self.now, &packet, label, utilisation, told);
        self.edge.feedback_to(self.now, &Packet { saddr: packet.daddr, daddr: host, label, ..packet });
        for (_, path) in self.edge.paths_to(&host) {
            assert!(path.weight <= 1 << 16, "{path:?}");
        }
    }

    fn receive(&mut self, mut packet: Packet) {
        let slot = self.next_slot();
        let state = match self.edge.process(self.now, Direction::Ingress, slot, &mut packet) {
            Verdict::Forward => State::Forwarded,
            Verdict::Hold => State::Held,
            Verdict::Consume if self.edge.config().hygenicc.is_some() => State::Forwarded,
            verdict => panic!("no stage gives {verdict:?}"),
        };
        self.slots.push(state);
    }

    fn next_slot(&self) -> Slot {
        Slot(self.slots.len() as u32)
    }

    /// Takes what is due, as the contract asks after every call, and checks the bounds.
    fn drain(&mut self) {
        let mut first = true;
        while let Some(release) = self.edge.poll_release(self.now) {
            let state = &mut self.slots[release.slot.0 as usize];
            assert_eq!((release.dir, *state), (Direction::Ingress, State::Held), "slot {}", release.slot.0);
            assert!(!(first && release.joins_previous), "joins a slot that was not released");
            *state = State::Released;
            first = false;
        }
        while let Some(Slot(slot)) = self.edge.poll_departure(self.now) {
            let state = &mut self.slots[slot as usize];
            assert_eq!(*state, State::Waiting, "slot {slot}");
            *state = State::Released;
        }
        while let Some(made) = self.edge.poll_transmit(self.now) {
            assert_eq!((made.dir, made.packet.proto), (Direction::Egress, hygenicc::PROTO));
        }
        assert!(self.edge.pair_count() <= MAX_PAIRS as usize);
        for guest in 0..2 {
            if let Some(share) = self.edge.share(&[0, 0, 0xffff, guest]).filter(|share| share.active) {
                let least = BitRate::from_bps(100_000).min(share.fair);
                assert!(share.rate <= share.fair && share.rate >= least, "{share:?}");
            }
        }
        assert!(self.edge.flow_count() <= MAX_FLOWS);
        let bound = self.edge.config().reorder.as_ref().map_or(0, |reorder| reorder.total_slots);
        assert!(self.held() <= bound, "{} slots held, {bound} allowed", self.held());
    }

    /// After the end of a batch and the last deadline, nothing is held.
    fn finish(mut self) {
        self.edge.end_batch(self.now);
        self.drain();
        if let Some(due) = self.edge.poll_timeout() {
            assert!(due <= self.now.saturating_add(LONG), "a deadline at {due}, {} now", self.now);
        }
        self.now = self.now.saturating_add(LONG);
        self.edge.handle_timeout(self.now);
        self.drain();
        assert_eq!((self.held(), self.edge.poll_timeout()), (0, None));
    }

    fn held(&self) -> usize {
        self.slots.iter().filter(|state| **state == State::Held).count()
    }
}
