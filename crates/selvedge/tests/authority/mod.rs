//! Certificates of the tests' own, made by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory with an authority and what it certified; gone with the test.
pub(crate) struct Authority(PathBuf);

impl Authority {
    /// `None`, with the reason printed, without openssl.
    pub(crate) fn new(directory: &Path) -> Option<Authority> {
        if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: openssl is not installed");
            return None;
        }
        fs::create_dir_all(directory).unwrap();
        let authority = Authority(directory.to_owned());
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
        );
        Some(authority)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The authority's certificate, one for `name` (a DNS name or an IP address), and its key.
    pub(crate) fn files(&self, name: &str) -> (PathBuf, PathBuf, PathBuf) {
        self.certify(name, &[name]);
        (self.path("ca.pem"), self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))
    }

    fn certify(&self, file: &str, names: &[&str]) {
        let kind = |name: &str| if name.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
        let names: Vec<String> = names.iter().map(|name| format!("{}:{name}", kind(name))).collect();
        fs::write(self.path("names"), format!("subjectAltName={}\n", names.join(","))).unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={file} -keyout {file}.key -out {file}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {file}.pem"
        ));
    }

    /// The file of a controller on port 7443 of `address`, which is its own operator, with `fabric` as its topology.
    pub(crate) fn controller(&self, address: &str, fabric: &str) -> PathBuf {
        self.certify("controller", &[address, "operator"]);
        fs::write(self.path("fabric.toml"), fabric).unwrap();
        let text = format!(
            "listen = \"{address}:7443\"\nurl = \"https://{address}:7443\"\ntopology = \"fabric.toml\"\nstore = \"store.json\"\n\
             ca = \"ca.pem\"\ncertificate = \"controller.pem\"\nkey = \"controller.key\"\noperators = [\"operator\"]\n"
        );
        fs::write(self.path("controller.toml"), text).unwrap();
        self.path("controller.toml")
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
