//! What TCP's calling contract asks for after every call that changed an end.

use super::Transport;
use crate::connection::{EndId, CLIENT, PROBE};
use crate::datagrams::DATAGRAM;
use crate::network::{InNic, Sent};
use fabric::Packet;

impl Transport<'_> {
    /// Sends what the end may send, then sets its timer.
    pub(crate) fn after_tcp(&mut self, id: EndId) {
        self.send_from(id);
        if let Some((group, _)) = self.connections[id.connection()].group {
            self.feed(group, id.end());
        }
    }

    /// The same without the other subflows of an MPTCP connection.
    pub(super) fn send_from(&mut self, id: EndId) {
        let now = self.net.now();
        let (c, e) = (id.connection(), id.end());
        while let Some(segment) = self.connections[c].ends[e].poll_transmit(now, u64::MAX) {
            let packet = self.connections[c].packet(id, &segment);
            self.transmit(packet);
        }
        let connection = &self.connections[c];
        let (timer, deadline, host) = (connection.timers[e], connection.ends[e].poll_timeout(), connection.hosts[e]);
        self.net.clock.set_timer(timer, deadline, host);
    }

    pub(crate) fn transmit(&mut self, packet: Packet) {
        let sent = self.net.transmit(packet);
        if packet.headers.payload == 0 || packet.flow >= PROBE {
            return;
        }
        if packet.flow >= DATAGRAM {
            if !matches!(sent, Sent::Queued { .. }) {
                self.datagram_left(packet.flow, u64::from(packet.headers.payload));
            }
            return;
        }
        let sender = EndId(packet.flow).peer();
        if let Sent::Queued { label } | Sent::NoRoom { label } = sent {
            if sender.end() == CLIENT {
                let first = self.first_of(sender.connection());
                self.connections[first].labels |= 1 << label.min(63);
            }
        }
        if !matches!(sent, Sent::Queued { .. }) {
            // A segment that was dropped leaves TCP's small queue all the same.
            let connection = &mut self.connections[sender.connection()];
            connection.ends[sender.end()].on_nic_tx_done(u64::from(packet.headers.payload));
        }
    }

    fn datagram_left(&mut self, flow: u32, bytes: u64) {
        if let Some(sender) = self.datagrams.get_mut((flow - DATAGRAM) as usize) {
            sender.left(bytes);
        }
    }

    /// A host's NIC has sent a segment of this end.
    pub(crate) fn nic_done(&mut self, done: InNic) {
        if done.sender >= DATAGRAM {
            self.datagram_left(done.sender, done.bytes);
            return;
        }
        let id = EndId(done.sender);
        let connection = &mut self.connections[id.connection()];
        if connection.live {
            connection.ends[id.end()].on_nic_tx_done(done.bytes);
            self.after_tcp(id);
        }
    }

    /// An end's timer expired.
    pub(crate) fn timeout(&mut self, end: EndId) {
        let now = self.net.now();
        let connection = &mut self.connections[end.connection()];
        if !connection.live {
            return;
        }
        let sender = &mut connection.ends[end.end()];
        let timeouts = sender.tx.counters.timeouts;
        sender.handle_timeout(now);
        if sender.tx.counters.timeouts > timeouts {
            self.after_timeout(end);
        }
        self.after_tcp(end);
    }
}
