//! The daemon: answers edges and operators.

use super::brain::{Brain, LinkChange, Status};
use super::etcd::Etcd;
use super::http;
use super::store::{FileStore, Place, Record, Saved, Store};
use super::{tls, Error, Identity};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{header, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// Edges hold one each.
const CONNECTIONS: usize = 8192;
/// Of one certificate.
const CONNECTIONS_EACH: usize = 4;
/// Not yet known by a certificate.
const HANDSHAKES: usize = 256;
/// For a handshake, and for a request's headers or body.
const PATIENCE: Duration = Duration::from_secs(5);
/// A question without news is answered after so long: whoever asks sees that the controller lives.
const HOLD: Duration = Duration::from_secs(20);
const MAX_BODY: usize = 4096;
/// How often a shared store is read.
const FOLLOW: Duration = Duration::from_millis(500);
/// How often a change begins anew because another controller was first.
const TRIES: usize = 8;

/// What a controller is told to do.
#[derive(Debug)]
pub struct Config {
    pub listen: SocketAddr,
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

struct Shared {
    brain: Mutex<Brain>,
    store: Store,
    /// Of the record that `brain` has; held while it changes.
    place: tokio::sync::Mutex<Place>,
    /// How many each certificate has.
    connections: Mutex<HashMap<CertificateDer<'static>, usize>>,
    /// Of the store, for the status.
    problem: Mutex<String>,
    operators: Vec<String>,
    /// The revision in force.
    news: watch::Sender<u64>,
}

/// Runs a controller until SIGTERM or SIGINT; SIGHUP makes it read its certificates again. `say` gets lines for the log.
///
/// # Errors
/// Before it listens: certificates, store or address that do not do.
pub fn run(config: Config, say: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
    let tls = Mutex::new(TlsAcceptor::from(config.identity.server()?));
    let store = config.keep.open(&config.identity)?;
    let (news, _) = watch::channel(0);
    let (place, brain) = (tokio::sync::Mutex::new(0), Mutex::new(config.brain));
    let (connections, problem) = (Mutex::default(), Mutex::default());
    let shared = Arc::new(Shared { brain, store, place, connections, problem, operators: config.operators, news });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    runtime.block_on(async {
        shared.begin().await?;
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|e| Error::Listen(config.listen.to_string(), e))?;
        let at = listener.local_addr().map_err(Error::Start)?;
        let mut term = signal(SignalKind::terminate()).map_err(Error::Start)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Error::Start)?;
        let mut hup = signal(SignalKind::hangup()).map_err(Error::Start)?;
        let renew = async {
            while hup.recv().await.is_some() {
                match config.identity.server() {
                    Ok(renewed) => {
                        *tls.lock().unwrap_or_else(PoisonError::into_inner) = TlsAcceptor::from(renewed);
                        say("certificates read again");
                    }
                    Err(e) => say(&format!("the old certificates stay in use: {e}")),
                }
            }
        };
        let failed = shared.brain().failed();
        let but = if failed.is_empty() { String::new() } else { format!("; failed links: {}", failed.join(" ")) };
        say(&format!("ready on {at}: revision {}{but}", *shared.news.borrow()));
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        tokio::select! {
            () = accept(listener, &tls, &shared) => {}
            () = renew => {}
            () = follow(&shared, say), if shared.store.is_shared() => {}
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        say("ending; agents keep the schedules that they have");
        Ok(())
    })
}

/// What other controllers write.
async fn follow(shared: &Shared, say: &(dyn Fn(&str) + Sync)) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(FOLLOW).await;
        let mut place = shared.place.lock().await;
        let problem = shared.refresh(&mut place).await.err().map_or_else(String::new, |e| e.to_string());
        if problem != said {
            match problem.as_str() {
                "" => say("the store answers again"),
                why => say(&format!("{why}; schedules stay as they are")),
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
        let (tls, shared) = (tls.lock().unwrap_or_else(PoisonError::into_inner).clone(), Arc::clone(shared));
        let handshake = tokio::spawn(async move {
            if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                tokio::spawn(async move { serve(stream, &shared).await });
            }
        });
        handshakes.push_back(handshake.abort_handle());
        while handshakes.front().is_some_and(|oldest| oldest.is_finished()) || handshakes.len() > HANDSHAKES {
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
    let Some(connection) = Connection::of(shared, certificate.into_owned()) else { return };
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

type Answer = Response<Full<Bytes>>;

fn text(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response
}

fn json(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => {
            let mut response = Response::new(Full::new(Bytes::from(body)));
            response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
            response
        }
        Err(e) => text(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

impl Shared {
    /// Nothing that runs under the lock can leave it half changed.
    fn brain(&self) -> MutexGuard<'_, Brain> {
        self.brain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Status {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status { problem, ..self.brain().status() }
    }

    fn is_operator(&self, certificate: &CertificateDer<'_>) -> bool {
        self.operators.iter().any(|name| tls::is_for(certificate, name))
    }

    /// Knows what an earlier or another controller knew, and says in the store of which fabric it is from now on.
    async fn begin(&self) -> Result<(), Error> {
        let mut place = self.place.lock().await;
        for _ in 0..TRIES {
            let (record, at) = self.store.load().await?;
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
            let saved = if record.as_ref() == Some(&next) { Saved::At(at) } else { self.store.save(&next, at).await? };
            if let Saved::At(at) = saved {
                *place = at;
                self.news.send_replace(next.revision);
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Takes over what another controller wrote.
    async fn refresh(&self, place: &mut Place) -> Result<(), Error> {
        let (record, at) = self.store.load().await?;
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
        self.news.send_replace(revision);
        Ok(())
    }

    /// Somebody took the record away: what is known is written again.
    async fn restore(&self, place: &mut Place) -> Result<(), Error> {
        let record = {
            let brain = self.brain();
            Record::new(brain.fingerprint(), brain.revision() + 1, brain.failed())
        };
        if let Saved::At(at) = self.store.save(&record, 0).await? {
            *place = at;
            self.brain().recall(record.revision, &record.failed);
            self.news.send_replace(record.revision);
        }
        Ok(())
    }

    /// In the store first: what was told to edges must not be forgotten.
    async fn change(&self, change: &LinkChange) -> Result<(), Error> {
        let mut place = self.place.lock().await;
        for _ in 0..TRIES {
            let (fabric, next) = {
                let brain = self.brain();
                (brain.fingerprint(), brain.after(change)?)
            };
            let Some((revision, failed)) = next else { return Ok(()) };
            match self.store.save(&Record::new(fabric, revision, failed.clone()), *place).await? {
                Saved::At(at) => {
                    *place = at;
                    self.brain().recall(revision, &failed);
                    self.news.send_replace(revision);
                    return Ok(());
                }
                Saved::Conflict => self.refresh(&mut place).await?,
            }
        }
        Err(Error::Busy)
    }
}

async fn answer(request: Request<Incoming>, shared: &Shared, certificate: &CertificateDer<'_>) -> Answer {
    let path = request.uri().path().to_owned();
    match (request.method().clone(), path.as_str()) {
        (Method::GET, "/v1/status") if shared.is_operator(certificate) => json(&shared.status()),
        (Method::POST, "/v1/links") if shared.is_operator(certificate) => set_link(request, shared).await,
        (Method::GET, "/v1/status") | (Method::POST, "/v1/links") => {
            text(StatusCode::FORBIDDEN, "this certificate is no operator's: see `operators` in the controller's file")
        }
        (Method::GET, path) => match path.strip_prefix("/v1/schedules/") {
            Some(edge) if tls::is_for(certificate, edge) => schedules(&request, edge, shared).await,
            Some(edge) => text(StatusCode::FORBIDDEN, &format!("this certificate is not for {edge:?}")),
            None => text(StatusCode::NOT_FOUND, "there is no such thing here"),
        },
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "there is no such thing here"),
    }
}

async fn schedules(request: &Request<Incoming>, edge: &str, shared: &Shared) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let Some(after) = query.strip_prefix("after=").and_then(|n| n.parse::<u64>().ok()) else {
        return text(StatusCode::BAD_REQUEST, "say which revision you have: ?after=0");
    };
    shared.brain().note(edge, after);
    let mut news = shared.news.subscribe();
    // A revision from elsewhere, of a store that was lost, is as good as none.
    let differs = |revision: &u64| *revision != after;
    match tokio::time::timeout(HOLD, news.wait_for(differs)).await {
        Ok(Ok(_)) => {}
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return response;
        }
    }
    let found = shared.brain().schedules(edge);
    match found {
        Ok(schedules) => json(&schedules),
        Err(e) => text(StatusCode::NOT_FOUND, &e.to_string()),
    }
}

async fn set_link(request: Request<Incoming>, shared: &Shared) -> Answer {
    let body = tokio::time::timeout(PATIENCE, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let Ok(Ok(body)) = body else { return text(StatusCode::BAD_REQUEST, "the body did not come, or is too large") };
    let change: LinkChange = match serde_json::from_slice(&body.to_bytes()) {
        Ok(change) => change,
        Err(e) => return text(StatusCode::BAD_REQUEST, &format!("not {{\"link\": NAME, \"up\": BOOL}}: {e}")),
    };
    match shared.change(&change).await {
        Ok(()) => json(&shared.status()),
        Err(e @ Error::NoLink(_)) => text(StatusCode::NOT_FOUND, &e.to_string()),
        Err(e) => text(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}
