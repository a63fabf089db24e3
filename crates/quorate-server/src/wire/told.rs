//! A message that goes to many is put into JSON once, for all whom it reaches at about the same time.

use std::sync::{Mutex, PoisonError};

use quorate_api::message::Message;
use quorate_core::{Destination, MessageId, SpaceNo};
use quorate_engine::{Delivery, MessageRef, views};
use serde::Serialize;

use super::Raw;

/// Messages that are remembered. Each has its place by its number; a later one takes it.
const PLACES: usize = 256;
/// Larger ones are put into JSON each time: all that is remembered together stays below 4 MB.
const BYTES_MAX: usize = 16 * 1024;

/// A message in JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// Put into JSON now.
    Fresh(Box<Message>),
    /// As somebody else was told.
    Again(Raw),
}

impl Told {
    pub(crate) fn fresh(delivery: &Delivery) -> Self {
        Self::Fresh(Box::new(views::message(delivery.id, delivery.sent_at, &delivery.message)))
    }
}

/// A message of a space, as it was told.
type Known = (SpaceNo, MessageId, Raw);

/// What others were told of late.
pub(crate) struct Before {
    places: Box<[Mutex<Option<Known>>]>,
}

impl Default for Before {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }
}

impl Before {
    /// The message of a delivery in JSON.
    pub(crate) fn tell(&self, space: SpaceNo, delivery: &Delivery) -> Told {
        let MessageRef::Durable(id) = delivery.id else { return Told::fresh(delivery) };
        let is_for_many = match &delivery.message.to {
            Destination::Agent(_) | Destination::Can(_) => false,
            Destination::Agents(_)
            | Destination::Topic(_)
            | Destination::Everybody
            | Destination::Role(_) => true,
        };
        // What was erased since must not be told again.
        let payload = &delivery.message.payload;
        if !is_for_many || payload.is_erased() || payload.bytes.len() > BYTES_MAX / 2 {
            return Told::fresh(delivery);
        }
        let place = (id.seq.0 as usize).wrapping_mul(31).wrapping_add(id.n as usize) % PLACES;
        let mut place = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((other, message, raw)) = &*place
            && (*other, *message) == (space, id)
        {
            return Told::Again(raw.clone());
        }
        let fresh = Told::fresh(delivery);
        match serde_json::to_vec(&fresh) {
            Ok(bytes) if bytes.len() <= BYTES_MAX => {
                let raw = Raw(bytes.into());
                *place = Some((space, id, raw.clone()));
                Told::Again(raw)
            }
            _ => fresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{Generation, Message, MessageId, Payload, Seq, SpaceNo, Timestamp};
    use quorate_engine::{Delivery, MessageRef};

    use super::{Before, PLACES, Told};

    fn delivery(seq: u64, to: &str, text: &str) -> Delivery {
        let payload = Payload::seal(text.to_owned().into(), [7; 16]);
        let id = MessageId { generation: Generation(0), seq: Seq(seq), n: 0 };
        Delivery {
            lease: None,
            lease_ms: 0,
            attempt: 1,
            id: MessageRef::Durable(id),
            sent_at: Timestamp(seq),
            message: Arc::new(Message::new(to.parse().unwrap(), "say", payload)),
        }
    }

    fn json(told: &Told) -> String {
        serde_json::to_string(told).unwrap()
    }

    // Fails under: another message, or one of another space, told in the place of one that was told before.
    #[test]
    fn what_is_told_again_is_what_would_be_told_afresh() {
        let before = Before::default();
        let long = format!("{:?}", "x".repeat(20_000));
        for seq in [1, 2, 1, 1 + PLACES as u64, 1] {
            for (to, again) in [("topic:news", true), ("*", true), ("bob", false), ("can:add", false)] {
                for space in [SpaceNo(1), SpaceNo(2)] {
                    let one = delivery(seq, to, &format!("[\"{to}\",{seq},{}]", space.0));
                    let (first, second) = (before.tell(space, &one), before.tell(space, &one));
                    assert_eq!(json(&first), json(&Told::fresh(&one)));
                    assert_eq!(json(&second), json(&first));
                    assert_eq!(matches!(second, Told::Again(_)), again, "{to}");
                    let changed = delivery(seq, to, &long);
                    drop(before.tell(SpaceNo(3), &changed));
                }
            }
        }
        assert!(matches!(before.tell(SpaceNo(1), &delivery(9, "*", &long)), Told::Fresh(_)));
    }
}
