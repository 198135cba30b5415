//! What is done to flows by the data path itself: `datapath/kernel/tick.h`.

use super::walk::{Walk, CHUNK};
use super::{context_of, Edge, Error, Result, Segment};
use crate::state::{FlowSlot, FlowSlotKey, Plain, TickCall, TICK_DONE, TICK_FULL, TICK_MAX, TICK_TIMED};
use libbpf_rs::ProgramMut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Calls of one walk through the flows with data outstanding: more than there can be of them.
const MAX_CALLS: usize = 1 << 12;

/// The outcome of one [`Edge::tick`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Flows to which a timer law did something: for some there are events, see [`crate::state::EVENT_TIMER`].
    pub touched: u32,
    /// Not all were looked at: events are to be read first.
    pub full: bool,
    /// Longest run of the program, in which no packet is handled on its CPU.
    pub longest: Duration,
}

impl Edge {
    /// Applies the timer laws of virtual congestion control to the flows with data outstanding. What guests are to get comes
    /// as events.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn tick(&self) -> Result<Ticked> {
        let mut ticked = Ticked::default();
        // 0 is of flows that no tick has seen: those of that round would be taken for it once.
        let round = self.round.fetch_add(1, Ordering::Relaxed).max(1);
        for _ in 0..MAX_CALLS {
            let call = TickCall { what: TICK_TIMED, round, ..TickCall::default() };
            let (result, took) = run(self.tick_program()?, call.as_bytes())?;
            ticked.longest = ticked.longest.max(took);
            ticked.touched += result & 0xffff;
            ticked.full = result & TICK_FULL != 0;
            if result & (TICK_DONE | TICK_FULL) != 0 {
                break;
            }
        }
        Ok(ticked)
    }

    /// Does `what` to these flows. Returns to how many.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub(super) fn tick_flows(&self, what: u32, now: u64, keys: &[FlowSlotKey]) -> Result<usize> {
        let keys: Vec<&[u8]> = keys.iter().map(FlowSlotKey::as_bytes).collect();
        tick_keys(|| self.tick_program(), what, now, &keys)
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

/// Does `what` to the connections of these keys, [`TICK_MAX`] a call. Returns to how many.
pub(super) fn tick_keys<'a>(
    program: impl Fn() -> Result<ProgramMut<'a>>,
    what: u32,
    now: u64,
    keys: &[&[u8]],
) -> Result<usize> {
    let mut touched = 0;
    for chunk in keys.chunks(TICK_MAX) {
        let call = TickCall { now, what, count: chunk.len() as u32, ..TickCall::default() };
        let (result, _) = run(program()?, &[call.as_bytes(), &chunk.concat()].concat())?;
        touched += (result & 0xffff) as usize;
    }
    Ok(touched)
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
