//! Brings the kernel to what the configuration wants: only what differs is touched, new state comes before what uses
//! it, and old state goes after what used it.

use super::desired::{self, desired, gro_devices, resolve, rule_for, Desired, Kept, Resolved};
use super::error::{Error, Result};
use super::follow::Followed;
use super::interfaces::{Interface, Interfaces, Netlink};
use super::learned::Learned;
use super::limits::{self, Limited};
use super::log::Log;
use super::remembered::{Mtu, Remembered, RememberedPort};
use super::tables::{routes_of, Changes, Tables};
use crate::receiver::{self, Receiver};
use agent_api::config::{Config, Mac};
use kernel::cut;
use kernel::gro;
use kernel::state::limiter::LimiterKey;
use kernel::state::{Plain, Route, CONFIG_CONGESTION, ROUTE_LOCAL};
use kernel::{Adopted, Edge, Role, Swept};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

/// With less, an interface loses its IPv6 addresses; what the guest does to its own end is not to do that to the host's.
const MIN_MTU: u32 = 1280;

/// The agent's whole state. Everything that must outlive it is in the kernel or in the file beside the socket.
pub(super) struct Agent {
    pub(super) config: Config,
    pub(super) log: Log,
    pub(super) netlink: Netlink,
    pub(super) edge: Edge,
    pub(super) tables: Rc<Tables>,
    pub(super) interfaces: Interfaces,
    pub(super) resolved: Resolved,
    pub(super) learned: Learned,
    /// Where this agent's programs are, and the interface's name at that time.
    pub(super) attached: BTreeMap<(u32, Role), String>,
    pub(super) remembered: Remembered,
    /// Are the GRO devices in place?
    pub(super) gro: bool,
    /// What does not work now, one line each.
    pub(super) problems: Vec<String>,
    pub(super) swept: Swept,
    pub(super) limited: Limited,
    /// The thread that holds what overtook an earlier flowcell, where there is one.
    pub(super) receiver: Option<Receiver>,
    /// From a controller.
    pub(super) followed: Followed,
    /// Why no controller answers.
    pub(super) controller_lost: Option<String>,
    /// Of what the tables are the outcome; `None` if something did not work, which may work another time.
    pub(super) settled: Option<Seen>,
}

/// What of the host decides what the tables hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    resolved: std::result::Result<Resolved, String>,
    interfaces: Interfaces,
}

impl Seen {
    fn new(config: &Config, interfaces: &Interfaces, routes: &BTreeMap<IpAddr, u32>) -> Seen {
        let matters = |interface: &Interface| {
            rule_for(config, interface).is_some()
                || config.uplinks.contains(&interface.name)
                || desired::is_ours(&interface.name)
        };
        // Addresses, and whether it is up, count in `resolved`.
        let part = |interface: &Interface| Interface { up: false, addresses: Vec::new(), ..interface.clone() };
        let resolved = resolve(config, interfaces, routes);
        let interfaces =
            interfaces.iter().filter(|(_, i)| matters(i)).map(|(ifindex, i)| (*ifindex, part(i))).collect();
        Seen { resolved, interfaces }
    }
}

/// Interfaces, and where the host's routes lead for the peers.
pub(super) async fn look_around(config: &Config, netlink: &mut Netlink) -> Result<(Interfaces, BTreeMap<IpAddr, u32>)> {
    let mut interfaces = netlink.interfaces().await?;
    for (ifindex, interface) in &mut interfaces {
        let Some(unknown) = rule_for(config, interface).map(|rule| rule.mac.is_none()) else { continue };
        if let Some(peer) = interface.veth_peer {
            let found = netlink.peer(*ifindex, peer).await;
            interface.peer_mac = found.filter(|_| unknown).map(|(mac, _)| mac);
            interface.peer_mtu = found.map(|(_, mtu)| mtu);
        }
    }
    let mut routes = BTreeMap::new();
    if config.uplinks.len() > 1 {
        for peer in &config.peers {
            routes.extend(netlink.route(peer.address).await.map(|ifindex| (peer.address, ifindex)));
        }
    }
    Ok((interfaces, routes))
}

impl Agent {
    /// Looks at the host, and makes the kernel follow.
    pub(super) async fn apply(&mut self) -> Result<Changes> {
        let (interfaces, routes) = look_around(&self.config, &mut self.netlink).await?;
        let seen = Seen::new(&self.config, &interfaces, &routes);
        self.interfaces = interfaces;
        self.follow_host(seen).await
    }

    /// The same after something of the host changed: most changes are of no consequence.
    pub(super) async fn glance(&mut self) -> Result<()> {
        let (interfaces, routes) = look_around(&self.config, &mut self.netlink).await?;
        let seen = Seen::new(&self.config, &interfaces, &routes);
        let known = |ifindex| seen.interfaces.contains_key(&ifindex) || self.interfaces.contains_key(&ifindex);
        let unsure = self.netlink.is_unsure_of(known);
        self.interfaces = interfaces;
        if unsure || self.settled.as_ref() != Some(&seen) {
            self.follow_host(seen).await?;
        }
        Ok(())
    }

    /// The tables follow what is known of one port, and nothing else.
    pub(super) fn follow_port(&mut self, ifindex: u32) -> Result<()> {
        let Some(interface) = self.interfaces.get(&ifindex) else { return Ok(()) };
        let one = Interfaces::from([(ifindex, interface.clone())]);
        let want = desired::of_ports(&self.config, &self.resolved, &one, &self.learned, &self.limited);
        let (tables, mut changes) = (Rc::clone(&self.tables), Changes::default());
        for (table, want) in [(&tables.ports, &want.ports), (&tables.routes, &want.routes)] {
            table.upsert(&table.rows_of(want)?, want, &mut changes)?;
        }
        if changes.any() {
            self.edge.begin_epoch()?;
        }
        Ok(())
    }

    /// Looks up the MAC addresses of guests that speak under others than they had, and has their ports follow.
    pub(super) async fn look_up(&mut self, ports: BTreeSet<u32>) -> Result<()> {
        for ifindex in ports {
            let Some(interface) = self.interfaces.get_mut(&ifindex) else { continue };
            let Some((old, peer)) = interface.peer_mac.zip(interface.veth_peer) else { continue };
            self.netlink.forget_peer(ifindex);
            let Some((mac, _)) = self.netlink.peer(ifindex, peer).await.filter(|(mac, _)| *mac != old) else {
                continue;
            };
            interface.peer_mac = Some(mac);
            self.log.info(format!("port {}: the guest's MAC address is {} now", interface.name, Mac(mac)));
            if let Some(known) = self.settled.as_mut().and_then(|seen| seen.interfaces.get_mut(&ifindex)) {
                known.peer_mac = Some(mac);
            }
            self.follow_port(ifindex)?;
        }
        Ok(())
    }

    async fn follow_host(&mut self, seen: Seen) -> Result<Changes> {
        self.settled = None;
        for ifindex in self.netlink.take_ended() {
            self.attached.retain(|(at, _), _| *at != ifindex);
            self.learned.forget(ifindex);
        }
        if self.netlink.take_lost() {
            self.attached.clear(); // any number may be another interface's by now
        }
        let mut problems = Vec::new();
        match &seen.resolved {
            Ok(resolved) => self.resolved = resolved.clone(),
            // The uplink went away: guests of this host still reach one another, and it may come back.
            Err(problem) => problems.push(problem.clone()),
        }
        self.learned.revise(&self.config, &self.interfaces);
        let gro = self.follow_gro(&mut problems);
        let limited = self.raise_limits(&mut problems);
        let mut kept = self.tables.kept()?;
        kept.cutter = self.follow_cutter(&mut problems);
        let mut want = desired(&self.config, &self.resolved, &self.interfaces, &self.learned, &limited, &kept);
        let expected = usize::from(seen.resolved.is_err()) + want.problems.len();
        problems.append(&mut want.problems);
        want.attach.extend(gro);
        want.attach.extend(self.follow_receiver(&mut problems));
        let changes = self.follow(&want, &mut problems)?;
        if let Err(e) = self.lower_limits(&limited) {
            problems.push(format!("cannot remove what a rate limit has left: {e}"));
        }
        self.limited = limited;
        self.follow_mtus(&want, &mut problems).await?;
        self.settled = (problems.len() == expected).then_some(seen);
        self.report(problems, changes);
        Ok(changes)
    }

    fn follow(&mut self, want: &Desired, problems: &mut Vec<String>) -> Result<Changes> {
        let mut changes = Changes::default();
        let done = self.follow_rows(want, &mut changes, problems);
        if changes.any() {
            self.edge.begin_epoch()?;
        }
        done.map(|()| changes)
    }

    fn follow_rows(&mut self, want: &Desired, changes: &mut Changes, problems: &mut Vec<String>) -> Result<()> {
        let t = Rc::clone(&self.tables);
        let rules_changed = self.follow_congestion(want, changes)?;
        let mut rows = vec![
            (&t.config, &want.config),
            (&t.bounds, &want.bounds),
            (&t.peers, &want.peers),
            (&t.remotes, &want.remotes),
            (&t.ports, &want.ports),
            (&t.routes, &want.routes),
        ];
        rows.extend(t.limiters().map(|limiters| (limiters, &want.limiters)));
        let mut have = Vec::with_capacity(rows.len());
        for &(table, want) in &rows {
            let old = table.rows()?;
            table.upsert(&old, want, changes)?;
            have.push(old);
        }
        if rules_changed {
            self.edge.reclassify()?;
        }
        self.attach(&want.attach, problems);
        self.detach_others(&want.attach)?;
        for ((table, want), have) in rows.iter().zip(&have).rev() {
            table.remove(have, want, changes)?;
        }
        let limiters = if t.limiters().is_some() { have.last() } else { None };
        let gone = limiters.into_iter().flat_map(|have| have.keys()).filter(|key| !want.limiters.contains_key(*key));
        for key in gone.filter_map(|key| LimiterKey::from_bytes(key)) {
            self.edge.forget_limiter(&key)?;
        }
        Ok(())
    }

    /// Before the flag that makes the data path look at it. True if flows under way need other classes.
    fn follow_congestion(&self, want: &Desired, changes: &mut Changes) -> Result<bool> {
        let Some(wanted) = want.congestion.values().next() else { return Ok(false) };
        let old = self.tables.congestion.rows()?;
        let was_on = self.edge.config()?.flags & CONFIG_CONGESTION != 0;
        if !was_on {
            self.edge.forget_congestion()?;
        }
        let changed = old.values().next() != Some(wanted);
        self.tables.congestion.upsert(&old, &want.congestion, changes)?;
        Ok(changed && was_on)
    }

    fn attach(&mut self, want: &BTreeSet<(u32, Role)>, problems: &mut Vec<String>) {
        for &(ifindex, role) in want {
            // Of an uplink that went away, nothing is left to attach to.
            let Some(Interface { name, .. }) = self.interfaces.get(&ifindex) else { continue };
            if self.attached.get(&(ifindex, role)) == Some(name) {
                continue;
            }
            match self.edge.attach(ifindex, role) {
                Ok(_) => {
                    self.log.info(format!("{} {name} (ifindex {ifindex}): attached", word(role)));
                    self.attached.insert((ifindex, role), name.clone());
                }
                Err(e) => {
                    problems.push(format!("{} {name}: {e}", word(role)));
                }
            }
        }
    }

    /// Also takes away what an earlier agent left.
    fn detach_others(&mut self, want: &BTreeSet<(u32, Role)>) -> Result<()> {
        let there: BTreeSet<(u32, Role)> = self.edge.attachments().into_iter().collect();
        // An interface that ended took its program along.
        self.attached.retain(|at, _| there.contains(at));
        for &(ifindex, role) in there.difference(want) {
            self.edge.detach(ifindex, role)?;
            let name = self.attached.remove(&(ifindex, role));
            let name = name.map(|name| format!("{name} ")).unwrap_or_default();
            self.log.info(format!("{} {name}(ifindex {ifindex}): detached", word(role)));
        }
        Ok(())
    }

    /// Gives the host's end of each veth pair the MTU of the guest's own: veth drops what is larger than the receiving end's,
    /// and tells nobody. Interfaces that are no ports any more get theirs back.
    async fn follow_mtus(&mut self, want: &Desired, problems: &mut Vec<String>) -> Result<()> {
        for old in self.remembered.ports.iter().filter(|old| !want.mtus.contains_key(&old.ifindex)) {
            restore_mtu(&self.netlink, &self.interfaces, old).await;
        }
        let (mut ports, mut changes) = (Vec::new(), Vec::new());
        for &ifindex in want.mtus.keys() {
            let Some(interface) = self.interfaces.get(&ifindex) else { continue };
            let known = self.remembered.port(ifindex, &interface.name).and_then(|port| port.mtu);
            // Somebody else's change is the new original.
            let original = known.filter(|k| k.set == interface.mtu).map_or(interface.mtu, |k| k.original);
            let set = interface.peer_mtu.map_or(original, |mtu| mtu.max(MIN_MTU));
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

    /// Both ends of the pair of devices that cuts segments.
    fn follow_cutter(&mut self, problems: &mut Vec<String>) -> Option<[u32; 2]> {
        let mut ready = || -> std::result::Result<[u32; 2], Box<dyn std::error::Error>> {
            cut::add()?;
            let ends = [kernel::ifindex(cut::FIRST)?, kernel::ifindex(cut::SECOND)?];
            for (ifindex, name, role) in [(ends[0], cut::FIRST, Role::Nothing), (ends[1], cut::SECOND, Role::Limiter)] {
                if self.attached.get(&(ifindex, role)).map(String::as_str) != Some(name) {
                    self.edge.attach(ifindex, role)?;
                    self.attached.insert((ifindex, role), name.to_owned());
                }
            }
            cut::up()?;
            Ok(ends)
        };
        match ready() {
            Ok(ends) => Some(ends),
            Err(e) => {
                problems.push(format!(
                    "cannot add the devices {} and {}, without which segments of guests' own tunnels are dropped: {e}",
                    cut::FIRST,
                    cut::SECOND
                ));
                None
            }
        }
    }

    /// Returns the devices, with the program that keeps what comes through them from the host.
    fn follow_gro(&mut self, problems: &mut Vec<String>) -> BTreeSet<(u32, Role)> {
        let mut there = BTreeSet::new();
        let before = problems.len();
        let wanted = gro_devices(&self.config);
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
                if self.attached.get(&at) != Some(&name) {
                    self.edge.attach(at.0, at.1)?;
                    self.attached.insert(at, name.clone());
                }
                Ok(gro::up(&name)?)
            };
            if let Err(e) = ready() {
                problems.push(format!(
                    "cannot add the device {name}, without which received packets are not merged: {e}; \
                     set uplink.gro = false to do without"
                ));
            }
            self.remembered.gro.push(name);
        }
        self.gro = !there.is_empty() && problems.len() == before;
        there
    }

    /// Returns the receiver's device, with the program at which it gives segments back.
    fn follow_receiver(&mut self, problems: &mut Vec<String>) -> Option<(u32, Role)> {
        let wanted = self.config.reorder.map(receiver::settings);
        // Somebody may have removed the device, which the thread notices a little later.
        let there = kernel::ifindex(receiver::NAME).ok();
        let fits = |r: &Receiver| r.is_running() && there == Some(r.ifindex()) && Some(r.settings()) == wanted.as_ref();
        if let Some(old) = self.receiver.take_if(|r| !fits(r)) {
            self.attached.remove(&(old.ifindex(), Role::Drain));
            drop(old);
            self.log.info("receiver: ended");
        }
        if let (None, Some(settings)) = (&self.receiver, wanted) {
            match Receiver::start(&self.edge, settings) {
                Ok(receiver) => {
                    let (ifindex, name) = (receiver.ifindex(), receiver::NAME);
                    self.log.info(format!("receiver {name} (ifindex {ifindex}): segments are put in order"));
                    self.attached.insert((ifindex, Role::Drain), name.into());
                    self.receiver = Some(receiver);
                }
                Err(e) => problems.push(format!(
                    "segments that overtook others are handed on as they come: {e}; set receive.reorder = false to do without"
                )),
            }
        }
        self.receiver.as_ref().map(|receiver| (receiver.ifindex(), Role::Drain))
    }

    fn remember(&mut self) -> Result<()> {
        if Remembered::load(&self.config.socket).as_ref() != Some(&self.remembered) {
            self.remembered.save(&self.config.socket)?;
        }
        Ok(())
    }

    fn report(&mut self, problems: Vec<String>, changes: Changes) {
        for problem in problems.iter().filter(|p| !self.problems.contains(p)) {
            self.log.warning(problem);
        }
        self.problems = problems;
        if changes.any() {
            let Changes { added, changed, removed } = changes;
            self.log.info(format!("maps: {added} rows added, {changed} changed, {removed} removed"));
        }
    }

    /// Takes over addresses that an earlier agent learned, on interfaces that are still the same.
    pub(super) fn adopt_learned(&mut self) -> Result<()> {
        let mut rows = self.tables.routes.rows()?;
        if self.edge.adopted() == Adopted::New {
            rows.extend(self.edge.other_versions().iter().flat_map(|dir| routes_of(dir)));
        }
        for (key, value) in rows {
            let Some(route) = Route::from_bytes(&value).filter(|route| route.kind == ROUTE_LOCAL) else { continue };
            let Some(addr) = single_address(&key) else { continue };
            let same = self.interfaces.get(&route.target);
            if same.is_some_and(|i| self.remembered.port(route.target, &i.name).is_some()) {
                let (holder, now) = ((route.target, route.mac), kernel::monotonic_ns());
                let _ = self.learned.offer(&self.config, &self.interfaces, holder, addr, now);
            }
        }
        Ok(())
    }

    /// Takes everything out of the kernel that this or an earlier agent put there.
    pub(super) async fn tear_down(self) -> Result<()> {
        let Agent { edge, interfaces, remembered, netlink, config, receiver, .. } = self;
        drop(receiver); // what it holds goes on
        undo(&netlink, &interfaces, &remembered).await;
        edge.destroy()?;
        Remembered::remove(&config.socket);
        Followed::remove(&config.socket);
        Ok(())
    }
}

/// MTUs and GRO devices. Before the edge goes, whose program is on the latter.
pub(super) async fn undo(netlink: &Netlink, interfaces: &Interfaces, remembered: &Remembered) {
    for port in &remembered.ports {
        restore_mtu(netlink, interfaces, port).await;
    }
    for name in &remembered.gro {
        let _ = gro::remove(name); // gone with its namespace at the latest
    }
    let _ = limits::remove_all();
    let _ = cut::remove();
}

/// Unless somebody else changed it meanwhile.
async fn restore_mtu(netlink: &Netlink, interfaces: &Interfaces, port: &RememberedPort) {
    let interface = interfaces.get(&port.ifindex).filter(|i| i.name == port.interface);
    if let (Some(interface), Some(mtu)) = (interface, port.mtu) {
        if interface.mtu == mtu.set {
            let _ = netlink.set_mtu(port.ifindex, mtu.original).await; // the interface may just be ending
        }
    }
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Guest => "port",
        Role::Uplink => "uplink",
        Role::Nothing => "device without traffic",
        Role::Limiter => "limiter",
        Role::LimitGuest | Role::LimitPort => "limited port",
        Role::Drain => "receiver",
    }
}

/// The address of a row of `routes`, if it is one address's.
fn single_address(key: &[u8]) -> Option<IpAddr> {
    let len = u32::from_ne_bytes(key.get(..4)?.try_into().ok()?);
    let addr: [u8; 16] = key.get(8..24)?.try_into().ok()?;
    let v6 = Ipv6Addr::from(addr);
    (len == 32 + 128).then(|| v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

/// What [`desired`] needs where nothing is pinned.
pub(super) fn check(config: &Config, interfaces: &Interfaces, routes: &BTreeMap<IpAddr, u32>) -> Result<Vec<String>> {
    let resolved = resolve(config, interfaces, routes).map_err(Error::Unresolved)?;
    let want = desired(config, &resolved, interfaces, &Learned::default(), &Limited::default(), &Kept::default());
    let mut lines: Vec<String> =
        resolved.uplinks.iter().map(|(ifindex, name)| format!("uplink {name}: ifindex {ifindex}")).collect();
    for (peer, (local, uplink)) in config.peers.iter().zip(&resolved.peers) {
        let name = interfaces.get(uplink).map_or("?", |i| i.name.as_str());
        lines.push(format!("peer {}: from {local} to {} by {name}", peer.name, peer.address));
    }
    for ifindex in want.mtus.keys() {
        let name = interfaces.get(ifindex).map_or("?", |i| i.name.as_str());
        lines.push(format!("port {name}: ifindex {ifindex}, packets of at most {} bytes", want.mtus[ifindex]));
    }
    lines.extend(want.problems);
    Ok(lines)
}
