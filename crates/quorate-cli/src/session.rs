//! `quorate session`: opens, pauses, resumes, ends and exports sessions.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::hub::{
    ContentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, OrderedPageArgs, PageArgs, Resource,
    percent_encode,
};
use crate::output::{
    Column, Details, ListResponse, OutputArgs, field, format_time, parse_response, payload_line, payload_text,
};
use crate::terminal;

/// Maximum number of timeline pages to export, with 1,000 lines each.
const PAGES_MAX: usize = 100;

/// Arguments of `quorate session`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate session list")]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: SessionVerb,
}

#[derive(Subcommand, Debug)]
enum SessionVerb {
    /// List sessions, newest first. [ro]
    #[command(after_help = "Example: quorate session list --json")]
    List {
        #[command(flatten)]
        page: OrderedPageArgs,
    },
    /// Show a session. [ro]
    #[command(after_help = "Example: quorate session show @last")]
    Show {
        /// Session id, a unique prefix of it, or @last.
        id: String,
    },
    /// Open a session. [rw]
    #[command(after_help = "Example: quorate session open 'Review the contract' --coordinator alice")]
    Open(OpenArgs),
    /// Pause a session and hold its deliveries until it is resumed. [rw]
    #[command(after_help = "Example: quorate session pause @last --reason 'until Monday'")]
    Pause(ChangeArgs),
    /// Resume a paused session. [rw]
    #[command(after_help = "Example: quorate session resume @last")]
    Resume(ChangeArgs),
    /// Mark a session as completed. [rw]
    #[command(after_help = "Example: quorate session complete @last")]
    Complete(ChangeArgs),
    /// Mark a session as failed. [rw]
    #[command(after_help = "Example: quorate session fail @last --reason 'no quorum'")]
    Fail(ChangeArgs),
    /// Print the events of a session, oldest first. [ro]
    #[command(after_help = "Example: quorate session timeline @last")]
    Timeline {
        /// Session id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Export a session with its timeline as one JSON document. [ro]
    #[command(after_help = "Example: quorate session export @last > session.json")]
    Export {
        /// Session id, a unique prefix of it, or @last.
        id: String,
    },
}

#[derive(Args, Debug)]
struct OpenArgs {
    /// Title of the session.
    title: String,
    #[command(flatten)]
    task: TaskContent,
    /// Agent that coordinates the session.
    #[arg(long, value_name = "AGENT")]
    coordinator: Option<String>,
    /// Participating agent; can be repeated.
    #[arg(long, value_name = "AGENT")]
    participant: Vec<String>,
    /// Custom session id.
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// The task of a session.
#[derive(Args, Debug)]
struct TaskContent {
    /// Description of the work, as JSON; does not create a task.
    #[arg(long, value_name = "JSON")]
    task: Option<String>,
}

#[derive(Args, Debug)]
struct ChangeArgs {
    /// Session id, a unique prefix of it, or @last.
    id: String,
    /// Reason for the change.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

const COLUMNS: &[Column] = &[
    ("ID", |session| field(session, "id")),
    ("STATUS", |session| field(session, "status")),
    ("COORDINATOR", |session| field(session, "coordinator")),
    ("PARTICIPANTS", |session| participants(session).join(", ")),
    ("OPENED", |session| format_time(&session["openedAt"])),
    ("TITLE", |session| field(session, "title")),
];

const TIMELINE: &[Column] = &[
    ("RECORD", |line| field(line, "seq")),
    ("AT", |line| format_time(&line["at"])),
    ("BY", |line| field(line, "by")),
    ("KIND", |line| field(line, "kind")),
    ("EVENT", event),
];

fn participants(session: &Value) -> Vec<String> {
    let all = session["participants"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter()
        .filter(|participant| participant["leftAt"].is_null())
        .map(|participant| field(participant, "agent"))
        .collect()
}

fn event(line: &Value) -> String {
    let message = &line["message"];
    if message.is_object() {
        let (from, to) = (field(message, "from"), field(message, "to"));
        return format!("{from} → {to} {} {}", field(message, "action"), payload_line(&message["payload"]));
    }
    match line["verb"].as_str() {
        Some(verb) => {
            format!("{verb}: {} {}", field(line, "status"), field(line, "reason")).trim().to_owned()
        }
        None => format!("{} {}", payload_line(&line["body"]), field(line, "rationale")).trim().to_owned(),
    }
}

pub(crate) async fn run(args: SessionArgs) -> anyhow::Result<()> {
    let SessionArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        SessionVerb::List { page } => {
            output.list(&hub.get("/v1/sessions", &page.query(&[])).await?, "sessions", COLUMNS)
        }
        SessionVerb::Show { id } => {
            let response = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        SessionVerb::Open(args) => open(&hub, &output, args).await,
        SessionVerb::Pause(args) => change(&hub, &output, "pause", args).await,
        SessionVerb::Resume(args) => change(&hub, &output, "resume", args).await,
        SessionVerb::Complete(args) => change(&hub, &output, "complete", args).await,
        SessionVerb::Fail(args) => change(&hub, &output, "fail", args).await,
        SessionVerb::Timeline { id, page } => {
            let path = format!("{}/timeline", path_of(&hub, &id).await?);
            let query = [("limit", page.limit()), ("cursor", page.cursor())];
            let listed = output.rows(&hub.get(&path, &query).await?, "timeline", TIMELINE)?;
            // Every page has a cursor, because new events may follow.
            if page.is_full(listed.items.len()) {
                terminal::note(format!(
                    "there may be more results: --cursor {}",
                    listed.cursor.unwrap_or_default()
                ));
            }
            Ok(())
        }
        SessionVerb::Export { id } => export(&hub, &id).await,
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/sessions/{}", percent_encode(&hub.resolve_id(Resource::Session, id).await?)))
}

async fn open(hub: &Hub, output: &OutputArgs, args: OpenArgs) -> anyhow::Result<()> {
    let task = ContentArgs::json(args.task.task).read()?;
    let body = JsonFields::default()
        .set_if_some("id", args.id)?
        .set("title", args.title)?
        .set_if_some("coordinator", args.coordinator)?
        .list("participants", &args.participant)?
        .set_if_some("task", task)?;
    let response = hub.write(args.dry_run, (Method::Post, "/v1/sessions"), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let opened = parse_response(&response)?;
    output.created(&response, &field(&opened, "id"), &format!("opened session {}", field(&opened, "id")));
    Ok(())
}

async fn change(hub: &Hub, output: &OutputArgs, verb: &str, args: ChangeArgs) -> anyhow::Result<()> {
    let path = path_of(hub, &args.id).await?;
    let body = JsonFields::default().set("reason", args.reason)?;
    let path = format!("{path}/{verb}");
    let response = hub.write(args.dry_run, (Method::Post, &path), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let session = parse_response(&response)?;
    output.done(&response, &format!("session {} is {}", field(&session, "id"), field(&session, "status")));
    Ok(())
}

/// Exports all pages of the timeline, each line as the hub returned it.
async fn export(hub: &Hub, id: &str) -> anyhow::Result<()> {
    let path = path_of(hub, id).await?;
    let session: Box<RawValue> = RawValue::from_string(hub.get(&path, &[]).await?)?;
    let (mut lines, mut cursor, mut is_complete) = (Vec::new(), None, false);
    for _ in 0..PAGES_MAX {
        let query = [("limit", Some("1000".to_owned())), ("cursor", cursor.take())];
        let page = ListResponse::parse(&hub.get(&format!("{path}/timeline"), &query).await?, "timeline")?;
        // Every page has a cursor, because new lines may follow.
        is_complete = page.items.is_empty() || page.cursor.is_none();
        lines.extend(page.items);
        cursor = page.cursor;
        if is_complete {
            break;
        }
    }
    let document = BTreeMap::from([
        ("session", session),
        ("timeline", to_raw_value(&lines)?),
        ("whole", to_raw_value(&is_complete)?),
    ]);
    terminal::print(terminal::sanitize_json(&serde_json::to_string(&document)?));
    if !is_complete {
        terminal::note(format!("the timeline is truncated to its first {} lines", lines.len()));
    }
    Ok(())
}

fn details(session: &Value) -> Details {
    let text = |name| field(session, name);
    let added = session["added"].as_object().into_iter().flatten();
    let added = added.filter(|(_, count)| **count != 0).map(|(kind, count)| format!("{count} {kind}"));
    Details::default()
        .add("id", text("id"))
        .add("title", text("title"))
        .add("status", text("status"))
        .add("since", format_time(&session["since"]))
        .add("reason", text("reason"))
        .add("coordinator", text("coordinator"))
        .add("participants", participants(session).join(", "))
        .add("opened", format_time(&session["openedAt"]))
        .add("added", added.collect::<Vec<_>>().join(", "))
        .add("task", if session["task"].is_null() { String::new() } else { payload_text(&session["task"]) })
}
