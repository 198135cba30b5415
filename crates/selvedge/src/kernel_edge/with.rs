//! The kernel edge in a build with the feature `kernel`: calls to the crates that drive BPF.
//!
//! `without.rs` has the same names for builds without the feature.

use agent_api::release::too_old_for_fastlane;
use lab::{HostNamespace, INTERFACE};
use std::path::Path;

pub use agent::Error;
pub use agent::{resolve, run, stop};
pub use kernel::{has_fq, has_htb, has_vxlan, other_edges};

pub const BUILT: bool = true;

/// Are the programs in this build?
///
/// # Errors
/// Why clang did not compile them.
pub fn available() -> Result<(), String> {
    kernel::bpf::available().map_err(|e| e.to_string())
}

/// Loads the programs of the edge, and drops them.
///
/// # Errors
/// What the kernel refuses.
pub fn try_edge() -> Result<(), String> {
    kernel::try_edge(None).map(drop).map_err(|e| e.to_string())
}

/// As [`try_edge`], the programs of rate limits.
///
/// # Errors
/// As [`try_edge`].
pub fn try_laws() -> Result<(), String> {
    kernel::try_laws(None).map(drop).map_err(|e| e.to_string())
}

/// As [`try_edge`], the programs of FastLane, which needs reasons of what queues drop.
///
/// # Errors
/// As [`try_edge`].
pub fn try_drops() -> Result<(), String> {
    kernel::try_fastlane(None).map(drop).map_err(|e| too_old_for_fastlane().unwrap_or_else(|| e.to_string()))
}

/// DCTCP for hosts of a lab, registered with the kernel until this is dropped.
pub struct Dctcp(kernel::dctcp::Dctcp);

impl Dctcp {
    /// # Errors
    /// What the kernel refuses.
    pub fn register() -> Result<Dctcp, String> {
        // Names are one list for the whole machine, and two labs may be up at once.
        let name = format!("svdctcp{}", std::process::id() % 10_000_000);
        kernel::dctcp::Dctcp::register(&name).map(Dctcp).map_err(|e| e.to_string())
    }

    pub fn name(&self) -> &str {
        self.0.name()
    }
}

/// Has `interface`, of the calling thread's network, mark what finds a long queue, and pins what it counts.
///
/// # Errors
/// A build without the program, or what the kernel refuses.
pub fn mark(interface: &str, queue: &kernel_lab::Queue, pin: &Path) -> Result<(), String> {
    let queue = kernel::marker::Queue { rate: queue.rate, buffer: queue.buffer, threshold: queue.threshold };
    kernel::marker::attach(interface, &queue, pin).map_err(|e| e.to_string())
}

/// What the port pinned there has marked.
///
/// # Errors
/// If there is none.
pub fn marks(pin: &Path) -> Result<kernel_lab::Marks, String> {
    let kernel::marker::Marks { packets, marked, full, queue, longest } =
        kernel::marker::read(pin).map_err(|e| e.to_string())?;
    Ok(kernel_lab::Marks { packets, marked, full, queue, longest })
}

/// Hosts of a lab that ignore their receive window until this is dropped.
pub struct Unruly(kernel::unruly::Unruly);

impl Unruly {
    /// # Errors
    /// A build without the program, or a kernel that refuses it.
    pub fn load() -> Result<Unruly, String> {
        kernel::unruly::Unruly::load().map(Unruly).map_err(|e| e.to_string())
    }

    /// # Errors
    /// What the kernel refuses: EINVAL before Linux 6.6.
    pub fn add(&mut self, host: &HostNamespace) -> Result<(), String> {
        let attach = || Ok(self.0.attach(INTERFACE));
        host.enter(attach).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
}
