//! TLS: loads the certificate and reloads it when its files change, without a restart.
//!
//! Open connections are not affected; the next handshake uses the new certificate. An invalid new certificate is
//! reported and ignored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// Failure to load a certificate. Never contains key material.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file contains no PEM certificate.
    #[error("no PEM certificate found in {}", .0.display())]
    NoCertificate(PathBuf),
    /// The file contains no PEM private key.
    #[error("no PEM private key found in {}", .0.display())]
    NoKey(PathBuf),
    /// Certificate and key are invalid or do not match.
    #[error("the certificate in {} and the key in {} cannot be used: {reason}", .certificate.display(), .key.display())]
    Unusable {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The reason reported by the TLS library.
        reason: String,
    },
}

type ChangeCallback = Arc<dyn Fn(Result<(), &TlsError>) + Send + Sync>;

/// A certificate and its key, loaded from two PEM files that may change.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    current: Arc<CurrentCertificate>,
    config: Arc<ServerConfig>,
    provider: Arc<CryptoProvider>,
    on_change: ChangeCallback,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Certificate used for the next handshake.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// Loads the certificate chain and the private key.
    ///
    /// # Errors
    /// When the files cannot be read or used.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let provider = Arc::new(ring::default_provider());
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(files.read(&provider)?))));
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| files.unusable(&error))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { files, current, config: Arc::new(config), provider, on_change: Arc::new(|_| ()) })
    }

    /// Sets a callback for changes of the files: `Ok` if the new certificate is in use, `Err` if it is invalid and
    /// the old one stays in use.
    #[must_use]
    pub fn on_change(mut self, callback: impl Fn(Result<(), &TlsError>) + Send + Sync + 'static) -> Self {
        self.on_change = Arc::new(callback);
        self
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Polls the files and reloads the certificate when they change. Never returns normally.
    pub(crate) async fn watch(self, interval: Duration) {
        let mut last = self.files.stamp();
        loop {
            tokio::time::sleep(interval).await;
            let tls = self.clone();
            // File access may block.
            let checked = tokio::task::spawn_blocking(move || tls.reload_if_changed(last)).await;
            let Ok(stamp) = checked else { return };
            last = stamp;
        }
    }

    fn reload_if_changed(&self, last: Stamp) -> Stamp {
        // Taken before reading: a change in between is detected by the next check.
        let stamp = self.files.stamp();
        if stamp != last {
            match self.files.read(&self.provider) {
                Ok(new) => {
                    *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                    (self.on_change)(Ok(()));
                }
                Err(error) => (self.on_change)(Err(&error)),
            }
        }
        stamp
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Modification time and size of both files, for change detection.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Files {
    fn stamp(&self) -> Stamp {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }

    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
        let pem = read(&self.certificate)?;
        let no_certificate = || TlsError::NoCertificate(self.certificate.clone());
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|_| no_certificate())?;
        if chain.is_empty() {
            return Err(no_certificate());
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| TlsError::NoKey(self.key.clone()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &tokio_rustls::rustls::Error) -> TlsError {
        TlsError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason: error.to_string(),
        }
    }
}
