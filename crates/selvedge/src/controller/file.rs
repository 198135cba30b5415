//! The controller's configuration file: strict TOML. docs/controller.md describes every key.

use super::keys::Keys;
use crate::parsed::{on_loopback, Parsed};
use crate::topo::{self, PruneWord};
use config::{ConfigError, Document, Faults, Invalid};
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
    #[schemars(required)]
    listen: Option<String>,
    /// Prometheus metrics at `/metrics`: loopback address and port.
    metrics: Option<Parsed<SocketAddr>>,
    /// `https://HOST:PORT`; the certificate must be for HOST.
    #[schemars(required)]
    url: Option<String>,
    /// The fabric. Its hosts are edges, with the names that `selvedge topo` prints.
    #[schemars(required)]
    topology: Option<PathBuf>,
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
    #[schemars(required)]
    ca: Option<PathBuf>,
    /// PEM: the authority that both sides trust, the controller's certificate, its key.
    #[schemars(required)]
    certificate: Option<PathBuf>,
    /// PEM: the authority that both sides trust, the controller's certificate, its key.
    #[schemars(required)]
    key: Option<PathBuf>,
    /// Certificate names that may change links and see the status.
    #[schemars(required, length(min = 1))]
    operators: Option<Vec<String>>,
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
/// A file that cannot be read; all that is wrong with it, and with its topology.
pub(super) fn load(path: &Path) -> Result<(File, Keys), ConfigError> {
    let name = path.display().to_string();
    let text = crate::input::read_configuration(path, MAX_FILE)?;
    let document = Document::parse(&name, &text, "docs/controller.md")?;
    let (table, mut faults) = document.read_what_can_be::<Table>();
    let made = table.and_then(|table| {
        let lists_etcd = document.table().contains_key("etcd");
        check(table, lists_etcd, &mut faults, |file| path.parent().unwrap_or(Path::new("")).join(file))
    });
    let file = faults.unless(made)?;
    let certificates = [("ca", file.ca.clone()), ("certificate", file.certificate.clone()), ("key", file.key.clone())];
    let store = match file.keep {
        Keep::File(_) => "store",
        Keep::Etcd { .. } => "etcd",
    };
    let keys = Keys::new(document, certificates, file.url.clone(), store);
    Ok((file, keys))
}

/// The key that must be there.
fn needed<T>(faults: &mut Faults<'_>, key: &str, value: Option<T>) -> Option<T> {
    if value.is_none() {
        // One that could not be read has its fault already.
        faults.tell(Invalid::new(key, format!("`{key}` is missing"), format!("add `{key} = ...`")));
    }
    value
}

/// `lists_etcd`: the key `etcd` is there, also without an URL.
fn check(table: Table, lists_etcd: bool, faults: &mut Faults<'_>, beside: impl Fn(&Path) -> PathBuf) -> Option<File> {
    let listen = needed(faults, "listen", table.listen).and_then(|text| faults.note(check_listen(&text)));
    let metrics = faults.note(on_loopback("metrics", table.metrics));
    let url = needed(faults, "url", table.url).and_then(|url| faults.note(check_url(url)));
    let topology = needed(faults, "topology", table.topology);
    let topology = topology.and_then(|file| {
        let file = beside(&file);
        // What is wrong in the file is told of its own lines.
        let there = is_readable(&file).map_err(|e| {
            let remedy = "give the path of a scenario or a topology file, relative to this one";
            Invalid::value("topology", format!("{} cannot be read: {e}", file.display()), remedy)
        });
        let named = faults.place("topology");
        faults.note(there).and_then(|_| faults.add(topo::topology_of(&file).map_err(|e| e.named_by(&named))))
    });
    let trees = topology.as_ref().map(|topology| topology.base_trees().len());
    faults.note(check_trees(trees.unwrap_or(1), table.first_port));
    let keep = faults.note(match (table.store, table.etcd.is_empty()) {
        (Some(file), true) => Ok(Keep::File(beside(&file))),
        (None, false) => check_etcd(table.etcd).map(|urls| Keep::Etcd { urls, key: table.etcd_key }),
        (Some(_), false) => Err(Invalid::new("etcd", "`store` is there too", "remove one of them")),
        (None, true) if lists_etcd => {
            let remedy = "write [\"http://127.0.0.1:2379\"], or `store` with a file instead";
            Err(Invalid::value("etcd", "names no URL", remedy))
        }
        (None, true) => {
            let remedy = "add it, or `etcd` with URLs such as [\"http://127.0.0.1:2379\"]";
            Err(Invalid::new("store", "is missing", remedy))
        }
    });
    let operators = needed(faults, "operators", table.operators).and_then(|names| {
        let remedy = "give the names in the certificates of those who may change links; the controller's own does";
        faults.note(match names.iter().position(|name| !controller::is_name(name)) {
            _ if names.is_empty() || names.iter().any(String::is_empty) => {
                Err(Invalid::value("operators", "names nobody", remedy))
            }
            Some(n) => {
                let problem = format!("no certificate can be for {:?}", shown(&names[n]));
                Err(Invalid::value(format!("operators.{n}"), problem, remedy))
            }
            None => Ok(names),
        })
    });
    let mut path = |key: &str, file: Option<PathBuf>| needed(faults, key, file).map(|file| beside(&file));
    let (ca, certificate, key) = (path("ca", table.ca), path("certificate", table.certificate), path("key", table.key));
    let prune = match table.prune {
        Prune::Pair => PruneWord::Pair,
        Prune::All => PruneWord::All,
    };
    Some(File {
        listen: listen?,
        metrics: metrics?,
        url: url?,
        keep: keep?,
        ca: ca?,
        certificate: certificate?,
        key: key?,
        operators: operators?,
        first_port: table.first_port,
        prune: prune.into(),
        topology: topology?,
    })
}

/// As much of a text as a message has room for.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

fn check_listen(text: &str) -> Result<SocketAddr, Invalid> {
    text.parse().map_err(|_| {
        Invalid::value("listen", format!("{:?} is no address and port", shown(text)), "write \"10.0.0.9:7443\"")
    })
}

fn is_readable(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path)? {
        meta if meta.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        meta if meta.is_file() => std::fs::File::open(path).map(drop),
        _ => Ok(()), // to open a pipe waits
    }
}

fn check_etcd(urls: Vec<String>) -> Result<Vec<String>, Invalid> {
    match urls.iter().position(|url| !controller::is_url(url)) {
        None => Ok(urls),
        Some(n) => {
            let problem = format!("{:?} is no URL with a host and a port", shown(&urls[n]));
            Err(Invalid::value(format!("etcd.{n}"), problem, "write \"http://127.0.0.1:2379\""))
        }
    }
}

fn check_url(url: String) -> Result<String, Invalid> {
    if url.starts_with("https://") && controller::is_url(&url) {
        return Ok(url);
    }
    let problem = format!("{:?} is no https URL with a host and a port", shown(&url));
    Err(Invalid::value("url", problem, "write \"https://10.0.0.9:7443\""))
}

/// Each tree has a port of its own.
fn check_trees(trees: usize, first_port: u16) -> Result<(), Invalid> {
    if trees > topology::MAX_SCHEDULE {
        let problem = format!("has {trees} trees, and a schedule holds {}", topology::MAX_SCHEDULE);
        return Err(Invalid::value("topology", problem, "give a smaller fabric"));
    }
    if first_port < 1024 || usize::from(first_port) + trees > 1 << 16 {
        let problem = format!("{first_port} does not do for {trees} trees");
        return Err(Invalid::value("first_port", problem, format!("give 1024 to {}", (1 << 16) - trees)));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "listen = \"127.0.0.1:7443\"\nurl = \"https://127.0.0.1:7443\"\ntopology = \"fabric.toml\"\n\
        store = \"store.json\"\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"c.key\"\noperators = [\"operator\"]\n";

    /// Place and key of each fault, the directory left out.
    fn told(text: &str, fabric: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        std::fs::write(directory.join("fabric.toml"), fabric).unwrap();
        std::fs::write(directory.join("controller.toml"), text).unwrap();
        let error = load(&directory.join("controller.toml")).map(drop);
        let Err(error) = error else { return Vec::new() };
        let name = |place: &str| place.rsplit('/').next().unwrap().to_owned();
        error.faults().iter().map(|fault| format!("{} {}", name(&fault.place), fault.key)).collect()
    }

    const FABRIC: &str = "[topology]\nkind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n";

    #[test]
    fn all_mistakes_are_told_at_once() {
        assert_eq!(told(WHOLE, FABRIC), [""; 0]);
        let text = WHOLE
            .replace("\"127.0.0.1:7443\"", "\"here\"")
            .replace("https", "http")
            .replace("store = \"store.json\"\n", "first_port = 80\n")
            .replace("[\"operator\"]", "[]")
            + "metrics = \"0.0.0.0:9465\"\n";
        let faults = told(&text, &FABRIC.replace("leaves = 2", "leafs = 2"));
        let places = [
            "controller.toml:1 listen",
            "controller.toml:9 metrics",
            "controller.toml:2 url",
            "fabric.toml:3 topology.leafs",
            "controller.toml:4 first_port",
            "controller.toml store",
            "controller.toml:8 operators",
        ];
        assert_eq!(faults, places);
    }

    #[test]
    fn what_the_file_names_and_an_empty_list_are_told_with_their_key() {
        assert_eq!(told(&WHOLE.replace("store = \"store.json\"", "etcd = []"), FABRIC), ["controller.toml:4 etcd"]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("controller.toml");
        std::fs::write(directory.path().join("fabric.toml"), FABRIC.replace("leaves", "leafs")).unwrap();
        std::fs::write(&file, WHOLE).unwrap();
        let said = load(&file).map(drop).unwrap_err().to_string();
        let named = format!("({}:3 names the file)", file.display());
        assert!(said.contains("fabric.toml:3: topology.leafs: unknown key `leafs`") && said.contains(&named), "{said}");
    }

    #[test]
    fn what_cannot_be_read_hides_nothing_else() {
        let text =
            WHOLE.replace("url = ", "ulr = ").replace("\"127.0.0.1:7443\"", "7443").replace("key = \"c.key\"\n", "");
        let faults = told(&(text + "first_port = 80\n"), FABRIC);
        let places = ["controller.toml:1 listen", "controller.toml:2 ulr", "controller.toml:8 first_port"];
        assert_eq!(faults, places);
        // A missing key is told once what it could be called is known.
        let faults = told(&(WHOLE.replace("key = \"c.key\"\n", "") + "first_port = 80\n"), FABRIC);
        assert_eq!(faults, ["controller.toml:8 first_port", "controller.toml key"]);
    }
}
