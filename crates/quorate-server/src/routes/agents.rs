//! Agents: register, show, list, remove, signs of life.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{AgentId, AgentNo, Bearer, Code, CreateToken, Op, OpResult, Refused, Secret, TokenName};
use serde::Deserialize;
use serde_json::json;

use super::{checked_limit, number_in};
use crate::body;
use crate::call::{Answer, Call, answer, ok};
use crate::wire::agent::{AgentIn, AgentOut, HeartbeatIn};

/// Makes an agent known, or starts it again. Whoever makes one gets its token, this once.
pub(crate) async fn register(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::for_agent(id)?;
    let new = body::parse::<AgentIn>(&call.body)?.read(Some(&id))?;
    let is_new = call.space.published().agents.number(&id).is_none();
    let secret = is_new.then(|| call.space.make_secret());
    let mut ops = vec![Op::RegisterAgent(new)];
    if let Some(secret) = &secret {
        ops.push(Op::CreateToken(CreateToken {
            digest: secret.digest(),
            bearer: Bearer::Agent(id.clone()),
            name: TokenName::new("first")?,
            expires_at: None,
        }));
    }
    let receipt = call.commit(ops).await?;
    let epoch = receipt.results.first().and_then(|result| match result {
        OpResult::Registered { epoch } => Some(epoch.0),
        _ => None,
    });
    let published = call.space.published();
    let agent = published.agents.by_id(&id).map(AgentOut::new);
    let token = secret.as_ref().map(Secret::reveal);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &json!({"agent": agent, "epoch": epoch, "token": token}))
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::new(id)?;
    let published = call.space.published();
    let agent = published.agents.by_id(&id).ok_or_else(|| missing(&id))?;
    ok(&AgentOut::new(agent))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    capability: Option<String>,
    role: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let limit = checked_limit(filter.limit)?;
    let after = AgentNo(number_in(filter.cursor.as_deref())?);
    let published = call.space.published();
    let meant = published.agents.iter().filter(|(number, agent)| {
        *number > after
            && !agent.removed
            && filter.capability.as_ref().is_none_or(|able| agent.capabilities.contains(able))
            && filter.role.as_ref().is_none_or(|role| agent.role.as_str() == role)
    });
    let page: Vec<_> = meant.take(limit).collect();
    let cursor = page.last().filter(|_| page.len() == limit).map(|(number, _)| number.0.to_string());
    let agents: Vec<_> = page.into_iter().map(|(_, agent)| AgentOut::new(agent)).collect();
    ok(&json!({"agents": agents, "cursor": cursor}))
}

pub(crate) async fn remove(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let receipt = call.commit(vec![Op::RemoveAgent { agent }]).await?;
    ok(&json!({"seq": receipt.seq.map(|seq| seq.0)}))
}

pub(crate) async fn heartbeat(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::new(id)?;
    let heartbeat = body::parse::<HeartbeatIn>(&call.body)?.read(Some(&id))?;
    call.commit(vec![Op::Heartbeat(heartbeat)]).await?;
    let published = call.space.published();
    let agent = published.agents.by_id(&id).ok_or_else(|| missing(&id))?;
    ok(&AgentOut::new(agent))
}

fn missing(id: &AgentId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no agent {id}"))
}
