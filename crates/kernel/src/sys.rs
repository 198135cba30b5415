//! The few calls of libbpf that its Rust crate does not wrap: links on tcx.

use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn check(code: i32) -> io::Result<i32> {
    if code < 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    Ok(code)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Where in a chain of programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order<'a> {
    First,
    Last,
    /// Next to this link's program.
    Behind(BorrowedFd<'a>),
    Before(BorrowedFd<'a>),
}

/// Links a program to the ingress or the egress of an interface. Fails with EINVAL before Linux 6.6.
pub(crate) fn link_tcx(program: BorrowedFd<'_>, ifindex: u32, egress: bool, order: Order<'_>) -> io::Result<OwnedFd> {
    let hook = if egress { sys::BPF_TCX_EGRESS } else { sys::BPF_TCX_INGRESS };
    let flags = match order {
        Order::First => sys::BPF_F_BEFORE,
        Order::Last => 0,
        Order::Behind(_) => sys::BPF_F_AFTER | sys::BPF_F_LINK,
        Order::Before(_) => sys::BPF_F_BEFORE | sys::BPF_F_LINK,
    };
    let mut options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
        flags,
        ..Default::default()
    };
    if let Order::Behind(link) | Order::Before(link) = order {
        options.__bindgen_anon_1.tcx.relative_fd = link.as_raw_fd() as u32;
    }
    // SAFETY: the descriptor is open, and the options outlive the call; all that is not set in them is zero.
    let fd = check(unsafe { sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, hook, &options) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts another program behind a link, with no packet in between that sees neither.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open, and null options mean defaults.
    check(unsafe { sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) }).map(drop)
}

pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { sys::bpf_link_detach(link.as_raw_fd()) }).map(drop)
}

/// Number of the interface that a link on tcx is on; 0 if that has ended, or the link was taken off it.
pub(crate) fn link_ifindex(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = sys::bpf_link_info::default();
    let mut len = size_of::<sys::bpf_link_info>() as u32;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes of `info`.
    check(unsafe { sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut len) })?;
    // SAFETY: all of the union was zero or is what the kernel wrote, and any bits are a number.
    Ok(unsafe { info.__bindgen_anon_1.tcx.ifindex })
}

pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the descriptor is open and the path ends with a zero.
    check(unsafe { sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) }).map(drop)
}

pub(crate) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path ends with a zero.
    let fd = check(unsafe { sys::bpf_obj_get(path.as_ptr()) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
