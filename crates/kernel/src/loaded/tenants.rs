//! Guests' shares of the uplink (`datapath/kernel/tenants.h`): how they are held, and how they stand.

use super::tick::tick_keys;
use super::{Error, KernelEdge, Result};
use crate::state::{
    PairKey, PairSlot, Plain, Share, Sharing, Tenants, MAX_SHARES, TICK_BEGIN, TICK_EXPIRE, TICK_RATES, TICK_TELL,
    TICK_TELL_PLAIN,
};
use libbpf_rs::{MapCore, MapFlags, ProgramMut};
use std::time::Duration;

/// Pairs of guests that are remembered at once.
pub const MAX_PAIRS: u32 = 65_536;

/// Times that the timer is asked for, a millisecond apart: Linux 6.18 allocates it without waiting for locks (`kmalloc_nolock`), and so
/// may find no memory at that moment.
const BEGIN_TRIES: u32 = 20;

impl KernelEdge {
    /// How guests are held whose ports have a share. Rates change once [`KernelEdge::begin_shares`] was called.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn set_tenants(&self, tenants: &Tenants) -> Result<()> {
        self.update("tenants", 0u32.as_bytes(), tenants.as_bytes())
    }

    /// Has the data path set rates from now on, by a timer of its own that this edge's maps keep.
    ///
    /// # Errors
    /// [`Error::Bpf`]; [`Error::Missing`] if the kernel does not start the timer.
    pub fn begin_shares(&self) -> Result<()> {
        for _ in 0..BEGIN_TRIES {
            if tick_keys(|| self.share_tick(), TICK_BEGIN, 0, &[&[]])?.touched == 1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Error::Missing("a timer of the kernel's for shares"))
    }

    /// Sets all rates once, now, in runs as the timer's: for measurements. Returns what the runs took.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn set_rates(&self) -> Result<Vec<Duration>> {
        let (mut took, mut from) = (Vec::new(), 0);
        loop {
            let ran = tick_keys(|| self.share_tick(), TICK_RATES, u64::from(from), &[&[]])?;
            took.push(ran.longest);
            from = ran.touched;
            if from == 0 {
                return Ok(took);
            }
        }
    }

    /// The share with that number; `None` if there is none of that number.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn share(&self, number: u16) -> Result<Option<Share>> {
        Ok(self.lookup::<Share>("shares", u32::from(number).as_bytes())?.filter(|share| share.ifindex != 0))
    }

    /// For tests of rates that change: the share with that number, 1 to [`MAX_SHARES`].
    ///
    /// # Errors
    /// [`Error::Bpf`]; [`Error::Missing`] if there is none of that number.
    pub fn set_share(&self, number: u16, share: &Share) -> Result<()> {
        let row = number.checked_sub(1).filter(|_| number <= MAX_SHARES).ok_or(Error::Missing("such a share"))?;
        self.update("shares", u32::from(number).as_bytes(), share.as_bytes())?;
        let mut all = self.sharing()?;
        let (word, bit) = (usize::from(row / 64), 1u64 << (row % 64));
        let word = &mut all.active[word / 32][word % 32];
        *word = if share.bucket.active == 0 { *word & !bit } else { *word | bit };
        self.update("sharing", 0u32.as_bytes(), all.as_bytes())
    }

    /// What all shares have in common.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn sharing(&self) -> Result<Sharing> {
        let value = self.map("sharing")?.lookup(0u32.as_bytes(), MapFlags::LOCK);
        let value = value.map_err(|e| Error::Bpf("read a map", e))?;
        Ok(value.and_then(|bytes| Sharing::from_bytes(&bytes)).unwrap_or_default())
    }

    /// The pairs of guests that are remembered.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn pairs(&self) -> Result<Vec<(PairKey, PairSlot)>> {
        self.entries("pairs")
    }

    /// Forgets these pairs, where they are idle at `now`. Returns how many.
    pub(super) fn expire_pairs(&self, now: u64, keys: &[PairKey]) -> Result<usize> {
        let keys: Vec<&[u8]> = keys.iter().map(PairKey::as_bytes).collect();
        Ok(tick_keys(|| self.share_tick(), TICK_EXPIRE, now, &keys)?.touched as usize)
    }

    /// Asks for the marks of these pairs, each with the address of the guest here, as far as its peer was not told of them. Returns how
    /// many were asked for: there are events of them.
    pub(super) fn tell_pairs(&self, pairs: &[(PairKey, [u32; 4])]) -> Result<usize> {
        let told: Vec<Vec<u8>> =
            pairs.iter().map(|(key, own)| [key.as_bytes(), &own.map(u32::to_ne_bytes).concat()].concat()).collect();
        let told: Vec<&[u8]> = told.iter().map(Vec::as_slice).collect();
        let what = if self.plain { TICK_TELL_PLAIN } else { TICK_TELL };
        Ok(tick_keys(|| self.share_tick(), what, 0, &told)?.touched as usize)
    }

    fn share_tick(&self) -> Result<ProgramMut<'_>> {
        const NAME: &str = "selvedge_share_tick";
        self.object.progs_mut().find(|program| program.name() == NAME).ok_or(Error::Missing(NAME))
    }
}
