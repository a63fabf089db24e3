//! The agent that a command acts as: the agent of the token, unless the command line names another one.

use clap::Args;

use super::Hub;
use crate::exit::{CommandError, USAGE};
use crate::output::field;
use crate::terminal;

/// The option `--agent` of commands that act as an agent.
#[derive(Args, Clone, Debug)]
pub(crate) struct ActingAgentArgs {
    /// Agent to act as, if the token may act for other agents; by default the agent of the token.
    #[arg(long = "agent", value_name = "AGENT")]
    named: Option<String>,
}

impl ActingAgentArgs {
    /// Creates the argument for an agent that the command line names in another way.
    pub(crate) fn new(named: Option<String>) -> Self {
        Self { named }
    }

    /// Returns the named agent. The hub uses the agent of the token if there is none.
    pub(crate) fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// Returns the agent, for calls that have it in their path.
    ///
    /// # Errors
    /// If none is named and the token is not that of an agent.
    pub(crate) async fn resolve(&self, hub: &Hub) -> anyhow::Result<String> {
        if let Some(agent) = &self.named {
            return Ok(agent.clone());
        }
        let info = hub.get_json("/v1/info", &[]).await?;
        let principal = field(&info["you"], "principal");
        match principal.strip_prefix("agent:") {
            Some(agent) => Ok(agent.to_owned()),
            None => Err(not_an_agent(&principal).into()),
        }
    }
}

fn not_an_agent(principal: &str) -> CommandError {
    let principal = terminal::sanitize_line(principal);
    let message = format!("the token is that of {principal}, which is not an agent");
    let hint = "use the token of an agent with --token-file FILE or QUORATE_TOKEN_FILE, or name the agent: --agent AGENT\n\
                to create an agent: quorate agent add NAME > NAME.token";
    CommandError::new(USAGE, message, hint)
}
