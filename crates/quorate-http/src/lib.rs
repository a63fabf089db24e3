//! The HTTP client of the workspace, for calls to hubs, model providers and OpenTelemetry collectors. It limits connect
//! time, total time, response size and connections, and does not follow redirects. Dropping a call closes its
//! connection. Errors contain neither headers nor bodies.
//!
//! Built on hyper-util's pooling client and rustls. Interpreting status and body is up to the caller.

mod connector;
#[cfg(feature = "tls")]
mod tls;
mod url;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;

pub use connector::{ConnectError, Connector, Stream, TrustRoots};
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls::CertificateError;
pub use url::Url;

/// Maximum bytes of a response's headers.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Options of a client's connections.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Connect timeout, including DNS, TCP and TLS.
    pub connect_timeout: Duration,
    /// Maximum concurrent calls; further ones wait. Streams do not count.
    pub calls_max: usize,
    /// Maximum idle connections per host; 0 disables connection reuse.
    pub idle_max: usize,
    /// Idle timeout of a connection.
    pub idle_timeout: Duration,
    /// Trusted certificate authorities.
    pub trust: TrustRoots,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            calls_max: 256,
            idle_max: 0,
            idle_timeout: Duration::from_secs(5),
            trust: TrustRoots::default(),
        }
    }
}

/// Limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Total timeout.
    pub timeout: Duration,
    /// Maximum bytes of the response body.
    pub bytes_max: usize,
}

/// An error of a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be established. Nothing was sent.
    #[error("cannot connect")]
    Connect(#[source] ConnectError),
    /// The connection was closed before the request was sent.
    #[error("the connection was closed before the request was sent: {0}")]
    Unsent(String),
    /// The connection was lost before the response started; the request may have been received.
    #[error("the connection was lost before the response: {0}")]
    ConnectionLost(String),
    /// The connection was lost during the response.
    #[error("the response is incomplete: {0}")]
    Incomplete(String),
    /// The response is larger than the limit.
    #[error("the response exceeds the limit of {0} bytes")]
    TooLarge(usize),
    /// The response did not complete in time; the request may have been received.
    #[error("no complete response within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

/// An HTTP client. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    pool: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
    slots: Semaphore,
}

impl Client {
    /// Creates a client. Connections are opened on demand.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let ClientOptions { connect_timeout, calls_max, idle_max, idle_timeout, trust } = options;
        let connector = Connector::new(connect_timeout, trust);
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle_timeout)
            .pool_max_idle_per_host(idle_max)
            .http1_max_buf_size(HEADER_BYTES_MAX)
            .build(connector.clone());
        Self(Arc::new(Inner { pool, connector, slots: Semaphore::new(calls_max.max(1)) }))
    }

    /// The connector, for opening connections for other protocols.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.0.connector
    }

    /// Sends a request to an absolute URI and reads the complete response, whatever its status.
    ///
    /// # Errors
    /// If there is no complete response within the limits.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        limits: CallLimits,
    ) -> Result<Response<Bytes>, Error> {
        let exchange = async {
            // Cannot fail: the semaphore is never closed.
            let _slot = self.0.slots.acquire().await;
            let response = self.0.pool.request(request).await.map_err(|error| classify(&error))?;
            read_body(response, limits.bytes_max).await
        };
        with_timeout(limits.timeout, exchange).await
    }

    /// Sends a request to an absolute URI and returns once the response head has arrived. The body is streamed, without a
    /// limit on its size.
    ///
    /// # Errors
    /// If the response does not start in time.
    pub async fn stream(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, Error> {
        with_timeout(timeout, async { self.0.pool.request(request).await.map_err(|error| classify(&error)) })
            .await
    }
}

/// Reads the complete body of a response.
///
/// # Errors
/// `TooLarge` or `Incomplete`.
pub async fn read_body(response: Response<Incoming>, bytes_max: usize) -> Result<Response<Bytes>, Error> {
    let (head, body) = response.into_parts();
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge(bytes_max)),
        Err(error) => Err(Error::Incomplete(quorate_core::error_chain(&*error))),
    }
}

async fn with_timeout<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(timeout, work).await.unwrap_or(Err(Error::TimedOut(timeout)))
}

fn classify(error: &legacy::Error) -> Error {
    if let Some(connect) = connector::find_source::<ConnectError>(error) {
        return Error::Connect(connect.clone());
    }
    let hyper = connector::find_source::<hyper::Error>(error);
    let reason =
        hyper.map_or_else(|| quorate_core::error_chain(error), |hyper| quorate_core::error_chain(hyper));
    // hyper reports a cancellation if the connection was closed before the request was written.
    if error.is_connect() || hyper.is_some_and(hyper::Error::is_canceled) {
        Error::Unsent(reason)
    } else {
        Error::ConnectionLost(reason)
    }
}

/// Builds an absolute URI from scheme, authority, and path with query.
#[must_use]
pub fn absolute_uri(secure: bool, authority: &str, target: &str) -> String {
    format!("{}://{authority}{target}", if secure { "https" } else { "http" })
}
