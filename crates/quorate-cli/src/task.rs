//! `quorate task`: adds, lists, retries and cancels tasks, and works on them as an agent.

mod graph;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use quorate_core::TaskStatus;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit::{CONFLICT, CommandError, NOT_FOUND, TIMED_OUT, USAGE};
use crate::hub::{
    CallWaits, ContentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, OrderedPageArgs, Resource,
    percent_encode, read_file,
};
use crate::output::{
    Column, Details, OutputArgs, field, format_time, parse_response, payload_text, print_raw_field,
};
use crate::terminal;
use crate::token::parse_duration;
use crate::why;

/// Arguments of `quorate task`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate task list --status failed")]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: TaskVerb,
}

#[derive(Subcommand, Debug)]
enum TaskVerb {
    /// List tasks, newest first. [ro]
    #[command(after_help = "Example: quorate task list --status blocked")]
    List {
        /// Only tasks with this status.
        #[arg(long, value_name = "STATUS", value_parser = statuses())]
        status: Option<String>,
        /// Only tasks of this type.
        #[arg(long = "type", value_name = "TYPE")]
        task_type: Option<String>,
        /// Only tasks that are assigned to this agent, or that it holds or ended.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show a task with its result. [ro]
    #[command(after_help = "Example: quorate task show @last

--input and --result print only that; to a file or a pipe byte for byte as it was sent (a JSON string without its quotes).")]
    Show {
        /// Task id, a unique prefix of it, or @last.
        id: String,
        /// How long to wait for the end of the task: 500ms, 90s or 15m; the exit code is 6 if it has not ended by then.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        wait: Option<Duration>,
        /// Print only the input.
        #[arg(long, conflicts_with = "result")]
        input: bool,
        /// Print only the result.
        #[arg(long)]
        result: bool,
    },
    /// Claim tasks under a lease, to work on them. [rw]
    Claim(work::ClaimTasksArgs),
    /// Extend the lease of a claimed task, optionally with an intermediate result. [rw]
    Heartbeat(work::HeartbeatArgs),
    /// Complete a claimed task with its result. [rw]
    Complete(Box<work::CompleteArgs>),
    /// Report a failed attempt at a claimed task. [rw]
    Fail(work::FailArgs),
    /// Return a claimed task; the attempt does not count. [rw]
    Release(work::ReleaseArgs),
    /// Explain the state of a task: what it waits for, and what happens next. [ro]
    #[command(after_help = "Example: quorate task why t1")]
    Why {
        /// Task id, a unique prefix of it, or @last.
        id: String,
    },
    /// Add a task, or atomically a graph of tasks from a file. [rw]
    #[command(after_help = "Example: quorate task add sum --value '[1,2]' --id t1
         quorate task add --graph graph.json

The format of a graph:

  {\"tasks\": [{\"id\": \"a\", \"type\": \"sum\"},
             {\"id\": \"b\", \"type\": \"sum\", \"dependsOn\": [\"a\"]}]}")]
    Add(AddArgs),
    /// Print tasks and their dependencies as a tree. [ro]
    #[command(after_help = "Example: quorate task graph deploy")]
    Graph {
        /// Root task; by default all tasks, up to 1,000.
        id: Option<String>,
    },
    /// Retry a finished task as a new task with the same input. [rw]
    #[command(after_help = "Example: quorate task retry t1")]
    Retry {
        /// Task id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Cancel a task. [rw]
    #[command(after_help = "Example: quorate task cancel t1 --reason 'not needed'")]
    Cancel {
        /// Task id, a unique prefix of it, or @last.
        id: String,
        /// Reason for the cancellation.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

#[derive(Args, Debug)]
#[command(mut_arg("text", |arg| arg.help("Input as text; - reads stdin")))]
#[command(mut_arg("value", |arg| arg.help("Input as JSON; stored byte for byte")))]
#[command(mut_arg("file", |arg| arg.help("File with the input as JSON; - reads stdin")))]
struct AddArgs {
    /// Task type; by default, agents with the capability of this name claim it.
    #[arg(value_name = "TYPE", required_unless_present = "graph")]
    task_type: Option<String>,
    #[command(flatten)]
    content: ContentArgs,
    /// File with a task graph in JSON; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task_type", "agent", "id", "after", "priority", "session"])]
    graph: Option<PathBuf>,
    /// Custom task id.
    #[arg(long)]
    id: Option<String>,
    /// Assign the task to this agent.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Task that must be done first; can be repeated.
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Priority of the task.
    #[arg(long, value_parser = ["low", "normal", "high", "urgent"])]
    priority: Option<String>,
    /// Maximum duration of one attempt: 500ms, 90s, 15m, 12h or 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Maximum number of attempts.
    #[arg(long, value_name = "N")]
    attempts: Option<u16>,
    /// Session that the task belongs to.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

const COLUMNS: &[Column] = &[
    ("ID", |task| field(task, "id")),
    ("TYPE", |task| field(task, "type")),
    ("STATUS", |task| field(task, "status")),
    ("PRIORITY", |task| field(task, "priority")),
    ("ATTEMPT", |task| format!("{}/{}", task["attempt"], task["maxAttempts"])),
    ("AGENT", |task| first_non_empty(&[field(task, "holder"), field(task, "agent")])),
    ("DEPENDS ON", |task| field(task, "dependsOn")),
    ("CREATED", |task| format_time(&task["createdAt"])),
    ("REASON", |task| field(task, "reason")),
];

fn statuses() -> PossibleValuesParser {
    TaskStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>().into()
}

fn first_non_empty(texts: &[String]) -> String {
    texts.iter().find(|text| !text.is_empty()).cloned().unwrap_or_default()
}

pub(crate) async fn run(args: TaskArgs) -> anyhow::Result<()> {
    let TaskArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        TaskVerb::List { status, task_type, agent, page } => {
            let query = page.query(&[("status", status), ("type", task_type), ("agent", agent)]);
            output.list(&hub.get("/v1/tasks", &query).await?, "tasks", COLUMNS)
        }
        TaskVerb::Claim(args) => work::claim(&hub, &output, args).await,
        TaskVerb::Heartbeat(args) => work::heartbeat(&hub, &output, args).await,
        TaskVerb::Complete(args) => work::complete(&hub, &output, *args).await,
        TaskVerb::Fail(args) => work::fail(&hub, &output, args).await,
        TaskVerb::Release(args) => work::release(&hub, &output, args).await,
        TaskVerb::Show { id, wait, input, result } => {
            let path = path_of(&hub, &id).await?;
            let response = match wait {
                Some(wait) => wait_until_ended(&hub, &id, &path, wait).await?,
                None => hub.get(&path, &[]).await?,
            };
            if input {
                output.reject_with("--input")?;
                return print_raw_field(&response, "input");
            }
            if result {
                output.reject_with("--result")?;
                return print_result(&id, &response);
            }
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        TaskVerb::Why { id } => {
            let path = path_of(&hub, &id).await?;
            why::show(&hub.get(&format!("{path}/why"), &[]).await?, &output)
        }
        TaskVerb::Add(args) => add(&hub, &output, args).await,
        TaskVerb::Graph { id } => graph::run(&hub, &output, id).await,
        TaskVerb::Retry { id, dry_run } => {
            let body = retry_body(&hub.get(&path_of(&hub, &id).await?, &[]).await?)?;
            create(&hub, &output, body, dry_run).await
        }
        TaskVerb::Cancel { id, reason, dry_run } => {
            let id = hub.resolve_id(Resource::Task, &id).await?;
            let body = JsonFields::default().set("reason", reason)?;
            let path = format!("/v1/tasks/{}/cancel", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Post, &path), Some(body.to_json())).await?;
            response.iter().for_each(|response| output.done(response, &format!("cancelled task {id}")));
            Ok(())
        }
    }
}

/// Waits until a task has ended, in several calls if necessary.
async fn wait_until_ended(hub: &Hub, id: &str, path: &str, wait: Duration) -> anyhow::Result<String> {
    let mut waits = CallWaits::new(wait);
    loop {
        let (call_wait, is_last) = waits.next();
        let query = [("waitMs", Some(call_wait.as_millis().to_string()))];
        let response = hub.get_waiting(path, &query, call_wait).await?;
        let status = field(&parse_response(&response)?, "status");
        if has_ended(&status) {
            return Ok(response);
        }
        if is_last {
            let id = terminal::sanitize_line(id);
            let message = format!("task {id} is still {status}");
            let hint = format!("see what it waits for: quorate task why {id}");
            return Err(CommandError::new(TIMED_OUT, message, hint).into());
        }
    }
}

fn has_ended(status: &str) -> bool {
    TaskStatus::ALL.iter().any(|candidate| candidate.as_str() == status && candidate.has_ended())
}

/// Prints the result of a task that has one.
fn print_result(id: &str, response: &str) -> anyhow::Result<()> {
    let task = parse_response(response)?;
    let status = field(&task, "status");
    if status != "done" && status != "partial" {
        let message = format!("task {} is {status}: it has no result", terminal::sanitize_line(id));
        let hint = format!("see what it waits for: quorate task why {}", terminal::sanitize_line(id));
        return Err(CommandError::new(NOT_FOUND, message, hint).into());
    }
    print_raw_field(response, "result")
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/tasks/{}", percent_encode(&hub.resolve_id(Resource::Task, id).await?)))
}

async fn add(hub: &Hub, output: &OutputArgs, args: AddArgs) -> anyhow::Result<()> {
    let body = match &args.graph {
        Some(file) => {
            let text = read_file(file)?;
            serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| {
                let hint = "use the format {\"tasks\":[{\"id\":\"a\",\"type\":\"sum\"}]}";
                CommandError::new(USAGE, format!("{} is not valid JSON: {error}", file.display()), hint)
            })?;
            text
        }
        None => single_task_body(&args)?,
    };
    create(hub, output, body, args.dry_run).await
}

/// Returns the body of a new task with the same fields, byte for byte.
fn retry_body(response: &str) -> anyhow::Result<String> {
    const COPIED_FIELDS: &[&str] = &[
        "type",
        "agent",
        "input",
        "contentType",
        "priority",
        "dependsOn",
        "timeoutMs",
        "leaseMs",
        "onDependencyFailure",
        "escalateTo",
        "sessionId",
    ];
    let task = parse_response(response)?;
    let (id, status) = (field(&task, "id"), field(&task, "status"));
    if !has_ended(&status) {
        let message = format!("task {id} is {status}: only a finished task can be retried");
        let hint = format!(
            "cancel it first: quorate task cancel {id}\nor check what it waits for: quorate task why {id}"
        );
        return Err(CommandError::new(CONFLICT, message, hint).into());
    }
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(response)?;
    let retry = serde_json::json!({"maxAttempts": task["maxAttempts"], "backoffMs": task["backoffMs"]});
    let body = JsonFields::default().set("retry", retry)?;
    let body = COPIED_FIELDS.iter().try_fold(body, |body, name| body.set_if_some(name, fields.get(name)))?;
    Ok(body.to_json())
}

async fn create(hub: &Hub, output: &OutputArgs, body: String, dry_run: DryRunArgs) -> anyhow::Result<()> {
    let response = hub.write(dry_run, (Method::Post, "/v1/tasks"), Some(body)).await?;
    let Some(response) = response else { return Ok(()) };
    let created = parse_response(&response)?;
    let ids: Vec<String> = created["tasks"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(|task| field(task, "id"))
        .collect();
    let message = match ids.as_slice() {
        [id] => format!("added task {id}"),
        several => format!("added {} tasks", several.len()),
    };
    if output.is_json() {
        output.done(&response, &message);
    } else {
        ids.iter().for_each(|id| terminal::print(terminal::sanitize_line(id)));
        terminal::note(terminal::sanitize_line(&message));
    }
    Ok(())
}

fn single_task_body(args: &AddArgs) -> anyhow::Result<String> {
    let retry = args.attempts.map(|attempts| serde_json::json!({"maxAttempts": attempts}));
    let body = JsonFields::default()
        .set_if_some("id", args.id.as_ref())?
        .set_if_some("type", args.task_type.as_ref())?
        .set_if_some("agent", args.agent.as_ref())?
        .set_if_some("input", args.content.clone().read()?)?
        .set_if_some("priority", args.priority.as_ref())?
        .list("dependsOn", &args.after)?
        .set_if_some("timeoutMs", args.timeout.map(|timeout| timeout.as_millis()))?
        .set_if_some("retry", retry)?
        .set_if_some("sessionId", args.session.as_ref())?;
    Ok(body.to_json())
}

fn details(task: &Value) -> Details {
    let text = |name| field(task, name);
    Details::default()
        .add("id", text("id"))
        .add("type", text("type"))
        .add("agent", text("agent"))
        .add("status", text("status"))
        .add("blocked on", text("blockedOn"))
        .add(if text("status") == "leased" { "leased by" } else { "ended by" }, text("holder"))
        .add("leased until", format_time(&task["leaseUntil"]))
        .add("attempt", format!("{} of {}", task["attempt"], task["maxAttempts"]))
        .add("priority", text("priority"))
        .add("depends on", text("dependsOn"))
        .add("input", if task["input"].is_null() { String::new() } else { payload_text(&task["input"]) })
        .add("session", text("sessionId"))
        .add("created", format_time(&task["createdAt"]))
        .add("by", text("creator"))
        .add("reason", text("reason"))
        .add("confidence", text("confidence"))
        .add("rationale", text("rationale"))
        .add("missing", text("missing"))
        .add("result", if task["result"].is_null() { String::new() } else { payload_text(&task["result"]) })
        .add(
            "details",
            if task["details"].is_null() { String::new() } else { payload_text(&task["details"]) },
        )
}
