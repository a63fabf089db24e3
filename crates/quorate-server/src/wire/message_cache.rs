//! Cache of rendered messages: a message with several recipients is serialized once for deliveries close in time.

use std::sync::{Mutex, PoisonError};

use quorate_api::message::Message;
use quorate_core::{Destination, MessageId, SpaceNo};
use quorate_engine::{MessageRef, ReceivedDelivery, views};
use serde::Serialize;

use super::RawJson;

/// Number of cache slots. The slot is chosen by message id; a later message replaces an earlier one.
const SLOTS: usize = 256;
/// Maximum size of a cached message. Bounds the cache to 4 MB.
const BYTES_MAX: usize = 16 * 1024;

/// A message as JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum MessageJson {
    /// To be serialized.
    Fresh(Box<Message>),
    /// Serialized before, for another recipient.
    Cached(RawJson),
}

impl MessageJson {
    pub(crate) fn fresh(delivery: &ReceivedDelivery) -> Self {
        Self::Fresh(Box::new(views::message(delivery.id, delivery.sent_at, &delivery.message)))
    }
}

/// A cached message.
type CacheEntry = (SpaceNo, MessageId, RawJson);

/// Cache of recently rendered messages.
pub(crate) struct MessageCache {
    slots: Box<[Mutex<Option<CacheEntry>>]>,
}

impl Default for MessageCache {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }
}

impl MessageCache {
    /// Returns the message of a delivery as JSON.
    pub(crate) fn render(&self, space: SpaceNo, delivery: &ReceivedDelivery) -> MessageJson {
        let MessageRef::Durable(id) = delivery.id else { return MessageJson::fresh(delivery) };
        let is_for_many = match &delivery.message.to {
            Destination::Agent(_) | Destination::Can(_) => false,
            Destination::Agents(_)
            | Destination::Topic(_)
            | Destination::Broadcast
            | Destination::Role(_) => true,
        };
        // An erased payload must not be served from the cache.
        let payload = &delivery.message.payload;
        if !is_for_many || payload.is_erased() || payload.bytes.len() > BYTES_MAX / 2 {
            return MessageJson::fresh(delivery);
        }
        let slot = (id.seq.0 as usize).wrapping_mul(31).wrapping_add(id.n as usize) % SLOTS;
        let mut slot = self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cached_space, cached_id, raw)) = &*slot
            && (*cached_space, *cached_id) == (space, id)
        {
            return MessageJson::Cached(raw.clone());
        }
        let fresh = MessageJson::fresh(delivery);
        match serde_json::to_vec(&fresh) {
            Ok(bytes) if bytes.len() <= BYTES_MAX => {
                let raw = RawJson(bytes.into());
                *slot = Some((space, id, raw.clone()));
                MessageJson::Cached(raw)
            }
            _ => fresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{Generation, Message, MessageId, Payload, Seq, SpaceNo, Timestamp};
    use quorate_engine::{MessageRef, ReceivedDelivery};

    use super::{MessageCache, MessageJson, SLOTS};

    fn delivery(seq: u64, to: &str, text: &str) -> ReceivedDelivery {
        let payload = Payload::seal(text.to_owned().into(), [7; 16]);
        let id = MessageId { generation: Generation(0), seq: Seq(seq), n: 0 };
        ReceivedDelivery {
            lease: None,
            lease_ms: 0,
            attempt: 1,
            id: MessageRef::Durable(id),
            sent_at: Timestamp(seq),
            message: Arc::new(Message::new(to.parse().unwrap(), "say", payload)),
        }
    }

    fn json(message: &MessageJson) -> String {
        serde_json::to_string(message).unwrap()
    }

    // Fails under: a cache hit that returns another message, or a message of another space.
    #[test]
    fn a_cached_message_equals_a_fresh_one() {
        let cache = MessageCache::default();
        let long = format!("{:?}", "x".repeat(20_000));
        for seq in [1, 2, 1, 1 + SLOTS as u64, 1] {
            for (to, is_cached) in [("topic:news", true), ("*", true), ("bob", false), ("can:add", false)] {
                for space in [SpaceNo(1), SpaceNo(2)] {
                    let received = delivery(seq, to, &format!("[\"{to}\",{seq},{}]", space.0));
                    let (first, second) = (cache.render(space, &received), cache.render(space, &received));
                    assert_eq!(json(&first), json(&MessageJson::fresh(&received)));
                    assert_eq!(json(&second), json(&first));
                    assert_eq!(matches!(second, MessageJson::Cached(_)), is_cached, "{to}");
                    let changed = delivery(seq, to, &long);
                    drop(cache.render(SpaceNo(3), &changed));
                }
            }
        }
        assert!(matches!(cache.render(SpaceNo(1), &delivery(9, "*", &long)), MessageJson::Fresh(_)));
    }
}
