//! Reads a context that is a JSON object, such as the output of a phase: fields are recognised by their names.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::document::{Document, UnitReader};
use super::part::{Part, shortened};
use super::role::{self, Role};
use super::sentence::plain;

/// A field whose JSON is longer is a large output if it is no text.
const OUTPUT_BYTES_MIN: usize = 600;
/// A text longer than this, or with several lines, is read as Markdown.
const LINE_BYTES_MAX: usize = 200;
/// Objects that wrap the fields of a context, as in a handoff.
const WRAPPERS: [&str; 4] = ["context", "sharedContext", "shared_context", "payload"];
/// Fields of the envelope, which the receiver of a summary does not need.
const ENVELOPE: [&str; 10] = [
    "from",
    "to",
    "from_agent",
    "to_agent",
    "fromAgent",
    "toAgent",
    "handoff_type",
    "handoffType",
    "tokens_used",
    "timestamp",
];
/// Last words of fields that name where something is stored.
const REFERENCES: [&str; 7] = ["ref", "refs", "reference", "references", "artifacts", "snapshot", "files"];

/// Fields of an object in their order, as raw JSON.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder).map(Fields)
    }
}

/// Reads a JSON object; `None` if the text is none.
pub(super) fn document(text: &str) -> Option<Document<'_>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let Fields(fields) = serde_json::from_str(text).ok()?;
    if fields.is_empty() {
        return None;
    }
    let mut reader = FieldReader::default();
    let mut parts = Vec::with_capacity(fields.len());
    let mut begin = 0;
    for (index, (name, raw)) in fields.iter().enumerate() {
        let value: Value = serde_json::from_str(raw.get()).ok()?;
        let is_large_output = is_large_output(name, &value, raw.get());
        reader.field(name, &value);
        let end = match index + 1 == fields.len() {
            true => text.len(),
            false => raw.get().as_ptr() as usize - text.as_ptr() as usize + raw.get().len(),
        };
        let label = shortened(name);
        let label = if is_large_output { format!("{label}, {} bytes", raw.get().len()) } else { label };
        parts.push(Part { label, is_large_output, text: &text[begin..end] });
        begin = end;
    }
    let UnitReader { title, units, .. } = reader.units;
    Some(Document { title, units, parts, refs: reader.refs })
}

/// Whether a field is a large list or object, which is referenced. Lists of texts, such as findings, are not.
fn is_large_output(name: &str, value: &Value, json: &str) -> bool {
    let is_structure = match value {
        Value::Array(items) => !items.iter().all(Value::is_string),
        Value::Object(_) => !WRAPPERS.contains(&name),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    is_structure && json.len() >= OUTPUT_BYTES_MIN
}

/// Maximum number of items of a list, or fields of an object, that are considered for the summary.
const ITEMS_MAX: usize = 1_000;

#[derive(Default)]
struct FieldReader {
    units: UnitReader,
    refs: Vec<(String, String)>,
}

impl FieldReader {
    fn field(&mut self, name: &str, value: &Value) {
        if is_reference(name) {
            return self.reference(name, value);
        }
        // The summary of the sender is that of the compressed context.
        let role = if name == "summary" { Some(Role::Objective) } else { role::of_name(name) };
        if role == Some(Role::Reasoning) || ENVELOPE.contains(&name) {
            return;
        }
        match value {
            Value::Object(fields) if WRAPPERS.contains(&name) => {
                fields.iter().for_each(|(name, value)| self.field(name, value));
            }
            Value::Object(fields) => {
                for (field, value) in fields.iter().take(ITEMS_MAX) {
                    let text = format!("{name} {field}: {}", line(value));
                    self.text(&text, role.unwrap_or(Role::Background));
                }
            }
            Value::Array(items) => {
                let role = role.unwrap_or(Role::Analysis);
                items.iter().take(ITEMS_MAX).for_each(|item| self.text(&line(item), role));
            }
            Value::String(text) if role.is_some() || is_passage(text) => {
                self.text(text, role.unwrap_or(Role::Analysis));
            }
            Value::Null => {}
            other => self.text(&format!("{name}: {}", line(other)), role.unwrap_or(Role::Background)),
        }
    }

    fn text(&mut self, text: &str, role: Role) {
        if is_passage(text) { self.units.read_as(text, role) } else { self.units.push_text(text, role) }
    }

    /// Carries over where the sender stored something.
    fn reference(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(place) => self.refs.push((plain(name), plain(place))),
            Value::Object(places) => places.iter().for_each(|(name, place)| self.reference(name, place)),
            Value::Array(places) => {
                for (index, place) in places.iter().enumerate() {
                    self.refs.push((format!("{}{}", plain(name), index + 1), plain(&line(place))));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether a text is more than one line, so that it is read as Markdown.
fn is_passage(text: &str) -> bool {
    text.len() > LINE_BYTES_MAX || text.contains('\n')
}

fn is_reference(name: &str) -> bool {
    let lower = name.to_lowercase();
    let last = lower.rsplit('_').next().unwrap_or_default();
    REFERENCES.contains(&last) || name.ends_with("Ref") || name.ends_with("Snapshot")
}

/// Renders a value on one line: texts as they are, fields as `name: value`.
fn line(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(line).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name, line(value)));
            let fields =
                fields.filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}: {text}"));
            fields.collect::<Vec<_>>().join(", ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
