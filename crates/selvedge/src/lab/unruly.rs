//! Hosts of a lab that send for a workload with `ignore_window`.

use super::LabFailure;
use crate::kernel_edge;
use host::experiment::Experiment;
use host::workload::Source;
use lab::Lab;
use std::collections::BTreeSet;

/// They ignore the windows that they are offered for as long as this lives.
pub(super) struct Unruly {
    _held: Option<kernel_edge::Unruly>,
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
        if hosts.is_empty() {
            return Ok(Unruly { _held: None });
        }
        let mut held = kernel_edge::Unruly::load().map_err(LabFailure::Refused)?;
        for host in hosts {
            if let Some(namespace) = lab.namespaces().get(host as usize) {
                held.add(namespace).map_err(LabFailure::Refused)?;
            }
        }
        Ok(Unruly { _held: Some(held) })
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
