//! The HTTP client of the workspace: calls of a hub, of models and of collectors. Bounded in connect time, total time,
//! response bytes and connections; redirects are not followed. Dropping a call closes its connection. Errors name neither
//! headers nor bodies.
//!
//! It pools with hyper-util's client and encrypts with rustls. What a status or a body means is the caller's.

mod connect;
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

pub use connect::{ConnectError, Connector, Stream, Trust};
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls::CertificateError;
pub use url::Url;

/// Bytes of a response's headers.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long making a connection may take: name, TCP and TLS.
    pub connect_within: Duration,
    /// Calls at a time; further ones wait. Streams are not counted.
    pub calls_max: usize,
    /// Connections to a host that are kept open between calls; 0: each call has its own.
    pub idle_max: usize,
    /// How long such a connection is kept.
    pub idle_within: Duration,
    /// Whose certificates are accepted.
    pub trust: Trust,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(10),
            calls_max: 256,
            idle_max: 0,
            idle_within: Duration::from_secs(5),
            trust: Trust::default(),
        }
    }
}

/// The bounds of one call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may take in all.
    pub within: Duration,
    /// Bytes of the response's body.
    pub bytes_max: usize,
}

/// Why a call has no response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection. Nothing was sent.
    #[error("cannot connect")]
    Connect(#[source] ConnectError),
    /// The connection was closed before the request was sent.
    #[error("the connection was closed: {0}")]
    Unsent(String),
    /// The connection broke before the response began; the request may have been received.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The connection broke in the middle of the response.
    #[error("the answer broke off: {0}")]
    Incomplete(String),
    /// The response is larger than the limit.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// There was no complete response in time; the request may have been received.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

/// Makes calls. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    pool: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
    slots: Semaphore,
}

impl Client {
    /// A client without connections.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { connect_within, calls_max, idle_max, idle_within, trust } = options;
        let connector = Connector::new(connect_within, trust);
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle_within)
            .pool_max_idle_per_host(idle_max)
            .http1_max_buf_size(HEADER_BYTES_MAX)
            .build(connector.clone());
        Self(Arc::new(Inner { pool, connector, slots: Semaphore::new(calls_max.max(1)) }))
    }

    /// Makes connections as the calls do: for other protocols.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.0.connector
    }

    /// Sends a request to an absolute URI and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// When there is no complete response within the limits.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        limits: Limits,
    ) -> Result<Response<Bytes>, Error> {
        let exchange = async {
            // Never closed.
            let _slot = self.0.slots.acquire().await;
            let response = self.0.pool.request(request).await.map_err(|error| of_pool(&error))?;
            read(response, limits.bytes_max).await
        };
        in_time(limits.within, exchange).await
    }

    /// Sends a request to an absolute URI; the response has begun within that time, and its body comes as it comes. No limit
    /// on its size: the caller reads it piece by piece.
    ///
    /// # Errors
    /// When the response does not begin in time.
    pub async fn stream(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, Error> {
        in_time(within, async { self.0.pool.request(request).await.map_err(|error| of_pool(&error)) }).await
    }
}

/// Reads the whole body of a response.
///
/// # Errors
/// `TooLarge` or `Incomplete`.
pub async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Response<Bytes>, Error> {
    let (head, body) = response.into_parts();
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge(bytes_max)),
        Err(error) => Err(Error::Incomplete(quorate_core::error_chain(&*error))),
    }
}

async fn in_time<T>(within: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(within, work).await.unwrap_or(Err(Error::TimedOut(within)))
}

fn of_pool(error: &legacy::Error) -> Error {
    if let Some(connect) = connect::find::<ConnectError>(error) {
        return Error::Connect(connect.clone());
    }
    let hyper = connect::find::<hyper::Error>(error);
    let why =
        hyper.map_or_else(|| quorate_core::error_chain(error), |hyper| quorate_core::error_chain(hyper));
    // hyper gives the message back if the connection was closed before it was written.
    if error.is_connect() || hyper.is_some_and(hyper::Error::is_canceled) {
        Error::Unsent(why)
    } else {
        Error::Broken(why)
    }
}

/// The authority and scheme of an address joined with a path and query, as a request wants it.
#[must_use]
pub fn absolute(secure: bool, authority: &str, target: &str) -> String {
    format!("{}://{authority}{target}", if secure { "https" } else { "http" })
}
