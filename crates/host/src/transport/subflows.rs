//! MPTCP's subflows: connections of which one, the first, keeps the books of the messages that all of them carry.

use super::{Group, Place, Stream, Transport};
use crate::connection::{Connection, ConnectionId, Counted, EndId, CLIENT, SERVER};
use crate::mptcp::Config;
use crate::tcp::cc::Path;
use crate::tcp::State;
use units::Time;

impl Transport<'_> {
    /// Makes a new connection the first subflow of a group if guests of its workload speak MPTCP.
    pub(crate) fn begin_group(&mut self, first: ConnectionId, class: u16) {
        let Some(config) = self.mptcp(class) else { return };
        let buffer = self.tcp[usize::from(class)].rcvbuf;
        let group = Group {
            subflows: Vec::new(),
            streams: [Stream::new(buffer), Stream::new(buffer)],
            class,
            wanted: usize::from(config.subflows),
            open: 0,
            closing: false,
        };
        let number = match self.free_groups.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        self.join(number, first);
    }

    /// Workloads whose connections are paced speak TCP.
    fn mptcp(&self, class: u16) -> Option<Config> {
        self.net.experiment.hosts.mptcp.filter(|_| !self.tcp[usize::from(class)].pacing)
    }

    fn join(&mut self, number: u32, connection: ConnectionId) {
        let group = &mut self.groups[number as usize];
        self.connections[connection as usize].group = Some((number, group.subflows.len()));
        group.subflows.push(connection);
        group.open += 1;
        group.streams.iter_mut().for_each(Stream::add_subflow);
    }

    /// The connection that keeps the books for this one.
    pub(crate) fn first_of(&self, index: usize) -> usize {
        match self.connections[index].group {
            Some((number, _)) => self.subflow((number, 0)).map_or(index, |first| first as usize),
            None => index,
        }
    }

    /// Bytes that `end` has in order, over all subflows.
    pub(crate) fn delivered(&self, index: usize, end: usize) -> u64 {
        let connection = &self.connections[index];
        self.delivered_by(connection, end)
    }

    /// Bytes that the server's host has: in order, behind holes, or held by its edge. Of MPTCP what no subflow delivers in order
    /// yet is left out, because it may be a copy.
    pub(crate) fn arrived(&self, index: usize) -> u64 {
        let connection = &self.connections[index];
        match connection.group {
            Some((number, _)) => {
                let stream = &self.groups[number as usize].streams[CLIENT];
                stream.delivered() + stream.ahead()
            }
            None => {
                let rx = &connection.ends[SERVER].rx;
                let edge = &self.net.hosts[connection.hosts[SERVER] as usize].edge;
                rx.delivered() + rx.out_of_order_bytes() + edge.held_bytes(&connection.key(SERVER))
            }
        }
    }

    /// As [`delivered`](Transport::delivered), of a connection at hand.
    pub(crate) fn delivered_by(&self, connection: &Connection, end: usize) -> u64 {
        match connection.group {
            Some((number, _)) => self.groups[number as usize].streams[1 - end].delivered(),
            None => connection.ends[end].rx.delivered(),
        }
    }

    /// The application at `end` writes.
    pub(crate) fn write(&mut self, index: usize, end: usize, bytes: u64) {
        let connection = &mut self.connections[index];
        match connection.group {
            Some((number, _)) => self.groups[number as usize].streams[end].write(bytes),
            None => connection.ends[end].write(bytes),
        }
        self.after_tcp(EndId::new(index as u32, end));
    }

    /// The application at the client takes back what TCP has not sent; returns the end of what stays.
    pub(crate) fn take_back_unsent(&mut self, index: usize) -> u64 {
        let connection = &mut self.connections[index];
        match connection.group {
            Some((number, _)) => self.groups[number as usize].streams[CLIENT].take_back_unsent(),
            None => {
                connection.ends[CLIENT].take_back_unsent();
                connection.ends[CLIENT].tx.written()
            }
        }
    }

    /// The client has nothing more to say.
    pub(crate) fn close_client(&mut self, index: usize) {
        let Some((number, _)) = self.connections[index].group else {
            self.connections[index].ends[CLIENT].close();
            self.after_tcp(EndId::new(index as u32, CLIENT));
            return;
        };
        self.groups[number as usize].closing = true;
        for n in 0..self.groups[number as usize].subflows.len() {
            if let Some(subflow) = self.subflow((number, n)) {
                self.connections[subflow as usize].ends[CLIENT].close();
                self.after_tcp(EndId::new(subflow, CLIENT));
            }
        }
    }

    /// A closed connection leaves its group, which ends with its last one.
    pub(crate) fn leave_group(&mut self, index: usize) {
        let Some((number, _)) = self.connections[index].group.take() else { return };
        let group = &mut self.groups[number as usize];
        group.open -= 1;
        if group.open == 0 {
            self.free_groups.push(number);
        }
    }

    /// What the ends of all subflows have counted.
    pub(crate) fn count(&self, index: usize) -> Counted {
        let connection = &self.connections[index];
        let Some((number, _)) = connection.group else { return connection.count() };
        let subflows = 0..self.groups[number as usize].subflows.len();
        let counts = subflows.filter_map(|n| Some(self.connections[self.subflow((number, n))? as usize].count()));
        counts.fold(Counted::default(), Counted::plus)
    }

    /// The connection at a place, unless it is closed.
    fn subflow(&self, (number, n): Place) -> Option<ConnectionId> {
        let id = self.groups[number as usize].subflows[n];
        let connection = &self.connections[id as usize];
        (connection.live && connection.group == Some((number, n))).then_some(id)
    }

    /// Before a segment reaches an end: its law learns of the other subflows.
    #[inline(never)]
    pub(crate) fn couple(&mut self, id: EndId) {
        let Some((number, me)) = self.connections[id.connection()].group else { return };
        let mut paths = [Path { cwnd: 1.0, rtt: 1.0, between_losses: 0.0 }; MAX_SUBFLOWS];
        let (mut known, mut own) = (0, None);
        for n in 0..self.groups[number as usize].subflows.len() {
            let Some(subflow) = self.subflow((number, n)) else { continue };
            let tx = &self.connections[subflow as usize].ends[id.end()].tx;
            let Some(path) = tx.path() else { continue };
            if n == me {
                own = Some(known);
            }
            paths[known] = path;
            known += 1;
        }
        if let Some(own) = own {
            self.connections[id.connection()].ends[id.end()].tx.couple(&paths[..known], own);
        }
    }

    /// Processes the data-level part of a segment that reached an end.
    #[inline(never)]
    pub(crate) fn after_subflow(&mut self, id: EndId) {
        let Some((number, n)) = self.connections[id.connection()].group else { return };
        let end = &self.connections[id.connection()].ends[id.end()];
        let (arrived, acked) = (end.rx.delivered(), end.tx.acked());
        let established = end.state() == State::Established;
        let group = &mut self.groups[number as usize];
        group.streams[1 - id.end()].on_arrived(n, arrived);
        group.streams[id.end()].on_acked(n, acked);
        if established && id.end() == CLIENT && group.subflows.len() < group.wanted && !group.closing {
            self.open_others(number);
        }
    }

    fn open_others(&mut self, number: u32) {
        let group = &self.groups[number as usize];
        let (class, wanted) = (group.class, group.wanted);
        let [client, server] = self.connections[group.subflows[0] as usize].hosts;
        while self.groups[number as usize].subflows.len() < wanted {
            let id = self.open(class, client, server, false);
            self.join(number, id);
            self.after_tcp(EndId::new(id, CLIENT));
        }
    }

    /// A subflow's retransmission timer ran out.
    pub(crate) fn after_timeout(&mut self, id: EndId) {
        if let Some((number, n)) = self.connections[id.connection()].group {
            self.groups[number as usize].streams[id.end()].on_timeout(n);
        }
    }

    /// Gives data to subflows as long as one can send: of these, the one with the shortest round trip.
    #[inline(never)]
    pub(crate) fn feed(&mut self, number: u32, end: usize) {
        let now = self.net.now();
        loop {
            let mut best: Option<(Time, usize, ConnectionId, u64)> = None;
            for n in 0..self.groups[number as usize].subflows.len() {
                if !self.groups[number as usize].streams[end].has_for(n) {
                    continue;
                }
                let Some(id) = self.subflow((number, n)) else { continue };
                let sender = &mut self.connections[id as usize].ends[end];
                let room = sender.appetite(now);
                let srtt = sender.tx.srtt().unwrap_or(Time::ZERO);
                if room > 0 && best.is_none_or(|(shortest, ..)| srtt < shortest) {
                    best = Some((srtt, n, id, room));
                }
            }
            let Some((_, n, id, room)) = best else { return };
            let bytes = self.groups[number as usize].streams[end].give(n, room);
            if bytes == 0 {
                return;
            }
            self.connections[id as usize].ends[end].write(bytes);
            self.send_from(EndId::new(id, end));
        }
    }
}

/// Of one connection.
pub(crate) const MAX_SUBFLOWS: usize = 16;
