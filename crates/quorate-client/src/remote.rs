//! A hub that is reached over the network, as the library sees it. Agents that run have a WebSocket, over which everything
//! of theirs goes; whoever only joined calls over HTTP.

mod answers;
mod calls;
mod link;
mod reads;
mod tasks;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate::link::Who;
use quorate::{Chance, Clock, Error, Hub};
use quorate_api::token::{CreatedToken, NewToken};
use quorate_core::{AgentId, Principal, TokenId, TokenName};
use serde::Deserialize;

use crate::http::{Http, Options};
use crate::patience::Patience;
use crate::socket::Socket;
use crate::wire;

/// How long to keep trying if nothing is said.
const KEEP_TRYING: Duration = Duration::from_secs(30);

/// How to connect to a hub.
#[derive(Clone)]
pub struct Settings {
    /// How calls are made.
    pub http: Options,
    /// How long what was asked for waits for a hub that is out of reach. Deliveries are waited for until the agent stops.
    pub keep_trying: Duration,
    /// Random bytes: keys, and how long to wait before the next try.
    pub chance: Arc<Chance>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { http: Options::default(), keep_trying: KEEP_TRYING, chance: Chance::system() }
    }
}

/// Connects to a hub: `connect("http://127.0.0.1:7867", token)`. What it gives is the library's hub, with the library's
/// errors. The token is that of an agent, which may only act as itself, or of an operator or admin, who may act for any.
///
/// # Errors
/// `UNAVAILABLE` if there is no hub, `UNAUTHENTICATED` if it does not know the token, `INVALID` for what is no address.
pub async fn connect(url: &str, token: &str) -> Result<Hub, Error> {
    connect_with(url, token, Settings::default()).await
}

/// Connects to a hub with settings.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(url: &str, token: &str, settings: Settings) -> Result<Hub, Error> {
    let patience = Patience {
        clock: Arc::clone(&settings.http.clock),
        chance: settings.chance,
        keep_trying: settings.keep_trying,
    };
    let space = settings.http.space.clone();
    let http = Http::new(url, token, settings.http)?;
    // A wrong address or token shows now, and not in the middle of the work.
    let info: InfoIn = http.get("/v1/info").send().await?.json()?;
    let own = Arc::new(Seat { http, token: token.trim().to_owned(), socket: Mutex::default() });
    let is_admin = info.you.role == "admin";
    let (seats, minted) = (Mutex::default(), Mutex::default());
    Ok(Hub::over(Arc::new(Connection { own, is_admin, seats, minted, patience, space })))
}

#[derive(Deserialize)]
struct InfoIn {
    you: YouIn,
}

#[derive(Deserialize)]
struct YouIn {
    role: String,
}

/// A hub at the other end.
struct Connection {
    /// Whoever connected.
    own: Arc<Seat>,
    is_admin: bool,
    /// Tokens that were made for agents that joined here; they end with the connection.
    minted: Mutex<Vec<TokenId>>,
    /// Agents that joined here.
    seats: Mutex<HashMap<AgentId, Arc<Seat>>>,
    patience: Patience,
    space: Option<String>,
}

/// Somebody who acts over the network.
struct Seat {
    http: Http,
    token: String,
    /// Its WebSocket, while it runs.
    socket: Mutex<Option<Socket>>,
}

impl Seat {
    fn slot(&self) -> MutexGuard<'_, Option<Socket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its WebSocket, if it has one.
    fn socket(&self) -> Option<Socket> {
        self.slot().clone().filter(Socket::is_open)
    }
}

impl Connection {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.patience.clock
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<AgentId, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat_of(&self, agent: &AgentId) -> Arc<Seat> {
        self.seats().get(agent).map_or_else(|| Arc::clone(&self.own), Arc::clone)
    }

    fn seat(&self, principal: &Principal) -> Arc<Seat> {
        match principal {
            Principal::Agent(agent) => self.seat_of(agent),
            Principal::System | Principal::Holder { .. } => Arc::clone(&self.own),
        }
    }

    /// A token with which an agent acts as itself: the one that came with its registration, the one that it had here
    /// before, or a new one. Whoever may not make tokens acts with its own.
    async fn token_for(&self, agent: &AgentId, first: Option<String>) -> Result<String, Error> {
        let before = || self.seats().get(agent).map(|seat| seat.token.clone());
        if let Some(token) = first.or_else(before) {
            return Ok(token);
        }
        if !self.is_admin {
            return Ok(self.own.token.clone());
        }
        let body = wire::write(&NewToken {
            role: "agent".to_owned(),
            agent: Some(agent.clone()),
            name: Some(TokenName::new("connection")?),
            space: None,
            expires_at: None,
        })?;
        let CreatedToken { id, token } = self.own.http.post("/v1/tokens").json(body).send().await?.json()?;
        let token = token.ok_or_else(|| wire::strange(&"a new token without its secret"))?;
        self.minted.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(token)
    }

    /// A key that nobody else draws.
    fn key(&self) -> String {
        quorate_core::hex::encode(&self.patience.chance.sixteen())
    }

    /// The path of something of an agent.
    fn of(who: &Who, rest: &str) -> String {
        format!("/v1/agents/{}{rest}", crate::http::segment(who.agent.as_str()))
    }
}
