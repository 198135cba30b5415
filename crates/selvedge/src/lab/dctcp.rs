//! DCTCP for hosts of a lab if the kernel has none.

use super::LabFailure;

const DCTCP: &str = "dctcp";

/// DCTCP as this program brings it along, registered with the kernel for as long as this lives.
pub(super) struct Dctcp {
    #[cfg(feature = "kernel")]
    registered: Option<live::dctcp::Dctcp>,
}

impl Dctcp {
    /// Does nothing unless `laws` has DCTCP and the kernel does not.
    ///
    /// # Errors
    /// Where DCTCP cannot be had: a build without it, or a kernel that refuses it.
    pub(super) fn register(laws: &[String]) -> Result<Dctcp, LabFailure> {
        let missing = laws.iter().any(|law| law == DCTCP) && !is_known();
        #[cfg(feature = "kernel")]
        {
            // Names are one list for the whole machine, and two labs may be up at once.
            let name = format!("svdctcp{}", std::process::id() % 10_000_000);
            let register = || live::dctcp::Dctcp::register(&name).map_err(|e| LabFailure::Refused(e.to_string()));
            Ok(Dctcp { registered: missing.then(register).transpose()? })
        }
        #[cfg(not(feature = "kernel"))]
        match missing {
            true => Err(LabFailure::Refused(
                "this kernel has no dctcp; build Selvedge with the feature `kernel`, which brings one along".to_owned(),
            )),
            false => Ok(Dctcp {}),
        }
    }

    /// What the kernel knows a congestion control as.
    pub(super) fn name(&self, law: &str) -> String {
        #[cfg(feature = "kernel")]
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
