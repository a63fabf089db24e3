//! The journal: the events of a hub's own crates, one line each, for its operator: JSON, or plain for a terminal. Events
//! come by `tracing`; they hold no payloads, no tokens and no text that a caller wrote.
//!
//! The binary installs it for the whole process in `quorate serve`. Nothing here is static: a test installs one for its
//! own thread with `tracing::subscriber::set_default`, so several hubs in one process do not mix.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::wire::time;

/// Up to which level events are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The hub cannot go on.
    Error,
    /// Something was refused or failed.
    Warn,
    /// The hub starts, stops, recovers.
    Info,
    /// Every request.
    Debug,
}

impl Level {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }

    fn of(level: tracing::Level) -> Self {
        Self::ALL.into_iter().find(|own| level <= own.filter()).unwrap_or(Self::Debug)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| "say error, warn, info or debug".to_owned())
    }
}

/// What a line looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One object of JSON.
    Json,
    /// For people.
    Plain,
}

/// Takes a line, without its end.
pub type Out = Arc<dyn Fn(&str) + Send + Sync>;
/// Says what time it is.
type Wall = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Warnings that are said in one second; of the rest only the number. Whoever floods the hub with what it refuses does not
/// flood its disk too; the metrics count them all.
const WARNINGS_A_SECOND: u64 = 20;

/// Writes the events of Quorate's own crates as lines: a [`Subscriber`] of `tracing`. Events of other crates are left out,
/// whatever their level: what they write is not ours to promise for. Spans are not written.
pub struct Journal {
    level: Level,
    style: Style,
    now: Wall,
    out: Out,
    warned: Mutex<Warned>,
}

/// How much was warned of in a second.
#[derive(Default)]
struct Warned {
    second: u64,
    count: u64,
}

impl Warned {
    /// Whether one more is said, and how many were not in a second that is over.
    fn one_more(&mut self, now: Timestamp) -> (bool, u64) {
        let second = now.0 / 1_000;
        let mut left_out = 0;
        if second != self.second {
            left_out = self.count.saturating_sub(WARNINGS_A_SECOND);
            *self = Self { second, count: 0 };
        }
        self.count += 1;
        (self.count <= WARNINGS_A_SECOND, left_out)
    }
}

impl Journal {
    /// A journal that writes every event up to this level.
    #[must_use]
    pub fn new(
        level: Level,
        style: Style,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        out: Out,
    ) -> Self {
        Self { level, style, now: Arc::new(now), out, warned: Mutex::default() }
    }

    fn line(&self, now: Timestamp, level: Level, event: &str, fields: &[(&str, Value)]) {
        let at = time::shown(now);
        let line = match self.style {
            Style::Json => json_line(&at, level, event, fields),
            Style::Plain => plain_line(&at, level, event, fields),
        };
        (self.out)(&line);
    }
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && is_ours(metadata.target()) && *metadata.level() <= self.level.filter()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.filter())
    }

    fn event(&self, event: &Event<'_>) {
        let (level, now) = (Level::of(*event.metadata().level()), (self.now)());
        if level == Level::Warn {
            let (is_written, left_out) =
                self.warned.lock().unwrap_or_else(PoisonError::into_inner).one_more(now);
            if left_out > 0 {
                self.line(now, level, "left out", &[("warnings", left_out.into())]);
            }
            if !is_written {
                return;
            }
        }
        let (message, fields) = Fields::of(event);
        self.line(now, level, &message, &fields);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Whether a target is a module of Quorate: `quorate`, `quorate_server::listen` and so on.
fn is_ours(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    name == "quorate" || name.starts_with("quorate_")
}

/// The values of an event's fields by their index; `Null` for an `Option` that is `None`.
struct Fields(Vec<Value>);

impl Fields {
    /// The message of an event, and its other fields in their order.
    fn of(event: &Event<'_>) -> (String, Vec<(&'static str, Value)>) {
        let mut values = Self(vec![Value::Null; event.metadata().fields().len()]);
        event.record(&mut values);
        let mut fields: Vec<_> = event.metadata().fields().iter().map(|f| f.name()).zip(values.0).collect();
        let message = fields.iter().position(|(name, _)| *name == "message").map(|at| fields.remove(at).1);
        let message = message.and_then(|message| message.as_str().map(str::to_owned));
        (message.unwrap_or_default(), fields)
    }

    fn set(&mut self, field: &Field, value: Value) {
        if let Some(slot) = self.0.get_mut(field.index()) {
            *slot = value;
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }
}

fn json_line(at: &str, level: Level, event: &str, fields: &[(&str, Value)]) -> String {
    let head = [("at", at.into()), ("level", level.as_str().into()), ("event", event.into())];
    let pairs = head.iter().chain(fields).map(|(name, value)| format!("{}:{value}", Value::from(*name)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

fn plain_line(at: &str, level: Level, event: &str, fields: &[(&str, Value)]) -> String {
    let pairs = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| match value {
        Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n', '\u{1b}']) => {
            format!(" {name}={text}")
        }
        other => format!(" {name}={other}"),
    });
    format!("{at} {level:<5} {event}{}", pairs.collect::<String>())
}

#[cfg(test)]
mod tests;
