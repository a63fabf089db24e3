//! Agents: registration, lookup, removal, heartbeats, inbox and outbox.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::agent::{Agent, AgentDescription, Heartbeat};
use quorate_api::inbox::{InboxDelivery, OutboxMessage};
use quorate_core::{
    AgentFilter, AgentId, AgentNo, Bearer, Code, CreateToken, DeliveryNo, Op, OpResult, Refused, Status,
    TokenName,
};
use quorate_engine::{Before, views};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, checked_limit, number_in};
use crate::api::{Route, delete, get, post, put, schema};
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use quorate_api::result::Changed;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/agents", "agents.list", "List agents in the order of their registration.")
            .query::<Filter>()
            .lists::<Agent>("agents")
            .bulk(list),
        put("/v1/agents/{id}", "agents.register", "Register an agent, or start a new epoch of it.")
            .path::<schema::Id>("id")
            .for_itself()
            .body::<AgentDescription>()
            .answers::<RegisteredOut>(
                200,
                "The agent was registered before. It has a new epoch, unless one was stated.",
            )
            .answers::<RegisteredOut>(201, "The agent is registered. Its access token is returned only once.")
            .to(register),
        get("/v1/agents/{id}", "agents.get", "Get an agent.")
            .path::<schema::Id>("id")
            .answers::<Agent>(200, "The agent.")
            .to(show),
        delete("/v1/agents/{id}", "agents.remove", "Remove an agent whose inbox is empty.")
            .path::<schema::Id>("id")
            .for_itself()
            .answers::<Changed>(200, "The agent is removed.")
            .to(remove),
        post("/v1/agents/{id}/heartbeat", "agents.heartbeat", "Send a heartbeat.")
            .path::<schema::Id>("id")
            .for_itself()
            .body::<Heartbeat>()
            .without_key("Heartbeats are not recorded, so repeating one has no effect.")
            .answers::<Agent>(200, "The agent.")
            .to(heartbeat),
        get(
            "/v1/agents/{id}/inbox",
            "inbox.list",
            "List the open deliveries of an inbox. Does not lease them.",
        )
        .path::<schema::Id>("id")
        .for_itself()
        .query::<Page>()
        .lists::<InboxDelivery>("deliveries")
        .bulk_of(inbox),
        get("/v1/agents/{id}/outbox", "outbox.list", "List messages sent by an agent, newest first.")
            .path::<schema::Id>("id")
            .for_itself()
            .query::<Page>()
            .lists::<OutboxMessage>("messages")
            .bulk_of(outbox),
    ]
}

/// Result of a registration.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Registered")]
struct RegisteredOut {
    agent: Agent,
    /// Current epoch of the agent.
    epoch: Option<u64>,
    /// Access token of the agent. `null` unless this call created the agent.
    token: Option<String>,
}

/// Registers an agent, or starts a new epoch of it. Creating an agent returns its access token, once.
pub(crate) async fn register(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::for_agent(id)?;
    let new = body::parse::<AgentDescription>(&call.body)?.read(&call.reading(), Some(id.clone()))?;
    let is_new = call.space.published().agents.number(&id).is_none();
    let secret = call.space.draw_secret();
    let token = CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Agent(id.clone()),
        name: TokenName::new("first")?,
        expires_at: None,
    };
    let create_ops = || vec![Op::RegisterAgent(new.clone()), Op::CreateToken(token.clone())];
    let ops = if is_new { create_ops() } else { vec![Op::RegisterAgent(new.clone())] };
    let receipt = match call.commit(ops).await {
        // A replay of the call that created the agent must include the token creation.
        Err(error) if !is_new && call.key.is_some() && error.code() == Code::Duplicate => {
            call.commit(create_ops()).await?
        }
        other => other?,
    };
    let (mut epoch, mut token_digest) = (None, None);
    for result in &receipt.results {
        match result {
            OpResult::Registered { epoch: now } => epoch = Some(now.0),
            OpResult::TokenCreated { digest, .. } => token_digest = Some(*digest),
            _ => {}
        }
    }
    let agent = views::agent(&call.space, &call.space.agent(&id).await?);
    let status = if token_digest.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    // Only the first response contains the secret: the hub stores its digest only.
    let token = (token_digest == Some(secret.digest())).then(|| secret.reveal().to_owned());
    answer(status, &RegisteredOut { agent, epoch, token })
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.space.agent(&AgentId::new(id)?).await?;
    ok(&views::agent(&call.space, &agent))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// Only agents with this capability.
    capability: Option<String>,
    /// Only agents that support this action.
    action: Option<String>,
    #[schemars(with = "Option<schema::AgentRole>")]
    role: Option<String>,
    #[schemars(with = "Option<schema::AgentStatus>")]
    status: Option<String>,
    #[schemars(with = "Option<schema::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<schema::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let query: Filter = call.query()?;
    let limit = checked_limit(query.limit)?;
    let after = AgentNo(number_in(query.cursor.as_deref())?);
    let status = query.status.map(|word| {
        let known = Status::ALL.into_iter().find(|status| status.as_str() == word);
        known.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("unknown status {word:?}"))
                .hint("use one of idle, working, waiting, offline")
        })
    });
    let filter = AgentFilter {
        id: None,
        capability: query.capability,
        action: query.action,
        role: query.role.map(|role| role.parse()).transpose()?,
        status: status.transpose()?,
    };
    let agents = call.space.agents(filter, after, limit).await?;
    let cursor = agents.last().filter(|_| agents.len() == limit).map(|last| last.number.0.to_string());
    let items = agents.iter().map(|one| (one.number.0.to_string(), views::agent(&call.space, one)));
    page("agents", items, cursor)
}

/// Lists open deliveries of an agent without leasing them.
pub(crate) async fn inbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let query: Page = call.query()?;
    let limit = checked_limit(query.limit)?;
    let after = DeliveryNo(number_in(query.cursor.as_deref())?);
    let deliveries = call.space.inbox(&agent, after, limit).await?;
    let cursor =
        deliveries.last().filter(|_| deliveries.len() == limit).map(|last| last.look.number.0.to_string());
    let items = deliveries
        .iter()
        .map(|delivery| (delivery.look.number.0.to_string(), views::inbox_delivery(delivery)));
    page("deliveries", items, cursor)
}

/// Lists messages sent by an agent, newest first.
pub(crate) async fn outbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let query: Page = call.query()?;
    let before = query.cursor.as_deref().map(str::parse).transpose()?;
    let sent = call.space.outbox(&agent, before, checked_limit(query.limit)?).await?;
    let items = sent.messages.iter().map(|id| {
        let after = Before { seq: id.seq, n: id.n };
        (after.to_string(), OutboxMessage { message_id: *id })
    });
    page("messages", items, sent.cursor.map(|before| before.to_string()))
}

pub(crate) async fn remove(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let receipt = call.commit(vec![Op::RemoveAgent { agent }]).await?;
    ok(&Changed::from(&receipt))
}

pub(crate) async fn heartbeat(Path(id): Path<String>, call: Call) -> Answer {
    let id = AgentId::new(id)?;
    let heartbeat = body::parse::<Heartbeat>(&call.body)?.read(Some(id.clone()))?;
    call.commit(vec![Op::Heartbeat(heartbeat)]).await?;
    let agent = call.space.agent(&id).await?;
    ok(&views::agent(&call.space, &agent))
}
