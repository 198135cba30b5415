//! The programs of FastLane (`datapath/kernel/fastlane.bpf.c`). They are loaded twice: beside the edge's, for ports; and for whoever
//! hears of drops and sends again ([`Watch`]), whose program ends with it. Both use the same maps.

#[cfg(fastlane_object)]
use super::pins;
use super::tick::tick_keys;
use super::walk::{Walk, CHUNK};
use super::{context_of, Error, KernelEdge, Result, Role, Segment};
use crate::state::fastlane::{FastCall, FastConf, FastCounts, FastKey, FastReasons};
use crate::state::{Peer, Plain, Port, TICK_EXPIRE};
use edge::fastlane::Decision;
use libbpf_rs::btf::{types::Enum, Btf};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramMut};
#[cfg(fastlane_object)]
use libbpf_rs::{ObjectBuilder, OpenObject};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

#[cfg(fastlane_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fastlane.bpf.o"));

/// The section of the constants that say what to look at.
#[cfg(fastlane_object)]
const REASONS: &str = ".rodata.reasons";
const DROPS: &str = "fast_drops";
const DROPPED: &str = "selvedge_fast_dropped";
const DECIDE: &str = "selvedge_fast_decide";
/// Maps of one load each: notes that live no longer than a packet, and what the agent sets and reads.
#[cfg(fastlane_object)]
const OWN: [&str; 5] = ["fast_scratch", "fast_deciding", "fast_dropping", "fast_conf", DROPS];

/// Numbers by which this kernel names why it drops packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// For which queues drop: name, number.
    pub queues: Vec<(String, u32)>,
    /// Of packets that a tc program drops, on ingress and on egress.
    pub shot: [u32; 2],
}

/// Reasons of queues begin so, and those of programs are named so; before Linux 5.18 or so there are none.
const START: &str = "SKB_DROP_REASON_";
const QUEUES: [&str; 3] = ["QDISC_", "FQ_", "CAKE_"];
const SHOT: [&str; 2] = ["TC_INGRESS", "TC_EGRESS"];

/// Looked up in the kernel's type information: numbers differ from kernel to kernel.
///
/// # Errors
/// Why FastLane cannot work on this host, in one line.
pub fn drop_reasons() -> std::result::Result<Reasons, String> {
    let btf = Btf::from_vmlinux()
        .map_err(|e| format!("the kernel has no type information ({e}): boot one built with CONFIG_DEBUG_INFO_BTF"))?;
    let reasons = btf.type_by_name::<Enum<'_>>("skb_drop_reason");
    let reasons = reasons.ok_or("the kernel does not say why it drops packets: run Linux 6.6 or newer")?;
    let named = reasons.iter().filter_map(|member| Some((member.name?.to_str()?, u32::try_from(member.value).ok()?)));
    let found = sort_out(named);
    match found.queues.is_empty() {
        true => Err("the kernel has no reasons for what its queues drop: run Linux 6.6 or newer".into()),
        false => Ok(found),
    }
}

fn sort_out<'a>(reasons: impl Iterator<Item = (&'a str, u32)>) -> Reasons {
    let mut found = Reasons::default();
    for (name, number) in reasons {
        let Some(name) = name.strip_prefix(START) else { continue };
        if let Some(which) = SHOT.iter().position(|shot| *shot == name) {
            found.shot[which] = number;
        // Of old kernels, programs of clsact.
        } else if name == "QDISC_INGRESS" || name == "QDISC_EGRESS" {
            continue;
        } else if number < 256 && QUEUES.iter().any(|start| name.starts_with(start)) {
            found.queues.push((name.to_owned(), number));
        }
    }
    found
}

#[cfg(fastlane_object)]
fn constants(reasons: &Reasons) -> Result<FastReasons> {
    let path = "/proc/thread-self/ns/net";
    let netns = std::fs::metadata(path).map_err(|e| Error::Io("look at", path.into(), e))?.ino() as u32;
    let mut queues = [0u64; 4];
    for (_, number) in &reasons.queues {
        queues[(number / 64) as usize % 4] |= 1 << (number % 64);
    }
    Ok(FastReasons { queues, shot: reasons.shot, netns, pad: 0 })
}

#[cfg(fastlane_object)]
fn read(object: &[u8]) -> Result<OpenObject> {
    ObjectBuilder::default().open_memory(object).map_err(|e| Error::Bpf("read the programs of FastLane", e))
}

/// All programs, with nothing to hear of.
#[cfg(fastlane_object)]
pub(super) fn try_load(object: Option<&[u8]>, rows: u32) -> Result<Object> {
    let mut open = read(object.unwrap_or(OBJECT))?;
    for mut map in open.maps_mut().filter(|map| map.name() == "fast") {
        map.set_max_entries(rows).map_err(|e| Error::Bpf("size the table of FastLane", e))?;
    }
    super::refusal::load(open, "load the programs of FastLane")
}

impl KernelEdge {
    /// Loads the programs of ports, and adopts or makes their maps. Fine if they are loaded already. `max_flows`: connections followed
    /// at once.
    ///
    /// # Errors
    /// As [`KernelEdge::open`].
    #[cfg(fastlane_object)]
    pub fn open_fastlane(&mut self, max_flows: u32) -> Result<()> {
        if self.fastlane.is_none() {
            let mut open = self.read_fastlane(Some(max_flows))?;
            for mut program in open.progs_mut() {
                if program.name() == DROPPED || program.name() == DECIDE {
                    program.set_autoload(false);
                }
            }
            self.fastlane = Some(super::refusal::load(open, "load the programs of FastLane")?);
        }
        Ok(())
    }

    /// As this build lacks the programs, always an error.
    ///
    /// # Errors
    /// [`Error::Missing`].
    #[cfg(not(fastlane_object))]
    pub fn open_fastlane(&mut self, _: u32) -> Result<()> {
        Err(Error::Missing("the programs of FastLane"))
    }

    #[cfg(fastlane_object)]
    fn read_fastlane(&self, max_flows: Option<u32>) -> Result<OpenObject> {
        let mut open = read(OBJECT)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_owned();
            let text = name.to_string_lossy();
            if text.contains('.') || OWN.contains(&&*text) {
                continue;
            }
            if text == "fast" {
                let size = max_flows.or_else(|| Some(self.fast_map("fast")?.max_entries()));
                map.set_max_entries(size.unwrap_or(1)).map_err(|e| Error::Bpf("size the table of FastLane", e))?;
            }
            map.set_pin_path(pins::place(&self.pins, &self.maps, &name))
                .map_err(|e| Error::Bpf("name a map's pin", e))?;
        }
        Ok(open)
    }

    /// Hears of what this network namespace drops, from now on until it is dropped itself. `bytes`: of one guest's frames in
    /// [`FAST_INTERVAL_NS`](crate::state::fastlane::FAST_INTERVAL_NS).
    ///
    /// # Errors
    /// As [`KernelEdge::open_fastlane`], which must have been called.
    #[cfg(fastlane_object)]
    pub fn watch_drops(&self, reasons: &Reasons, bytes: u64) -> Result<Watch> {
        let mut open = self.read_fastlane(None)?;
        let constants = constants(reasons)?;
        for mut map in open.maps_mut() {
            if map.name() == REASONS {
                let place = map.initial_value_mut().and_then(|all| all.get_mut(..size_of::<FastReasons>()));
                place.ok_or(Error::Missing(REASONS))?.copy_from_slice(constants.as_bytes());
            }
        }
        for mut program in open.progs_mut() {
            if program.name() != DROPPED && program.name() != DECIDE {
                program.set_autoload(false);
            }
        }
        let object = super::refusal::load(open, "load the program that hears of drops")?;
        let conf = object.maps().find(|map| map.name() == "fast_conf").ok_or(Error::Missing("fast_conf"))?;
        conf.update(0u32.as_bytes(), FastConf { bytes }.as_bytes(), MapFlags::ANY)
            .map_err(|e| Error::Bpf("update a map", e))?;
        let link =
            object.progs_mut().find(|program| program.name() == DROPPED).ok_or(Error::Missing(DROPPED))?.attach();
        let link = link.map_err(|e| Error::Bpf("hear of packets that are dropped", e))?;
        Ok(Watch { link, object })
    }

    /// As this build lacks the programs, always an error.
    ///
    /// # Errors
    /// [`Error::Missing`].
    #[cfg(not(fastlane_object))]
    pub fn watch_drops(&self, _: &Reasons, _: u64) -> Result<Watch> {
        Err(Error::Missing("the programs of FastLane"))
    }

    /// What the programs have counted; zeros before [`KernelEdge::open_fastlane`].
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn fast_counts(&self) -> Result<FastCounts> {
        let mut sum = FastCounts::default();
        let Some(map) = self.fast_map("fast_counts") else { return Ok(sum) };
        let values =
            map.lookup_percpu(0u32.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read the counters", e))?;
        values.iter().flatten().filter_map(|cpu| FastCounts::from_bytes(cpu)).for_each(|cpu| sum.add(&cpu));
        Ok(sum)
    }

    /// Is FastLane loaded? Its programs stay loaded, without effect, once they were.
    pub fn has_fastlane(&self) -> bool {
        self.fastlane.is_some()
    }

    pub(super) fn fast_program(&self, role: Role) -> Result<libbpf_rs::Program<'_>> {
        let name = role.program(false);
        let object = self.fastlane.as_ref().ok_or(Error::Missing("the programs of FastLane"))?;
        object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))
    }

    /// Forgets the connections of these ports: what waits to be sent again for one is then nobody's. Returns how many.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn forget_fast(&self, ports: &BTreeSet<u32>) -> Result<usize> {
        let Some(map) = self.fast_map("fast") else { return Ok(0) };
        let (mut walk, mut keys) = (Walk::default(), Vec::new());
        while let Some(entries) = walk.step(&map, CHUNK)? {
            keys.extend(
                entries.filter_map(|(key, _)| FastKey::from_bytes(key)).filter(|key| ports.contains(&key.port)),
            );
        }
        let keys: Vec<&[u8]> = keys.iter().map(FastKey::as_bytes).collect();
        let program = || self.fast_tick().ok_or(Error::Missing("selvedge_fast_tick"));
        // At the end of time all have expired.
        Ok(tick_keys(program, TICK_EXPIRE, u64::MAX, &keys)?.touched as usize)
    }

    pub(super) fn fast_map(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        self.fastlane.as_ref()?.maps().find(|map| map.name() == name)
    }

    pub(super) fn fast_tick(&self) -> Option<ProgramMut<'_>> {
        self.fastlane.as_ref()?.progs_mut().find(|program| program.name() == "selvedge_fast_tick")
    }
}

/// The program that hears of drops, and the one that decides about them.
#[derive(Debug)]
pub struct Watch {
    /// Ends before the programs do.
    #[allow(dead_code, reason = "dropping it ends the program")]
    link: Link,
    object: Object,
}

impl Watch {
    /// A perf event array, to which each drop comes as a [`FastDrop`](crate::state::fastlane::FastDrop) and its bytes.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn drops(&self) -> Result<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == DROPS).ok_or(Error::Missing(DROPS))
    }

    /// A guest's port, by ifindex.
    ///
    /// # Errors
    /// [`Error::Bpf`], [`Error::Missing`].
    pub fn port(&self, ifindex: u32) -> Result<Option<Port>> {
        self.row("ports", ifindex)
    }

    /// The peer with that number.
    ///
    /// # Errors
    /// As [`Watch::port`].
    pub fn peer(&self, id: u32) -> Result<Option<Peer>> {
        self.row("peers", id)
    }

    fn row<T: Plain>(&self, name: &'static str, key: u32) -> Result<Option<T>> {
        let map = self.object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
        let row = map.lookup(key.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read a map", e))?;
        Ok(row.as_deref().and_then(T::from_bytes))
    }

    /// What to do about a packet; writes [`FastCall::stamp`], [`FastCall::due`] and [`FastCall::answer`].
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn decide(&self, call: &mut FastCall) -> Result<Decision> {
        const AT: usize = 14;
        let program = self.object.progs_mut().find(|program| program.name() == DECIDE).ok_or(Error::Missing(DECIDE))?;
        // Of a type that is nobody's (IEEE 802, local experiments).
        let frame = [&[0; 12], [0x88, 0xb5].as_slice(), call.as_bytes()].concat();
        let (mut context, mut out) = (context_of(Segment::default()), vec![0; frame.len()]);
        let input = libbpf_rs::ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&frame),
            data_out: Some(&mut out),
            ..Default::default()
        };
        let number = program.test_run(input).map_err(|e| Error::Bpf("run a program", e))?.return_value;
        if let Some(written) = out.get(AT..).and_then(FastCall::from_bytes) {
            *call = written;
        }
        Ok(Decision::of(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_queues_are_told_by_their_names() {
        let names =
            ["NOT_SPECIFIED", "TC_INGRESS", "QDISC_DROP", "FQ_BAND_LIMIT", "CAKE_FLOOD", "QDISC_EGRESS", "TC_EGRESS"];
        let named: Vec<String> = names.iter().map(|name| format!("SKB_DROP_REASON_{name}")).collect();
        let found = sort_out(named.iter().map(String::as_str).zip(2..).chain([("QDISC_DROP", 40)]));
        assert_eq!(found.queues, [("QDISC_DROP".into(), 4), ("FQ_BAND_LIMIT".into(), 5), ("CAKE_FLOOD".into(), 6)]);
        assert_eq!(found.shot, [3, 8]);
        assert_eq!(sort_out([("SKB_DROP_REASON_QDISC_DROP", 256)].into_iter()), Reasons::default());
    }
}
