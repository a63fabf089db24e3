//! Connections to a hub, and why there is none.

use hyper_util::rt::TokioIo;
use quorate::{Code, Error, Remote};
use quorate_http::{ConnectError, Connector};

use crate::address::Address;

/// Bytes in both directions.
pub(crate) type Stream = TokioIo<quorate_http::Stream>;

/// Makes connections to one hub.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) connector: Connector,
}

impl Dial {
    /// Connects.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the hub is not there.
    pub(crate) async fn connect(&self) -> Result<Stream, Error> {
        let uri = self.address.uri("/")?;
        let connected = self.connector.connect(uri).await;
        connected.map(TokioIo::new).map_err(|error| away(&self.address, &error).into())
    }
}

/// The hub cannot be reached; nothing was sent.
pub(crate) fn away(address: &Address, error: &ConnectError) -> Remote {
    let (why, hint) = match error {
        ConnectError::Refused => {
            ("nothing listens there".to_owned(), "start it with `quorate serve`, or check the address")
        }
        #[cfg(feature = "tls")]
        ConnectError::Certificate(wrong) => (error.to_string(), certificate_hint(wrong)),
        ConnectError::Tls(why) => (
            format!("what answers there speaks no TLS that is understood: {why}"),
            "check the address: a hub without a certificate is at http://, and so may be a proxy",
        ),
        ConnectError::TimedOut(_) | ConnectError::Io(_) => {
            (error.to_string(), "check the address and the network, then try again")
        }
    };
    Remote {
        code: Code::Unavailable,
        detail: format!("the hub at {} cannot be reached: {why}", address.url()),
        hint: hint.to_owned(),
        nothing_applied: true,
    }
}

/// What to do about a certificate that is not accepted.
#[cfg(feature = "tls")]
fn certificate_hint(wrong: &quorate_http::CertificateError) -> &'static str {
    use quorate_http::CertificateError;
    match wrong {
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
    }
}
