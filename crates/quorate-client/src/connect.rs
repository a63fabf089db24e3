//! Connections to a hub, and errors of connecting.

use hyper_util::rt::TokioIo;
use quorate::{Code, Error, RemoteError};
use quorate_http::{ConnectError, Connector};

use crate::address::Address;

/// Bidirectional byte stream.
pub(crate) type HubStream = TokioIo<quorate_http::Stream>;

/// Opens connections to one hub.
#[derive(Clone)]
pub(crate) struct HubConnector {
    pub(crate) address: Address,
    pub(crate) connector: Connector,
}

impl HubConnector {
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns `UNAVAILABLE` if the hub cannot be reached.
    pub(crate) async fn connect(&self) -> Result<HubStream, Error> {
        let uri = self.address.uri("/")?;
        let connected = self.connector.connect(uri).await;
        connected.map(TokioIo::new).map_err(|error| connect_error(&self.address, &error).into())
    }
}

/// Returns the error for a hub that cannot be reached. Nothing was sent.
pub(crate) fn connect_error(address: &Address, error: &ConnectError) -> RemoteError {
    let (reason, hint) = match error {
        ConnectError::Refused => {
            ("connection refused".to_owned(), "start the hub with `quorate serve`, or check the URL")
        }
        #[cfg(feature = "tls")]
        ConnectError::Certificate(cause) => (error.to_string(), certificate_hint(cause)),
        ConnectError::Tls(reason) => (
            format!("TLS handshake failed: {reason}"),
            "check the URL: a hub or proxy without a certificate needs http:// instead of https://",
        ),
        _ => (error.to_string(), "check the URL and the network, then try again"),
    };
    RemoteError {
        code: Code::Unavailable,
        detail: format!("the hub at {} cannot be reached: {reason}", address.url()),
        hint: hint.to_owned(),
        nothing_applied: true,
    }
}

/// Returns how to fix a rejected certificate.
#[cfg(feature = "tls")]
fn certificate_hint(cause: &quorate_http::CertificateError) -> &'static str {
    use quorate_http::CertificateError;
    match cause {
        CertificateError::UnknownIssuer => {
            "pass the certificate of the CA that signed it: --ca-file, QUORATE_CA_FILE, or the client's `ca_file` option; \
             for `quorate cert dev` that is its cert.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a host name that the certificate contains, or create a certificate for this one: \
             `quorate cert dev --host NAME`"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the certificate of the hub; for development: `quorate cert dev --force`"
        }
        _ => "check the URL of the hub and the CA file",
    }
}
