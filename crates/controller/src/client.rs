//! Asking a controller.

use super::brain::{LinkChange, Schedules, Status};
use super::http::Server;
use super::{Error, Identity};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use std::time::Duration;

/// For answers that are not held.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than a controller holds a question.
const HELD: Duration = Duration::from_secs(40);

/// One controller and our certificate for it.
pub struct Client(Server);

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

impl Client {
    /// `url`: `https://HOST:PORT`; the controller's certificate is to be for HOST.
    ///
    /// # Errors
    /// [`Error::Url`]; certificates that cannot be used.
    pub fn new(url: &str, identity: &Identity) -> Result<Client, Error> {
        let server = Server::new(url, Some(identity.client()?));
        server.map(Client).ok_or_else(|| Error::Url(url.chars().take(100).collect()))
    }

    pub fn url(&self) -> &str {
        &self.0.url
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
        let body = serde_json::to_vec(change).map_err(|e| Error::Answer(self.url().into(), e.to_string()))?;
        let body = self.ask(Method::POST, "/v1/links", body, 4 * PATIENCE).await?;
        self.read(&body.unwrap_or_default())
    }

    fn read<T: serde::de::DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body).map_err(|e| Error::Answer(self.url().into(), e.to_string()))
    }

    /// The answer's body; `None` if it says that there is none.
    async fn ask(&self, method: Method, path: &str, body: Vec<u8>, wait: Duration) -> Result<Option<Bytes>, Error> {
        let answer = self.0.ask(method, path, body, wait).await;
        let (status, body) = answer.map_err(|why| Error::Unreachable(self.url().into(), why))?;
        match status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NO_CONTENT => Ok(None),
            _ => {
                let said: String = String::from_utf8_lossy(&body).chars().take(300).collect();
                Err(Error::Refused(format!("{}: {}", self.url(), said.lines().next().unwrap_or("it refuses"))))
            }
        }
    }
}
