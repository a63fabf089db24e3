//! A message and where its deliveries are.

use std::sync::Arc;

use quorate_core::{DeliveryId, EndState, Message, MessageId, OpenState, Seq, Timestamp};
use quorate_engine::{DeliveryState as Kept, DeliveryView, MessageView};

/// A message and where its deliveries are.
#[derive(Clone, Debug)]
pub struct MessageInfo {
    /// Its id.
    pub id: MessageId,
    /// When it was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
    /// One for each recipient.
    pub deliveries: Vec<DeliveryInfo>,
}

/// Where one delivery is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryInfo {
    /// Its id.
    pub id: DeliveryId,
    /// The recipient; `can:CAPABILITY` for what one of several takes.
    pub to: String,
    /// Where it is.
    pub state: DeliveryState,
}

/// Where a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryState {
    /// Waiting to be taken.
    Ready {
        /// How often it was given out.
        attempt: u16,
    },
    /// Waiting for its time.
    Scheduled {
        /// How often it was given out.
        attempt: u16,
        /// When it can be taken.
        due: Timestamp,
    },
    /// Waiting until its session goes on.
    Held {
        /// How often it was given out.
        attempt: u16,
    },
    /// Somebody works on it.
    Leased {
        /// The how many-th try this is.
        attempt: u16,
    },
    /// It is over.
    Ended {
        /// How.
        state: EndState,
        /// By which record.
        seq: Seq,
    },
}

impl From<MessageView> for MessageInfo {
    fn from(view: MessageView) -> Self {
        let MessageView { id, at, message, deliveries } = view;
        Self { id, at, message, deliveries: deliveries.into_iter().map(DeliveryInfo::from).collect() }
    }
}

impl From<DeliveryView> for DeliveryInfo {
    fn from(view: DeliveryView) -> Self {
        let state = match view.state {
            Kept::Open { state, attempt } => match state {
                OpenState::Ready { .. } => DeliveryState::Ready { attempt },
                OpenState::Scheduled { due } => DeliveryState::Scheduled { attempt, due },
                OpenState::Held { .. } => DeliveryState::Held { attempt },
                OpenState::Leased { .. } => DeliveryState::Leased { attempt },
            },
            Kept::Ended { state, seq } => DeliveryState::Ended { state, seq },
        };
        Self { id: view.id, to: view.agent.to_string(), state }
    }
}
