//! Hosts of a lab that send for a workload with `ignore_window`.

use super::LabFailure;
use host::experiment::Experiment;
use host::workload::Source;
use live::lab::Lab;
use std::collections::BTreeSet;

/// They ignore the windows that they are offered for as long as this lives.
pub(super) struct Unruly {
    #[cfg(feature = "kernel")]
    _held: Option<live::unruly::Unruly>,
}

/// Flows that are drawn to see who sends.
const MOST: usize = 1_000_000;

impl Unruly {
    /// Does nothing unless a workload asks for it.
    ///
    /// # Errors
    /// A build without the program, or a kernel that refuses it.
    pub(super) fn arrange(experiment: &Experiment, lab: &Lab) -> Result<Unruly, LabFailure> {
        let hosts = senders(experiment);
        #[cfg(feature = "kernel")]
        {
            if hosts.is_empty() {
                return Ok(Unruly { _held: None });
            }
            let refused = |e: live::unruly::Error| LabFailure::Refused(e.to_string());
            let mut held = live::unruly::Unruly::load().map_err(refused)?;
            for host in hosts {
                if let Some(namespace) = lab.namespaces().get(host as usize) {
                    held.add(namespace).map_err(refused)?;
                }
            }
            Ok(Unruly { _held: Some(held) })
        }
        #[cfg(not(feature = "kernel"))]
        match hosts.is_empty() {
            true => Ok(Unruly {}),
            false => {
                let _ = lab;
                Err(LabFailure::Refused(
                    "hosts keep to their windows in this build; build Selvedge with the feature `kernel` for `ignore_window`"
                        .to_owned(),
                ))
            }
        }
    }
}

/// A host is unruly as a whole: all its traffic ignores the window.
fn senders(experiment: &Experiment) -> BTreeSet<u32> {
    let mut hosts = BTreeSet::new();
    for (n, workload) in experiment.workloads.iter().enumerate().filter(|(_, w)| w.ignore_window) {
        // One that cannot be offered is refused before any traffic flows.
        let source = Source::new(workload, n as u16, &experiment.racks, experiment.seed, experiment.duration);
        if let Ok(mut source) = source {
            hosts.extend(std::iter::from_fn(|| source.next()).take(MOST).map(|flow| flow.src));
        }
    }
    hosts
}
