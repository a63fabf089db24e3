//! Drains request bodies that no handler has read, because the request was refused early. A short
//! rest is read and discarded, so that the connection can be reused. For a long or slow body the response gets
//! `connection: close`: otherwise the client would send its next request on a connection that is about to be closed.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

/// Limits for draining a body.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
const UNREAD_WAIT: Duration = Duration::from_secs(1);

/// A body that outlives its reader. It has one reader at a time.
#[derive(Clone)]
struct Shared(Arc<Mutex<Body>>);

impl Shared {
    fn with<T>(&self, f: impl FnOnce(&mut Body) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drains the rest of the body within the limits. Returns whether the end was reached.
    async fn drain(self) -> bool {
        if self.is_end_stream() {
            return true;
        }
        if self.size_hint().lower() > UNREAD_BYTES_MAX as u64 {
            return false;
        }
        let rest = timeout(UNREAD_WAIT, Limited::new(self, UNREAD_BYTES_MAX).collect()).await;
        rest.is_ok_and(|rest| rest.is_ok())
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.with(|body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}

/// The body of a request that a handler may leave unread; `None` if there is no body.
pub(crate) struct UnreadBody(Option<Shared>);

impl UnreadBody {
    /// Keeps access to the body of a request.
    pub(crate) fn of(request: Request) -> (Request, Self) {
        if request.body().is_end_stream() {
            return (request, Self(None));
        }
        let (head, body) = request.into_parts();
        let body = Shared(Arc::new(Mutex::new(body)));
        (Request::from_parts(head, Body::new(body.clone())), Self(Some(body)))
    }

    /// Drains the rest of the body, or makes the response close the connection.
    pub(crate) async fn drain(self, response: &mut Response) {
        if let Some(body) = self.0
            && !body.drain().await
        {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}
