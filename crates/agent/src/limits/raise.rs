//! Putting limits in place, and taking them away.

use super::super::attached::Attached;
use super::super::interfaces::Interfaces;
use super::super::rows::Rows;
use super::classes::{
    bytes_per_second, class, numbers, renumbered, BOTH, IN_BULK, IN_FIRST, OF_FIRST, PORTS, TENANTS, UNLIMITED,
};
use super::limited::Limited;
use super::place::Place;
use super::portions;
use super::qdiscs::{add_fq, links, loopback_obstacle, occupied, set, set_root, Obstacle, Pair};
use super::spread::spread;
use super::wanted::{wanted, Wanted};
use agent_api::config::{Config, LawKind, Pacing, Rate};
use agent_api::lacking::{LIMIT_LAWS, RATE_LIMITS};
use edge::limiter::Law;
use kernel::htb::{self, Found, Qdisc, HANDLE, TOP};
use kernel::state::limiter::{
    Limiter, LimiterKey, LIMITER_BARE, LIMITER_BOTH, LIMITER_IN, LIMITER_MARKED, LIMITER_NUMBER, LIMITER_OUT, NUMBERS,
};
use kernel::state::{Plain, Port, PORT_INSIDE, PORT_LIMITED, PORT_LIMITER, PORT_SHARED, RETURN};
use kernel::{KernelEdge, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use units::BitRate;

/// Where nothing holds what exceeds a limit.
const DROPPED: &str = "what exceeds them is dropped, as with limits.pacing = \"virtual\"";

/// What holds the segments of one limit.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// A class of a device's HTB, and that of what goes first, if there is one.
    Class { device: u32, class: u32, first: Option<u32> },
    /// Departure times, to which a device's fq keeps; 0: nothing does.
    Times { device: u32 },
}

/// What limits need of the agent while they are put in place.
pub(crate) struct Raise<'a> {
    pub(crate) config: &'a Config,
    pub(crate) interfaces: &'a Interfaces,
    pub(crate) edge: &'a mut KernelEdge,
    pub(crate) attached: &'a mut Attached,
    /// Minor numbers of tenants' classes.
    pub(crate) tenants: &'a mut BTreeMap<String, u32>,
    /// Ports whose limit was asked for by who can enter their guest's namespace.
    pub(crate) enters: BTreeSet<u32>,
    /// Who asks for a limit of this one has not gone there yet.
    pub(crate) granting: Option<u32>,
    /// Rows of the map `limiters`, where there is one.
    pub(crate) known: Rows,
    /// Of ports without a network, or all where their queue is on a device of the host's own, by what limits their sending: segments
    /// come out of their queue with it.
    pub(crate) numbers: BTreeMap<LimiterKey, u32>,
}

impl Raise<'_> {
    /// Puts in place what limits need before anything sends segments there.
    pub(crate) fn limits(mut self, problems: &mut Vec<String>) -> Limited {
        let mut wanted = wanted(self.config, self.interfaces);
        let tenants = portions::give(&self.config.limits, &mut wanted);
        let mut limited = Limited { wanted, tenants, ..Limited::default() };
        if limited.wanted.is_empty() {
            return limited;
        }
        if let Err(e) = self.edge.open_limits(self.config.max_flows) {
            problems.push(format!("{}: {e}; selvedge doctor says what is missing", RATE_LIMITS.without));
            return limited;
        }
        let pacing = self.config.limits.pacing;
        self.find_inside(&mut limited, problems);
        self.number_ports(&limited, |w| w.network.is_none());
        if let Some(why) = self.edge.lawless() {
            if pacing != Pacing::Htb {
                problems.push(format!(
                    "{}: limits.pacing = {:?} is a matter of programs that this kernel refuses; set it to \"htb\": {why}",
                    RATE_LIMITS.without,
                    pacing.name()
                ));
                return limited;
            }
            if limited.wanted.iter().any(|w| w.kind != LawKind::None) {
                problems.push(format!("{}: {why}", LIMIT_LAWS.without));
            }
            limited.wanted.iter_mut().for_each(|w| w.law = Law::None);
        }
        let qdiscs = match htb::qdiscs() {
            Ok(qdiscs) => qdiscs,
            Err(e) => {
                problems.push(format!("{}: cannot list qdiscs: {e}", RATE_LIMITS.without));
                return limited;
            }
        };
        self.refuse_bare(&limited, problems);
        if limited.wanted.iter().any(Wanted::on_pair) {
            let raised = match pacing {
                Pacing::Htb => self.raise_egress(&mut limited, &qdiscs, problems),
                Pacing::Departure | Pacing::Virtual => self.schedule_egress(&mut limited, &qdiscs, problems),
            };
            if let Err(e) = raised {
                problems.push(format!("no egress limit is in force: {e}"));
            }
        }
        for w in &mut limited.wanted.clone() {
            if w.key.direction == LIMITER_OUT || limited.classes.contains_key(&w.key) || !self.can_hold(w) {
                continue;
            }
            w.inside = false; // without a pair of devices its queue is on the port
            let w = &*w;
            match raise_ingress(w, pacing, self.is_split(w), &qdiscs) {
                Ok(held) => {
                    if let Held::Class { device, first: Some(_), .. } = held {
                        limited.kept.insert((device, TOP));
                    }
                    self.note_limit(&mut limited, w, held);
                }
                Err(why) => problems.push(format!("port {}: no ingress limit is in force: {why}", w.interface)),
            }
        }
        limited
    }

    /// Which guests' own ends have a program: who asks for a limit puts it there, and nobody else can.
    fn find_inside(&mut self, limited: &mut Limited, problems: &mut Vec<String>) {
        if self.edge.lawless().is_some() || !self.edge.can_turn() {
            return;
        }
        for w in
            limited.wanted.iter().filter(|w| self.enters.contains(&w.key.ifindex) && w.network.is_none() && !w.bare)
        {
            let at = (w.key.ifindex, Role::LimitInside);
            if !limited.enters.insert(at.0) {
                continue;
            }
            // Before that one: what turns back without it would be lost.
            limited.attach.insert((at.0, Role::LimitGuest));
            if self.edge.is_attached(at.0, at.1) {
                self.attached.note(at, &w.interface);
                limited.attach.insert(at);
                limited.turns.insert(at.0);
            } else if self.granting != Some(at.0) {
                problems.push(format!(
                    "port {}: nothing on the guest's own end sends back what its network puts straight into it, past its limits; remove and add the \
                     container, or its network",
                    w.interface
                ));
            }
        }
        let htb = self.config.limits.pacing == Pacing::Htb;
        limited.wanted.iter_mut().for_each(|w| w.inside = htb && limited.turns.contains(&w.key.ifindex));
    }

    /// Only IP has departure times, and the programs that give them look for it behind an Ethernet header.
    fn can_hold(&self, w: &Wanted) -> bool {
        !w.bare || self.config.limits.pacing == Pacing::Htb
    }

    /// Says what ports without Ethernet headers do not have.
    fn refuse_bare(&self, limited: &Limited, problems: &mut Vec<String>) {
        let bare: BTreeSet<&str> = limited.wanted.iter().filter(|w| w.bare).map(|w| w.interface.as_str()).collect();
        problems.extend(bare.iter().map(|name| match self.config.limits.pacing {
            Pacing::Htb => format!("port {name}: its limit is plain HTB, whose queue nothing keeps short: its packets have no Ethernet header"),
            pacing => format!(
                "port {name}: no limit is in force: its packets have no Ethernet header, and limits.pacing = {:?} needs one; set it to \"htb\"",
                pacing.name()
            ),
        }));
    }

    fn note_limit(&self, limited: &mut Limited, w: &Wanted, held: Held) {
        let lawless = self.edge.lawless().is_some();
        let (device, class, first) = match held {
            Held::Class { device, class, first } => (device, class, first),
            Held::Times { device } => (device, 0, None),
        };
        let mut row = w.row(device, class, self.config.flow_idle_ns);
        let scheduled = matches!(held, Held::Times { .. });
        if scheduled {
            row = w.scheduled(row);
        }
        if w.bare && w.key.direction == LIMITER_OUT {
            row.flags |= LIMITER_BARE;
        }
        if self.is_split(w) {
            row.share = bytes_per_second(w.rate.guarantee);
            row.first = first.unwrap_or(0);
        }
        if limited.wanted.iter().any(|other| other.key.ifindex == w.key.ifindex && other.key != w.key) {
            row.flags |= LIMITER_BOTH;
        }
        limited.classes.insert(w.key, (device, class));
        if let Some(number) = self.numbers.get(&w.key).filter(|_| device != 0) {
            row.flags |= number << LIMITER_NUMBER;
            let flags = match (w.network, w.key.direction) {
                (Some(_), _) => PORT_LIMITED,
                (None, LIMITER_IN) => PORT_INSIDE,
                (None, _) => 0,
            };
            row.flags |= if w.network.is_some() { LIMITER_MARKED } else { 0 };
            let port = Port { vni: w.key.ifindex, flags, ..Port::default() };
            limited.ports.insert((RETURN | number).as_bytes().to_vec(), port.as_bytes().to_vec());
        }
        limited.rows.insert(w.key.as_bytes().to_vec(), row.as_bytes().to_vec());
        if device != 0 {
            limited.kept.insert((device, class));
            limited.kept.extend(first.map(|first| (device, first)));
        }
        let law = !lawless && (w.law != Law::None || self.is_split(w));
        if w.key.direction == LIMITER_OUT || law {
            limited.attach.insert((w.key.ifindex, Role::LimitGuest));
        }
        if limited.turns.contains(&w.key.ifindex) {
            // All that the guest gets comes to that program.
        } else if law || (w.key.direction == LIMITER_IN && (scheduled || !lawless)) {
            // Without a law too: it takes off what would lead past the queue.
            limited.attach.insert((w.key.ifindex, Role::LimitPort));
        }
        if law || w.key.direction == LIMITER_IN {
            limited.whole_way.insert(w.key.ifindex);
        }
    }

    /// A pair of devices with our programs on it. Returns the number of the first.
    fn take_pair(&mut self, limited: &mut Limited, pair: Pair) -> Result<u32, Box<dyn std::error::Error>> {
        let ([first, second], hosts) = ([pair.first(), pair.second()], pair == Pair::LOOPBACK);
        if !hosts {
            htb::add_pair(&first, &second)?;
            limited.pairs.insert(pair);
        }
        let [device, out] = [kernel::ifindex(&first)?, kernel::ifindex(&second)?];
        let nothing = (!hosts).then_some(((device, Role::Nothing), &first));
        for (at, name) in nothing.into_iter().chain([((out, Role::Limiter), &second)]) {
            self.attached.ensure(self.edge, at, name)?;
            limited.attach.insert(at);
        }
        let flags = if hosts { PORT_LIMITER | PORT_SHARED } else { PORT_LIMITER };
        let port = Port { flags, ..Port::default() };
        limited.ports.insert(out.as_bytes().to_vec(), port.as_bytes().to_vec());
        Ok(device)
    }

    /// The same with a root qdisc on its first.
    fn raise_pair(
        &mut self,
        limited: &mut Limited,
        pair: Pair,
        qdiscs: &[Qdisc],
        kind: &str,
        add: impl FnOnce(u32) -> io::Result<()>,
    ) -> Result<u32, Box<dyn std::error::Error>> {
        let device = self.take_pair(limited, pair)?;
        set_root(device, qdiscs, kind, add)?;
        htb::set_up(&pair.first())?;
        htb::set_up(&pair.second())?;
        Ok(device)
    }

    /// Pairs that nobody else has taken, the first of them, and what is in the way of the others.
    fn free_pairs(&self, qdiscs: &[Qdisc]) -> io::Result<(Vec<Pair>, Vec<Obstacle>)> {
        let (links, most) = (links()?, self.config.limits.most_pairs() as usize);
        let (mut free, mut obstacles) = (Vec::new(), Vec::new());
        for pair in Pair::all() {
            match pair.obstacle(&links, qdiscs) {
                None => free.push(pair),
                Some(obstacle) => obstacles.push(obstacle),
            }
        }
        free.truncate(most);
        Ok((free, obstacles))
    }

    /// A schedule for each port; an fq on the first of the pair of devices keeps to them, if anything is to.
    fn schedule_egress(
        &mut self,
        limited: &mut Limited,
        qdiscs: &[Qdisc],
        problems: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let device = match self.config.limits.pacing {
            Pacing::Departure => match self.free_pairs(qdiscs)? {
                (free, _) if !free.is_empty() => self.raise_pair(limited, free[0], qdiscs, "fq", add_fq)?,
                (_, obstacles) => {
                    let device = self.borrow_fq(limited, &obstacles)?;
                    let why = obstacles.first().filter(|_| device == 0);
                    problems
                        .extend(why.map(|obstacle| format!("egress limits have no fq: {}; {DROPPED}", obstacle.why)));
                    device
                }
            },
            Pacing::Htb | Pacing::Virtual => 0,
        };
        self.schedule_ports(limited, device);
        Ok(())
    }

    fn schedule_ports(&self, limited: &mut Limited, device: u32) {
        for w in limited.wanted.clone().iter().filter(|w| w.key.direction == LIMITER_OUT && !w.bare) {
            self.note_limit(limited, w, Held::Times { device });
        }
    }

    /// A pair on which somebody has put an fq. 0 if there is none.
    fn borrow_fq(&mut self, limited: &mut Limited, obstacles: &[Obstacle]) -> Result<u32, Box<dyn std::error::Error>> {
        let Some(pair) = obstacles.iter().find_map(|obstacle| obstacle.fq) else { return Ok(0) };
        let device = self.take_pair(limited, pair)?;
        htb::set_up(&pair.first())?;
        htb::set_up(&pair.second())?;
        Ok(device)
    }

    /// Pairs of devices, and a class for each port on one of them; where none can be had, what holds without.
    fn raise_egress(
        &mut self,
        limited: &mut Limited,
        qdiscs: &[Qdisc],
        problems: &mut Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let (free, obstacles) = self.free_pairs(qdiscs)?;
        let why = if free.is_empty() {
            obstacles.first().map_or_else(String::new, |obstacle| obstacle.why.clone())
        } else {
            match self.try_classes(limited, &free, qdiscs) {
                Ok(()) => return Ok(()),
                Err(e) => e.to_string(),
            }
        };
        // Without its programs nobody gives departure times.
        let lawless = self.edge.lawless().is_some();
        let device = if lawless { 0 } else { self.borrow_fq(limited, &obstacles)? };
        if device != 0 {
            problems.push(format!(
                "egress limits have no queue of HTB: {why}; departure times hold them, as with limits.pacing = \"departure\""
            ));
        } else {
            let whys = match self.raise_on_loopback(limited, qdiscs) {
                Ok(()) => {
                    problems.push(format!(
                        "egress limits have no devices of their own: {why}; an HTB on {} holds them, past which all local traffic of \
                         this host goes",
                        Pair::LOOPBACK.first()
                    ));
                    return Ok(());
                }
                Err(other) => format!("{why}; {other}"),
            };
            if lawless {
                return Err(whys.into());
            }
            problems.push(format!("egress limits have no queue of HTB: {whys}; {DROPPED}"));
        }
        self.schedule_ports(limited, device);
        let shares = limited.wanted.iter().any(|w| w.tenant.is_some() || w.rate.ceiling > w.rate.guarantee);
        if shares || self.config.limits.total.is_some() {
            problems.push(
                "nothing is shared without HTB: ports have their ceilings, and tenants and limits.total no effect"
                    .into(),
            );
        }
        Ok(())
    }

    /// The last place for a queue: all else that is sent to that device goes past the classes, but through the qdisc.
    fn raise_on_loopback(&mut self, limited: &mut Limited, qdiscs: &[Qdisc]) -> Result<(), Box<dyn std::error::Error>> {
        if let Some(why) = loopback_obstacle(self.interfaces, qdiscs) {
            return Err(why.into());
        }
        let without = std::mem::take(&mut self.numbers);
        self.number_ports(limited, |_| true);
        let raised = self.try_classes(limited, &[Pair::LOOPBACK], qdiscs);
        if raised.is_err() {
            self.numbers = without;
        }
        raised
    }

    /// Numbers that stay, for what limits the sending of these ports.
    fn number_ports(&mut self, limited: &Limited, which: impl Fn(&Wanted) -> bool) {
        let ports = limited.wanted.iter().filter(|w| w.on_pair() && which(w));
        let keys: Vec<LimiterKey> = ports.map(|w| w.key).collect();
        self.numbers = numbers(NUMBERS, &self.known_rows(|row| row.flags >> LIMITER_NUMBER), &keys);
    }

    /// As [`Raise::raise_classes`], or nothing of it.
    fn try_classes(
        &mut self,
        limited: &mut Limited,
        free: &[Pair],
        qdiscs: &[Qdisc],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let before = limited.clone();
        let raised = self.raise_classes(limited, free, qdiscs);
        if raised.is_err() {
            *limited = before;
        }
        raised
    }

    fn raise_classes(
        &mut self,
        limited: &mut Limited,
        free: &[Pair],
        qdiscs: &[Qdisc],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let ports: Vec<Wanted> = limited.wanted.iter().filter(|w| w.on_pair()).cloned().collect();
        let keys: Vec<LimiterKey> = ports.iter().map(|w| w.key).collect();
        let there: BTreeMap<u32, u32> = free.iter().zip(0..).filter_map(|(p, n)| Some((p.ifindex()?, n))).collect();
        let devices = self.known_rows(|row| row.device);
        let known = devices.iter().filter_map(|(key, device)| Some((*key, *there.get(device)?))).collect();
        let pairs = spread(&ports, &known, free.len() as u32);
        let tenants = self.number_tenants();
        let parent_of = |w: &Wanted| {
            // What guests get is no part of what all send.
            let all = if w.key.direction == LIMITER_IN { HANDLE } else { TOP };
            w.tenant.as_ref().and_then(|tenant| tenants.get(tenant)).map_or(all, |minor| HANDLE | minor)
        };
        let mut have: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
        for device in there.keys() {
            have.insert(*device, htb::classes(*device)?);
        }
        let known = self.known_rows(|row| row.class & 0xffff);
        let moves = |w: &&Wanted| {
            let device = devices.get(&w.key).filter(|device| there.get(device) == pairs.get(&w.key));
            let found =
                device.zip(known.get(&w.key)).and_then(|(device, minor)| Some((have.get(device)?, device, *minor)));
            found.is_some_and(|(have, device, minor)| {
                let place = Place { device: *device, have, qdiscs };
                place.moves(minor, parent_of(w), self.is_split(w)) || place.owes(HANDLE | minor, w)
            })
        };
        let moved: BTreeSet<LimiterKey> = ports.iter().filter(moves).map(|w| w.key).collect();
        let minors = renumbered(PORTS, &known, &keys, &moved);
        // None is left out: the first is there wherever there are any.
        let last = pairs.values().copied().max().unwrap_or(0);
        for (pair, n) in free.iter().copied().zip(0..=last) {
            let here: Vec<&Wanted> = ports.iter().filter(|w| pairs.get(&w.key) == Some(&n)).collect();
            let device = self.raise_pair(limited, pair, qdiscs, "htb", |device| htb::add_root(device, 0))?;
            let have = have.remove(&device).unwrap_or_default();
            let total = Rate::fixed(self.config.limits.total.unwrap_or(UNLIMITED));
            set(device, &have, &class(TOP, HANDLE, total, total.guarantee))?;
            limited.kept.insert((device, TOP));
            self.raise_tenants(limited, device, &have, &tenants, &here)?;
            let place = Place { device, have: &have, qdiscs };
            for w in here {
                let Some(minor) = minors.get(&w.key) else { continue };
                let siblings = ports.iter().filter(|other| other.tenant == w.tenant);
                let least = siblings.map(|other| other.rate.guarantee).min().unwrap_or(w.rate.guarantee);
                self.raise_port(limited, w, &place, *minor, parent_of(w), least)?;
            }
        }
        Ok(())
    }

    fn raise_port(
        &self,
        limited: &mut Limited,
        w: &Wanted,
        place: &Place,
        minor: u32,
        parent: u32,
        least: BitRate,
    ) -> io::Result<()> {
        let device = place.device;
        let class = HANDLE | minor;
        if !self.is_split(w) {
            place.leaf(w, &w.class(class, parent, least), class)?;
            self.note_limit(limited, w, Held::Class { device, class, first: None });
            return Ok(());
        }
        let both = w.class(HANDLE | (minor + BOTH), parent, least);
        let first = HANDLE | (minor + OF_FIRST);
        place.split(w, &both, [class, first], class)?;
        limited.kept.insert((device, both.id));
        self.note_limit(limited, w, Held::Class { device, class, first: Some(first) });
        Ok(())
    }

    /// Without its programs nobody chooses.
    fn some_go_first(&self) -> bool {
        self.config.limits.sparse_first && self.edge.lawless().is_none()
    }

    /// Into what goes first and the bulk.
    fn is_split(&self, w: &Wanted) -> bool {
        self.some_go_first() && !w.bare
    }

    /// Minor numbers of tenants' classes, by name.
    fn number_tenants(&mut self) -> BTreeMap<String, u32> {
        let names: Vec<String> = self.config.limits.tenants.iter().map(|tenant| tenant.name.clone()).collect();
        let minors = numbers(TENANTS, self.tenants, &names);
        self.tenants.clone_from(&minors);
        minors
    }

    /// Classes of those tenants whose ports are `here`.
    fn raise_tenants(
        &self,
        limited: &mut Limited,
        device: u32,
        have: &[Found],
        minors: &BTreeMap<String, u32>,
        here: &[&Wanted],
    ) -> io::Result<()> {
        let tenants = limited.tenants.clone();
        let least = tenants.iter().map(|tenant| tenant.egress.guarantee).min();
        for tenant in tenants.iter().filter(|tenant| here.iter().any(|w| w.tenant.as_ref() == Some(&tenant.name))) {
            let Some(minor) = minors.get(&tenant.name) else { continue };
            let class = class(HANDLE | minor, TOP, tenant.egress, least.unwrap_or(tenant.egress.guarantee));
            set(device, have, &class)?;
            limited.kept.insert((device, class.id));
        }
        Ok(())
    }

    /// A value of what ports have already.
    fn known_rows(&self, value: impl Fn(&Limiter) -> u32) -> BTreeMap<LimiterKey, u32> {
        let read = self.known.iter().filter_map(|(k, v)| Some((LimiterKey::from_bytes(k)?, Limiter::from_bytes(v)?)));
        read.map(|(key, limiter)| (key, value(&limiter))).collect()
    }
}

/// What holds what goes to a port: an HTB for all of it, or an fq.
fn raise_ingress(w: &Wanted, pacing: Pacing, some_go_first: bool, qdiscs: &[Qdisc]) -> Result<Held, String> {
    let device = w.key.ifindex;
    let failed = |e: io::Error| e.to_string();
    if pacing == Pacing::Virtual {
        return Ok(Held::Times { device: 0 });
    }
    if let Some(other) = qdiscs.iter().find(|q| q.ifindex == device && q.is_anothers()) {
        return Err(occupied(&w.interface, other));
    }
    if pacing == Pacing::Departure {
        set_root(device, qdiscs, "fq", add_fq).map_err(failed)?;
        return Ok(Held::Times { device });
    }
    let default = if some_go_first { IN_BULK } else { TOP };
    let ours = qdiscs.iter().any(|q| q.ifindex == device && q.is_ours() && q.kind == "htb");
    let have = if ours { htb::classes(device).map_err(failed)? } else { Vec::new() };
    let went_first = have.iter().any(|found| found.class.id == IN_BULK);
    let was = if went_first { IN_BULK } else { TOP };
    let owes = Place { device, have: &have, qdiscs }.owes(TOP, w);
    // Where all else goes the kernel does not change.
    if ours && (went_first != some_go_first || owes) {
        htb::remove_root(device).map_err(failed)?;
        htb::add_root(device, default & 0xffff).map_err(failed)?;
    } else {
        set_root(device, qdiscs, "htb", |device| htb::add_root(device, default & 0xffff)).map_err(failed)?;
    }
    let have = htb::classes(device).map_err(failed)?;
    let place = Place { device, have: &have, qdiscs };
    let all = w.class(TOP, HANDLE, w.rate.guarantee);
    if some_go_first {
        place.split(w, &all, [IN_BULK, IN_FIRST], was).map_err(failed)?;
        return Ok(Held::Class { device, class: IN_BULK, first: Some(IN_FIRST) });
    }
    place.leaf(w, &all, was).map_err(failed)?;
    Ok(Held::Class { device, class: TOP, first: None })
}
