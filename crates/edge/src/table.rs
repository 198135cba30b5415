//! The flow table: connections by their 5-tuple, at most a given number.

use crate::native::{self, FlowState, Stages, Vcc};
use crate::Direction;
use rustc_hash::FxSeededState;
use std::collections::HashMap;
use units::Time;
use wire::{FlowKey, Packet};

/// Slots that one sweep looks at: a bound on the work that any packet can cause.
const SWEEP: usize = 8;

/// One remembered connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Of the outgoing direction; `None`: the slot is free.
    pub(crate) key: Option<FlowKey>,
    pub(crate) state: FlowState,
    /// Of the outgoing direction.
    pub(crate) hash: u32,
    /// List in `Schedules`, looked up at `generation`.
    pub(crate) schedule: u32,
    pub(crate) generation: u32,
}

/// Connections by their key, at most `max` of them. Expiry is lazy: every insertion and every batch looks at a few.
#[derive(Debug)]
pub(crate) struct Table {
    index: HashMap<FlowKey, u32, FxSeededState>,
    flows: Vec<Flow>,
    /// As many as flows with congestion control, else none: apart, because they are large.
    vccs: Vec<Vcc>,
    with_vcc: bool,
    free: Vec<u32>,
    max: usize,
    seed: u64,
    /// The flow found last, per direction, under the key that a packet in that direction has.
    recent: [Option<(FlowKey, u32)>; 2],
    sweep_at: usize,
}

impl Table {
    pub(crate) fn new(max: usize, seed: u64, with_vcc: bool) -> Table {
        Table {
            index: HashMap::with_hasher(FxSeededState::with_seed(seed as usize)),
            flows: Vec::new(),
            vccs: Vec::new(),
            with_vcc,
            free: Vec::new(),
            max: max.min(u32::MAX as usize),
            seed,
            recent: [None; 2],
            sweep_at: 0,
        }
    }

    /// A connection, with its congestion control if there is any.
    pub(crate) fn both(&mut self, id: u32) -> (&mut Flow, Option<&mut Vcc>) {
        (&mut self.flows[id as usize], self.vccs.get_mut(id as usize))
    }

    /// The congestion control of an outgoing direction.
    pub(crate) fn vcc_of(&self, key: &FlowKey) -> Option<&Vcc> {
        self.vccs.get(*self.index.get(key)? as usize)
    }

    /// The connection whose outgoing direction has this key.
    pub(crate) fn id_of(&self, key: &FlowKey) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// The connection of a packet travelling in `dir`.
    pub(crate) fn find(&mut self, dir: Direction, packet: &Packet) -> Option<u32> {
        let key = packet.flow_key();
        let recent = &mut self.recent[dir as usize];
        if let Some((recent_key, id)) = recent {
            if *recent_key == key {
                return Some(*id);
            }
        }
        let id = *self.index.get(&outgoing(dir, &key))?;
        *recent = Some((key, id));
        Some(id)
    }

    /// Remembers the connection of a packet that `find` did not find; `None` if the table is full.
    pub(crate) fn insert(&mut self, dir: Direction, packet: &Packet) -> Option<u32> {
        let key = packet.flow_key();
        let flow = Flow {
            key: Some(outgoing(dir, &key)),
            state: FlowState::default(),
            hash: native::hash(&outgoing(dir, &key), self.seed),
            schedule: 0,
            generation: 0,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.flows[id as usize] = flow;
                if let Some(vcc) = self.vccs.get_mut(id as usize) {
                    *vcc = Vcc::default();
                }
                id
            }
            None if self.flows.len() < self.max => {
                self.flows.push(flow);
                if self.with_vcc {
                    self.vccs.push(Vcc::default());
                }
                (self.flows.len() - 1) as u32
            }
            None => return None,
        };
        self.index.insert(outgoing(dir, &key), id);
        self.recent[dir as usize] = Some((key, id));
        Some(id)
    }

    /// Looks at the next few slots and forgets connections that expired, except those that are `busy`, of which only those that expired
    /// are asked. Returns how many.
    pub(crate) fn sweep(&mut self, stages: &Stages, now: Time, mut busy: impl FnMut(u32) -> bool) -> u64 {
        let mut forgotten = 0;
        for _ in 0..SWEEP.min(self.flows.len()) {
            let id = self.sweep_at % self.flows.len();
            self.sweep_at = id + 1;
            let flow = &mut self.flows[id];
            let id = id as u32;
            let Some(key) = flow.key else { continue };
            // Only the flow's age is asked for: timeouts of its congestion control come by their own deadlines.
            if !stages.tick(&mut flow.state, None, now).0 || busy(id) {
                continue;
            }
            flow.key = None;
            self.index.remove(&key);
            self.free.push(id);
            for recent in &mut self.recent {
                *recent = recent.filter(|(_, recent)| *recent != id);
            }
            forgotten += 1;
        }
        forgotten
    }

    /// Slots ever used: every number of a connection is below.
    pub(crate) fn slots(&self) -> u32 {
        self.flows.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}

fn outgoing(dir: Direction, key: &FlowKey) -> FlowKey {
    match dir {
        Direction::Egress => *key,
        Direction::Ingress => key.reversed(),
    }
}
