//! `GET /v1/ws`: a WebSocket for all operations of an agent. The client sends numbered JSON frames; the hub replies
//! by number and pushes deliveries within the granted credit.
//!
//! One task serves a connection (`connection.rs`): it receives frames and enqueues their operations in order
//! (`receive.rs`), and sends replies and deliveries (`send.rs`). A client that does not read is disconnected.

mod active;
mod connection;
mod frame;
mod frame_limit;
mod hello;
mod ledger;
mod read_error;
mod receive;
mod send;
mod waits;

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use quorate_api::ParseContext;
use quorate_core::{AgentId, Code, Commit, Epoch, Mono, Op, Principal, Refused, TokenId};
use quorate_engine::Space;

use crate::app::App;
use crate::body::{self, BODY_BYTES_MAX};
use crate::listen::Connection;
use crate::observe::CountGuard;
use crate::problem::Problem;
pub(crate) use active::ActiveConnections;
#[cfg(test)]
pub(crate) use frame::REQUESTS_MAX;

/// Read buffer, held by every idle connection.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// Write buffer, held by every idle connection.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
/// Maximum size of pending output: one of the largest frames, because each is flushed before the next one.
const WRITE_BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Immutable properties of a connection.
struct Session {
    app: App,
    space: Space,
    principal: Principal,
    /// The calling agent, if the token belongs to an agent.
    calling_agent: Option<AgentId>,
    /// Token of the calling agent.
    agent_token: Option<TokenId>,
    /// The agent whose deliveries are sent on this connection.
    agent: Option<AgentId>,
    /// Epoch of that agent.
    epoch: Option<Epoch>,
    /// How long unsent deliveries may be held without credit before they are released.
    starved_after: Duration,
}

impl Session {
    fn now(&self) -> Mono {
        self.app.engine().clock().now().mono
    }

    /// Whether the agent has registered again or was removed.
    fn is_superseded(&self) -> bool {
        let epoch =
            |agent: &AgentId| self.space.published().agents.by_id(agent).map(|registered| registered.epoch);
        self.agent.as_ref().is_some_and(|agent| epoch(agent) != self.epoch)
    }

    fn parse_context<'a>(&'a self, body: &'a Bytes) -> ParseContext<'a> {
        let defaults = self.app.settings().durations.defaults();
        ParseContext { body, agent: self.calling_agent.as_ref(), defaults, seal: &self.space, secrets: None }
    }

    /// Maximum size of a frame under the current policy of the space.
    fn frame_bytes_max(&self) -> usize {
        body::bytes_max(&self.space.published().policy.policy)
    }

    /// Counts a refused frame.
    fn refused(&self, problem: &Problem) {
        if problem.is_private() {
            return;
        }
        self.app.telemetry().count_error(Some((self.space.number(), &self.principal)), problem.code());
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit::new(self.principal.clone(), ops);
        Commit { epoch: self.epoch, token: self.agent_token, ..commit }
    }
}

/// Upgrades to a WebSocket. `Host` and `Origin` were checked like for every request.
pub(crate) async fn upgrade(
    State(app): State<App>,
    connection: Option<Extension<Connection>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|rejection| {
        Refused::new(Code::Invalid, format!("not a WebSocket upgrade request: {}", rejection.body_text()))
            .hint("connect with a WebSocket client; see docs/guides/websocket.md")
    })?;
    let connection = connection.map(|Extension(connection)| connection);
    let upgrade = upgrade
        .max_message_size(BODY_BYTES_MAX)
        .max_frame_size(BODY_BYTES_MAX)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| serve(app, connection, socket)))
}

async fn serve(app: App, connection: Option<Connection>, mut socket: WebSocket) {
    let timeout = app.settings().timeouts.hello;
    let accepted = hello::accept(&app, connection.as_ref(), &mut socket);
    let handshake = match tokio::time::timeout(timeout, accepted).await {
        Ok(Ok(handshake)) => handshake,
        Ok(Err(problem)) => return reject(&app, socket, &problem).await,
        Err(_) => {
            let timed_out = Refused::new(Code::Timeout, "timed out waiting for the hello frame")
                .limit(timeout.as_millis() as u64)
                .hint("send a hello frame first");
            return reject(&app, socket, &timed_out.into()).await;
        }
    };
    let _count = CountGuard::for_websocket(&app);
    connection::run(handshake, connection, socket).await;
}

/// Sends the problem and closes the socket.
async fn reject(app: &App, mut socket: WebSocket, problem: &Problem) {
    app.telemetry().count_error(None, problem.code());
    let send = async {
        socket.send(Message::Text(frame::problem(None, problem).into())).await?;
        socket.send(Message::Close(Some(close_frame(problem)))).await
    };
    let _ = tokio::time::timeout(app.settings().timeouts.write, send).await;
}

/// Returns the close frame for a problem: code 4000 plus the HTTP status, or 1009 for frames that are too large.
fn close_frame(problem: &Problem) -> CloseFrame {
    if problem.code() == Code::TooLarge {
        return CloseFrame { code: 1009, reason: problem.code().as_str().into() };
    }
    CloseFrame { code: 4000 + problem.status().as_u16(), reason: problem.code().as_str().into() }
}
