use crate::native::{self, Conf};
use crate::reorder::Engine;
use crate::schedule::Schedules;
use crate::table::Table;
use crate::{Balance, Config, Counters, Direction, Release, Slot, Verdict};
use units::Time;
use wire::Packet;

/// How often a batch looks for flows that expired. With the table's 8 a time, 64 Ki flows take 8 s.
const SWEEP_INTERVAL: Time = Time::from_ms(1);

/// One edge. `now` is an argument of every call and never decreases; the edge owns no bytes and no clock.
///
/// Give each segment to [`process`](Edge::process), and call [`end_batch`](Edge::end_batch) when the NIC poll ends:
/// without it, held segments stay. After `process`, `end_batch` or [`handle_timeout`](Edge::handle_timeout), act on
/// the verdict, drain [`poll_release`](Edge::poll_release), then [`poll_transmit`](Edge::poll_transmit), then read
/// [`poll_timeout`](Edge::poll_timeout).
///
/// An edge that neither balances nor reorders forwards everything and remembers nothing.
#[derive(Debug)]
pub struct Edge {
    config: Config,
    conf: Conf,
    stateful: bool,
    schedules: Schedules,
    table: Table,
    reorder: Option<Engine>,
    counters: Counters,
    next_sweep: Time,
}

impl Edge {
    pub fn new(config: Config) -> Edge {
        let (balance, threshold) = match config.balance {
            Balance::Ecmp => (native::BALANCE_ECMP, 0),
            Balance::Flowcell { threshold } => (native::BALANCE_FLOWCELL, threshold.get()),
        };
        let conf = Conf {
            idle_ns: config.flow_idle.as_ns(),
            balance,
            cell_bytes: u32::try_from(threshold).unwrap_or(u32::MAX),
        };
        Edge {
            conf,
            stateful: config.balance != Balance::Ecmp || config.reorder.is_some(),
            schedules: Schedules::new(),
            table: Table::new(config.max_flows, config.seed),
            reorder: config.reorder.map(Engine::new),
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

    /// As [`set_schedule`](Edge::set_schedule), for destinations without a schedule of their own. Empty at first.
    pub fn set_default_schedule(&mut self, labels: &[u16]) {
        self.schedules.set_default(labels);
    }

    /// Takes one segment, whose frame the driver knows as `slot`, and changes `pkt` as it should leave.
    pub fn process(&mut self, now: Time, dir: Direction, slot: Slot, pkt: &mut Packet) -> Verdict {
        match dir {
            Direction::Egress => {
                self.counters.egress_segments += 1;
                if self.stateful {
                    self.egress(now, pkt);
                }
                Verdict::Forward
            }
            Direction::Ingress => {
                self.counters.ingress_segments += 1;
                if self.stateful {
                    self.ingress(now, slot, pkt)
                } else {
                    Verdict::Forward
                }
            }
        }
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

    /// The next packet that the edge itself originates. No stage does yet.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Packet> {
        None
    }

    /// When [`handle_timeout`](Edge::handle_timeout) is next due; may lie in the past.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.reorder.as_ref()?.poll_timeout()
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(reorder) = &mut self.reorder {
            reorder.handle_timeout(now);
        }
        self.sweep_sometimes(now);
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn counters(&self) -> Counters {
        let reorder = self.reorder.as_ref().map(|engine| *engine.counters()).unwrap_or_default();
        Counters { reorder, ..self.counters }
    }

    /// Connections remembered now.
    pub fn flow_count(&self) -> usize {
        self.table.len()
    }

    fn egress(&mut self, now: Time, pkt: &mut Packet) {
        let Some(id) = self.flow(now, Direction::Egress, pkt) else {
            let labels = self.schedules.labels(self.schedules.find(&pkt.daddr));
            let hash = native::hash(&pkt.flow_key(), self.config.seed);
            native::egress_stateless(&self.conf, labels, hash, pkt);
            return;
        };
        let flow = self.table.flow(id);
        if flow.generation != self.schedules.generation() {
            flow.generation = self.schedules.generation();
            flow.schedule = self.schedules.find(&pkt.daddr);
        }
        let labels = self.schedules.labels(flow.schedule);
        let result = flow.state.egress(&self.conf, labels, flow.hash, now, pkt);
        self.counters.flowcells += u64::from(result & native::CELL_OPENED != 0);
        self.note_began(id, result);
    }

    fn ingress(&mut self, now: Time, slot: Slot, pkt: &mut Packet) -> Verdict {
        let Some(id) = self.flow(now, Direction::Ingress, pkt) else {
            return Verdict::Forward;
        };
        let result = self.table.flow(id).state.ingress(&self.conf, now, pkt);
        self.counters.ingress_late += u64::from(result & native::CELL_LATE != 0);
        self.note_began(id, result);
        match &mut self.reorder {
            Some(reorder) => reorder.process(now, id, slot, pkt),
            None => Verdict::Forward,
        }
    }

    /// Another connection, possibly under the number of an old one.
    fn note_began(&mut self, id: u32, result: u32) {
        if result & native::BEGAN != 0 {
            self.counters.flows_begun += 1;
            if let Some(reorder) = &mut self.reorder {
                reorder.restart(id);
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
        let reorder = &self.reorder;
        let busy = |id| reorder.as_ref().is_some_and(|engine| engine.is_holding(id));
        self.counters.flows_expired += self.table.sweep(&self.conf, now, busy);
    }
}
