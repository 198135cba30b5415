//! The kernel's types as a file for libbpf, those of a module among them.
//!
//! libbpf asks the kernel for the list of modules' types, which takes CAP_SYS_ADMIN, and without it goes on as if there were none. The
//! files below `/sys/kernel/btf` say the same to everybody.

use nix::sys::memfd::{memfd_create, MFdFlags};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Where the kernel shows types: one file for itself, `vmlinux`, and one for each module.
const DIRECTORY: &str = "/sys/kernel/btf";

/// Of struct btf_header, linux/btf.h: its first fields, which all versions have.
const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;
const FORMAT: u8 = 1;

/// There for as long as this lives.
#[derive(Debug)]
pub(super) struct Types(File);

impl Types {
    /// Those of the kernel and of this module; `None` where it is part of the kernel, or not loaded.
    ///
    /// # Errors
    /// Files that cannot be read or are of another format.
    pub(super) fn with(module: &str) -> io::Result<Option<Types>> {
        let directory = Path::new(DIRECTORY);
        let own = match fs::read(directory.join(module)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            own => own?,
        };
        let joined = join(&fs::read(directory.join("vmlinux"))?, &own)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "types are of another format"))?;
        let mut file = File::from(memfd_create(c"selvedge-types", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&joined)?;
        Ok(Some(Types(file)))
    }

    /// For this process.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// A module's types go on where the kernel's end: their numbers count on from there, and so do the places of their names.
fn join(kernel: &[u8], module: &[u8]) -> Option<Vec<u8>> {
    let ((types, names), (more_types, more_names)) = (sections(kernel)?, sections(module)?);
    let types = [types, more_types].concat();
    let names = [names, more_names].concat();
    let (type_len, name_len) = (u32::try_from(types.len()).ok()?, u32::try_from(names.len()).ok()?);
    let mut joined = Vec::with_capacity(HEADER + types.len() + names.len());
    joined.extend(MAGIC.to_ne_bytes());
    joined.extend([FORMAT, 0]);
    // Its length; then offset and length of types, and of names, behind it.
    for word in [u32::try_from(HEADER).ok()?, 0, type_len, type_len, name_len] {
        joined.extend(word.to_ne_bytes());
    }
    joined.extend(types);
    joined.extend(names);
    Some(joined)
}

/// Types and names.
fn sections(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let place = |at: usize| usize::try_from(word(at)?).ok();
    if file.get(..2)? != MAGIC.to_ne_bytes() || *file.get(2)? != FORMAT {
        return None;
    }
    let behind = file.get(place(4)?..)?;
    let section = |at: usize| behind.get(place(at)?..)?.get(..place(at + 4)?);
    Some((section(8)?, section(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: u32, types: &[u8], names: &[u8]) -> Vec<u8> {
        let mut file = [&MAGIC.to_ne_bytes()[..], &[FORMAT, 0]].concat();
        let (type_len, name_len) = (types.len() as u32, names.len() as u32);
        for word in [header, 0, type_len, type_len, name_len] {
            file.extend(word.to_ne_bytes());
        }
        file.resize(header as usize, 9);
        [&file, types, names].concat()
    }

    #[test]
    fn a_modules_types_and_names_go_on_where_the_kernels_end() {
        let (kernel, module) = (file(24, b"typestypes", b"\0int\0"), file(32, b"more", b"htb\0"));
        assert_eq!(join(&kernel, &module).unwrap(), file(24, b"typestypesmore", b"\0int\0htb\0"));
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let good = file(24, b"types", b"\0");
        for end in 0..good.len() {
            assert_eq!(join(&good, &good[..end]), None, "{end} bytes");
        }
        for (at, byte) in [(0, 0), (2, 9), (4, 200), (8, 99), (12, 99), (16, 99), (20, 99)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(join(&bad, &good), None, "byte {at}");
        }
    }
}
