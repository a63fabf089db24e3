//! Agents: register, show, list, remove, signs of life.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AgentFilter, AgentId, AgentNo, Bearer, Code, CreateToken, DeliveryNo, Op, OpResult, Refused, Secret, Seq,
    Status, TokenName,
};
use serde::Deserialize;
use serde_json::json;

use super::{Page, checked_limit, number_in};
use crate::body;
use crate::call::{Answer, Call, Listed, answer, ok};
use crate::wire::agent::{AgentIn, AgentOut, HeartbeatIn};
use crate::wire::time;

/// Makes an agent known, or starts it again. Whoever makes one gets its token, this once.
pub(crate) async fn register(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::for_agent(id)?;
    let new = body::parse::<AgentIn>(&call.body)?.read(Some(&id), call.times())?;
    let is_new = call.space.published().agents.number(&id).is_none();
    let secret = is_new.then(|| call.space.draw_secret());
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
    let agent = AgentOut::new(&call.space, &call.space.agent(&id).await?);
    let token = secret.as_ref().map(Secret::reveal);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &json!({"agent": agent, "epoch": epoch, "token": token}))
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.space.agent(&AgentId::new(id)?).await?;
    ok(&AgentOut::new(&call.space, &agent))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    capability: Option<String>,
    action: Option<String>,
    role: Option<String>,
    status: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Filter = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = AgentNo(number_in(asked.cursor.as_deref())?);
    let status = asked.status.map(|word| {
        let known = Status::ALL.into_iter().find(|status| status.as_str() == word);
        known.ok_or_else(|| Refused::new(Code::Invalid, format!("there is no status {word:?}")))
    });
    let filter = AgentFilter {
        id: None,
        capability: asked.capability,
        action: asked.action,
        role: asked.role.map(|role| role.parse()).transpose()?,
        status: status.transpose()?,
    };
    let agents = call.space.agents(filter, after, limit).await?;
    let cursor = agents.last().filter(|_| agents.len() == limit).map(|last| last.number.0.to_string());
    let items = agents.iter().map(|agent| AgentOut::new(&call.space, agent)).collect();
    ok(&Listed { name: "agents", items, cursor: Some(cursor) })
}

/// What lies in an agent's inbox and has not ended. Looking takes nothing.
pub(crate) async fn inbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let page: Page = call.query()?;
    let limit = checked_limit(page.limit)?;
    let after = DeliveryNo(number_in(page.cursor.as_deref())?);
    let letters = call.space.inbox(&agent, after, limit).await?;
    let cursor = letters.last().filter(|_| letters.len() == limit).map(|last| last.look.number.0.to_string());
    let items = letters.iter().map(|letter| {
        json!({
            "deliveryId": letter.id.to_string(),
            "messageId": letter.message.to_string(),
            "attempt": letter.look.open.attempt,
            "leaseUntil": letter.look.held.map(|(_, until)| time::shown(until)),
        })
    });
    ok(&Listed { name: "deliveries", items: items.collect(), cursor: Some(cursor) })
}

/// What an agent sent, newest first.
pub(crate) async fn outbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let page: Page = call.query()?;
    let before = page.cursor.as_deref().map(|cursor| number_in(Some(cursor)).map(Seq)).transpose()?;
    let sent = call.space.outbox(&agent, before, checked_limit(page.limit)?).await?;
    let items = sent.messages.iter().map(|id| json!({"messageId": id.to_string()})).collect();
    ok(&Listed { name: "messages", items, cursor: Some(sent.cursor.map(|seq| seq.0.to_string())) })
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
    let agent = call.space.agent(&id).await?;
    ok(&AgentOut::new(&call.space, &agent))
}
