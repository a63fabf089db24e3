//! Strict field-by-field parser for JSON objects, with field paths in errors.

use std::borrow::Cow;

use quorate_core::{AgentId, Code, Refused, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::RequestFields;

/// An invalid field in a dialect message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FieldError {
    /// Field path: `[1].header.target_agent`; empty for the whole message.
    pub(crate) path: String,
    /// Description of the error.
    pub(crate) detail: String,
    /// Suggested fix.
    pub(crate) hint: String,
}

impl FieldError {
    pub(crate) fn new(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let hint = "see docs/guides/dialects.md for the fields of every dialect".to_owned();
        Self { path: path.into(), detail: detail.into(), hint }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl From<FieldError> for Refused {
    fn from(error: FieldError) -> Self {
        let FieldError { path, detail, hint } = error;
        let detail = if path.is_empty() { detail } else { format!("{path}: {detail}") };
        Self::new(Code::Invalid, detail).hint(hint)
    }
}

/// Returns the path of a field.
pub(crate) fn field_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An object whose fields are taken one by one; none may be left.
pub(crate) struct FieldReader<'a> {
    path: String,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> FieldReader<'a> {
    pub(crate) fn parse(path: impl Into<String>, raw: &'a RawValue) -> Result<Self, FieldError> {
        let path = path.into();
        let fields = match serde_json::from_str::<RequestFields<'a>>(raw.get()) {
            Ok(fields) => fields.into_pairs(),
            Err(_) => return Err(FieldError::new(path, format!("{} is not an object", truncate(raw.get())))),
        };
        for (index, (name, _)) in fields.iter().enumerate() {
            if fields[..index].iter().any(|(other, _)| other == name) {
                return Err(FieldError::new(field_path(&path, name), "duplicate field"));
            }
        }
        Ok(Self { path, fields })
    }

    /// Returns the path of a field of this object.
    pub(super) fn path_of(&self, name: &str) -> String {
        field_path(&self.path, name)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    pub(super) fn missing(&self, name: &str) -> FieldError {
        FieldError::new(self.path_of(name), "missing field")
    }

    /// Takes a field as raw JSON; `null` counts as present.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let index = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.remove(index).1)
    }

    /// Takes an optional field; `null` counts as absent.
    pub(super) fn value(&mut self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, FieldError> {
        self.typed(name, "is not a string")
    }

    pub(super) fn text_list(&mut self, name: &str) -> Result<Option<Vec<String>>, FieldError> {
        let path = self.path_of(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            return Err(FieldError::new(path, format!("{} is not a list", truncate(raw.get()))));
        };
        let texts = items.iter().enumerate().map(|(index, item)| {
            serde_json::from_str(item.get()).map_err(|_| {
                FieldError::new(
                    format!("{path}[{index}]"),
                    format!("{} is not a string", truncate(item.get())),
                )
            })
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn integer(&mut self, name: &str) -> Result<Option<u64>, FieldError> {
        self.typed(name, "is not a non-negative integer")
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, FieldError> {
        self.typed(name, "is not a boolean")
    }

    /// Takes a number, parsed without loss of precision.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, FieldError> {
        let path = self.path_of(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let is_numeric = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let number = raw.get().parse().ok().filter(|number: &f64| is_numeric && number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| FieldError::new(path, format!("{} is not a number", truncate(raw.get()))))
    }

    /// Takes a confidence between 0 and 1.
    pub(super) fn confidence(&mut self, name: &str) -> Result<Option<f64>, FieldError> {
        let path = self.path_of(name);
        match self.number(name)? {
            Some(outside) if !(0.0..=1.0).contains(&outside) => {
                Err(FieldError::new(path, format!("{outside} is not between 0 and 1")))
            }
            within => Ok(within),
        }
    }

    pub(super) fn agent(&mut self, name: &str) -> Result<Option<AgentId>, FieldError> {
        let path = self.path_of(name);
        let id = self.text(name)?.map(AgentId::new).transpose();
        id.map_err(|refused| FieldError::new(path, refused.detail))
    }

    /// Takes a time, with its original text. A time without a zone is in UTC.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<(Timestamp, String)>, FieldError> {
        let path = self.path_of(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match parse_time(&text) {
            Some(time) => Ok(Some((time, text))),
            None => Err(FieldError::new(path, format!("invalid time {text:?}"))
                .hint("use RFC 3339: 2026-01-31T09:30:00.000Z")),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<FieldReader<'a>>, FieldError> {
        let path = self.path_of(name);
        self.value(name).map(|raw| FieldReader::parse(path, raw)).transpose()
    }

    /// Takes one of several named values.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, FieldError> {
        let path = self.path_of(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match choices.iter().find(|(choice, _)| *choice == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let all: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
                Err(FieldError::new(
                    path,
                    format!("unknown value {text:?}, expected one of {}", all.join(", ")),
                ))
            }
        }
    }

    fn typed<T: Deserialize<'a>>(&mut self, name: &str, expectation: &str) -> Result<Option<T>, FieldError> {
        let path = self.path_of(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let error = |_| FieldError::new(path, format!("{} {expectation}", truncate(raw.get())));
        serde_json::from_str(raw.get()).map(Some).map_err(error)
    }

    /// Returns the remaining fields.
    pub(super) fn remaining(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.fields
    }

    /// Refuses remaining fields: an unknown field is an error.
    pub(super) fn finish(self, hint: &str) -> Result<(), FieldError> {
        match self.fields.first() {
            None => Ok(()),
            Some((name, _)) => Err(FieldError::new(self.path_of(name), "unknown field").hint(hint)),
        }
    }
}

/// Parses a time with or without a zone.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    let zoned = text.parse::<jiff::Timestamp>().ok();
    let time = zoned.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

/// Truncates a value for an error message.
pub(super) fn truncate(json: &str) -> Cow<'_, str> {
    const CHARS: usize = 40;
    match json.char_indices().nth(CHARS) {
        None => json.into(),
        Some((end, _)) => format!("{}…", &json[..end]).into(),
    }
}
