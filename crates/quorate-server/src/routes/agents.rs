//! Agents: registration, lookup, removal, heartbeats, inbox and outbox.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::agent::{Agent, AgentListQuery, AgentRegistration, Heartbeat, RegisteredAgent};
use quorate_api::inbox::{InboxDelivery, OutboxMessage};
use quorate_api::page::CursorQuery;
use quorate_api::result::ChangeReceipt;
use quorate_core::{
    AgentFilter, AgentId, AgentNo, AgentStatus, Bearer, Code, CreateToken, DeliveryNo, Grants, Op, OpResult,
    Refused, TokenName,
};
use quorate_engine::{MessageCursor, views};

use super::{check_limit, numeric_cursor};
use crate::api::{Route, delete, get, post, put, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response, page_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/agents", "agents.list", "List agents in the order of their registration.")
            .query_parameters::<AgentListQuery>()
            .returns_page::<Agent>("agents")
            .handled_in_bulk_by(list),
        put("/v1/agents/{id}", "agents.register", "Register an agent, or start a new epoch of it.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .request_body::<AgentRegistration>()
            .returns::<RegisteredAgent>(
                200,
                "The agent was registered before. It has a new epoch, unless one was stated.",
            )
            .returns::<RegisteredAgent>(
                201,
                "The agent is registered. Its access token is returned only once.",
            )
            .handled_by(register),
        get("/v1/agents/{id}", "agents.get", "Get an agent.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .returns::<Agent>(200, "The agent.")
            .handled_by(show),
        delete("/v1/agents/{id}", "agents.remove", "Remove an agent whose inbox is empty.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .returns::<ChangeReceipt>(200, "The agent is removed.")
            .handled_by(remove),
        post("/v1/agents/{id}/heartbeat", "agents.heartbeat", "Send a heartbeat.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .request_body::<Heartbeat>()
            .without_key("Heartbeats are not recorded, so repeating one has no effect.")
            .returns::<Agent>(200, "The agent.")
            .handled_by(heartbeat),
        get(
            "/v1/agents/{id}/inbox",
            "inbox.list",
            "List the open deliveries of an inbox. Does not lease them.",
        )
        .path_parameter::<schema::Id>("id", "Agent ID.")
        .own_agent_only()
        .query_parameters::<CursorQuery>()
        .returns_page::<InboxDelivery>("deliveries")
        .handled_with_id_in_bulk_by(inbox),
        get("/v1/agents/{id}/outbox", "outbox.list", "List messages sent by an agent, newest first.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .query_parameters::<CursorQuery>()
            .returns_page::<OutboxMessage>("messages")
            .handled_with_id_in_bulk_by(outbox),
    ]
}

/// Registers an agent, or starts a new epoch of it. Creating an agent returns its access token, once.
pub(crate) async fn register(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = AgentId::for_registration(id)?;
    let registration =
        body::parse::<AgentRegistration>(&call.body)?.into_core(&call.parse_context(), Some(id.clone()))?;
    let is_update = registration.epoch.is_some();
    let is_new = call.space.published().agents.number(&id).is_none();
    let secret = call.space.generate_secret();
    let token = CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Agent(id.clone()),
        name: TokenName::new("registration")?,
        expires_at: None,
        parent: None,
        grants: Grants::default(),
    };
    let create_ops = || vec![Op::RegisterAgent(registration.clone()), Op::CreateToken(token.clone())];
    let ops = if is_new { create_ops() } else { vec![Op::RegisterAgent(registration.clone())] };
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
            OpResult::Registered { epoch: new_epoch } => epoch = Some(*new_epoch),
            OpResult::TokenCreated { digest, .. } => token_digest = Some(*digest),
            _ => {}
        }
    }
    let agent = views::agent(&call.space, &call.space.agent(&id).await?);
    let status = if token_digest.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    // Only the first response contains the secret: the hub stores its digest only.
    let token = (token_digest == Some(secret.digest())).then(|| secret.reveal().to_owned());
    let hint = (token_digest.is_none() && !is_update).then(|| token_hint(&id));
    json_response(status, &RegisteredAgent { agent, epoch, token, hint })
}

/// Returns what a program does that registers its agent at each start, and has not kept the token of the first one.
fn token_hint(id: &AgentId) -> String {
    format!(
        "the agent was registered before and keeps its token, which is shown once: store it at the first start. If it is lost, \
         create another: POST /v1/tokens {{\"role\":\"agent\",\"agent\":\"{id}\",\"name\":\"{id}\"}}"
    )
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = call.space.agent(&AgentId::new(id)?).await?;
    ok_response(&views::agent(&call.space, &agent))
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let query: AgentListQuery = call.query()?;
    let limit = check_limit(query.limit)?;
    let after = AgentNo(numeric_cursor(query.cursor.as_deref())?);
    let status = query.status.map(|name| {
        let known = AgentStatus::ALL.into_iter().find(|status| status.as_str() == name);
        known.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("unknown status {name:?}"))
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
    let items = agents.iter().map(|agent| (agent.number.0.to_string(), views::agent(&call.space, agent)));
    page_response("agents", items, cursor)
}

/// Lists open deliveries of an agent without leasing them.
pub(crate) async fn inbox(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = call.check_readable_agent(AgentId::new(id)?)?;
    let query: CursorQuery = call.query()?;
    let limit = check_limit(query.limit)?;
    let after = DeliveryNo(numeric_cursor(query.cursor.as_deref())?);
    let deliveries = call.space.inbox(&agent, after, limit).await?;
    let cursor = deliveries
        .last()
        .filter(|_| deliveries.len() == limit)
        .map(|last| last.delivery.number.0.to_string());
    let items = deliveries
        .iter()
        .map(|delivery| (delivery.delivery.number.0.to_string(), views::inbox_delivery(delivery)));
    page_response("deliveries", items, cursor)
}

/// Lists messages sent by an agent, newest first.
pub(crate) async fn outbox(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = call.check_readable_agent(AgentId::new(id)?)?;
    let query: CursorQuery = call.query()?;
    let before = query.cursor.as_deref().map(str::parse).transpose()?;
    let sent = call.space.outbox(&agent, before, check_limit(query.limit)?).await?;
    let items = sent.messages.iter().map(|id| {
        let after = MessageCursor { seq: id.seq, n: id.n };
        (after.to_string(), OutboxMessage { message_id: *id })
    });
    page_response("messages", items, sent.cursor.map(|before| before.to_string()))
}

pub(crate) async fn remove(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = AgentId::new(id)?;
    let receipt = call.commit(vec![Op::RemoveAgent { agent }]).await?;
    ok_response(&ChangeReceipt::from(&receipt))
}

pub(crate) async fn heartbeat(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = AgentId::new(id)?;
    let heartbeat = body::parse::<Heartbeat>(&call.body)?.into_core(Some(id.clone()))?;
    call.commit(vec![Op::Heartbeat(heartbeat)]).await?;
    let agent = call.space.agent(&id).await?;
    ok_response(&views::agent(&call.space, &agent))
}
