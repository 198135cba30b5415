//! A fabric in parts that run side by side, and what passes between them.
//!
//! Part 0 has all hosts with their ports, and some switches: see [`Cut`]. A port belongs to the part of the node that it leaves. A port
//! between parts is in both of them: at the sender it has queue and wire, at the receiver only the wire.
//!
//! What a port sends to another part travels by mail. The part starts all transmissions that are due by the end of a window, and posts
//! the packets with their times of arrival. These lie beyond the window, because no packet crosses a link between parts in less time than
//! a window lasts. The least such time is the link's delay and the time that a packet of 64 octets takes there; none is smaller. So nobody
//! hears of anything too late, and each part sees the events of its nodes in the order that a fabric in one piece has.

use crate::conga::Header;
use crate::cut::Cut;
use crate::fabric::{Event, Fabric};
use crate::packet::{Hop, Packet};
use crate::port::PortId;
use sim::{Done, Scheduler};
use std::sync::{Arc, Mutex, PoisonError};
use units::Time;

/// A packet on its way from one part to another.
#[derive(Debug)]
pub(crate) struct Message {
    hop: Hop,
    body: Box<Packet>,
    port: PortId,
    /// CONGA's.
    header: Header,
}

const _: () = assert!(size_of::<Message>() == 64);

/// What one part exchanges with the others.
#[derive(Debug)]
pub struct Border {
    cut: Cut,
    me: usize,
    /// Of each part, what has been posted to it.
    inboxes: Arc<[Mutex<Vec<Message>>]>,
    /// To each part, what is about to be posted.
    out: Vec<Vec<Message>>,
    /// Taken out of the inbox.
    read: Vec<Message>,
}

impl Border {
    fn swap(&self, part: usize, with: &mut Vec<Message>) {
        let mut inbox = self.inboxes[part].lock().unwrap_or_else(PoisonError::into_inner);
        match inbox.is_empty() {
            true => std::mem::swap(&mut *inbox, with),
            false => inbox.append(with),
        }
    }

    /// Takes in what other parts have posted: the packets arrive in time.
    pub fn fetch<E: Copy + From<Event>>(&mut self, fabric: &mut Fabric, scheduler: &mut Scheduler<E>) {
        {
            let mut inbox = self.inboxes[self.me].lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *inbox, &mut self.read);
        }
        for message in self.read.drain(..) {
            fabric.receive(message, scheduler);
        }
    }

    /// Posts what has left for other parts by `until`, when the part has handled all events up to there. Returns when there will
    /// be something to do because of it: the first arrival, or the start of the next transmission.
    pub fn post(&mut self, fabric: &mut Fabric, until: Time) -> Time {
        let mut next = Time::MAX;
        let mut ports = std::mem::take(&mut fabric.outgoing);
        ports.retain(|&port| {
            let to = self.cut.owner(fabric.ports[port as usize].to);
            fabric.send_off(port, until, &mut next, &mut self.out[to])
        });
        fabric.outgoing = ports;
        for part in 0..self.out.len() {
            if !self.out[part].is_empty() {
                let mut batch = std::mem::take(&mut self.out[part]);
                self.swap(part, &mut batch);
                self.out[part] = batch;
            }
        }
        next
    }
}

/// Some switches of a fabric and no host, with their own events.
#[derive(Debug)]
pub struct Part {
    pub fabric: Fabric,
    scheduler: Scheduler<Event>,
    border: Border,
}

impl Part {
    /// Does all that happens up to `until`, and posts what leaves for other parts. [`Done::next`] is in picoseconds.
    pub fn work(&mut self, until: Time) -> Done {
        let before = self.scheduler.fired();
        self.border.fetch(&mut self.fabric, &mut self.scheduler);
        while let Some(fired) = self.scheduler.pop_until(until) {
            // Hosts are in part 0: nothing is delivered here.
            let _ = self.fabric.handle(fired.event, &mut self.scheduler);
        }
        let next = self.border.post(&mut self.fabric, until);
        let next = self.scheduler.next_at().map_or(next, |at| at.min(next));
        Done { next: next.as_ps(), load: (self.scheduler.fired() - before) as u32 }
    }

    /// Takes in what was posted, so that all that is under way is on the wires of those who get it.
    pub fn fetch(&mut self) {
        self.border.fetch(&mut self.fabric, &mut self.scheduler);
    }

    /// A link fails or recovers at `now`, before which nothing is due.
    pub fn set_link(&mut self, link: topology::LinkId, up: bool, now: Time) {
        self.scheduler.advance(now);
        self.fabric.set_link(link, up, &mut self.scheduler);
    }

    /// The time of the last event, and how many there were.
    pub fn clock(&self) -> (Time, u64) {
        (self.scheduler.now(), self.scheduler.fired())
    }
}

impl Fabric {
    /// Cuts a fabric in which nothing has happened yet. It becomes part 0 itself; returns what it exchanges with the other parts,
    /// and those.
    pub fn split(&mut self, cut: &Cut) -> (Border, Vec<Part>) {
        for port in &mut self.ports {
            port.cut = cut.owner(port.from) != cut.owner(port.to);
        }
        let tap = self.tap().cloned();
        self.set_tap(None);
        let inboxes: Arc<[Mutex<Vec<Message>>]> = (0..cut.parts).map(|_| Mutex::default()).collect();
        let border = |me| {
            let out = (0..cut.parts).map(|_| Vec::new()).collect();
            Border { cut: cut.clone(), me, inboxes: inboxes.clone(), out, read: Vec::new() }
        };
        let part = |me| Part { fabric: self.empty_copy(), scheduler: Scheduler::new(), border: border(me) };
        let mut parts: Vec<Part> = (1..cut.parts).map(part).collect();
        if let Some(tap) = tap {
            let at = cut.owner(self.ports[tap.port as usize].to);
            let fabric = at.checked_sub(1).map_or(&mut *self, |n| &mut parts[n].fabric);
            fabric.set_tap(Some(tap));
        }
        (border(0), parts)
    }

    /// Starts what is due at a port to another part, and hands over what has left; lowers `next` as [`Border::post`] says. False: the
    /// port has nothing more to send.
    fn send_off(&mut self, port_id: PortId, until: Time, next: &mut Time, out: &mut Vec<Message>) -> bool {
        self.advance(port_id, until.as_ps());
        let port = &mut self.ports[port_id as usize];
        while let Some(id) = port.wire.pop(&mut self.packets) {
            let header = self.conga.as_mut().map_or(Header::NONE, |conga| *conga.header(id, self.packets.high_water()));
            let (hop, body) = self.packets.export(id);
            *next = (*next).min(Time::from_ps(hop.at_ps));
            out.push(Message { hop, body, port: port_id, header });
        }
        if let Some(start) = port.next_start() {
            *next = (*next).min(Time::from_ps(start));
        }
        port.listed = !port.is_idle();
        port.listed
    }

    fn receive<E: Copy + From<Event>>(&mut self, message: Message, scheduler: &mut Scheduler<E>) {
        let Message { hop, body, port: port_id, header } = message;
        let at = Time::from_ps(hop.at_ps);
        let id = self.packets.import(hop, body);
        if let Some(conga) = &mut self.conga {
            *conga.header(id, self.packets.high_water()) = header;
        }
        let port = &mut self.ports[port_id as usize];
        if port.wire.is_empty() {
            scheduler.schedule_ranked(at, port.to, port_id, Event::Arrival { port: port_id }.into());
        }
        port.wire.push(id, &mut self.packets);
    }
}
