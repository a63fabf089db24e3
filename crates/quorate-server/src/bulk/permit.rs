//! Permit for an open bulk read, held until the response is written to the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::Shared;
use super::queue::Owner;

/// Chunk size of responses. The connection asks for the next chunk once this one is written.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// Permit for one open bulk read of a principal.
pub(crate) struct BulkPermit {
    pub(super) shared: Arc<Shared>,
    pub(super) owner: Owner,
}

impl BulkPermit {
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Keeps the permit until the last chunk of the response is taken.
    pub(super) fn attach_to(self, body: Body) -> Body {
        Body::new(ChunkedBody { body, rest: Bytes::new(), _permit: self })
    }
}

impl Drop for BulkPermit {
    fn drop(&mut self) {
        self.shared.close(&self.owner);
    }
}

/// A body split into chunks, with its permit.
struct ChunkedBody {
    body: Body,
    /// Rest of the current frame.
    rest: Bytes,
    _permit: BulkPermit,
}

impl hyper::body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
