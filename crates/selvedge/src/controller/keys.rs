//! Which key of the file an error comes from that was met only when the controller ran or was asked.

use config::{ConfigError, Document, Invalid};
use controller::Error;
use std::path::PathBuf;

/// The file's keys, and what they say.
#[derive(Debug)]
pub(super) struct Keys {
    document: Document,
    /// Keys whose values are paths of certificates.
    certificates: [(&'static str, PathBuf); 3],
    url: String,
    store: &'static str,
}

impl Keys {
    /// `store` is the key that says where the record is.
    pub(super) fn new(
        document: Document,
        certificates: [(&'static str, PathBuf); 3],
        url: String,
        store: &'static str,
    ) -> Keys {
        Keys { document, certificates, url, store }
    }

    /// The error at its key, if it is one that another value of a key, or another thing there, can mend.
    pub(super) fn place(&self, error: Error) -> Result<ConfigError, Error> {
        let Some(key) = self.key(&error) else { return Err(error) };
        let text = error.to_string();
        let usual = match key {
            "url" => "start the controller there, or correct the URL",
            "etcd" => "start etcd there, or correct the URLs",
            _ => "correct it",
        };
        let (problem, remedy) = text.rsplit_once("; ").unwrap_or((&text, usual));
        Ok(self.document.error(&Invalid::new(key, problem, remedy)))
    }

    fn key(&self, error: &Error) -> Option<&'static str> {
        match error {
            Error::Certificate(path, ..) => {
                self.certificates.iter().find(|(_, file)| file == path).map(|(key, _)| *key)
            }
            Error::Io(..) | Error::Held(_) | Error::Store { .. } => Some(self.store),
            Error::Listen(..) => Some("listen"),
            Error::Metrics(..) => Some("metrics"),
            Error::Url(url) | Error::Unreachable(url, _) | Error::Answer(url, _) => {
                Some(if *url == self.url { "url" } else { "etcd" })
            }
            Error::OtherFabric => Some("topology"),
            Error::Start(_) | Error::Refused(_) | Error::NoLink(_) | Error::Busy | Error::NoEdge(_) => None,
        }
    }
}
