//! What others ask a running lab, and what they have it do.

use super::address::address;
use super::driver::Driver;
use super::limit::Queues;
use super::status::{Capture, CapturedFrame, HostStatus, LinkStatus, Status};
use crate::lateness::{Lateness, Verdict};
use std::sync::mpsc::SyncSender;
use units::{BitRate, Time};
use wire::FlowKey;

impl Driver {
    /// Since the lab began, or since the last [`Driver::reset_lateness`].
    pub fn verdict(&self, rtt: Time) -> Verdict {
        self.lateness.verdict(rtt)
    }
    pub fn reset_lateness(&mut self) {
        self.lateness = Lateness::default();
    }

    /// `rtt`: the round trip that lateness is judged by.
    pub fn status(&mut self, rtt: Time) -> Status {
        let now = self.scheduler.now();
        let failed = self.fabric.failed().to_vec();
        let topology = self.fabric.topology().clone();
        let name = |node: u32| topology.nodes[node as usize].name.as_str();
        let mut links = Vec::with_capacity(self.fabric.n_ports());
        for port in 0..self.fabric.n_ports() as u32 {
            let link = port / 2;
            let l = &topology.links[link as usize];
            let (from, to) = if port % 2 == 0 { (l.a, l.b) } else { (l.b, l.a) };
            let queue_bytes = self.fabric.queue_bytes(port, now);
            let stats = self.fabric.stats(port);
            let (rate, delay) = self.fabric.wire(link);
            links.push(LinkStatus {
                link: topology.link_name(link),
                port: format!("{}-{}", name(from), name(to)),
                up: !failed.contains(&link),
                rate,
                delay,
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                dropped_packets: stats.dropped_packets,
                marked_packets: stats.marked_packets,
                queue_bytes,
                queue_max_bytes: stats.queue_max,
            });
        }
        let hosts = self.hosts.iter().enumerate().map(|(h, host)| {
            let edge = host.edge.counters();
            HostStatus {
                name: name(h as u32).to_owned(),
                address: address(h as u32).to_string(),
                edge_flows: host.edge.flow_count(),
                segments_held: edge.reorder.segments_held,
                gaps_filled: edge.reorder.gaps_filled,
                hold_timeouts: edge.reorder.timeouts,
                limiter_backlog_bytes: host.queues.as_ref().map_or(0, Queues::backlog),
                limiter_drops: host.queues.as_ref().map_or(0, |queues| queues.dropped),
                limiter_first_bytes: host.queues.as_ref().map_or(0, Queues::first_bytes),
                limiter_acts: edge.limiter.segments_marked + edge.limiter.acks_marked + edge.limiter.windows_cut,
                counters: host.counters,
            }
        });
        let verdict = self.lateness.verdict(rtt);
        Status {
            time: now,
            links,
            hosts: hosts.collect(),
            flows: self.flows.top(),
            valid: verdict.is_valid(),
            verdict,
            packets: self.fabric.packets.live(),
            packet_hops: self.fabric.packet_hops(),
            frames_free: self.pool.available(),
            frames: self.pool.capacity(),
            frames_exhausted: self.pool_exhausted,
        }
    }

    /// Fails or heals a link now; forwarding tables follow after their delay.
    pub fn set_link(&mut self, link: topology::LinkId, up: bool) {
        self.fabric_event(fabric::Event::Link { link, up });
    }

    /// Gives a link another rate, another delay, or both, from the next packet on. What it has now. A host's pace is not
    /// changed; [`Lab::set_wire`](super::Lab::set_wire) does that, too.
    pub fn set_wire(&mut self, link: topology::LinkId, rate: Option<BitRate>, delay: Option<Time>) -> (BitRate, Time) {
        let (rate_now, delay_now) = self.fabric.wire(link);
        let now = self.scheduler.now();
        self.fabric.set_wire(link, rate.unwrap_or(rate_now), delay.unwrap_or(delay_now), now);
        self.fabric.wire(link)
    }

    /// Sends at most `packets` packets that leave through `port` from now on to `to`, `snap` bytes of each. It replaces a
    /// capture that is running.
    pub fn capture(&mut self, port: fabric::PortId, snap: usize, packets: u64, to: SyncSender<CapturedFrame>) {
        self.capture = Some(Capture::new(to, snap, packets));
        self.fabric.set_tap(Some(fabric::Tap { port, limit: usize::MAX, packets: Vec::new() }));
    }

    /// Path labels that a flow has used in this direction.
    pub fn paths_used(&self, key: &FlowKey) -> u32 {
        self.flows.paths(key)
    }

    pub fn now(&self) -> Time {
        self.scheduler.now()
    }
    /// When the lab began, on the machine's real-time clock: since 1970, as that is set now.
    pub fn begun_real_ns(&self) -> u64 {
        self.clock.begun_real_ns()
    }
    /// When the lab began, on the machine's monotonic clock.
    pub fn begun(&self) -> Time {
        self.clock.begun()
    }
    pub fn stop(&mut self) {
        self.stopping = true;
    }
}
