//! A run's clock: its events, and the timers of connections and edges.

use crate::connection::EndId;
use sim::{Fired, NodeId, Scheduler, TimerId, Timers};
use units::Time;

/// The fabric's events stand flat among the host's, which keeps an event at eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Arrival {
        port: u32,
    },
    Link {
        link: u32,
        up: bool,
    },
    Reroute,
    Release {
        port: u32,
    },
    Picked {
        port: u32,
    },
    /// A controller changes schedules.
    Control,
    /// The transmit side of a host may go on.
    Tx,
    /// A host's receive poll.
    Poll {
        generation: u16,
    },
    /// A host has handled a packet.
    Served,
    Timer {
        id: TimerId,
        generation: u16,
    },
    /// A workload's next flow starts.
    Source {
        index: u32,
    },
    /// A flow without an end stops all the same.
    Stop {
        flow: u32,
    },
    /// A sender's next datagram is due.
    Datagram {
        number: u32,
    },
    Probe,
    /// A host's discovery of paths has something to do.
    Discover,
    Sample,
    /// After the measured part: is anything left to do?
    Check,
    BeginMeasurement,
    EndMeasurement,
}

impl From<fabric::Event> for Event {
    fn from(event: fabric::Event) -> Event {
        match event {
            fabric::Event::Arrival { port } => Event::Arrival { port },
            fabric::Event::Link { link, up } => Event::Link { link, up },
            fabric::Event::Reroute => Event::Reroute,
            fabric::Event::Release { port } => Event::Release { port },
            fabric::Event::Picked { port } => Event::Picked { port },
        }
    }
}

/// The event queue moves these through its heap.
const _: () = assert!(size_of::<Event>() == 8);

/// Whose timer it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    End(EndId),
    Edge(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    scheduler: Scheduler<Event>,
    timers: Timers,
    /// By timer.
    owners: Vec<Owner>,
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        self.scheduler.now()
    }

    /// Events fired so far.
    pub(crate) fn fired(&self) -> u64 {
        self.scheduler.fired()
    }

    pub(crate) fn schedule(&mut self, at: Time, node: NodeId, event: Event) {
        self.scheduler.schedule(at, node, event);
    }

    #[inline(always)]
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<Fired<Event>> {
        self.scheduler.pop_until(until)
    }

    /// When the next event is due.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.scheduler.next_at()
    }

    /// Moves to a time before which nothing is due; back, never.
    pub(crate) fn advance(&mut self, to: Time) {
        self.scheduler.advance(to);
    }

    /// For the fabric, which schedules its own events.
    pub(crate) fn scheduler(&mut self) -> &mut Scheduler<Event> {
        &mut self.scheduler
    }

    pub(crate) fn add_timer(&mut self, owner: Owner) -> TimerId {
        self.owners.push(owner);
        self.timers.add()
    }

    /// Sets a timer of something at `node`; `None` cancels it.
    pub(crate) fn set_timer(&mut self, id: TimerId, deadline: Option<Time>, node: NodeId) {
        let event = |id, generation| Event::Timer { id, generation };
        self.timers.set(id, deadline, node, &mut self.scheduler, event);
    }

    /// A timer's event fired. Returns the owner if the timer has expired.
    pub(crate) fn expire(&mut self, id: TimerId, generation: u16, node: NodeId) -> Option<Owner> {
        let event = |id, generation| Event::Timer { id, generation };
        let expired = self.timers.fire(id, generation, node, &mut self.scheduler, event);
        expired.then(|| self.owners[id as usize])
    }
}
