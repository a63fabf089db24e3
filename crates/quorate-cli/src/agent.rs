//! `quorate agent`: who is there, letting others in, changing what is known of one, and trying one alone.

mod set;
mod test;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_core::limits::PURGE_MAX;
use serde_json::{Value, json};

use crate::exit::{CONFLICT, Ended};
use crate::hub::{DryRun, Fields, Hub, HubArgs, Method, Noun, Page, segment};
use crate::shape::{Column, Facts, Shape, field, read, time};
use crate::status::age;
use crate::text;

/// Who takes part.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate agent list")]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: AgentVerb,
}

#[derive(Subcommand, Debug)]
enum AgentVerb {
    /// List agents: what they do, and what lies in their inboxes. [ro]
    #[command(after_help = "Example: quorate agent list --status offline")]
    List {
        /// Only those who can do this.
        #[arg(long, value_name = "CAPABILITY")]
        capability: Option<String>,
        /// Only those with this role.
        #[arg(long, value_name = "ROLE", value_parser = ["coordinator", "worker", "specialist", "observer"])]
        role: Option<String>,
        /// Only those who are like this.
        #[arg(long, value_name = "STATUS", value_parser = ["idle", "working", "waiting", "offline"])]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show one agent. [ro]
    #[command(after_help = "Example: quorate agent show bob")]
    Show {
        /// Its id, or the beginning of it.
        id: String,
    },
    /// Make an agent known; its token is printed, this once. [rw]
    #[command(after_help = "Example: quorate agent add bob --can sum > bob.token

The token is alone on stdout; what was done is told on stderr. An agent that is
there already is left as it is: exit code 5.")]
    Add {
        /// Its id.
        id: String,
        /// A name for people.
        #[arg(long)]
        name: Option<String>,
        /// Its role.
        #[arg(long, value_name = "ROLE", value_parser = ["coordinator", "worker", "specialist", "observer"])]
        role: Option<String>,
        /// What it can do; may be given several times.
        #[arg(long, value_name = "CAPABILITY")]
        can: Vec<String>,
        /// An action that it takes; may be given several times.
        #[arg(long, value_name = "ACTION")]
        action: Vec<String>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Change what is known of an agent, without a new start. [rw]
    Set(set::SetArgs),
    /// Try one agent alone: is it there, how fast is it, does its answer fit? [rw]
    #[command(after_help = "Example: quorate agent test risk_assessor --playbook playbook.yaml

An agent of a playbook is asked what the playbook would ask it, about the first 2,000
characters of its text; no hub is needed. Without --playbook an agent of the running
hub is looked up, and asked if `analyse` is among its actions. The exit code is 1 if
anything is wrong, 3 if there is no such agent.")]
    Test {
        /// Its name in the playbook, or its id in the hub.
        name: String,
        /// The playbook that declares it.
        #[arg(long, value_name = "FILE")]
        playbook: Option<PathBuf>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// End all that waits in an inbox or is held by its agent, undone; the record stays. [rw]
    #[command(after_help = "Example: quorate agent purge bob")]
    Purge {
        /// Its id.
        id: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Forget an agent whose inbox is empty. [rw]
    #[command(after_help = "Example: quorate agent remove bob")]
    Remove {
        /// Its id.
        id: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

const COLUMNS: &[Column] = &[
    ("ID", |agent| field(agent, "id")),
    ("ROLE", |agent| field(agent, "role")),
    ("STATUS", |agent| field(agent, "status")),
    ("HEALTH", |agent| field(agent, "health")),
    ("OPEN", |agent| field(&agent["load"], "open")),
    ("HELD", |agent| field(&agent["load"], "leased")),
    ("TASKS", |agent| field(&agent["load"], "tasks")),
    ("HEARD", |agent| age(&agent["heardAt"]).map(|age| format!("{age} ago")).unwrap_or_default()),
    ("CAN", |agent| field(agent, "capabilities")),
];

pub(crate) async fn run(args: AgentArgs) -> anyhow::Result<()> {
    let AgentArgs { hub, shape, verb } = args;
    if let AgentVerb::Test { name, playbook: Some(file), dry_run } = &verb {
        return test::of_playbook(file, name, *dry_run, &shape).await;
    }
    let hub = hub.open_as(&shape)?;
    match verb {
        AgentVerb::List { capability, role, status, page } => {
            let query = [
                ("capability", capability),
                ("role", role),
                ("status", status),
                ("limit", page.limit()),
                ("cursor", page.cursor()),
            ];
            shape.list(&hub.get("/v1/agents", &query).await?, "agents", COLUMNS)
        }
        AgentVerb::Show { id } => {
            let id = hub.id(Noun::Agent, &id).await?;
            let answer = hub.get(&format!("/v1/agents/{}", segment(&id)), &[]).await?;
            shape.one(&answer, || Ok(facts(&read(&answer)?)))
        }
        AgentVerb::Add { id, name, role, can, action, dry_run } => {
            let body = Fields::default()
                .maybe("name", name)?
                .maybe("role", role)?
                .list("capabilities", &can)?
                .list("supportedActions", &action)?;
            add(&hub, &id, body, dry_run, &shape).await
        }
        AgentVerb::Set(args) => set::run(&hub, args, &shape).await,
        AgentVerb::Test { name, dry_run, .. } => test::of_hub(&hub, &name, dry_run, &shape).await,
        AgentVerb::Purge { id, dry_run } => {
            let body = json!({"ops": [{"op": "purge", "agent": id}]}).to_string();
            let answer = hub.change(dry_run, (Method::Post, "/v1/commit"), Some(body)).await?;
            let Some(answer) = answer else { return Ok(()) };
            let count = &read(&answer)?["results"][0]["count"];
            let (what, are) = if *count == 1 { ("delivery", "is") } else { ("deliveries", "are") };
            shape.done(&answer, &format!("{count} {what} of {id} {are} ended"));
            if count.as_u64() == Some(PURGE_MAX as u64) {
                text::say(format!("there may be more: quorate agent purge {id}"));
            }
            Ok(())
        }
        AgentVerb::Remove { id, dry_run } => {
            let path = format!("/v1/agents/{}", segment(&id));
            let answer = hub.change(dry_run, (Method::Delete, &path), None).await?;
            answer.iter().for_each(|answer| shape.done(answer, &format!("agent {id} is removed")));
            Ok(())
        }
    }
}

/// Lets one in that is not there yet. To the hub, saying it again is a new start of the agent, under what is said now; whoever
/// types it again wants neither, and may have sent the token's file to its end already.
async fn add(hub: &Hub, id: &str, body: Fields, dry_run: DryRun, shape: &Shape) -> anyhow::Result<()> {
    let path = format!("/v1/agents/{}", segment(id));
    // Whoever may not look is told so by the call itself.
    if hub.get(&path, &[]).await.is_ok() {
        return Err(there_already(id).into());
    }
    let answer = hub.change(dry_run, (Method::Put, &path), Some(body.to_json())).await?;
    let Some(answer) = answer else { return Ok(()) };
    // Somebody else was faster.
    let made = read(&answer)?;
    let token = made["token"].as_str().ok_or_else(|| there_already(id))?;
    let done = format!("agent {id} is known; its token is on stdout, this once");
    let again = format!("agent {id} is known, its token is lost; make another: {}", token_for(id));
    shape.made_once(&answer, token, &done, &again)?;
    text::say("keep it in a file that others cannot read; the agent sends it with every call");
    Ok(())
}

fn there_already(id: &str) -> Ended {
    let hint = format!("to change it: quorate agent set {id}\nto get a token for it: {}", token_for(id));
    Ended::new(CONFLICT, format!("agent {id} is there already; nothing was changed"), hint)
}

fn token_for(id: &str) -> String {
    format!("quorate token create --role agent --agent {id} --name {id}")
}

fn facts(agent: &Value) -> Facts {
    let load = &agent["load"];
    let text = |name| field(agent, name);
    Facts::default()
        .add("id", text("id"))
        .add("name", text("name"))
        .add("role", text("role"))
        .add("can", text("capabilities"))
        .add("actions", text("supportedActions"))
        .add("status", text("status"))
        .add("health", [text("health"), text("note")].join(" ").trim().to_owned())
        .add("available", text("available"))
        .add("epoch", text("epoch"))
        .add("inbox", format!("{} open, {} held", load["open"], load["leased"]))
        .add("tasks", field(load, "tasks"))
        .add(
            "works on",
            [field(load, "currentTask"), field(load, "currentDelivery")].join(" ").trim().to_owned(),
        )
        .add("heard", time(&agent["heardAt"]))
        .add("offline at", time(&agent["offlineAt"]))
}
