//! `quorate agent`: lists, registers, updates, tests, purges and removes agents.

mod probe;
mod register;
mod set;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_core::limits::PURGE_MAX;
use serde_json::{Value, json};

use crate::exit::{CONFLICT, CommandError};
use crate::hub::{
    ActingAgentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, PageArgs, Resource, percent_encode,
};
use crate::output::{Column, Details, OutputArgs, field, format_time, parse_response};
use crate::playbook::AccessArgs;
use crate::status::format_age;
use crate::terminal;

/// Arguments of `quorate agent`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate agent list")]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: AgentVerb,
}

#[derive(Subcommand, Debug)]
enum AgentVerb {
    /// List agents with their status and inbox counts. [ro]
    #[command(after_help = "Example: quorate agent list --status offline")]
    List {
        /// Only agents with this capability.
        #[arg(long, value_name = "CAPABILITY")]
        capability: Option<String>,
        /// Only agents with this agent role.
        #[arg(long, value_name = "ROLE", value_parser = ["coordinator", "worker", "specialist", "observer"])]
        role: Option<String>,
        /// Only agents with this status.
        #[arg(long, value_name = "STATUS", value_parser = ["idle", "working", "waiting", "offline"])]
        status: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one agent. [ro]
    #[command(after_help = "Example: quorate agent show bob")]
    Show {
        /// Agent id, or a unique prefix of it.
        id: String,
    },
    /// Register an agent and print its token, once. [rw]
    #[command(after_help = "Example: quorate agent add bob --capability sum > bob.token

Only the token goes to stdout; everything else goes to stderr. If the agent already exists, nothing is \
changed and the exit code is 5.")]
    Add {
        /// Agent id.
        id: String,
        /// Display name.
        #[arg(long)]
        name: Option<String>,
        /// Agent role; messages to role:ROLE reach agents with it. Not an access role.
        #[arg(long, value_name = "ROLE", value_parser = ["coordinator", "worker", "specialist", "observer"])]
        role: Option<String>,
        /// Capability of the agent; can be repeated.
        #[arg(long, value_name = "CAPABILITY", alias = "can")]
        capability: Vec<String>,
        /// Action that the agent supports; can be repeated. Used to find a substitute for an unavailable agent; does not limit
        /// what the agent receives.
        #[arg(long, value_name = "ACTION")]
        action: Vec<String>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Register an agent again, which ends the leases and locks of its earlier process; print the epoch. [rw]
    Register(register::RegisterArgs),
    /// Send a heartbeat, which keeps an idle agent online. [rw]
    #[command(after_help = "Example: quorate agent heartbeat --status working

Every call of an agent counts as a heartbeat; this one is for an agent that is busy with something else. It does not extend leases: see `task heartbeat` and `msg extend`.")]
    Heartbeat {
        /// Status of the agent.
        #[arg(long, value_name = "STATUS", value_parser = ["idle", "working", "waiting"])]
        status: Option<String>,
        #[command(flatten)]
        agent: ActingAgentArgs,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Update the registration of an agent; it keeps its leases. [rw]
    Set(set::SetArgs),
    /// Test one agent: whether it is reachable, how fast it answers, and whether the answer is valid. [rw]
    #[command(after_help = "Example: quorate agent test risk_assessor --playbook playbook.yaml

With --playbook, the agent gets the first request of the playbook, with only the first 2,000 characters \
of the input; no hub is needed. Without --playbook, the agent is looked up in the running hub, and sent a \
request only if `analyse` is among its actions. The exit code is 1 if a check fails, and 3 if there is no such agent.")]
    Test {
        /// Agent name in the playbook, or agent id in the hub.
        name: String,
        /// Playbook that declares the agent.
        #[arg(long, value_name = "FILE")]
        playbook: Option<PathBuf>,
        #[command(flatten)]
        access: AccessArgs,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Discard all open deliveries of an agent. They stay in the log. [rw]
    #[command(after_help = "Example: quorate agent purge bob")]
    Purge {
        /// Agent id.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Remove an agent whose inbox is empty. [rw]
    #[command(after_help = "Example: quorate agent remove bob")]
    Remove {
        /// Agent id.
        id: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

const COLUMNS: &[Column] = &[
    ("ID", |agent| field(agent, "id")),
    ("ROLE", |agent| field(agent, "role")),
    ("STATUS", status),
    ("HEALTH", |agent| field(agent, "health")),
    ("OPEN", |agent| field(&agent["load"], "open")),
    ("LEASED", |agent| field(&agent["load"], "leased")),
    ("TASKS", |agent| field(&agent["load"], "tasks")),
    ("LAST SEEN", |agent| match format_age(&agent["heardAt"]) {
        Some(age) => format!("{age} ago"),
        // Not since the restart, whose time follows the table.
        None => "–".to_owned(),
    }),
    ("CAPABILITIES", |agent| field(agent, "capabilities")),
];

pub(crate) async fn run(args: AgentArgs) -> anyhow::Result<()> {
    let AgentArgs { hub, output, verb } = args;
    if let AgentVerb::Test { name, playbook: Some(file), access, dry_run } = &verb {
        return probe::test_playbook_agent(file, name, *access, *dry_run, &output).await;
    }
    let hub = hub.open_with_output(&output)?;
    match verb {
        AgentVerb::List { capability, role, status, page } => {
            let query = [
                ("capability", capability),
                ("role", role),
                ("status", status),
                ("limit", page.limit()),
                ("cursor", page.cursor()),
            ];
            let response = hub.get("/v1/agents", &query).await?;
            output.list(&response, "agents", COLUMNS)?;
            note_restart(&parse_response(&response)?["agents"], &output);
            Ok(())
        }
        AgentVerb::Show { id } => {
            let id = hub.resolve_id(Resource::Agent, &id).await?;
            let response = hub.get(&format!("/v1/agents/{}", percent_encode(&id)), &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        AgentVerb::Add { id, name, role, capability, action, dry_run } => {
            let body = JsonFields::default()
                .set_if_some("name", name)?
                .set_if_some("role", role)?
                .list("capabilities", &capability)?
                .list("supportedActions", &action)?;
            add(&hub, &id, body, dry_run, &output).await
        }
        AgentVerb::Register(args) => register::run(hub, args, &output).await,
        AgentVerb::Heartbeat { status, agent, dry_run } => {
            let id = agent.resolve(&hub).await?;
            let body = JsonFields::default().set_if_some("status", status)?;
            let path = format!("/v1/agents/{}/heartbeat", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Post, &path), Some(body.to_json())).await?;
            response
                .iter()
                .for_each(|response| output.done(response, &format!("heartbeat of {id} received")));
            Ok(())
        }
        AgentVerb::Set(args) => set::run(&hub, args, &output).await,
        AgentVerb::Test { name, dry_run, .. } => probe::test_hub_agent(&hub, &name, dry_run, &output).await,
        AgentVerb::Purge { id, dry_run } => {
            let body = json!({"ops": [{"op": "purge", "agent": id}]}).to_string();
            let response = hub.write(dry_run, (Method::Post, "/v1/commit"), Some(body)).await?;
            let Some(response) = response else { return Ok(()) };
            let count = &parse_response(&response)?["results"][0]["count"];
            let noun = if *count == 1 { "delivery" } else { "deliveries" };
            output.done(&response, &format!("purged {count} {noun} of {id}"));
            if count.as_u64() == Some(PURGE_MAX as u64) {
                terminal::note(format!("there may be more; run it again: quorate agent purge {id}"));
            }
            Ok(())
        }
        AgentVerb::Remove { id, dry_run } => {
            let path = format!("/v1/agents/{}", percent_encode(&id));
            let response = hub.write(dry_run, (Method::Delete, &path), None).await?;
            response.iter().for_each(|response| output.done(response, &format!("removed agent {id}")));
            Ok(())
        }
    }
}

/// Prints when the hub was restarted, if an agent was not seen since.
fn note_restart(agents: &Value, output: &OutputArgs) {
    let not_seen = agents.as_array().into_iter().flatten().find(|agent| !agent["notSeenSince"].is_null());
    if let (Some(agent), false) = (not_seen, output.is_json()) {
        terminal::note(format!("the hub was restarted at {}", format_time(&agent["notSeenSince"])));
    }
}

/// Registers an agent that does not exist yet. The hub treats a second registration as a restart: it begins a new epoch and
/// replaces the registration. A user who repeats the command wants neither, and may have truncated the token file already by
/// redirecting stdout to it.
async fn add(
    hub: &Hub,
    id: &str,
    body: JsonFields,
    dry_run: DryRunArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let path = format!("/v1/agents/{}", percent_encode(id));
    // If reading is not permitted, the call below returns the error.
    if hub.get(&path, &[]).await.is_ok() {
        return Err(already_exists(id).into());
    }
    let response = hub.write(dry_run, (Method::Put, &path), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    // No token: another client registered the agent first.
    let registered = parse_response(&response)?;
    let token = registered["token"].as_str().ok_or_else(|| already_exists(id))?;
    let message = format!("registered agent {id}; its token is on stdout and is not shown again");
    let token_lost =
        format!("agent {id} is registered, but its token was lost; create another: {}", token_for(id));
    output.created_secret(&response, token, &message, &token_lost)?;
    terminal::note("store it in a file that only you can read; the agent sends it with every request");
    Ok(())
}

fn already_exists(id: &str) -> CommandError {
    let hint = format!("to update it: quorate agent set {id}\nto create a token for it: {}", token_for(id));
    CommandError::new(CONFLICT, format!("agent {id} already exists; nothing was changed"), hint)
}

fn token_for(id: &str) -> String {
    format!("quorate token create --role agent --agent {id} --name {id}")
}

/// Returns the status of an agent. A closed connection, or a restart of the hub, shows before the agent counts as offline.
fn status(agent: &Value) -> String {
    if agent["status"] == "offline" {
        return field(agent, "status");
    }
    match format_age(&agent["disconnectedAt"]) {
        Some(age) => format!("disconnected {age} ago"),
        None if !agent["notSeenSince"].is_null() => "not seen".to_owned(),
        None => field(agent, "status"),
    }
}

/// Returns how long ago an agent was last seen.
pub(crate) fn last_seen_age(agent: &Value) -> String {
    match format_age(&agent["heardAt"]) {
        Some(age) => format!("{age} ago"),
        None => last_seen(agent),
    }
}

/// Returns the time at which an agent was last seen.
fn last_seen(agent: &Value) -> String {
    match &agent["notSeenSince"] {
        Value::Null => format_time(&agent["heardAt"]),
        restarted_at => format!("not since the restart at {}", format_time(restarted_at)),
    }
}

fn details(agent: &Value) -> Details {
    let load = &agent["load"];
    let text = |name| field(agent, name);
    Details::default()
        .add("id", text("id"))
        .add("name", text("name"))
        .add("role", text("role"))
        .add("capabilities", text("capabilities"))
        .add("actions", text("supportedActions"))
        .add("status", status(agent))
        .add("health", [text("health"), text("note")].join(" ").trim().to_owned())
        .add("available", text("available"))
        .add("epoch", text("epoch"))
        .add("declaration", text("declaration"))
        .add("inbox", format!("{} open, {} leased", load["open"], load["leased"]))
        .add("tasks", field(load, "tasks"))
        .add(
            "current work",
            [field(load, "currentTask"), field(load, "currentDelivery")].join(" ").trim().to_owned(),
        )
        .add("last seen", last_seen(agent))
        .add("offline at", format_time(&agent["offlineAt"]))
}
