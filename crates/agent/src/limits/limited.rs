//! Limits that are in force.

use super::qdiscs::Pair;
use super::wanted::Wanted;
use crate::attached::Attached;
use crate::rows::Rows;
use agent_api::config::Tenant;
use kernel::state::limiter::{LimiterKey, LIMITER_OUT};
use kernel::Role;
use std::collections::{BTreeMap, BTreeSet};

/// What of the limits is in force, and what else of the agent must follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited {
    /// Of the map `limiters`.
    pub(crate) rows: Rows,
    pub(crate) attach: BTreeSet<(u32, Role)>,
    /// Rows of `ports` besides those of guests.
    pub(crate) ports: Rows,
    /// Ports to which segments must go through their queues and programs.
    pub(crate) whole_way: BTreeSet<u32>,
    /// Ports whose guest's own end is to have a program, from who asked for the limit.
    pub(crate) enters: BTreeSet<u32>,
    /// Those that have it.
    pub(crate) turns: BTreeSet<u32>,
    /// Class and where it is, of each that is in force.
    pub(crate) classes: BTreeMap<LimiterKey, (u32, u32)>,
    pub(crate) wanted: Vec<Wanted>,
    /// Of which there are ports.
    pub(super) tenants: Vec<Tenant>,
    /// Pairs of devices through which segments go.
    pub(super) pairs: BTreeSet<Pair>,
    /// Of all our HTBs: device and class.
    pub(super) kept: BTreeSet<(u32, u32)>,
}

impl Limited {
    /// Are all programs that limit the port there, and is there one?
    pub(crate) fn is_attached(&self, ifindex: u32, attached: &Attached) -> bool {
        let mut roles = self.attach.iter().filter(|at| at.0 == ifindex).peekable();
        roles.peek().is_some() && roles.all(|at| attached.has(*at))
    }

    /// Does what the guest there sends go through a queue?
    pub(crate) fn is_egress(&self, ifindex: u32) -> bool {
        self.classes.keys().any(|key| key.ifindex == ifindex && key.direction == LIMITER_OUT)
    }
}
