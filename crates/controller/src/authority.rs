//! An authority for those who have none: `selvedge controller certs`.

use super::Error;
use files::{read_regular_text, replace};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::RootCertStore;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use time::{Duration, OffsetDateTime};

const AUTHORITY_DAYS: u32 = 3650;
/// Clocks of hosts may be behind.
const EARLIER: Duration = Duration::hours(1);
const MAX_BYTES: u64 = 1 << 20;

/// A certificate to make: `host1`, or `controller=10.0.0.9,operator`, where files and names differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// `FILE.pem` and `FILE.key`.
    file: String,
    /// DNS names (of edges, of operators) and IP addresses.
    names: Vec<String>,
}

impl FromStr for Station {
    type Err = String;

    fn from_str(text: &str) -> Result<Station, String> {
        let (file, names) = text.split_once('=').unwrap_or((text, text));
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if file.is_empty()
            || file.len() > 200
            || !file.chars().all(fits)
            || file.starts_with(['.', '-'])
            || file == "ca"
        {
            return Err(format!("{file:?} cannot name a file: use letters, digits, '.', '_' and '-', and not \"ca\""));
        }
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        match names.iter().find(|name| ServerName::try_from(name.as_str()).is_err()) {
            Some(name) => Err(format!("{name:?} is neither a DNS name nor an IP address")),
            None => Ok(Station { file: file.to_owned(), names }),
        }
    }
}

/// Writes a certificate and a key for each station below `directory`, and the authority's, `ca.pem` and `ca.key`, unless it is there.
/// All files are readable for their owner only. A certificate lasts `days`; with `renew`, one that exists is replaced, and its key stays.
/// Returns what was written.
///
/// # Errors
/// A file that is in the way, or half an authority, before anything is written; an authority that cannot sign for this; what the
/// file system says.
pub fn certify(directory: &Path, stations: &[Station], days: u32, renew: bool) -> Result<Vec<PathBuf>, Error> {
    let path = |name: &str, end: &str| directory.join(format!("{name}.{end}"));
    let mut seen = BTreeSet::new();
    for station in stations {
        let (certificate, key) = (path(&station.file, "pem"), path(&station.file, "key"));
        if !seen.insert(&station.file) {
            return Err(unfit(&certificate, "is asked for twice", "name each file once"));
        }
        let there = [certificate, key].into_iter().find(|path| !renew && path.exists());
        if let Some(there) = there {
            return Err(unfit(&there, "is there already", "give --renew to replace certificates and keep their keys"));
        }
    }
    let mut files = Vec::new();
    let (authority, signer) = authority(directory, &mut files)?;
    for station in stations {
        let at = path(&station.file, "key");
        let key = if at.exists() { read_key(&at)? } else { new_key(&at, &mut files)? };
        let at = path(&station.file, "pem");
        let certificate =
            station.parameters(days).and_then(|made| made.signed_by(&key, &signer)).map_err(impossible(&at))?;
        verify(&authority, certificate.der()).map_err(|problem| {
            let remedy = "give a directory whose authority this command made, or use your own authority's tools";
            unfit(&directory.join("ca.pem"), &problem, remedy)
        })?;
        files.push((at, certificate.pem()));
    }
    if directory.symlink_metadata().is_ok() && !directory.is_dir() {
        return Err(unfit(directory, "is no directory", "give another"));
    }
    std::fs::create_dir_all(directory).map_err(|e| Error::Io("make", directory.to_owned(), e))?;
    write(&files)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// All of them. After an error those that are new go: half an authority could sign nothing, and would be in the way.
fn write(files: &[(PathBuf, String)]) -> Result<(), Error> {
    let mut new = Vec::new();
    for (path, text) in files {
        let is_new = path.symlink_metadata().is_err();
        if let Err(e) = replace(path, text.as_bytes()) {
            new.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err(Error::Io("write", path.clone(), e));
        }
        new.extend(is_new.then_some(path));
    }
    Ok(())
}

impl Station {
    fn parameters(&self, days: u32) -> Result<CertificateParams, rcgen::Error> {
        let mut made = parameters(self.names.clone(), &self.file, days)?;
        made.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A controller asks its peers, too, and operators ask from anywhere.
        made.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        made.use_authority_key_identifier_extension = true;
        Ok(made)
    }
}

fn parameters(names: Vec<String>, called: &str, days: u32) -> Result<CertificateParams, rcgen::Error> {
    let mut made = CertificateParams::new(names)?;
    made.distinguished_name = rcgen::DistinguishedName::new();
    made.distinguished_name.push(DnType::CommonName, called);
    let now = OffsetDateTime::now_utc();
    made.not_before = now - EARLIER;
    made.not_after = now + Duration::days(i64::from(days));
    Ok(made)
}

/// The authority's certificates as PEM and what signs for it; made, and put into `files`, if `directory` has none.
fn authority(
    directory: &Path,
    files: &mut Vec<(PathBuf, String)>,
) -> Result<(String, Issuer<'static, KeyPair>), Error> {
    let (certificate, key) = (directory.join("ca.pem"), directory.join("ca.key"));
    let mut made = parameters(Vec::new(), "selvedge", AUTHORITY_DAYS).map_err(impossible(&certificate))?;
    made.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    made.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    match (certificate.exists(), key.exists()) {
        (true, true) => {
            let text =
                read_regular_text(&certificate, MAX_BYTES).map_err(|e| Error::Io("read", certificate.clone(), e))?;
            Ok((text, Issuer::new(made, read_key(&key)?)))
        }
        (false, false) => {
            let signer = new_key(&key, files)?;
            let text = made.self_signed(&signer).map_err(impossible(&certificate))?.pem();
            files.push((certificate, text.clone()));
            Ok((text, Issuer::new(made, signer)))
        }
        (true, false) => {
            Err(unfit(&key, "is not there, though ca.pem is", "put the authority's key beside its certificate"))
        }
        (false, true) => {
            Err(unfit(&certificate, "is not there, though ca.key is", "put the authority's certificate beside its key"))
        }
    }
}

fn new_key(path: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<KeyPair, Error> {
    let key = KeyPair::generate().map_err(impossible(path))?;
    files.push((path.to_owned(), key.serialize_pem()));
    Ok(key)
}

fn read_key(path: &Path) -> Result<KeyPair, Error> {
    let text = read_regular_text(path, MAX_BYTES).map_err(|e| Error::Io("read", path.to_owned(), e))?;
    KeyPair::from_pem(&text).map_err(|e| unfit(path, &e.to_string(), "give a private key as PEM, in PKCS #8"))
}

/// Will those who trust `authority` take this certificate?
fn verify(authority: &str, certificate: &CertificateDer<'_>) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(root.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    }
    let made = webpki::EndEntityCert::try_from(certificate).map_err(|e| e.to_string())?;
    let (all, usage) = (webpki::ALL_VERIFICATION_ALGS, webpki::KeyUsage::client_auth());
    made.verify_for_usage(all, &roots.roots, &[], UnixTime::now(), usage, None, None)
        .map(drop)
        .map_err(|e| format!("did not sign what ca.key signed: {e}"))
}

fn unfit(path: &Path, problem: &str, remedy: &'static str) -> Error {
    Error::Certificate(path.to_owned(), problem.to_owned(), remedy)
}

fn impossible(path: &Path) -> impl Fn(rcgen::Error) -> Error {
    let path = path.to_owned();
    move |e| Error::Certificate(path.clone(), e.to_string(), "give other names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// What is in a directory, in order.
    fn names(dir: &Path) -> Vec<String> {
        let found = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn stations(all: &[&str]) -> Vec<Station> {
        all.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn certificate(path: &Path) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(path).unwrap()
    }

    #[test]
    fn certificates_are_for_their_names_and_files_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let written = certify(dir, &stations(&["host1", "controller=10.0.0.9,fd00::9,operator"]), 30, false).unwrap();
        assert_eq!(names(dir), ["ca.key", "ca.pem", "controller.key", "controller.pem", "host1.key", "host1.pem"]);
        for path in written {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
        }
        let (host, controller) = (certificate(&dir.join("host1.pem")), certificate(&dir.join("controller.pem")));
        for name in ["10.0.0.9", "fd00::9", "operator"] {
            assert!(super::super::tls::is_for(&controller, name) && !super::super::tls::is_for(&host, name), "{name}");
        }
        assert!(super::super::tls::is_for(&host, "host1"));
        for file in ["host1", "controller"] {
            let path = |end: &str| dir.join(format!("{file}.{end}"));
            let identity = crate::Identity { ca: dir.join("ca.pem"), certificate: path("pem"), key: path("key") };
            identity.client().unwrap();
            identity.server().unwrap();
        }
    }

    #[test]
    fn what_is_there_stays_unless_renewed_and_then_its_key_stays() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        certify(dir, &stations(&["host1"]), 30, false).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        let before: Vec<_> = names(dir).iter().map(|name| read(name)).collect();
        let refused = certify(dir, &stations(&["host2", "host1"]), 30, false).unwrap_err().to_string();
        assert!(refused.contains("host1.pem: is there already; give --renew"), "{refused}");
        assert_eq!(names(dir).iter().map(|name| read(name)).collect::<Vec<_>>(), before, "nothing was written");
        let written = certify(dir, &stations(&["host1", "host2"]), 30, true).unwrap();
        let new: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(new, ["host1.pem", "host2.key", "host2.pem"]);
        assert!(read("host1.pem") != before[3] && read("host1.key") == before[2] && read("ca.pem") == before[1]);
    }

    #[test]
    fn half_an_authority_or_anothers_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, other) = (&scratch.path().join("half"), &scratch.path().join("other"));
        certify(dir, &[], 30, false).unwrap();
        certify(other, &[], 30, false).unwrap();
        std::fs::copy(other.join("ca.key"), dir.join("ca.key")).unwrap();
        let error = certify(dir, &stations(&["host1"]), 30, false).unwrap_err().to_string();
        assert!(error.contains("ca.pem: did not sign what ca.key signed"), "{error}");
        std::fs::write(dir.join("ca.key"), "no key").unwrap();
        let error = certify(dir, &stations(&["host1"]), 30, false).unwrap_err().to_string();
        assert!(error.contains("ca.key") && error.contains("give a private key"), "{error}");
        std::fs::remove_file(dir.join("ca.key")).unwrap();
        let error = certify(dir, &stations(&["host1"]), 30, false).unwrap_err().to_string();
        assert!(error.contains("put the authority's key beside"), "{error}");
        assert_eq!(names(dir), ["ca.pem"], "nothing was written");
    }

    #[test]
    fn what_cannot_all_be_written_is_not_written_by_half() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        // In the place of a certificate that would be renewed.
        std::fs::create_dir(dir.join("host2.pem")).unwrap();
        let error = certify(dir, &stations(&["host1", "host2"]), 30, true).unwrap_err().to_string();
        assert!(error.contains("host2.pem: ") && error.ends_with("; give another path"), "{error}");
        assert_eq!(names(dir), ["host2.pem"]);
        std::fs::remove_dir(dir.join("host2.pem")).unwrap();
        certify(dir, &stations(&["host1", "host2"]), 30, false).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
        for (place, text) in [("link", "link: is no directory; give another"), ("ca.pem", "is no directory")] {
            let error = certify(&dir.join(place), &stations(&["host1"]), 30, false).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for wrong in ["", "ca", "../host1", "a/b", ".x", "-x", "host1=", "host1=a b", "host1=host1,", "h\u{f6}st"] {
            assert!(wrong.parse::<Station>().is_err(), "{wrong:?}");
        }
        let twice = certify(Path::new("/nowhere"), &stations(&["a", "a=b"]), 30, false).unwrap_err().to_string();
        assert!(twice.contains("asked for twice"), "{twice}");
    }
}
