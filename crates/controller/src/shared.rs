//! What a running controller knows, and how it changes.

use super::brain::{Brain, LinkChange, Status};
use super::metrics::{State, Tally};
use super::record::{Place, Record, Saved};
use super::store::Store;
use super::{tls, Error};
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How often a change begins anew because another controller was first.
const TRIES: usize = 8;

pub(super) struct Shared {
    brain: Mutex<Brain>,
    pub(super) store: Store,
    /// Of the record that `brain` has; held while it changes.
    pub(super) place: tokio::sync::Mutex<Place>,
    /// How many each certificate has.
    pub(super) connections: Mutex<HashMap<CertificateDer<'static>, usize>>,
    /// Of the store, for the status.
    pub(super) problem: Mutex<String>,
    operators: Vec<String>,
    /// The revision in force.
    pub(super) news: watch::Sender<u64>,
    pub(super) tally: Tally,
}

impl Shared {
    pub(super) fn new(brain: Brain, store: Store, operators: Vec<String>) -> Shared {
        let (connections, problem, place) = (Mutex::default(), Mutex::default(), tokio::sync::Mutex::new(0));
        let (news, tally) = (watch::channel(0).0, Tally::new());
        Shared { brain: Mutex::new(brain), store, place, connections, problem, operators, news, tally }
    }

    /// Nothing that runs under the lock can leave it half changed.
    pub(super) fn brain(&self) -> MutexGuard<'_, Brain> {
        self.brain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Status {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status { problem, ..self.brain().status() }
    }

    pub(super) fn is_operator(&self, certificate: &CertificateDer<'_>) -> bool {
        self.operators.iter().any(|name| tls::is_for(certificate, name))
    }

    async fn load(&self) -> Result<(Option<Record>, Place), Error> {
        let loaded = self.store.load().await;
        self.tally.store_did(loaded.is_ok());
        loaded
    }

    async fn save(&self, record: &Record, place: Place) -> Result<Saved, Error> {
        let saved = self.store.save(record, place).await;
        self.tally.store_did(saved.is_ok());
        saved
    }

    /// To edges that wait.
    fn publish(&self, revision: u64) {
        if self.news.send_replace(revision) != revision {
            self.tally.change();
        }
    }

    /// For Prometheus.
    pub(super) fn metrics(&self) -> String {
        let (links, edges) = self.brain().extent();
        let status = self.status();
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        let store = if self.store.is_shared() { "etcd" } else { "file" };
        self.tally.page(&State { status, links, edges, connections, store })
    }

    /// Knows what an earlier or another controller knew, and says in the store of which fabric it is from now on.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        let mut place = self.place.lock().await;
        for _ in 0..TRIES {
            let (record, at) = self.load().await?;
            let next = {
                let mut brain = self.brain();
                let fabric = brain.fingerprint();
                if let Some(record) = &record {
                    if self.store.is_shared() && record.fabric != fabric {
                        return Err(Error::OtherFabric);
                    }
                    // Of a file's fabric all may have changed; and agents ask for what is new to them only.
                    let revision = if self.store.is_shared() { record.revision } else { record.revision + 1 };
                    brain.recall(revision, &record.failed);
                }
                Record::new(fabric, brain.revision(), brain.failed())
            };
            let saved = if record.as_ref() == Some(&next) { Saved::At(at) } else { self.save(&next, at).await? };
            if let Saved::At(at) = saved {
                *place = at;
                self.publish(next.revision);
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Takes over what another controller wrote.
    pub(super) async fn refresh(&self, place: &mut Place) -> Result<(), Error> {
        let (record, at) = self.load().await?;
        let Some(record) = record else { return self.restore(place).await };
        if at == *place {
            return Ok(());
        }
        let mut brain = self.brain();
        if record.fabric != brain.fingerprint() {
            return Err(Error::OtherFabric);
        }
        // Of a store that was set back: agents must hear of it.
        let revision = if record.revision < brain.revision() { brain.revision() + 1 } else { record.revision };
        brain.recall(revision, &record.failed);
        *place = at;
        self.publish(revision);
        Ok(())
    }

    /// Somebody took the record away: what is known is written again.
    async fn restore(&self, place: &mut Place) -> Result<(), Error> {
        let record = {
            let brain = self.brain();
            Record::new(brain.fingerprint(), brain.revision() + 1, brain.failed())
        };
        if let Saved::At(at) = self.save(&record, 0).await? {
            *place = at;
            self.brain().recall(record.revision, &record.failed);
            self.publish(record.revision);
        }
        Ok(())
    }

    /// In the store first: what was told to edges must not be forgotten.
    pub(super) async fn change(&self, change: &LinkChange) -> Result<(), Error> {
        let mut place = self.place.lock().await;
        for _ in 0..TRIES {
            let (fabric, next) = {
                let brain = self.brain();
                (brain.fingerprint(), brain.after(change)?)
            };
            let Some((revision, failed)) = next else { return Ok(()) };
            match self.save(&Record::new(fabric, revision, failed.clone()), *place).await? {
                Saved::At(at) => {
                    *place = at;
                    self.brain().recall(revision, &failed);
                    self.tally.link_changes.inc();
                    self.publish(revision);
                    return Ok(());
                }
                Saved::Conflict => self.refresh(&mut place).await?,
            }
        }
        Err(Error::Busy)
    }
}
