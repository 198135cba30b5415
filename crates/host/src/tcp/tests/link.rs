//! Two endpoints and a link with a queue, a delay and a fate for each packet.

use crate::tcp::fastlane::Notification;
use crate::tcp::{codepoint, flags, Endpoint, Segment};
use std::collections::BTreeMap;
use units::{BitRate, Time};

/// What the link does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    /// Arrives later by this much: reordering.
    Late(Time),
    Twice,
    Mark,
}

enum Event {
    Arrive(usize, Segment),
    /// The NIC of the other side has sent a probe back.
    Answered(usize, Segment),
    /// A drop becomes known to who sent the packet.
    Told(usize, Segment),
    NicDone(usize, u64),
}

type Tamper = Box<dyn FnMut(usize, &Segment) -> Fate>;

/// Two endpoints and the path between them: in each direction a queue at `rate`, then `delay`.
pub(crate) struct Pair {
    pub(crate) ends: [Endpoint; 2],
    pub(crate) now: Time,
    pub(crate) rate: BitRate,
    pub(crate) delay: Time,
    /// Bytes queued at most, and from how many on ECT packets are marked.
    pub(crate) queue: u64,
    pub(crate) mark_above: u64,
    pub(crate) drops: u64,
    /// Largest queue seen by a data packet, bytes.
    pub(crate) deepest: u64,
    /// Deliver segments as sent, as if GRO had merged them again.
    pub(crate) whole: bool,
    /// Everything sent, with the side and the time.
    pub(crate) log: Vec<(Time, usize, Segment)>,
    pub(crate) keep_log: bool,
    /// Drops have notifications, which take the link's delay.
    pub(crate) tells: bool,
    /// SYNs and pure ACKs that were sent again on one.
    pub(crate) controls_again: u32,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    busy: [Time; 2],
    tamper: Tamper,
}

impl Pair {
    pub(crate) fn new(client: Endpoint, server: Endpoint) -> Pair {
        Pair {
            ends: [client, server],
            now: Time::ZERO,
            rate: BitRate::from_gbps(1),
            delay: Time::from_us(50),
            queue: 1_000_000_000,
            mark_above: u64::MAX,
            drops: 0,
            deepest: 0,
            whole: false,
            log: Vec::new(),
            keep_log: false,
            tells: false,
            controls_again: 0,
            events: BTreeMap::new(),
            sequence: 0,
            busy: [Time::ZERO; 2],
            tamper: Box::new(|_, _| Fate::Pass),
        }
    }

    pub(crate) fn client(&mut self) -> &mut Endpoint {
        &mut self.ends[0]
    }
    pub(crate) fn server(&mut self) -> &mut Endpoint {
        &mut self.ends[1]
    }

    /// Decides the fate of each packet: side that sends, packet.
    pub(crate) fn tamper(&mut self, tamper: impl FnMut(usize, &Segment) -> Fate + 'static) {
        self.tamper = Box::new(tamper);
    }

    /// Drops the data packets of the client with these numbers, in order of sending from 0.
    pub(crate) fn drop_data(&mut self, numbers: &[u64]) {
        let numbers = numbers.to_vec();
        let mut next = 0;
        self.tamper(move |side, segment| {
            if side != 0 || segment.len == 0 {
                return Fate::Pass;
            }
            next += 1;
            if numbers.contains(&(next - 1)) {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.sequence), event);
        self.sequence += 1;
    }

    fn pump(&mut self, side: usize) {
        while let Some(segment) = self.ends[side].poll_transmit(self.now, u64::MAX) {
            check(&self.ends[side]);
            if self.keep_log {
                self.log.push((self.now, side, segment));
            }
            let mut at = self.now;
            for packet in split(&segment, self.whole) {
                at = self.send(side, packet);
            }
            if segment.len > 0 {
                self.schedule(at, Event::NicDone(side, u64::from(segment.len)));
            }
        }
    }

    fn send(&mut self, side: usize, mut packet: Segment) -> Time {
        let fate = (self.tamper)(side, &packet);
        let start = self.busy[side].max(self.now);
        let backlog = self.rate.bytes_in(start - self.now);
        if packet.len > 0 {
            self.deepest = self.deepest.max(backlog);
        }
        if fate == Fate::Drop || backlog > self.queue {
            self.drops += 1;
            if self.tells {
                self.schedule(self.now + self.delay, Event::Told(side, packet));
            }
            return start;
        }
        if (fate == Fate::Mark || backlog > self.mark_above) && packet.ecn != codepoint::NOT_ECT {
            packet.ecn = codepoint::CE;
        }
        let left = start + self.rate.tx_time(u64::from(packet.len) + 78);
        self.busy[side] = left;
        let late = if let Fate::Late(by) = fate { by } else { Time::ZERO };
        self.schedule(left + self.delay + late, Event::Arrive(1 - side, packet));
        if fate == Fate::Twice {
            self.schedule(left + self.delay, Event::Arrive(1 - side, packet));
        }
        left
    }

    /// Hands both what is due, until `deadline`, or until everything written has been acknowledged and nothing is in
    /// the network; returns whether it has.
    pub(crate) fn run(&mut self, deadline: Time) -> bool {
        self.pump(0);
        self.pump(1);
        loop {
            let timer = |end: &Endpoint| end.poll_timeout();
            let timers = [timer(&self.ends[0]), timer(&self.ends[1])];
            let event = self.events.keys().next().map(|key| key.0);
            let Some(next) = [event, timers[0], timers[1]].into_iter().flatten().min() else { break };
            if next > deadline {
                self.now = deadline;
                break;
            }
            if self.events.is_empty() && self.done() && timers.iter().flatten().count() == 0 {
                break;
            }
            assert!(next >= self.now || event.is_none_or(|at| at >= self.now), "time runs backwards");
            self.now = self.now.max(next);
            if event == Some(next) {
                match self.events.pop_first() {
                    Some((_, Event::Arrive(side, probe))) if probe.probe => {
                        self.schedule(self.now + self.delay, Event::Answered(1 - side, probe));
                    }
                    Some((_, Event::Arrive(side, segment) | Event::Answered(side, segment))) => {
                        self.ends[side].on_segment(self.now, &segment);
                        check(&self.ends[side]);
                        self.pump(side);
                    }
                    Some((_, Event::Told(side, packet))) => {
                        let Segment { seq, ack, len, flags, timeouts, probe, .. } = packet;
                        let told = Notification { seq, ack, len, flags, timeouts, probe };
                        self.controls_again += u32::from(self.ends[side].on_notification(&told));
                        check(&self.ends[side]);
                        self.pump(side);
                    }
                    Some((_, Event::NicDone(side, bytes))) => {
                        self.ends[side].on_nic_tx_done(bytes);
                        self.pump(side);
                    }
                    None => {}
                }
            } else {
                let side = usize::from(timers[0] != Some(next));
                self.ends[side].handle_timeout(self.now);
                check(&self.ends[side]);
                self.pump(side);
            }
        }
        self.done()
    }

    pub(crate) fn done(&self) -> bool {
        self.ends.iter().all(|end| end.is_drained())
            && self.ends[0].tx.written() == self.ends[1].rx.delivered()
            && self.ends[1].tx.written() == self.ends[0].rx.delivered()
    }
}

/// What must hold whenever one looks.
pub(crate) fn check(end: &Endpoint) {
    let tx = &end.tx;
    let left = tx.board.sacked() + tx.board.lost() + tx.reno_sacked;
    assert!(left <= tx.outstanding() + tx.board.retrans(), "in flight below zero: {tx:?}");
    assert!(tx.cwnd() >= tx.mss(), "cwnd {} below a segment", tx.cwnd());
    assert!(tx.acked() <= tx.written());
    assert!(tx.board.pending() <= tx.board.lost());
}

/// What the NIC makes of a segment.
fn split(segment: &Segment, whole: bool) -> Vec<Segment> {
    let packets = if whole { 1 } else { segment.packets() };
    if packets == 1 {
        return vec![*segment];
    }
    (0..packets)
        .map(|index| {
            let offset = index * u32::from(segment.segment_size);
            let last = index + 1 == packets;
            let mut packet = *segment;
            packet.seq = segment.seq.wrapping_add(offset);
            packet.len = (segment.len - offset).min(u32::from(segment.segment_size));
            if !last {
                packet.flags &= !(flags::FIN | flags::PSH);
            }
            if index > 0 {
                packet.flags &= !flags::CWR;
            }
            packet
        })
        .collect()
}
