//! Backend of a remote hub. A running agent uses one WebSocket for all its calls; an agent that only joined uses
//! HTTP.

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
use quorate::{Clock, Entropy, Error, Hub};
use quorate_api::info::Info;
use quorate_api::token::{CreatedToken, NewToken};
use quorate_core::{AgentId, Principal, TokenId, TokenName};

use crate::http::{Http, Options};
use crate::patience::Patience;
use crate::socket::Socket;
use crate::wire;

/// Default retry timeout.
const KEEP_TRYING: Duration = Duration::from_secs(30);

/// Options for connecting to a hub.
#[derive(Clone)]
pub struct Settings {
    /// Options of the HTTP client.
    pub http: Options,
    /// How long a call is retried while the hub is unavailable. Consumers wait for deliveries without this limit,
    /// until the agent stops.
    pub keep_trying: Duration,
    /// Source of random bytes, used for idempotency keys and backoff jitter.
    pub chance: Arc<Entropy>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { http: Options::default(), keep_trying: KEEP_TRYING, chance: Entropy::system() }
    }
}

/// Connects to a hub: `connect("http://127.0.0.1:7867", token)`.
///
/// An agent's token can only act as that agent. An operator's or admin's token can act as any agent.
///
/// # Errors
/// Returns `UNAVAILABLE` if the hub cannot be reached, `UNAUTHENTICATED` if it does not accept the token, or
/// `INVALID` for an invalid URL or token.
pub async fn connect(url: &str, token: &str) -> Result<Hub, Error> {
    connect_with(url, token, Settings::default()).await
}

/// Connects to a hub with options.
///
/// # Errors
/// See [`connect`].
pub async fn connect_with(url: &str, token: &str, settings: Settings) -> Result<Hub, Error> {
    let patience = Patience {
        clock: Arc::clone(&settings.http.clock),
        chance: settings.chance,
        keep_trying: settings.keep_trying,
    };
    let space = settings.http.space.clone();
    let http = Http::new(url, token, settings.http)?;
    // Fail early on a wrong URL or token.
    let info: Info = http.get("/v1/info").send().await?.json()?;
    let own = Arc::new(Seat { http, token: token.trim().to_owned(), socket: Mutex::default() });
    let is_admin = info.you.role == "admin";
    let (seats, minted) = (Mutex::default(), Mutex::default());
    Ok(Hub::over(Arc::new(Connection { own, is_admin, seats, minted, patience, space })))
}

/// A remote hub.
struct Connection {
    /// Client of the principal that connected.
    own: Arc<Seat>,
    is_admin: bool,
    /// Tokens created for agents that joined over this connection. They are revoked when it is closed.
    minted: Mutex<Vec<TokenId>>,
    /// Clients of the agents that joined over this connection.
    seats: Mutex<HashMap<AgentId, Arc<Seat>>>,
    patience: Patience,
    space: Option<String>,
}

/// HTTP client, token and WebSocket of one principal.
struct Seat {
    http: Http,
    token: String,
    /// WebSocket of a running agent.
    socket: Mutex<Option<Socket>>,
}

impl Seat {
    fn slot(&self) -> MutexGuard<'_, Option<Socket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the WebSocket, if it is open.
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

    /// Returns the token with which an agent acts: the token returned by its registration, the token of an earlier
    /// registration over this connection, or a new one. A caller that may not create tokens uses its own.
    async fn token_for(&self, agent: &AgentId, issued: Option<String>) -> Result<String, Error> {
        let earlier = || self.seats().get(agent).map(|seat| seat.token.clone());
        if let Some(token) = issued.or_else(earlier) {
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
        let token = token.ok_or_else(|| wire::strange(&"a created token without its secret"))?;
        self.minted.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(token)
    }

    /// Generates a unique idempotency key.
    fn key(&self) -> String {
        quorate_core::hex::encode(&self.patience.chance.bytes_16())
    }

    /// Returns the path of a resource of an agent.
    fn of(who: &Who, rest: &str) -> String {
        format!("/v1/agents/{}{rest}", crate::http::segment(who.agent.as_str()))
    }
}
