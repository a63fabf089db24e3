//! Metadata of a message: fields stored under a dialect's name, and fields that are passed through.
//!
//! | message | metadata key | content |
//! |---|---|---|
//! | native | name of a dialect | fields of that dialect without a native counterpart |
//! | dialect | `quorate` | native fields without a counterpart in that dialect |
//! | either | any other | passed through unchanged |

use quorate_core::Refused;
use serde_json::value::RawValue;

use super::Dialect;
use super::field_reader::{FieldError, FieldReader, field_path};
use super::writer::ObjectWriter;

/// Metadata key of the native fields in a dialect's message.
pub(super) const NATIVE_EXTRAS: &str = "quorate";
/// Metadata key of the author's timestamp.
const TIMESTAMP: &str = "timestamp";

type Pairs = Vec<(String, Box<RawValue>)>;

/// Metadata of a native message, from the view of one dialect.
pub(super) struct DialectMetadata {
    /// The original metadata; `None` if there is none.
    text: Option<Box<RawValue>>,
    /// Fields stored by the dialect itself.
    own: Pairs,
    /// All other fields.
    rest: Pairs,
    /// Whether the other fields can be passed through unchanged.
    can_pass_through: bool,
}

impl DialectMetadata {
    pub(super) fn of(dialect: Dialect, metadata: Option<&str>) -> Self {
        let text = metadata.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let mut rest = text.as_deref().map_or(Some(Vec::new()), pairs);
        let can_pass_through =
            rest.as_ref().is_some_and(|rest| rest.iter().all(|(name, _)| name != NATIVE_EXTRAS));
        let rest = rest.as_mut().map(std::mem::take).unwrap_or_default();
        let (own, rest): (Pairs, Pairs) = rest.into_iter().partition(|(name, _)| name == dialect.as_str());
        let own = own.first().and_then(|(_, own)| pairs(own)).unwrap_or_default();
        Self { text, own, rest, can_pass_through }
    }

    /// Returns a field stored by the dialect.
    pub(super) fn own(&self, name: &str) -> Option<&RawValue> {
        self.own.iter().find(|(stored, _)| stored == name).map(|(_, value)| &**value)
    }

    /// Returns a text field stored by the dialect.
    pub(super) fn own_text(&self, name: &str) -> Option<String> {
        self.own(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Returns the metadata of the dialect's message: fields passed through, and native extras.
    pub(super) fn dialect_metadata(&self, extras: &ObjectWriter) -> Option<Box<RawValue>> {
        let rest = object_of(&self.rest);
        let all = if extras.is_empty() { rest } else { rest.with(NATIVE_EXTRAS, extras) };
        (!all.is_empty()).then(|| all.to_raw())
    }

    /// Returns the original metadata.
    pub(super) fn original(&self) -> Box<RawValue> {
        self.text.clone().unwrap_or_else(|| RawValue::NULL.to_owned())
    }

    /// Whether parsing the rendered message yields the original metadata again; `own` are the dialect fields of that
    /// parse.
    pub(super) fn round_trips(&self, dialect: Dialect, own: &Pairs) -> bool {
        if !self.can_pass_through {
            return false;
        }
        let mut rebuilt = self.rest.clone();
        if !own.is_empty() {
            rebuilt.push((dialect.as_str().to_owned(), object_of(own).to_raw()));
        }
        match &self.text {
            None => rebuilt.is_empty(),
            Some(text) => pairs(text).is_some_and(|before| !before.is_empty() && same(before, rebuilt)),
        }
    }
}

/// Whether two objects are equal, regardless of field order.
fn same(mut left: Pairs, mut right: Pairs) -> bool {
    let by_name = |a: &(String, Box<RawValue>), b: &(String, Box<RawValue>)| a.0.cmp(&b.0);
    left.sort_by(by_name);
    right.sort_by(by_name);
    left.len() == right.len() && left.iter().zip(&right).all(|(a, b)| a.0 == b.0 && a.1.get() == b.1.get())
}

fn object_of(pairs: &Pairs) -> ObjectWriter {
    pairs.iter().fold(ObjectWriter::default(), |object, (name, value)| object.with(name, value))
}

/// Returns the fields of an object without duplicate fields.
fn pairs(raw: &RawValue) -> Option<Pairs> {
    let fields = FieldReader::parse("", raw).ok()?;
    Some(fields.remaining().into_iter().map(|(name, value)| (name.into_owned(), value.to_owned())).collect())
}

pub(super) fn native_extras_path(metadata_path: &str) -> String {
    field_path(metadata_path, NATIVE_EXTRAS)
}

/// Splits a dialect's metadata into native extras and other fields.
pub(super) fn split(
    dialect: Dialect,
    path: &str,
    metadata: Option<&RawValue>,
) -> Result<(Option<Box<RawValue>>, Pairs), FieldError> {
    let Some(metadata) = metadata else { return Ok((None, Vec::new())) };
    let mut fields = FieldReader::parse(path, metadata)?;
    let extras = fields.raw(NATIVE_EXTRAS).map(ToOwned::to_owned);
    if fields.has(dialect.as_str()) {
        return Err(FieldError::new(fields.path_of(dialect.as_str()), "this name is reserved for the hub")
            .hint("use another name"));
    }
    let rest = fields.remaining().into_iter().map(|(name, value)| (name.into_owned(), value.to_owned()));
    Ok((extras, rest.collect()))
}

/// Builds the native metadata: `whole` if given, else the fields of `rest` and those stored by the dialect (`own`).
pub(super) fn join(
    dialect: Dialect,
    path: &str,
    whole: Option<Box<RawValue>>,
    rest: Pairs,
    own: Pairs,
) -> Result<Option<String>, FieldError> {
    let mut all = match whole {
        None => rest,
        Some(whole) if own.is_empty() => {
            return Ok(Some(whole.get().to_owned()).filter(|text| text != "null"));
        }
        Some(whole) => {
            pairs(&whole).ok_or_else(|| not_an_object(&field_path(&native_extras_path(path), "metadata")))?
        }
    };
    if !own.is_empty() {
        all.retain(|(name, _)| name != dialect.as_str());
        all.push((dialect.as_str().to_owned(), object_of(&own).to_raw()));
    }
    Ok((!all.is_empty()).then(|| object_of(&all).to_raw().get().to_owned()))
}

fn not_an_object(path: &str) -> FieldError {
    FieldError::new(path, "not an object, so fields of the dialect cannot be stored in it")
}

/// Splits the author's timestamp from the metadata.
pub(super) fn take_timestamp(
    dialect: Dialect,
    metadata: Option<String>,
) -> (Option<Box<RawValue>>, Option<String>) {
    let Some(Ok(raw)) = metadata.clone().map(RawValue::from_string) else { return (None, metadata) };
    let Some(mut all) = pairs(&raw) else { return (None, metadata) };
    let Some(index) = all.iter().position(|(name, _)| name == dialect.as_str()) else {
        return (None, metadata);
    };
    let Some(mut own) = pairs(&all[index].1) else { return (None, metadata) };
    let Some(own_index) = own.iter().position(|(name, _)| name == TIMESTAMP) else {
        return (None, metadata);
    };
    if !is_timestamp(dialect, &own[own_index].1) {
        return (None, metadata);
    }
    let (_, timestamp) = own.remove(own_index);
    match own.is_empty() {
        true => drop(all.remove(index)),
        false => all[index].1 = object_of(&own).to_raw(),
    }
    let metadata = (!all.is_empty()).then(|| object_of(&all).to_raw().get().to_owned());
    (Some(timestamp), metadata)
}

/// Whether the dialect accepts this value as a timestamp.
fn is_timestamp(dialect: Dialect, raw: &RawValue) -> bool {
    let wrapped = ObjectWriter::default().with(TIMESTAMP, raw).to_raw();
    FieldReader::parse("", &wrapped).is_ok_and(|mut fields| match dialect {
        Dialect::Deliberation => {
            fields.number(TIMESTAMP).is_ok_and(|number| number.is_some_and(|ms| ms >= 0.0))
        }
        _ => fields.time(TIMESTAMP).is_ok_and(|time| time.is_some()),
    })
}

/// Adds the author's timestamp to the metadata.
pub(super) fn put_timestamp(
    dialect: Dialect,
    path: &str,
    metadata: Option<String>,
    timestamp: Option<Box<RawValue>>,
) -> Result<Option<String>, Refused> {
    let Some(timestamp) = timestamp else { return Ok(metadata) };
    let all = metadata.map(RawValue::from_string).transpose().ok().flatten();
    let all = all.map_or(Some(Vec::new()), |raw| pairs(&raw));
    let mut all = all.ok_or_else(|| not_an_object(&field_path(path, "metadata")))?;
    let index = all.iter().position(|(name, _)| name == dialect.as_str());
    let own = index.map_or(Some(Vec::new()), |index| pairs(&all.remove(index).1));
    let mut own =
        own.ok_or_else(|| not_an_object(&field_path(&field_path(path, "metadata"), dialect.as_str())))?;
    own.retain(|(name, _)| name != TIMESTAMP);
    own.push((TIMESTAMP.to_owned(), timestamp));
    all.push((dialect.as_str().to_owned(), object_of(&own).to_raw()));
    Ok(Some(object_of(&all).to_raw().get().to_owned()))
}
