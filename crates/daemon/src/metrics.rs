//! A page of Prometheus metrics over HTTP. Whoever reads the configuration sees to it that the address is the loopback's.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{header, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const CONNECTIONS: usize = 8;
/// For a whole connection, which carries one request.
const PATIENCE: Duration = Duration::from_secs(5);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listens until dropped.
pub struct MetricsServer {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl MetricsServer {
    /// `page` gives OpenMetrics text, as [`text`] does; `None` while the daemon ends.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub async fn start<P, F>(address: SocketAddr, page: P) -> io::Result<MetricsServer>
    where
        P: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Option<String>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await?;
        Ok(MetricsServer { address, task: tokio::spawn(accept(listener, page)) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<P, F>(listener: TcpListener, page: P)
where
    P: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = Option<String>> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await; // out of descriptors, perhaps
            continue;
        };
        let page = page.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, &page));
            let connection = hyper::server::conn::http1::Builder::new()
                .keep_alive(false)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(PATIENCE, connection).await;
            drop(permit);
        });
    }
}

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn answer<P, F>(request: Request<Incoming>, page: &P) -> impl Future<Output = Answer>
where
    P: Fn() -> F,
    F: Future<Output = Option<String>>,
{
    let refused = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => None,
        (&Method::GET, _) => Some((StatusCode::NOT_FOUND, "the metrics are at /metrics")),
        _ => Some((StatusCode::METHOD_NOT_ALLOWED, "GET only")),
    };
    let accepted = request.headers().get_all(header::ACCEPT).iter();
    let open =
        accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("application/openmetrics-text"));
    let page = refused.is_none().then(page);
    async move {
        let text = match page {
            Some(page) => page.await,
            None => None,
        };
        let Some(text) = text else {
            let (status, why) = refused.unwrap_or((StatusCode::SERVICE_UNAVAILABLE, "it is ending"));
            return Ok(respond(status, PLAIN, format!("{why}\n")));
        };
        Ok(match open {
            true => respond(StatusCode::OK, OPEN_METRICS, text),
            false => respond(StatusCode::OK, PLAIN, plain(&text)),
        })
    }
}

fn respond(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// OpenMetrics text.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    let _ = prometheus_client::encoding::text::encode(&mut text, registry); // writing to a string cannot fail
    text
}

/// The older text format, for those who do not ask for OpenMetrics, such as `curl` for `promtool check metrics`: there a counter's
/// family has its sample's name, and nothing marks the end.
fn plain(text: &str) -> String {
    let counter = |line| str::strip_prefix(line, "# TYPE ")?.strip_suffix(" counter");
    let counters: HashSet<&str> = text.lines().filter_map(counter).collect();
    let mut out = String::with_capacity(text.len() + 1024);
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
                out.extend(["# ", kind, " ", name, "_total ", rest]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;

    #[test]
    fn both_formats_name_a_counter_as_they_should() {
        let mut registry = Registry::with_prefix("x");
        let counter: Family<[(&str, &str); 1], Counter> = Family::default();
        counter.get_or_create(&[("by", "# TYPE x_level counter")]).inc();
        registry.register("events", "Things that happened", counter);
        registry.register("level", "How much there is", Gauge::<i64>::default());
        let open = text(&registry);
        assert_eq!(
            open,
            "# HELP x_events Things that happened.\n# TYPE x_events counter\nx_events_total{by=\"# TYPE x_level counter\"} 1\n\
             # HELP x_level How much there is.\n# TYPE x_level gauge\nx_level 0\n# EOF\n"
        );
        assert_eq!(
            plain(&open),
            "# HELP x_events_total Things that happened.\n# TYPE x_events_total counter\n\
             x_events_total{by=\"# TYPE x_level counter\"} 1\n\
             # HELP x_level How much there is.\n# TYPE x_level gauge\nx_level 0\n"
        );
    }
}
