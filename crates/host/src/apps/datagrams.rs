//! Flows of datagrams: senders, and what reaches their receivers.

use super::Apps;
use crate::clock::Event;
use crate::datagrams::{Sender, DATAGRAM, MAX_SENDERS};
use crate::nic::Segment;
use crate::workload::{Datagrams, FlowSpec};

impl Apps<'_> {
    pub(super) fn start_datagrams(&mut self, spec: &FlowSpec, record: u32, kind: Datagrams) {
        let experiment = self.transport.net.experiment;
        let workload = &experiment.workloads[usize::from(spec.class)];
        let number = self.transport.datagrams.len();
        if number >= MAX_SENDERS {
            return;
        }
        let sender = Sender::new(
            (experiment.seed, number),
            spec,
            record,
            kind,
            workload.guest,
            experiment.hosts.mtu,
            workload.priority,
        );
        self.transport.datagrams.push(sender);
        self.datagram_event(number as u32);
    }

    /// A sender's next datagram is due.
    pub(crate) fn datagram_event(&mut self, number: u32) {
        let now = self.now();
        let sender = &mut self.transport.datagrams[number as usize];
        if !sender.live || now > self.transport.net.experiment.duration {
            return;
        }
        let (src, (packet, next)) = (sender.src, sender.next(now));
        if let Some(packet) = packet {
            self.transport.transmit(packet);
        }
        self.transport.net.clock.schedule(next, src, Event::Datagram { number });
    }

    #[inline(never)]
    pub(super) fn datagram_arrived(&mut self, segment: &Segment) {
        let number = (segment.packet.flow - DATAGRAM) as usize;
        let Some(sender) = self.transport.datagrams.get(number) else { return };
        let record = &mut self.flows[sender.record as usize];
        let bytes = u64::from(segment.packet.headers.payload);
        record.delivered += bytes;
        record.segments_received = record.segments_received.wrapping_add(1);
        if self.transport.net.measuring {
            record.delivered_measured += bytes;
        }
    }

    /// Stops the sender of a flow. False: it has none.
    pub(super) fn stop_datagrams(&mut self, flow: u32) -> bool {
        let Some(sender) = self.transport.datagrams.iter_mut().find(|s| s.record == flow) else { return false };
        sender.live = false;
        self.flows[flow as usize].finish = Some(self.now());
        true
    }
}
