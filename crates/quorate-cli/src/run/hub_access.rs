//! Access to the hub for programs that a playbook declares with `hub: true`: a token for each of them, scoped to its
//! agent, which is revoked when the command ends. A worker renews them before they expire.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_agents::{DeclaredAgent, HubAccess};
use quorate_core::Code;
use serde_json::json;

use crate::exit::{CommandError, USAGE};
use crate::hub::{DryRunArgs, Hub, HubArgs, Method, percent_encode};
use crate::output::{field, parse_response};
use crate::terminal;
use crate::token::parse_time;

/// Expiry of a token, in case the command is killed before it revokes it.
const EXPIRES_AFTER: &str = "24h";
/// Interval in which a worker replaces the tokens. A program that still runs keeps its token until that expires.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(12 * 60 * 60);

/// Tokens of the programs of one command.
pub(crate) struct ProgramTokens {
    hub: Hub,
    library: quorate::Hub,
    ids: Mutex<Vec<String>>,
}

impl ProgramTokens {
    /// Creates a token for each program that declares `hub: true`; `None` if there is none.
    ///
    /// # Errors
    /// If the hub is embedded, so that no program can reach it, or if the caller may not create tokens.
    pub(crate) async fn issue<'a>(
        args: &HubArgs,
        library: &quorate::Hub,
        agents: impl IntoIterator<Item = &'a DeclaredAgent>,
    ) -> anyhow::Result<Option<Self>> {
        let programs: Vec<_> = agents.into_iter().filter(|agent| agent.needs_hub_access).collect();
        let Some(first) = programs.first() else { return Ok(None) };
        if library.space().is_some() {
            let message =
                format!("agents.{}.hub: there is no running hub that the program could reach", first.name);
            let hint = "start one with `quorate serve`, and run the playbook in it";
            return Err(CommandError::new(USAGE, message, hint).into());
        }
        let tokens = Self { hub: args.open()?, library: library.clone(), ids: Mutex::default() };
        for program in programs {
            if let Err(error) = tokens.issue_for(program).await {
                tokens.revoke().await;
                return Err(error);
            }
        }
        Ok(Some(tokens))
    }

    async fn issue_for(&self, program: &DeclaredAgent) -> anyhow::Result<()> {
        // Only a registered agent can have a token. One that is registered may be run by another process.
        match self.library.agent_info(&program.name).await {
            Err(error) if error.code() == Code::NotFound => {
                self.library.agent(&program.name).join().await?;
            }
            info => drop(info?),
        }
        let body = json!({
            "role": "agent", "agent": program.name, "name": "program", "expiresAt": parse_time(EXPIRES_AFTER)?,
        });
        let request = (Method::Post, "/v1/tokens");
        let response = self.hub.write(DryRunArgs::new(false), request, Some(body.to_string())).await;
        let created = match response {
            Ok(response) => parse_response(&response.unwrap_or_default())?,
            Err(error) if is_forbidden(&error) => return Err(forbidden(&program.name).into()),
            Err(error) => return Err(error),
        };
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).push(field(&created, "id"));
        program.grant_hub_access(HubAccess {
            url: self.hub.url(),
            token: field(&created, "token"),
            ca_file: self.hub.ca_file(),
        });
        Ok(())
    }

    /// Replaces the tokens before they expire, until it is dropped.
    pub(crate) async fn renew(&self, agents: &[Arc<DeclaredAgent>]) -> Infallible {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            for program in agents.iter().filter(|agent| agent.needs_hub_access) {
                if let Err(error) = self.issue_for(program).await {
                    let message = format!("the token of agent {} was not renewed: {error:#}", program.name);
                    terminal::print_warning(&message, "restart the worker before the token expires");
                }
            }
        }
    }

    /// Revokes all tokens. A failure is only reported: the tokens expire.
    pub(crate) async fn revoke(self) {
        for id in self.ids.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let path = format!("/v1/tokens/{}", percent_encode(&id));
            match self.hub.write(DryRunArgs::new(false), (Method::Delete, &path), None).await {
                Err(error) if !is_not_found(&error) => {
                    let message = format!("token {id} of a program was not revoked: {error:#}");
                    terminal::print_warning(&message, &format!("revoke it with `quorate token revoke {id}`"));
                }
                // One that was renewed may have expired meanwhile.
                _ => {}
            }
        }
    }
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    is_refused_with(error, Code::Forbidden)
}

fn is_not_found(error: &anyhow::Error) -> bool {
    is_refused_with(error, Code::NotFound)
}

fn is_refused_with(error: &anyhow::Error, code: Code) -> bool {
    let refusal = error.downcast_ref::<quorate_client::Error>().and_then(quorate_client::Error::refusal);
    refusal.is_some_and(|refused| refused.code == code)
}

fn forbidden(agent: &str) -> CommandError {
    let message = format!("agents.{agent}.hub: the token of this run may not create a token for the program");
    CommandError::new(USAGE, message, "use an admin token: --token-file FILE")
}
