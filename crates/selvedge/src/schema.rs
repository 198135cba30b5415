//! `selvedge schema`: JSON Schema of configuration files, from the types that read them.

use crate::scenario::Scenario;
use serde_json::Value;

/// A kind of configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum File {
    /// Scenarios and experiments (docs/scenarios.md, docs/repro.md)
    Scenario,
    /// Agents (docs/agent.md)
    Agent,
    /// Controllers (docs/controller.md)
    Controller,
}

impl File {
    pub fn schema(self) -> Value {
        match self {
            File::Scenario => scenario(),
            File::Agent => crate::agent::file::schema(),
            File::Controller => crate::controller::schema(),
        }
    }
}

/// A scenario, with the keys that only the reproduction harness reads.
fn scenario() -> Value {
    let mut schema = config::schema::of::<Scenario>("Scenario; see docs/scenarios.md");
    let harness = crate::repro::schema();
    if let (Some(properties), Some(own)) = (schema["properties"].as_object_mut(), harness["properties"].as_object()) {
        properties.extend(own.clone());
    }
    config::schema::including(schema)
}
