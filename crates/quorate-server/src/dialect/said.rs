//! Reading what somebody said, field by field: strictly, and with the path of what is wrong.

use std::borrow::Cow;

use quorate_core::{AgentId, Code, Refused, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::Fields;

/// Something in a message of a dialect is not as it must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    /// Where: `[1].header.target_agent`; empty is the whole.
    pub(crate) path: String,
    /// What is wrong with it.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) hint: String,
}

impl Wrong {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        let hint = "see docs/guides/dialects.md for the shape of every dialect".to_owned();
        Self { path: path.into(), what: what.into(), hint }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Self {
        let Wrong { path, what, hint } = wrong;
        let detail = if path.is_empty() { what } else { format!("{path}: {what}") };
        Self::new(Code::Invalid, detail).hint(hint)
    }
}

/// The path of a field.
pub(crate) fn under(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An object whose fields are taken out one by one; none may be left over.
pub(crate) struct Said<'a> {
    path: String,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Said<'a> {
    pub(crate) fn read(path: impl Into<String>, raw: &'a RawValue) -> Result<Self, Wrong> {
        let path = path.into();
        let fields = match serde_json::from_str::<Fields<'a>>(raw.get()) {
            Ok(fields) => fields.into_pairs(),
            Err(_) => return Err(Wrong::new(path, format!("{} is no object", shortened(raw.get())))),
        };
        for (at, (name, _)) in fields.iter().enumerate() {
            if fields[..at].iter().any(|(other, _)| other == name) {
                return Err(Wrong::new(under(&path, name), "is said twice"));
            }
        }
        Ok(Self { path, fields })
    }

    /// The path of one of its fields.
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
        Wrong::new(self.at(name), "is missing")
    }

    /// A field as it stands there; `null` is something.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.remove(at).1)
    }

    /// A field that may be left out; `null` is left out.
    pub(super) fn value(&mut self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Wrong> {
        self.typed(name, "is no text")
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            return Err(Wrong::new(path, format!("{} is no list", shortened(raw.get()))));
        };
        let read = items.iter().enumerate().map(|(at, item)| {
            serde_json::from_str(item.get()).map_err(|_| {
                Wrong::new(format!("{path}[{at}]"), format!("{} is no text", shortened(item.get())))
            })
        });
        read.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<Option<u64>, Wrong> {
        self.typed(name, "is no whole number")
    }

    pub(super) fn yes(&mut self, name: &str) -> Result<Option<bool>, Wrong> {
        self.typed(name, "is neither true nor false")
    }

    /// A fraction, to the last bit as it was written.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let begins = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let number = raw.get().parse().ok().filter(|number: &f64| begins && number.is_finite());
        number.map(Some).ok_or_else(|| Wrong::new(path, format!("{} is no number", shortened(raw.get()))))
    }

    /// How sure somebody is.
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

    /// A time and how it was written. One without a zone is in UTC.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<(Timestamp, String)>, Wrong> {
        let path = self.at(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match time_of(&text) {
            Some(time) => Ok(Some((time, text))),
            None => Err(Wrong::new(path, format!("{text:?} is no time"))
                .hint("write it as in 2026-01-31T09:30:00.000Z")),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Said<'a>>, Wrong> {
        let path = self.at(name);
        self.value(name).map(|raw| Said::read(path, raw)).transpose()
    }

    /// One word of several.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Wrong> {
        let path = self.at(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meant)) => Ok(Some(*meant)),
            None => {
                let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(Wrong::new(path, format!("{text:?} is none of {}", all.join(", "))))
            }
        }
    }

    fn typed<T: Deserialize<'a>>(&mut self, name: &str, otherwise: &str) -> Result<Option<T>, Wrong> {
        let path = self.at(name);
        let Some(raw) = self.value(name) else { return Ok(None) };
        let wrong = |_| Wrong::new(path, format!("{} {otherwise}", shortened(raw.get())));
        serde_json::from_str(raw.get()).map(Some).map_err(wrong)
    }

    /// What is left, for whoever keeps it.
    pub(super) fn rest(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.fields
    }

    /// Nothing may be left: what nobody reads was meant to be something.
    pub(super) fn end(self, instead: &str) -> Result<(), Wrong> {
        match self.fields.first() {
            None => Ok(()),
            Some((name, _)) => Err(Wrong::new(self.at(name), "is no field of this dialect").hint(instead)),
        }
    }
}

/// A time as people and programs write it.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let zoned = text.parse::<jiff::Timestamp>().ok();
    let time = zoned.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

/// So much of a value that people recognise it.
pub(super) fn shortened(json: &str) -> Cow<'_, str> {
    const CHARS: usize = 40;
    match json.char_indices().nth(CHARS) {
        None => json.into(),
        Some((at, _)) => format!("{}…", &json[..at]).into(),
    }
}
