//! Access to the hub for programs that a playbook declares with `hub: true`: a token for each of them, scoped to its
//! agent, which is revoked when the run ends.

use quorate_agents::{DeclaredAgent, HubAccess};
use quorate_core::Code;
use serde_json::json;

use crate::exit::{CommandError, USAGE};
use crate::hub::{DryRunArgs, Hub, HubArgs, Method, percent_encode};
use crate::output::{field, parse_response};
use crate::playbook::Playbook;
use crate::terminal;
use crate::token::parse_time;

/// Expiry of a token, in case the run is killed before it revokes it.
const EXPIRES_AFTER: &str = "24h";

/// Tokens of the programs of one run.
pub(super) struct ProgramTokens {
    hub: Hub,
    ids: Vec<String>,
}

impl ProgramTokens {
    /// Creates a token for each program that declares `hub: true` and takes part; `None` if there is none.
    ///
    /// # Errors
    /// If the hub is embedded, so that no program can reach it, or if the caller may not create tokens.
    pub(super) async fn issue(
        args: &HubArgs,
        library: &quorate::Hub,
        playbook: &mut Playbook,
    ) -> anyhow::Result<Option<Self>> {
        let members = &playbook.spec.agents;
        let takes_part = |agent: &DeclaredAgent| members.iter().any(|member| member.id == agent.name);
        let mut programs: Vec<&mut DeclaredAgent> =
            playbook.agents.iter_mut().filter(|agent| agent.needs_hub_access && takes_part(agent)).collect();
        let Some(first) = programs.first() else { return Ok(None) };
        if library.space().is_some() {
            let message =
                format!("agents.{}.hub: there is no running hub that the program could reach", first.name);
            let hint = "start one with `quorate serve`, and run the playbook in it";
            return Err(CommandError::new(USAGE, message, hint).into());
        }
        let mut tokens = Self { hub: args.open()?, ids: Vec::new() };
        for program in &mut programs {
            if let Err(error) = tokens.issue_for(library, program).await {
                tokens.revoke().await;
                return Err(error);
            }
        }
        Ok(Some(tokens))
    }

    async fn issue_for(&mut self, library: &quorate::Hub, program: &mut DeclaredAgent) -> anyhow::Result<()> {
        // Only a registered agent can have a token.
        library.agent(&program.name).join().await?;
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
        self.ids.push(field(&created, "id"));
        program.grant_hub_access(HubAccess {
            url: self.hub.url(),
            token: field(&created, "token"),
            ca_file: self.hub.ca_file(),
        });
        Ok(())
    }

    /// Revokes all tokens. A failure is only reported: the tokens expire.
    pub(super) async fn revoke(self) {
        for id in self.ids {
            let path = format!("/v1/tokens/{}", percent_encode(&id));
            if let Err(error) = self.hub.write(DryRunArgs::new(false), (Method::Delete, &path), None).await {
                let message = format!("token {id} of a program was not revoked: {error:#}");
                terminal::print_warning(&message, &format!("revoke it with `quorate token revoke {id}`"));
            }
        }
    }
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    let refusal = error.downcast_ref::<quorate_client::Error>().and_then(quorate_client::Error::refusal);
    refusal.is_some_and(|refused| refused.code == Code::Forbidden)
}

fn forbidden(agent: &str) -> CommandError {
    let message = format!("agents.{agent}.hub: the token of this run may not create a token for the program");
    CommandError::new(USAGE, message, "use an admin token: --token-file FILE")
}
