//! One request and its answer, over TCP or TLS.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{header, Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// To connect.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of an answer: schedules of 4,096 peers, who have one of a few each.
const MAX_ANSWER: usize = 2 << 20;

/// Whom to ask.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    host: String,
    port: u16,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Server {
    /// `url`: `https://HOST:PORT`, where the server's certificate is to be for HOST; `http://HOST:PORT` without `tls`. `None` if
    /// it is not of this form.
    pub(super) fn new(url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Option<Server> {
        let (uri, host, port) = parts(url)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        (uri.scheme_str() == Some(scheme)).then(|| Server { url: url.to_owned(), host, port, tls })
    }

    /// Status and body; else why there was no answer.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        wait: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            let Some(tls) = &self.tls else { return Ok::<_, std::io::Error>((Some(stream), None)) };
            let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
            Ok((None, Some(stream)))
        };
        let late = |_| "no answer".to_owned();
        let streams = tokio::time::timeout(PATIENCE, connect).await.map_err(late)?.map_err(|e| e.to_string())?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| e.to_string())?;
        match streams {
            (Some(plain), _) => tokio::time::timeout(wait, exchange(plain, request)).await.map_err(late)?,
            (_, Some(tls)) => tokio::time::timeout(wait, exchange(tls, request)).await.map_err(late)?,
            _ => Err("no connection".to_owned()),
        }
    }
}

/// Can `url` be asked: `https://HOST:PORT`, or `http://HOST:PORT` for etcd?
pub fn is_url(url: &str) -> bool {
    parts(url).is_some()
}

/// Scheme, host and port.
fn parts(url: &str) -> Option<(Uri, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.path().len() > 1 || uri.query().is_some() {
        return None;
    }
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host.clone()).ok()?;
    let port = uri.port_u16()?;
    Some((uri, host, port))
}

/// A connection makes progress in a task of its own, for as long as the exchange lasts.
struct Driven(tokio::task::JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    let _driven = Driven(tokio::spawn(async move { drop(connection.await) }));
    let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| e.to_string())?;
    Ok((status, body.to_bytes()))
}
