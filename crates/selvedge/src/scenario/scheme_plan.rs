//! One scheme of a plan, ready to run.

use config::ConfigError;
use host::experiment::Experiment;

/// One scheme, ready to run.
#[derive(Clone, Debug)]
pub struct SchemePlan {
    pub name: String,
    pub note: String,
    /// With seed 0; see [`SchemePlan::experiment`].
    pub(super) template: Experiment,
    /// Listed flows that start too late, a sentence a workload.
    pub(super) left_out: Vec<String>,
    /// What the scheme combines although one part costs another, see docs/united.md.
    pub(super) cautions: Vec<String>,
    /// Bytes that all runs of the plan need, if all schemes were like this one.
    pub(super) memory: f64,
    /// Why only a lab can run it, if so.
    pub(super) unmodelled: Option<ConfigError>,
}

impl SchemePlan {
    pub fn experiment(&self, seed: u64) -> Experiment {
        Experiment { seed, ..self.template.clone() }
    }
    pub fn template(&self) -> &Experiment {
        &self.template
    }

    /// Can the simulator run it, too?
    ///
    /// # Errors
    /// The key that asks for what only real hosts have.
    pub fn modelled(&self) -> Result<(), ConfigError> {
        self.unmodelled.clone().map_or(Ok(()), Err)
    }

    /// The first key in use that only the simulator knows, with what to do about it where guests are real.
    pub(crate) fn only_simulated(&self) -> Option<(String, &'static str)> {
        let e = &self.template;
        let scheme = |key: &str| format!("scheme.{}.{key}", self.name);
        if e.hosts.mptcp.is_some() {
            return Some((scheme("mptcp"), "choose another scheme: a lab's guests speak the TCP of this kernel"));
        }
        if e.switches.notify.is_some() && e.edge.fastlane.is_none() {
            let remedy = "leave it out, or add `fastlane = {}` to the scheme: no kernel understands notifications";
            return Some(("switch.notify".to_owned(), remedy));
        }
        if matches!(e.switches.aqm, Some(fabric::Aqm::Codel(_))) {
            return Some((
                "switch.codel".to_owned(),
                "leave it out: a lab's switches manage queues on arrival, by `ecn`",
            ));
        }
        if e.switches.ranked {
            return Some(("switch.pfabric".to_owned(), "leave it out: a lab's guests do not rank packets"));
        }
        if e.hosts.server.is_some() {
            return Some(("host.server".to_owned(), "leave it out: a lab's guests take the time that they take"));
        }
        if e.edge.controller.is_some() {
            return Some((scheme("controller"), "leave it out: a lab's edges keep all trees"));
        }
        if e.edge.discovery.is_some() {
            return Some((scheme("discovery"), "leave it out: a lab's edges know all trees"));
        }
        if !e.hosts.plain.is_empty() {
            return Some(("host.plain".to_owned(), "leave it out: every host of a lab has an edge"));
        }
        if let Some(asked) = e.workloads.iter().find(|w| w.request.is_some()) {
            let key = format!("workload.{}.request", asked.name);
            return Some((key, "leave it out: a lab's answers start by themselves"));
        }
        if let Some(timed) = e.workloads.iter().find(|w| w.until.is_some()) {
            let key = format!("workload.{}.until", timed.name);
            return Some((key, "leave it out: a lab's flows without a size run to the end"));
        }
        let capped = e.workloads.iter().find(|w| w.rate_cap.is_some())?;
        Some((format!("workload.{}.rate_cap", capped.name), "leave it out: a lab's traffic is not paced"))
    }

    /// Captures the first packets that leave the first node of `name` on that link: `"leaf1-spine2"` is what leaf1 sends,
    /// `"spine2-leaf1"` the other direction. False if this scheme's fabric has no such link.
    pub fn capture(&mut self, name: &str, packets: u32) -> bool {
        let fabric = &self.template.topology;
        let Some(link) = fabric.link_named(name) else { return false };
        let backward = name.split('-').next() != Some(&fabric.nodes[fabric.links[link as usize].a as usize].name);
        self.template.record.capture = Some((2 * link + u32::from(backward), packets));
        true
    }
}
