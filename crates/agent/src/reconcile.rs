//! Brings the kernel to what the configuration wants: only what differs is touched, new state comes before what uses
//! it, and old state goes after what used it. Rows of a map that is too full for both go before new ones come.

use super::asking::Asking;
use super::attached::Attached;
use super::carrier::Carriers;
use super::desired::{self, desired, Desired, Resolved};
use super::discovery::{Stats, Tracer};
use super::error::Result;
use super::fastlane::FastLane;
use super::follow::Followed;
use super::host::{look_around, Seen};
use super::interfaces::{Interface, Interfaces, Netlink};
use super::labels::Learnt;
use super::learned::Learned;
use super::limits::{self, Limited, Raise};
use super::pmtu::PathMtus;
use super::remembered::Remembered;
use super::requested::{self, Configured};
use super::rows::Rows;
use super::shares::Numbers;
use super::silent::Silent;
use super::tables::{routes_of, Changes, Table, Tables};
use super::teardown::undo;
use crate::reordering::ReorderThread;
use agent_api::config::{Config, Mac, MAX_ROUTES};
use kernel::state::limiter::{Limiter, LimiterKey};
use kernel::state::{Plain, Port, Route, CONFIG_CONGESTION, ROUTE_LOCAL};
use kernel::{Adopted, KernelEdge, Role, Swept};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use tracing::{info, warn};

mod asking;
mod devices;
mod path_mtus;
mod paths;

/// The agent's whole state. Everything that must outlive it is in the kernel or in the file beside the socket.
pub(super) struct Agent {
    pub(super) config: Config,
    pub(super) netlink: Netlink,
    /// Announces uplinks that fail, where there are several.
    pub(super) carriers: Carriers,
    pub(super) edge: KernelEdge,
    pub(super) tables: Rc<Tables>,
    pub(super) interfaces: Interfaces,
    pub(super) resolved: Resolved,
    pub(super) learned: Learned,
    pub(super) attached: Attached,
    pub(super) remembered: Remembered,
    /// Why it is unknown what an earlier agent has changed on this host: its file is missing, unreadable or of other pins. A reload clears this.
    pub(super) forgotten: Option<String>,
    /// What the configuration says of ports. [`Agent::config`] also has the limits that were asked for on the socket.
    pub(super) configured: Configured,
    /// Are the GRO devices in place?
    pub(super) gro: bool,
    /// What does not work now, one line each.
    pub(super) problems: Vec<String>,
    /// What the last sweep of the flow table has found.
    pub(super) swept: Swept,
    /// Rate limits, as they were last put in force.
    pub(super) limited: Limited,
    /// The row of each guest's share of the uplink, by ifindex of its port.
    pub(super) shares: Numbers,
    /// Packets that exceed a guest's share wait; otherwise they are dropped.
    pub(super) waits: bool,
    /// How often the data path's timer had set shares' rates at the last look. If the number stays, the timer has to be started again.
    /// `None`: the timer was not started yet.
    pub(super) ticks: Option<u64>,
    /// The thread that holds segments which arrive before an earlier flowcell is complete, if the configuration wants one.
    pub(super) reordering: Option<ReorderThread>,
    /// The thread that sends again what this host drops, if the configuration wants one.
    pub(super) fastlane: Option<FastLane>,
    /// FastLane's thread and devices are in place, so ports get its programs.
    pub(super) again: bool,
    /// Discovers paths, if the configuration wants that.
    pub(super) tracer: Option<Tracer>,
    /// Counts of the last tracer that ended. The next one counts on from them.
    pub(super) traced: Stats,
    /// Labels to peers, from the controller and from path discovery.
    pub(super) learnt: Learnt,
    /// Why the controller does not answer; `None` while it does, or without one.
    pub(super) controller_lost: Option<String>,
    /// MTUs of the paths to peers.
    pub(super) path_mtus: PathMtus,
    /// Peers that do not answer, and peers that are no edges.
    pub(super) silent: Silent,
    /// Probes that ask silent peers whether they are there.
    pub(super) asking: Asking,
    /// The port (ifindex) whose limit, asked for on the socket, is being put in force.
    pub(super) granting: Option<u32>,
    /// The state of the host for which the tables were last made. While the host stays like that, [`Agent::glance`] changes nothing.
    /// `None`: the tables must be made again, because something did not work, or has changed since.
    pub(super) settled: Option<Seen>,
}

impl Agent {
    /// Looks at the host, and makes the kernel follow.
    pub(super) async fn apply(&mut self) -> Result<Changes> {
        let (interfaces, routes) = look_around(&self.config, &mut self.netlink).await?;
        let seen = Seen::new(&self.config, &interfaces, &routes);
        self.interfaces = interfaces;
        self.follow_host(seen).await
    }

    /// As [`Agent::apply`], after something changed on the host. Most changes do not matter to the edge: then this does nothing.
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
        let followed = desired::Followed { shares: &self.shares, again: self.again };
        let want = desired::of_ports(&self.config, &self.resolved, &one, &self.learned, &self.limited, followed);
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
            let Some((old, peer)) = interface.peer_mac.zip(interface.other_end) else { continue };
            self.netlink.forget_peer(ifindex);
            let Some((mac, _)) = self.netlink.peer(ifindex, peer).await.filter(|(mac, _)| *mac != old) else {
                continue;
            };
            interface.peer_mac = Some(mac);
            let (port, mac_now) = (interface.name.as_str(), Mac(mac));
            info!(port, ifindex, "port {port}: the guest's MAC address is {mac_now} now");
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
            self.attached.forget_interface(ifindex);
            self.learned.forget(ifindex);
        }
        if self.netlink.take_lost() {
            self.attached.forget_all();
        }
        self.end_requested(None)?;
        if requested::revise(&mut self.remembered.requested, &self.interfaces) {
            self.configured.fill(&mut self.config, &self.remembered.requested);
        }
        let mut problems: Vec<String> = self.forgotten.iter().cloned().collect();
        let told = problems.len();
        match &seen.resolved {
            Ok(resolved) => self.resolved = resolved.clone(),
            // The uplink went away: guests of this host still reach one another, and it may come back.
            Err(problem) => {
                problems.push(problem.clone());
                self.resolved.avoid_down(&self.interfaces);
            }
        }
        self.watch_uplinks(&mut problems);
        self.learned.revise(&self.config, &self.interfaces);
        let gro = self.follow_gro(&mut problems);
        let limited = self.raise_limits(&mut problems)?;
        let mut kept = self.tables.kept()?;
        kept.cutter = self.follow_cutter(&mut problems);
        kept.again = self.follow_fastlane(&mut problems);
        self.again = kept.again.is_some();
        kept.waits = self.can_wait(&mut problems);
        kept.asks = self.silent.asks();
        self.path_mtus.follow(!self.config.plain && !self.config.peers.is_empty(), &mut problems);
        kept.path_mtus = self.path_mtus.all();
        self.follow_tracer(&kept, &mut problems);
        let mut want =
            desired(&self.config, &self.learnt, &self.resolved, &self.interfaces, &self.learned, &limited, &kept);
        (self.shares, self.waits) = (want.shares.clone(), kept.waits);
        let expected = told + usize::from(seen.resolved.is_err()) + want.problems.len();
        problems.append(&mut want.problems);
        want.attach.extend(gro);
        want.attach.extend(self.follow_reordering(&mut problems));
        let changes = self.follow(&want, &limited, &mut problems)?;
        self.keep_shares()?;
        if let Err(e) = limits::lower(&limited) {
            problems.push(format!("cannot remove what a rate limit has left: {e}"));
        }
        self.limited = limited;
        self.follow_mtus(&want.mtus, &mut problems).await?;
        self.settled = (problems.len() == expected).then_some(seen);
        self.report(problems, changes);
        Ok(changes)
    }

    fn raise_limits(&mut self, problems: &mut Vec<String>) -> Result<Limited> {
        let raise = Raise {
            config: &self.config,
            interfaces: &self.interfaces,
            edge: &mut self.edge,
            attached: &mut self.attached,
            tenants: &mut self.remembered.tenants,
            enters: self.remembered.requested.iter().filter(|one| one.limit.enters).map(|one| one.ifindex).collect(),
            granting: self.granting,
            known: self.tables.limiters().map(Table::rows).transpose()?.unwrap_or_default(),
            numbers: BTreeMap::new(),
        };
        Ok(raise.limits(problems))
    }

    fn follow(&mut self, want: &Desired, limited: &Limited, problems: &mut Vec<String>) -> Result<Changes> {
        let mut changes = Changes::default();
        let done = self.follow_rows(want, limited, &mut changes, problems);
        if changes.any() {
            self.edge.begin_epoch()?;
        }
        done.map(|()| changes)
    }

    fn follow_rows(
        &mut self,
        want: &Desired,
        limited: &Limited,
        changes: &mut Changes,
        problems: &mut Vec<String>,
    ) -> Result<()> {
        let t = Rc::clone(&self.tables);
        let rules_changed = self.follow_congestion(want, changes)?;
        let mut rows = vec![
            (&t.config, &want.config),
            (&t.bounds, &want.bounds),
            (&t.tenants, &want.tenants),
            (&t.peers, &want.peers),
            (&t.remotes, &want.remotes),
            (&t.ports, &want.ports),
            (&t.routes, &want.routes),
        ];
        rows.extend(t.limiters().map(|limiters| (limiters, &want.limiters)));
        for (key, row) in &want.limiters {
            let share = Limiter::from_bytes(row).map_or(0, |row| row.share);
            if let Some(key) = LimiterKey::from_bytes(key).filter(|_| share != 0) {
                self.edge.note_flows(&key)?;
            }
        }
        let mut have = Vec::with_capacity(rows.len());
        self.prepare_paths(|| t.peers.rows(), &want.peers)?;
        for &(table, want) in &rows {
            let old = table.rows()?;
            if std::ptr::eq(table, &t.ports) {
                self.leave_networks(&old, &limits::moved(&old, want), limited, problems)?;
            }
            if !std::ptr::eq(table, &t.routes) {
                table.upsert(&old, want, changes)?;
            } else if let Err(e) = table.upsert_in_room(&old, want, changes) {
                // Who is in no row is unreachable; all else goes on.
                problems.push(format!(
                    "not all addresses are in force: {e}; there is room for {MAX_ROUTES} addresses and ranges: join ranges"
                ));
            }
            have.push(old);
        }
        if rules_changed {
            self.edge.reclassify()?;
        }
        self.attach(&want.attach, problems);
        self.detach_others(&want.attach, &limited.enters)?;
        for ((table, want), have) in rows.iter().zip(&have).rev() {
            table.remove(have, want, changes)?;
        }
        self.forget_paths(&want.peers)?;
        let limiters = if t.limiters().is_some() { have.last() } else { None };
        let gone = limiters.into_iter().flat_map(|have| have.keys()).filter(|key| !want.limiters.contains_key(*key));
        for key in gone.filter_map(|key| LimiterKey::from_bytes(key)) {
            self.edge.forget_limiter(&key)?;
        }
        Ok(())
    }

    /// Ports that move are in no network until nothing waits any more that was let through before: it would come out in the new one.
    fn leave_networks(
        &self,
        have: &Rows,
        moved: &BTreeSet<u32>,
        limited: &Limited,
        problems: &mut Vec<String>,
    ) -> Result<()> {
        if moved.is_empty() {
            return Ok(());
        }
        let of_moved =
            have.iter().filter(|(key, _)| u32::from_bytes(key).is_some_and(|ifindex| moved.contains(&ifindex)));
        let closed =
            of_moved.filter_map(|(key, row)| Some((key.clone(), Port::from_bytes(row)?.closed().as_bytes().to_vec())));
        self.tables.ports.upsert(have, &closed.collect(), &mut Changes::default())?;
        let had = self.tables.limiters().map(Table::noted).transpose()?.unwrap_or_default();
        let emptied = limits::empty(limited, moved, &had).map_err(|e| e.to_string());
        let forgotten = self.edge.forget_fast(moved).map(drop).map_err(|e| e.to_string());
        for why in [emptied, forgotten].into_iter().filter_map(std::result::Result::err) {
            problems.push(format!("what waited for a port when it moved to another network may arrive: {why}"));
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
            match self.attached.ensure(&self.edge, (ifindex, role), name) {
                Ok(false) => {}
                Ok(true) => info!(interface = name, ifindex, "{} {name} (ifindex {ifindex}): attached", word(role)),
                Err(e) => problems.push(format!("{} {name}: {e}", word(role))),
            }
        }
    }

    /// Also takes away what an earlier agent left, but for what somebody else may have put on guests' own ends meanwhile.
    fn detach_others(&mut self, want: &BTreeSet<(u32, Role)>, enters: &BTreeSet<u32>) -> Result<()> {
        let there: BTreeSet<(u32, Role)> = self.edge.attachments().into_iter().collect();
        // An interface that ended took its program along.
        self.attached.keep(&there);
        let others = |(ifindex, role): &&(u32, Role)| *role == Role::LimitInside && enters.contains(ifindex);
        for &(ifindex, role) in there.difference(want).filter(|at| !others(at)) {
            self.edge.detach(ifindex, role)?;
            let name = self.attached.forget((ifindex, role));
            let shown = name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            info!(interface = name, ifindex, "{} {shown}(ifindex {ifindex}): detached", word(role));
        }
        Ok(())
    }

    pub(super) fn remember(&mut self) -> Result<()> {
        if Remembered::load(&self.config.socket).as_ref() != Some(&self.remembered) {
            self.remembered.save(&self.config.socket)?;
        }
        Ok(())
    }

    fn report(&mut self, problems: Vec<String>, changes: Changes) {
        for problem in problems.iter().filter(|p| !self.problems.contains(p)) {
            warn!("{problem}");
        }
        self.problems = problems;
        if changes.any() {
            let Changes { added, changed, removed } = changes;
            info!(added, changed, removed, "maps: {added} rows added, {changed} changed, {removed} removed");
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
                let _ = self.learned.resume(&self.config, &self.interfaces, holder, addr, now);
            }
        }
        Ok(())
    }

    /// Takes everything out of the kernel that this or an earlier agent put there.
    pub(super) async fn tear_down(self) -> Result<()> {
        let Agent { edge, interfaces, remembered, netlink, config, reordering, fastlane, .. } = self;
        drop((reordering, fastlane)); // what is held goes on
        undo(&netlink, &interfaces, &remembered).await;
        edge.destroy()?;
        Remembered::remove(&config.socket);
        Followed::remove(&config.socket);
        Ok(())
    }
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Guest => "port",
        Role::Uplink => "uplink",
        Role::Nothing => "device without traffic",
        Role::Limiter => "limiter",
        Role::LimitInside | Role::LimitGuest | Role::LimitPort => "limited port",
        Role::FastGuest | Role::FastPort => "followed port",
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
