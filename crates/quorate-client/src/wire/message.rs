//! Conversion of messages and deliveries.

use std::sync::Arc;

use quorate::backend::{Answer, MessageRef, ReceivedDelivery};
use quorate::{Error, ListedMessage, MessagesPage};
use quorate_api::delivery::Delivery as DeliveryJson;
use quorate_api::message::Message as MessageJson;
use quorate_api::page::Page;
use quorate_api::result::SendReceipt;
use quorate_core::{LeaseRef, Message, MessageId, Timestamp};

use super::unexpected_response;

/// Converts an answer: the message with its id and the time it was sent.
pub(crate) fn convert_answer(message: MessageJson) -> Result<Answer, Error> {
    let (id, at) = (parse_message_ref(&message.id)?, message.timestamp);
    Ok(Answer { id, at, message: Arc::new(message.into_core()?) })
}

/// Converts a delivery under a lease of the given duration.
pub(crate) fn convert_delivery(delivery: DeliveryJson, lease_ms: u64) -> Result<ReceivedDelivery, Error> {
    let lease = delivery.delivery_id.zip(delivery.lease_token);
    let lease = lease.map(|(delivery, token)| LeaseRef { delivery, token });
    let Answer { id, at, message } = convert_answer(delivery.message)?;
    Ok(ReceivedDelivery { lease, lease_ms, attempt: delivery.attempt, id, sent_at: at, message })
}

/// Converts a durable message: its id, the time it was sent, and the message.
pub(crate) fn convert_durable(message: MessageJson) -> Result<(MessageId, Timestamp, Arc<Message>), Error> {
    let Answer { id, at, message } = convert_answer(message)?;
    match id {
        MessageRef::Durable(id) => Ok((id, at, message)),
        MessageRef::Ephemeral(_) | MessageRef::Flag => {
            Err(unexpected_response(&"an ephemeral message in a list of durable messages"))
        }
    }
}

/// Converts a page of messages.
pub(crate) fn convert_page(page: Page<MessageJson>) -> Result<MessagesPage, Error> {
    let convert =
        |message| convert_durable(message).map(|(id, at, message)| ListedMessage { id, at, message });
    let messages = page.items.into_iter().map(convert).collect::<Result<_, _>>()?;
    Ok(MessagesPage { messages, cursor: page.cursor.map(|cursor| cursor.parse()).transpose()? })
}

/// Returns the id of a sent message. The receipt of a conduct flag has no id.
pub(crate) fn message_ref_of(receipt: &SendReceipt) -> Result<MessageRef, Error> {
    match receipt {
        SendReceipt::Message(sent) => parse_message_ref(&sent.id),
        SendReceipt::Flag(_) => Ok(MessageRef::Flag),
    }
}

/// Parses the id of a durable or ephemeral message.
fn parse_message_ref(text: &str) -> Result<MessageRef, Error> {
    match text.strip_prefix("eph_") {
        Some(number) => {
            number.parse().map(MessageRef::Ephemeral).map_err(|error| unexpected_response(&error))
        }
        None => Ok(MessageRef::Durable(text.parse()?)),
    }
}
