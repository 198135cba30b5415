//! Whether the kernel edge was compiled into this program.

/// Why the kernel edge cannot be loaded by this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel edge is not in this program: {0}")]
pub struct Unavailable(pub &'static str);

#[cfg(bpf_object)]
pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/edge.bpf.o"));

/// Is the kernel edge part of this program? Says nothing about privileges or about the running kernel.
///
/// # Errors
/// The reason, in one line.
pub fn available() -> Result<(), Unavailable> {
    #[cfg(bpf_object)]
    return Ok(());
    #[cfg(not(bpf_object))]
    Err(Unavailable(env!("SELVEDGE_NO_BPF")))
}
