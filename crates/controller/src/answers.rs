//! What edges and operators are answered.

use super::brain::LinkChange;
use super::metrics::{Asked, Refused};
use super::shared::Shared;
use super::{tls, Error};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{header, Method, Request, Response, StatusCode};
use rustls::pki_types::CertificateDer;
use std::time::Duration;

/// For a request's headers or body.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// A question without news is answered after so long: whoever asks sees that the controller lives.
pub(super) const HOLD: Duration = Duration::from_secs(20);
const MAX_BODY: usize = 4096;
/// Before an edge's name.
const SCHEDULES: &str = "/v1/schedules/";

pub(super) type Answer = Response<Full<Bytes>>;

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

pub(super) async fn answer(request: Request<Incoming>, shared: &Shared, certificate: &CertificateDer<'_>) -> Answer {
    let path = request.uri().path().to_owned();
    shared.tally.ask(match path.as_str() {
        "/v1/status" => Asked::Status,
        "/v1/links" => Asked::Links,
        path if path.starts_with(SCHEDULES) => Asked::Schedules,
        _ => Asked::Other,
    });
    let answer = handle(request, &path, shared, certificate).await;
    if let Some(reason) = Refused::by(answer.status()) {
        shared.tally.refuse(reason);
    }
    answer
}

async fn handle(request: Request<Incoming>, path: &str, shared: &Shared, certificate: &CertificateDer<'_>) -> Answer {
    match (request.method().clone(), path) {
        (Method::GET, "/v1/status") if shared.is_operator(certificate) => json(&shared.status()),
        (Method::POST, "/v1/links") if shared.is_operator(certificate) => set_link(request, shared).await,
        (Method::GET, "/v1/status") | (Method::POST, "/v1/links") => {
            text(StatusCode::FORBIDDEN, "this certificate is no operator's: see `operators` in the controller's file")
        }
        (Method::GET, path) => match path.strip_prefix(SCHEDULES) {
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
    if shared.brain().note(edge, after) {
        shared.tally.hear(edge);
    }
    let mut news = shared.news.subscribe();
    // A revision from elsewhere, of a store that was lost, is as good as none.
    let differs = |revision: &u64| *revision != after;
    match tokio::time::timeout(HOLD, news.wait_for(differs)).await {
        Ok(Ok(_)) => {}
        _ => {
            shared.tally.unchanged.inc();
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return response;
        }
    }
    let found = shared.brain().schedules(edge);
    match found {
        Ok(schedules) => {
            shared.tally.given.inc();
            json(&schedules)
        }
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
