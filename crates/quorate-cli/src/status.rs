//! `quorate status`: an overview of pending approvals, blocked work, active sessions, agents and queues.

use clap::Args;
use jiff::Timestamp;
use quorate_api::budget::Budget;
use quorate_api::policy::Violation;
use quorate_api::rollback::ConsistencyReport;
use quorate_api::session::Session;
use quorate_api::status::{SpaceStatus, StuckKind, StuckWork};
use quorate_core::SessionStatus;
use quorate_store::{Clock as _, SystemClock};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::hub::{Hub, HubArgs};
use crate::memory::inconsistencies;
use crate::output::{
    OutputArgs, OutputFormat, Table, field, format_time, terminal_width, to_text, truncated,
};
use crate::terminal;

/// Maximum number of lines per group.
const NAMED_MAX: usize = 5;

/// Maximum length of the text of a line.
const TEXT_MAX: usize = 160;

/// Columns before a suggested command on a line of its own.
const NEXT_INDENT: usize = 17;

/// Minimum width of wrapped text.
const TEXT_MIN: usize = 30;

/// Arguments of `quorate status`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate status

Each line that needs attention has a suggested command. Nothing is changed.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A line of the overview, with a suggested command.
struct Line {
    text: String,
    next: String,
}

struct Status {
    url: String,
    seq: u64,
    at: Value,
    attention: Vec<Line>,
    blocked: Vec<Line>,
    active: Vec<Line>,
    agents: Agents,
    queue: Value,
    tasks: Value,
    audit: Value,
}

/// Number of agents: registered, online (with a consumer or heartbeats), offline (missed heartbeats), and not seen since the
/// restart of the hub. The rest is not connected.
struct Agents {
    known: usize,
    online: usize,
    offline: usize,
    not_seen: usize,
    /// Time of the restart, if there are agents that were not seen since.
    restarted_at: Option<Value>,
}

impl Agents {
    fn count(agents: &[Value]) -> Self {
        let number = |agent: &Value, name: &str| agent[name].as_u64().unwrap_or(0);
        let offline = |agent: &&Value| agent["status"] == "offline";
        let online = |agent: &&Value| {
            let is_listening = number(&agent["load"], "listening") > 0;
            let is_gone = !agent["disconnectedAt"].is_null() || !agent["notSeenSince"].is_null();
            let beats = number(agent, "heartbeatMs") > 0 && !is_gone;
            !offline(agent) && (is_listening || beats)
        };
        let not_seen = |agent: &&Value| !agent["notSeenSince"].is_null() && !offline(agent);
        let count = |predicate: &dyn Fn(&&Value) -> bool| agents.iter().filter(predicate).count();
        Self {
            known: agents.len(),
            online: count(&online),
            offline: count(&offline),
            not_seen: count(&not_seen),
            restarted_at: agents.iter().find(not_seen).map(|agent| agent["notSeenSince"].clone()),
        }
    }

    fn not_connected(&self) -> usize {
        self.known - self.online - self.offline - self.not_seen
    }
}

pub(crate) async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let hub = args.hub.open()?;
    let status = load_status(&hub).await?;
    match args.output.format() {
        OutputFormat::Json | OutputFormat::Jsonl => {
            terminal::print(terminal::sanitize_json(&to_json(&status).to_string()))
        }
        OutputFormat::Table => print(&status),
        format => {
            let mut table = Table::new(["KIND", "WHAT", "NEXT"]);
            let groups =
                [("attention", &status.attention), ("blocked", &status.blocked), ("active", &status.active)];
            for (kind, lines) in groups {
                lines
                    .iter()
                    .for_each(|line| table.row([kind.to_owned(), line.text.clone(), line.next.clone()]));
            }
            table.print(format);
        }
    }
    Ok(())
}

async fn load_status(hub: &Hub) -> anyhow::Result<Status> {
    let state = hub.get_json("/v1/state", &[]).await?;
    let page_limit = || ("limit", Some("1000".to_owned()));
    let agents = hub.get_json("/v1/agents", &[page_limit()]).await?;
    let agents = agents["agents"].as_array().cloned().unwrap_or_default();
    let found = hub.get_json("/v1/status", &[]).await?;
    let found = SpaceStatus::deserialize(&found)?;
    let mut status = Status {
        url: hub.url(),
        seq: state["seq"].as_u64().unwrap_or(0),
        at: state["at"].clone(),
        attention: Vec::new(),
        blocked: Vec::new(),
        active: Vec::new(),
        agents: Agents::count(&agents),
        queue: state["deliveries"].clone(),
        tasks: state["tasks"].clone(),
        audit: hub.get_json("/v1/info", &[]).await?["audit"].clone(),
    };
    status.attention.extend(pending(hub).await?);
    status.attention.extend(waiting_tasks(hub, &status.tasks).await?);
    status.blocked.extend(dead_letters(hub, &status.queue).await?);
    status.attention.extend(found.low_budgets.iter().map(budget_line));
    status.attention.extend(found.violations.iter().flatten().map(violation_line));
    status.attention.extend(found.consistency.as_ref().and_then(consistency_line));
    status.blocked.extend(found.stuck.iter().map(stuck_line));
    status.blocked.extend(failed_tasks(hub, &status.tasks).await?);
    for session in state["sessions"].as_array().map_or(&[][..], Vec::as_slice) {
        let Session { id, title, reason, status: state, .. } = Session::deserialize(session)?;
        match state {
            SessionStatus::Paused => status.blocked.push(Line {
                text: format!("{id} {title}: paused {reason}").trim().to_owned(),
                next: format!("quorate session resume {id}"),
            }),
            SessionStatus::Active => status
                .active
                .push(Line { text: format!("{id} {title}"), next: format!("quorate session timeline {id}") }),
            SessionStatus::Completed | SessionStatus::Failed => {}
        }
    }
    for procedure in state["runningProcedures"].as_array().map_or(&[][..], Vec::as_slice) {
        add_procedure(&mut status, procedure);
    }
    Ok(status)
}

/// Adds a procedure that has not ended. One that is stuck or paused continues when it is resumed.
fn add_procedure(status: &mut Status, procedure: &Value) {
    let text = |name| field(procedure, name);
    let (id, kind, state, reason) = (text("id"), text("kind"), text("status"), text("reason"));
    match state.as_str() {
        "stuck" | "paused" => status.blocked.push(Line {
            text: format!("{kind} {id} is {state}: {reason}").trim_end_matches(": ").to_owned(),
            next: format!("quorate procedure resume {id}"),
        }),
        _ => status.active.push(Line {
            text: format!("{kind} {id}: {}", text("phase")).trim_end_matches(": ").to_owned(),
            next: format!("quorate procedure why {id}"),
        }),
    }
}

/// Lists the newest dead letters.
async fn dead_letters(hub: &Hub, queue: &Value) -> anyhow::Result<Vec<Line>> {
    if queue["dead"].as_u64() == Some(0) {
        return Ok(Vec::new());
    }
    let response = hub.get_json("/v1/dead-letters", &[("limit", Some(NAMED_MAX.to_string()))]).await?;
    let dead_letters = response["deadLetters"].as_array().cloned().unwrap_or_default();
    Ok(dead_letters
        .iter()
        .map(|dead_letter| {
            let id = field(dead_letter, "deliveryId");
            let (agent, reason) = (field(dead_letter, "agent"), field(dead_letter, "reason"));
            Line {
                text: format!(
                    "{id} for {agent} is dead after {}: {reason}",
                    attempts(&dead_letter["attempts"])
                ),
                next: format!("quorate msg redrive {id}"),
            }
        })
        .collect())
}

fn attempts(count: &Value) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

/// Returns a line for work that no agent will do soon, such as `bob disconnected 14 s ago, 3 messages wait`.
fn stuck_line(work: &StuckWork) -> Line {
    let StuckWork { name, task, procedure, .. } = work;
    let cancel = task.as_ref().map_or(String::new(), |task| format!("quorate task cancel {task}"));
    let next = match work.kind {
        StuckKind::Inbox => format!("restart {name}, or inspect with `quorate msg list --to {name}`"),
        StuckKind::Lock => "restart the holder, or wait until its grant ends".to_owned(),
        StuckKind::AgentTasks => format!("restart {name}, or `{cancel}`"),
        StuckKind::TaskType => format!("start an agent with the capability {name}, or `{cancel}`"),
        StuckKind::Capability => format!("start an agent with the capability {name}"),
        StuckKind::Dependency => cancel,
        StuckKind::Procedures => {
            let show = procedure.as_ref().map_or(String::new(), |id| format!("quorate procedure why {id}"));
            format!("restart {name}, or inspect with `{show}`")
        }
        StuckKind::ProcedureWaits => match (name.strip_prefix("can:"), procedure) {
            (Some(capability), _) => format!("start an agent with the capability {capability}"),
            (None, Some(procedure)) => {
                format!("restart {name}, or inspect with `quorate procedure why {procedure}`")
            }
            (None, None) => format!("restart {name}"),
        },
        StuckKind::Held => format!("restart {name}, or release all with `quorate agent register {name}`"),
    };
    let subject = if work.kind == StuckKind::Lock { format!("lock {name}: ") } else { String::new() };
    Line { text: format!("{subject}{}", work.reason), next }
}

fn budget_line(budget: &Budget) -> Line {
    let Budget { id, messages_used, messages_max, .. } = budget;
    Line {
        text: format!("budget {id}: {messages_used} of {messages_max} messages used"),
        next: "quorate explain BUDGET_EXCEEDED".to_owned(),
    }
}

/// Returns a line for a violation, a refused loop, an exceeded budget or a broken deadlock.
fn violation_line(violation: &Violation) -> Line {
    let Violation { rule, principal, place, code, at, count } = violation;
    let what = match rule.as_str() {
        "loop" => "refused loop".to_owned(),
        "budget" => "refused by its budget".to_owned(),
        "deadlock" => "broken deadlock".to_owned(),
        rule if place.is_empty() => format!("violation of {rule}"),
        rule => format!("violation of {rule} at {place}"),
    };
    let times = if *count == 1 { String::new() } else { format!(", {count} times") };
    let age = format_age(&json!(at)).map(|age| format!(", {age} ago")).unwrap_or_default();
    Line { text: format!("{principal}: {what}{times}{age}"), next: format!("quorate explain {code}") }
}

/// Returns a line for the inconsistencies that the last check found.
fn consistency_line(report: &ConsistencyReport) -> Option<Line> {
    let found = inconsistencies(&report.counts);
    (!found.is_empty()).then(|| Line {
        text: format!("shared memory: {found}"),
        next: "quorate memory check --last".to_owned(),
    })
}

/// Lists pending approvals, oldest first.
async fn pending(hub: &Hub) -> anyhow::Result<Vec<Line>> {
    // A full page, so that the count is right; only the oldest are printed.
    let query = [("state", "pending"), ("order", "oldest"), ("limit", "1000")];
    let query = query.map(|(name, value)| (name, Some(value.to_owned())));
    let response = hub.get_json("/v1/approvals", &query).await?;
    let approvals = response["approvals"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |approval: &Value| {
        let (id, action, agent) =
            (field(approval, "id"), field(approval, "action"), field(approval, "agent"));
        let requester = if agent.is_empty() { field(approval, "askedBy") } else { agent };
        let until = format_time(&approval["expiresAt"]);
        Line {
            text: format!("{id} {action}, requested by {requester}, expires {until}"),
            next: format!("quorate approval show {id}"),
        }
    };
    Ok(approvals.iter().map(line).collect())
}

async fn waiting_tasks(hub: &Hub, counts: &Value) -> anyhow::Result<Vec<Line>> {
    tasks(hub, counts, &["awaiting_approval"], "waiting for an approval").await
}

async fn failed_tasks(hub: &Hub, counts: &Value) -> anyhow::Result<Vec<Line>> {
    tasks(hub, counts, &["escalated", "failed"], "").await
}

async fn tasks(hub: &Hub, counts: &Value, states: &[&str], description: &str) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for state in states.iter().filter(|state| counts[**state].as_u64().is_some_and(|count| count > 0)) {
        let query = [("status", Some((*state).to_owned())), ("limit", Some(NAMED_MAX.to_string()))];
        let response = hub.get_json("/v1/tasks", &query).await?;
        for task in response["tasks"].as_array().map_or(&[][..], Vec::as_slice) {
            let (id, reason) = (field(task, "id"), field(task, "reason"));
            let description = if description.is_empty() { state } else { description };
            lines.push(Line {
                text: format!("task {id} {description}: {reason}").trim_end_matches(": ").to_owned(),
                next: format!("quorate task show {id}"),
            });
        }
    }
    Ok(lines)
}

fn count_of(value: &Value, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| value[*name].as_u64()).sum()
}

fn print(status: &Status) {
    let groups = [("ATTENTION", &status.attention), ("BLOCKED", &status.blocked), ("ACTIVE", &status.active)];
    for (name, lines) in groups {
        if lines.is_empty() {
            terminal::print(format!("{name:<9}  0"));
        }
        for (index, line) in lines.iter().take(NAMED_MAX).enumerate() {
            let prefix = if index == 0 { format!("{name:<9}  {:<3}", lines.len()) } else { " ".repeat(14) };
            let next = if name == "ACTIVE" { String::new() } else { format!("→ {}", line.next) };
            print_line(&prefix, &line.text, &next);
        }
        if let more @ 1.. = lines.len().saturating_sub(NAMED_MAX) {
            terminal::print(format!("{:15}{more} more: quorate status --json", ""));
        }
    }
    let Agents { known, online, offline, .. } = status.agents;
    let counted = |count: usize, text: &str| match count {
        0 => String::new(),
        count => format!(", {count} {text}"),
    };
    let not_connected = counted(status.agents.not_connected(), "not connected");
    let not_seen = counted(status.agents.not_seen, "not seen since the restart");
    let ready = count_of(&status.queue, &["ready", "scheduled"]);
    let open = count_of(&status.tasks, &["blocked", "ready", "scheduled", "leased"]);
    terminal::print(format!(
        "AGENTS     {known:<3} {online} online, {offline} offline{not_connected}{not_seen}"
    ));
    if let Some(restarted_at) = &status.agents.restarted_at {
        terminal::print(format!("{:15}the hub was restarted at {}", "", format_time(restarted_at)));
    }
    terminal::print(format!("QUEUE      {ready:<3} ready, {} leased", to_text(&status.queue["leased"])));
    terminal::print(format!(
        "TASKS      {open:<3} open, {} done",
        count_of(&status.tasks, &["done", "partial"])
    ));
    let age = format_age(&status.at).map(|age| format!(", {age} ago")).unwrap_or_default();
    terminal::print(format!("LOG        {:<3} records{age}", status.seq));
    let audit = audit_summary(&status.audit)
        .map_or_else(|| "not verified yet".to_owned(), |found| format!("✓   {found}"));
    terminal::print(format!("AUDIT      {audit}"));
    terminal::note(format!("{}   see also: quorate tail, quorate doctor", status.url));
}

/// Prints a line of a group and the suggested command, which follows below if the terminal is too narrow for both.
fn print_line(prefix: &str, text: &str, next: &str) {
    let text = terminal::sanitize_line(&truncated(text, TEXT_MAX));
    let next = terminal::sanitize_line(next);
    let one_line = format!("{prefix} {text}   {next}");
    let Some(width) = terminal_width().filter(|width| one_line.trim_end().chars().count() > *width) else {
        return terminal::print(one_line.trim_end());
    };
    let room = width.saturating_sub(NEXT_INDENT).max(TEXT_MIN);
    for (index, part) in terminal::wrap(&text, room).iter().enumerate() {
        terminal::print(format!("{:<15}{part}", if index == 0 { prefix } else { "" }));
    }
    for (index, part) in terminal::wrap(&next, room).iter().filter(|part| !part.is_empty()).enumerate() {
        let indent = NEXT_INDENT + if index == 0 { 0 } else { 2 };
        terminal::print(format!("{:indent$}{part}", ""));
    }
}

/// Describes how far the hub has verified the log; `None` before the first verification.
pub(crate) fn audit_summary(audit: &Value) -> Option<String> {
    let age = format_age(&audit["verifiedAt"])?;
    Some(format!("verified up to record {}, {age} ago", audit["verifiedTo"]))
}

fn to_json(status: &Status) -> Value {
    let lines = |lines: &[Line]| -> Vec<Value> {
        lines.iter().map(|line| json!({"what": line.text, "next": line.next})).collect()
    };
    let Agents { known, online, offline, not_seen, .. } = status.agents;
    json!({
        "url": status.url,
        "seq": status.seq,
        "at": status.at,
        "needsYou": lines(&status.attention),
        "stuck": lines(&status.blocked),
        "moving": lines(&status.active),
        "agents": {"known": known, "up": online, "down": offline, "notSeen": not_seen, "notConnected": status.agents.not_connected()},
        "deliveries": status.queue,
        "tasks": status.tasks,
        "audit": status.audit,
    })
}

/// Returns the age of a time in a readable unit.
pub(crate) fn format_age(at: &Value) -> Option<String> {
    let at: Timestamp = at.as_str()?.parse().ok()?;
    let now = i64::try_from(SystemClock::new().now().wall.0).ok()?;
    let seconds = (now - at.as_millisecond()).max(0) / 1000;
    Some(match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    })
}
