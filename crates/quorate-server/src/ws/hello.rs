//! The hello frame: authentication, the agent to act as, and whether to resume an earlier connection.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use quorate_core::{
    AgentId, Code, Commit, Epoch, Op, OpResult, Refused, RegisterAgent, SpaceNo, check_lease,
};
use quorate_engine::{Consumer, HolderEvents};
use serde::Deserialize;

use super::active::ActiveConnection;
use super::ledger::Ledger;
use super::{READ_BUFFER_BYTES, Session, frame, read_error};
use crate::app::App;
use crate::body;
use crate::call::{self, Authenticated, Credential};
use crate::listen::Connection;
use crate::problem::Problem;
use crate::unauthenticated::UNAUTHENTICATED_BYTES_MAX;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HelloFrame {
    hello: HelloIn,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HelloIn {
    token: String,
    agent: Option<String>,
    epoch: Option<u64>,
    resume: Option<bool>,
    deliveries: Option<bool>,
    lease_ms: Option<u64>,
    space: Option<String>,
}

/// A connection that has completed its hello.
pub(super) struct Handshake {
    pub(super) session: Session,
    pub(super) credential: Credential,
    /// Space of the token.
    pub(super) token_space: SpaceNo,
    /// Consumer of the agent's deliveries, if the connection has an agent.
    pub(super) consumer: Option<Consumer>,
    /// Events for the agent as the holder of leases, if the connection has an agent.
    pub(super) holder_events: Option<HolderEvents>,
    pub(super) ledger: Ledger,
    pub(super) active: Option<ActiveConnection>,
}

pub(super) async fn accept(
    app: &App,
    connection: Option<&Connection>,
    socket: &mut WebSocket,
) -> Result<Handshake, Problem> {
    let first = limited_frame(connection, socket).await?;
    let peer = connection.map(|connection| connection.peer());
    let HelloFrame { hello } = body::parse(&first)?;
    let (authenticated, credential) = call::authenticate_secret(app, &hello.token, hello.space.as_deref())
        .map_err(|refused| with_hello_hint(call::count_failed_authentication(app, peer, refused)))?;
    connection.inspect(|connection| connection.authenticated());
    app.rates().check_call(
        authenticated.token_space,
        &authenticated.principal,
        app.engine().clock().now().mono,
    )?;
    let calling_agent = authenticated.bearer.agent().cloned();
    let agent = hello.agent.map(AgentId::new).transpose()?.or_else(|| calling_agent.clone());
    let lease_ms = hello.lease_ms.unwrap_or(app.settings().durations.lease_ms());
    // Validate before registering: a refused hello must not change anything.
    check_lease(lease_ms)?;
    let (mut epoch, mut consumer, mut holder_events, mut active) = (None, None, None, None);
    if let Some(agent) = &agent {
        let agent_epoch = resolve_epoch(&authenticated, agent, hello.epoch.map(Epoch)).await?;
        epoch = Some(agent_epoch);
        // Before deliveries are leased to this connection, so that the end of none is missed.
        holder_events = Some(authenticated.space.holder_events(agent)?);
        if hello.deliveries.unwrap_or(true) {
            // The older connection must be closed before its deliveries are resumed here.
            active = Some(app.active_connections().activate(authenticated.space.number(), agent).await);
            let resumes = hello.resume.unwrap_or(true);
            let space = &authenticated.space;
            let opened = space.open_stream(&authenticated.principal, agent_epoch, agent, lease_ms, resumes);
            consumer = Some(opened.await?);
        }
    }
    let resumed = consumer.as_ref().map_or(0, Consumer::unread_count);
    let session = Session {
        app: app.clone(),
        space: authenticated.space,
        principal: authenticated.principal,
        calling_agent,
        agent_token: authenticated.agent_token,
        agent: agent.clone(),
        epoch,
        starved_after: Duration::from_millis(lease_ms / 2),
    };
    let welcome = frame::welcome(&session, agent.as_ref(), resumed, lease_ms);
    socket.send(Message::Text(welcome.into())).await.map_err(|_| closed_early())?;
    let ledger = Ledger::new(consumer.as_ref().map(|consumer| consumer.grant_credit_op(0)), resumed as u64);
    let token_space = authenticated.token_space;
    Ok(Handshake { session, credential, token_space, consumer, holder_events, ledger, active })
}

/// Returns the first frame, which is smaller than others: its sender is not authenticated yet.
async fn limited_frame(connection: Option<&Connection>, socket: &mut WebSocket) -> Result<Bytes, Problem> {
    let budget = connection.map(Connection::read_budget);
    // The library reads into its buffer, which may contain frames after the first one as well.
    budget.inspect(|budget| budget.limit(UNAUTHENTICATED_BYTES_MAX + READ_BUFFER_BYTES));
    let exceeded = async {
        match budget {
            Some(budget) => budget.exceeded().await,
            None => std::future::pending().await,
        }
    };
    let first = tokio::select! {
        first = first_frame(socket) => first?,
        () = exceeded => return Err(hello_too_large().into()),
    };
    if first.len() > UNAUTHENTICATED_BYTES_MAX {
        return Err(hello_too_large().into());
    }
    budget.inspect(|budget| budget.lift());
    Ok(first)
}

fn hello_too_large() -> Refused {
    Refused::new(Code::TooLarge, "the hello frame is too large").limit(UNAUTHENTICATED_BYTES_MAX as u64).hint(
        format!("send a hello of at most {UNAUTHENTICATED_BYTES_MAX} bytes; later frames may be larger"),
    )
}

async fn first_frame(socket: &mut WebSocket) -> Result<Bytes, Problem> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => return Ok(text.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(frame::binary_refused().into()),
            Some(Err(error)) => {
                return Err(read_error::client_error(error).unwrap_or_else(|| closed_early().into()));
            }
            Some(Ok(Message::Close(_))) | None => return Err(closed_early().into()),
        }
    }
}

fn closed_early() -> Refused {
    Refused::new(Code::Cancelled, "the connection was closed before hello")
}

/// Adapts the hint: a WebSocket sends the token in hello, not in a header.
fn with_hello_hint(refused: Refused) -> Refused {
    match refused.code {
        Code::Unauthenticated => refused.hint("send a valid access token of this hub in hello"),
        _ => refused,
    }
}

/// Returns the epoch of the agent: the given one if it is current, else a new registration. A new epoch ends the
/// previous one and releases its leases.
async fn resolve_epoch(
    authenticated: &Authenticated,
    id: &AgentId,
    epoch: Option<Epoch>,
) -> Result<Epoch, Problem> {
    let space = &authenticated.space;
    let published = space.published();
    let missing =
        || Refused::new(Code::NotFound, format!("there is no agent {id}")).hint("register the agent first");
    let agent = published.agents.by_id(id).ok_or_else(missing)?;
    if let Some(epoch) = epoch {
        if epoch == agent.epoch {
            return Ok(epoch);
        }
        let detail = format!(
            "agent {id} has registered again: epoch {epoch} is stale, the current epoch is {}",
            agent.epoch
        );
        let mut refused = Refused::new(Code::StaleEpoch, detail)
            .hint("stop this instance of the agent, or omit epoch to register again");
        refused.facts.current_epoch = Some(agent.epoch.0);
        return Err(refused.into());
    }
    let registration = RegisterAgent {
        id: id.clone(),
        name: agent.name.clone(),
        role: agent.role,
        capabilities: agent.capabilities.clone(),
        supported_actions: agent.supported_actions.clone(),
        epoch: None,
        heartbeat_ms: agent.heartbeat_ms,
        declaration: agent.declaration,
    };
    let ops = vec![Op::RegisterAgent(registration)];
    let commit =
        Commit { token: authenticated.agent_token, ..Commit::new(authenticated.principal.clone(), ops) };
    let receipt = space.commit(commit).await?;
    match receipt.results.first() {
        Some(OpResult::Registered { epoch }) => Ok(*epoch),
        _ => Err(Problem::unknown_outcome("the registration of the agent returned no result")),
    }
}
