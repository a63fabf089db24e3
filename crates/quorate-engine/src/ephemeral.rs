//! Messages that live in memory only: at most once, no record, nothing to ack.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::{Code, Message, Refused, Timestamp};

use crate::post::{Delivery, MessageRef};

/// Messages that may lie on one shelf.
const SHELF_MAX: usize = 1024;
/// Bytes of payload that may lie on one shelf.
const SHELF_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message that lives in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Ephemeral {
    pub(crate) number: u64,
    pub(crate) sent_at: Timestamp,
    pub(crate) message: Arc<Message>,
}

impl Ephemeral {
    pub(crate) fn into_delivery(self) -> Delivery {
        Delivery {
            lease: None,
            lease_ms: 0,
            attempt: 1,
            id: MessageRef::Ephemeral(self.number),
            sent_at: self.sent_at,
            message: self.message,
        }
    }
}

/// Ephemeral messages for an agent that nobody listens for yet.
#[derive(Default)]
pub(crate) struct Shelf {
    messages: VecDeque<Ephemeral>,
    bytes: usize,
}

impl Shelf {
    pub(crate) fn put(&mut self, message: Ephemeral) -> Result<(), Refused> {
        let bytes = self.bytes + message.message.payload.bytes.len();
        if self.messages.len() >= SHELF_MAX || bytes > SHELF_BYTES_MAX {
            return Err(Refused::new(Code::QueueFull, "nobody takes the recipient's ephemeral messages")
                .limit(SHELF_MAX as u64)
                .hint("send it as a durable message, or wait until the recipient is there"));
        }
        self.bytes = bytes;
        self.messages.push_back(message);
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Option<Ephemeral> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.message.payload.bytes.len();
        Some(message)
    }
}
