//! Whether the running kernel takes the programs: they are loaded, pinned nowhere, attached to nothing, and gone again.

use super::{Error, Result};
#[cfg(any(bpf_object, limits_object, fastlane_object))]
use std::os::fd::{AsFd, AsRawFd};

/// Rows of each table: enough to try, little to allocate.
#[cfg(any(bpf_object, limits_object, fastlane_object))]
const ROWS: u32 = 16;

/// What loading a program took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub program: String,
    /// That the verifier followed, by all ways through the program; it refuses a million and more.
    pub instructions: u32,
}

#[cfg(any(bpf_object, limits_object, fastlane_object))]
fn taken(object: &libbpf_rs::Object) -> Vec<Taken> {
    let of = |program: libbpf_rs::Program<'_>| {
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd())).ok()?;
        let instructions = about.lines().find_map(|line| line.strip_prefix("verified_insns:"))?.trim().parse().ok()?;
        Some(Taken { program: program.name().to_string_lossy().into_owned(), instructions })
    };
    object.progs().filter_map(of).collect()
}

fn possible() -> Result<()> {
    crate::bpf::available()?;
    match agent_api::release::too_old() {
        Some(why) => Err(Error::TooOld(why)),
        None => Ok(()),
    }
}

/// Loads the edge's programs: this program's own, or those of `object`, if it is given. Nothing comes of a build without programs.
///
/// # Errors
/// Why they cannot be loaded here: privileges, the kernel's age, what its verifier refuses.
pub fn try_edge(object: Option<&[u8]>) -> Result<Vec<Taken>> {
    possible()?;
    #[cfg(bpf_object)]
    {
        let open = libbpf_rs::ObjectBuilder::default().open_memory(object.unwrap_or(crate::bpf::OBJECT));
        let mut open = open.map_err(|e| Error::Bpf("read the programs", e))?;
        for mut map in open.maps_mut() {
            if map.name() == "flows" {
                map.set_max_entries(ROWS).map_err(|e| Error::Bpf("size the flow table", e))?;
            }
        }
        super::refusal::load(open, "load the kernel edge").map(|object| taken(&object))
    }
    #[cfg(not(bpf_object))]
    {
        let _ = object;
        Ok(Vec::new())
    }
}

/// Loads the programs of rate limits with their laws: as [`try_edge`].
///
/// # Errors
/// As [`try_edge`], and that the kernel has no HTB or does not describe its types.
pub fn try_laws(object: Option<&[u8]>) -> Result<Vec<Taken>> {
    possible()?;
    #[cfg(limits_object)]
    return super::limits::try_load(object, ROWS).map(|object| taken(&object));
    #[cfg(not(limits_object))]
    {
        let _ = object;
        Ok(Vec::new())
    }
}

/// Loads the programs of rate limits without laws: as [`try_edge`].
///
/// # Errors
/// As [`try_edge`].
pub fn try_limits_without_laws(object: Option<&[u8]>) -> Result<Vec<Taken>> {
    possible()?;
    #[cfg(limits_object)]
    return super::limits::try_load_plain(object, ROWS).map(|object| taken(&object));
    #[cfg(not(limits_object))]
    {
        let _ = object;
        Ok(Vec::new())
    }
}

/// Loads the programs of FastLane: as [`try_edge`].
///
/// # Errors
/// As [`try_edge`], and that the kernel does not say why its queues drop packets.
pub fn try_fastlane(object: Option<&[u8]>) -> Result<Vec<Taken>> {
    possible()?;
    super::drop_reasons().map_err(Error::NoReasons)?;
    #[cfg(fastlane_object)]
    return super::fastlane::try_load(object, ROWS).map(|object| taken(&object));
    #[cfg(not(fastlane_object))]
    {
        let _ = object;
        Ok(Vec::new())
    }
}
