//! Devices that the agent makes, and what it changes of the host's own.

use super::{Agent, Result};
use crate::remembered::{Mtu, RememberedPort};
use crate::reordering::{self, ReorderThread};
use crate::{mtus, rules};
use agent_api::lacking::{MERGING, RECEIVER};
use kernel::{cut, gro, Role};
use std::collections::{BTreeMap, BTreeSet};
use tracing::info;

impl Agent {
    /// Gives the host's end of each veth pair the MTU of the guest's own: veth drops what is larger than the receiving end's,
    /// and tells nobody. Interfaces that are no ports any more get theirs back.
    pub(super) async fn follow_mtus(&mut self, want: &BTreeMap<u32, u32>, problems: &mut Vec<String>) -> Result<()> {
        for old in self.remembered.ports.iter().filter(|old| !want.contains_key(&old.ifindex)) {
            mtus::restore(&self.netlink, &self.interfaces, old).await;
        }
        let (mut ports, mut changes) = (Vec::new(), Vec::new());
        for &ifindex in want.keys() {
            let Some(interface) = self.interfaces.get(&ifindex) else { continue };
            let known = self.remembered.port(ifindex, &interface.name).and_then(|port| port.mtu);
            // Somebody else's change is the new original.
            let original = known.filter(|k| k.set == interface.mtu).map_or(interface.mtu, |k| k.original);
            let set = interface.peer_mtu.map_or(original, |mtu| mtu.max(mtus::LEAST));
            if set != interface.mtu {
                changes.push((ifindex, set, interface.name.clone()));
            }
            let changed = (set != original).then_some(Mtu { original, set });
            ports.push(RememberedPort { ifindex, interface: interface.name.clone(), mtu: changed });
        }
        // What is to be restored is noted before it is changed: the agent may be killed in between.
        self.remembered.ports = ports;
        self.remember()?;
        for (ifindex, set, name) in changes {
            if let Err(e) = self.netlink.set_mtu(ifindex, set).await {
                problems.push(format!("port {name}: cannot set an MTU of {set}, that of the guest's own end: {e}"));
            }
        }
        Ok(())
    }

    /// Both ends of the pair of devices that cuts segments, where they go into a tunnel.
    pub(super) fn follow_cutter(&mut self, problems: &mut Vec<String>) -> Option<[u32; 2]> {
        if self.config.plain {
            return None;
        }
        let mut ready = || -> std::result::Result<[u32; 2], Box<dyn std::error::Error>> {
            cut::add()?;
            let ends = [kernel::ifindex(cut::FIRST)?, kernel::ifindex(cut::SECOND)?];
            for (ifindex, name, role) in [(ends[0], cut::FIRST, Role::Nothing), (ends[1], cut::SECOND, Role::Limiter)] {
                self.attached.ensure(&self.edge, (ifindex, role), name)?;
            }
            cut::up()?;
            Ok(ends)
        };
        match ready() {
            Ok(ends) => Some(ends),
            Err(e) => {
                problems.push(format!(
                    "cannot add the devices {} and {}, without which segments of guests' own tunnels are dropped, and datagrams that arrive as one \
                     segment: {e}",
                    cut::FIRST,
                    cut::SECOND
                ));
                None
            }
        }
    }

    /// Returns the devices, with the program that keeps what comes through them from the host.
    pub(super) fn follow_gro(&mut self, problems: &mut Vec<String>) -> BTreeSet<(u32, Role)> {
        let mut there = BTreeSet::new();
        let before = problems.len();
        let wanted = rules::gro_devices(&self.config);
        for name in std::mem::take(&mut self.remembered.gro) {
            if !wanted.iter().any(|(wanted, _)| *wanted == name) {
                let _ = gro::remove(&name); // it does no harm
            }
        }
        for (name, ipv6) in wanted {
            // One that cannot be set up stays, down: adding it again and again would wake this agent again and again.
            let mut ready = || -> std::result::Result<(), Box<dyn std::error::Error>> {
                gro::add(&name, self.config.udp_port, ipv6)?;
                let at = (kernel::ifindex(&name)?, Role::Nothing);
                there.insert(at);
                self.attached.ensure(&self.edge, at, &name)?;
                Ok(gro::up(&name)?)
            };
            if let Err(e) = ready() {
                problems.push(format!(
                    "cannot add the device {name}, without which {}: {e}; set uplink.gro = false to do without",
                    MERGING.without
                ));
            }
            self.remembered.gro.push(name);
        }
        self.gro = !there.is_empty() && problems.len() == before;
        there
    }

    /// Returns the receiver's device, with the program at which it gives segments back.
    pub(super) fn follow_reordering(&mut self, problems: &mut Vec<String>) -> Option<(u32, Role)> {
        let wanted = self.config.reorder.map(reordering::settings);
        // Somebody may have removed the device, which the thread notices a little later.
        let there = kernel::ifindex(reordering::NAME).ok();
        let fits =
            |r: &ReorderThread| r.is_running() && there == Some(r.ifindex()) && Some(r.settings()) == wanted.as_ref();
        if let Some(old) = self.reordering.take_if(|r| !fits(r)) {
            self.attached.forget((old.ifindex(), Role::Drain));
            drop(old);
            info!("receiver: ended");
        }
        if let (None, Some(settings)) = (&self.reordering, wanted) {
            match ReorderThread::start(&self.edge, settings) {
                Ok(receiver) => {
                    let (ifindex, name) = (receiver.ifindex(), reordering::NAME);
                    info!(interface = name, ifindex, "receiver {name} (ifindex {ifindex}): segments are put in order");
                    self.attached.note((ifindex, Role::Drain), name);
                    self.reordering = Some(receiver);
                }
                Err(e) => {
                    problems.push(format!("{}: {e}; set receive.reorder = false to do without", RECEIVER.without))
                }
            }
        }
        self.reordering.as_ref().map(|receiver| (receiver.ifindex(), Role::Drain))
    }
}
