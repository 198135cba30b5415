//! The record in etcd, through its JSON gateway: several controllers share it. A change is a transaction on what the record was
//! when it was read, so that of two at once one begins anew.

use super::http::Server;
use super::record::{Place, Record, Saved};
use super::Error;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use hyper::{Method, StatusCode};
use serde_json::{json, Value};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Etcd {
    servers: Vec<Server>,
    /// Which one answered last.
    last: AtomicUsize,
    /// As etcd's JSON has it.
    key: String,
}

impl Etcd {
    pub(super) fn new(servers: Vec<Server>, key: &str) -> Etcd {
        Etcd { servers, last: AtomicUsize::new(0), key: STANDARD.encode(key) }
    }

    /// The record and its place in etcd's history, which is 0 if there is none.
    pub(super) async fn load(&self) -> Result<(Option<Record>, Place), Error> {
        let answer = self.ask("/v3/kv/range", &json!({ "key": self.key })).await?;
        let Some(found) = answer["kvs"].get(0) else { return Ok((None, 0)) };
        let foreign = |problem: String| Error::Store {
            path: "etcd".into(),
            problem,
            remedy: "give another `etcd_key`, or delete this one",
        };
        let place = number(&found["mod_revision"]).ok_or_else(|| foreign("the record has no revision".into()))?;
        let bytes = found["value"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
        Record::read(&bytes).map(|record| (Some(record), place)).map_err(foreign)
    }

    pub(super) async fn save(&self, record: &Record, place: Place) -> Result<Saved, Error> {
        let value = STANDARD.encode(record.text());
        let compare = json!({ "key": self.key, "target": "MOD", "result": "EQUAL", "mod_revision": place.to_string() });
        let put = json!({ "requestPut": { "key": self.key, "value": value } });
        let answer = self.ask("/v3/kv/txn", &json!({ "compare": [compare], "success": [put] })).await?;
        if answer["succeeded"] != true {
            return Ok(Saved::Conflict);
        }
        let place = number(&answer["header"]["revision"]);
        place.map(Saved::At).ok_or_else(|| self.wrong("a transaction without a revision"))
    }

    fn wrong(&self, why: &str) -> Error {
        Error::Answer(self.servers.first().map_or_else(String::new, |s| s.url.clone()), why.to_owned())
    }

    /// The first server that answers, beginning with the one that did the last time.
    async fn ask(&self, path: &str, question: &Value) -> Result<Value, Error> {
        let mut last = self.wrong("there is no server");
        let first = self.last.load(Relaxed);
        for n in 0..self.servers.len() {
            let n = (first + n) % self.servers.len();
            let server = &self.servers[n];
            match server.ask(Method::POST, path, question.to_string().into_bytes(), PATIENCE).await {
                Ok((StatusCode::OK, body)) => {
                    self.last.store(n, Relaxed);
                    return serde_json::from_slice(&body).map_err(|e| Error::Answer(server.url.clone(), e.to_string()));
                }
                Ok((status, _)) => last = Error::Unreachable(server.url.clone(), format!("etcd answers {status}")),
                Err(why) => last = Error::Unreachable(server.url.clone(), why),
            }
        }
        Err(last)
    }
}

/// 64-bit numbers are strings in etcd's JSON.
fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
