//! TLS: the certificate that the hub shows, and taking up a new one without a restart.
//!
//! Connections that are open go on as they are; the next handshake shows the new certificate. A new one that is broken is
//! not taken, and whoever runs the hub is told why.

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

/// Why a certificate cannot be used. Says nothing of the key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate in the file.
    #[error("there is no certificate in PEM in {}", .0.display())]
    NoCertificate(PathBuf),
    /// There is no key in the file.
    #[error("there is no private key in PEM in {}", .0.display())]
    NoKey(PathBuf),
    /// Certificate and key cannot be used, or not with each other.
    #[error("the certificate in {} and the key in {} cannot be used: {why}", .certificate.display(), .key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        why: String,
    },
}

type Notice = Arc<dyn Fn(Result<(), &TlsError>) + Send + Sync>;

/// A certificate with its key, from two files in PEM that may change.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    shown: Arc<Shown>,
    config: Arc<ServerConfig>,
    provider: Arc<CryptoProvider>,
    notice: Notice,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The certificate of the next handshake.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// Reads the certificate, with the chain that leads to it, and its key.
    ///
    /// # Errors
    /// When the files cannot be read or used.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let provider = Arc::new(ring::default_provider());
        let shown = Arc::new(Shown(RwLock::new(Arc::new(files.read(&provider)?))));
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| files.unusable(&error))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::clone(&shown) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { files, shown, config: Arc::new(config), provider, notice: Arc::new(|_| ()) })
    }

    /// Says what is done when the files have changed: the new certificate was taken up, or it was not and the old one is
    /// kept.
    #[must_use]
    pub fn on_change(mut self, notice: impl Fn(Result<(), &TlsError>) + Send + Sync + 'static) -> Self {
        self.notice = Arc::new(notice);
        self
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Takes up what changes, for ever.
    pub(crate) async fn watch(self, every: Duration) {
        let mut seen = self.files.stamp();
        loop {
            tokio::time::sleep(every).await;
            let tls = self.clone();
            // A file may lie on a slow disk.
            let looked = tokio::task::spawn_blocking(move || tls.look(seen)).await;
            let Ok(stamp) = looked else { return };
            seen = stamp;
        }
    }

    fn look(&self, seen: Stamp) -> Stamp {
        // Before anything is read: what changes meanwhile is found at the next look.
        let stamp = self.files.stamp();
        if stamp != seen {
            match self.files.read(&self.provider) {
                Ok(new) => {
                    *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                    (self.notice)(Ok(()));
                }
                Err(error) => (self.notice)(Err(&error)),
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

/// By what a change of either file is seen.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Files {
    fn stamp(&self) -> Stamp {
        [&self.certificate, &self.key].map(|path| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        })
    }

    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
        let text = read(&self.certificate)?;
        let none = || TlsError::NoCertificate(self.certificate.clone());
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|_| none())?;
        if chain.is_empty() {
            return Err(none());
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| TlsError::NoKey(self.key.clone()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, why: &tokio_rustls::rustls::Error) -> TlsError {
        TlsError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            why: why.to_string(),
        }
    }
}
