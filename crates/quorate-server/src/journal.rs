//! The journal: what the hub says of itself while it runs, one line at a time, for the one who runs it. Lines of JSON, or
//! plain ones for a terminal. Never payloads, never tokens, never anything that a caller wrote.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::Timestamp;
use serde_json::Value;

use crate::wire::time;

/// How much somebody wants to hear.
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

/// Where lines go. Cheap to clone.
#[derive(Clone, Default)]
pub struct Journal(Option<Arc<Inner>>);

struct Inner {
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
    /// A journal that says everything up to this level.
    #[must_use]
    pub fn new(
        level: Level,
        style: Style,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        out: Out,
    ) -> Self {
        Self(Some(Arc::new(Inner { level, style, now: Arc::new(now), out, warned: Mutex::default() })))
    }

    /// What its lines look like; `None` if there are none.
    #[must_use]
    pub fn style(&self) -> Option<Style> {
        self.0.as_ref().map(|inner| inner.style)
    }

    /// Whether anybody hears what is said at this level.
    #[must_use]
    pub fn hears(&self, level: Level) -> bool {
        self.0.as_ref().is_some_and(|inner| level <= inner.level)
    }

    /// Says something: what happened, and its facts.
    pub fn say(&self, level: Level, event: &str, fields: &[(&str, Value)]) {
        let Some(inner) = self.0.as_ref().filter(|inner| level <= inner.level) else { return };
        let now = (inner.now)();
        if level == Level::Warn {
            let (said, left_out) = inner.warned.lock().unwrap_or_else(PoisonError::into_inner).one_more(now);
            if left_out > 0 {
                inner.line(now, level, "left out", &[("warnings", left_out.into())]);
            }
            if !said {
                return;
            }
        }
        inner.line(now, level, event, fields);
    }
}

impl Inner {
    fn line(&self, now: Timestamp, level: Level, event: &str, fields: &[(&str, Value)]) {
        let at = time::shown(now);
        let line = match self.style {
            Style::Json => json_line(&at, level, event, fields),
            Style::Plain => plain_line(&at, level, event, fields),
        };
        (self.out)(&line);
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Journal").field(&self.0.as_ref().map(|inner| inner.level)).finish()
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
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use quorate_core::Timestamp;
    use serde_json::{Value, json};

    use super::{Journal, Level, Style};

    fn lines(level: Level, style: Style) -> Vec<String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let out = Arc::clone(&heard);
        let journal = Journal::new(
            level,
            style,
            || Timestamp(1_767_225_600_001),
            Arc::new(move |line| out.lock().expect("no panic").push(line.to_owned())),
        );
        journal.say(Level::Info, "ready", &[("data", json!("a \"b\"\u{1b}[31m\n")), ("none", Value::Null)]);
        journal.say(Level::Debug, "request", &[("status", json!(200))]);
        heard.lock().expect("no panic").clone()
    }

    // Fails under: no bound; a bound that forgets what it left out; errors that are left out.
    #[test]
    fn a_flood_of_warnings_is_told_by_its_number() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let now = Arc::new(AtomicU64::new(5_000));
        let (out, clock) = (Arc::clone(&heard), Arc::clone(&now));
        let out = Arc::new(move |line: &str| out.lock().expect("no panic").push(line.to_owned()));
        let wall = move || Timestamp(clock.load(Ordering::Relaxed));
        let journal = Journal::new(Level::Warn, Style::Json, wall, out);
        (0..1_000).for_each(|_| journal.say(Level::Warn, "request", &[]));
        journal.say(Level::Error, "failed", &[]);
        now.store(6_000, Ordering::Relaxed);
        journal.say(Level::Warn, "request", &[]);
        let heard = heard.lock().expect("no panic").clone();
        assert_eq!(heard.len(), 20 + 1 + 2);
        assert!(heard[20].contains("failed"), "{}", heard[20]);
        assert!(heard[21].contains("\"event\":\"left out\",\"warnings\":980"), "{}", heard[21]);
    }

    #[test]
    fn a_line_is_one_object_or_words_on_a_line() {
        let json = lines(Level::Debug, Style::Json);
        let read: Value = serde_json::from_str(&json[0]).expect("JSON");
        assert_eq!((&read["event"], &read["data"]), (&json!("ready"), &json!("a \"b\"\u{1b}[31m\n")));
        assert_eq!(json.len(), 2);
        let plain = lines(Level::Info, Style::Plain);
        assert_eq!(plain, ["2026-01-01T00:00:00.001Z info  ready data=\"a \\\"b\\\"\\u001b[31m\\n\""]);
        assert_eq!(lines(Level::Warn, Style::Json), Vec::<String>::new());
    }
}
