//! Level filter, rate limit and line formats.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quorate_core::Timestamp;
use serde_json::{Value, json};
use tracing::subscriber::with_default;

use super::{Journal, JournalFormat, JournalLevel};

/// Returns the lines written while `code` runs.
fn lines(
    level: JournalLevel,
    format: JournalFormat,
    now: &Arc<AtomicU64>,
    code: impl FnOnce(),
) -> Vec<String> {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (out, clock) = (Arc::clone(&written), Arc::clone(now));
    let out = Arc::new(move |line: &str| out.lock().expect("no panic").push(line.to_owned()));
    let journal = Journal::new(level, format, move || Timestamp(clock.load(Ordering::Relaxed)), out);
    with_default(journal, code);
    written.lock().expect("no panic").clone()
}

fn at(ms: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(ms))
}

/// An event with every kind of field.
fn report() {
    tracing::info!(
        data = "a \"b\"\u{1b}[31m\n",
        none = None::<&str>,
        givenUp = true,
        "instead of" = 7,
        "ready"
    );
    tracing::debug!(status = 200, "request");
    tracing::trace!("one message");
}

// Fails under: no limit; a limit that does not report the suppressed warnings; suppressed errors.
#[test]
fn a_flood_of_warnings_is_reported_by_its_number() {
    let now = at(5_000);
    let written = lines(JournalLevel::Warn, JournalFormat::Json, &now, || {
        (0..1_000).for_each(|_| tracing::warn!("request"));
        tracing::error!("failed");
        now.store(6_000, Ordering::Relaxed);
        tracing::warn!("request");
    });
    assert_eq!(written.len(), 20 + 1 + 2);
    assert!(written[20].contains("failed"), "{}", written[20]);
    assert!(written[21].contains("\"event\":\"warnings suppressed\",\"warnings\":980"), "{}", written[21]);
}

// Fails under: fields out of order; a number or a missing value as text; a level that is not filtered.
#[test]
fn a_line_is_a_json_object_or_plain_text() {
    let json = lines(JournalLevel::Debug, JournalFormat::Json, &at(1_767_225_600_001), report);
    assert_eq!(json.len(), 2, "{json:?}");
    assert_eq!(
        json[0],
        "{\"at\":\"2026-01-01T00:00:00.001Z\",\"level\":\"info\",\"event\":\"ready\",\
         \"data\":\"a \\\"b\\\"\\u001b[31m\\n\",\"none\":null,\"givenUp\":true,\"instead of\":7}"
    );
    let parsed: Value = serde_json::from_str(&json[1]).expect("JSON");
    assert_eq!(
        (&parsed["event"], &parsed["level"], &parsed["status"]),
        (&json!("request"), &json!("debug"), &json!(200))
    );
    let plain = lines(JournalLevel::Info, JournalFormat::Plain, &at(1_767_225_600_001), report);
    assert_eq!(
        plain,
        ["2026-01-01T00:00:00.001Z info  ready data=\"a \\\"b\\\"\\u001b[31m\\n\" givenUp=true instead of=7"]
    );
    assert_eq!(lines(JournalLevel::Warn, JournalFormat::Json, &at(0), report), Vec::<String>::new());
}

// Fails under: no filter by target; a filter by prefix alone.
#[test]
fn i18_events_of_other_crates_are_not_written() {
    let written = lines(JournalLevel::Debug, JournalFormat::Json, &at(0), || {
        tracing::error!(target: "hyper::client", "a token");
        tracing::error!(target: "quorates::x", "a token");
        tracing::error!(target: "quorate_engine::sweep", "ours");
        tracing::error!(target: "quorate", "ours");
    });
    assert_eq!(written.len(), 2, "{written:?}");
    assert!(written.iter().all(|line| line.contains("ours")), "{written:?}");
}

// Fails under: process-wide state.
#[test]
fn two_journals_do_not_mix() {
    let inner = Mutex::new(Vec::new());
    let outer = lines(JournalLevel::Info, JournalFormat::Plain, &at(0), || {
        *inner.lock().expect("no panic") =
            lines(JournalLevel::Info, JournalFormat::Plain, &at(0), || tracing::info!("second"));
        tracing::info!("first");
    });
    assert_eq!((outer.len(), inner.lock().expect("no panic").len()), (1, 1));
    assert!(outer[0].ends_with("first"), "{outer:?}");
}
