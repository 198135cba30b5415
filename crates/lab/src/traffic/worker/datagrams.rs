//! Flows of datagrams, at a constant rate without answer, as the simulator has them (`host::workload::Datagrams`).

use super::tally::Tally;
use super::{Note, State};
use crate::traffic::schedule::Start;
use crate::traffic::socket;
use host::workload;
use sim::{Purpose, Stream};
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::PoisonError;
use units::Time;

/// IPv4's and UDP's.
const HEADERS: u16 = 28;
/// Who was not scheduled for longer sends no burst for it.
const LATE: Time = Time::from_ms(20);
/// Datagrams that are read before others get their turn.
const TURN: usize = 64;

struct Sender {
    socket: UdpSocket,
    payload: Vec<u8>,
    /// Between datagrams, on average.
    gap: Time,
    random: Stream,
    due: Time,
    stops: Option<Time>,
}

/// What a host sends and receives of them.
#[derive(Default)]
pub(super) struct Datagrams {
    senders: Vec<Sender>,
    arriving: HashMap<SocketAddr, (u32, Tally)>,
}

impl Datagrams {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.senders.iter().map(|sender| sender.due).min()
    }

    pub(super) fn tallies(&mut self) -> impl Iterator<Item = &mut Tally> {
        self.arriving.values_mut().map(|(_, tally)| tally)
    }

    pub(super) fn send_due(&mut self, now: Time) {
        self.senders.retain(|sender| sender.stops.is_none_or(|at| at > now));
        for sender in &mut self.senders {
            sender.due = sender.due.max(now.saturating_sub(LATE));
            while sender.due <= now {
                // What the host has no room for is not sent; nor is there anybody to tell of an unreachable port.
                let _ = sender.socket.send(&sender.payload);
                // As in the simulator: senders at a constant rate fall into step.
                let gap = sender.gap.as_ps() / 2 + sender.random.below(sender.gap.as_ps().max(1));
                sender.due = sender.due.saturating_add(Time::from_ps(gap));
            }
        }
    }

    /// The run is over.
    pub(super) fn note(&mut self, notes: &mut Vec<Note>) {
        self.senders.clear();
        for (flow, tally) in std::mem::take(&mut self.arriving).into_values() {
            let (bytes, measured) = tally.of(0, u64::MAX);
            notes.push(Note::Received { flow, bytes, measured, info: socket::Info::default() });
            if !tally.series.is_empty() {
                notes.push(Note::Series { flow, bytes: tally.series });
            }
        }
    }
}

impl State<'_, '_> {
    pub(super) fn start_datagrams(&mut self, start: &Start, kind: workload::Datagrams) {
        let sender = match self.sender(start, kind) {
            Ok(sender) => sender,
            Err(error) => return self.fail(start.flow, false, &error),
        };
        self.datagrams.senders.push(sender);
    }

    fn sender(&self, start: &Start, kind: workload::Datagrams) -> io::Result<Sender> {
        let to = self.w.datagram_addresses[start.spec.dst as usize].ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (from, to) = self.ends(start, to);
        let socket = UdpSocket::bind((from, 0))?;
        socket.set_nonblocking(true)?;
        let mut senders = self.w.shared.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.insert(socket.local_addr()?, start.flow);
        socket.connect(to)?;
        let payload = self.w.experiment.hosts.mtu.saturating_sub(HEADERS).max(1);
        Ok(Sender {
            socket,
            payload: vec![0; payload.into()],
            gap: kind.rate.tx_time(payload.into()).max(Time::from_ns(1)),
            random: Stream::new(self.w.experiment.seed, start.flow.into(), Purpose::Datagrams),
            due: self.w.clock.now(),
            stops: start.stops,
        })
    }

    pub(super) fn receive_datagrams(&mut self) {
        let Some(socket) = &self.w.sockets.datagrams else { return };
        for _ in 0..TURN {
            let Ok((bytes, from)) = socket.recv_from(&mut self.scratch) else { return };
            let tally = match self.datagrams.arriving.entry(from) {
                Entry::Occupied(known) => &mut known.into_mut().1,
                Entry::Vacant(new) => {
                    let senders = self.w.shared.senders.lock().unwrap_or_else(PoisonError::into_inner);
                    // Nobody of ours.
                    let Some(&flow) = senders.get(&from) else { continue };
                    &mut new.insert((flow, Tally::new(self.passed_warmup, self.passed_duration))).1
                }
            };
            tally.received += bytes as u64;
        }
    }
}
