//! Requests of rtnetlink as bytes, for what the crate `rtnetlink` has no types for: HTB, and devices with attributes that
//! it leaves out. One socket per request; the kernel answers at once.

use nix::sys::socket::{self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLA_F_NESTED: u16 = 0x8000;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Of a message, and of an attribute.
const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
/// What the kernel puts into one datagram of a dump is at most this long.
const DATAGRAM: usize = 1 << 16;
/// A longer dump is not read to its end.
const MAX_DUMP: usize = 64 << 20;

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ATTRIBUTE_HEADER + value.len().next_multiple_of(4));
    bytes.extend((ATTRIBUTE_HEADER as u16 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, &attributes.concat())
}

/// A name as the kernel wants it.
pub(crate) fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// The attributes in `bytes`: kind without flags, value. Ends where they are malformed.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & 0x3fff;
        let value = rest.get(ATTRIBUTE_HEADER..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of one kind, if it is there.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn open() -> io::Result<OwnedFd> {
    Ok(socket::socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?)
}

fn send(fd: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    message.extend(1u32.to_ne_bytes()); // sequence number
    message.extend(0u32.to_ne_bytes()); // the kernel fills in who asks
    message.extend(body);
    socket::sendto(fd.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    Ok(())
}

/// Sends one request and reads its acknowledgement.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let fd = open()?;
    send(&fd, kind, NLM_F_ACK | flags, body)?;
    let mut answer = [0u8; 4096];
    let n = socket::recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match (u16_at(&answer[..n], 4), u32_at(&answer[..n], HEADER)) {
        (Some(NLMSG_ERROR), Some(code)) => result_of(code as i32),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The one message that answers a request, without its header.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn get(kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let fd = open()?;
    send(&fd, kind, 0, body)?;
    let mut buffer = vec![0u8; DATAGRAM];
    let n = socket::recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    let len = u32_at(&buffer[..n], 0).map_or(0, |len| len as usize);
    let body = buffer[..n].get(HEADER..len).ok_or(io::ErrorKind::InvalidData)?;
    if u16_at(&buffer, 4) == Some(NLMSG_ERROR) {
        result_of(u32_at(body, 0).map_or(0, |code| code as i32))?;
    }
    Ok(body.to_vec())
}

fn result_of(code: i32) -> io::Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(-code))
}

/// All messages that answer a request to list something, without their headers.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn dump(kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let fd = open()?;
    send(&fd, kind, NLM_F_DUMP, body)?;
    let (mut found, mut buffer, mut total) = (Vec::new(), vec![0u8; DATAGRAM], 0);
    while total < MAX_DUMP {
        let n = socket::recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        total += n;
        let mut rest = &buffer[..n];
        while let (Some(len), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
            let body = rest.get(HEADER..len as usize).ok_or(io::ErrorKind::InvalidData)?;
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => {
                    result_of(u32_at(body, 0).map_or(0, |code| code as i32))?;
                    return Ok(found);
                }
                _ => found.push(body.to_vec()),
            }
            rest = rest.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Err(io::ErrorKind::OutOfMemory.into())
}

/// Does that in a network namespace of its own, which ends with it, and all that was made there. `None` if this process may make
/// none.
pub(crate) fn in_own_network<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = std::thread::spawn(|| nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).ok().map(|()| what()));
    done.join().ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_back_and_rubbish_ends_them() {
        let bytes = [attribute(1, b"abc"), nested(2, &[attribute(7, &9u32.to_ne_bytes())]), attribute(3, &[])].concat();
        assert_eq!(attributes(&bytes).map(|(kind, _)| kind).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(find(&bytes, 1), Some(b"abc".as_slice()));
        let inner = find(&bytes, 2).and_then(|inner| find(inner, 7)).and_then(|value| u32_at(value, 0));
        assert_eq!(inner, Some(9));
        for rubbish in [&[][..], &[0; 4], &[200, 0, 1, 0], &[3, 0, 1, 0], &[5, 0, 1]] {
            assert_eq!(attributes(rubbish).count(), 0, "{rubbish:?}");
        }
    }
}
