//! `quorate agent register`: begins a new epoch of an agent, as a program does when it starts.

use clap::Args;

use super::set::RegistrationChange;
use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{ActingAgentArgs, DryRunArgs, EPOCH_VARIABLE, Hub, Method, percent_encode};
use crate::output::{OutputArgs, field, parse_response};
use crate::terminal;

/// Arguments of `quorate agent register`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate agent register --token-file bob.token

A program runs this when it starts. What an earlier run of it holds (leases, locks, tasks) is available again at once, instead of when its leases end. The epoch is printed alone on stdout: export QUORATE_EPOCH=$(quorate agent register). With QUORATE_EPOCH, all commands carry it: they are refused (exit code 5) once another process registers the same agent, so that two of them never work at the same time.

The agent must exist, and its token is needed: quorate agent add NAME > NAME.token")]
pub(super) struct RegisterArgs {
    /// Agent id; by default the agent of the token.
    id: Option<String>,
    #[command(flatten)]
    change: RegistrationChange,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

pub(super) async fn run(hub: Hub, args: RegisterArgs, output: &OutputArgs) -> anyhow::Result<()> {
    // The epoch of the environment is that of the run that this registration ends.
    let hub = hub.without_epoch();
    let id = ActingAgentArgs::new(args.id).resolve(&hub).await?;
    let path = format!("/v1/agents/{}", percent_encode(&id));
    let current = match hub.get_json(&path, &[]).await {
        Ok(current) => current,
        Err(error) if is_not_found(&error) => {
            let id = terminal::sanitize_line(&id);
            let hint = format!("create it, as an operator: quorate agent add {id} > {id}.token");
            return Err(CommandError::new(NOT_FOUND, format!("there is no agent {id}"), hint).into());
        }
        Err(error) => return Err(error),
    };
    let body = args.change.apply_to(&current).to_string();
    let response = hub.write(args.dry_run, (Method::Put, &path), Some(body)).await?;
    let Some(response) = response else { return Ok(()) };
    let epoch = field(&parse_response(&response)?, "epoch");
    output.created(
        &response,
        &epoch,
        &format!("registered {id} again: epoch {epoch}; set {EPOCH_VARIABLE} to it"),
    );
    Ok(())
}

fn is_not_found(error: &anyhow::Error) -> bool {
    use quorate_client::Error;
    use quorate_core::Code;
    error.downcast_ref::<Error>().is_some_and(|error| error.code() == Code::NotFound)
}
