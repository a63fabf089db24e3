//! Streaming responses, read line by line: `/v1/events`.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use quorate::{Code, Error, RemoteError};

use super::Inner;

/// Maximum length of a line, in bytes. A record with the largest payloads fits.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Stream of the lines of a response.
pub struct ResponseLines {
    body: Incoming,
    /// Received bytes that do not form a complete line yet.
    buffer: BytesMut,
    /// Length of the part of the buffer that contains no line end.
    searched: usize,
    inner: Arc<Inner>,
}

impl ResponseLines {
    pub(super) fn new(body: Incoming, inner: Arc<Inner>) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, inner }
    }

    /// Waits for the next line and returns it without its line end. Returns `None` when the hub ends the response.
    /// Cancel safe.
    ///
    /// # Errors
    /// Returns `UNAVAILABLE` if the connection is lost, or `TOO_LARGE` for a line that exceeds the maximum length.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + end).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                if line.ends_with(b"\r") {
                    line.truncate(line.len() - 1);
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(RemoteError {
                    code: Code::TooLarge,
                    detail: format!("a line of the response is longer than {LINE_BYTES_MAX} bytes"),
                    hint: "check the URL: the server may not be a Quorate hub".to_owned(),
                    nothing_applied: true,
                }
                .into());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    frame.data_ref().into_iter().for_each(|data| self.buffer.extend_from_slice(data))
                }
                Some(Err(error)) => {
                    return Err(self
                        .inner
                        .unavailable(&format!("the response was interrupted: {error}"), false));
                }
                None if self.buffer.is_empty() => return Ok(None),
                // The last line has no line end.
                None => {
                    self.searched = 0;
                    return Ok(Some(self.buffer.split().freeze()));
                }
            }
        }
    }
}
