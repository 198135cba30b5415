//! A BPF program that somebody has pinned, on an interface: three calls of bpf(2), for who has no libbpf.

use nix::libc;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// linux/bpf.h
const OBJ_PIN: libc::c_long = 6;
const OBJ_GET: libc::c_long = 7;
const LINK_CREATE: libc::c_long = 28;
const TCX_INGRESS: u32 = 46;
const BEFORE: u32 = 1 << 3;

/// Of BPF_OBJ_PIN and BPF_OBJ_GET.
#[repr(C)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

/// Of BPF_LINK_CREATE. To what it is relative is not said: to all that is there.
#[repr(C)]
#[derive(Default)]
struct Link {
    program: u32,
    ifindex: u32,
    hook: u32,
    flags: u32,
    relative: u64,
    revision: u64,
}

fn bpf<T>(command: libc::c_long, attribute: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads no more than the attribute, which is plain numbers; a path that one of them points to is the caller's, and lives
    // until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attribute), size_of::<T>()) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(done).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn descriptor(fd: i32) -> OwnedFd {
    // SAFETY: a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Links the program pinned at `program` to tcx, ingress, of an interface of the calling thread's network namespace, in front of all others, and
/// pins the link at `link`, in place of what may be pinned there.
///
/// # Errors
/// What the kernel answers: EINVAL before Linux 6.6. Then nothing is there.
pub fn link_first(program: &Path, ifindex: u32, link: &Path) -> io::Result<()> {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput);
    let (program, pin) = (path(program)?, path(link)?);
    let program = descriptor(bpf(OBJ_GET, &Object { path: program.as_ptr() as u64, fd: 0, flags: 0 })?);
    let what =
        Link { program: program.as_raw_fd() as u32, ifindex, hook: TCX_INGRESS, flags: BEFORE, ..Link::default() };
    let made = descriptor(bpf(LINK_CREATE, &what)?);
    match fs::remove_file(link) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    bpf(OBJ_PIN, &Object { path: pin.as_ptr() as u64, fd: made.as_raw_fd() as u32, flags: 0 }).map(drop)
}
