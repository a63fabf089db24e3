//! A response that is rendered piece by piece. The next piece is rendered when the connection has taken the one before:
//! a reader that does not read costs one piece, and is cut off after a while.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::call::Call;
use crate::listen::Life;

/// A piece is complete with the record that brings it to so many bytes.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// The sending side of a response in pieces.
pub(crate) struct Pieces {
    sender: mpsc::Sender<Bytes>,
    patience: Duration,
    life: Option<Life>,
}

/// The reader has gone, or was cut off.
pub(crate) struct Gone;

/// Room for one piece.
pub(crate) struct Room(mpsc::OwnedPermit<Bytes>);

impl Room {
    /// Hands the piece to the connection; an empty one is left out.
    pub(crate) fn send(self, text: String) {
        if !text.is_empty() {
            self.0.send(Bytes::from(text));
        }
    }
}

impl Pieces {
    /// A response to a call, and the body that takes its pieces.
    pub(crate) fn new(call: &Call) -> (Self, Body) {
        let (sender, receiver) = mpsc::channel(1);
        let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|piece| (Ok::<Bytes, Infallible>(piece), receiver))
        });
        let patience = call.app.settings().patience.reader;
        (Self { sender, patience, life: call.life().cloned() }, Body::from_stream(pieces))
    }

    /// Waits until the connection has taken the last piece. A reader that takes nothing for too long is cut off.
    pub(crate) async fn room(&self) -> Result<Room, Gone> {
        match tokio::time::timeout(self.patience, self.sender.clone().reserve_owned()).await {
            Ok(Ok(permit)) => Ok(Room(permit)),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                // Nobody reads, so nobody would read of the end either: the connection is dropped as it is.
                self.life.iter().for_each(Life::cut);
                Err(Gone)
            }
        }
    }

    /// Ends when the reader has gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Ends when the hub is told to stop.
    pub(crate) async fn stopped(&self) {
        match self.life.clone() {
            Some(mut life) => life.stopped().await,
            None => std::future::pending().await,
        }
    }
}
