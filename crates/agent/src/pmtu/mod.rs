//! MTUs of the paths to peers: the outer headers forbid fragments, so a router whose next link is too small for a tunnel's packet tells
//! this host. Guests then hear of the smaller MTU as they hear of the uplink's.

mod known;
mod quote;

use kernel::probes::{Hearing, TOO_BIG};
use known::Known;
use quote::Quoted;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Messages of routers that are read in a row: the agent has other work.
const BATCH: usize = 64;
/// Bytes of a message that are looked at: a tunnel's outer headers, with all that may stand in front.
const MESSAGE: usize = 256;

/// What was done since the agent began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Times that a peer's MTU became smaller.
    pub(super) changes: u64,
    /// Messages that are of no packet of ours, or come too often, or say nothing new.
    pub(super) ignored: u64,
}

#[derive(Debug)]
struct Ears {
    hearing: Hearing,
    fds: Vec<AsyncFd<OwnedFd>>,
    /// There may be messages that no descriptor tells of any more.
    more: bool,
}

#[derive(Debug, Default)]
pub(super) struct PathMtus {
    ears: Option<Ears>,
    known: Known,
    pub(super) stats: Stats,
}

impl Ears {
    fn open() -> io::Result<Ears> {
        let hearing = Hearing::open(TOO_BIG)?;
        let fds = hearing.fds().map(|fd| {
            // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped.
            Ok(unsafe { AsyncFd::register(fd.try_clone_to_owned()?) }?)
        });
        let fds = fds.collect::<io::Result<_>>()?;
        Ok(Ears { hearing, fds, more: false })
    }
}

impl PathMtus {
    /// Begins to listen, or ends.
    pub(super) fn follow(&mut self, wanted: bool, problems: &mut Vec<String>) {
        match (&self.ears, wanted) {
            (Some(_), false) => self.ears = None,
            (None, true) => match Ears::open() {
                Ok(ears) => self.ears = Some(ears),
                Err(e) => problems.push(format!(
                    "MTUs of paths are not learned: raw sockets: {e}; give the agent CAP_NET_RAW, or all links of the fabric \
                     the uplinks' MTU"
                )),
            },
            _ => {}
        }
    }

    /// Until there may be messages of routers.
    pub(super) async fn readable(&self) {
        match &self.ears {
            Some(ears) if ears.more => {}
            Some(ears) => tokio::select! {
                () = readable(ears.fds.first()) => {}
                () = readable(ears.fds.get(1)) => {}
            },
            None => std::future::pending().await,
        }
    }

    pub(super) fn hear(&mut self) -> Vec<(IpAddr, Quoted)> {
        let (mut found, mut buffer) = (Vec::new(), [0; MESSAGE]);
        let Some(ears) = &mut self.ears else { return found };
        ears.more = false;
        for n in 0..BATCH {
            match ears.hearing.hear(n % 2 == 1, &mut buffer) {
                Ok(Some(heard)) => match quote::read(&heard) {
                    Some(quoted) => found.push((heard.from, quoted)),
                    None => self.stats.ignored += 1,
                },
                Ok(None) => return found,
                Err(_) => {} // an error of one message
            }
        }
        ears.more = true;
        found
    }

    /// An earlier agent has learned it.
    pub(super) fn adopt(&mut self, peer: IpAddr, mtu: u16, now: u64) {
        self.known.adopt(peer, mtu, now);
    }

    /// As [`Known::told`].
    pub(super) fn told(&mut self, peer: IpAddr, mtu: u32, most: u32, now: u64) -> bool {
        self.known.told(peer, mtu, most, now)
    }

    /// As [`Known::expire`].
    pub(super) fn expire(&mut self, now: u64, is_peer: impl Fn(&IpAddr) -> bool) -> bool {
        self.known.expire(now, is_peer)
    }

    /// Largest packets of guests to a peer, bytes, where that is less than the uplink carries.
    pub(super) fn of(&self, peer: IpAddr) -> Option<u16> {
        self.known.of(peer)
    }

    pub(super) fn all(&self) -> BTreeMap<IpAddr, u16> {
        self.known.all().collect()
    }
}

async fn readable(socket: Option<&AsyncFd<OwnedFd>>) {
    let Some(socket) = socket else { return std::future::pending().await };
    match socket.readable().await {
        Ok(mut ready) => ready.clear_ready(),
        Err(_) => std::future::pending().await,
    }
}
