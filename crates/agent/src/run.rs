//! The agent's loop.

use super::desired::{self, Resolved};
use super::error::{Error, Result};
use super::follow::{Followed, Follower, News};
use super::interfaces::Netlink;
use super::learned::Learned;
use super::limits::Limited;
use super::lock::{self, Lock};
use super::log::{Limit, Log};
use super::metrics::MetricsServer;
use super::originate::{Sent, TICK};
use super::reconcile::{self, look_around, Agent};
use super::remembered::Remembered;
use super::server::{self, Asked, Server};
use super::tables::Tables;
use agent_api::config::Config;
use agent_api::operator;
use agent_api::protocol::{Command, Outcome};
use kernel::emit::Uplink;
use kernel::state::{
    address, Event, EVENT_EMIT, EVENT_FORGED, EVENT_GUEST, EVENT_LENGTHS, EVENT_MAC, EVENT_TABLE_FULL, EVENT_TIMER,
    EVENT_TUNNEL, EVENT_UNKNOWN_PEER, EVENT_UNKNOWN_VERSION, QUOTA_NETWORK, QUOTA_OUTSIDE, QUOTA_PORT,
};
use kernel::{monotonic_ns, Adopted, Edge, Options, Sweep, Swept};
use sd_notify::NotifyState;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::sync::mpsc;

/// Reads the configuration, anew each time.
pub type Load<'a> = dyn FnMut() -> std::result::Result<Config, String> + 'a;

/// What the agent counts itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) reloads: u64,
    pub(super) reload_failures: u64,
    /// Empty if the last reload was taken.
    pub(super) reload_error: String,
    pub(super) refused: u64,
    pub(super) expired: u64,
    pub(super) sent: Sent,
    /// Ticks that found no room for events.
    pub(super) full_ticks: u64,
}

/// Runs the agent until SIGTERM or SIGINT, after which the edge stays in the kernel, or until it is asked to stop, after
/// which nothing of it is left. SIGHUP calls `load` again.
///
/// # Errors
/// Before it is ready: whatever is wrong with configuration or host, with nothing changed. Later: netlink's end.
pub fn run(load: &mut Load<'_>) -> Result<()> {
    let config = load().map_err(Error::Config)?;
    runtime()?.block_on(async {
        let mut runner = Runner::start(config).await?;
        let stop = runner.serve(load).await;
        runner.end(stop).await
    })
}

/// What the configuration's names mean on this host now, for people: one line each.
///
/// # Errors
/// [`Error::Unresolved`].
pub fn resolve(config: &Config) -> Result<Vec<String>> {
    runtime()?.block_on(async {
        let mut netlink = Netlink::new(false)?;
        let (interfaces, routes) = look_around(config, &mut netlink).await?;
        reconcile::check(config, &interfaces, &routes)
    })
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| Error::System("start", e))
}

struct Runner {
    agent: Agent,
    tally: Tally,
    signals: Signals,
    server: Server,
    metrics: Option<MetricsServer>,
    commands: mpsc::Receiver<Asked<Command, Outcome>>,
    scrapes: mpsc::Receiver<Asked<(), String>>,
    scrape: mpsc::Sender<Asked<(), String>>,
    events: AsyncFd<OwnedFd>,
    limits: BTreeMap<u32, Limit>,
    refusals: Limit,
    forgotten: Limit,
    last_sweep: Instant,
    next_sweep: Instant,
    /// Something changed that the kernel's tables do not show yet.
    unsettled: bool,
    /// Something of the host changed, perhaps of no consequence.
    noticed: bool,
    /// Ports whose guests speak under other MAC addresses, and when these may be looked up.
    strangers: BTreeSet<u32>,
    next_lookup: Instant,
    /// When the tables may be brought up to date again.
    rested: Instant,
    /// When everything is looked at although nothing changed.
    next_look: Instant,
    /// Under way, with the time that it has taken.
    sweep: Option<(Sweep, Duration)>,
    /// Of the timers of congestion control.
    next_tick: Instant,
    /// When holders of learned addresses were asked last.
    last_ask: Instant,
    /// Opened when the first report is to be sent.
    uplink: Option<Uplink>,
    follower: Option<Follower>,
    _lock: Lock,
}

/// Between two sweeps for want of room: each looks at every flow.
const SWEEP_WHEN_FULL: Duration = Duration::from_secs(1);
/// Between two sweeps at most: what was never answered is to go soon.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// What can be put off takes this part of a CPU's time at most.
const SHARE: u32 = 25;
/// Longest pause between two looks at the host while things change.
const MAX_REST: Duration = Duration::from_secs(10);
/// Flows of one step of a sweep: it takes about a millisecond.
const SWEEP_STEP: u32 = 2048;

struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

/// Why the loop ended.
enum End {
    Signal,
    /// Somebody waits for the answer.
    Stop(tokio::sync::oneshot::Sender<Outcome>),
}

impl Runner {
    /// Everything that can be refused is looked at before anything is changed.
    async fn start(config: Config) -> Result<Runner> {
        let (pins, socket) = (config.pins.clone(), config.socket.clone());
        let noted = Remembered::load(&socket).is_some();
        let started = Runner::start_with(config).await;
        if started.is_err() {
            // Nothing came of it: an empty directory goes again, unless another agent is about to use it.
            if let Ok(Some(_lock)) = lock::acquire_existing(&pins) {
                if std::fs::remove_dir(&pins).is_ok() && !noted {
                    Remembered::remove(&socket);
                }
            }
        }
        started
    }

    async fn start_with(mut config: Config) -> Result<Runner> {
        let log = Log::new();
        may_run()?;
        let listen = |kind| signal(kind).map_err(|e| Error::System("listen for signals", e));
        let signals = Signals {
            term: listen(SignalKind::terminate())?,
            int: listen(SignalKind::interrupt())?,
            hup: listen(SignalKind::hangup())?,
        };
        kernel::bpf::available().map_err(kernel::Error::from)?;
        let followed = Followed::load(&config.socket);
        followed.fill(&mut config);
        let follower = follow(&config)?;
        let mut netlink = Netlink::new(config.uplinks.len() > 1)?;
        let (interfaces, routes) = look_around(&config, &mut netlink).await?;
        let resolved: Resolved = desired::resolve(&config, &interfaces, &routes).map_err(Error::Unresolved)?;
        check_operator(&config, &log)?;
        let lock = lock::acquire(&config.pins)?;
        let remembered = recall(&config)?;
        let (ask, commands) = mpsc::channel(16);
        let (scrape, scrapes) = mpsc::channel(16);
        server::prepare(&config.socket).await?;
        remembered.save(&config.socket)?;
        let metrics = match config.metrics {
            Some(at) => Some(MetricsServer::start(at, scrape.clone()).await?),
            None => None,
        };
        let edge = open_edge(&config, &log)?;
        let tables = Tables::open(edge.maps())?;
        let events = tables.events.as_fd().try_clone_to_owned().and_then(|fd| {
            // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped.
            Ok(unsafe { AsyncFd::register(fd) }?)
        });
        let events = events.map_err(|e| Error::System("watch events", e))?;
        let found = match edge.adopted() {
            Adopted::New => "new",
            Adopted::Existing => "adopted",
        };
        log.info(format!("{} {found}: state version {}", config.pins.display(), kernel::state_version()));
        let mut agent = Agent {
            config,
            log,
            netlink,
            edge,
            tables: Rc::new(tables),
            interfaces,
            resolved,
            learned: Learned::default(),
            attached: BTreeMap::new(),
            remembered,
            gro: false,
            problems: Vec::new(),
            swept: Swept::default(),
            limited: Limited::default(),
            receiver: None,
            followed,
            controller_lost: None,
            settled: None,
        };
        agent.adopt_learned()?;
        let changes = agent.apply().await?;
        // An agent that was killed may have changed tables without saying so.
        agent.edge.begin_epoch()?;
        if !changes.any() {
            agent.log.info("maps: nothing to change");
        }
        agent.edge.remove_other_versions()?;
        let server = Server::start(&agent.config.socket, ask)?; // last: who is answered finds an edge that works
        let mtu = agent.resolved.guest_mtu;
        agent.log.info(format!(
            "ready; guests' own ends of their interfaces should have an MTU of {mtu} bytes, which an agent cannot set"
        ));
        Ok(Runner {
            agent,
            tally: Tally::default(),
            signals,
            server,
            metrics,
            commands,
            scrapes,
            scrape,
            events,
            limits: BTreeMap::new(),
            refusals: Limit::new(),
            forgotten: Limit::new(),
            last_sweep: now(),
            next_sweep: now(),
            unsettled: false,
            noticed: false,
            strangers: BTreeSet::new(),
            next_lookup: now(),
            rested: now(),
            next_look: now(),
            sweep: None,
            next_tick: now(),
            last_ask: now(),
            uplink: None,
            follower,
            _lock: lock,
        })
    }

    async fn serve(&mut self, load: &mut Load<'_>) -> Result<End> {
        let watchdog = sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |limit| limit / 2);
        let mut watchdog = tokio::time::interval(watchdog.max(Duration::from_millis(100)));
        notify(&[NotifyState::Ready]);
        loop {
            tokio::select! {
                _ = self.signals.term.recv() => return Ok(End::Signal),
                _ = self.signals.int.recv() => return Ok(End::Signal),
                _ = self.signals.hup.recv() => { let _ = self.reload(load).await; } // logged
                changed = self.agent.netlink.changed() => { changed?; self.noticed = true; }
                _ = tokio::time::sleep_until(self.rested.into()), if self.unsettled || self.noticed => self.apply().await,
                _ = tokio::time::sleep_until(self.next_lookup.into()), if !self.strangers.is_empty() => self.look_up().await,
                _ = readable(&self.events) => self.take_events().await,
                Some((command, place)) = self.commands.recv() => match command {
                    Command::Stop => return Ok(End::Stop(place)),
                    Command::Reload => {
                        let outcome = match self.reload(load).await {
                            Ok(()) => Outcome::Ok(serde_json::json!("reloaded")),
                            Err(why) => Outcome::Error(why),
                        };
                        let _ = place.send(outcome); // who asked may be gone
                    }
                    question => { let _ = place.send(self.agent.tell(question, &self.tally)); }
                },
                Some(((), place)) = self.scrapes.recv() => { let _ = place.send(self.agent.metrics(&self.tally)); }
                _ = tokio::time::sleep_until(self.next_sweep.into()) => self.sweep().await,
                _ = until(self.agent.learned.due(), self.last_ask) => self.ask_holders().await,
                _ = tokio::time::sleep_until(self.next_tick.into()), if self.agent.config.congestion.is_some() => self.tick().await,
                Some(news) = next_news(&mut self.follower) => self.hear(news).await,
                _ = watchdog.tick() => notify(&[NotifyState::Watchdog]),
            }
        }
    }

    async fn end(self, end: Result<End>) -> Result<()> {
        notify(&[NotifyState::Stopping]);
        let Runner { agent, server, .. } = self;
        match end? {
            End::Signal => {
                agent.log.info("ending; the edge stays in the kernel, `selvedge agent stop` removes it");
                server.finish().await;
                Ok(())
            }
            End::Stop(place) => {
                agent.log.info("stopping: taking the edge out of the kernel");
                let done = agent.tear_down().await;
                let _ = place.send(match &done {
                    Ok(()) => Outcome::Ok(serde_json::json!("stopped")),
                    Err(e) => Outcome::Error(e.to_string()),
                });
                server.finish().await;
                done
            }
        }
    }

    /// Looks at the host: at once, unless that has taken its share of the time already.
    fn look_soon(&mut self) {
        self.unsettled = true;
    }

    async fn apply(&mut self) {
        let before = cpu_time();
        let all = std::mem::take(&mut self.unsettled);
        self.noticed = false;
        let done = if all { self.agent.apply().await.map(drop) } else { self.agent.glance().await };
        if let Err(e) = done {
            self.agent.log.error(e.to_string()); // and again at the next sweep
        }
        self.rested = now() + (SHARE * cpu_time().saturating_sub(before)).min(MAX_REST);
    }

    /// Whose MAC address may be another now. All at once, so that no guest keeps others waiting.
    async fn look_up(&mut self) {
        let before = cpu_time();
        let ports = std::mem::take(&mut self.strangers);
        if let Err(e) = self.agent.look_up(ports).await {
            self.agent.log.error(e.to_string());
            self.look_soon();
        }
        self.next_lookup = now() + (SHARE * cpu_time().saturating_sub(before)).min(MAX_REST);
    }

    /// Takes a new configuration as a whole, or keeps the old one.
    async fn reload(&mut self, load: &mut Load<'_>) -> std::result::Result<(), String> {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now());
        notify(&states);
        let done = match load() {
            Ok(config) => self.replace(config).await.map_err(|e| e.to_string()),
            Err(why) => Err(why),
        };
        notify(&[NotifyState::Ready]);
        match &done {
            Ok(()) => {
                self.agent.log.info("configuration reloaded");
                self.tally.reloads += 1;
                self.tally.reload_error.clear();
            }
            Err(why) => {
                let mut faults = why.lines();
                let first = faults.next().unwrap_or_default();
                self.agent.log.error(format!("the old configuration stays in force: {first}"));
                faults.for_each(|fault| self.agent.log.error(fault));
                self.tally.reload_failures += 1;
                self.tally.reload_error.clone_from(why);
            }
        }
        done
    }

    async fn replace(&mut self, mut config: Config) -> Result<()> {
        let old = &self.agent.config;
        for (key, same) in [
            ("agent.pins", config.pins == old.pins),
            ("agent.socket", config.socket == old.socket),
            ("agent.max_flows", config.max_flows == old.max_flows),
            ("agent.place", config.place == old.place),
        ] {
            if !same {
                return Err(Error::Config(format!(
                    "{key} cannot change while the agent runs; stop it and start it anew"
                )));
            }
        }
        self.agent.followed.fill(&mut config);
        // Certificates may have been renewed: whoever follows begins anew.
        let follower = follow(&config)?;
        self.agent.netlink.forget();
        let (interfaces, routes) = look_around(&config, &mut self.agent.netlink).await?;
        desired::resolve(&config, &interfaces, &routes).map_err(Error::Unresolved)?;
        check_operator(&config, &self.agent.log)?;
        if config.metrics != self.metrics.as_ref().map(|server| server.address) {
            self.metrics = match config.metrics {
                Some(at) => Some(MetricsServer::start(at, self.scrape.clone()).await?),
                None => None,
            };
        }
        if (config.uplinks.len() > 1) != (old.uplinks.len() > 1) {
            self.agent.netlink = Netlink::new(config.uplinks.len() > 1)?;
        }
        self.follower = follower;
        self.agent.controller_lost = None;
        self.agent.config = config;
        // Guests whose window is wider now, and who have nothing outstanding, are found by sweeps.
        (self.sweep, self.next_sweep) = (None, now());
        self.agent.apply().await.map(drop)
    }

    /// From the controller.
    async fn hear(&mut self, news: News) {
        let agent = &mut self.agent;
        match news {
            News::Lost(why) => {
                let why = format!("controller: {why}; the last schedules stay in force");
                agent.log.warning(&why);
                agent.controller_lost = Some(why);
            }
            News::Found(url) => {
                agent.log.info(format!("controller {url} answers again"));
                agent.controller_lost = None;
            }
            News::Schedules(url, schedules) => {
                agent.controller_lost = None;
                let followed = Followed::new(schedules, &agent.config.peers);
                if followed == agent.followed {
                    return;
                }
                agent.followed = followed;
                let (revision, n) = (agent.followed.revision, agent.followed.len());
                agent.log.info(format!("controller {url}: schedules of revision {revision} for {n} peers"));
                if let Err(e) = agent.followed.save(&agent.config.socket) {
                    agent.log.error(e.to_string()); // a new agent asks again
                }
                agent.followed.fill(&mut agent.config);
                self.look_soon();
            }
        }
    }

    /// Forgets idle flows, a step at a time, so that it takes no more than its share of the time. At the end, looks whether
    /// everything is still as it should be: netlink can lose messages.
    async fn sweep(&mut self) {
        let before = cpu_time();
        let (mut sweep, mut took) = self.sweep.take().unwrap_or_else(|| {
            self.last_sweep = now();
            Default::default()
        });
        let congestion = self.agent.config.congestion.as_ref();
        let done = self.agent.edge.sweep_on(&mut sweep, monotonic_ns(), SWEEP_STEP, congestion);
        let (end, step) = (now(), cpu_time().saturating_sub(before));
        took += step;
        match done {
            Ok(None) => {
                self.sweep = Some((sweep, took));
                self.next_sweep = end + SHARE * step;
                return;
            }
            Ok(Some(swept)) => {
                self.tally.expired += swept.expired as u64;
                self.agent.swept = swept;
            }
            Err(e) => self.agent.log.error(e.to_string()),
        }
        let idle = Duration::from_nanos(self.agent.config.flow_idle_ns);
        let pause = (idle / 8).clamp(Duration::from_secs(1), MAX_PAUSE).max(SHARE * took);
        self.next_sweep = end + pause;
        if end >= self.next_look {
            self.agent.netlink.forget(); // guests' own ends change without a word
            self.look_soon();
            self.next_look = end + (idle / 8).clamp(Duration::from_secs(1), Duration::from_secs(30));
        }
    }

    /// Looks for connections whose guests are to hear something. Takes at most its share of the time.
    async fn tick(&mut self) {
        let (start, before) = (now(), cpu_time());
        let ticked = self.agent.edge.tick();
        let pause = SHARE * cpu_time().saturating_sub(before);
        self.next_tick = start + TICK.max(pause);
        match ticked {
            Ok(ticked) if ticked.full => {
                // What was not looked at is still due.
                self.tally.full_ticks += 1;
                self.take_events().await;
                self.next_tick = start + pause;
            }
            Ok(_) => {}
            Err(e) => self.agent.log.error(e.to_string()),
        }
    }

    async fn take_events(&mut self) {
        let events = match self.agent.edge.poll_events(Duration::ZERO) {
            Ok(events) => events,
            Err(e) => return self.agent.log.error(e.to_string()),
        };
        let mut learned = BTreeSet::new();
        if events.iter().any(|event| event.kind == EVENT_TABLE_FULL) {
            let took = self.sweep.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
            let soon = self.last_sweep + SWEEP_WHEN_FULL + SHARE * took;
            self.next_sweep = self.next_sweep.min(soon);
        }
        let mut interfaces = BTreeMap::new();
        for event in &events {
            match event.kind {
                EVENT_TABLE_FULL
                | EVENT_UNKNOWN_PEER
                | EVENT_UNKNOWN_VERSION
                | EVENT_FORGED
                | EVENT_LENGTHS
                | EVENT_TUNNEL => self.log_event(event),
                EVENT_MAC => {
                    self.log_event(event);
                    self.strangers.insert(event.ifindex);
                }
                EVENT_TIMER => self.agent.answer_timer(event, &mut interfaces, &mut self.tally.sent),
                EVENT_GUEST if self.learn(event) => drop(learned.insert(event.ifindex)),
                EVENT_EMIT => self.agent.answer_event(event, &mut self.uplink, &mut self.tally.sent),
                _ => {}
            }
        }
        if !learned.is_empty() && !self.agent.problems.is_empty() {
            self.look_soon(); // one of them may be that the guest was not known
        }
        for ifindex in learned {
            if let Err(e) = self.agent.follow_port(ifindex) {
                self.agent.log.error(e.to_string());
                self.look_soon();
            }
        }
    }

    fn log_event(&mut self, event: &Event) {
        let Some(more) = self.limits.entry(event.kind).or_insert_with(Limit::new).admit(now()) else { return };
        let addr = address(event.addr);
        let text = match event.kind {
            EVENT_TABLE_FULL => {
                let port = self.agent.interfaces.get(&event.ifindex).map_or("?", |i| i.name.as_str());
                let (why, key) = match event.value {
                    QUOTA_PORT => (format!("port {port} holds as many flows as it may"), "agent.max_flows_per_port"),
                    QUOTA_NETWORK => {
                        (format!("the network of port {port} holds as many flows as it may"), "agent.max_flows_per_network")
                    }
                    QUOTA_OUTSIDE => {
                        (format!("port {port} holds as many flows as may begin from outside"), "agent.max_flows_per_port")
                    }
                    _ => ("the flow table is full".into(), "agent.max_flows"),
                };
                format!(
                    "{why}: a segment for {addr} was forwarded without state; raise {key} or agent.max_flows if that is no \
                     attack"
                )
            }
            EVENT_UNKNOWN_PEER => {
                format!("{addr} sends encapsulated segments but is no peer: dropped; add a [[peer]] if it should be one")
            }
            EVENT_FORGED => format!(
                "peer {addr} sends a segment of network {} from {}, which is not routed to it: dropped; its guests' ranges \
                 must have every address that they use",
                event.value,
                address(event.packet.saddr)
            ),
            EVENT_LENGTHS => format!("{addr} sends encapsulated segments whose outer lengths are wrong: dropped"),
            EVENT_MAC => {
                let port = self.agent.interfaces.get(&event.ifindex).map_or("", |i| i.name.as_str());
                format!("port {port}: {addr} speaks under another MAC address than the port's: dropped")
            }
            EVENT_TUNNEL => {
                let port = self.agent.interfaces.get(&event.ifindex).map_or("?", |i| i.name.as_str());
                let udp_port = self.agent.config.udp_port;
                format!(
                    "port {port}: a datagram for UDP port {udp_port} of {addr}, which is no guest of its network: dropped, because \
                     the overlay's own arrive there; set uplink.udp_port to another port, the same on all hosts, if guests need \
                     this one"
                )
            }
            _ => format!(
                "{addr} speaks version {} of the encapsulation, which this agent does not know: its metadata is ignored",
                event.value
            ),
        };
        self.agent.log.warning(text + &more);
    }

    /// Whoever holds an address that another claims, or was not heard of for long, is asked, or forgotten.
    async fn ask_holders(&mut self) {
        self.last_ask = now();
        let (questions, gone) = self.agent.learned.ask(monotonic_ns());
        for question in questions {
            if let Err(e) = question.send() {
                if let Some(more) = self.refusals.admit(now()) {
                    self.agent.log.warning(format!("cannot ask for {} at its port: {e}{more}", question.addr));
                }
            }
        }
        for (addr, holder) in &gone {
            if let Some(more) = self.forgotten.admit(now()) {
                self.agent.log.info(format!("port {}: {addr} does not answer: forgotten{more}", holder.interface));
            }
        }
        if !gone.is_empty() {
            self.apply().await;
        }
    }

    /// True if something was learned.
    fn learn(&mut self, event: &Event) -> bool {
        let agent = &mut self.agent;
        let addr = address(event.addr);
        let name =
            agent.interfaces.get(&event.ifindex).map_or_else(|| format!("#{}", event.ifindex), |i| i.name.clone());
        let holder = (event.ifindex, event.mac);
        match agent.learned.offer(&agent.config, &agent.interfaces, holder, addr, monotonic_ns()) {
            Ok(news) => {
                if news {
                    agent.log.info(format!("port {name}: learned {addr}"));
                }
                news
            }
            Err(refused) => {
                self.tally.refused += 1;
                if let Some(more) = self.refusals.admit(now()) {
                    let why = refused.reason();
                    agent.log.warning(format!("port {name}: {addr} is not learned: {why}{more}"));
                }
                false
            }
        }
    }
}

/// Asked first: what the kernel refuses for want of it, it refuses in many ways.
fn may_run() -> Result<()> {
    // Numbers of linux/capability.h.
    const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim();
    let have = u64::from_str_radix(hex, 16).unwrap_or(0);
    let have_all = if have & CAP_SYS_ADMIN != 0 { 3 << 38 } else { 0 } | have; // it stands for both of BPF's
    match NEEDED.iter().find(|(_, bit)| have_all & 1 << bit == 0) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Unresolved(format!("the agent lacks {name}; run it as root"))),
    }
}

/// What the host lacks is an error, or with `agent.unchecked` a warning.
fn check_operator(config: &Config, log: &Log) -> Result<()> {
    lock::check_bpffs(&config.pins)?; // whoever may write in a place that is wrong does not matter
    let unmet = operator::unmet(config);
    match unmet.is_empty() || config.unchecked {
        true => unmet.iter().for_each(|one| log.warning(one)),
        false => {
            return Err(Error::Unresolved(format!("{}; agent.unchecked = true runs nevertheless", unmet.join("; "))));
        }
    }
    Ok(())
}

/// libbpf explains on its own what the kernel refuses; that is of interest only if it does refuse.
fn open_edge(config: &Config, log: &Log) -> Result<Edge> {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    /// The end of a verifier's log says why.
    const MAX_SAID: usize = 20;
    fn note(_: libbpf_rs::PrintLevel, text: String) {
        if let Ok(mut said) = SAID.lock() {
            said.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
            let excess = said.len().saturating_sub(MAX_SAID);
            said.drain(..excess);
        }
    }
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, note)));
    let (pins, max_flows, place) = (config.pins.clone(), config.max_flows, config.place);
    let edge = Edge::open(&Options { pins, max_flows, place, ..Options::default() });
    let said = SAID.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
    if edge.is_err() {
        said.iter().for_each(|line| log.warning(line));
    }
    Ok(edge?)
}

/// What an earlier agent noted, or a new leaf.
fn recall(config: &Config) -> Result<Remembered> {
    let holds_edge = std::fs::read_dir(&config.pins).is_ok_and(|mut pins| pins.next().is_some());
    let found = Remembered::load(&config.socket).filter(|remembered| remembered.pins == config.pins);
    let found = found.filter(|remembered| holds_edge || remembered.is_of_this_namespace());
    if found.as_ref().is_some_and(|remembered| !remembered.is_of_this_namespace()) {
        return Err(Error::Unresolved(format!(
            "{} holds the edge of another network namespace; give this agent other `pins` and another `socket`, or run \
             `selvedge agent stop` first",
            config.pins.display()
        )));
    }
    Ok(found.unwrap_or_else(|| Remembered::new(&config.pins)))
}

/// Begins to, if there is a controller. What is known already is asked for again: there may be other peers now.
fn follow(config: &Config) -> Result<Option<Follower>> {
    config.controller.as_ref().map(Follower::start).transpose().map_err(Error::Config)
}

/// Never, without a controller.
async fn next_news(follower: &mut Option<Follower>) -> Option<News> {
    match follower {
        Some(follower) => follower.news.recv().await,
        None => std::future::pending().await,
    }
}

/// Until `time` of the monotonic clock, ns, and 50 ms after `last`: what cannot be done must not keep the agent busy. Both are
/// points in time: whatever else wakes the agent does not put this off.
async fn until(time: Option<u64>, last: Instant) {
    let Some(time) = time else { return std::future::pending().await };
    let due = now() + Duration::from_nanos(time.saturating_sub(monotonic_ns()));
    tokio::time::sleep_until(due.max(last + Duration::from_millis(50)).into()).await;
}

/// Until there may be events.
async fn readable(events: &AsyncFd<OwnedFd>) {
    match events.readable().await {
        Ok(mut ready) => ready.clear_ready(),
        Err(_) => std::future::pending().await,
    }
}

/// Nobody may listen: then this does nothing.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// What this thread, which does all of the agent's work, has used.
fn cpu_time() -> Duration {
    nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

#[allow(clippy::disallowed_methods, reason = "the agent runs in real time")]
fn now() -> Instant {
    Instant::now()
}
