//! The agent's loop.

use super::attached::Attached;
use super::carrier::Carriers;
use super::desired::{self, Resolved};
use super::discovery;
use super::error::{Error, Result};
use super::follow::{Followed, Follower, News};
use super::host::look_around;
use super::interfaces::Netlink;
use super::labels::Learnt;
use super::learned::Learned;
use super::limits::Limited;
use super::lock::{self, Lock};
use super::log::Limit;
use super::metrics;
use super::reconcile::Agent;
use super::remembered::Remembered;
use super::reports::Reports;
use super::requested::Configured;
use super::runtime::runtime;
use super::server::{self, Asked, Server};
use super::tables::Tables;
use super::tally::Tally;
use agent_api::config::Config;
use agent_api::protocol::{Command, Outcome};
use daemon::metrics::MetricsServer;
use kernel::emit::Uplink;
use kernel::{Adopted, Sweep, Swept};
use sd_notify::NotifyState;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::sync::mpsc;
use tracing::{error, info};

mod begin;
mod budget;
mod events;
mod reload;
mod reports;
mod trace;
mod wait;
mod work;

use begin::{check_operator, may_run, open_edge};
use budget::{Budget, SHARE};
use wait::{cpu_time, now, readable, until};

/// Reads the configuration, anew each time.
pub type Load<'a> = dyn FnMut() -> std::result::Result<Config, String> + 'a;

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
    budget: Budget,
    /// Of the timers of congestion control.
    next_tick: Instant,
    /// When holders of learned addresses were asked last.
    last_ask: Instant,
    /// Opened when the first report is to be sent.
    uplink: Option<Uplink>,
    follower: Option<Follower>,
    /// When probes were sent last, when routers were heard last, and when it is looked whom to trace.
    last_trace: Instant,
    last_heard: Instant,
    next_heard: Instant,
    /// When routers were heard last that tell of MTUs.
    last_mtus: Instant,
    path_lines: Limit,
    /// Of switches, and when they are read again.
    reports: Option<Reports>,
    next_report: Instant,
    _lock: Lock,
}

/// Between two sweeps for want of room: each looks at every flow.
const SWEEP_WHEN_FULL: Duration = Duration::from_secs(1);
/// Between two sweeps at most: what was never answered is to go soon.
const MAX_PAUSE: Duration = Duration::from_secs(5);
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
        may_run()?;
        let listen = |kind| signal(kind).map_err(|e| Error::System("listen for signals", e));
        let signals = Signals {
            term: listen(SignalKind::terminate())?,
            int: listen(SignalKind::interrupt())?,
            hup: listen(SignalKind::hangup())?,
        };
        kernel::bpf::available().map_err(kernel::Error::from)?;
        let followed = Followed::load(&config.socket);
        let follower = follow(&config)?;
        let mut netlink = Netlink::new(config.uplinks.len() > 1)?;
        let (interfaces, routes) = look_around(&config, &mut netlink).await?;
        let resolved: Resolved = desired::resolve(&config, &interfaces, &routes).map_err(Error::Named)?;
        check_operator(&config)?;
        let lock = lock::acquire(&config.pins)?;
        Remembered::sweep(&config.socket);
        Followed::sweep(&config.socket);
        let forgotten = Remembered::forgotten(&config.pins, &config.socket);
        let forgotten = forgotten.map(|what| format!("{what}; set anew what `ctl limit` had set, and MTUs"));
        let remembered = Remembered::recall(&config)?;
        let configured = Configured::of(&config);
        configured.fill(&mut config, &remembered.requested);
        let (ask, commands) = mpsc::channel(16);
        let (scrape, scrapes) = mpsc::channel(16);
        server::prepare(&config.socket).await?;
        remembered.save(&config.socket)?;
        let metrics = match config.metrics {
            Some(at) => Some(metrics::serve(at, scrape.clone()).await?),
            None => None,
        };
        let reports = Reports::open(&config, now())?;
        let edge = open_edge(&config)?;
        let tables = Tables::open(edge.maps())?;
        let carriers = Carriers::watch(BTreeSet::new()).map_err(|e| Error::System("watch uplinks", e))?;
        let events = tables.events.as_fd().try_clone_to_owned().and_then(|fd| {
            // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped.
            Ok(unsafe { AsyncFd::register(fd) }?)
        });
        let events = events.map_err(|e| Error::System("watch events", e))?;
        let found = match edge.adopted() {
            Adopted::New => "new",
            Adopted::Existing => "adopted",
        };
        info!("{} {found}: state version {}", config.pins.display(), kernel::state_version());
        let mut agent = Agent {
            config,
            netlink,
            carriers,
            edge,
            tables: Rc::new(tables),
            interfaces,
            resolved,
            learned: Learned::default(),
            attached: Attached::default(),
            remembered,
            forgotten,
            configured,
            gro: false,
            problems: Vec::new(),
            swept: Swept::default(),
            limited: Limited::default(),
            shares: Default::default(),
            waits: false,
            ticks: None,
            reordering: None,
            fastlane: None,
            again: false,
            tracer: None,
            traced: Default::default(),
            learnt: Learnt { followed, ..Learnt::default() },
            controller_lost: None,
            path_mtus: Default::default(),
            silent: Default::default(),
            asking: Default::default(),
            granting: None,
            settled: None,
        };
        agent.adopt_learned()?;
        agent.adopt_paths()?;
        agent.adopt_mtus()?;
        let changes = agent.apply().await?;
        // An agent that was killed may have changed tables without saying so.
        agent.edge.begin_epoch()?;
        if !changes.any() {
            info!("maps: nothing to change");
        }
        agent.edge.remove_other_versions()?;
        let server = Server::start(&agent.config.socket, ask)?; // last: who is answered finds an edge that works
        match (agent.config.uplinks.is_empty(), agent.resolved.guest_mtu) {
            (true, _) => info!("ready; there is no uplink, so ports are only limited"),
            (false, mtu) => info!(
                mtu,
                "ready; guests' own ends of their interfaces should have an MTU of {mtu} bytes, which an agent cannot set"
            ),
        }
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
            budget: Default::default(),
            next_tick: now(),
            last_ask: now(),
            uplink: None,
            follower,
            last_mtus: now(),
            last_trace: now(),
            last_heard: now(),
            next_heard: now(),
            path_lines: Limit::of(discovery::LINES),
            reports,
            next_report: now(),
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
                failed = self.agent.carriers.failed() => self.leave(failed),
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
                    Command::Limit(wanted) => {
                        let done = self.agent.limit(wanted).await;
                        let _ = place.send(done.map_or_else(Outcome::Error, |limits| Outcome::Ok(serde_json::json!(limits))));
                    }
                    Command::Unlimit { owner } => {
                        let done = self.agent.unlimit(&owner).await;
                        let _ = place.send(done.map_or_else(Outcome::Error, |ended| Outcome::Ok(serde_json::json!(ended))));
                    }
                    question => { let _ = place.send(self.agent.tell(question, &self.tally)); }
                },
                Some(((), place)) = self.scrapes.recv() => { let _ = place.send(self.agent.metrics(&self.tally)); }
                _ = tokio::time::sleep_until(self.next_sweep.into()) => self.sweep().await,
                _ = until(self.agent.learned.due(), self.last_ask) => self.ask_holders().await,
                _ = tokio::time::sleep_until(self.next_tick.into()), if self.agent.config.congestion.is_some() => self.tick().await,
                Some(news) = next_news(&mut self.follower) => self.hear(news).await,
                _ = wait::routers(&self.agent.tracer, self.last_heard) => self.hear_routers(),
                _ = wait::too_big(&self.agent.path_mtus, self.last_mtus) => self.hear_mtus(),
                _ = wait::due(&self.agent.tracer, self.last_trace) => self.trace(),
                _ = tokio::time::sleep_until(self.next_heard.into()), if self.agent.tracer.is_some() => self.look_who_was_heard(),
                _ = wait::reports(&self.reports, self.next_report) => self.hear_reports(),
                _ = watchdog.tick() => notify(&[NotifyState::Watchdog]),
            }
        }
    }

    async fn end(self, end: Result<End>) -> Result<()> {
        notify(&[NotifyState::Stopping]);
        let Runner { agent, server, .. } = self;
        match end? {
            End::Signal => {
                info!("ending; the edge stays in the kernel, `selvedge agent stop` removes it");
                server.finish().await;
                Ok(())
            }
            End::Stop(place) => {
                info!("stopping: taking the edge out of the kernel");
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

    /// At once, and without a look at the host; that follows.
    fn leave(&mut self, failed: std::io::Result<BTreeSet<u32>>) {
        if let Err(e) =
            failed.map_err(|e| Error::System("watch uplinks", e)).and_then(|failed| self.agent.leave(&failed))
        {
            error!("{e}");
        }
        self.look_soon();
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
            error!("{e}"); // and again at the next sweep
        }
        self.rested = now() + (SHARE * cpu_time().saturating_sub(before)).min(MAX_REST);
    }
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

/// Nobody may listen: then this does nothing.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
