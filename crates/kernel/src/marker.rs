//! Ports of a lab's routers that mark what finds a long queue (`datapath/kernel/marker.bpf.c`).

use crate::monotonic_ns;
use crate::state::Plain;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
#[cfg(marker_object)]
use libbpf_rs::{ObjectBuilder, TcHookBuilder, TC_EGRESS};
use std::path::Path;
use units::{BitRate, Bytes};

#[cfg(marker_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/marker.bpf.o"));
#[cfg(any(marker_object, test))]
const NS: u128 = 1_000_000_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("routers that mark are not in this program: {0}")]
    Unavailable(&'static str),
    #[error("cannot {0}: {1}")]
    Bpf(&'static str, libbpf_rs::Error),
    #[error("cannot {0}: {1}")]
    Io(&'static str, std::io::Error),
}

/// The queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Of the link, Ethernet headers included.
    pub rate: BitRate,
    /// What finds more is dropped by the port's qdisc.
    pub buffer: Bytes,
    /// What finds more is marked.
    pub threshold: Bytes,
}

/// What a port has counted since it began to mark, in packets as they are on a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub packets: u64,
    /// Of those, they left with a mark and found more than the threshold. A mark may be of an earlier router.
    pub marked: u64,
    /// Packets beside those, for which there was no room.
    pub full: u64,
    /// What the queue's rate has not sent yet.
    pub queue: Bytes,
    /// The longest queue that a packet found.
    pub longest: Bytes,
}

/// `struct sv_marked_port`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    lock: u32,
    threshold: u32,
    rate: u64,
    horizon: u64,
    next: u64,
    packets: u64,
    full: u64,
    marked: u64,
    longest: u64,
}

const _: () = assert!(size_of::<Port>() == 64);
// SAFETY: repr(C), integers only; without padding, as the size asserts.
unsafe impl Plain for Port {}

#[cfg(any(marker_object, test))]
impl Port {
    /// At least a byte per second; a longer threshold than the field's is no threshold.
    fn of(queue: &Queue) -> Port {
        let rate = (queue.rate.as_bps() / 8).max(1);
        let horizon = u128::from(queue.buffer.get()) * NS / u128::from(rate);
        Port {
            threshold: u32::try_from(queue.threshold.get()).unwrap_or(u32::MAX),
            rate,
            horizon: u64::try_from(horizon).unwrap_or(u64::MAX),
            ..Port::default()
        }
    }
}

/// What leaves by `interface`, of the calling thread's network namespace, is marked from now on. The program goes with the interface;
/// its counts are pinned at `pin`, for [`read`].
///
/// # Errors
/// [`Error::Unavailable`] if the build lacks it; else what the kernel refuses (CAP_BPF, CAP_NET_ADMIN, a bpffs).
#[cfg(marker_object)]
pub fn attach(interface: &str, queue: &Queue, pin: &Path) -> Result<(), Error> {
    let load = || {
        let open = ObjectBuilder::default().open_memory(OBJECT)?;
        open.load()
    };
    let mut object = load().map_err(|e| Error::Bpf("load the program that marks", e))?;
    for mut map in object.maps_mut() {
        map.update(0u32.as_bytes(), Port::of(queue).as_bytes(), MapFlags::ANY)
            .map_err(|e| Error::Bpf("set a port's queue", e))?;
        map.pin(pin).map_err(|e| Error::Bpf("pin a port's queue", e))?;
    }
    let ifindex = crate::ifindex(interface).map_err(|e| Error::Io("find the interface that is to mark", e))?;
    for program in object.progs() {
        use std::os::fd::AsFd;
        let mut hook =
            TcHookBuilder::new(program.as_fd()).ifindex(ifindex as i32).handle(1).priority(1).hook(TC_EGRESS);
        hook.create().and_then(|mut hook| hook.attach()).map_err(|e| Error::Bpf("attach the program that marks", e))?;
    }
    Ok(())
}

/// As this build lacks the program, always an error.
///
/// # Errors
/// [`Error::Unavailable`].
#[cfg(not(marker_object))]
pub fn attach(_: &str, _: &Queue, _: &Path) -> Result<(), Error> {
    Err(Error::Unavailable(option_env!("SELVEDGE_NO_MARKER").unwrap_or("the build left it out")))
}

/// What the port pinned at `pin` has counted.
///
/// # Errors
/// [`Error::Io`] if nothing of the kind is there, or without CAP_BPF.
pub fn read(pin: &Path) -> Result<Marks, Error> {
    let open = || MapHandle::from_pinned_path(pin)?.lookup(0u32.as_bytes(), MapFlags::LOCK);
    let bytes = open().map_err(|e| Error::Bpf("read what a port counted", e))?;
    let port = bytes.and_then(|bytes| Port::from_bytes(&bytes));
    let port = port.ok_or(Error::Io("read what a port counted", std::io::ErrorKind::InvalidData.into()))?;
    let queue = crate::native::pacer_backlog(port.next, port.rate, monotonic_ns());
    Ok(Marks {
        packets: port.packets,
        marked: port.marked,
        full: port.full,
        queue: Bytes(queue.into()),
        longest: Bytes(port.longest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_lasts_as_long_as_the_rate_needs_for_it() {
        let (rate, buffer, threshold) = (BitRate::from_mbps(100), Bytes(125_000), Bytes(65_000));
        let port = Port::of(&Queue { rate, buffer, threshold });
        assert_eq!((port.rate, port.horizon, port.threshold), (12_500_000, 10_000_000, 65_000));
    }
}
