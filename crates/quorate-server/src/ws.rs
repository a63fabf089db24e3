//! `GET /v1/ws`: one connection for everything that an agent does. It sends frames of JSON, each with a number; the hub
//! answers by number, and brings deliveries within the credit that it was given.
//!
//! One task serves a connection (`talk.rs`): it hears frames and puts what they ask for in line, in their order (`hear.rs`),
//! and tells answers and deliveries (`tell.rs`); if nobody reads them, the connection is cut off.

mod broken;
mod frame;
mod hear;
mod hello;
mod ledger;
mod seats;
mod talk;
mod tell;

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use quorate_api::Reading;
use quorate_core::{AgentId, Code, Commit, Epoch, Mono, Op, Principal, Refused};
use quorate_engine::Space;

use crate::app::App;
use crate::body::BODY_BYTES_MAX;
use crate::listen::Life;
use crate::observe::Presence;
use crate::problem::Problem;
#[cfg(test)]
pub(crate) use frame::REQUESTS_MAX;
pub(crate) use seats::Seats;

/// Bytes read from a connection at once; held by every idle one.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// Bytes gathered before they are written; held by every idle one.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
/// Bytes that may wait to be written: a few of the largest frames.
const WRITE_BUFFER_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;

/// What does not change while a connection lasts.
struct Session {
    app: App,
    space: Space,
    principal: Principal,
    /// The agent that acts, if the token is one of an agent.
    by: Option<AgentId>,
    /// The agent whose deliveries come here.
    agent: Option<AgentId>,
    /// Its start.
    epoch: Option<Epoch>,
    /// How long deliveries may lie here that must not be sent.
    starved_after: Duration,
}

impl Session {
    fn now(&self) -> Mono {
        self.app.engine().clock().now().mono
    }

    /// Whether the agent was started again, or removed.
    fn is_over(&self) -> bool {
        let epoch = |agent: &AgentId| self.space.published().agents.by_id(agent).map(|one| one.epoch);
        self.agent.as_ref().is_some_and(|agent| epoch(agent) != self.epoch)
    }

    fn reading<'a>(&'a self, body: &'a Bytes) -> Reading<'a> {
        let defaults = self.app.settings().times.defaults();
        Reading { body, agent: self.by.as_ref(), defaults, seal: &self.space, secrets: None }
    }

    /// Counts what the client is refused.
    fn refused(&self, problem: &Problem) {
        if problem.is_private() {
            return;
        }
        self.app.observed().refused(Some((self.space.number(), &self.principal)), problem.code());
    }

    fn commit(&self, ops: Vec<Op>) -> Commit {
        Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), ops) }
    }
}

/// Takes a connection over. `Host` and `Origin` were looked at as with every request.
pub(crate) async fn upgrade(
    State(app): State<App>,
    life: Option<Extension<Life>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|wrong| {
        Refused::new(Code::Invalid, format!("this is no beginning of a WebSocket: {}", wrong.body_text()))
            .hint("connect with a WebSocket client; see docs/guides/websocket.md")
    })?;
    let life = life.map(|Extension(life)| life);
    let upgrade = upgrade
        .max_message_size(BODY_BYTES_MAX)
        .max_frame_size(BODY_BYTES_MAX)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| serve(app, life, socket)))
}

async fn serve(app: App, life: Option<Life>, mut socket: WebSocket) {
    let patience = app.settings().patience.hello;
    let peer = life.as_ref().map(|life| life.peer);
    let known = match tokio::time::timeout(patience, hello::hear(&app, peer, &mut socket)).await {
        Ok(Ok(known)) => known,
        Ok(Err(problem)) => return turn_away(&app, socket, &problem).await,
        Err(_) => {
            let late = Refused::new(Code::Timeout, "the first frame did not come in time")
                .limit(patience.as_millis() as u64)
                .hint("say hello first");
            return turn_away(&app, socket, &late.into()).await;
        }
    };
    let _presence = Presence::of_socket(&app);
    talk::run(known, life, socket).await;
}

/// Tells why, and closes.
async fn turn_away(app: &App, mut socket: WebSocket, problem: &Problem) {
    app.observed().refused(None, problem.code());
    let told = async {
        socket.send(Message::Text(frame::problem(None, problem).into())).await?;
        socket.send(Message::Close(Some(closing(problem)))).await
    };
    let _ = tokio::time::timeout(app.settings().patience.reader, told).await;
}

/// How a connection is closed over a problem: 4000 and the status that HTTP has for it. What the protocol has a number of
/// its own for is closed with that.
fn closing(problem: &Problem) -> CloseFrame {
    if problem.code() == Code::TooLarge {
        return CloseFrame { code: 1009, reason: problem.code().as_str().into() };
    }
    CloseFrame { code: 4000 + problem.status().as_u16(), reason: problem.code().as_str().into() }
}
