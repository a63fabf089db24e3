//! `quorate agent set`: updates the registration of an agent without starting a new epoch.

use clap::Args;
use serde_json::{Value, json};

use crate::hub::{DryRunArgs, Hub, Method, Resource, percent_encode};
use crate::output::{OutputArgs, field, parse_response};

/// Arguments of `quorate agent set`.
#[derive(Args, Debug)]
#[command(mut_group("RegistrationChange", |group| group.required(true)))]
#[command(after_help = "Example: quorate agent set bob --capability sum --capability count

Omitted fields keep their values. A list replaces the previous one; --capability '' clears it. The agent \
keeps its epoch and its leases. If it registers again in the meantime, nothing is changed and the exit code is 5.")]
pub(super) struct SetArgs {
    /// Agent id, or a unique prefix of it.
    id: String,
    #[command(flatten)]
    change: RegistrationChange,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// Fields of a registration to change.
#[derive(Args, Debug)]
#[group(multiple = true)]
pub(super) struct RegistrationChange {
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
}

impl RegistrationChange {
    /// Returns the complete registration: the current one with the changes applied.
    pub(super) fn apply_to(self, current: &Value) -> Value {
        let text = |changed: Option<String>, name| changed.map_or_else(|| current[name].clone(), Value::from);
        let list = |changed: Vec<String>, name| match changed.as_slice() {
            [] => current[name].clone(),
            items => items.iter().filter(|item| !item.is_empty()).cloned().collect(),
        };
        let mut registration = json!({
            "name": text(self.name, "name"),
            "role": text(self.role, "role"),
            "capabilities": list(self.capability, "capabilities"),
            "supportedActions": list(self.action, "supportedActions"),
            "heartbeatMs": current["heartbeatMs"],
        });
        if let Some(declaration) = current.get("declaration") {
            registration["declaration"] = declaration.clone();
        }
        registration
    }
}

pub(super) async fn run(hub: &Hub, args: SetArgs, output: &OutputArgs) -> anyhow::Result<()> {
    let id = hub.resolve_id(Resource::Agent, &args.id).await?;
    let path = format!("/v1/agents/{}", percent_encode(&id));
    let current = hub.get_json(&path, &[]).await?;
    let mut body = args.change.apply_to(&current);
    // With the current epoch, it is an update and not a new registration.
    body["epoch"] = current["epoch"].clone();
    let response = hub.write(args.dry_run, (Method::Put, &path), Some(body.to_string())).await?;
    let Some(response) = response else { return Ok(()) };
    let agent = &parse_response(&response)?["agent"];
    let text = |name| field(agent, name);
    let message = format!("updated agent {id}: {}, {}", text("name"), text("role"));
    let capabilities = if text("capabilities").is_empty() {
        String::new()
    } else {
        format!(", capabilities {}", text("capabilities"))
    };
    output.done(&response, &format!("{message}{capabilities}; epoch {} unchanged", text("epoch")));
    Ok(())
}
