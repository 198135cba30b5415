//! DCTCP for hosts of a lab if the kernel has none.

use super::LabFailure;
use crate::kernel_edge;

const DCTCP: &str = "dctcp";

/// DCTCP as this program brings it along, registered with the kernel for as long as this lives.
pub(super) struct Dctcp {
    registered: Option<kernel_edge::Dctcp>,
}

impl Dctcp {
    /// Does nothing unless `laws` has DCTCP and the kernel does not.
    ///
    /// # Errors
    /// Where DCTCP cannot be had: a build without it, or a kernel that refuses it.
    pub(super) fn register(laws: &[String]) -> Result<Dctcp, LabFailure> {
        let missing = laws.iter().any(|law| law == DCTCP) && !is_known();
        let registered = missing.then(kernel_edge::Dctcp::register).transpose().map_err(LabFailure::Refused)?;
        Ok(Dctcp { registered })
    }

    /// What the kernel knows a congestion control as.
    pub(super) fn name(&self, law: &str) -> String {
        if let (DCTCP, Some(registered)) = (law, &self.registered) {
            return registered.name().to_owned();
        }
        law.to_owned()
    }
}

fn is_known() -> bool {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().any(|law| law == DCTCP)
}
