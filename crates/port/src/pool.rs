//! The pool of buffers in which frames stay from the port that reads them to the port that writes them.

use super::VnetHeader;

/// Names a frame in its [`Pool`].
pub type FrameId = u32;

/// A fixed number of buffers, each large enough for one segment. Memory that was never used costs nothing: the
/// buffers used last are used first, and the kernel gives pages only when they are written.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    free: Vec<FrameId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    len: u32,
    header: VnetHeader,
    /// How many packets refer to it.
    users: u32,
}

/// An Ethernet header with two VLAN tags and the largest IP packet.
const MAX_FRAME: usize = 22 + 65_535;
/// An odd number of cache lines, so that the headers of all frames do not fall into the same few sets of the cache.
const STRIDE: usize = (VnetHeader::LEN + MAX_FRAME).div_ceil(128) * 128 + 64;

impl Pool {
    /// `frames` buffers of 64 KB of address space each.
    pub fn new(frames: u32) -> Pool {
        Pool {
            bytes: vec![0; frames as usize * STRIDE],
            frames: vec![Frame::default(); frames as usize],
            free: (0..frames).rev().collect(),
        }
    }

    pub fn capacity(&self) -> usize {
        self.frames.len()
    }
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// A free buffer, with one user; `None` if there is none.
    pub fn take(&mut self) -> Option<FrameId> {
        let id = self.free.pop()?;
        self.frames[id as usize] = Frame { users: 1, ..Frame::default() };
        Some(id)
    }

    /// The whole buffer, for the kernel to write a header and a frame into.
    pub(super) fn buffer(&mut self, id: FrameId) -> &mut [u8] {
        let start = id as usize * STRIDE;
        &mut self.bytes[start..start + VnetHeader::LEN + MAX_FRAME]
    }

    /// Reads the header in front of a frame that the kernel has written, of `len` bytes with it. False if that is no
    /// frame.
    pub(super) fn filled(&mut self, id: FrameId, len: usize) -> bool {
        let Some(frame_len) = len.checked_sub(VnetHeader::LEN).filter(|&n| n <= MAX_FRAME) else { return false };
        let header = self.buffer(id).first_chunk().map(VnetHeader::from_bytes).unwrap_or_default();
        let frame = &mut self.frames[id as usize];
        frame.header = header;
        frame.len = frame_len as u32;
        true
    }

    /// Puts a frame into a free buffer. `None` if there is none or the frame is too long.
    pub fn insert(&mut self, header: VnetHeader, frame: &[u8]) -> Option<FrameId> {
        if frame.len() > MAX_FRAME {
            return None;
        }
        let id = self.take()?;
        self.replace(id, frame);
        self.frames[id as usize].header = header;
        Some(id)
    }

    /// Gives the frame other bytes. False, and nothing changed, if they are too many.
    pub fn replace(&mut self, id: FrameId, frame: &[u8]) -> bool {
        if frame.len() > MAX_FRAME {
            return false;
        }
        self.buffer(id)[VnetHeader::LEN..][..frame.len()].copy_from_slice(frame);
        self.frames[id as usize].len = frame.len() as u32;
        true
    }

    pub fn header(&self, id: FrameId) -> VnetHeader {
        self.frames[id as usize].header
    }
    pub fn frame(&self, id: FrameId) -> &[u8] {
        let start = id as usize * STRIDE + VnetHeader::LEN;
        &self.bytes[start..start + self.frames[id as usize].len as usize]
    }
    pub fn frame_mut(&mut self, id: FrameId) -> &mut [u8] {
        let start = id as usize * STRIDE + VnetHeader::LEN;
        &mut self.bytes[start..start + self.frames[id as usize].len as usize]
    }

    /// `more` further users of the frame.
    pub fn share(&mut self, id: FrameId, more: u32) {
        self.frames[id as usize].users += more;
    }

    /// One user less; the last frees the buffer.
    pub fn release(&mut self, id: FrameId) {
        let frame = &mut self.frames[id as usize];
        debug_assert!(frame.users > 0, "frame {id} has no user");
        frame.users = frame.users.saturating_sub(1);
        if frame.users == 0 {
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_frees_the_frame() {
        let mut pool = Pool::new(2);
        let a = pool.insert(VnetHeader::default(), b"frame").unwrap();
        let b = pool.insert(VnetHeader { gso_size: 7, ..VnetHeader::default() }, &[9; MAX_FRAME]).unwrap();
        assert_eq!((pool.frame(a), pool.frame(b).len(), pool.header(b).gso_size), (&b"frame"[..], MAX_FRAME, 7));
        assert_eq!(pool.take(), None);
        pool.share(a, 1);
        pool.release(a);
        assert_eq!(pool.available(), 0);
        pool.release(a);
        assert_eq!(pool.take(), Some(a));
        assert_eq!(pool.frame(a), b"");
    }

    #[test]
    fn what_is_too_long_does_not_fit() {
        assert_eq!(Pool::new(1).insert(VnetHeader::default(), &[0; MAX_FRAME + 1]), None);
        let mut pool = Pool::new(1);
        let id = pool.take().unwrap();
        assert!(!pool.filled(id, VnetHeader::LEN - 1));
        assert!(pool.filled(id, VnetHeader::LEN + MAX_FRAME));
    }
}
