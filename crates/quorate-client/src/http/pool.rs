//! A few connections that stay open between calls.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use quorate::{Code, Remote};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Broken;
use crate::dial::Dial;

/// How many headers of an answer, and of which size in all, are read.
const HEADER_BYTES_MAX: usize = 64 << 10;

type Sender = SendRequest<Full<Bytes>>;

/// Connections to one hub.
pub(super) struct Pool {
    dial: Dial,
    /// Connections that wait for the next call.
    idle: Mutex<Vec<Sender>>,
    /// How many may be in use.
    slots: Arc<Semaphore>,
}

/// A connection in use.
pub(super) struct Connection {
    sender: Sender,
    _slot: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(dial: Dial, max: usize) -> Self {
        Self { dial, idle: Mutex::default(), slots: Arc::new(Semaphore::new(max.max(1))) }
    }

    /// Sends a request; the answer has begun when this returns.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), Broken> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|_| Broken::Midway("it was closed".to_owned()))?;
        loop {
            let kept = self.take();
            let fresh = kept.is_none();
            let mut sender = match kept {
                // It may have to hear the end of the answer before; if it was closed, the next one is tried.
                Some(mut sender) => match sender.ready().await {
                    Ok(()) => sender,
                    Err(_) => continue,
                },
                None => self.open().await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Connection { sender, _slot: slot })),
                Err(mut error) => match error.take_message() {
                    // A connection that was kept may have been closed meanwhile: nothing of the request went out.
                    Some(unsent) if !fresh => request = unsent,
                    Some(_) => return Err(Broken::Before(self.lost(error.error()).into())),
                    None => return Err(Broken::Midway(told(error.error()))),
                },
            }
        }
    }

    /// Sends a request on a connection of its own.
    pub(super) async fn send_alone(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Broken> {
        let mut sender = self.open().await?;
        sender.send_request(request).await.map_err(|error| Broken::Midway(told(&error)))
    }

    /// Keeps a connection for the next call.
    pub(super) fn give_back(&self, connection: Connection) {
        if !connection.sender.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection.sender);
        }
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The one used last is the one most likely to be open still.
        std::iter::from_fn(|| idle.pop()).find(|sender| !sender.is_closed())
    }

    async fn open(&self) -> Result<Sender, Broken> {
        let stream = self.dial.connect().await.map_err(Broken::Before)?;
        let begun =
            http1::Builder::new().max_buf_size(HEADER_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = begun.map_err(|error| Broken::Before(self.lost(&error).into()))?;
        // It ends with the last of its senders and answers.
        tokio::spawn(connection);
        sender.ready().await.map_err(|error| Broken::Before(self.lost(&error).into()))?;
        Ok(sender)
    }

    fn lost(&self, error: &hyper::Error) -> Remote {
        Remote {
            code: Code::Unavailable,
            detail: format!("the hub at {} closed the connection: {}", self.dial.address.url(), told(error)),
            hint: "check that the hub runs, then try again".to_owned(),
            nothing_applied: true,
        }
    }
}

fn told(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}
