//! The journal: log events of Quorate's own crates, one per line, for the operator of a hub. Lines are JSON, or plain
//! text for a terminal. Events are emitted with `tracing`; they contain no payloads, no tokens and no text written by
//! callers.
//!
//! `quorate serve` installs it as the global subscriber. It has no static state: tests install one per thread with
//! `tracing::subscriber::set_default`, so several hubs in one process do not mix.

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

/// Maximum level of written events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum JournalLevel {
    /// The hub cannot continue.
    Error,
    /// Something was refused or failed.
    Warn,
    /// The hub starts, stops or recovers.
    Info,
    /// Every request.
    Debug,
}

impl JournalLevel {
    /// All levels, most severe first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Returns the level's name.
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

impl fmt::Display for JournalLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for JournalLevel {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| "expected error, warn, info or debug".to_owned())
    }
}

/// Format of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalFormat {
    /// One JSON object.
    Json,
    /// Human-readable text.
    Plain,
}

/// Receives each line, without a line break.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;
/// Returns the current time.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Maximum number of warnings per second in the log output. Beyond that only their number is written. A client that floods the hub with
/// rejected requests must not flood its disk; metrics count every request.
const WARNINGS_PER_SECOND_MAX: u64 = 20;

/// A `tracing` [`Subscriber`] that writes events of Quorate's own crates as lines. Events of other crates are
/// dropped, because their content cannot be vouched for. Spans are not written.
pub struct Journal {
    level: JournalLevel,
    format: JournalFormat,
    now: WallClock,
    out: LineSink,
    warnings: Mutex<WarningCounter>,
}

/// Number of warnings in the current second.
#[derive(Default)]
struct WarningCounter {
    second: u64,
    count: u64,
}

impl WarningCounter {
    /// Counts a warning. Returns whether to write it, and how many were suppressed in the previous second.
    fn count_warning(&mut self, now: Timestamp) -> (bool, u64) {
        let second = now.0 / 1_000;
        let mut suppressed = 0;
        if second != self.second {
            suppressed = self.count.saturating_sub(WARNINGS_PER_SECOND_MAX);
            *self = Self { second, count: 0 };
        }
        self.count += 1;
        (self.count <= WARNINGS_PER_SECOND_MAX, suppressed)
    }
}

impl Journal {
    /// Creates a journal that writes every event up to this level.
    #[must_use]
    pub fn new(
        level: JournalLevel,
        format: JournalFormat,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        out: LineSink,
    ) -> Self {
        Self { level, format, now: Arc::new(now), out, warnings: Mutex::default() }
    }

    fn line(&self, now: Timestamp, level: JournalLevel, event: &str, fields: &[(&str, Value)]) {
        let at = time::format(now);
        let line = match self.format {
            JournalFormat::Json => json_line(&at, level, event, fields),
            JournalFormat::Plain => plain_line(&at, level, event, fields),
        };
        (self.out)(&line);
    }
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && is_own_target(metadata.target()) && *metadata.level() <= self.level.filter()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.filter())
    }

    fn event(&self, event: &Event<'_>) {
        let (level, now) = (JournalLevel::of(*event.metadata().level()), (self.now)());
        if level == JournalLevel::Warn {
            let (is_written, suppressed) =
                self.warnings.lock().unwrap_or_else(PoisonError::into_inner).count_warning(now);
            if suppressed > 0 {
                self.line(now, level, "warnings suppressed", &[("warnings", suppressed.into())]);
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

/// Whether a target is a module of Quorate, such as `quorate` or `quorate_server::listen`.
fn is_own_target(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    name == "quorate" || name.starts_with("quorate_")
}

/// Field values of an event by index; `Null` for an `Option` that is `None`.
struct Fields(Vec<Value>);

impl Fields {
    /// Returns the message of an event and its other fields in order.
    fn of(event: &Event<'_>) -> (String, Vec<(&'static str, Value)>) {
        let mut values = Self(vec![Value::Null; event.metadata().fields().len()]);
        event.record(&mut values);
        let mut fields: Vec<_> = event.metadata().fields().iter().map(|f| f.name()).zip(values.0).collect();
        let message =
            fields.iter().position(|(name, _)| *name == "message").map(|index| fields.remove(index).1);
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

fn json_line(at: &str, level: JournalLevel, event: &str, fields: &[(&str, Value)]) -> String {
    let head = [("at", at.into()), ("level", level.as_str().into()), ("event", event.into())];
    let pairs = head.iter().chain(fields).map(|(name, value)| format!("{}:{value}", Value::from(*name)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

fn plain_line(at: &str, level: JournalLevel, event: &str, fields: &[(&str, Value)]) -> String {
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
