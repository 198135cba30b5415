//! Certificates of the tests' own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A directory with an authority and what it certified; gone with the test.
pub(crate) struct Authority(tempfile::TempDir);

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The authority's certificate, one for `name` (a DNS name or an IP address), and its key.
    pub(crate) fn files(&self, name: &str) -> (PathBuf, PathBuf, PathBuf) {
        self.certify(name, &[name]);
        (self.path("ca.pem"), self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))
    }

    fn certify(&self, file: &str, names: &[&str]) {
        let station = format!("{file}={}", names.join(","));
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command
            .args(["controller", "certs"])
            .arg(self.0.path())
            .args([&station, "--days=2", "--renew"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{station}: {}", String::from_utf8_lossy(&output.stderr));
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
