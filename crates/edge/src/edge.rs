//! The edge of one host: the stages of `datapath/edge.h` around a flow table, then holding and reordering.

mod hides;
mod notified;

use crate::balance::Keeps;
use crate::deadlines::Deadlines;
use crate::fastlane::FastLane;
use crate::hygenicc::{Held, Hygenicc, Share};
use crate::native::{self, Conf, LimitQueue, Paths, Stages};
use crate::reorder::Engine;
use crate::schedule::{Rebound, Relays, Schedules};
use crate::table::Table;
use crate::{limiter, vcc, Config, Counters, Direction, DropReason, Known, Release, Slot, Transmit, Verdict};
use std::collections::VecDeque;
use units::Time;
use wire::feedback::{self, Feedback};
use wire::{pack, reserved, version, FlowKey, Packet};

pub use hides::Departure;

/// How often a batch looks for flows that expired. With the table's 8 a time, 64 Ki flows take 8 s.
const SWEEP_INTERVAL: Time = Time::from_ms(1);

/// One edge. `now` is an argument of every call and never decreases; the edge owns no bytes and no clock.
///
/// Give each segment to [`process`](Edge::process), and call [`end_batch`](Edge::end_batch) when the NIC poll ends:
/// without it, held segments stay. After `process`, drain [`poll_transmit`](Edge::poll_transmit), whose packets go
/// before the given one, then act on the verdict. After that, as after `end_batch` and
/// [`handle_timeout`](Edge::handle_timeout), drain [`poll_release`](Edge::poll_release),
/// [`poll_departure`](Edge::poll_departure) and `poll_transmit`, then read [`poll_timeout`](Edge::poll_timeout).
///
/// An edge that neither balances nor reorders nor controls congestion nor limits forwards everything and remembers nothing.
#[derive(Debug)]
pub struct Edge {
    config: Config,
    /// Of [`Config::balance`].
    keeps: Option<Keeps>,
    stages: Stages,
    stateful: bool,
    /// Connections are, for congestion control or for a limiter.
    follows: bool,
    /// Per class of the limiter.
    queues: Vec<LimitQueue>,
    schedules: Schedules,
    relays: Relays,
    /// When the states of paths are due for their tick; `None`: there are none.
    paths_tick: Option<Time>,
    table: Table,
    reorder: Option<Engine>,
    deadlines: Deadlines,
    hygenicc: Option<Hygenicc>,
    fastlane: Option<FastLane>,
    /// The segment under way is the edge's own.
    resending: bool,
    transmit: VecDeque<Transmit>,
    counters: Counters,
    next_sweep: Time,
}

impl Edge {
    pub fn new(config: Config) -> Edge {
        let conf = Conf { idle_ns: config.flow_idle.as_ns(), balance: config.balance.conf(config.tcp_only) };
        let shares = config.hygenicc.is_some();
        let vcc = config.congestion.clone().map(|congestion| congestion.beside_shares(shares).conf());
        let follows = vcc.is_some() || config.limits.iter().any(limiter::Law::follows);
        Edge {
            keeps: config.balance.keeps(),
            stateful: config.balance.scheme().labels
                || config.reorder.is_some()
                || follows
                || !config.limits.is_empty()
                || config.hygenicc.is_some()
                || config.fastlane.is_some()
                || config.hidden.is_some(),
            queues: vec![LimitQueue::default(); config.limits.len()],
            schedules: Schedules::new(config.balance.keeps().is_some()),
            relays: Relays::default(),
            paths_tick: None,
            table: Table::new(config.max_flows, config.seed, follows),
            follows,
            stages: Stages { conf, vcc },
            reorder: config.reorder.map(Engine::new),
            deadlines: Deadlines::default(),
            hygenicc: config.hygenicc.as_ref().map(|hygenicc| Hygenicc::new(hygenicc, config.seed)),
            fastlane: config.fastlane.as_ref().map(FastLane::new),
            resending: false,
            transmit: VecDeque::new(),
            counters: Counters::default(),
            next_sweep: Time::ZERO,
            config,
        }
    }

    /// The labels of the paths to one destination, in the order in which flowcells take them. A flow uses them from its
    /// next flowcell on. Label 0 means "send unmodified"; labels beyond the first 256 are ignored.
    pub fn set_schedule(&mut self, daddr: [u32; 4], labels: &[u16]) {
        self.schedules.set(daddr, labels);
    }

    /// As [`set_schedule`](Edge::set_schedule), with what `place` says of the places in it.
    pub fn rebind_schedule(&mut self, daddr: [u32; 4], labels: &[u16], place: impl Fn(usize) -> Rebound, now: Time) {
        self.schedules.rebind(daddr, labels, place, now);
    }

    /// As [`set_schedule`](Edge::set_schedule), for destinations without a schedule of their own. Empty at first.
    pub fn set_default_schedule(&mut self, labels: &[u16]) {
        self.schedules.set_default(labels);
    }

    /// `daddr` is behind the same edge as `other`, so that they share a schedule and what is known of its paths, and either's packets
    /// carry feedback to that edge. Call it before anything is sent there.
    pub fn share_paths(&mut self, daddr: [u32; 4], other: [u32; 4]) {
        self.schedules.share(daddr, other);
        self.relays.share(daddr, other);
    }

    /// So long an edge that is configured as this one may keep what it has to tell of a path.
    pub fn relay(&self) -> Time {
        self.stages.conf.balance.relay()
    }

    /// Do segments ask switches for the utilisation of links?
    pub fn asks_for_utilisation(&self) -> bool {
        self.keeps.is_some_and(|keeps| keeps.utilisation)
    }

    /// The version of the wire in which segments leave where every peer is an edge of the same kind, for `pkt.wire`: marks of
    /// schemes that keep states of paths, and those that HyGenICC counts, need an outer header.
    pub fn wire(&self) -> u8 {
        match self.keeps.is_some() || self.hygenicc.is_some() {
            true => version::TWO,
            false => version::ONE,
        }
    }

    /// How a guest of this host stands; `None` without HyGenICC, or if there is no such guest.
    pub fn share(&self, guest: &[u32; 4]) -> Option<Share> {
        self.hygenicc.as_ref()?.share(guest)
    }

    /// The next held segment of a guest of this host that may leave now.
    pub fn poll_departure(&mut self, now: Time) -> Option<Slot> {
        self.hygenicc.as_mut()?.poll_departure(now)
    }

    /// Pairs of guests that HyGenICC remembers now.
    pub fn pair_count(&self) -> usize {
        self.hygenicc.as_ref().map_or(0, Hygenicc::pair_count)
    }

    /// What a segment that leaves, of which [`process`](Edge::process) has said so, is to tell the edge at its destination: of the
    /// paths that its packets took, or of the marks of this pair of guests. Call once for each segment.
    pub fn feedback_to(&mut self, now: Time, pkt: &Packet) -> Feedback {
        match &mut self.hygenicc {
            Some(hygenicc) => hygenicc.pay(&self.stages.conf, self.relays.waiting(&self.stages.conf, pkt), now, pkt),
            None => self.relays.pay(&self.stages.conf, now, pkt),
        }
    }

    /// What a segment brought of paths, before [`process`](Edge::process) gets it: whether it was marked, as
    /// [`ecn::arrives`](crate::ecn::arrives) says in `pkt`; `utilisation` of the busiest link that it crossed, in 1/255, if it had
    /// asked for that; and `told`, its sender's feedback on the path with the low byte `told.path` in its label, or its count of marks, or when it left.
    pub fn hear(&mut self, now: Time, pkt: &Packet, label: u16, utilisation: Option<u8>, told: Feedback) {
        if let Some(value) = utilisation {
            let news = Feedback { kind: feedback::UTILISATION, path: label as u8, value };
            self.relays.note(&pkt.saddr, news);
        }
        if self.keeps.is_some_and(|keeps| keeps.marks) {
            self.relays.harvest(pkt, label);
        }
        if told.kind == feedback::MARKS {
            if let Some(hygenicc) = &mut self.hygenicc {
                hygenicc.hear(now, pkt, told);
            }
            return;
        }
        if self.keeps.is_none() {
            return;
        }
        if told.kind == feedback::NONE {
            let stamp = u16::from_be_bytes([told.path, told.value]);
            if stamp != 0 && pkt.wire == version::TWO && self.stages.conf.balance.stamps() {
                self.relays.arrived(pkt, label, stamp, now);
            }
            return;
        }
        let list = self.schedules.find(&pkt.saddr);
        native::hear(&self.stages.conf, &self.schedules.paths(list), told, now);
    }

    /// Label and state of each path to a destination, in the schedule's order; nothing under schemes that keep no states, or where
    /// nothing was sent.
    pub fn paths_to(&self, daddr: &[u32; 4]) -> impl Iterator<Item = (u16, native::PathState)> + '_ {
        self.schedules.states(daddr)
    }

    /// Takes one segment, whose frame the driver knows as `slot`, and changes `pkt` as it should leave.
    pub fn process(&mut self, now: Time, dir: Direction, slot: Slot, pkt: &mut Packet) -> Verdict {
        self.process_known(now, dir, slot, pkt, Known::default())
    }

    /// As [`process`](Edge::process), for a segment whose flow goes through a class of a limiter on its way out.
    pub fn process_limited(
        &mut self,
        now: Time,
        dir: Direction,
        slot: Slot,
        pkt: &mut Packet,
        standing: Option<limiter::Standing>,
    ) -> Verdict {
        self.process_known(now, dir, slot, pkt, Known { standing, ..Known::default() })
    }

    /// As [`process`](Edge::process), for a segment of which the driver knows more.
    pub fn process_known(&mut self, now: Time, dir: Direction, slot: Slot, pkt: &mut Packet, known: Known) -> Verdict {
        let segments = match dir {
            Direction::Egress => &mut self.counters.egress_segments,
            Direction::Ingress => &mut self.counters.ingress_segments,
        };
        *segments += 1;
        match dir {
            _ if !self.stateful => Verdict::Forward,
            Direction::Egress => self.egress(now, slot, pkt, known),
            Direction::Ingress => self.ingress(now, slot, pkt, known),
        }
    }

    /// As [`process`](Edge::process), for a segment to or from a peer whose edge is known not to be one of ours: congestion
    /// control leaves it alone, and so do limiters.
    pub fn process_unmanaged(&mut self, now: Time, dir: Direction, slot: Slot, pkt: &mut Packet) -> Verdict {
        let (congestion, follows) = (self.stages.vcc.take(), std::mem::take(&mut self.follows));
        let verdict = self.process(now, dir, slot, pkt);
        (self.stages.vcc, self.follows) = (congestion, follows);
        verdict
    }

    /// The NIC poll ended.
    pub fn end_batch(&mut self, now: Time) {
        if let Some(reorder) = &mut self.reorder {
            reorder.end_batch(now);
        }
        self.sweep_sometimes(now);
    }

    /// The next held slot that is due, in order.
    pub fn poll_release(&mut self, _now: Time) -> Option<Release> {
        let (slot, joins_previous) = self.reorder.as_mut()?.poll_release()?;
        Some(Release { dir: Direction::Ingress, slot, joins_previous })
    }

    /// The next packet that the edge itself originates.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Transmit> {
        self.transmit.pop_front()
    }

    /// When [`handle_timeout`](Edge::handle_timeout) is next due; may lie in the past.
    pub fn poll_timeout(&self) -> Option<Time> {
        let reorder = self.reorder.as_ref().and_then(Engine::poll_timeout);
        let congestion = self.deadlines.next().map(Time::from_ns);
        let hygenicc = self.hygenicc.as_ref().and_then(Hygenicc::poll_timeout);
        let fastlane = self.fastlane.as_ref().and_then(FastLane::poll_timeout);
        reorder.into_iter().chain(congestion).chain(self.paths_tick).chain(hygenicc).chain(fastlane).min()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(reorder) = &mut self.reorder {
            reorder.handle_timeout(now);
        }
        while let Some(id) = self.deadlines.pop(now.as_ns()) {
            self.tick(now, id);
        }
        if self.paths_tick.is_some_and(|due| due <= now) {
            self.tick_paths(now);
        }
        if let Some(hygenicc) = &mut self.hygenicc {
            let transmit = &mut self.transmit;
            hygenicc.handle_timeout(now, |packet| transmit.push_back(Transmit { dir: Direction::Egress, packet }));
        }
        if let Some(fastlane) = &mut self.fastlane {
            fastlane.handle_timeout(now);
        }
        self.sweep_sometimes(now);
    }

    fn tick_paths(&mut self, now: Time) {
        self.schedules.for_each_with_states(|paths| native::tick_paths(&self.stages.conf, paths, now));
        self.paths_tick = None;
        self.arm_paths(now);
    }

    /// The first destination has states of its paths: from now on they have ticks.
    fn arm_paths(&mut self, now: Time) {
        if self.paths_tick.is_none() {
            self.paths_tick = self.keeps.and_then(|keeps| keeps.tick).map(|tick| now.saturating_add(tick));
        }
    }

    /// Changes laws, rules and parameters of congestion control while flows are under way: each keeps the number of its
    /// class, so that rules count for new flows. Guests that may now send more are told at the next
    /// [`handle_timeout`](Edge::handle_timeout), which is due at once. An edge made without congestion control ignores this.
    pub fn set_congestion(&mut self, now: Time, congestion: &vcc::Config) {
        if self.stages.vcc.is_none() {
            return;
        }
        self.stages.vcc = Some(congestion.clone().beside_shares(self.hygenicc.is_some()).conf());
        self.config.congestion = Some(congestion.clone());
        for id in 0..self.table.slots() {
            self.deadlines.arm(id, now.as_ns());
        }
    }

    /// State of a connection's outgoing side: `key` is that of the guest's own packets.
    pub fn congestion(&self, key: &FlowKey) -> Option<vcc::Connection> {
        Some(vcc::Connection::new(self.table.vcc_of(key)?, self.stages.vcc.as_deref()))
    }

    /// Payload that is held of what a guest receives: `key` is that of the guest's own packets.
    pub fn held_bytes(&self, key: &FlowKey) -> u64 {
        let held = || Some(self.reorder.as_ref()?.held_bytes(self.table.id_of(key)?));
        held().unwrap_or(0)
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn counters(&self) -> Counters {
        let reorder = self.reorder.as_ref().map(|engine| *engine.counters()).unwrap_or_default();
        let hygenicc = self.hygenicc.as_ref().map(|hygenicc| hygenicc.counters).unwrap_or_default();
        let fastlane = self.fastlane.as_ref().map(FastLane::counters).unwrap_or_default();
        Counters { reorder, hygenicc, fastlane, ..self.counters }
    }

    /// Connections remembered now.
    pub fn flow_count(&self) -> usize {
        self.table.len()
    }

    fn egress(&mut self, now: Time, slot: Slot, pkt: &mut Packet, known: Known) -> Verdict {
        if self.refuses(pkt) {
            return Verdict::Drop(DropReason::Forged);
        }
        let held = self.hygenicc.as_mut().map_or(Held::Not, |hygenicc| hygenicc.hold(now, pkt));
        if held == Held::Drop {
            return Verdict::Drop(DropReason::OverRate);
        }
        let verdict = self.forward(now, slot, pkt, known);
        match (held, &mut self.hygenicc) {
            (Held::Waits { guest, bytes, until }, Some(hygenicc)) if verdict == Verdict::Forward => {
                hygenicc.wait(guest, bytes, until, slot);
                Verdict::Hold
            }
            _ => verdict,
        }
    }

    fn forward(&mut self, now: Time, slot: Slot, pkt: &mut Packet, known: Known) -> Verdict {
        let Known { standing, stamp } = known;
        self.arm_paths(now);
        let from_guest = self.fastlane.is_some().then_some(*pkt);
        let id = self.flow(now, Direction::Egress, pkt);
        let mut hyg = self.hygenicc.as_mut().and_then(|hygenicc| hygenicc.egress(now, pkt));
        let Some(id) = id else {
            let limit = limit(&self.config, standing);
            let limiter = limiter(&mut self.queues, &limit);
            let list = self.schedules.find(&pkt.daddr);
            let paths = self.schedules.paths(list);
            let hash = native::hash(&pkt.flow_key(), self.config.seed);
            let result = self.stages.egress_stateless(limiter, hyg.as_mut(), paths, hash, now, pkt);
            self.note_limited(result, limit);
            return Verdict::Forward;
        };
        let limit = limit(&self.config, standing);
        let limiter = limiter(&mut self.queues, &limit);
        let (flow, vcc) = self.table.both(id);
        let vcc = vcc.filter(|_| self.follows);
        if flow.generation != self.schedules.generation() {
            flow.schedule = self.schedules.claim(&pkt.daddr);
            flow.generation = self.schedules.generation();
        }
        let paths = self.schedules.paths(flow.schedule);
        let result = self.stages.egress(&mut flow.state, vcc, limiter, hyg.as_mut(), paths, flow.hash, now, pkt);
        self.counters.flowcells += u64::from(result & native::CELL_OPENED != 0);
        self.note_began(id, result);
        self.note_limited(result, limit);
        let verdict = match self.stages.vcc.is_some() {
            true => self.after_egress(id, result, pkt),
            false => Verdict::Forward,
        };
        match (&mut self.fastlane, from_guest) {
            (Some(fastlane), Some(mut packet)) if verdict == Verdict::Forward => {
                packet.dirty = 0;
                let need_not_leave = fastlane.sent(now, id, slot, &mut packet, self.resending, stamp);
                if packet.dirty & wire::dirty::SEQ != 0 {
                    (pkt.seq, pkt.dirty) = (packet.seq, pkt.dirty | wire::dirty::SEQ);
                }
                match need_not_leave {
                    true => Verdict::Drop(DropReason::UnderWay),
                    false => verdict,
                }
            }
            _ => verdict,
        }
    }

    fn after_egress(&mut self, id: u32, result: u32, pkt: &mut Packet) -> Verdict {
        let counters = &mut self.counters.congestion;
        if result & native::POLICED != 0 {
            counters.policed_segments += 1;
            return Verdict::Drop(DropReason::Policed);
        }
        counters.packs_sent += u64::from(matches!(pkt.pack, pack::OK | pack::SHIM));
        if std::mem::take(&mut pkt.emit) & native::EMIT_FACK != 0 {
            counters.facks_sent += 1;
            self.transmit.push_back(Transmit { dir: Direction::Egress, packet: native::fack(pkt) });
        }
        self.arm(id);
        Verdict::Forward
    }

    fn ingress(&mut self, now: Time, slot: Slot, pkt: &mut Packet, known: Known) -> Verdict {
        let reported = matches!(pkt.pack, pack::OK | pack::SHIM) && pkt.tcp_reserved & reserved::EDGE != 0;
        let marked = if pkt.ecn == wire::ecn::CE || pkt.marked != 0 { pkt.payload } else { 0 };
        let id = match self.hygenicc.is_some() && native::is_feedback(pkt) {
            true => None, // it is of no flow
            false => self.flow(now, Direction::Ingress, pkt),
        };
        let mut hyg = self.hygenicc.as_mut().map(|hygenicc| hygenicc.ingress(now, pkt));
        let Some(id) = id else {
            let paths = self.schedules.paths(self.schedules.find(&pkt.saddr));
            let result = self.stages.ingress_stateless(hyg.as_mut(), &paths, now, pkt);
            self.note_marks(now);
            return if result & native::CONSUMED == 0 { Verdict::Forward } else { Verdict::Consume };
        };
        let (flow, vcc) = self.table.both(id);
        let vcc = vcc.filter(|_| self.follows);
        let limit = limit(&self.config, known.standing);
        let limiter = limiter(&mut self.queues, &limit);
        let paths = match self.keeps {
            Some(_) => self.schedules.paths(self.schedules.find(&pkt.saddr)),
            None => Paths::none(),
        };
        let result = self.stages.ingress(&mut flow.state, vcc, limiter, hyg.as_mut(), &paths, now, pkt);
        self.note_marks(now);
        self.counters.ingress_late += u64::from(result & native::CELL_LATE != 0);
        self.note_began(id, result);
        self.note_limited(result, limit);
        if self.follows {
            let counters = &mut self.counters.congestion;
            counters.reports_received += u64::from(reported);
            counters.marked_bytes += u64::from(marked);
            counters.windows_lowered += u64::from(pkt.dirty & wire::dirty::WINDOW != 0);
        }
        if result & native::CONSUMED != 0 {
            return Verdict::Consume;
        }
        if let Some(fastlane) = &mut self.fastlane {
            fastlane.received(now, id, pkt);
        }
        match &mut self.reorder {
            Some(reorder) => reorder.process(now, id, slot, pkt, known.stamp),
            None => Verdict::Forward,
        }
    }

    /// The stages have counted a segment's marks.
    fn note_marks(&mut self, now: Time) {
        if let Some(hygenicc) = &mut self.hygenicc {
            let transmit = &mut self.transmit;
            hygenicc.note_ingress(now, |packet| transmit.push_back(Transmit { dir: Direction::Egress, packet }));
        }
    }

    /// Sees to it that a timeout of the flow will be noticed.
    fn arm(&mut self, id: u32) {
        let Some(conf) = &self.stages.vcc else { return };
        let (_, vcc) = self.table.both(id);
        if let Some(due) = vcc.and_then(|vcc| vcc.deadline(conf)) {
            self.deadlines.arm(id, due);
        }
    }

    /// The timer laws of a flow, and the packets that they ask for.
    fn tick(&mut self, now: Time, id: u32) {
        let (flow, vcc) = self.table.both(id);
        let (Some(key), Some(vcc), Some(conf)) = (flow.key, vcc, &self.stages.vcc) else { return };
        let (expired, emit) = self.stages.tick(&mut flow.state, Some(vcc), now);
        if expired {
            return; // the sweep's business
        }
        let counters = &mut self.counters.congestion;
        let (copies, update) = match emit {
            e if e & native::EMIT_DUPACK != 0 => (native::DUPACKS, false),
            e if e & native::EMIT_WINDOW != 0 => (1, true),
            _ => (0, false),
        };
        counters.timeouts += u64::from(copies > 1);
        counters.window_updates += u64::from(update);
        for _ in 0..copies {
            self.transmit.push_back(Transmit { dir: Direction::Ingress, packet: vcc.ack(conf, &key, update) });
        }
        self.arm(id);
    }

    fn note_limited(&mut self, result: u32, limit: Option<(usize, native::Limit)>) {
        if let Some((_, limit)) = limit.filter(|_| result & native::LIMITED != 0) {
            self.counters.limiter.note(limit.law);
        }
    }

    /// Another connection, possibly under the number of an old one.
    fn note_began(&mut self, id: u32, result: u32) {
        if result & native::BEGAN != 0 {
            self.counters.flows_begun += 1;
            if let Some(reorder) = &mut self.reorder {
                reorder.restart(id);
            }
            if let Some(fastlane) = &mut self.fastlane {
                fastlane.forget(id);
            }
        }
    }

    /// The packet's connection, remembered from now on if there is room.
    fn flow(&mut self, now: Time, dir: Direction, pkt: &Packet) -> Option<u32> {
        if let Some(id) = self.table.find(dir, pkt) {
            return Some(id);
        }
        self.sweep(now);
        let id = self.table.insert(dir, pkt);
        self.counters.flow_table_full += u64::from(id.is_none());
        id
    }

    fn sweep_sometimes(&mut self, now: Time) {
        if now >= self.next_sweep {
            self.next_sweep = now.saturating_add(SWEEP_INTERVAL);
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Time) {
        let (reorder, fastlane) = (&self.reorder, &mut self.fastlane);
        let busy = |id| {
            let busy = reorder.as_ref().is_some_and(|engine| engine.is_holding(id));
            if let (false, Some(fastlane)) = (busy, fastlane.as_mut()) {
                fastlane.forget(id);
            }
            busy
        };
        self.counters.flows_expired += self.table.sweep(&self.stages, now, busy);
    }
}

/// What the stages are told of the class; `None` for one that is not configured.
fn limit(config: &Config, standing: Option<limiter::Standing>) -> Option<(usize, native::Limit)> {
    let standing = standing?;
    Some((standing.class, config.limits.get(standing.class)?.limit(&standing)))
}

fn limiter<'a>(queues: &'a mut [LimitQueue], limit: &'a Option<(usize, native::Limit)>) -> native::Limiter<'a> {
    let (class, limit) = limit.as_ref()?;
    Some((limit, queues.get_mut(*class)?))
}
