//! A port: an output queue and the wire behind it. Transmissions are evaluated when the wire's head arrives, which is exact
//! because they depend on nothing later.

use crate::classes::Classes;
use crate::codel::{mark, Fate};
use crate::config::{Aqm, Serialiser};
use crate::dre::Dre;
use crate::notify::NotifyStats;
use crate::packet::{Hop, List, PacketId, Packets, MAX_HOPS};
use rustc_hash::FxHashMap;
use sim::Stream;
use topology::NodeId;
use units::{BitRate, Time};

/// One direction of a link: `2 * link` from its `a` end, `2 * link + 1` from its `b` end.
pub type PortId = u32;

/// What a port counted since the start, or since [`crate::Fabric::begin_measurement`] where said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub dropped_packets: u64,
    pub dropped_bytes: u64,
    pub marked_packets: u64,
    /// Longest queue in bytes, measured part.
    pub queue_max: u64,
}

/// An output queue and the wire behind it. In the order in which a hop touches it: two cache lines, then what it leaves alone.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// End of the transmission begun last.
    pub busy_until: u64,
    /// Octets that wait or are being sent.
    pub occupancy: u64,
    serialiser: Serialiser,
    /// Of `occupancy`, the packet being sent.
    sending: u32,
    pub from: NodeId,
    pub to: NodeId,
    /// Packets being sent or under way, in order of arrival.
    pub wire: List,
    /// What waits, where a port has one queue.
    queue: List,
    pub up: bool,
    /// It leads to another part of a fabric that is cut: packets on its wire go there with the next [`crate::Part`]'s post.
    pub cut: bool,
    /// It is among those that the next post looks at.
    pub listed: bool,
    pub to_host: bool,

    pub sent: Sent,
    delay: u64,
    /// What waits, where it has more queues.
    classes: Option<Box<Classes>>,
    /// What few ports do besides sending.
    extras: Option<Box<Extras>>,

    pub lost: Lost,
    before: Unmeasured,
}

/// Of the time before the measured part.
#[derive(Clone, Copy, Debug, Default)]
struct Unmeasured {
    /// Octets whose sending began then, and how long the last of them took after it, ps.
    bytes: u64,
    after_ps: u64,
    /// See [`Port::byte_time`].
    byte_time: u128,
}

/// Changed with every packet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Sent {
    pub packets: u64,
    pub bytes: u64,
    pub queue_max: u64,
    /// Lower and upper half of [`byte_time`](Self::byte_time).
    byte_time: [u64; 2],
}

impl Sent {
    #[inline]
    fn add_byte_time(&mut self, more: u128) {
        self.set_byte_time(self.byte_time() + more);
    }
    #[inline]
    fn set_byte_time(&mut self, sum: u128) {
        self.byte_time = [sum as u64, (sum >> 64) as u64];
    }

    /// Sum over packets that have begun to leave, or were taken out of the queue, of bytes times time in the port, transmission included, in
    /// byte-picoseconds.
    #[inline]
    fn byte_time(&self) -> u128 {
        u128::from(self.byte_time[1]) << 64 | u128::from(self.byte_time[0])
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub packets: u64,
    pub bytes: u64,
    pub marked_packets: u64,
}

impl Lost {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// See [`Port::catch_up`], [`Port::estimate`] and [`Port::measure`].
#[derive(Clone, Debug, Default)]
struct Extras {
    catches_up: bool,
    dre: Option<Dre>,
    telemetry: Option<Telemetry>,
    /// Earliest arrival: packets on the wire when its delay changed arrive first.
    not_before: u64,
}

impl Extras {
    /// A packet that has waited for `waited` is sent at `at`: returns the time that it takes, which would be `tx`.
    fn sent(&mut self, bytes: u64, at: u64, waited: u64, tx: u64) -> u64 {
        if let Some(dre) = &mut self.dre {
            dre.sent(bytes, at);
        }
        let tx = if self.catches_up && waited > 0 { tx - tx / CATCH_UP } else { tx };
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.sent(at, tx);
        }
        tx
    }
}

/// Utilisation over the last full window, as a switch's INT would report it.
#[derive(Clone, Copy, Debug, Default)]
struct Telemetry {
    window_start: u64,
    busy_ps: u64,
    /// What the packet being sent takes after this window.
    later_ps: u64,
    last: u8,
}

/// About ten round trips of a datacenter: long enough to average packets, short enough to be news.
const TELEMETRY_WINDOW_PS: u64 = 100_000_000;

/// A port that catches up needs a tenth less time for each packet.
const CATCH_UP: u64 = 10;

impl Telemetry {
    /// A packet begins to be sent. It counts in the window in which it begins; one that takes longer than a window, on a slow link, in each for its
    /// part of it, or a busy link would seem idle.
    fn sent(&mut self, at: u64, tx: u64) {
        self.roll(at);
        let here = if tx > TELEMETRY_WINDOW_PS { tx.min(self.window_start + TELEMETRY_WINDOW_PS - at) } else { tx };
        self.busy_ps += here;
        self.later_ps = tx - here;
    }

    fn roll(&mut self, at: u64) {
        let passed = at.saturating_sub(self.window_start) / TELEMETRY_WINDOW_PS;
        if passed == 0 {
            return;
        }
        let later = |windows: u64| self.later_ps.saturating_sub(windows * TELEMETRY_WINDOW_PS);
        let busy = if passed == 1 { self.busy_ps } else { later(passed - 2) };
        self.last = (busy.min(TELEMETRY_WINDOW_PS) * 255 / TELEMETRY_WINDOW_PS) as u8;
        (self.busy_ps, self.later_ps) = (later(passed - 1), 0);
        self.window_start = at - at % TELEMETRY_WINDOW_PS;
    }
}

const _: () = assert!(std::mem::offset_of!(Port, sent) == 64 && std::mem::offset_of!(Port, lost) == 128);

impl Port {
    pub(crate) fn new(
        (from, to): (NodeId, NodeId),
        to_host: bool,
        rate: BitRate,
        delay: Time,
        classes: Option<Classes>,
    ) -> Port {
        Port {
            busy_until: 0,
            occupancy: 0,
            serialiser: Serialiser::new(rate),
            sending: 0,
            from,
            to,
            wire: List::default(),
            queue: List::default(),
            up: true,
            cut: false,
            listed: false,
            to_host,
            sent: Sent::default(),
            delay: delay.as_ps(),
            classes: classes.map(Box::new),
            extras: None,
            lost: Lost::default(),
            before: Unmeasured::default(),
        }
    }

    /// Has a transmission ended by `now`? Otherwise [`advance`](Self::advance) would change nothing: an idle port has no queue.
    #[inline(always)]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.busy_until <= now && self.sending != 0
    }

    /// Is nothing being sent?
    pub(crate) fn is_idle(&self) -> bool {
        self.sending == 0
    }

    /// When the next transmission begins, if a packet waits for it.
    pub(crate) fn next_start(&self) -> Option<u64> {
        (self.occupancy > u64::from(self.sending)).then_some(self.busy_until)
    }

    /// Starts every transmission that was due by `now` and returns the octets that have left since. The port must be
    /// [due](Self::is_due).
    ///
    /// Late evaluation is exact: at each enqueue the port is advanced first, so the waiting packets were there when the wire
    /// became free.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: u64, packets: &mut Packets) -> u64 {
        let before = self.occupancy;
        self.end_sending();
        // Half of the time nothing waits.
        if self.occupancy != 0 || self.classes.is_some() {
            self.send_waiting(now, packets);
        }
        before - self.occupancy
    }

    #[inline(always)]
    fn end_sending(&mut self) {
        self.occupancy -= u64::from(self.sending);
        self.sending = 0;
    }

    /// Starts what waits, as far as it was due by `now`, after a transmission that has ended.
    #[inline(never)]
    fn send_waiting(&mut self, now: u64, packets: &mut Packets) {
        while let Some(id) = self.pop_queue(self.busy_until, packets) {
            self.start(id, self.busy_until, packets);
            if self.busy_until > now {
                break;
            }
            self.end_sending();
        }
    }

    /// Puts a packet into its queue or, if the port is idle, on the wire. The port must have been advanced to `now`.
    #[inline]
    pub(crate) fn push(&mut self, id: PacketId, now: u64, packets: &mut Packets) {
        let hop = packets.hop_mut(id);
        hop.at_ps = now;
        self.occupancy += u64::from(hop.wire_len);
        self.sent.queue_max = self.sent.queue_max.max(self.occupancy);
        if self.busy_until <= now {
            self.start(id, now, packets);
            return;
        }
        match &mut self.classes {
            None => self.queue.push(id, packets),
            Some(classes) => classes.push(id, hop.priority, packets),
        }
    }

    /// Active queue management on arrival at a port with such a queue: false drops the packet. The port must have been advanced to now.
    #[inline(never)]
    pub(crate) fn manage(
        &mut self,
        aqm: Aqm,
        queue: u64,
        draws: &mut Stream,
        id: PacketId,
        packets: &mut Packets,
    ) -> bool {
        let congested = match aqm {
            Aqm::Codel(_) => false,
            Aqm::Threshold { k } => queue > k.get(),
            Aqm::Red { kmin, kmax, pmax } => {
                if queue <= kmin.get() {
                    false
                } else if queue > kmax.get() {
                    true
                } else {
                    let span = (kmax.get() - kmin.get()).max(1) as f64;
                    draws.uniform() < pmax * (queue - kmin.get()) as f64 / span
                }
            }
        };
        if !congested {
            return true;
        }
        if mark(id, packets) {
            self.lost.marked_packets += 1;
            return true;
        }
        matches!(aqm, Aqm::Threshold { .. })
    }

    /// Takes in a notification, which waits at least until the pace lets it go. False: there is no room for it. The port must
    /// have been advanced to `now`.
    pub(crate) fn push_notice(&mut self, id: PacketId, now: u64, packets: &mut Packets) -> bool {
        let up = self.up;
        let Some(notices) = self.classes.as_mut().and_then(|classes| classes.notices.as_mut()) else { return false };
        if !up || !notices.fits(id, packets) {
            notices.stats.dropped_packets += 1;
            return false;
        }
        notices.push(id, packets);
        let hop = packets.hop_mut(id);
        hop.at_ps = now;
        self.occupancy += u64::from(hop.wire_len);
        self.kick(now, packets);
        true
    }

    /// Starts to send if it is idle and something may go. The port must have been advanced to `now`.
    pub(crate) fn kick(&mut self, now: u64, packets: &mut Packets) {
        if self.busy_until <= now {
            if let Some(id) = self.pop_queue(now, packets) {
                self.start(id, now, packets);
            }
        }
    }

    /// When the port needs an event of its own to let a notification go, which waits although no data does. Call
    /// [`disarm`](Self::disarm) at that time; `None` until then.
    pub(crate) fn arm(&mut self, now: u64) -> Option<u64> {
        let free_at = self.busy_until.max(now);
        let notices = self.classes.as_mut()?.notices.as_mut().filter(|notices| !notices.armed)?;
        let at = notices.wake_at(free_at)?;
        notices.armed = true;
        Some(at)
    }
    pub(crate) fn disarm(&mut self) {
        if let Some(notices) = self.classes.as_mut().and_then(|classes| classes.notices.as_mut()) {
            notices.armed = false;
        }
    }
    pub(crate) fn notify_stats(&self) -> NotifyStats {
        let notices = self.classes.as_ref().and_then(|classes| classes.notices.as_ref());
        notices.map_or_else(NotifyStats::default, |notices| notices.stats)
    }

    #[inline(always)]
    fn pop_queue(&mut self, at: u64, packets: &mut Packets) -> Option<PacketId> {
        let next = self.queue.pop(packets);
        if next.is_none() && self.classes.is_some() {
            return self.pop_classes(at, packets);
        }
        next
    }

    #[inline(never)]
    fn pop_classes(&mut self, at: u64, packets: &mut Packets) -> Option<PacketId> {
        let (next, picked) = self.classes.as_mut()?.pop(at, self.serialiser.rate, self.occupancy, packets);
        self.lost.marked_packets += picked.marked;
        self.occupancy -= picked.dropped_bytes;
        self.sent.add_byte_time(picked.dropped_byte_time);
        next
    }

    /// Takes out a packet that ranks behind `rank`: it is dropped for one that came later.
    pub(crate) fn evict_behind(&mut self, rank: u32, now: u64, packets: &Packets) -> Option<PacketId> {
        let id = self.classes.as_mut()?.evict_behind(rank)?;
        let bytes = u64::from(packets.hop(id).wire_len);
        self.occupancy -= bytes;
        self.sent.add_byte_time(waited(packets.hop(id), now));
        self.lost.add(bytes);
        Some(id)
    }

    /// What [`evict_behind`](Self::evict_behind) would take out one after the other.
    pub(crate) fn behind(&self, rank: u32) -> impl Iterator<Item = PacketId> + '_ {
        self.classes.iter().flat_map(move |classes| classes.behind(rank))
    }

    /// See [`Classes::arm_picked`].
    pub(crate) fn arm_picked(&mut self) -> bool {
        self.classes.as_mut().is_some_and(|classes| classes.arm_picked())
    }
    pub(crate) fn take_picked(&mut self) -> Vec<(PacketId, Fate)> {
        self.classes.as_mut().map_or_else(Vec::new, |classes| classes.take_picked())
    }

    /// All packets that wait.
    fn waiting<'a>(&'a self, packets: &'a Packets) -> impl Iterator<Item = PacketId> + 'a {
        self.queue.iter(packets).chain(self.classes.iter().flat_map(|classes| classes.iter(packets)))
    }

    /// All packets of this port.
    pub(crate) fn held<'a>(&'a self, packets: &'a Packets) -> impl Iterator<Item = PacketId> + 'a {
        let dropped = self.classes.iter().flat_map(|classes| classes.dropped());
        self.wire.iter(packets).chain(self.waiting(packets)).chain(dropped)
    }

    #[inline(always)]
    fn start(&mut self, id: PacketId, at: u64, packets: &mut Packets) {
        let hop = packets.hop_mut(id);
        let bytes = u64::from(hop.wire_len);
        let (mut tx, mut not_before) = (self.serialiser.tx_ps(bytes), 0);
        if let Some(extras) = &mut self.extras {
            tx = extras.sent(bytes, at, at - hop.at_ps, tx);
            not_before = extras.not_before;
        }
        let end = at + tx;
        self.sent.packets += 1;
        self.sent.bytes += bytes;
        self.sent.add_byte_time(u128::from(bytes) * u128::from(end - hop.at_ps));
        hop.at_ps = (end + self.delay).max(not_before);
        self.sending = hop.wire_len;
        self.busy_until = end;
        let crossed = usize::from(hop.hops());
        hop.count_hop();
        if hop.wants_int() && crossed < MAX_HOPS {
            let telemetry = self.extras.as_ref().and_then(|extras| extras.telemetry.as_ref());
            packets.body_mut(id).utilisation[crossed] = telemetry.map_or(0, |telemetry| telemetry.last);
        }
        self.wire.push(id, packets);
    }

    /// How long the packets that wait, beyond the one being sent, will take to send.
    pub(crate) fn backlog_tx(&self, packets: &Packets) -> Time {
        Time::from_ps(self.waiting(packets).map(|id| self.serialiser.tx_ps(u64::from(packets.hop(id).wire_len))).sum())
    }

    /// Time that the port spent sending in the measured part up to `now`, to which it must have been advanced.
    pub(crate) fn busy(&self, now: u64) -> Time {
        let all = self.before.after_ps + self.serialiser.tx_ps(self.sent.bytes - self.before.bytes);
        Time::from_ps(all.saturating_sub(self.after_ps(now)))
    }

    /// How long the packet being sent takes after `now`, ps.
    fn after_ps(&self, now: u64) -> u64 {
        self.busy_until.saturating_sub(now)
    }

    /// What the port has held in the measured part up to `now`, to which it must have been advanced, in byte-picoseconds.
    pub(crate) fn byte_time(&self, now: u64, packets: &Packets) -> u128 {
        self.byte_time_of_all(now, packets) - self.before.byte_time
    }

    /// The same from the port's beginning on.
    fn byte_time_of_all(&self, now: u64, packets: &Packets) -> u128 {
        let waiting: u128 = self.waiting(packets).map(|id| waited(packets.hop(id), now)).sum();
        self.sent.byte_time() + waiting - u128::from(self.sending) * u128::from(self.after_ps(now))
    }

    /// What has waited is sent faster from now on: see [`crate::Fabric::let_catch_up`].
    pub(crate) fn catch_up(&mut self) {
        self.extras.get_or_insert_default().catches_up = true;
    }
    /// Estimates from now on how busy it is, for CONGA.
    pub(crate) fn estimate(&mut self) {
        self.extras.get_or_insert_default().dre = Some(Dre::default());
    }
    /// CONGA's metric; 0 if nothing estimates it. The port must have been advanced to now.
    pub(crate) fn congestion(&self, now: u64) -> u8 {
        let dre = self.extras.as_ref().and_then(|extras| extras.dre.as_ref());
        dre.map_or(0, |dre| dre.metric(self.serialiser.rate, now))
    }

    /// Measures from now on its utilisation over the last full 100 us, for packets that ask for it.
    pub(crate) fn measure(&mut self) {
        self.extras.get_or_insert_default().telemetry.get_or_insert_default();
    }

    pub(crate) fn stats(&self) -> PortStats {
        let Sent { packets, bytes, queue_max, .. } = self.sent;
        PortStats {
            tx_packets: packets,
            tx_bytes: bytes,
            dropped_packets: self.lost.packets,
            dropped_bytes: self.lost.bytes,
            marked_packets: self.lost.marked_packets,
            queue_max,
        }
    }

    /// The measured part begins `now`, to which the port must have been advanced.
    pub(crate) fn begin_measurement(&mut self, now: u64, packets: &Packets) {
        let byte_time = self.byte_time_of_all(now, packets);
        self.before = Unmeasured { bytes: self.sent.bytes, after_ps: self.after_ps(now), byte_time };
        self.sent.queue_max = self.occupancy;
    }

    pub(crate) fn rate_and_delay(&self) -> (BitRate, Time) {
        (self.serialiser.rate, Time::from_ps(self.delay))
    }

    /// The port must have been advanced to now.
    pub(crate) fn set_wire(&mut self, rate: BitRate, delay: Time, packets: &Packets) {
        if let Some(last) = self.wire.tail() {
            self.extras.get_or_insert_default().not_before = packets.hop(last).at_ps;
        }
        self.serialiser = Serialiser::new(rate);
        self.delay = delay.as_ps();
    }

    /// Takes everything out of queue and wire: the link has failed.
    pub(crate) fn clear(&mut self, now: u64, packets: &mut Packets, mut slots: Option<&mut Vec<u32>>) {
        let (mut bytes, mut count) = (0, 0);
        self.sent.set_byte_time(self.byte_time_of_all(now, packets));
        let waiting = |port: &mut Port, packets: &mut Packets| {
            port.queue.pop(packets).or_else(|| port.classes.as_mut()?.evict(packets))
        };
        while let Some(id) = self.wire.pop(packets).or_else(|| waiting(self, packets)) {
            bytes += u64::from(packets.hop(id).wire_len);
            count += 1;
            if let Some(slots) = slots.as_mut().filter(|_| !packets.hop(id).is_notification()) {
                slots.push(packets.body(id).slot);
            }
            packets.remove(id);
        }
        self.lost.bytes += bytes;
        self.lost.packets += count;
        self.occupancy = 0;
        self.sending = 0;
        self.busy_until = now;
    }
}

/// Bytes times time of a packet that waits.
fn waited(hop: &Hop, now: u64) -> u128 {
    u128::from(hop.wire_len) * u128::from(now.saturating_sub(hop.at_ps))
}

/// By port, how many of those before it leave the same node for the same next one.
pub(crate) fn ranks(ports: &[Port]) -> Vec<u16> {
    let mut seen: FxHashMap<(NodeId, NodeId), u16> = FxHashMap::default();
    let mut rank = |port: &Port| {
        let n = seen.entry((port.from, port.to)).or_default();
        *n += 1;
        *n - 1
    };
    ports.iter().map(&mut rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told at the begin of each of these packets, of which each takes so long and begins so long after the one before, us.
    fn told(tx: u64, every: u64) -> Vec<u8> {
        let mut telemetry = Telemetry::default();
        let packet = |n: u64| {
            telemetry.sent(n * every * 1_000_000, tx * 1_000_000);
            telemetry.last
        };
        (0..20).map(packet).collect()
    }

    #[test]
    fn a_link_on_which_a_packet_takes_long_is_as_busy_as_it_is() {
        // 1,538 octets at 100, 40 and 2 Mb/s, without a pause.
        for tx in [123, 307, 6152] {
            assert!(told(tx, tx)[2..].iter().all(|busy| *busy == 255), "{tx}: {:?}", told(tx, tx));
        }
        // With one: the last full window before a packet begins may be idle, but none is busier than the link.
        assert!(told(307, 1000).iter().all(|busy| *busy == 0));
        let half = told(150, 300);
        assert!(half.iter().all(|busy| *busy == 0 || *busy == 127), "{half:?}");
    }

    #[test]
    fn short_packets_count_where_they_begin() {
        // A tenth, and none after two windows of silence.
        assert!(told(10, 100)[1..].iter().all(|busy| *busy == 25));
        assert!(told(10, 250).iter().all(|busy| *busy == 0));
        assert!(told(50, 50)[2..].iter().all(|busy| *busy == 255));
    }
}
