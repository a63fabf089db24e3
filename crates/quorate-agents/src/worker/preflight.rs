//! Checks of agents before any is asked: programs exist, API keys are set, servers are listening, agents of the hub are
//! connected.

use futures_util::future::join_all;
use quorate::{AgentInfo, Code, Error, Hub};

use crate::agent::DeclaredAgent;
use crate::probe::{ProbeCheck, reachable};
use crate::use_spec::UseSpec;

/// Result of checking one agent.
#[derive(Debug)]
pub enum AgentCheck {
    /// Built in: there is nothing to check.
    BuiltIn,
    /// A declared agent.
    Declared(ProbeCheck),
    /// A declared agent that another worker runs, from the same declaration. Whether it could run here does not matter.
    RunElsewhere,
    /// An agent that another process runs.
    Registered(Box<AgentInfo>),
}

/// Checks agents by name: the declared ones, and others in the hub. Concurrently, because a server that cannot be reached takes
/// a while.
///
/// # Errors
/// Returns `NOT_FOUND` for a name that is neither declared nor registered, or the error of the hub.
pub async fn check_agents<'a>(
    hub: &Hub,
    agents: &[DeclaredAgent],
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<(&'a str, AgentCheck)>, Error> {
    let checks = names.into_iter().map(|name| async move {
        let check = match agents.iter().find(|agent| agent.name == name) {
            Some(agent) if is_run_elsewhere(hub, agent).await? => AgentCheck::RunElsewhere,
            Some(agent) => check_declared(agent).await,
            None => AgentCheck::Registered(Box::new(hub.agent_info(name).await?)),
        };
        Ok((name, check))
    });
    join_all(checks).await.into_iter().collect()
}

/// Whether another worker runs an agent, from the same declaration.
async fn is_run_elsewhere(hub: &Hub, agent: &DeclaredAgent) -> Result<bool, Error> {
    match hub.agent_info(&agent.name).await {
        Err(error) if error.code() == Code::NotFound => Ok(false),
        info => {
            let info = info?;
            Ok(info.load.listening > 0 && info.declaration == Some(agent.declaration))
        }
    }
}

/// Checks one declared agent.
pub async fn check_declared(agent: &DeclaredAgent) -> AgentCheck {
    match agent.declared {
        UseSpec::Heuristic(_) => AgentCheck::BuiltIn,
        UseSpec::Command(_) | UseSpec::Model { .. } | UseSpec::Http(_) => {
            AgentCheck::Declared(reachable(agent).await)
        }
    }
}
