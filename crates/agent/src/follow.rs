//! Schedules from a controller: asked for in a task of its own, and kept in a file ([`super::labels`] uses them). A controller that is
//! lost changes nothing.

use super::error::{io_error, Result};
use agent_api::config::{ControllerRule, PeerRule};
use controller::{Client, Fetched, Identity, Schedules};
use files::read_regular;
use files::{beside, replace, sweep};
use kernel::state::MAX_LABELS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Between questions, at least: a controller may be mad.
const PAUSE: Duration = Duration::from_millis(200);
/// After failures, doubled each time.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// More is not ours.
const MAX_BYTES: u64 = 16 << 20;

/// What was heard.
pub(super) enum News {
    Schedules(String, Schedules),
    /// None of the controllers answers, and why.
    Lost(String),
    Found(String),
}

/// Asks until dropped.
pub(super) struct Follower {
    pub(super) news: mpsc::Receiver<News>,
    task: tokio::task::JoinHandle<()>,
}

impl Follower {
    /// # Errors
    /// Certificates that cannot be used.
    pub(super) fn start(rule: &ControllerRule) -> std::result::Result<Follower, String> {
        let clients = clients(rule)?;
        let (to, news) = mpsc::channel(4);
        let task = tokio::spawn(follow(clients, rule.edge.clone(), to));
        Ok(Follower { news, task })
    }
}

/// One for each controller; asks nothing.
///
/// # Errors
/// Certificates that cannot be used.
pub(super) fn clients(rule: &ControllerRule) -> std::result::Result<Vec<Client>, String> {
    let identity = Identity { ca: rule.ca.clone(), certificate: rule.certificate.clone(), key: rule.key.clone() };
    let clients = rule.urls.iter().map(|url| Client::new(url, &identity));
    clients.collect::<std::result::Result<_, _>>().map_err(|e| format!("controller: {e}"))
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(clients: Vec<Client>, edge: String, to: mpsc::Sender<News>) {
    let (mut revision, mut wait, mut lost) = (0, WAIT.0, None);
    // Edges that lost the same controller do not all come back at once.
    let spread = edge.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 100;
    loop {
        let mut why = String::new();
        let mut heard = None;
        for client in &clients {
            match client.schedules(&edge, revision).await {
                Ok(Fetched::New(schedules)) => {
                    revision = schedules.revision;
                    heard = Some(News::Schedules(client.url().to_owned(), schedules));
                }
                Ok(Fetched::Same) => heard = Some(News::Found(client.url().to_owned())),
                Err(e) => {
                    why = e.to_string();
                    continue;
                }
            }
            break;
        }
        let pause = match heard {
            Some(news) => {
                wait = WAIT.0;
                if (lost.is_some() || matches!(news, News::Schedules(..))) && to.send(news).await.is_err() {
                    return;
                }
                lost = None;
                PAUSE
            }
            None => {
                if lost.as_ref() != Some(&why) && to.send(News::Lost(why.clone())).await.is_err() {
                    return;
                }
                lost = Some(why);
                let pause = wait + wait * spread / 200;
                wait = (wait * 2).min(WAIT.1);
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The schedules in force, by the peer's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Followed {
    pub(super) revision: u64,
    labels: BTreeMap<String, Vec<u16>>,
}

impl Followed {
    /// Only of peers that there are; ports that can be none are left out.
    pub(super) fn new(schedules: Schedules, peers: &[PeerRule]) -> Followed {
        let known: BTreeSet<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        let mut labels = BTreeMap::new();
        for slots in schedules.schedules {
            let ports: Vec<u16> = slots.ports.into_iter().filter(|&port| port >= 1024).take(MAX_LABELS).collect();
            for edge in slots.edges.into_iter().filter(|edge| known.contains(edge.as_str())) {
                labels.insert(edge, ports.clone());
            }
        }
        Followed { revision: schedules.revision, labels }
    }

    /// For how many peers there are schedules.
    pub(super) fn len(&self) -> usize {
        self.labels.values().filter(|ports| !ports.is_empty()).count()
    }

    /// Does the controller know an edge of that name?
    pub(super) fn names(&self, peer: &str) -> bool {
        self.labels.contains_key(peer)
    }

    /// Of a peer of that name; `None`: the controller orders none.
    pub(super) fn labels(&self, peer: &str) -> Option<&[u16]> {
        self.labels.get(peer).filter(|ports| !ports.is_empty()).map(Vec::as_slice)
    }

    /// What an earlier agent had, or nothing.
    pub(super) fn load(socket: &Path) -> Followed {
        let path = path(socket);
        let read = || serde_json::from_slice::<Followed>(&read_regular(&path, MAX_BYTES).ok()?).ok();
        let mut found = read().unwrap_or_default();
        found.labels.values_mut().for_each(|ports| ports.truncate(MAX_LABELS));
        found
    }

    /// Replaces the file as a whole.
    pub(super) fn save(&self, socket: &Path) -> Result<()> {
        let path = path(socket);
        let text = serde_json::to_vec(self).map_err(|e| io_error("write", &path)(e.into()))?;
        replace(&path, &text).map_err(io_error("write", &path))
    }

    /// As [`super::remembered::Remembered::sweep`].
    pub(super) fn sweep(socket: &Path) {
        sweep(&path(socket));
    }

    pub(super) fn remove(socket: &Path) {
        let _ = fs::remove_file(path(socket)); // fine if there is none
    }
}

fn path(socket: &Path) -> PathBuf {
    beside(socket, ".schedules")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::config;
    use controller::Slots;

    #[test]
    fn schedules_reach_the_peers_that_they_name_and_outlive_the_agent() {
        let config = config();
        let slots = |ports: &[u16], edge: &str| Slots { ports: ports.to_vec(), edges: vec![edge.into()] };
        let schedules = vec![slots(&[50_001, 80, 50_002], "host2"), slots(&[], "host3"), slots(&[50_001], "stranger")];
        let followed = Followed::new(Schedules { revision: 7, schedules }, &config.peers);
        let labels = config.peers.iter().map(|peer| followed.labels(&peer.name));
        assert_eq!(labels.collect::<Vec<_>>(), [Some(&[50_001, 50_002][..]), None], "an empty schedule says nothing");
        assert_eq!(followed.len(), 1);
        assert!(followed.names("host3") && !followed.names("host4"), "an empty schedule is one");
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl.sock");
        assert_eq!(Followed::load(&socket), Followed::default());
        followed.save(&socket).unwrap();
        assert_eq!(Followed::load(&socket), followed);
        fs::write(path(&socket), "rubbish").unwrap();
        assert_eq!(Followed::load(&socket), Followed::default());
    }
}
