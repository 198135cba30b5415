//! The table `[receive]`.

use crate::scenario::Wait;
use agent_api::config::ADAPTIVE;
use config::{Invalid, Wrong};
use edge::reorder::Timeout;
use schemars::JsonSchema;
use serde::Deserialize;
use units::Time;

const SHORTEST: Time = Time::from_us(10);
/// Guests' own retransmission timers begin at 200 ms.
const LONGEST: Time = Time::from_ms(100);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReceiveTable {
    /// Presto's receiver: segments that overtook an earlier flowcell wait for it.
    reorder: bool,
    /// Longest wait; with `reorder = true` only.
    #[schemars(extend("x-range" = ["10us", "100ms"], "default" = "adaptive"))]
    timeout: Option<Wait>,
}

impl ReceiveTable {
    pub(super) fn is_on(&self) -> bool {
        self.reorder
    }

    /// What it means; `None`: received segments are handed on as they come.
    pub(super) fn check(&self) -> Result<Option<Timeout>, Wrong> {
        let mut wrong = Wrong::new();
        if self.timeout.is_some() && !self.reorder {
            let problem = "has no meaning without reorder = true";
            wrong.add(Invalid::new("receive.timeout", problem, "add that, or remove this"));
        }
        let timeout = match self.timeout {
            None | Some(Wait::Adaptive) => ADAPTIVE,
            Some(Wait::Fixed(time)) if (SHORTEST..=LONGEST).contains(&time) => Timeout::Fixed(time),
            Some(Wait::Fixed(time)) => {
                let remedy = "give \"10us\" to \"100ms\", or \"adaptive\"";
                wrong.add(Invalid::value("receive.timeout", format!("{time} is out of range"), remedy));
                ADAPTIVE
            }
        };
        wrong.or(self.reorder.then_some(timeout))
    }
}
