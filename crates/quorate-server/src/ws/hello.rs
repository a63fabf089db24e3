//! The first frame: who is there, as which agent, and whether it goes on where it stopped.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use quorate_core::{
    AgentId, Code, Epoch, Op, OpResult, Principal, Refused, RegisterAgent, SpaceNo, check_lease,
};
use quorate_engine::{Consumer, Space};
use serde::Deserialize;

use super::ledger::Ledger;
use super::seats::Seat;
use super::{Session, broken, frame};
use crate::app::App;
use crate::body;
use crate::call::{self, Pass};
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    hello: HelloIn,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HelloIn {
    token: String,
    agent: Option<String>,
    epoch: Option<u64>,
    resume: Option<bool>,
    lease_ms: Option<u64>,
    space: Option<String>,
}

/// Somebody who said hello and was welcome.
pub(super) struct Known {
    pub(super) session: Session,
    pub(super) pass: Pass,
    /// The space of the token.
    pub(super) home: SpaceNo,
    /// What brings the deliveries, if there is an agent.
    pub(super) consumer: Option<Consumer>,
    pub(super) ledger: Ledger,
    pub(super) seat: Option<Seat>,
}

pub(super) async fn hear(app: &App, peer: Option<IpAddr>, socket: &mut WebSocket) -> Result<Known, Problem> {
    let first = first_frame(socket).await?;
    let First { hello } = body::parse(&first)?;
    let (known, pass) = call::bearer_of(app, &hello.token, hello.space.as_deref())
        .map_err(|refused| in_a_frame(call::counted(app, peer, refused)))?;
    app.rates().call(known.home, &known.principal, app.engine().clock().now().mono)?;
    let by = known.bearer.agent().cloned();
    let agent = hello.agent.map(AgentId::new).transpose()?.or_else(|| by.clone());
    let lease_ms = hello.lease_ms.unwrap_or(app.settings().times.lease_ms());
    // Before the agent is started: what is refused changes nothing.
    check_lease(lease_ms)?;
    let (mut epoch, mut consumer, mut seat) = (None, None, None);
    if let Some(agent) = &agent {
        let started = begin(&known.space, &known.principal, agent, hello.epoch.map(Epoch)).await?;
        // The older connection is gone before this one takes up what it held.
        seat = Some(app.seats().take(known.space.number(), agent).await);
        let resumes = hello.resume.unwrap_or(true);
        let opened = known.space.take_up(&known.principal, started, agent, lease_ms, resumes).await?;
        (epoch, consumer) = (Some(started), Some(opened));
    }
    let resumed = consumer.as_ref().map_or(0, Consumer::waiting);
    let session = Session {
        app: app.clone(),
        space: known.space,
        principal: known.principal,
        by,
        agent: agent.clone(),
        epoch,
        starved_after: Duration::from_millis(lease_ms / 2),
    };
    let welcome = frame::welcome(&session, agent.as_ref(), resumed, lease_ms);
    socket.send(Message::Text(welcome.into())).await.map_err(|_| gone())?;
    let ledger = Ledger::new(consumer.as_ref().map(|one| one.grant(0)), resumed as u64);
    Ok(Known { session, pass, home: known.home, consumer, ledger, seat })
}

async fn first_frame(socket: &mut WebSocket) -> Result<Bytes, Problem> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => return Ok(text.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(frame::no_text().into()),
            Some(Err(error)) => return Err(broken::why(error).unwrap_or_else(|| gone().into())),
            Some(Ok(Message::Close(_))) | None => return Err(gone().into()),
        }
    }
}

fn gone() -> Refused {
    Refused::new(Code::Cancelled, "the connection ended before anything was said")
}

/// Over a WebSocket there is no header.
fn in_a_frame(refused: Refused) -> Refused {
    match refused.code {
        Code::Unauthenticated => refused.hint("say hello with a token of this hub"),
        _ => refused,
    }
}

/// The start of the agent that goes on, or a new one. A new one ends the one before, and what that held is given back.
async fn begin(
    space: &Space,
    principal: &Principal,
    id: &AgentId,
    epoch: Option<Epoch>,
) -> Result<Epoch, Problem> {
    let published = space.published();
    let missing =
        || Refused::new(Code::NotFound, format!("there is no agent {id}")).hint("register it first");
    let agent = published.agents.by_id(id).ok_or_else(missing)?;
    if let Some(epoch) = epoch {
        if epoch == agent.epoch {
            return Ok(epoch);
        }
        let detail = format!("agent {id} was started again: epoch {epoch} is over, it is at {}", agent.epoch);
        let mut refused = Refused::new(Code::StaleEpoch, detail)
            .hint("this start of the agent is over; stop it, or leave the epoch out to start it again");
        refused.facts.current_epoch = Some(agent.epoch.0);
        return Err(refused.into());
    }
    let again = RegisterAgent {
        id: id.clone(),
        name: agent.name.clone(),
        role: agent.role,
        capabilities: agent.capabilities.clone(),
        supported_actions: agent.supported_actions.clone(),
        epoch: None,
        heartbeat_ms: agent.heartbeat_ms,
    };
    let commit = quorate_core::Commit::new(principal.clone(), vec![Op::RegisterAgent(again)]);
    let receipt = space.commit(commit).await?;
    match receipt.results.first() {
        Some(OpResult::Registered { epoch }) => Ok(*epoch),
        _ => Err(Refused::new(Code::Unavailable, "the start of the agent was not answered").into()),
    }
}
