//! Path discovery: which outer source ports lead to which paths through the fabric. [`discovery`] decides what to probe and what the
//! answers mean; this sends the probes, matches what comes back, and turns paths into schedules.
//!
//! | What | Where |
//! |---|---|
//! | Probes and sockets | `kernel::probes` |
//! | Answers of peers | `datapath/kernel/probe.h`: the uplink's program sends a probe back, and tells of replies in events |
//! | Answers of routers | [`quote`]: ICMP and ICMPv6 "time exceeded" |
//! | Which answer is of which probe | [`id`] |
//! | Destinations | `reconcile::paths`: peers that were heard lately, in version 2 (map `heard`) |
//! | From paths to labels | [`schedule`] |

#[cfg(test)]
pub(crate) mod fabric;
mod id;
mod quote;
mod schedule;

pub(super) use ::discovery::index_of;
pub(crate) use id::Ids;
pub(super) use schedule::schedule;

use ::discovery::{Binding, Change, Config, Discovery, Probe, Progress};
use kernel::probes::{self, Sockets};
use kernel::state::{address, Event};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use units::Time;

/// Between two looks at who was heard.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Changes of paths that are logged within ten seconds: who forges answers causes no more.
pub(super) const LINES: u32 = 50;
/// Messages of routers that are read in a row: the agent has other work.
const BATCH: usize = 256;
/// Bytes of a message that are looked at: the outer headers of a probe, with all that may stand in front.
const MESSAGE: usize = 256;
/// Times are counted from a beginning that is never further away: beyond 213 days units::Time overflows.
const LONGEST: u64 = 100 * 86_400 * 1_000_000_000;

/// Where probes to a peer leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The agent's number for the peer.
    pub(super) id: u32,
    pub(super) local: IpAddr,
    pub(super) udp_port: u16,
    /// Of the uplink.
    pub(super) ifindex: u32,
}

/// What was done since the agent began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) probes: u64,
    pub(super) probe_bytes: u64,
    pub(super) failures: u64,
    /// Of routers, of peers.
    pub(super) hops: u64,
    pub(super) replies: u64,
    /// Of either, that are no answers to a probe of late.
    pub(super) ignored: u64,
    /// Changes of the paths to a peer.
    pub(super) changes: u64,
}

/// The driver of [`Discovery`].
#[derive(Debug)]
pub(super) struct Tracer {
    config: Config,
    discovery: Discovery,
    sockets: Sockets,
    hearing: Vec<AsyncFd<OwnedFd>>,
    /// There may be messages that no descriptor tells of any more.
    more: bool,
    ids: Ids,
    targets: BTreeMap<IpAddr, Target>,
    /// CLOCK_MONOTONIC at which the times of `discovery` begin, ns.
    begin: u64,
    pub(super) stats: Stats,
}

impl Tracer {
    /// Counts on from `stats`.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub(super) fn start(config: &Config, now: u64, stats: Stats) -> io::Result<Tracer> {
        let sockets = Sockets::open()?;
        let hearing = sockets.hearing().fds().map(|fd| {
            let fd = fd.try_clone_to_owned()?;
            // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped.
            Ok(unsafe { AsyncFd::register(fd) }?)
        });
        let hearing = hearing.collect::<io::Result<_>>()?;
        Ok(Tracer {
            config: config.clone(),
            discovery: discovery(config),
            sockets,
            hearing,
            more: false,
            ids: Ids::default(),
            targets: BTreeMap::new(),
            begin: now,
            stats,
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn set_targets(&mut self, targets: BTreeMap<IpAddr, Target>) {
        for gone in self.targets.keys().filter(|peer| !targets.contains_key(peer)) {
            self.discovery.forget(*gone);
        }
        self.targets = targets;
    }

    pub(super) fn target(&self, peer: IpAddr) -> Option<&Target> {
        self.targets.get(&peer)
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = (IpAddr, Target)> + '_ {
        self.targets.iter().map(|(peer, target)| (*peer, *target))
    }

    /// As [`Discovery`] counts it. `now`: CLOCK_MONOTONIC, ns.
    fn time(&mut self, now: u64) -> Time {
        if now.saturating_sub(self.begin) > LONGEST {
            // Paths are found anew; schedules stay until then.
            self.begin = now;
            self.discovery = discovery(&self.config);
        }
        Time::from_ns(now.saturating_sub(self.begin))
    }

    /// A peer has sent something lately, in version 2.
    pub(super) fn want(&mut self, now: u64, peer: IpAddr) {
        let now = self.time(now);
        self.discovery.want(now, peer);
    }

    /// When [`Tracer::work`] has something to do: CLOCK_MONOTONIC, ns.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let due = self.discovery.poll_timeout(Time::from_ns(now.saturating_sub(self.begin)))?;
        Some(self.begin + due.as_ns())
    }

    /// Sends what is to be sent now: no more than the rate allows.
    pub(super) fn work(&mut self, now: u64) {
        let time = self.time(now);
        self.discovery.handle_timeout(time);
        while let Some(probe) = self.discovery.poll_transmit(time) {
            self.send(now, time, &probe);
        }
    }

    fn send(&mut self, now: u64, time: Time, probe: &Probe) {
        let Some(target) = self.targets.get(&probe.to) else { return }; // it is no peer any more
        let id = self.ids.id(probe, time);
        let packet = probes::Probe {
            local: target.local,
            remote: probe.to,
            udp_port: target.udp_port,
            port: probe.port,
            ttl: probe.ttl,
            id,
            time: (now >> 6) as u32,
        };
        match self.sockets.sending().send(&packet, target.ifindex) {
            Ok(bytes) => {
                self.stats.probes += 1;
                self.stats.probe_bytes += bytes as u64;
            }
            Err(_) => self.stats.failures += 1, // as if it were lost on its way
        }
    }

    /// Until there may be messages of routers.
    pub(super) async fn readable(&self) {
        if self.more {
            return;
        }
        tokio::select! {
            () = readable(self.hearing.first()) => {}
            () = readable(self.hearing.get(1)) => {}
        }
    }

    /// Reads what routers say, a number of messages at a time.
    pub(super) fn hear(&mut self, now: u64) {
        let time = self.time(now);
        self.more = false;
        let mut buffer = [0; MESSAGE];
        for n in 0..BATCH {
            let heard = match self.sockets.hearing().hear(n % 2 == 1, &mut buffer) {
                Ok(Some(heard)) => heard,
                Ok(None) => return,
                Err(_) => continue, // an error of one message
            };
            let quoted = quote::read(&heard).filter(|quoted| {
                self.targets
                    .get(&quoted.remote)
                    .is_some_and(|target| (target.local, target.udp_port) == (quoted.local, quoted.udp_port))
            });
            let probe = quoted.and_then(|quoted| self.ids.probe(quoted.remote, quoted.port, quoted.id, time));
            match probe {
                Some(probe) => {
                    self.stats.hops += 1;
                    self.discovery.time_exceeded(time, probe, heard.from);
                }
                None => self.stats.ignored += 1,
            }
        }
        self.more = true;
    }

    /// The uplink's program tells of a reply.
    pub(super) fn reply(&mut self, event: &Event) {
        let (now, from) = (self.time(event.time), address(event.addr));
        let (id, port) = ((event.value >> 16) as u16, event.value as u16);
        match self.ids.probe(from, port, id, now).filter(|_| self.targets.contains_key(&from)) {
            Some(probe) => {
                self.stats.replies += 1;
                self.discovery.answered(now, probe);
            }
            None => self.stats.ignored += 1,
        }
    }

    /// What changed since this was asked last, a peer at a time.
    pub(super) fn change(&mut self) -> Option<(IpAddr, Change)> {
        let change = self.discovery.poll_change()?;
        self.stats.changes += 1;
        Some(change)
    }

    pub(super) fn paths(&self, peer: IpAddr) -> &[Binding] {
        self.discovery.paths(peer)
    }

    pub(super) fn progress(&self, peer: IpAddr) -> Option<Progress> {
        self.discovery.progress(peer)
    }

    /// Peers that are traced, and paths known to them.
    pub(super) fn totals(&self) -> (usize, usize) {
        self.discovery.totals()
    }

    /// How long ago that was, of [`Binding::seen`].
    pub(super) fn age(&self, now: u64, seen: Time) -> Time {
        Time::from_ns(now.saturating_sub(self.begin)).saturating_sub(seen)
    }
}

/// Which ports are tried is nobody's to foresee.
fn discovery(config: &Config) -> Discovery {
    use std::hash::BuildHasher;
    Discovery::new(config.clone(), std::collections::hash_map::RandomState::new().hash_one(0))
}

async fn readable(socket: Option<&AsyncFd<OwnedFd>>) {
    let Some(socket) = socket else { return std::future::pending().await };
    match socket.readable().await {
        Ok(mut ready) => ready.clear_ready(),
        Err(_) => std::future::pending().await,
    }
}
