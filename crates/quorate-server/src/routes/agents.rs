//! Agents: register, show, list, remove, signs of life.

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
use crate::api::{Route, delete, get, post, put, words};
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use quorate_api::result::Changed;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/agents", "agents.list", "List agents, in the order of their registration.")
            .query::<Filter>()
            .lists::<Agent>("agents")
            .bulk(list),
        put("/v1/agents/{id}", "agents.register", "Makes an agent known, or starts it again.")
            .path::<words::Id>("id")
            .for_itself()
            .body::<AgentDescription>()
            .answers::<RegisteredOut>(200, "It was known; it starts again, unless it named its epoch.")
            .answers::<RegisteredOut>(201, "It is known now. Its token is shown this once.")
            .to(register),
        get("/v1/agents/{id}", "agents.get", "One agent.")
            .path::<words::Id>("id")
            .answers::<Agent>(200, "The agent.")
            .to(show),
        delete("/v1/agents/{id}", "agents.remove", "Forgets an agent whose inbox is empty.")
            .path::<words::Id>("id")
            .for_itself()
            .answers::<Changed>(200, "It is forgotten.")
            .to(remove),
        post("/v1/agents/{id}/heartbeat", "agents.heartbeat", "A sign of life.")
            .path::<words::Id>("id")
            .for_itself()
            .body::<Heartbeat>()
            .without_key("A sign of life leaves no record; one more does no harm.")
            .answers::<Agent>(200, "The agent.")
            .to(heartbeat),
        get(
            "/v1/agents/{id}/inbox",
            "inbox.list",
            "What lies in an inbox and has not ended. Looking takes nothing.",
        )
        .path::<words::Id>("id")
        .for_itself()
        .query::<Page>()
        .lists::<InboxDelivery>("deliveries")
        .bulk_of(inbox),
        get("/v1/agents/{id}/outbox", "outbox.list", "What an agent sent, newest first.")
            .path::<words::Id>("id")
            .for_itself()
            .query::<Page>()
            .lists::<OutboxMessage>("messages")
            .bulk_of(outbox),
    ]
}

/// What registering came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Registered")]
struct RegisteredOut {
    agent: Agent,
    /// The start of the agent that is under way now.
    epoch: Option<u64>,
    /// `null` unless this call made the agent: a token is shown once.
    token: Option<String>,
}

/// Makes an agent known, or starts it again. Whoever makes one gets its token, this once.
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
    let made = || vec![Op::RegisterAgent(new.clone()), Op::CreateToken(token.clone())];
    let ops = if is_new { made() } else { vec![Op::RegisterAgent(new.clone())] };
    let receipt = match call.commit(ops).await {
        // The call that made the agent, repeated under its key, asked for the token too.
        Err(error) if !is_new && call.key.is_some() && error.code() == Code::Duplicate => {
            call.commit(made()).await?
        }
        other => other?,
    };
    let (mut epoch, mut good) = (None, None);
    for result in &receipt.results {
        match result {
            OpResult::Registered { epoch: now } => epoch = Some(now.0),
            OpResult::TokenCreated { digest, .. } => good = Some(*digest),
            _ => {}
        }
    }
    let agent = views::agent(&call.space, &call.space.agent(&id).await?);
    let status = if good.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    // Only the first answer has the token: of the secret that was drawn then, the hub has the digest only.
    let token = (good == Some(secret.digest())).then(|| secret.reveal().to_owned());
    answer(status, &RegisteredOut { agent, epoch, token })
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.space.agent(&AgentId::new(id)?).await?;
    ok(&views::agent(&call.space, &agent))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// Only those who can do this.
    capability: Option<String>,
    /// Only those who answer this action.
    action: Option<String>,
    #[schemars(with = "Option<words::AgentRole>")]
    role: Option<String>,
    #[schemars(with = "Option<words::AgentStatus>")]
    status: Option<String>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Filter = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = AgentNo(number_in(asked.cursor.as_deref())?);
    let status = asked.status.map(|word| {
        let known = Status::ALL.into_iter().find(|status| status.as_str() == word);
        known.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("there is no status {word:?}"))
                .hint("the words are idle, working, waiting, offline")
        })
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
    let items = agents.iter().map(|one| (one.number.0.to_string(), views::agent(&call.space, one)));
    page("agents", items, cursor)
}

/// What lies in an agent's inbox and has not ended. Looking takes nothing.
pub(crate) async fn inbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = DeliveryNo(number_in(asked.cursor.as_deref())?);
    let letters = call.space.inbox(&agent, after, limit).await?;
    let cursor = letters.last().filter(|_| letters.len() == limit).map(|last| last.look.number.0.to_string());
    let items =
        letters.iter().map(|letter| (letter.look.number.0.to_string(), views::inbox_delivery(letter)));
    page("deliveries", items, cursor)
}

/// What an agent sent, newest first.
pub(crate) async fn outbox(Path(id): Path<String>, call: Call) -> Answer {
    let agent = call.own_or_all(AgentId::new(id)?)?;
    let asked: Page = call.query()?;
    let before = asked.cursor.as_deref().map(str::parse).transpose()?;
    let sent = call.space.outbox(&agent, before, checked_limit(asked.limit)?).await?;
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
