//! TLS connections and trusted certificate authorities.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::{ConnectError, TrustRoots};

impl TrustRoots {
    /// Trusts only the authorities of a PEM file.
    ///
    /// # Errors
    /// If it contains no readable certificate.
    pub fn from_pem_file(file: &Path) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())? {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            Err("the file contains no certificates".into())
        } else {
            Ok(Self::Custom(Arc::new(roots)))
        }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        match self {
            Self::Custom(roots) => Arc::clone(roots),
            Self::System => {
                let mut roots = RootCertStore::empty();
                // Unreadable certificates of the system are skipped and therefore not trusted.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Arc::new(roots)
            }
        }
    }
}

/// HTTPS connector that is built on first use: loading the certificates of the system takes time.
#[derive(Clone)]
pub(crate) struct LazyHttpsConnector {
    tcp: HttpConnector,
    trust: TrustRoots,
    connector: Arc<OnceLock<HttpsConnector<HttpConnector>>>,
}

impl LazyHttpsConnector {
    pub(crate) fn new(tcp: HttpConnector, trust: TrustRoots) -> Self {
        Self { tcp, trust, connector: Arc::default() }
    }

    /// Returns the connector; builds it on the first call.
    pub(crate) fn get(&self) -> Result<HttpsConnector<HttpConnector>, ConnectError> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector.clone());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConnectError::Tls(error.to_string()))?
            .with_root_certificates(self.trust.roots())
            .with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
        Ok(self.connector.get_or_init(|| builder.wrap_connector(self.tcp.clone())).clone())
    }
}
