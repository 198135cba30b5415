//! The programs of rate limits (`datapath/kernel/limits.bpf.c`): loaded when the first limit is wanted, beside the edge's.

#[cfg(limits_object)]
use super::types::Types;
use super::{context_of, pins, word_of, Error, KernelEdge, Result, Role, Segment, TestRun, MARK, PRIORITY};
use crate::state::limiter::{Limiter, LimiterCounts, LimiterKey};
use crate::state::Plain;
#[cfg(limits_object)]
use agent_api::lacking::HTB;
#[cfg(limits_object)]
use libbpf_rs::ObjectBuilder;
use libbpf_rs::{MapCore, MapFlags, Object};

#[cfg(limits_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/limits.bpf.o"));

/// Without laws, and without anything that is fitted to the kernel's types.
#[cfg(limits_object)]
static PLAIN_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/limits_plain.bpf.o"));

/// Of a port's ingress, in that one.
const PLAIN: &str = "selvedge_limit_plain";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The section of the constant that says whether the kernel has `bpf_rdonly_cast`.
const CASTS: &str = ".rodata.casts";
/// A note that lives no longer than a packet.
const CONTEXT: &str = "limit_context";
/// What limiters remember of flows that go first.
const FLOWS: &str = "limiter_flows";

/// Does the kernel let programs read its memory without a call? Linux 6.2 and later.
#[cfg(limits_object)]
fn has_cast() -> bool {
    use libbpf_rs::btf::{types::Func, Btf};
    Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>("bpf_rdonly_cast").is_some())
}

/// The types to which laws are fitted where HTB is a module: to be kept until the programs are loaded. Without them libbpf looks for
/// them itself.
#[cfg(limits_object)]
fn htb_types(laws: bool) -> Option<Types> {
    laws.then(|| Types::with("sch_htb").ok().flatten()).flatten()
}

/// The programs with their constants, as yet without pins.
#[cfg(limits_object)]
fn open_object(object: &[u8], max_flows: u32, laws: bool, types: Option<&Types>) -> Result<libbpf_rs::OpenObject> {
    let failed = |e| Error::Bpf("read the programs of limits", e);
    let mut builder = ObjectBuilder::default();
    if let Some(types) = types {
        builder.btf_custom_path(types.path()).map_err(failed)?;
    }
    let mut open = builder.open_memory(object).map_err(failed)?;
    let casts = u32::from(laws && has_cast());
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        if name == CASTS {
            if let Some(constant) = map.initial_value_mut().and_then(|all| all.get_mut(..4)) {
                constant.copy_from_slice(&casts.to_ne_bytes());
            }
        }
        if name == "limited" {
            map.set_max_entries(max_flows).map_err(|e| Error::Bpf("size the table of limited flows", e))?;
        }
    }
    Ok(open)
}

/// Why laws cannot even be tried, if so. Has the kernel load its HTB, whose types the programs are fitted to.
#[cfg(limits_object)]
fn lawless_kernel() -> Option<String> {
    if !std::path::Path::new(BTF).exists() {
        return Some(format!("the kernel has no {BTF}: boot one built with CONFIG_DEBUG_INFO_BTF"));
    }
    (!crate::htb::load()).then(|| HTB.missing.to_owned())
}

/// Loads the programs without laws, pinned nowhere.
///
/// # Errors
/// Why there are no limits here.
#[cfg(limits_object)]
pub(super) fn try_load_plain(object: Option<&[u8]>, max_flows: u32) -> Result<Object> {
    let open = open_object(object.unwrap_or(PLAIN_OBJECT), max_flows, false, None)?;
    super::refusal::load(open, "load the programs of limits without laws")
}

/// Loads the programs with laws, pinned nowhere.
///
/// # Errors
/// Why limits have no laws here.
#[cfg(limits_object)]
pub(super) fn try_load(object: Option<&[u8]>, max_flows: u32) -> Result<Object> {
    if let Some(why) = lawless_kernel() {
        return Err(Error::Lawless(why));
    }
    let types = htb_types(true);
    let open = open_object(object.unwrap_or(OBJECT), max_flows, true, types.as_ref())?;
    super::refusal::load(open, "load the programs of limits")
}

#[derive(Debug)]
pub(super) struct Limits {
    object: Object,
    /// Why the laws cannot act, if so: queues are then as long as HTB lets them be.
    lawless: Option<String>,
    /// The program of guests' own ends is pinned.
    inside: bool,
}

impl Limits {
    fn program_of(&self, role: Role) -> &'static str {
        if self.lawless.is_some() && role == Role::LimitGuest {
            PLAIN
        } else {
            role.program(false)
        }
    }
}

impl KernelEdge {
    /// Loads the programs, and adopts or makes their maps. Fine if they are loaded already. `max_flows`: connections
    /// followed at once.
    ///
    /// # Errors
    /// As [`KernelEdge::open`]; [`Error::Lacks`] without HTB, which may be there at the next call.
    #[cfg(limits_object)]
    pub fn open_limits(&mut self, max_flows: u32) -> Result<()> {
        if self.limits.is_some() {
            return Ok(());
        }
        if !crate::htb::load() {
            return Err(Error::Lacks(HTB.missing));
        }
        let lawless = if self.test_lawless { Some("a test wants none".to_owned()) } else { lawless_kernel() };
        let whole = match lawless {
            None => self.load_limits(max_flows, true).map_err(|e| e.to_string()),
            Some(why) => Err(why),
        };
        self.limits = Some(match whole {
            Ok(object) => Limits { object, lawless: None, inside: self.keep_inside().is_ok() },
            Err(why) => Limits { object: self.load_limits(max_flows, false)?, lawless: Some(why), inside: false },
        });
        Ok(())
    }

    /// As this build lacks the programs, always an error.
    ///
    /// # Errors
    /// [`Error::Missing`].
    #[cfg(not(limits_object))]
    pub fn open_limits(&mut self, _: u32) -> Result<()> {
        Err(Error::Missing("the programs of rate limits"))
    }

    #[cfg(limits_object)]
    fn load_limits(&self, max_flows: u32, laws: bool) -> Result<Object> {
        let types = htb_types(laws);
        let object = if laws { OBJECT } else { PLAIN_OBJECT };
        let mut open = open_object(object, max_flows, laws, types.as_ref())?;
        for mut map in open.maps_mut() {
            let name = map.name().to_owned();
            if name.to_string_lossy().contains('.') || name == CONTEXT {
                continue; // of these very programs
            }
            map.set_pin_path(pins::place(&self.pins, &self.maps, &name))
                .map_err(|e| Error::Bpf("name a map's pin", e))?;
        }
        super::refusal::load(open, "load the programs of limits")
    }

    /// Why limits have no laws here, once [`KernelEdge::open_limits`] has been called; `None` if they can have them.
    pub fn lawless(&self) -> Option<&str> {
        self.limits.as_ref().and_then(|limits| limits.lawless.as_deref())
    }

    /// Have limits laws here? Not before [`KernelEdge::open_limits`] has loaded the programs.
    pub fn has_laws(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.lawless.is_none())
    }

    /// Can guests' own ends have a program ([`KernelEdge::inside`])?
    pub fn can_turn(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.inside)
    }

    pub(super) fn limit_program(&self, role: Role) -> Result<libbpf_rs::Program<'_>> {
        let limits = self.limits.as_ref().ok_or(Error::Missing("the programs of rate limits"))?;
        let name = limits.program_of(role);
        limits.object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))
    }

    /// What the law of one limiter has done; zeros if it has done nothing.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn limiter_counts(&self, key: &LimiterKey) -> Result<LimiterCounts> {
        let mut sum = LimiterCounts::default();
        let Some(map) = self.limits.as_ref().and_then(|limits| map(limits, "limiter_counts")) else { return Ok(sum) };
        let values =
            map.lookup_percpu(key.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read the counters", e))?;
        values.iter().flatten().filter_map(|cpu| LimiterCounts::from_bytes(cpu)).for_each(|cpu| sum.add(&cpu));
        Ok(sum)
    }

    /// One limiter as it stands, with what the data path has noted in it.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn limiter(&self, key: &LimiterKey) -> Result<Option<Limiter>> {
        let Some(map) = self.limits.as_ref().and_then(|limits| map(limits, "limiters")) else { return Ok(None) };
        let value = map.lookup(key.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read a map", e))?;
        Ok(value.and_then(|value| Limiter::from_bytes(&value)))
    }

    /// Limits one direction of a port by what the data path does alone: a law, a schedule. Attach [`Role::LimitGuest`] and
    /// [`Role::LimitPort`] to it afterwards.
    ///
    /// # Errors
    /// [`Error::Missing`] before [`KernelEdge::open_limits`], [`Error::Bpf`].
    pub fn set_limiter(&self, key: &LimiterKey, limiter: &Limiter) -> Result<()> {
        let map = self.limits.as_ref().and_then(|limits| map(limits, "limiters")).ok_or(Error::Missing("limiters"))?;
        map.update(key.as_bytes(), limiter.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("update a map", e))
    }

    /// Runs a program of limits on one frame (BPF_PROG_TEST_RUN) that came with a time `stamp`. Returns also what the frame's is
    /// afterwards: its departure time, ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// As [`KernelEdge::test_run`], and as [`KernelEdge::set_limiter`].
    pub fn test_run_limit(&self, role: Role, frame: &[u8], segment: Segment, stamp: u64) -> Result<(TestRun, u64)> {
        const TSTAMP: usize = 152;
        let limits = self.limits.as_ref().ok_or(Error::Missing("the programs of rate limits"))?;
        let mut context = context_of(segment);
        context[TSTAMP..TSTAMP + 8].copy_from_slice(&stamp.to_ne_bytes());
        let (mut seen, mut out) = (context, vec![0; frame.len() + 256]);
        let name = limits.program_of(role);
        let program = limits.object.progs_mut().find(|program| program.name() == name);
        let input = libbpf_rs::ProgramInput {
            context_in: Some(&mut context),
            context_out: Some(&mut seen),
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..Default::default()
        };
        let output = program.ok_or(Error::Missing(name))?.test_run(input);
        let output = output.map_err(|e| Error::Bpf("run a program", e))?;
        let (verdict, duration) = (output.return_value, output.duration);
        let len = output.data.map_or(0, |data| data.len());
        out.truncate(len);
        let stamp = seen[TSTAMP..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let [mark, priority] = [MARK, PRIORITY].map(|at| word_of(&seen, at));
        Ok((TestRun { verdict, frame: out, mark, priority, duration }, stamp))
    }

    /// Makes room for what a limiter remembers of flows that go first. Fine if it has that already.
    ///
    /// # Errors
    /// As [`KernelEdge::set_limiter`].
    pub fn note_flows(&self, key: &LimiterKey) -> Result<()> {
        let map = self.limits.as_ref().and_then(|limits| map(limits, FLOWS)).ok_or(Error::Missing(FLOWS))?;
        match map.update(key.as_bytes(), &vec![0; map.value_size() as usize], MapFlags::NO_EXIST) {
            Err(e) if e.kind() != libbpf_rs::ErrorKind::AlreadyExists => Err(Error::Bpf("update a map", e)),
            _ => Ok(()),
        }
    }

    /// Bytes that have gone first through a limiter.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn first_bytes(&self, key: &LimiterKey) -> Result<u64> {
        /// struct sv_limiter_flows: lock, then struct sv_sparse.
        const FIRST: usize = 8 + 16;
        let Some(map) = self.limits.as_ref().and_then(|limits| map(limits, FLOWS)) else { return Ok(0) };
        let value = map.lookup(key.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read a map", e))?;
        let first = value.as_deref().and_then(|value| value.get(FIRST..)?.first_chunk());
        Ok(first.map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
    }

    /// Forgets what a limiter that is gone has counted and remembered: its interface's number may be another's soon.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn forget_limiter(&self, key: &LimiterKey) -> Result<()> {
        let Some(limits) = &self.limits else { return Ok(()) };
        for map in ["limiter_counts", FLOWS].iter().filter_map(|name| map(limits, name)) {
            match map.delete(key.as_bytes()) {
                Err(e) if e.kind() != libbpf_rs::ErrorKind::NotFound => return Err(Error::Bpf("delete from a map", e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The connections through limits, if there has ever been one with a law.
    pub(super) fn limited(&self) -> Option<libbpf_rs::Map<'_>> {
        let limits = self.limits.as_ref().filter(|limits| limits.lawless.is_none())?;
        map(limits, "limited")
    }

    pub(super) fn limit_tick(&self) -> Option<libbpf_rs::ProgramMut<'_>> {
        self.limits.as_ref()?.object.progs_mut().find(|program| program.name() == "selvedge_limit_tick")
    }
}

fn map<'a>(limits: &'a Limits, name: &str) -> Option<libbpf_rs::Map<'a>> {
    limits.object.maps().find(|map| map.name() == name)
}
