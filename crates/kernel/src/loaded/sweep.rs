//! Sweeps: what has expired is forgotten, and what everybody holds is counted anew. A sweep goes on in steps, so that nothing
//! else waits for it however large the tables are.

use super::tick::tick_keys;
use super::walk::{self, Walk};
use super::{Error, KernelEdge, Result};
use crate::native;
use crate::state::fastlane::FastKey;
use crate::state::quota::{
    Bounds, Charged, Limited, Tally, TallyKey, TABLE_FASTLANE, TABLE_FLOWS, TABLE_LIMITED, TABLE_PAIRS, TALLY_NETWORK,
    TALLY_PORT, TALLY_TABLE,
};
use crate::state::{
    Flow, FlowSlot, FlowSlotKey, PairKey, PairSlot, Plain, Route, RouteKey, ROUTE_LOCAL, TICK_EXPIRE, TICK_TIMERS,
};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;

/// Where struct sv_flow stands in struct sv_limited and struct sv_fast, behind a lock and what they are charged as.
const LIMITED_FLOW_AT: usize = 8;
const CHARGED_AT: usize = 4;

/// The flow of such a row, and what it is charged as.
fn limited_row(value: &[u8]) -> Option<(Flow, Charged)> {
    let flow = value.get(LIMITED_FLOW_AT..LIMITED_FLOW_AT + size_of::<Flow>()).and_then(Flow::from_bytes)?;
    let charged = value.get(CHARGED_AT..LIMITED_FLOW_AT)?.try_into().ok()?;
    Some((flow, Charged(u32::from_ne_bytes(charged))))
}

/// Pairs of one step whose marks are asked for, as many as the data path lets ask at once. Others have their turn in a later sweep.
const TELL_MOST: usize = 64;

type Tallies = BTreeMap<TallyKey, Tally>;

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Flows still remembered.
    pub kept: usize,
    pub expired: usize,
    /// Counts that were wrong.
    pub mended: usize,
}

/// A sweep under way.
#[derive(Debug, Default)]
pub struct Sweep {
    flows: Walk,
    limited: Walk,
    fast: Walk,
    pairs: Walk,
    /// Addresses of guests here, by port and what stands for them in pairs' keys; read where a pair needs one.
    guests: Option<BTreeMap<(u32, u32), [u32; 4]>>,
    flows_done: bool,
    limited_done: bool,
    fast_done: bool,
    /// As they stood when the sweep began.
    before: Option<Tallies>,
    /// What was found.
    counted: Tallies,
    /// What this sweep deleted, which the data path refunded.
    refunded: Tallies,
    /// Somebody else changed things meanwhile: counts are left as they are.
    unsure: bool,
    swept: Swept,
}

impl Sweep {
    fn found(&mut self, kept: bool, table: u16, port: u32, network: Option<u32>, outside: bool) {
        if port == 0 {
            return;
        }
        let to = if kept { &mut self.counted } else { &mut self.refunded };
        to.entry(TallyKey::new(table, TALLY_PORT, port)).or_default().add(1, i32::from(outside));
        to.entry(TallyKey::new(table, TALLY_TABLE, 0)).or_default().add(1, 0);
        if let Some(network) = network {
            to.entry(TallyKey::new(table, TALLY_NETWORK, network)).or_default().add(1, 0);
        }
    }

    /// The same of a table whose keys name no network.
    fn found_charged(&mut self, kept: bool, table: u16, port: u32, charged: Charged) {
        if let Some(port) = charged.port(port) {
            self.found(kept, table, port, charged.network(), charged.outside());
        }
    }
}

impl KernelEdge {
    /// Forgets flows that have expired at `now`, CLOCK_MONOTONIC in ns ([`super::monotonic_ns`]), and mends counts.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn sweep(&self, now: u64) -> Result<Swept> {
        let mut sweep = Sweep::default();
        loop {
            if let Some(swept) = self.sweep_on(&mut sweep, now, walk::CHUNK, None)? {
                return Ok(swept);
            }
        }
    }

    /// The same for the next slots, about `most`. The timer laws of `congestion` are applied to what is due. Returns the
    /// outcome at the end, after which another sweep may begin.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn sweep_on(
        &self,
        sweep: &mut Sweep,
        now: u64,
        most: u32,
        congestion: Option<&edge::vcc::Config>,
    ) -> Result<Option<Swept>> {
        if sweep.before.is_none() {
            sweep.before = Some(self.tallies()?);
        }
        if !sweep.flows_done {
            sweep.flows_done = !self.sweep_flows(sweep, now, most, congestion)?;
            return Ok(None);
        }
        if !sweep.limited_done {
            sweep.limited_done = !self.sweep_limited(sweep, now, most)?;
            return Ok(None);
        }
        if !sweep.fast_done {
            sweep.fast_done = !self.sweep_fast(sweep, now, most)?;
            return Ok(None);
        }
        if self.sweep_pairs(sweep, now, most)? {
            return Ok(None);
        }
        if !sweep.unsure {
            sweep.swept.mended = self.mend(sweep)?;
        }
        Ok(Some(sweep.swept))
    }

    /// False at the end.
    fn sweep_flows(
        &self,
        sweep: &mut Sweep,
        now: u64,
        most: u32,
        congestion: Option<&edge::vcc::Config>,
    ) -> Result<bool> {
        let idle = self.config()?.idle_ns;
        let mut walk = std::mem::take(&mut sweep.flows);
        let (mut expired, mut due) = (Vec::new(), Vec::new());
        let map = self.map("flows")?;
        let Some(entries) = walk.step(&map, most)? else { return Ok(false) };
        for (key, slot) in entries {
            let Some((key, slot)) = FlowSlotKey::from_bytes(key).zip(FlowSlot::from_bytes(slot)) else { continue };
            let kept = !native::flow_expired(&slot.flow, idle, now);
            sweep.found(kept, TABLE_FLOWS, slot.port, Some(key.vni), slot.outside != 0);
            if !kept {
                expired.push(key);
            } else {
                sweep.swept.kept += 1;
                // Read without the lock: only the data path itself decides.
                if congestion.is_some_and(|congestion| slot.vcc.is_due(congestion, now)) {
                    due.push(key);
                }
            }
        }
        sweep.flows = walk;
        let gone = self.tick_flows(TICK_EXPIRE, now, &expired)?;
        sweep.swept.expired += gone;
        sweep.swept.kept += expired.len().saturating_sub(gone);
        sweep.unsure |= gone != expired.len();
        self.tick_flows(TICK_TIMERS, now, &due)?;
        Ok(true)
    }

    /// False at the end.
    fn sweep_limited(&self, sweep: &mut Sweep, now: u64, most: u32) -> Result<bool> {
        let Some(map) = self.limited() else { return Ok(false) };
        let idle = self.config()?.idle_ns;
        let mut walk = std::mem::take(&mut sweep.limited);
        let mut expired: Vec<Vec<u8>> = Vec::new();
        let Some(entries) = walk.step(&map, most)? else { return Ok(false) };
        for (key, value) in entries {
            let row = limited_row(value).zip(Limited::from_bytes(key));
            let Some(((flow, charged), limited)) = row else { continue };
            let kept = !native::flow_expired(&flow, idle, now);
            sweep.found_charged(kept, TABLE_LIMITED, limited.limiter.ifindex, charged);
            if !kept {
                expired.push(key.to_vec());
            }
        }
        sweep.limited = walk;
        let keys: Vec<&[u8]> = expired.iter().map(Vec::as_slice).collect();
        let program = || self.limit_tick().ok_or(Error::Missing("selvedge_limit_tick"));
        let gone = tick_keys(program, TICK_EXPIRE, now, &keys)?.touched as usize;
        sweep.unsure |= gone != keys.len();
        Ok(true)
    }

    /// False at the end.
    fn sweep_fast(&self, sweep: &mut Sweep, now: u64, most: u32) -> Result<bool> {
        let Some(map) = self.fast_map("fast") else { return Ok(false) };
        let idle = self.config()?.idle_ns;
        let (mut walk, mut expired) = (std::mem::take(&mut sweep.fast), Vec::new());
        let Some(entries) = walk.step(&map, most)? else { return Ok(false) };
        for (key, value) in entries {
            let Some(((flow, charged), key)) = limited_row(value).zip(FastKey::from_bytes(key)) else { continue };
            let kept = !native::flow_expired(&flow, idle, now);
            sweep.found_charged(kept, TABLE_FASTLANE, key.port, charged);
            if !kept {
                expired.push(key);
            }
        }
        sweep.fast = walk;
        let keys: Vec<&[u8]> = expired.iter().map(FastKey::as_bytes).collect();
        let program = || self.fast_tick().ok_or(Error::Missing("selvedge_fast_tick"));
        let gone = tick_keys(program, TICK_EXPIRE, now, &keys)?.touched as usize;
        sweep.unsure |= gone != keys.len();
        Ok(true)
    }

    /// False at the end.
    fn sweep_pairs(&self, sweep: &mut Sweep, now: u64, most: u32) -> Result<bool> {
        let map = self.map("pairs")?;
        let (mut walk, mut expired, mut lapsed) = (std::mem::take(&mut sweep.pairs), Vec::new(), Vec::new());
        let Some(entries) = walk.step(&map, most)? else { return Ok(false) };
        for (key, value) in entries {
            let Some((key, slot)) = PairKey::from_bytes(key).zip(PairSlot::from_bytes(value)) else { continue };
            let kept = !slot.expired(now);
            sweep.found_charged(kept, TABLE_PAIRS, key.ifindex, Charged(slot.flags));
            if !kept {
                expired.push(key);
            }
            if lapsed.len() < TELL_MOST && slot.lapses(now) {
                lapsed.push(key);
            }
        }
        sweep.pairs = walk;
        if !lapsed.is_empty() {
            // Before they are forgotten.
            let guests = match &mut sweep.guests {
                Some(guests) => guests,
                None => sweep.guests.insert(self.guests()?),
            };
            let own = |key: PairKey| Some((key, *guests.get(&(key.ifindex, key.own))?));
            self.tell_pairs(&lapsed.into_iter().filter_map(own).collect::<Vec<_>>())?;
        }
        let gone = self.expire_pairs(now, &expired)?;
        sweep.unsure |= gone != expired.len();
        Ok(true)
    }

    /// Addresses of guests here, by port and what stands for them in pairs' keys.
    fn guests(&self) -> Result<BTreeMap<(u32, u32), [u32; 4]>> {
        let (seed, mut guests) = (self.config()?.seed, BTreeMap::new());
        walk::for_each(&self.map("routes")?, |key, route| {
            let local = Route::from_bytes(route).filter(|route| route.kind == ROUTE_LOCAL);
            if let Some((own, route)) = RouteKey::from_bytes(key).and_then(|key| key.single()).zip(local) {
                guests.insert((route.target, native::pair_own(seed, &own)), own);
            }
        })?;
        Ok(guests)
    }

    /// Corrects counts that drifted: those that nobody else changed during the sweep, and that are not what was found.
    /// Forgets those of ports and networks that are gone.
    fn mend(&self, sweep: &Sweep) -> Result<usize> {
        let (map, after) = (self.map("tallies")?, self.tallies()?);
        let (ports, first) = (self.ports()?, sweep.before.clone().unwrap_or_default());
        let mut mended = 0;
        for (key, now) in &after {
            if key.table == TABLE_LIMITED && self.limited().is_none() {
                continue; // nobody has counted
            }
            if key.table == TABLE_FASTLANE && self.fast_map("fast").is_none() {
                continue;
            }
            let of = |tallies: &Tallies| tallies.get(key).copied().unwrap_or_default();
            let (before, gone, counted) = (of(&first), of(&sweep.refunded), of(&sweep.counted));
            let expected = Tally { flows: before.flows - gone.flows, unsettled: before.unsettled - gone.unsettled };
            if *now != expected {
                continue; // packets go on
            }
            let used = match key.kind {
                TALLY_PORT => ports.iter().any(|(ifindex, _)| *ifindex == key.id),
                TALLY_NETWORK => ports.iter().any(|(_, port)| port.vni == key.id),
                _ => true,
            };
            if counted == Tally::default() && !used {
                self.delete("tallies", key.as_bytes())?;
            } else if counted != *now {
                map.update(key.as_bytes(), counted.as_bytes(), MapFlags::ANY)
                    .map_err(|e| Error::Bpf("update a map", e))?;
                mended += 1;
            }
        }
        Ok(mended)
    }

    /// What everybody holds, as the data path counts it.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn tallies(&self) -> Result<BTreeMap<TallyKey, Tally>> {
        Ok(self.entries("tallies")?.into_iter().collect())
    }

    /// Sets quotas: `table` is one of `TABLE_*`.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn set_bounds(&self, table: u16, bounds: &Bounds) -> Result<()> {
        self.update("bounds", u32::from(table).as_bytes(), bounds.as_bytes())
    }

    /// For tests of what mends counts.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn set_tally(&self, key: &TallyKey, tally: &Tally) -> Result<()> {
        self.update("tallies", key.as_bytes(), tally.as_bytes())
    }
}
