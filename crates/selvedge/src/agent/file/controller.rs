//! `[controller]`: the controller that orders labels.

use agent_api::config::ControllerRule;
use config::{Invalid, Wrong};
use edge::balance::{Scheme, AGENTS};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// The controller that orders labels.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ControllerTable {
    #[schemars(length(min = 1, max = 8))]
    urls: Vec<String>,
    #[schemars(length(min = 1, max = 63))]
    edge: String,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// Most controllers that an agent asks in turn.
const MAX_CONTROLLERS: usize = 8;

impl ControllerTable {
    /// `policy`: the scheme, and the word by which the file names it.
    pub(super) fn check(&self, (word, policy): (&str, &Scheme)) -> Result<ControllerRule, Wrong> {
        let mut wrong = Wrong::new();
        let ControllerTable { urls, edge, ca, certificate, key } = self.clone();
        if !policy.labels {
            let remedy = format!("remove the table, or let balance.policy be {:?}", AGENTS.name);
            wrong.add(Invalid::new("controller", format!("the policy {word:?} takes no labels"), remedy));
        }
        if urls.is_empty() || urls.len() > MAX_CONTROLLERS {
            let remedy = format!("give 1 to {MAX_CONTROLLERS}, such as [\"https://10.0.0.9:7443\"]");
            wrong.add(Invalid::value("controller.urls", format!("{} are listed", urls.len()), remedy));
        }
        for (n, url) in urls.iter().enumerate().filter(|(_, url)| !url.starts_with("https://")) {
            let shown: String = url.chars().take(60).collect();
            let problem = format!("{shown:?} is no https URL");
            wrong.add(Invalid::value(format!("controller.urls.{n}"), problem, "write \"https://10.0.0.9:7443\""));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if edge.is_empty() || edge.len() > 63 || !edge.chars().all(fits) {
            let shown: String = edge.chars().take(60).collect();
            let remedy = "give this host's name in the controller's topology";
            wrong.add(Invalid::value("controller.edge", format!("{shown:?} is no name"), remedy));
        }
        wrong.or(ControllerRule { urls, edge, ca, certificate, key })
    }
}
