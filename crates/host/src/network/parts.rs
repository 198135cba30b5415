//! A network whose fabric is cut: most switches run on other threads, a window of time after another. Hosts stay here.
//!
//! What concerns the whole network (failures, samples, the bounds of the measured part) happens between windows, when nobody
//! else holds a part. In a network that is not cut the same calls go to the one fabric.

use super::windows::{Elsewhere, Sharing};
use super::Network;
use crate::clock::Event;
use crate::outcome::Windows;
use fabric::{Captured, Cut, Fabric, NotifyStats, Part, PortId, PortStats};
use sim::Crew;
use std::sync::Arc;
use topology::LinkId;
use units::Time;

impl Network<'_> {
    /// Cuts the fabric, in which nothing has happened yet, for so many threads.
    ///
    /// # Errors
    /// Why it is not cut, as the end of a sentence.
    pub(crate) fn split(&mut self, threads: usize) -> Result<Arc<Crew<Part>>, String> {
        if self.fabric.sees_to_picked() {
            return Err("what CoDel drops or quenches is seen to at the moment of another node's event".to_owned());
        }
        let cut = Cut::new(&self.experiment.topology, threads)?;
        let (border, parts) = self.fabric.split(&cut);
        let windows = Windows { parts: parts.len() + 1, threads, lookahead: cut.lookahead(), ..Windows::default() };
        let crew = Arc::new(Crew::new(parts));
        let (next, posted) = (Time::ZERO, Time::MAX);
        self.elsewhere =
            Some(Elsewhere { crew: crew.clone(), cut, border, next, posted, windows, sharing: Sharing::default() });
        Ok(crew)
    }

    /// The next window that has something in it and ends by `limit`: its last moment.
    pub(crate) fn next_window(&mut self, limit: Time) -> Option<Time> {
        let own = self.clock.next_at().unwrap_or(Time::MAX);
        let there = self.elsewhere.as_ref()?;
        let next = own.min(there.next).min(there.posted);
        let last = next.saturating_add(there.cut.lookahead()).saturating_sub(Time::from_ps(1));
        (next <= limit).then_some(last.min(limit))
    }

    /// Takes in what other parts have posted.
    pub(crate) fn fetch(&mut self) {
        if let Some(there) = &mut self.elsewhere {
            there.border.fetch(&mut self.fabric, self.clock.scheduler());
        }
    }

    /// Posts what has left for other parts by `until`.
    pub(crate) fn post(&mut self, until: Time) {
        if let Some(there) = &mut self.elsewhere {
            there.posted = there.border.post(&mut self.fabric, until);
        }
    }

    /// A window is over, in which this part had so many events; the others have something to do again at `next`.
    pub(crate) fn end_window(&mut self, next: Time, own: u64) {
        let Some(there) = &mut self.elsewhere else { return };
        there.next = next;
        there.sharing.add(&mut there.windows, own, there.crew.loads().map(u64::from));
    }

    /// Does something with the fabric that has the node which a port leaves.
    fn at<R>(&mut self, port: PortId, what: impl FnOnce(&mut Fabric) -> R) -> R {
        let link = &self.experiment.topology.links[(port / 2) as usize];
        let node = if port % 2 == 0 { link.a } else { link.b };
        self.with(node, what)
    }

    fn with<R>(&mut self, node: topology::NodeId, what: impl FnOnce(&mut Fabric) -> R) -> R {
        let part = self.elsewhere.as_ref().and_then(|there| Some((there, there.cut.owner(node).checked_sub(1)?)));
        match part {
            Some((there, part)) => what(&mut there.crew.part(part).fabric),
            None => what(&mut self.fabric),
        }
    }

    /// Does something with every part of the fabric, hosts' last.
    fn everywhere(&mut self, mut what: impl FnMut(&mut Fabric)) {
        if let Some(there) = &self.elsewhere {
            for part in 0..there.crew.len() {
                what(&mut there.crew.part(part).fabric);
            }
        }
        what(&mut self.fabric);
    }

    /// Octets that wait at a port or are being sent.
    pub(crate) fn queue_bytes(&mut self, port: PortId) -> u64 {
        let now = self.now();
        self.at(port, |fabric| fabric.queue_bytes(port, now))
    }
    /// Time that a port spent sending in the measured part, up to now.
    pub(crate) fn busy(&mut self, port: PortId) -> Time {
        let now = self.now();
        self.at(port, |fabric| fabric.busy(port, now))
    }
    /// What it held in the measured part up to now, byte-picoseconds.
    pub(crate) fn byte_time(&mut self, port: PortId) -> u128 {
        let now = self.now();
        self.at(port, |fabric| fabric.byte_time(port, now))
    }
    pub(crate) fn notify_stats(&mut self, port: PortId) -> NotifyStats {
        self.at(port, |fabric| fabric.notify_stats(port))
    }
    pub(crate) fn stats(&mut self, port: PortId) -> PortStats {
        let mut stats = self.at(port, |fabric| fabric.stats(port));
        let link = self.experiment.topology.links[(port / 2) as usize];
        let there = self.elsewhere.as_ref();
        if there.is_some_and(|there| there.cut.owner(link.a) != there.cut.owner(link.b)) {
            // What was on the wire when the link failed is counted where it would have arrived.
            let on_wire = self.at(port ^ 1, |fabric| fabric.stats(port));
            stats.dropped_packets += on_wire.dropped_packets;
            stats.dropped_bytes += on_wire.dropped_bytes;
        }
        stats
    }

    /// The first packets that crossed the port that is captured.
    pub(crate) fn captured(&mut self) -> Vec<Captured> {
        let Some((port, _)) = self.experiment.record.capture else { return Vec::new() };
        self.at(port ^ 1, |fabric| fabric.tap().map(|tap| tap.packets.clone()).unwrap_or_default())
    }

    pub(crate) fn begin_measurement(&mut self) {
        let now = self.now();
        self.measuring = true;
        self.everywhere(|fabric| fabric.begin_measurement(now));
        for host in &mut self.hosts {
            host.tx_cpu_busy = Time::ZERO;
            host.rx_cpu_busy = Time::ZERO;
        }
    }

    /// A link fails or recovers; switches learn of it later.
    pub(crate) fn set_link(&mut self, link: LinkId, up: bool) {
        // What is under way on its wire is found where it would arrive.
        self.fetch();
        if let Some(there) = &self.elsewhere {
            for part in 0..there.crew.len() {
                let mut part = there.crew.part(part);
                part.fetch();
                part.set_link(link, up, self.clock.now());
            }
        }
        self.fabric.set_link(link, up, self.clock.scheduler());
        let now = self.now();
        self.schedule_global(now.saturating_add(self.fabric.reroute_after()), Event::Reroute);
    }

    /// Switches have learnt of failures.
    pub(crate) fn reroute(&mut self) {
        self.fabric.reroute();
        if let Some(there) = &self.elsewhere {
            (0..there.crew.len()).for_each(|part| there.crew.part(part).fabric.reroute_as(&self.fabric));
        }
    }

    pub(crate) fn packet_hops(&mut self) -> u64 {
        let mut hops = 0;
        self.everywhere(|fabric| hops += fabric.packet_hops());
        hops
    }
    /// Packets lost on wires, and without a route.
    pub(crate) fn lost_packets(&mut self) -> u64 {
        let mut lost = 0;
        self.everywhere(|fabric| lost += fabric.lost_packets().0 + fabric.lost_packets().1);
        lost
    }
    /// The most packets in each part, added.
    pub(crate) fn peak_packets(&mut self) -> usize {
        let mut peak = 0;
        self.everywhere(|fabric| peak += fabric.packets.high_water());
        peak
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        let here = self.clock.fired() + self.globals.fired();
        self.parts_clocks().map(|(_, events)| events).fold(here, |sum, events| sum + events)
    }

    /// All has happened that does by `until`: ports have sent what they could, and the clock stands at the last event of all parts.
    pub(crate) fn end(&mut self, until: Time) {
        self.everywhere(|fabric| fabric.advance_all(until));
        let last = self.parts_clocks().map(|(at, _)| at).max();
        self.clock.advance(last.unwrap_or(Time::ZERO));
    }

    fn parts_clocks(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        self.elsewhere.iter().flat_map(|there| (0..there.crew.len()).map(|part| there.crew.part(part).clock()))
    }
}
