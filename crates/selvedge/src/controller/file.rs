//! The controller's configuration file: strict TOML. docs/controller.md describes every key.

use crate::parsed::{on_loopback, Parsed};
use crate::topo::{self, PruneWord};
use config::{ConfigError, Document, Invalid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A longer file is a mistake.
const MAX_FILE: u64 = 1 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Address and port.
    listen: String,
    /// Prometheus metrics at `/metrics`: loopback address and port.
    metrics: Option<Parsed<SocketAddr>>,
    /// `https://HOST:PORT`; the certificate must be for HOST.
    url: String,
    /// The fabric. Its hosts are edges, with the names that `selvedge topo` prints.
    topology: PathBuf,
    /// File with revision and failed links, replaced as a whole. Only one controller at a time may use it.
    store: Option<PathBuf>,
    /// Instead of `store`, for several controllers: etcd's URLs, such as `["http://127.0.0.1:2379"]`. For `https` URLs
    /// the controller uses its own certificate.
    #[serde(default)]
    etcd: Vec<String>,
    /// Instead of `store`, for several controllers: etcd's URLs, such as `["http://127.0.0.1:2379"]`. For `https` URLs
    /// the controller uses its own certificate.
    #[serde(default = "etcd_key")]
    etcd_key: String,
    /// PEM: the authority that both sides trust, the controller's certificate, its key.
    ca: PathBuf,
    /// PEM: the authority that both sides trust, the controller's certificate, its key.
    certificate: PathBuf,
    /// PEM: the authority that both sides trust, the controller's certificate, its key.
    key: PathBuf,
    /// Certificate names that may change links and see the status.
    #[schemars(length(min = 1))]
    operators: Vec<String>,
    /// Outer UDP source port of tree 1; the others follow. At least 1024.
    #[schemars(range(min = 1024))]
    #[serde(default = "first_port")]
    first_port: u16,
    /// Which pairs stop using a tree that lost a link: those with a broken path, or all (`"all"`).
    #[serde(default)]
    prune: Prune,
}

fn etcd_key() -> String {
    "selvedge/controller".to_owned()
}

fn first_port() -> u16 {
    50_001
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Prune {
    #[default]
    Pair,
    All,
}

/// Where the controller keeps its revision and failed links.
#[derive(Debug)]
pub(super) enum Keep {
    File(PathBuf),
    Etcd { urls: Vec<String>, key: String },
}

/// What was read and checked.
#[derive(Debug)]
pub(super) struct File {
    pub(super) listen: SocketAddr,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) url: String,
    pub(super) keep: Keep,
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) operators: Vec<String>,
    pub(super) first_port: u16,
    pub(super) prune: topology::Prune,
    pub(super) topology: topology::Topology,
}

/// The schema of controllers' files.
pub(crate) fn schema() -> serde_json::Value {
    config::schema::of::<Table>("Configuration of `selvedge controller`; see docs/controller.md")
}

/// Paths in it are relative to the file.
///
/// # Errors
/// A file that cannot be read or is wrong, or a topology that is.
pub(super) fn load(path: &Path) -> Result<File, ConfigError> {
    let name = path.display().to_string();
    let text = crate::input::read_configuration(path, MAX_FILE)?;
    let document = Document::parse(&name, &text, "docs/controller.md")?;
    let table: Table = document.read()?;
    let beside = |file: &Path| path.parent().unwrap_or(Path::new("")).join(file);
    let topology = topo::topology_of(&beside(&table.topology))?;
    check(table, topology, beside).map_err(|invalid| document.error(&invalid))
}

fn check(table: Table, topology: topology::Topology, beside: impl Fn(&Path) -> PathBuf) -> Result<File, Invalid> {
    let listen: SocketAddr = table.listen.parse().map_err(|_| {
        let shown: String = table.listen.chars().take(60).collect();
        Invalid::new("listen", format!("{shown:?} is no address and port"), "write \"10.0.0.9:7443\"")
    })?;
    let metrics = on_loopback("metrics", table.metrics)?;
    if !table.url.starts_with("https://") {
        let shown: String = table.url.chars().take(60).collect();
        return Err(Invalid::new("url", format!("{shown:?} is no https URL"), "write \"https://10.0.0.9:7443\""));
    }
    let trees = topology.base_trees().len();
    if trees > topology::MAX_SCHEDULE {
        let problem = format!("has {trees} trees, and a schedule holds {}", topology::MAX_SCHEDULE);
        return Err(Invalid::new("topology", problem, "give a smaller fabric"));
    }
    if table.first_port < 1024 || usize::from(table.first_port) + trees > 1 << 16 {
        let problem = format!("{} does not do for {trees} trees", table.first_port);
        return Err(Invalid::new("first_port", problem, format!("give 1024 to {}", (1 << 16) - trees)));
    }
    let keep = match (table.store, table.etcd.is_empty()) {
        (Some(file), true) => Keep::File(beside(&file)),
        (None, false) => Keep::Etcd { urls: table.etcd, key: table.etcd_key },
        (Some(_), false) => {
            return Err(Invalid::new("etcd", "`store` is there too".to_owned(), "remove one of them"));
        }
        (None, true) => {
            let remedy = "add it, or `etcd` with URLs such as [\"http://127.0.0.1:2379\"]";
            return Err(Invalid::new("store", "is missing".to_owned(), remedy));
        }
    };
    if table.operators.is_empty() || table.operators.iter().any(String::is_empty) {
        let remedy = "give the names in the certificates of those who may change links; the controller's own does";
        return Err(Invalid::new("operators", "names nobody".to_owned(), remedy));
    }
    let prune = match table.prune {
        Prune::Pair => PruneWord::Pair,
        Prune::All => PruneWord::All,
    };
    Ok(File {
        listen,
        metrics,
        url: table.url,
        keep,
        ca: beside(&table.ca),
        certificate: beside(&table.certificate),
        key: beside(&table.key),
        operators: table.operators,
        first_port: table.first_port,
        prune: prune.into(),
        topology,
    })
}

/// Since 1970: above any revision of a store that was lost.
#[allow(clippy::disallowed_methods, reason = "a controller runs in real time")]
fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_millis() as u64)
}

impl File {
    pub(super) fn identity(&self) -> controller::Identity {
        let File { ca, certificate, key, .. } = self;
        controller::Identity { ca: ca.clone(), certificate: certificate.clone(), key: key.clone() }
    }

    pub(super) fn into_config(self) -> controller::Config {
        controller::Config {
            listen: self.listen,
            metrics: self.metrics,
            identity: self.identity(),
            operators: self.operators,
            keep: match self.keep {
                Keep::File(file) => controller::Keep::File(file),
                Keep::Etcd { urls, key } => controller::Keep::Etcd { urls, key },
            },
            brain: controller::Brain::new(self.topology, self.prune, self.first_port, now_ms()),
        }
    }
}
