//! TAP devices: interfaces that a program makes, and whose frames it reads and writes.

use super::{gather, would_block, FrameId, Pool, Port, VnetHeader};
use nix::fcntl::{self, OFlag};
use nix::libc::{self, c_int, c_ulong};
use nix::sys::stat::Mode;
use nix::sys::uio::{readv, writev};
use nix::unistd::read;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What the guest's kernel may leave undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Nothing: packets arrive cut, with their checksums.
    Off,
    Checksum,
    /// Checksums, and the cutting of TCP and UDP segments of up to 64 KB.
    Segmentation,
    /// The same also of segments that the kernel believes to be in a UDP tunnel still, as those are that a tc program has
    /// taken out of one. Before Linux 6.17 the kernel cuts these.
    Decapsulated,
}

// linux/if_tun.h. nix's macros do not derive these numbers: the kernel's own have the wrong argument type.
const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: c_ulong = 0x4004_54d8;
const TUN_F_CSUM: c_ulong = 0x01;
const TUN_F_TSO4: c_ulong = 0x02;
const TUN_F_TSO6: c_ulong = 0x04;
const TUN_F_TSO_ECN: c_ulong = 0x08;
const TUN_F_USO4: c_ulong = 0x20;
const TUN_F_USO6: c_ulong = 0x40;
const TUN_F_UDP_TUNNEL_GSO: c_ulong = 0x80;
/// Of `struct virtio_net_hdr_v1_hash_tunnel`, which tells of tunnels: it begins as the short one does.
const TUNNEL_HEADER: usize = 24;

nix::ioctl_write_ptr_bad!(tun_set_iff, TUNSETIFF, libc::ifreq);
nix::ioctl_write_ptr_bad!(tun_set_vnet_hdr_size, TUNSETVNETHDRSZ, c_int);

/// A TAP device: the kernel's end is an Ethernet interface, ours a descriptor. It goes away with the descriptor.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    mac: [u8; 6],
    segmentation: bool,
    /// Bytes of the header before each frame.
    header_len: usize,
}

impl Tap {
    /// Makes interface `name` in the calling thread's network namespace, down.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN in the namespace, EBUSY or EEXIST if there is one of that name, ENOENT or EACCES if
    /// /dev/net/tun is not there or not ours to open.
    pub fn open(name: &str, offload: Offload) -> io::Result<Tap> {
        let fd = fcntl::open("/dev/net/tun", OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty())?;
        let mut request = interface_request(name)?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the request is whole, and the kernel only writes the name within it.
        unsafe { tun_set_iff(fd.as_raw_fd(), &request) }?;
        let segmentation = matches!(offload, Offload::Segmentation | Offload::Decapsulated);
        // The longer header comes first: the kernel takes the offload only with it.
        let header_len = if offload == Offload::Decapsulated { TUNNEL_HEADER } else { VnetHeader::LEN };
        let size = header_len as c_int;
        // SAFETY: reads one integer.
        unsafe { tun_set_vnet_hdr_size(fd.as_raw_fd(), &size) }?;
        set_offload(&fd, offload)?;
        let mut tap = Tap { fd, mac: [0; 6], segmentation, header_len };
        tap.mac = tap.hardware_address()?;
        Ok(tap)
    }

    /// Of the kernel's end.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }
    /// Do segments arrive uncut?
    pub fn segmentation(&self) -> bool {
        self.segmentation
    }

    /// As read(2), with the short form of the header whatever the device's own is.
    fn read(&self, pool: &mut Pool, id: FrameId) -> nix::Result<usize> {
        let buffer = pool.buffer(id);
        if self.header_len == VnetHeader::LEN {
            return read(&self.fd, buffer);
        }
        let (short, frame) = buffer.split_at_mut(VnetHeader::LEN);
        let mut rest = [0; TUNNEL_HEADER - VnetHeader::LEN];
        let mut parts = [IoSliceMut::new(short), IoSliceMut::new(&mut rest), IoSliceMut::new(frame)];
        readv(&self.fd, &mut parts).map(|len| len.saturating_sub(TUNNEL_HEADER - VnetHeader::LEN))
    }

    fn hardware_address(&self) -> io::Result<[u8; 6]> {
        let mut request = interface_request("")?;
        // SAFETY: the kernel fills in the request.
        nix::errno::Errno::result(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) })?;
        // SAFETY: this call fills this member.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(std::array::from_fn(|i| data[i] as u8))
    }
}

/// Older kernels do not know UDP segmentation and tunnels: without them, then.
fn set_offload(fd: &OwnedFd, offload: Offload) -> io::Result<()> {
    let tso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let wanted: &[c_ulong] = match offload {
        Offload::Off => &[0],
        Offload::Checksum => &[TUN_F_CSUM],
        Offload::Segmentation => &[tso | TUN_F_USO4 | TUN_F_USO6, tso],
        Offload::Decapsulated => &[tso | TUN_F_UDP_TUNNEL_GSO, tso],
    };
    let mut refused = None;
    for &mask in wanted {
        // SAFETY: the argument is a number.
        match nix::errno::Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOFFLOAD, mask) }) {
            Ok(_) => return Ok(()),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(|| io::ErrorKind::InvalidInput.into(), io::Error::from))
}

/// An `ifreq` with nothing but a name.
pub(super) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all its members are plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

impl Port for Tap {
    /// One call per frame: the device has no other way.
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<FrameId>, most: usize) -> io::Result<usize> {
        for n in 0..most {
            let Some(id) = pool.take() else { return Ok(n) };
            match self.read(pool, id) {
                Ok(len) if pool.filled(id, len) => frames.push(id),
                Ok(_) => pool.release(id),
                Err(error) => {
                    pool.release(id);
                    return if would_block(error) { Ok(n) } else { Err(error.into()) };
                }
            }
        }
        Ok(most)
    }

    fn send(&mut self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let mut bytes = [0; TUNNEL_HEADER];
        bytes[..VnetHeader::LEN].copy_from_slice(&header.to_bytes());
        match writev(&self.fd, &gather(&bytes[..self.header_len], parts)?) {
            Ok(_) => Ok(true),
            Err(error) if would_block(error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
