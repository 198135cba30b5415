//! The kernel's HTB and fq as the agent uses them. tc-htb(8) and tc-fq(8) explain the words.
//!
//! Of HTB there are root qdiscs with one handle of ours, classes, byte queues in the leaves, and the device on which guests' traffic
//! is limited. Where departure times hold the rate, there is an fq.

use crate::gro::{
    link_header, IFF_UP, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, RTM_DELLINK, RTM_NEWLINK,
};
use crate::netlink::{
    attribute, dump, find, in_own_network, nested, request, terminated, u32_at, u64_at, NLM_F_CREATE, NLM_F_EXCL,
    NLM_F_REPLACE,
};
use std::io;

/// Major number of our root qdiscs: what carries it is ours.
pub const HANDLE: u32 = 0x5e1f << 16;
/// The class under which all others are, or the only one.
pub const TOP: u32 = HANDLE | 1;

/// Of the queue in [`TOP`], where that is a leaf.
const TOP_QUEUE: u32 = 0x5e20 << 16;

/// In each network namespace.
const LOOPBACK: u32 = 1;
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
/// struct tcmsg
const TCMSG: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_DIRECT_QLEN: u16 = 5;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_RATE_ENABLE: u16 = 5;
const TCA_FQ_HORIZON: u16 = 14;
/// Of what goes past all classes, more than CPUs that send it at once leave to one another.
const DIRECT_PACKETS: u32 = 1 << 16;
/// More than schedules let wait.
const FQ_PACKETS: u32 = 1 << 24;
const FQ_HORIZON_US: u32 = 10_000_000;
/// Of struct tc_ratespec: no table of times is needed.
const LINKLAYER_ETHERNET: u8 = 1;
/// The kernel's unit of time in these messages.
const NS_PER_TICK: u64 = 64;
const RTM_GETLINK: u16 = 18;
/// struct ifinfomsg
const IFINFOMSG: usize = 16;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const VETH_INFO_PEER: u16 = 1;
const AF_INET6: u16 = 10;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;
/// The largest that Ethernet devices take.
const MTU: u32 = 65_535;

/// A class of one device's HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    pub id: u32,
    /// Another class, or [`HANDLE`] for one at the top.
    pub parent: u32,
    /// Guaranteed, bytes per second.
    pub rate: u64,
    /// With what others leave, bytes per second.
    pub ceil: u64,
    /// What may go at once after idleness, as time at the rate, in ns; to 64 ns.
    pub burst_ns: u64,
    /// The same as time at the ceiling.
    pub ceil_burst_ns: u64,
    /// Bytes that it sends in its turn where siblings share what is left.
    pub quantum: u32,
    /// Siblings with a smaller number come first.
    pub prio: u32,
}

/// A class as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub class: Class,
    /// Bytes that wait.
    pub backlog: u64,
    /// Segments that wait.
    pub segments: u64,
    pub sent_bytes: u64,
    pub dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    pub ifindex: u32,
    /// 0: the kernel's default, which nobody set.
    pub handle: u32,
    pub parent: u32,
    pub kind: String,
    /// Of a bfifo, bytes.
    pub limit: u32,
    /// What the kernel shows of it; most kinds are made again by the same.
    pub options: Vec<u8>,
}

impl Qdisc {
    pub fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }
    /// HTB, or fq.
    pub fn is_ours(&self) -> bool {
        self.is_root() && ["htb", "fq"].contains(&self.kind.as_str()) && self.handle == HANDLE
    }
    /// The queue in a leaf that [`set_queue`] made.
    pub fn is_our_queue(&self) -> bool {
        self.kind == "bfifo" && self.handle == queue_handle(self.parent)
    }
    /// In a leaf; somebody put it there.
    pub fn is_anothers_queue(&self) -> bool {
        !self.is_root() && self.handle != 0 && !self.is_our_queue()
    }
    /// In a class of `other`.
    pub fn is_below(&self, other: &Qdisc) -> bool {
        !self.is_root() && self.parent >> 16 == other.handle >> 16
    }
    /// As tc shows it.
    pub fn shown(&self) -> String {
        format!("{} {:x}:", self.kind, self.handle >> 16)
    }
    /// Somebody wants it to be there.
    pub fn is_anothers(&self) -> bool {
        self.is_root() && self.handle != 0 && !self.is_ours() && !self.is_set_to_none()
    }
    /// Somebody has set that there be no queue, as libvirt does for its taps: nothing is lost where one takes its place.
    pub fn is_set_to_none(&self) -> bool {
        self.is_root() && self.handle != 0 && self.kind == "noqueue"
    }
}

fn tcmsg(ifindex: u32, handle: u32, parent: u32) -> Vec<u8> {
    [[0; 4], ifindex.to_ne_bytes(), handle.to_ne_bytes(), parent.to_ne_bytes(), [0; 4]].concat()
}

fn with(head: Vec<u8>, attributes: &[Vec<u8>]) -> Vec<u8> {
    [head, attributes.concat()].concat()
}

/// Has the kernel load its HTB, where that is a module: whoever reads its classes must know how they lie in memory, which the
/// module says. Returns whether the kernel has it. Changes nothing: an HTB without options is refused, but only after it was
/// looked for.
pub fn load() -> bool {
    match ask(NLM_F_CREATE | NLM_F_EXCL).map_err(|e| e.raw_os_error()) {
        Err(Some(nix::libc::ENOENT)) => false,
        // The loopback device has somebody's root qdisc: the kernel says so before it looks for HTB, unless HTB is to take its place.
        Err(Some(nix::libc::EEXIST)) => {
            ask(NLM_F_CREATE | NLM_F_REPLACE).map_or_else(|e| e.raw_os_error() != Some(nix::libc::ENOENT), |()| true)
        }
        _ => true,
    }
}

/// EINVAL: there is an HTB, which wants options, and all is as before.
fn ask(flags: u16) -> io::Result<()> {
    let body = with(tcmsg(LOOPBACK, HANDLE, TC_H_ROOT), &[attribute(TCA_KIND, b"htb\0")]);
    request(RTM_NEWQDISC, flags, &body)
}

/// Whether the kernel has an HTB, found out as in [`has_fq`].
pub fn has_htb() -> Option<bool> {
    let code = in_own_network(|| ask(NLM_F_CREATE | NLM_F_EXCL))?
        .map_or_else(|e| e.raw_os_error(), |()| Some(nix::libc::EINVAL));
    match code? {
        nix::libc::EINVAL => Some(true),
        nix::libc::ENOENT => Some(false),
        _ => None,
    }
}

/// What must be gone is.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if matches!(e.raw_os_error(), Some(nix::libc::ENOENT | nix::libc::ENODEV | nix::libc::EINVAL)) => Ok(()),
        result => result,
    }
}

/// Sets our HTB on a device that has a default root. What no program gives a class goes to the class numbered `default`,
/// or, if that is 0, past all classes.
///
/// # Errors
/// EEXIST if somebody has set a root.
pub fn add_root(ifindex: u32, default: u32) -> io::Result<()> {
    // struct tc_htb_glob: version, bytes per quantum, default, debug, a counter
    let init = [3u32, 10, default, 0, 0].map(u32::to_ne_bytes).concat();
    let direct = attribute(TCA_HTB_DIRECT_QLEN, &DIRECT_PACKETS.to_ne_bytes());
    let options = nested(TCA_OPTIONS, &[attribute(TCA_HTB_INIT, &init), direct]);
    let body = with(tcmsg(ifindex, HANDLE, TC_H_ROOT), &[attribute(TCA_KIND, b"htb\0"), options]);
    request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &body)
}

/// Sets an fq on a device that has a default root: what has a departure time waits for it, all else goes at once.
///
/// # Errors
/// EEXIST if somebody has set a root, ENOENT if the kernel has no fq.
pub fn add_fq(ifindex: u32) -> io::Result<()> {
    // The schedules bound what waits, so packets are not counted; sockets' own pacing is not this qdisc's business.
    let options = [
        (TCA_FQ_PLIMIT, FQ_PACKETS),
        (TCA_FQ_FLOW_PLIMIT, FQ_PACKETS),
        (TCA_FQ_RATE_ENABLE, 0),
        (TCA_FQ_HORIZON, FQ_HORIZON_US),
    ];
    let options = options.map(|(kind, value): (u16, u32)| attribute(kind, &value.to_ne_bytes()));
    let body = with(tcmsg(ifindex, HANDLE, TC_H_ROOT), &[attribute(TCA_KIND, b"fq\0"), nested(TCA_OPTIONS, &options)]);
    request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &body)
}

/// Whether the kernel has an fq: it is tried on the loopback device of a namespace made for that. `None` if this process may
/// not.
pub fn has_fq() -> Option<bool> {
    match in_own_network(|| add_fq(LOOPBACK))? {
        Ok(()) => Some(true),
        Err(e) if e.raw_os_error() == Some(nix::libc::ENOENT) => Some(false),
        Err(_) => None,
    }
}

/// Takes our root qdisc off a device, with all that waits in it. Fine if it is not there.
///
/// # Errors
/// What the kernel answers.
pub fn remove_root(ifindex: u32) -> io::Result<()> {
    remove_root_of(ifindex, HANDLE)
}

/// The same for a root of that handle, whosever it is.
///
/// # Errors
/// What the kernel answers.
pub fn remove_root_of(ifindex: u32, handle: u32) -> io::Result<()> {
    gone(request(RTM_DELQDISC, 0, &tcmsg(ifindex, handle, TC_H_ROOT)))
}

fn ratespec(rate: u64) -> Vec<u8> {
    let low = u32::try_from(rate).unwrap_or(u32::MAX);
    [&[0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0][..], &low.to_ne_bytes()].concat()
}

/// Adds a class, or changes one in place: what waits in it stays.
///
/// # Errors
/// What the kernel answers; EINVAL for a class that is there under another parent.
pub fn set_class(ifindex: u32, class: &Class) -> io::Result<()> {
    let ticks = |ns: u64| u32::try_from(ns / NS_PER_TICK).unwrap_or(u32::MAX).max(1).to_ne_bytes();
    let mut parms = [ratespec(class.rate), ratespec(class.ceil)].concat();
    parms.extend(
        [
            ticks(class.burst_ns),
            ticks(class.ceil_burst_ns),
            class.quantum.to_ne_bytes(),
            [0; 4],
            class.prio.to_ne_bytes(),
        ]
        .concat(),
    );
    let options = nested(
        TCA_OPTIONS,
        &[
            attribute(TCA_HTB_PARMS, &parms),
            attribute(TCA_HTB_RATE64, &class.rate.to_ne_bytes()),
            attribute(TCA_HTB_CEIL64, &class.ceil.to_ne_bytes()),
        ],
    );
    let body = with(tcmsg(ifindex, class.id, class.parent), &[attribute(TCA_KIND, b"htb\0"), options]);
    request(RTM_NEWTCLASS, NLM_F_CREATE, &body)
}

/// # Errors
/// What the kernel answers: EBUSY while classes are below it.
pub fn remove_class(ifindex: u32, id: u32) -> io::Result<()> {
    gone(request(RTM_DELTCLASS, 0, &tcmsg(ifindex, id, 0)))
}

/// The handle of our queue in a leaf: one that has another is somebody else's.
pub const fn queue_handle(class: u32) -> u32 {
    match class {
        TOP => TOP_QUEUE,
        _ => class << 16,
    }
}

/// Gives a leaf a queue of `limit` bytes, or changes the limit of the one that it has.
///
/// # Errors
/// What the kernel answers.
pub fn set_queue(ifindex: u32, class: u32, limit: u32) -> io::Result<()> {
    let options = attribute(TCA_OPTIONS, &limit.to_ne_bytes()); // struct tc_fifo_qopt
    let body = with(tcmsg(ifindex, queue_handle(class), class), &[attribute(TCA_KIND, b"bfifo\0"), options]);
    request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body)
}

/// Puts a qdisc as it was into a leaf: without what waited there, and without what was below it.
///
/// # Errors
/// What the kernel answers.
pub fn put_back(class: u32, qdisc: &Qdisc) -> io::Result<()> {
    let kind = terminated(&qdisc.kind);
    let mut attributes = vec![attribute(TCA_KIND, &kind)];
    if !qdisc.options.is_empty() {
        attributes.push(attribute(TCA_OPTIONS, &qdisc.options));
    }
    let body = with(tcmsg(qdisc.ifindex, qdisc.handle, class), &attributes);
    request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body)
}

/// A new queue of that kind in place of the one that is there: what waits is dropped.
///
/// # Errors
/// What the kernel answers.
pub fn empty_queue(ifindex: u32, class: u32, limit: u32) -> io::Result<()> {
    gone(request(RTM_DELQDISC, 0, &tcmsg(ifindex, queue_handle(class), class)))?;
    set_queue(ifindex, class, limit)
}

/// All that the kernel shows, of all devices.
///
/// # Errors
/// What the kernel answers.
pub fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let all = dump(RTM_GETQDISC, &tcmsg(0, 0, 0))?;
    Ok(all.iter().filter_map(|message| qdisc(message)).collect())
}

fn qdisc(message: &[u8]) -> Option<Qdisc> {
    let attributes = message.get(TCMSG..)?;
    let kind = find(attributes, TCA_KIND)?;
    let kind = String::from_utf8_lossy(kind.strip_suffix(&[0]).unwrap_or(kind)).into_owned();
    let options = find(attributes, TCA_OPTIONS).unwrap_or_default();
    let limit = if kind == "bfifo" { u32_at(options, 0) } else { None };
    let (ifindex, handle, parent) = (u32_at(message, 4)?, u32_at(message, 8)?, u32_at(message, 12)?);
    Some(Qdisc { ifindex, handle, parent, kind, limit: limit.unwrap_or(0), options: options.to_vec() })
}

/// The classes of a device's HTB.
///
/// # Errors
/// What the kernel answers.
pub fn classes(ifindex: u32) -> io::Result<Vec<Found>> {
    let all = match dump(RTM_GETTCLASS, &tcmsg(ifindex, 0, 0)) {
        Err(e) if e.raw_os_error() == Some(nix::libc::ENODEV) => return Ok(Vec::new()),
        all => all?,
    };
    Ok(all.iter().filter_map(|message| class(message)).collect())
}

fn class(message: &[u8]) -> Option<Found> {
    let attributes = message.get(TCMSG..)?;
    find(attributes, TCA_KIND).filter(|kind| kind.starts_with(b"htb"))?;
    let options = find(attributes, TCA_OPTIONS)?;
    let parms = find(options, TCA_HTB_PARMS)?;
    let wide = |kind, low: usize| match find(options, kind).and_then(|rate| u64_at(rate, 0)) {
        Some(rate) => Some(rate),
        None => u32_at(parms, low).map(u64::from),
    };
    let parent = match u32_at(message, 12)? {
        TC_H_ROOT => HANDLE,
        parent => parent,
    };
    let class = Class {
        id: u32_at(message, 8)?,
        parent,
        rate: wide(TCA_HTB_RATE64, 8)?,
        ceil: wide(TCA_HTB_CEIL64, 20)?,
        burst_ns: u64::from(u32_at(parms, 24)?) * NS_PER_TICK,
        ceil_burst_ns: u64::from(u32_at(parms, 28)?) * NS_PER_TICK,
        quantum: u32_at(parms, 32)?,
        prio: u32_at(parms, 40)?,
    };
    let statistics = find(attributes, TCA_STATS2).unwrap_or_default();
    let basic = find(statistics, TCA_STATS_BASIC).unwrap_or_default();
    let queue = find(statistics, TCA_STATS_QUEUE).unwrap_or_default();
    let of_queue = |at| u32_at(queue, at).map_or(0, u64::from);
    Some(Found {
        class,
        backlog: of_queue(4),
        segments: of_queue(0),
        sent_bytes: u64_at(basic, 0).unwrap_or(0),
        dropped: of_queue(8),
    })
}

/// Makes a pair of devices through which segments go to be limited: they enter by `first` and come out of `second`. Both
/// are down, and without addresses of their own once they are up. Fine if `first` exists.
///
/// # Errors
/// What the kernel answers: EEXIST if another device has the second name.
pub fn add_pair(first: &str, second: &str) -> io::Result<()> {
    let one = 1u32.to_ne_bytes();
    let properties = |name: &str| {
        [
            attribute(IFLA_IFNAME, &terminated(name)),
            attribute(IFLA_MTU, &MTU.to_ne_bytes()),
            attribute(IFLA_NUM_TX_QUEUES, &one),
            attribute(IFLA_NUM_RX_QUEUES, &one),
        ]
        .concat()
    };
    let peer = attribute(VETH_INFO_PEER, &[link_header(0), properties(second)].concat());
    let info = nested(IFLA_LINKINFO, &[attribute(IFLA_INFO_KIND, b"veth"), nested(IFLA_INFO_DATA, &[peer])]);
    let body = [link_header(0), properties(first), info].concat();
    match request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body) {
        Err(e) if e.raw_os_error() == Some(nix::libc::EEXIST) && crate::ifindex(first).is_ok() => return Ok(()),
        result => result?,
    }
    for name in [first, second] {
        let none = nested(AF_INET6, &[attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE])]);
        let body = [link_header(0), attribute(IFLA_IFNAME, &terminated(name)), nested(IFLA_AF_SPEC, &[none])].concat();
        let _ = request(RTM_NEWLINK, 0, &body); // without IPv6 there is nothing to keep quiet
    }
    Ok(())
}

/// A device as far as pairs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    pub ifindex: u32,
    /// Of a veth, the other end's number; perhaps in another namespace.
    pub peer: Option<u32>,
}

/// All devices whose names begin with `prefix`.
///
/// # Errors
/// What the kernel answers.
pub fn links(prefix: &str) -> io::Result<Vec<Link>> {
    let all = dump(RTM_GETLINK, &link_header(0))?;
    Ok(all.iter().filter_map(|message| link(message)).filter(|link| link.name.starts_with(prefix)).collect())
}

fn link(message: &[u8]) -> Option<Link> {
    let attributes = message.get(IFINFOMSG..)?;
    let name = find(attributes, IFLA_IFNAME)?;
    let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
    let kind = find(attributes, IFLA_LINKINFO).and_then(|info| find(info, IFLA_INFO_KIND)).unwrap_or_default();
    let peer = find(attributes, IFLA_LINK).filter(|_| kind.starts_with(b"veth")).and_then(|peer| u32_at(peer, 0));
    Some(Link { name, ifindex: u32_at(message, 4)?, peer })
}

/// # Errors
/// What the kernel answers.
pub fn set_up(name: &str) -> io::Result<()> {
    request(RTM_NEWLINK, 0, &[link_header(IFF_UP), attribute(IFLA_IFNAME, &terminated(name))].concat())
}

/// Removes a pair by either name. Fine if there is none.
///
/// # Errors
/// What the kernel answers.
pub fn remove_pair(name: &str) -> io::Result<()> {
    gone(request(RTM_DELLINK, 0, &[link_header(0), attribute(IFLA_IFNAME, &terminated(name))].concat()))
}
