//! Responses rendered chunk by chunk. The next chunk is rendered when the connection has taken the previous one, so a
//! client that does not read costs one chunk of memory; it is disconnected after a timeout.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::call::Call;
use crate::listen::Connection;

/// A chunk is complete with the record that reaches this size.
pub(crate) const RECORD_CHUNK_BYTES: usize = 64 * 1024;

/// Sender of a chunked response.
pub(crate) struct ChunkSender {
    sender: mpsc::Sender<Bytes>,
    write_timeout: Duration,
    connection: Option<Connection>,
}

/// The client has disconnected, or was disconnected after a timeout.
pub(crate) struct ReaderGone;

/// Capacity for one chunk.
pub(crate) struct ChunkSlot(mpsc::OwnedPermit<Bytes>);

impl ChunkSlot {
    /// Sends the chunk; an empty one is skipped.
    pub(crate) fn send(self, text: String) {
        if !text.is_empty() {
            self.0.send(Bytes::from(text));
        }
    }
}

impl ChunkSender {
    /// Creates the response of a call: the sender and the body.
    pub(crate) fn new(call: &Call) -> (Self, Body) {
        let (sender, receiver) = mpsc::channel(1);
        let chunks = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|chunk| (Ok::<Bytes, Infallible>(chunk), receiver))
        });
        let write_timeout = call.app.settings().timeouts.write;
        (Self { sender, write_timeout, connection: call.connection().cloned() }, Body::from_stream(chunks))
    }

    /// Waits until the connection has taken the last chunk. A client that does not read within the timeout is
    /// disconnected.
    pub(crate) async fn reserve(&self) -> Result<ChunkSlot, ReaderGone> {
        match tokio::time::timeout(self.write_timeout, self.sender.clone().reserve_owned()).await {
            Ok(Ok(permit)) => Ok(ChunkSlot(permit)),
            Ok(Err(_)) => Err(ReaderGone),
            Err(_) => {
                // The client is not reading, so a graceful end would not reach it either.
                self.connection.iter().for_each(Connection::abort);
                Err(ReaderGone)
            }
        }
    }

    /// Resolves when the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Resolves when the hub begins to shut down.
    pub(crate) async fn stopped(&self) {
        match &self.connection {
            Some(connection) => connection.shutting_down().await,
            None => std::future::pending().await,
        }
    }
}
