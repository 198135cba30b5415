//! The loaded kernel edge: its maps, its programs on interfaces, and what is pinned of them.
//!
//! Everything that must outlive the agent is pinned below one directory of a bpffs: maps in `v<version>/`, links in
//! `links/`, and in `filters/` the programs behind filters of clsact. A restarted agent adopts maps of its own version and
//! of the flow table's size. Otherwise it makes new maps beside them. Once these are filled, it puts its programs behind the
//! old links and filters, so that no interface is ever without a program. Flows are then tracked from scratch, but for what only
//! their handshakes told: that is in `kept/`, which has no version.

use crate::bpf::Unavailable;
use crate::netlink;
use crate::state::{
    Config, Counter, Counters, Event, FlowSlot, FlowSlotKey, Peer, Plain, Port, Route, RouteKey, TICK_FORGET,
    TICK_RECLASSIFY,
};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, RingBufferBuilder};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod attach;
mod fastlane;
mod heard;
mod inside;
mod limits;
mod paths;
mod pins;
mod refusal;
mod removal;
mod role;
mod segment;
mod sweep;
mod tenants;
mod tick;
mod timers;
mod trial;
#[cfg(limits_object)]
mod types;
pub mod walk;

pub use agent_api::config::Place;
pub use attach::{attachments, Attachment};
pub use fastlane::{drop_reasons, Reasons, Watch};
pub use inside::Inside;
pub use paths::Place as PathPlace;
pub use pins::other_edges;
use pins::{entries, holds_maps, remove_pins};
pub use removal::remove_edge;
pub use role::Role;
use segment::{context_of, word_of, MARK, PRIORITY};
pub use segment::{Segment, TestRun};
pub use sweep::{Sweep, Swept};
pub use tenants::MAX_PAIRS;
pub use tick::Ticked;
pub use trial::{try_edge, try_fastlane, try_laws, try_limits_without_laws, Taken};

/// What [`KernelEdge::open`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// Nothing of this version was pinned: the maps are new.
    New,
    /// Maps of an earlier agent, with its flows and configuration.
    Existing,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Directory in a bpffs, made if it is missing. Default `/sys/fs/bpf/selvedge`.
    pub pins: PathBuf,
    /// Flows remembered at once. Default 65536. Maps pinned with another size are not adopted but replaced.
    pub max_flows: u32,
    /// The maps' version instead of [`crate::state_version`]: for tests of the change from one to another.
    pub version: Option<u32>,
    /// `REWRITE_*`: what the programs change in every segment of tracked flows, for tests of the writing back. Default 0.
    pub test_rewrite: u32,
    /// The stages' clock stands at [`Config::test_now_us`], for tests of what time does. Default false.
    pub test_clock: bool,
    /// Where programs are put on interfaces. Default last.
    pub place: Place,
    /// Guests' packets leave as they are, without a tunnel. Default false.
    pub plain: bool,
    /// Limits have no laws, as on kernels that do not describe their types: for tests. Default false.
    pub test_lawless: bool,
}

/// Of [`Options::test_rewrite`]: the lowest bit of TCP's window becomes 1.
pub const REWRITE_WINDOW: u32 = 1;
/// Of [`Options::test_rewrite`]: not-ECT becomes ECT(0).
pub const REWRITE_ECN: u32 = 2;

impl Default for Options {
    fn default() -> Options {
        Options {
            pins: "/sys/fs/bpf/selvedge".into(),
            max_flows: 65_536,
            version: None,
            test_rewrite: 0,
            test_clock: false,
            place: Place::default(),
            plain: false,
            test_lawless: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("cannot {0}: {1}")]
    Bpf(&'static str, libbpf_rs::Error),
    /// With why the verifier refuses a program, on lines of their own.
    #[error("cannot {0}: {1}; {2}")]
    Refused(&'static str, libbpf_rs::Error, String),
    #[error("{0}")]
    TooOld(String),
    /// The kernel lacks a module.
    #[error("{0}")]
    Lacks(&'static str),
    /// Why rate limits have no laws.
    #[error("{0}")]
    Lawless(String),
    /// Why FastLane has no drops to hear of.
    #[error("{0}")]
    NoReasons(String),
    #[error("cannot {0} {1}: {2}")]
    Io(&'static str, PathBuf, io::Error),
    #[error("the object lacks {0}")]
    Missing(&'static str),
}

/// The map of the device to which segments are diverted.
const RECEIVER_DEVICE: &str = "receiver_device";

/// Maps of which each load has its own: that device, and what programs need of the packet at hand, or of the last few.
const OWN: [&str; 3] = [RECEIVER_DEVICE, "scratch", "hops"];

type Result<T> = std::result::Result<T, Error>;

/// The kernel edge. Dropping it changes nothing in the kernel: what is pinned goes on.
#[derive(Debug)]
pub struct KernelEdge {
    object: Object,
    /// Loaded with the first limit.
    limits: Option<limits::Limits>,
    /// The programs of FastLane, loaded when it is switched on.
    fastlane: Option<Object>,
    pins: PathBuf,
    maps: PathBuf,
    adopted: Adopted,
    place: Place,
    plain: bool,
    #[cfg_attr(not(limits_object), allow(dead_code, reason = "there are no limits"))]
    test_lawless: bool,
    timers: timers::Timers,
}

impl KernelEdge {
    /// Loads the programs, and adopts the maps that are pinned or pins new ones. Attaches nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the build lacks the programs; otherwise what the kernel refuses: privileges
    /// (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON), a bpffs that is not mounted, maps of another size.
    #[cfg(bpf_object)]
    pub fn open(options: &Options) -> Result<KernelEdge> {
        if let Some(why) = agent_api::release::too_old() {
            return Err(Error::TooOld(why));
        }
        let (maps, adopted) = choose_maps(options);
        let had_kept = options.pins.join(pins::KEPT).join(pins::HANDSHAKES).exists();
        for dir in [&maps, &options.pins.join("links"), &options.pins.join("filters"), &options.pins.join(pins::KEPT)] {
            fs::create_dir_all(dir).map_err(|e| Error::Io("create", dir.clone(), e))?;
        }
        attach::remove_unfinished(&options.pins.join("filters"));
        let mut open =
            ObjectBuilder::default().open_memory(crate::bpf::OBJECT).map_err(|e| Error::Bpf("read the programs", e))?;
        for mut map in open.maps_mut() {
            let name = map.name().to_owned();
            if name.to_string_lossy().contains('.') {
                // Constants of these very programs: not pinned. Those that may be chosen, `sv_test`, come first.
                if let Some((constants, _)) = map.initial_value_mut().and_then(|all| all.split_first_chunk_mut::<8>()) {
                    constants[..4].copy_from_slice(&options.test_rewrite.to_ne_bytes());
                    constants[4..].copy_from_slice(&u32::from(options.test_clock).to_ne_bytes());
                }
                continue;
            }
            if OWN.iter().any(|own| name == *own) {
                continue;
            }
            let size = match name.to_str() {
                Some("flows") => Some(options.max_flows),
                _ => None,
            };
            if let Some(size) = size {
                map.set_max_entries(size).map_err(|e| Error::Bpf("size the flow table", e))?;
            }
            map.set_pin_path(pins::place(&options.pins, &maps, &name))
                .map_err(|e| Error::Bpf("name a map's pin", e))?;
        }
        // Those of the other mode would only cost the verifier's time.
        for mut program in open.progs_mut() {
            if program.name().to_str().is_some_and(|name| role::is_unused(name, options.plain)) {
                program.set_autoload(false);
            }
        }
        let object = refusal::load(open, "load the kernel edge").inspect_err(|_| {
            if adopted == Adopted::New {
                // Maps are pinned before the programs are refused. What others use stays: it is not empty.
                let _ = remove_pins(&maps);
                let _ = fs::remove_dir(options.pins.join("links"));
                let _ = fs::remove_dir(options.pins.join("filters"));
                if !had_kept {
                    let _ = remove_pins(&options.pins.join(pins::KEPT));
                }
            }
        })?;
        let timers = object.maps().find(|map| map.name() == "timers").ok_or(Error::Missing("timers"))?;
        let timers = timers::Timers::map(&timers)?;
        let Options { pins, place, plain, test_lawless, .. } = options.clone();
        let (limits, fastlane) = (None, None);
        Ok(KernelEdge { object, limits, fastlane, pins, maps, adopted, place, plain, test_lawless, timers })
    }

    /// As this build lacks the programs, always an error.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    #[cfg(not(bpf_object))]
    pub fn open(_: &Options) -> Result<KernelEdge> {
        Err(crate::bpf::available().map_or_else(Error::from, |()| Error::Missing("everything")))
    }

    pub fn adopted(&self) -> Adopted {
        self.adopted
    }

    /// The directory in which this edge's maps are pinned.
    pub fn maps(&self) -> &Path {
        &self.maps
    }

    /// Directories of maps that agents of other versions, or with flow tables of another size, left;
    /// [`KernelEdge::remove_other_versions`] deletes them.
    pub fn other_versions(&self) -> Vec<PathBuf> {
        let mut found = entries(&self.pins);
        found.retain(|path| holds_maps(path) && *path != self.maps);
        found.sort();
        found
    }

    /// Call once all programs of this version are attached.
    ///
    /// # Errors
    /// [`Error::Io`] on the first directory that does not go.
    pub fn remove_other_versions(&self) -> Result<()> {
        self.other_versions().iter().try_for_each(|dir| remove_pins(dir))
    }

    /// [`Config::epoch`] goes on from where it is.
    pub fn set_config(&self, config: &Config) -> Result<()> {
        let epoch = self.config()?.epoch.checked_add(1).unwrap_or(1);
        self.update("config", 0u32.as_bytes(), Config { epoch, ..*config }.as_bytes())
    }

    /// From here on the data path looks ports and routes up again for every flow. To be called after maps were changed
    /// by others than this type's functions, which do it themselves.
    pub fn begin_epoch(&self) -> Result<()> {
        match self.config()? {
            Config { epoch: 0, .. } => Ok(()), // not configured yet
            config => self.set_config(&config),
        }
    }

    pub fn config(&self) -> Result<Config> {
        Ok(self.lookup("config", 0u32.as_bytes())?.unwrap_or_default())
    }

    /// Makes an interface a guest's port. Attach [`Role::Guest`] to it afterwards.
    pub fn set_port(&self, ifindex: u32, port: &Port) -> Result<()> {
        self.update("ports", ifindex.as_bytes(), port.as_bytes())?;
        self.begin_epoch()
    }

    pub fn remove_port(&self, ifindex: u32) -> Result<()> {
        self.delete("ports", ifindex.as_bytes())?;
        self.begin_epoch()
    }

    /// All ports, by ifindex.
    pub fn ports(&self) -> Result<Vec<(u32, Port)>> {
        self.entries("ports")
    }

    /// `id` is the caller's number for the peer. What its outer address sends is taken from now on.
    pub fn set_peer(&self, id: u32, peer: &Peer) -> Result<()> {
        let old = self.lookup::<Peer>("peers", id.as_bytes())?;
        self.update("peers", id.as_bytes(), peer.as_bytes())?;
        self.update("remotes", &address_bytes(peer.tunnel.remote), id.as_bytes())?;
        if let Some(old) = old.filter(|old| old.tunnel.remote != peer.tunnel.remote) {
            self.delete("remotes", &address_bytes(old.tunnel.remote))?;
        }
        self.begin_epoch()
    }

    pub fn remove_peer(&self, id: u32) -> Result<()> {
        if let Some(old) = self.lookup::<Peer>("peers", id.as_bytes())? {
            self.delete("remotes", &address_bytes(old.tunnel.remote))?;
            self.delete("peers", id.as_bytes())?;
        }
        self.begin_epoch()
    }

    /// All peers, by number.
    pub fn peers(&self) -> Result<Vec<(u32, Peer)>> {
        self.entries("peers")
    }

    /// Where inner addresses are; the longest prefix wins.
    pub fn set_route(&self, vni: u32, addr: IpAddr, len: u8, route: &Route) -> Result<()> {
        self.update("routes", RouteKey::new(vni, addr, len).as_bytes(), route.as_bytes())?;
        self.begin_epoch()
    }

    pub fn remove_route(&self, vni: u32, addr: IpAddr, len: u8) -> Result<()> {
        self.delete("routes", RouteKey::new(vni, addr, len).as_bytes())?;
        self.begin_epoch()
    }

    /// Where `addr` of network `vni` is: what the data path finds for it.
    pub fn route(&self, vni: u32, addr: IpAddr) -> Result<Option<Route>> {
        self.lookup("routes", RouteKey::new(vni, addr, 128).as_bytes())
    }

    pub fn peer(&self, id: u32) -> Result<Option<Peer>> {
        self.lookup("peers", id.as_bytes())
    }

    pub fn port(&self, ifindex: u32) -> Result<Option<Port>> {
        self.lookup("ports", ifindex.as_bytes())
    }

    /// What virtual congestion control does, if [`CONFIG_CONGESTION`](crate::state::CONFIG_CONGESTION) is set. Flows under
    /// way keep the numbers of their classes; see [`KernelEdge::reclassify`].
    pub fn set_congestion(&self, congestion: &edge::vcc::Config) -> Result<()> {
        self.update("congestion", 0u32.as_bytes(), congestion.as_bytes())
    }

    /// Gives the flows under way the classes that the rules name now.
    pub fn reclassify(&self) -> Result<()> {
        self.tick_all(TICK_RECLASSIFY, |_| true)
    }

    /// To be called before congestion control is switched on: what it knew of flows when it was switched off is old.
    pub fn forget_congestion(&self) -> Result<()> {
        self.tick_all(TICK_FORGET, |slot| slot.vcc != edge::vcc::State::default())
    }

    /// The device of this network namespace to which segments are diverted. The kernel forgets it when it ends.
    pub fn set_receiver_device(&self, ifindex: u32) -> Result<()> {
        self.update(RECEIVER_DEVICE, 0u32.as_bytes(), ifindex.as_bytes())
    }

    /// The map with the one [`ReorderAlive`](crate::state::ReorderAlive).
    pub fn receiver_map(&self) -> Result<libbpf_rs::MapHandle> {
        libbpf_rs::MapHandle::try_from(&self.map("receiver")?).map_err(|e| Error::Bpf("name a map", e))
    }

    /// Detaches everything that [`KernelEdge::attachments`] names and removes all pins.
    ///
    /// # Errors
    /// The first pin that does not go.
    pub fn destroy(self) -> Result<()> {
        remove_edge(&self.pins)
    }

    /// The connections remembered now, sorted. Not a snapshot: the kernel goes on meanwhile.
    pub fn flows(&self) -> Result<Vec<(FlowSlotKey, FlowSlot)>> {
        self.entries("flows")
    }

    pub fn counters(&self) -> Result<Counters> {
        let map = self.map("counters")?;
        let values =
            map.lookup_percpu(0u32.as_bytes(), MapFlags::ANY).map_err(|e| Error::Bpf("read the counters", e))?;
        let mut sums = vec![0u64; Counter::ALL.len()];
        for cpu in values.unwrap_or_default() {
            for (sum, bytes) in sums.iter_mut().zip(cpu.chunks_exact(8)) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()));
            }
        }
        Ok(Counters(sums))
    }

    /// Waits at most `timeout` for events, and takes all that are there.
    pub fn poll_events(&self, timeout: Duration) -> Result<Vec<Event>> {
        let events = std::cell::RefCell::new(Vec::new());
        let map = self.map("events")?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, |bytes| {
                events.borrow_mut().extend(Event::from_bytes(bytes));
                0
            })
            .map_err(|e| Error::Bpf("map the events", e))?;
        let ring = builder.build().map_err(|e| Error::Bpf("map the events", e))?;
        ring.poll(timeout).map_err(|e| Error::Bpf("read events", e))?;
        drop(ring);
        Ok(events.into_inner())
    }

    /// Runs a program on one frame (BPF_PROG_TEST_RUN), as received on interface `ifindex`. Returns its verdict and the
    /// frame as it leaves.
    ///
    /// # Errors
    /// Privileges, no such interface in this namespace, or a frame of fewer than 14 bytes or of more than a page.
    pub fn test_run(&self, role: Role, ifindex: u32, frame: &[u8]) -> Result<(u32, Vec<u8>)> {
        self.test_run_segment(role, frame, Segment { ifindex, ..Segment::default() })
    }

    /// As [`test_run`](KernelEdge::test_run), for a segment that offload left whole: the kernel is told its segment size.
    ///
    /// # Errors
    /// As [`test_run`](KernelEdge::test_run).
    pub fn test_run_segment(&self, role: Role, frame: &[u8], segment: Segment) -> Result<(u32, Vec<u8>)> {
        self.test_run_timed(role, frame, segment).map(|run| (run.verdict, run.frame))
    }

    /// As [`test_run_segment`](KernelEdge::test_run_segment), with the time that the program took.
    ///
    /// # Errors
    /// As [`test_run`](KernelEdge::test_run).
    pub fn test_run_timed(&self, role: Role, frame: &[u8], segment: Segment) -> Result<TestRun> {
        self.run_program(role.program(self.plain), frame, segment)
    }

    fn run_program(&self, name: &'static str, frame: &[u8], segment: Segment) -> Result<TestRun> {
        let mut context = context_of(segment);
        let (mut seen, mut out) = (context, vec![0u8; frame.len() + 256]);
        let mut objects = [Some(&self.object), self.fastlane.as_ref()].into_iter().flatten();
        let program = objects.find_map(|object| object.progs_mut().find(|program| program.name() == name));
        let program = program.ok_or(Error::Missing(name))?;
        let input = libbpf_rs::ProgramInput {
            context_in: Some(&mut context),
            context_out: Some(&mut seen),
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..Default::default()
        };
        let output = program.test_run(input).map_err(|e| Error::Bpf("run a program", e))?;
        let (verdict, duration) = (output.return_value, output.duration);
        let len = output.data.map_or(0, |data| data.len());
        out.truncate(len);
        let [mark, priority] = [MARK, PRIORITY].map(|at| word_of(&seen, at));
        Ok(TestRun { verdict, frame: out, mark, priority, duration })
    }

    fn program(&self, role: Role) -> Result<libbpf_rs::Program<'_>> {
        if role.is_limit() {
            return self.limit_program(role);
        }
        if role.is_fast() {
            return self.fast_program(role);
        }
        let name = role.program(self.plain);
        self.object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))
    }

    fn map(&self, name: &'static str) -> Result<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))
    }

    fn update(&self, map: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.map(map)?.update(key, value, MapFlags::ANY).map_err(|e| Error::Bpf("update a map", e))
    }

    fn lookup<T: Plain>(&self, map: &'static str, key: &[u8]) -> Result<Option<T>> {
        let value = self.map(map)?.lookup(key, MapFlags::ANY).map_err(|e| Error::Bpf("read a map", e))?;
        Ok(value.and_then(|bytes| T::from_bytes(&bytes)))
    }

    /// Fine if there is no such key.
    fn delete(&self, map: &'static str, key: &[u8]) -> Result<()> {
        match self.map(map)?.delete(key) {
            Err(e) if e.kind() != libbpf_rs::ErrorKind::NotFound => Err(Error::Bpf("delete from a map", e)),
            _ => Ok(()),
        }
    }

    fn entries<K: Plain + Ord, V: Plain>(&self, name: &'static str) -> Result<Vec<(K, V)>> {
        let mut found = Vec::new();
        walk::for_each(&self.map(name)?, |key, value| found.extend(K::from_bytes(key).zip(V::from_bytes(value))))?;
        found.sort_unstable_by_key(|entry: &(K, V)| entry.0);
        found.dedup_by(|a, b| a.0 == b.0); // where a map is walked key by key, it may begin anew
        Ok(found)
    }

    /// What is remembered of one connection now.
    pub fn flow(&self, key: &FlowSlotKey) -> Result<Option<FlowSlot>> {
        self.lookup("flows", key.as_bytes())
    }

    /// For tests: puts a connection's state in place of what the programs keep of it.
    pub fn set_flow(&self, key: &FlowSlotKey, slot: &FlowSlot) -> Result<()> {
        self.update("flows", key.as_bytes(), slot.as_bytes())
    }
}

/// CLOCK_MONOTONIC in ns: the clock of everything the kernel edge notes.
pub fn monotonic_ns() -> u64 {
    let now = nix::time::ClockId::CLOCK_MONOTONIC.now();
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// The number of an interface of this network namespace.
///
/// # Errors
/// ENODEV if there is none of that name.
pub fn ifindex(name: &str) -> io::Result<u32> {
    const RTM_GETLINK: u16 = 18;
    const IFLA_IFNAME: u16 = 3;
    const IFNAMSIZ: usize = 16;
    if name.is_empty() || name.len() >= IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(nix::libc::ENODEV));
    }
    // Not SIOCGIFINDEX, which is what if_nametoindex(3) asks: for a name that is missing the kernel would run modprobe each time.
    let asked = [vec![0; 16], netlink::attribute(IFLA_IFNAME, &netlink::terminated(name))].concat();
    let link = netlink::get(RTM_GETLINK, &asked)?;
    netlink::u32_at(&link, 4).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The directory whose maps fit, or that is to have new ones: `v<version>`, or if maps with another number of flows are
/// there, `v<version>-<flows>` beside it. (A bpffs takes no dots.)
#[cfg(bpf_object)]
fn choose_maps(options: &Options) -> (PathBuf, Adopted) {
    let version = options.version.unwrap_or_else(crate::state_version);
    let plain = options.pins.join(format!("v{version}"));
    let sized = options.pins.join(format!("v{version}-{}", options.max_flows));
    let flows = |dir: &Path| libbpf_rs::MapHandle::from_pinned_path(dir.join("flows")).map(|map| map.max_entries());
    let fits = |dir: &Path| flows(dir).is_ok_and(|flows| flows == options.max_flows);
    if let Some(dir) = [&plain, &sized].into_iter().find(|dir| fits(dir)) {
        return (dir.clone(), Adopted::Existing);
    }
    (if plain.join("flows").exists() { sized } else { plain }, Adopted::New)
}

fn address_bytes(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (word, place) in words.iter().zip(bytes.chunks_exact_mut(4)) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_their_whole_name_only() {
        assert_eq!(ifindex("lo").unwrap(), 1);
        for missing in ["", "l", "lo0", "nosuch", "a name that is too long for one", "lo\0"] {
            assert_eq!(ifindex(missing).unwrap_err().raw_os_error(), Some(nix::libc::ENODEV), "{missing:?}");
        }
    }
}
