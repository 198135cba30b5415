//! The daemon: answers edges and operators.

use super::answers::{answer, HOLD, PATIENCE};
use super::brain::Brain;
use super::etcd::Etcd;
use super::http;
use super::metrics::Refused;
use super::shared::Shared;
use super::store::{FileStore, Store};
use super::{Error, Identity};
use daemon::metrics::MetricsServer;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{signal, SignalKind};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info, warn};

/// Edges hold one each.
const CONNECTIONS: usize = 8192;
/// Of one certificate.
const CONNECTIONS_EACH: usize = 4;
/// Not yet known by a certificate.
const HANDSHAKES: usize = 256;
/// How often a shared store is read.
const FOLLOW: Duration = Duration::from_millis(500);

/// What a controller is told to do.
#[derive(Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// Of the loopback.
    pub metrics: Option<SocketAddr>,
    pub identity: Identity,
    /// Names in certificates of those who may change links and see the status.
    pub operators: Vec<String>,
    pub keep: Keep,
    pub brain: Brain,
}

/// Where revision and failed links are.
#[derive(Debug)]
pub enum Keep {
    /// For one controller.
    File(PathBuf),
    /// For several: URLs, `https` ones with the controller's own identity, and a key.
    Etcd { urls: Vec<String>, key: String },
}

impl Keep {
    fn open(&self, identity: &Identity) -> Result<Store, Error> {
        match self {
            Keep::File(path) => FileStore::open(path).map(Store::File),
            Keep::Etcd { urls, key } => {
                let servers = urls.iter().map(|url| {
                    let tls = if url.starts_with("https:") { Some(identity.client()?) } else { None };
                    http::Server::new(url, tls).ok_or_else(|| Error::Url(url.chars().take(100).collect()))
                });
                Ok(Store::Etcd(Etcd::new(servers.collect::<Result<_, _>>()?, key)))
            }
        }
    }
}

/// Runs a controller until SIGTERM or SIGINT; SIGHUP makes it read its certificates again.
///
/// # Errors
/// Before it listens: certificates, store or address that do not do.
pub fn run(config: Config) -> Result<(), Error> {
    let tls = Mutex::new(TlsAcceptor::from(config.identity.server()?));
    let store = config.keep.open(&config.identity)?;
    let shared = Arc::new(Shared::new(config.brain, store, config.operators));
    shared.tally.expires(config.identity.expiry());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    runtime.block_on(async {
        shared.begin().await?;
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|e| Error::Listen(config.listen.to_string(), e))?;
        let at = listener.local_addr().map_err(Error::Start)?;
        let _metrics = match config.metrics {
            Some(at) => Some(serve_metrics(at, &shared).await?),
            None => None,
        };
        let mut term = signal(SignalKind::terminate()).map_err(Error::Start)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Error::Start)?;
        let mut hup = signal(SignalKind::hangup()).map_err(Error::Start)?;
        let renew = async {
            while hup.recv().await.is_some() {
                match config.identity.server() {
                    Ok(renewed) => {
                        *tls.lock().unwrap_or_else(PoisonError::into_inner) = TlsAcceptor::from(renewed);
                        shared.tally.expires(config.identity.expiry());
                        shared.tally.reloads.inc();
                        info!("certificates read again");
                    }
                    Err(e) => {
                        shared.tally.reload_failures.inc();
                        error!("the old certificates stay in use: {e}");
                    }
                }
            }
        };
        let failed = shared.brain().failed();
        let but = if failed.is_empty() { String::new() } else { format!("; failed links: {}", failed.join(" ")) };
        let revision = *shared.news.borrow();
        info!(address = %at, revision, "ready on {at}: revision {revision}{but}");
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        tokio::select! {
            () = accept(listener, &tls, &shared) => {}
            () = renew => {}
            () = follow(&shared), if shared.store.is_shared() => {}
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        info!("ending; agents keep the schedules that they have");
        Ok(())
    })
}

async fn serve_metrics(at: SocketAddr, shared: &Arc<Shared>) -> Result<MetricsServer, Error> {
    let shared = Arc::clone(shared);
    let page = move || std::future::ready(Some(shared.metrics()));
    MetricsServer::start(at, page).await.map_err(|e| Error::Metrics(at, e))
}

/// What other controllers write.
async fn follow(shared: &Shared) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(FOLLOW).await;
        let mut place = shared.place.lock().await;
        let problem = shared.refresh(&mut place).await.err().map_or_else(String::new, |e| e.to_string());
        if problem != said {
            match problem.as_str() {
                "" => info!("the store answers again"),
                why => warn!("{why}; schedules stay as they are"),
            }
            shared.problem.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&problem);
            said = problem;
        }
    }
}

/// Strangers cannot keep others out: beyond the bound, the handshake that has lasted longest ends.
async fn accept(listener: TcpListener, tls: &Mutex<TlsAcceptor>, shared: &Arc<Shared>) {
    let mut handshakes = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await; // out of descriptors, perhaps
            continue;
        };
        let tls = tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = Arc::clone(shared);
        let handshake = tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                Ok(Ok(stream)) => drop(tokio::spawn(async move { serve(stream, &own).await })),
                _ => own.tally.refuse(Refused::Handshake),
            }
        });
        handshakes.push_back(handshake.abort_handle());
        while handshakes.front().is_some_and(AbortHandle::is_finished) {
            handshakes.pop_front();
        }
        if handshakes.len() > HANDSHAKES {
            shared.tally.refuse(Refused::Crowd);
            handshakes.pop_front().iter().for_each(AbortHandle::abort);
        }
    }
}

/// One of a certificate's connections; it counts until dropped.
struct Connection {
    shared: Arc<Shared>,
    certificate: CertificateDer<'static>,
}

impl Connection {
    fn of(shared: &Arc<Shared>, certificate: CertificateDer<'static>) -> Option<Connection> {
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.values().sum::<usize>() >= CONNECTIONS {
            return None;
        }
        let own = connections.entry(certificate.clone()).or_default();
        *own += 1;
        let connection = Connection { shared: Arc::clone(shared), certificate };
        let few = *own <= CONNECTIONS_EACH;
        drop(connections);
        few.then_some(connection)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = connections.get_mut(&self.certificate) {
            *own -= 1;
            if *own == 0 {
                connections.remove(&self.certificate);
            }
        }
    }
}

/// One request and its answer.
async fn serve(stream: tokio_rustls::server::TlsStream<TcpStream>, shared: &Arc<Shared>) {
    let certificates = stream.get_ref().1.peer_certificates();
    let Some(certificate) = certificates.and_then(|chain| chain.first()).cloned() else { return };
    let Some(connection) = Connection::of(shared, certificate.into_owned()) else {
        return shared.tally.refuse(Refused::Connections);
    };
    let service = service_fn(|request| {
        let (shared, certificate) = (Arc::clone(shared), connection.certificate.clone());
        async move { Ok::<_, Infallible>(answer(request, &shared, &certificate).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(HOLD + 2 * PATIENCE, served).await;
}
