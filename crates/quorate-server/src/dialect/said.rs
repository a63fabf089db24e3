//! Strict field-by-field parser for JSON objects, with field paths in errors.

use std::borrow::Cow;

use quorate_core::{AgentId, Code, Refused, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::Fields;

/// An invalid field in a dialect message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    /// Field path: `[1].header.target_agent`; empty for the whole message.
    pub(crate) path: String,
    /// Description of the error.
    pub(crate) what: String,
    /// Suggested fix.
    pub(crate) hint: String,
}

impl Wrong {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        let hint = "see docs/guides/dialects.md for the fields of every dialect".to_owned();
        Self { path: path.into(), what: what.into(), hint }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl From<Wrong> for Refused {
    fn from(error: Wrong) -> Self {
        let Wrong { path, what, hint } = error;
        let detail = if path.is_empty() { what } else { format!("{path}: {what}") };
        Self::new(Code::Invalid, detail).hint(hint)
    }
}

/// Returns the path of a field.
pub(crate) fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An object whose fields are taken one by one; none may be left.
pub(crate) struct Said<'a> {
    path: String,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Said<'a> {
    pub(crate) fn read(path: impl Into<String>, raw: &'a RawValue) -> Result<Self, Wrong> {
        let path = path.into();
        let fields = match serde_json::from_str::<Fields<'a>>(raw.get()) {
            Ok(fields) => fields.into_pairs(),
            Err(_) => return Err(Wrong::new(path, format!("{} is not an object", shortened(raw.get())))),
        };
        for (at, (name, _)) in fields.iter().enumerate() {
            if fields[..at].iter().any(|(other, _)| other == name) {
                return Err(Wrong::new(under(&path, name), "duplicate field"));
            }
        }
        Ok(Self { path, fields })
    }

    /// Returns the path of a field of this object.
    pub(super) fn at(&self, name: &str) -> String {
        under(&self.path, name)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    pub(super) fn missing(&self, name: &str) -> Wrong {
        Wrong::new(self.at(name), "missing field")
    }

    /// Takes a field as raw JSON; `null` counts as present.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Takes an optional field; `null` counts as absent.
    pub(super) fn value(&mut self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Wrong> {
        self.typed(name, "is not a string")
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            return Err(Wrong::new(path, format!("{} is not a list", shortened(raw.get()))));
        };
        let read = items.iter().enumerate().map(|(at, item)| {
            serde_json::from_str(item.get()).map_err(|_| {
                Wrong::new(format!("{path}[{at}]"), format!("{} is not a string", shortened(item.get())))
            })
        });
        read.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<Option<u64>, Wrong> {
        self.typed(name, "is not a non-negative integer")
    }

    pub(super) fn yes(&mut self, name: &str) -> Result<Option<bool>, Wrong> {
        self.typed(name, "is not a boolean")
    }

    /// Takes a number, parsed without loss of precision.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let is_numeric = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let number = raw.get().parse().ok().filter(|number: &f64| is_numeric && number.is_finite());
        number.map(Some).ok_or_else(|| Wrong::new(path, format!("{} is not a number", shortened(raw.get()))))
    }

    /// Takes a confidence between 0 and 1.
    pub(super) fn confidence(&mut self, name: &str) -> Result<Option<f64>, Wrong> {
        let path = self.at(name);
        match self.number(name)? {
            Some(outside) if !(0.0..=1.0).contains(&outside) => {
                Err(Wrong::new(path, format!("{outside} is not between 0 and 1")))
            }
            within => Ok(within),
        }
    }

    pub(super) fn agent(&mut self, name: &str) -> Result<Option<AgentId>, Wrong> {
        let path = self.at(name);
        let id = self.text(name)?.map(AgentId::new).transpose();
        id.map_err(|refused| Wrong::new(path, refused.detail))
    }

    /// Takes a time, with its original text. A time without a zone is in UTC.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<(Timestamp, String)>, Wrong> {
        let path = self.at(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match time_of(&text) {
            Some(time) => Ok(Some((time, text))),
            None => Err(Wrong::new(path, format!("invalid time {text:?}"))
                .hint("use RFC 3339: 2026-01-31T09:30:00.000Z")),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Said<'a>>, Wrong> {
        let path = self.at(name);
        self.value(name).map(|raw| Said::read(path, raw)).transpose()
    }

    /// Takes one of several named values.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Wrong> {
        let path = self.at(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(Wrong::new(path, format!("unknown value {text:?}, expected one of {}", all.join(", "))))
            }
        }
    }

    fn typed<T: Deserialize<'a>>(&mut self, name: &str, expectation: &str) -> Result<Option<T>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let error = |_| Wrong::new(path, format!("{} {expectation}", shortened(raw.get())));
        serde_json::from_str(raw.get()).map(Some).map_err(error)
    }

    /// Returns the remaining fields.
    pub(super) fn rest(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.fields
    }

    /// Refuses remaining fields: an unknown field is an error.
    pub(super) fn end(self, instead: &str) -> Result<(), Wrong> {
        match self.fields.first() {
            None => Ok(()),
            Some((name, _)) => Err(Wrong::new(self.at(name), "unknown field").hint(instead)),
        }
    }
}

/// Parses a time with or without a zone.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let zoned = text.parse::<jiff::Timestamp>().ok();
    let time = zoned.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

/// Truncates a value for an error message.
pub(super) fn shortened(json: &str) -> Cow<'_, str> {
    const CHARS: usize = 40;
    match json.char_indices().nth(CHARS) {
        None => json.into(),
        Some((at, _)) => format!("{}…", &json[..at]).into(),
    }
}
