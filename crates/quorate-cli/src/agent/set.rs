//! `quorate agent set`: changes what is known of an agent, which goes on as it is.

use clap::Args;
use serde_json::{Value, json};

use crate::hub::{DryRun, Hub, Method, Noun, segment};
use crate::shape::{Shape, field, read};

/// Of whom, and what.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate agent set bob --can sum --can count

What is not named stays as it is; a list that is named replaces the one before, and
--can '' leaves none. The agent does not start again: its epoch stays, and so does
what it holds. If it starts anew meanwhile, nothing is changed: exit code 5.")]
pub(super) struct SetArgs {
    /// Its id, or the beginning of it.
    id: String,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    dry_run: DryRun,
}

/// What is to be so from now on.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
struct Change {
    /// A name for people.
    #[arg(long)]
    name: Option<String>,
    /// Its role.
    #[arg(long, value_name = "ROLE", value_parser = ["coordinator", "worker", "specialist", "observer"])]
    role: Option<String>,
    /// What it can do; may be given several times.
    #[arg(long, value_name = "CAPABILITY", visible_alias = "capability")]
    can: Vec<String>,
    /// An action that it takes; may be given several times.
    #[arg(long, value_name = "ACTION")]
    action: Vec<String>,
}

impl Change {
    /// The whole description: what is known, with what changes. By its epoch the hub knows that this is no new start.
    fn of(self, known: &Value) -> Value {
        let text = |wanted: Option<String>, name| wanted.map_or_else(|| known[name].clone(), Value::from);
        let list = |wanted: Vec<String>, name| match wanted.as_slice() {
            [] => known[name].clone(),
            named => named.iter().filter(|one| !one.is_empty()).cloned().collect(),
        };
        json!({
            "name": text(self.name, "name"),
            "role": text(self.role, "role"),
            "capabilities": list(self.can, "capabilities"),
            "supportedActions": list(self.action, "supportedActions"),
            "heartbeatMs": known["heartbeatMs"],
            "epoch": known["epoch"],
        })
    }
}

pub(super) async fn run(hub: &Hub, args: SetArgs, shape: &Shape) -> anyhow::Result<()> {
    let id = hub.id(Noun::Agent, &args.id).await?;
    let path = format!("/v1/agents/{}", segment(&id));
    let body = args.change.of(&hub.look(&path, &[]).await?);
    let answer = hub.change(args.dry_run, (Method::Put, &path), Some(body.to_string())).await?;
    let Some(answer) = answer else { return Ok(()) };
    let agent = &read(&answer)?["agent"];
    let told = |name| field(agent, name);
    let done = format!("agent {id} is now {}, {}", told("name"), told("role"));
    let can = if told("capabilities").is_empty() {
        String::new()
    } else {
        format!(", can {}", told("capabilities"))
    };
    shape.done(&answer, &format!("{done}{can}; epoch {} goes on", told("epoch")));
    Ok(())
}
