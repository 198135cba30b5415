//! Certificates: both sides show one of the same authority.

use super::Error;
use files::read_regular;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// More is no certificate, key or list of authorities.
const MAX_BYTES: u64 = 4 << 20;

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Certificates of the authority that both sides trust, and of no other.
    pub ca: PathBuf,
    /// One's own certificate, and those between it and the authority's.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

fn wrong<E: std::fmt::Display>(path: &Path, remedy: &'static str) -> impl FnOnce(E) -> Error {
    let path = path.to_owned();
    move |e| Error::Certificate(path, e.to_string(), remedy)
}

impl Identity {
    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        let (roots, chain, key) = self.load()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(wrong(&self.ca, "give the authority's certificates"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| self.unfit(&e))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|e| self.unfit(&e))?;
        // A session that is taken up again would outlive the certificate.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let (roots, chain, key) = self.load()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| self.unfit(&e))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|e| self.unfit(&e))?;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// When the certificate expires, seconds since 1970.
    pub(super) fn expiry(&self) -> Option<u64> {
        let chain = certificates(&self.certificate).ok()?;
        let certificate = webpki::EndEntityCert::try_from(chain.first()?).ok()?;
        // Whoever comes at the end of time is told that it has expired, and when.
        let late = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
        match certificate.verify_for_usage(&[], &[], &[], late, webpki::KeyUsage::server_auth(), None, None) {
            Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
            _ => None,
        }
    }

    /// What does not go together, or is no certificate.
    fn unfit(&self, error: &rustls::Error) -> Error {
        const REMEDY: &str = "give PEM files that belong together";
        match error {
            rustls::Error::InvalidCertificate(_) => not_one(&self.certificate, error, "give the certificate as PEM"),
            rustls::Error::InconsistentKeys(_) => {
                let problem = format!("is not the key of {}", self.certificate.display());
                Error::Certificate(self.key.clone(), problem, REMEDY)
            }
            other => Error::Certificate(self.key.clone(), other.to_string(), REMEDY),
        }
    }

    fn load(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.ca)? {
            roots.add(root).map_err(|e| not_one(&self.ca, &e, "give the authority's certificates"))?;
        }
        let remedy = "give the private key as PEM";
        let text = read_regular(&self.key, MAX_BYTES).map_err(wrong(&self.key, remedy))?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(wrong(&self.key, remedy))?;
        Ok((roots, certificates(&self.certificate)?, key))
    }
}

/// Of a file that has the form of a certificate alone. The library calls each one a peer's.
fn not_one(path: &Path, error: &rustls::Error, remedy: &'static str) -> Error {
    let problem = match error {
        rustls::Error::InvalidCertificate(why) => format!("holds no certificate: {why:?}"),
        other => other.to_string(),
    };
    Error::Certificate(path.to_owned(), problem, remedy)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let remedy = "give certificates as PEM";
    let text = read_regular(path, MAX_BYTES).map_err(wrong(path, remedy))?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(wrong(path, remedy))?;
    match all.is_empty() {
        true => Err(Error::Certificate(path.to_owned(), "holds no certificate".to_owned(), remedy)),
        false => Ok(all),
    }
}

/// Could a certificate be for this name?
pub fn is_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// Is this certificate, which the handshake has verified, for `name`?
pub(super) fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|c| c.verify_is_valid_for_subject_name(&name).is_ok())
}
