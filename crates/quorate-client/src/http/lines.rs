//! An answer that does not end, line by line: what `/v1/events` tells.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use quorate::{Code, Error, Remote};

use super::Inner;

/// How long a line may be, in bytes: a record with the largest payloads fits.
const LINE_BYTES_MAX: usize = 8 << 20;

/// Lines of an answer as they come.
pub struct Lines {
    body: Incoming,
    /// What came and is not a whole line yet.
    rest: BytesMut,
    /// How far the rest was looked through.
    seen: usize,
    inner: Arc<Inner>,
}

impl Lines {
    pub(super) fn new(body: Incoming, inner: Arc<Inner>) -> Self {
        Self { body, rest: BytesMut::new(), seen: 0, inner }
    }

    /// The next line, without its end; waits for it. `None` when the hub ended the answer. Nothing is lost if the wait is
    /// given up: whoever wants a time limit races this with a timer.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the connection broke, `TOO_LARGE` for a line that no hub writes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(end) = self.rest[self.seen..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.rest.split_to(self.seen + end).freeze();
                self.rest.advance(1);
                self.seen = 0;
                if line.ends_with(b"\r") {
                    line.truncate(line.len() - 1);
                }
                return Ok(Some(line));
            }
            self.seen = self.rest.len();
            if self.rest.len() > LINE_BYTES_MAX {
                return Err(Remote {
                    code: Code::TooLarge,
                    detail: format!("a line of the answer is longer than {LINE_BYTES_MAX} bytes"),
                    hint: "check the address: no hub writes such a line".to_owned(),
                    nothing_applied: true,
                }
                .into());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    frame.data_ref().into_iter().for_each(|data| self.rest.extend_from_slice(data))
                }
                Some(Err(error)) => {
                    return Err(self.inner.away(&format!("the answer broke off: {error}"), false));
                }
                None if self.rest.is_empty() => return Ok(None),
                // The last line has no end.
                None => {
                    self.seen = 0;
                    return Ok(Some(self.rest.split().freeze()));
                }
            }
        }
    }
}
