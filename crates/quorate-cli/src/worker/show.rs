//! Prints the events of a worker: one line each to stderr, or as JSON Lines to stdout.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use quorate_agents::worker::{EventSink, StandbyReason, WorkItem, WorkerEvent};
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::output::{format_time, plural};
use crate::terminal::{self, Style, note, paint_note, sanitize_line};

/// Where and how events are printed.
pub(super) struct Shown {
    json: bool,
    clock: Arc<SystemClock>,
    /// Number of requests and tasks in progress.
    in_progress: AtomicI64,
    is_lost: watch::Sender<bool>,
}

impl Shown {
    pub(super) fn new(json: bool) -> Self {
        let (is_lost, _) = watch::channel(false);
        Self { json, clock: SystemClock::new(), in_progress: AtomicI64::new(0), is_lost }
    }

    /// Returns the receiver of the events of a worker.
    pub(super) fn sink(self: &Arc<Self>) -> EventSink {
        let shown = Arc::clone(self);
        Arc::new(move |event| shown.print(&event))
    }

    /// Waits until the hub is lost.
    pub(super) async fn hub_lost(&self) {
        // The sender lives as long as this.
        let _ = self.is_lost.subscribe().wait_for(|is_lost| *is_lost).await;
    }

    pub(super) fn starting(&self, agents: usize, url: &str) {
        self.is_lost.send_replace(false);
        let text = format!("worker of {} in {url}; ^C stops it", plural(agents, "agent"));
        self.line("starting", ("▸", Style::Plain), &text, json!({ "agents": agents, "url": url }));
    }

    pub(super) fn stopping(&self) {
        let count = self.in_progress.load(Ordering::Relaxed).max(0);
        let text = match count {
            0 => "stopping".to_owned(),
            count => format!("stopping: waiting for {} in progress; ^C stops at once", plural(count, "item")),
        };
        self.line("stopping", ("▸", Style::Plain), &text, json!({ "inProgress": count }));
    }

    pub(super) fn stopped(&self) {
        self.line("stopped", ("▸", Style::Plain), "stopped", json!({}));
    }

    fn print(&self, event: &WorkerEvent) {
        match event {
            WorkerEvent::Started { .. } => drop(self.in_progress.fetch_add(1, Ordering::Relaxed)),
            WorkerEvent::Done { .. } | WorkerEvent::Failed { .. } | WorkerEvent::Interrupted { .. } => {
                self.in_progress.fetch_sub(1, Ordering::Relaxed);
            }
            WorkerEvent::HubLost => drop(self.is_lost.send_replace(true)),
            WorkerEvent::HubBack => drop(self.is_lost.send_replace(false)),
            WorkerEvent::Connected { .. }
            | WorkerEvent::StandingBy { .. }
            | WorkerEvent::AgentFailed { .. }
            | WorkerEvent::LetterWritten { .. } => {}
        }
        let (name, mark, text) = render(event);
        self.line(name, mark, &text, fields(event));
    }

    fn line(&self, name: &str, (mark, style): (&str, Style), text: &str, fields: Value) {
        let at = Value::from(self.clock.now().wall.to_string());
        if self.json {
            let mut line = Map::new();
            line.insert("at".into(), at);
            line.insert("event".into(), name.into());
            line.extend(fields.as_object().cloned().unwrap_or_default());
            return terminal::print(terminal::sanitize_json(&Value::Object(line).to_string()));
        }
        let time = format_time(&at);
        // The day is the same as that of the line before, or obvious.
        let time = time.get(11..).unwrap_or(&time);
        note(format!("{time}  {} {}", paint_note(style, mark), sanitize_line(text)));
    }
}

fn render(event: &WorkerEvent) -> (&'static str, (&'static str, Style), String) {
    let seconds = |took: &std::time::Duration| format!("{:.1} s", took.as_secs_f32());
    match event {
        WorkerEvent::Connected { agent, tasks } => {
            let tasks =
                if tasks.is_empty() { String::new() } else { format!(", tasks: {}", tasks.join(", ")) };
            ("connected", ("✓", Style::Good), format!("{agent} connected{tasks}"))
        }
        WorkerEvent::StandingBy { agent, reason } => {
            let (mark, reason) = match reason {
                StandbyReason::SameDeclaration => (("·", Style::Plain), "another worker runs it".to_owned()),
                StandbyReason::RegisteredElsewhere => {
                    (("·", Style::Plain), "another process registered it".to_owned())
                }
                StandbyReason::OtherDeclaration { .. } => {
                    (("!", Style::Warning), "another process runs it from another declaration".to_owned())
                }
            };
            ("standing_by", mark, format!("{agent} standing by: {reason}"))
        }
        WorkerEvent::AgentFailed { agent, reason, retry_after } => {
            let text = format!("{agent} cannot be run: {reason}; next attempt in {}", seconds(retry_after));
            ("agent_failed", ("✗", Style::Bad), text)
        }
        WorkerEvent::Started { agent, work } => {
            ("started", ("→", Style::Plain), format!("{agent} {}", describe(work)))
        }
        WorkerEvent::Done { agent, work, took } => {
            ("done", ("✓", Style::Good), format!("{agent} {}: done in {}", describe(work), seconds(took)))
        }
        WorkerEvent::Failed { agent, work, took, reason, .. } => {
            let text = format!("{agent} {}: failed after {}: {reason}", describe(work), seconds(took));
            ("failed", ("✗", Style::Bad), text)
        }
        WorkerEvent::Interrupted { agent, work, took } => {
            let text = format!("{agent} {}: interrupted after {}", describe(work), seconds(took));
            ("interrupted", ("!", Style::Warning), text)
        }
        WorkerEvent::LetterWritten { approval, file } => {
            let text = format!("letter of {approval} written to {}", file.display());
            ("letter_written", ("✓", Style::Good), text)
        }
        WorkerEvent::HubLost => ("hub_lost", ("!", Style::Warning), "hub lost; reconnecting".to_owned()),
        WorkerEvent::HubBack => ("hub_back", ("✓", Style::Good), "hub back".to_owned()),
    }
}

/// Describes a request or task, as in `task tsk_0-6-0 (review, attempt 2)`.
fn describe(work: &WorkItem) -> String {
    let attempt = if work.attempt > 1 { format!(", attempt {}", work.attempt) } else { String::new() };
    format!("{} {} ({}{attempt})", work.kind.as_str(), work.id, work.action)
}

/// Returns the fields of an event for JSON.
fn fields(event: &WorkerEvent) -> Value {
    let ms = |duration: &std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let on = |agent: &String, work: &WorkItem, more: Value| {
        let mut fields = json!({
            "agent": agent, "kind": work.kind.as_str(), "id": work.id, "action": work.action, "attempt": work.attempt,
        });
        if let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) {
            fields.extend(more.clone());
        }
        fields
    };
    match event {
        WorkerEvent::Connected { agent, tasks } => json!({ "agent": agent, "tasks": tasks }),
        WorkerEvent::StandingBy { agent, reason } => match reason {
            StandbyReason::SameDeclaration => json!({ "agent": agent, "reason": "same_declaration" }),
            StandbyReason::RegisteredElsewhere => json!({ "agent": agent, "reason": "registered_elsewhere" }),
            StandbyReason::OtherDeclaration { theirs, ours } => {
                json!({ "agent": agent, "reason": "other_declaration", "theirs": theirs, "ours": ours })
            }
        },
        WorkerEvent::AgentFailed { agent, reason, retry_after } => {
            json!({ "agent": agent, "reason": reason, "retryMs": ms(retry_after) })
        }
        WorkerEvent::Started { agent, work } => on(agent, work, json!({})),
        WorkerEvent::Done { agent, work, took } | WorkerEvent::Interrupted { agent, work, took } => {
            on(agent, work, json!({ "ms": ms(took) }))
        }
        WorkerEvent::Failed { agent, work, took, reason, retryable } => {
            on(agent, work, json!({ "ms": ms(took), "reason": reason, "retryable": retryable }))
        }
        WorkerEvent::LetterWritten { approval, file } => json!({ "approval": approval, "file": file }),
        WorkerEvent::HubLost | WorkerEvent::HubBack => json!({}),
    }
}
