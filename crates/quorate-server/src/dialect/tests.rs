//! Every dialect by itself: the seeds' examples, the way there and back, and what is refused.

mod examples;
mod round_trip;
mod wrong;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Dialect, Letter};

/// One of the seeds' own examples.
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

/// Reads, and writes again.
pub(super) fn there_and_back(dialect: Dialect, text: &str) -> Value {
    let letter = dialect.read("", &raw(text)).expect("it is read");
    value(&dialect.write(&letter).expect("it is written"))
}

/// All of a letter, to be compared.
pub(super) fn all_of(letter: &Letter) -> impl PartialEq + std::fmt::Debug + use<> {
    let metadata: Option<Value> =
        letter.message.metadata.as_deref().map(|text| serde_json::from_str(text).expect("JSON"));
    let message = quorate_core::Message { metadata: None, ..letter.message.clone() };
    let stamp = letter.stamp.as_ref().map(|stamp| stamp.get().to_owned());
    (letter.id.clone(), stamp, message, letter.payload.get().to_owned(), metadata)
}
