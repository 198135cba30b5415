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
        let unfit = |path: &Path| wrong::<rustls::Error>(path, "give PEM files that belong together");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(wrong(&self.ca, "give the authority's certificates"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit(&self.certificate))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(unfit(&self.key))?;
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
        let unfit = |path: &Path| wrong::<rustls::Error>(path, "give PEM files that belong together");
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unfit(&self.certificate))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit(&self.key))?;
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

    fn load(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.ca)? {
            roots.add(root).map_err(wrong(&self.ca, "give the authority's certificates"))?;
        }
        let remedy = "give the private key as PEM";
        let text = read_regular(&self.key, MAX_BYTES).map_err(wrong(&self.key, remedy))?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(wrong(&self.key, remedy))?;
        Ok((roots, certificates(&self.certificate)?, key))
    }
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

/// Is this certificate, which the handshake has verified, for `name`?
pub(super) fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|c| c.verify_is_valid_for_subject_name(&name).is_ok())
}
