//! What is done to flows by the data path itself: `datapath/kernel/tick.h`.

use super::walk::{Walk, CHUNK};
use super::{context_of, monotonic_ns, Error, KernelEdge, Result, Segment};
use crate::state::{FlowSlot, FlowSlotKey, Plain, TickCall, TICK_FULL, TICK_MAX, TICK_TIMED};
use libbpf_rs::ProgramMut;
use std::time::Duration;

/// The outcome of one [`KernelEdge::tick`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Flows to which a timer law did something: for some there are events, see [`crate::state::EVENT_TIMER`].
    pub touched: u32,
    /// Not all were looked at: events are to be read first. The others are still due.
    pub full: bool,
    /// When the next flow is due that was not due yet, ns of CLOCK_MONOTONIC; [`None`] if none is to come.
    pub next: Option<u64>,
    /// Longest run of the program, in which no packet is handled on its CPU.
    pub longest: Duration,
}

impl Ticked {
    /// Between two ticks while no flow is due sooner: a flow that sends meanwhile is then seen before a timeout as long as this.
    pub const MOST: Duration = Duration::from_millis(10);

    /// Between two ticks while flows are due one after the other.
    const LEAST: Duration = Duration::from_millis(5);

    /// How long the next tick may wait at `now`, ns of CLOCK_MONOTONIC.
    #[must_use]
    pub fn pause(&self, now: u64) -> Duration {
        let until = |at: u64| Duration::from_nanos(at.saturating_sub(now)).clamp(Self::LEAST, Self::MOST);
        self.next.map_or(Self::MOST, until)
    }
}

impl KernelEdge {
    /// Applies the timer laws of virtual congestion control to the flows with data outstanding that are due. What guests are
    /// to get comes as events.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn tick(&self) -> Result<Ticked> {
        let (due, next) = self.timers.due(monotonic_ns());
        let places: Vec<&[u8]> = due.iter().map(u32::as_bytes).collect();
        Ok(Ticked { next, ..tick_keys(|| self.tick_program(), TICK_TIMED, 0, &places)? })
    }

    /// Does `what` to these flows. Returns to how many.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub(super) fn tick_flows(&self, what: u32, now: u64, keys: &[FlowSlotKey]) -> Result<usize> {
        let keys: Vec<&[u8]> = keys.iter().map(FlowSlotKey::as_bytes).collect();
        Ok(tick_keys(|| self.tick_program(), what, now, &keys)?.touched as usize)
    }

    /// Does `what` to all flows that are `meant`.
    pub(super) fn tick_all(&self, what: u32, meant: impl Fn(&FlowSlot) -> bool) -> Result<()> {
        let (map, mut walk) = (self.map("flows")?, Walk::default());
        while let Some(entries) = walk.step(&map, CHUNK)? {
            let known = entries.filter_map(|(key, slot)| FlowSlotKey::from_bytes(key).zip(FlowSlot::from_bytes(slot)));
            let keys: Vec<FlowSlotKey> = known.filter(|(_, slot)| meant(slot)).map(|(key, _)| key).collect();
            self.tick_flows(what, 0, &keys)?;
        }
        Ok(())
    }

    fn tick_program(&self) -> Result<ProgramMut<'_>> {
        const NAME: &str = "selvedge_tick";
        self.object.progs_mut().find(|program| program.name() == NAME).ok_or(Error::Missing(NAME))
    }
}

/// Does `what` to the connections of these keys, [`TICK_MAX`] a call, as long as there is room for events.
pub(super) fn tick_keys<'a>(
    program: impl Fn() -> Result<ProgramMut<'a>>,
    what: u32,
    now: u64,
    keys: &[&[u8]],
) -> Result<Ticked> {
    let mut ticked = Ticked::default();
    for chunk in keys.chunks(TICK_MAX) {
        let call = TickCall { now, what, count: chunk.len() as u32 };
        let (result, took) = run(program()?, &[call.as_bytes(), &chunk.concat()].concat())?;
        ticked.touched += result & 0xffff;
        ticked.longest = ticked.longest.max(took);
        ticked.full = result & TICK_FULL != 0;
        if ticked.full {
            break;
        }
    }
    Ok(ticked)
}

/// One call; its result, and how long it took.
fn run(program: ProgramMut<'_>, call: &[u8]) -> Result<(u32, Duration)> {
    // Of a type that is nobody's (IEEE 802, local experiments).
    let frame = [&[0; 12], [0x88, 0xb5].as_slice(), call].concat();
    let mut context = context_of(Segment::default());
    let input = libbpf_rs::ProgramInput { context_in: Some(&mut context), data_in: Some(&frame), ..Default::default() };
    let output = program.test_run(input).map_err(|e| Error::Bpf("run a program", e))?;
    Ok((output.return_value, output.duration))
}
