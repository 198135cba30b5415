//! Asking a controller.

use super::brain::{LinkChange, Schedules, Status};
use super::{Error, Identity};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{header, Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// To connect, and for answers that are not held.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than a controller holds a question.
const HELD: Duration = Duration::from_secs(40);
/// Of an answer: schedules of 8,000 edges.
const MAX_ANSWER: usize = 16 << 20;

/// One controller and our certificate for it.
pub struct Client {
    url: String,
    host: String,
    port: u16,
    tls: Arc<rustls::ClientConfig>,
}

/// What came of asking for schedules.
#[derive(Debug)]
pub enum Fetched {
    New(Schedules),
    /// Nothing new; the controller lives.
    Same,
}

/// What a controller says of itself, after `change` if there is one. Waits for the answer.
///
/// # Errors
/// As [`Client::status`].
pub fn operate(url: &str, identity: &Identity, change: Option<&LinkChange>) -> Result<Status, Error> {
    let client = Client::new(url, identity)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    runtime.block_on(async {
        match change {
            None => client.status().await,
            Some(change) => client.set_link(change).await,
        }
    })
}

/// A connection makes progress in a task of its own, for as long as the exchange lasts.
struct Driven(tokio::task::JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// `url`: `https://HOST:PORT`; the controller's certificate is to be for HOST.
    ///
    /// # Errors
    /// [`Error::Url`]; certificates that cannot be used.
    pub fn new(url: &str, identity: &Identity) -> Result<Client, Error> {
        let wrong = || Error::Url(url.chars().take(100).collect());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("https") || uri.path().len() > 1 || uri.query().is_some() {
            return Err(wrong());
        }
        let host = uri.host().map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned());
        let (Some(host), Some(port)) = (host, uri.port_u16()) else { return Err(wrong()) };
        ServerName::try_from(host.clone()).map_err(|_| wrong())?;
        Ok(Client { url: url.to_owned(), host, port, tls: identity.client()? })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The schedules of `edge`, as soon as they are others than those of revision `after`.
    ///
    /// # Errors
    /// Nobody answers, or not a controller, or it refuses.
    pub async fn schedules(&self, edge: &str, after: u64) -> Result<Fetched, Error> {
        let path = format!("/v1/schedules/{edge}?after={after}");
        match self.ask(Method::GET, &path, Vec::new(), HELD).await? {
            None => Ok(Fetched::Same),
            Some(body) => self.read(&body).map(Fetched::New),
        }
    }

    /// # Errors
    /// As for schedules.
    pub async fn status(&self) -> Result<Status, Error> {
        let body = self.ask(Method::GET, "/v1/status", Vec::new(), PATIENCE).await?;
        self.read(&body.unwrap_or_default())
    }

    /// # Errors
    /// As for schedules.
    pub async fn set_link(&self, change: &LinkChange) -> Result<Status, Error> {
        let body = serde_json::to_vec(change).map_err(|e| Error::Answer(self.url.clone(), e.to_string()))?;
        let body = self.ask(Method::POST, "/v1/links", body, PATIENCE).await?;
        self.read(&body.unwrap_or_default())
    }

    fn read<T: serde::de::DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body).map_err(|e| Error::Answer(self.url.clone(), e.to_string()))
    }

    /// The answer's body; `None` if it says that there is none.
    async fn ask(&self, method: Method, path: &str, body: Vec<u8>, wait: Duration) -> Result<Option<Bytes>, Error> {
        let lost = |why: String| Error::Unreachable(self.url.clone(), why);
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
            TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await
        };
        let stream = tokio::time::timeout(PATIENCE, connect).await;
        let stream = stream.map_err(|_| lost("no answer".into()))?.map_err(|e| lost(e.to_string()))?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let _driven = Driven(tokio::spawn(async move { drop(connection.await) }));
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, format!("{}:{}", self.host, self.port))
                .header(header::CONNECTION, "close")
                .body(Full::new(Bytes::from(body)));
            let Ok(request) = request else { return Ok(None) };
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>(Some((status, Limited::new(response.into_body(), MAX_ANSWER).collect().await)))
        };
        let answer = tokio::time::timeout(wait, exchange).await;
        let answer = answer.map_err(|_| lost("no answer".into()))?.map_err(|e| lost(e.to_string()))?;
        let Some((status, body)) = answer else { return Err(Error::Url(self.url.clone())) };
        let body = body.map_err(|e| Error::Answer(self.url.clone(), e.to_string()))?.to_bytes();
        match status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NO_CONTENT => Ok(None),
            _ => {
                let said: String = String::from_utf8_lossy(&body).chars().take(300).collect();
                Err(Error::Refused(format!("{}: {}", self.url, said.lines().next().unwrap_or("it refuses"))))
            }
        }
    }
}
