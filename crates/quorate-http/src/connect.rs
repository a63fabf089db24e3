//! Connections: TCP without delay, and TLS over it for https, within one time limit.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

#[cfg(feature = "tls")]
pub use crate::tls::Trust;

/// Whose certificates are accepted: this program was built without https.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Default, Debug)]
pub struct Trust;

/// Bytes in both directions. `TokioIo` makes it one of tokio's streams.
#[cfg(feature = "tls")]
pub type Stream = hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>>;
/// Bytes in both directions. `TokioIo` makes it one of tokio's streams.
#[cfg(not(feature = "tls"))]
pub type Stream = TokioIo<TcpStream>;

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens there.
    #[error("connection refused")]
    Refused,
    /// There was none in time.
    #[error("no connection within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The server's certificate is not accepted.
    #[cfg(feature = "tls")]
    #[error("its certificate is not accepted: {0}")]
    Certificate(tokio_rustls::rustls::CertificateError),
    /// The server speaks no TLS that is understood, or TLS cannot be used here.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// Anything else: an unknown host, an unreachable network.
    #[error("{0}")]
    Io(String),
}

impl ConnectError {
    fn of(error: &(dyn StdError + 'static)) -> Self {
        #[cfg(feature = "tls")]
        if let Some(error) = find::<tokio_rustls::rustls::Error>(error) {
            return match error {
                tokio_rustls::rustls::Error::InvalidCertificate(wrong) => Self::Certificate(wrong.clone()),
                other => Self::Tls(other.to_string()),
            };
        }
        match find::<io::Error>(error) {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => Self::Refused,
            Some(error) => Self::Io(error.to_string()),
            None => Self::Io(quorate_core::error_chain(error)),
        }
    }
}

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    within: Duration,
    #[cfg(feature = "tls")]
    tls: crate::tls::Tls,
}

impl Connector {
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "there is nothing to trust"))]
    pub(crate) fn new(within: Duration, trust: Trust) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Self {
            #[cfg(feature = "tls")]
            tls: crate::tls::Tls::new(tcp.clone(), trust),
            tcp,
            within,
        }
    }

    /// Connects to the host of a URI; with TLS if its scheme is https.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self, uri: Uri) -> Result<Stream, ConnectError> {
        let opened = tokio::time::timeout(self.within, self.open(uri)).await;
        opened.unwrap_or(Err(ConnectError::TimedOut(self.within)))
    }

    #[cfg(feature = "tls")]
    async fn open(&self, uri: Uri) -> Result<Stream, ConnectError> {
        if uri.scheme_str() == Some("https") {
            let opened = self.tls.connector()?.call(uri).await;
            return opened.map_err(|error| ConnectError::of(&*error));
        }
        let opened = self.tcp.clone().call(uri).await;
        opened.map(Stream::Http).map_err(|error| ConnectError::of(&error))
    }

    #[cfg(not(feature = "tls"))]
    async fn open(&self, uri: Uri) -> Result<Stream, ConnectError> {
        if uri.scheme_str() == Some("https") {
            return Err(ConnectError::Tls("this program was built without https".to_owned()));
        }
        self.tcp.clone().call(uri).await.map_err(|error| ConnectError::of(&error))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await })
    }
}

/// The first error of this type among the causes of an error.
pub(crate) fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // What an `io::Error` wraps is not its source, but its source is the source of that.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
