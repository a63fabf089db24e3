//! Limits the size of frames. The WebSocket library has one limit for all connections, which is that of the largest
//! policy. The frames of a connection are limited below it, in the byte stream: first to the default size. A frame that
//! exceeds it is read on if the policy of the space allows larger ones, and once there is a slot for it.

use std::task::Poll;

use futures_util::future::BoxFuture;

use super::{READ_BUFFER_BYTES, Session};
use crate::body::BODY_BYTES_DEFAULT;
use crate::large_requests::LargeRequest;
use crate::listen::Connection;
use crate::unauthenticated::ReadBudget;

/// Bytes beyond those of a frame that the library may have read: its header, and the start of the next one.
const SLACK_BYTES: usize = READ_BUFFER_BYTES + 1024;
/// Bytes of the header of a control frame.
const CONTROL_HEADER_BYTES: usize = 6;

/// The limit of the frame that is being received.
pub(super) struct FrameLimit {
    /// Limits the byte stream; `None` in tests without a connection.
    connection: Option<Connection>,
    /// Whether the frame exceeds the default size, and waits for a slot.
    is_waiting: bool,
    /// Whether the frame may be larger than the default size.
    is_extended: bool,
    /// The slot, kept until all replies are sent: the operations of the frame occupy memory until then.
    slot: Option<LargeRequest>,
    acquiring: Option<BoxFuture<'static, LargeRequest>>,
}

impl FrameLimit {
    pub(super) fn new(connection: Option<Connection>) -> Self {
        let limit = Self { connection, is_waiting: false, is_extended: false, slot: None, acquiring: None };
        limit.restart();
        limit
    }

    fn with_budget(&self, apply: impl FnOnce(&ReadBudget)) {
        if let Some(connection) = &self.connection {
            apply(connection.read_budget());
        }
    }

    fn restart(&self) {
        self.with_budget(|budget| budget.limit(BODY_BYTES_DEFAULT + SLACK_BYTES));
    }

    /// Whether no more of the frame is read for now.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Resolves if the frame exceeds its limit. Only reading can exceed it, so no waker is needed: poll this after the
    /// socket.
    pub(super) async fn exceeded(&mut self) {
        let is_exceeded = || match &self.connection {
            Some(connection) => connection.read_budget().is_exceeded(),
            None => false,
        };
        std::future::poll_fn(|_| if is_exceeded() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Handles a frame that exceeds its limit. Returns the limit if it is refused.
    pub(super) fn on_exceeded(&mut self, session: &Session) -> Result<(), usize> {
        let bytes_max = session.frame_bytes_max();
        if self.is_extended || bytes_max == BODY_BYTES_DEFAULT {
            return Err(bytes_max);
        }
        self.is_waiting = true;
        Ok(())
    }

    /// Continues a waiting frame, or frees the slot of the last one. Called while no reply is pending.
    pub(super) fn advance(&mut self, session: &Session) {
        if !self.is_waiting {
            if !self.is_extended {
                self.slot = None;
            }
        } else if self.slot.is_some() {
            self.is_waiting = false;
            self.is_extended = true;
            let bytes = session.frame_bytes_max().saturating_sub(BODY_BYTES_DEFAULT);
            self.with_budget(|budget| budget.extend(bytes.max(1)));
        } else if self.acquiring.is_none() {
            let requests = session.app.large_requests().clone();
            let (space, principal) = (session.space.number(), session.principal.clone());
            self.acquiring = Some(Box::pin(async move { requests.acquire(space, &principal).await }));
        }
    }

    /// Resolves when there is a slot. Cancel safe.
    pub(super) async fn acquired(&mut self) {
        match &mut self.acquiring {
            Some(acquiring) => {
                self.slot = Some(acquiring.await);
                self.acquiring = None;
            }
            None => std::future::pending().await,
        }
    }

    /// Starts the limit of the next frame.
    ///
    /// # Errors
    /// The limit, if the received frame exceeds it.
    pub(super) fn on_frame(&mut self, session: &Session, bytes: usize) -> Result<(), usize> {
        self.is_extended = false;
        self.restart();
        if bytes <= BODY_BYTES_DEFAULT {
            return Ok(());
        }
        let bytes_max = session.frame_bytes_max();
        if bytes <= bytes_max { Ok(()) } else { Err(bytes_max) }
    }

    /// Excludes a control frame from the limit. It can be in between the parts of a fragmented frame.
    pub(super) fn on_control_frame(&self, payload: usize) {
        self.with_budget(|budget| budget.extend(payload + CONTROL_HEADER_BYTES));
    }
}
