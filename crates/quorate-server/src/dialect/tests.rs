//! Tests of each dialect: examples of the frameworks, round trips, and errors.

mod errors;
mod examples;
mod round_trip;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Dialect, Envelope};

/// An example message of a framework.
macro_rules! seed {
    ($name:literal) => {
        include_str!(concat!("../../../tests/seeds/", $name))
    };
}
pub(crate) use seed;

pub(super) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

pub(super) fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).expect("JSON")
}

/// Parses and renders a message.
pub(super) fn round_trip(dialect: Dialect, text: &str) -> Value {
    let envelope = dialect.parse("", &raw(text)).expect("it is read");
    value(&dialect.render(&envelope).expect("it is written"))
}

/// Returns all parts of an envelope, for comparison.
pub(super) fn parts_of(envelope: &Envelope) -> impl PartialEq + std::fmt::Debug + use<> {
    let metadata: Option<Value> =
        envelope.message.metadata.as_deref().map(|text| serde_json::from_str(text).expect("JSON"));
    let message = quorate_core::Message { metadata: None, ..envelope.message.clone() };
    let timestamp = envelope.timestamp.as_ref().map(|timestamp| timestamp.get().to_owned());
    (envelope.id.clone(), timestamp, message, envelope.payload.get().to_owned(), metadata)
}
