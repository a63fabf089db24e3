//! TLS towards a hub: the authorities of the machine, or one that a file names.

use std::path::Path;
use std::sync::Arc;

use quorate::{Code, Refused};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::address::Address;
use crate::dial::Stream;

/// How connections to one hub are encrypted.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Trusts the authorities of the machine, or only those of a PEM file.
    pub(crate) fn new(address: &Address, ca_file: Option<&Path>) -> Result<Self, Refused> {
        let roots = match ca_file {
            Some(file) => of_file(file)?,
            None => of_machine(),
        };
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Refused::new(Code::Invalid, format!("TLS cannot be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(address.host.clone()).map_err(|_| {
            Refused::new(
                Code::Invalid,
                format!("{:?} is no name that a certificate could bear", address.host),
            )
        })?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> std::io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.connector.connect(self.name.clone(), stream).await?))
    }
}

/// Why the hub is not trusted, and what to do about it.
pub(crate) fn refused(error: &std::io::Error) -> (String, &'static str) {
    let why = error.get_ref().and_then(|error| error.downcast_ref::<tokio_rustls::rustls::Error>());
    let wrong = match why {
        Some(tokio_rustls::rustls::Error::InvalidCertificate(wrong)) => wrong,
        _ => {
            return (
                format!("what answers there speaks no TLS that is understood: {error}"),
                "check the address: a hub without a certificate is at http://, and so may be a proxy",
            );
        }
    };
    let hint = match wrong {
        CertificateError::UnknownIssuer => {
            "name the file of the authority that signed it: --ca-file, QUORATE_CA_FILE, or the client's option for it; for \
             one of `quorate cert dev` that is its cert.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a name or an address that the certificate bears, or make one that bears this: \
             `quorate cert dev --host NAME`"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "let whoever runs the hub renew its certificate; for development: `quorate cert dev --force`"
        }
        _ => "check that this is the hub that you mean, and the file of the authority that you named",
    };
    (format!("its certificate is not accepted: {wrong}"), hint)
}

fn of_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // What cannot be read of the machine's store is not trusted, which is the safe side.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn of_file(file: &Path) -> Result<RootCertStore, Refused> {
    let shown = file.display();
    let wrong = |why: String| {
        Refused::new(Code::Invalid, format!("no certificate authority can be read from {shown}: {why}"))
            .hint("name a PEM file with the certificate that signed the hub's")
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("it holds none".into())) } else { Ok(roots) }
}
