//! Connections: TCP with `TCP_NODELAY`, and TLS for https, within one connect timeout.

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

/// The trusted certificate authorities.
#[derive(Clone, Default, Debug)]
pub enum TrustRoots {
    /// The system's trust store, or the file named by `SSL_CERT_FILE`. Loaded with the first https connection. Unused if
    /// this program was built without https.
    #[default]
    System,
    /// Only these authorities.
    #[cfg(feature = "tls")]
    Custom(std::sync::Arc<tokio_rustls::rustls::RootCertStore>),
}

/// A bidirectional byte stream. Wrap it in `TokioIo` for tokio's traits.
pub type Stream = TransportStream;

#[cfg(feature = "tls")]
type TransportStream = hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>>;
#[cfg(not(feature = "tls"))]
type TransportStream = TokioIo<TcpStream>;

/// A connection error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No process listens on the port.
    #[error("connection refused")]
    Refused,
    /// The connect timeout elapsed.
    #[error("connection timed out after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The server's certificate is not trusted.
    #[cfg(feature = "tls")]
    #[error("the server's certificate is not accepted: {0}")]
    Certificate(tokio_rustls::rustls::CertificateError),
    /// The TLS handshake failed, or TLS is not available.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// Any other error, such as an unknown host or an unreachable network.
    #[error("{0}")]
    Io(String),
}

impl ConnectError {
    fn from_error(error: &(dyn StdError + 'static)) -> Self {
        #[cfg(feature = "tls")]
        if let Some(error) = find_source::<tokio_rustls::rustls::Error>(error) {
            return match error {
                tokio_rustls::rustls::Error::InvalidCertificate(cause) => Self::Certificate(cause.clone()),
                other => Self::Tls(other.to_string()),
            };
        }
        match find_source::<io::Error>(error) {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => Self::Refused,
            Some(error) => Self::Io(error.to_string()),
            None => Self::Io(quorate_core::error_chain(error)),
        }
    }
}

/// Opens connections. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: crate::tls::LazyHttpsConnector,
}

impl Connector {
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "only used with TLS"))]
    pub(crate) fn new(timeout: Duration, trust: TrustRoots) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Self {
            #[cfg(feature = "tls")]
            tls: crate::tls::LazyHttpsConnector::new(tcp.clone(), trust),
            tcp,
            timeout,
        }
    }

    /// Connects to the host of a URI, with TLS if its scheme is https.
    ///
    /// # Errors
    /// If the connection cannot be established in time.
    pub async fn connect(&self, uri: Uri) -> Result<Stream, ConnectError> {
        let opened = tokio::time::timeout(self.timeout, self.open(uri)).await;
        opened.unwrap_or(Err(ConnectError::TimedOut(self.timeout)))
    }

    #[cfg(feature = "tls")]
    async fn open(&self, uri: Uri) -> Result<Stream, ConnectError> {
        if uri.scheme_str() == Some("https") {
            let opened = self.tls.get()?.call(uri).await;
            return opened.map_err(|error| ConnectError::from_error(&*error));
        }
        let opened = self.tcp.clone().call(uri).await;
        opened.map(Stream::Http).map_err(|error| ConnectError::from_error(&error))
    }

    #[cfg(not(feature = "tls"))]
    async fn open(&self, uri: Uri) -> Result<Stream, ConnectError> {
        if uri.scheme_str() == Some("https") {
            return Err(ConnectError::Tls("this program was built without https".to_owned()));
        }
        self.tcp.clone().call(uri).await.map_err(|error| ConnectError::from_error(&error))
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

/// Finds the first error of this type in an error's chain of sources.
pub(crate) fn find_source<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // `io::Error::source` skips the error that it wraps, so unwrap that first.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
