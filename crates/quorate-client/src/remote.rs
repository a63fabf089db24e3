//! Backend of a remote hub. A running agent uses one WebSocket for all its calls; an agent that only joined uses
//! HTTP.

mod backend;
mod commit_and_claim;
mod reads;
mod requests;
mod task_poll;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate::backend::AgentIdentity;
use quorate::{Clock, Entropy, Error, Hub};
use quorate_api::info::Info;
use quorate_api::token::{CreatedToken, NewToken};
use quorate_core::limits::LEASE_MS_DEFAULT;
use quorate_core::{AgentId, Principal, TokenId, TokenName};

use crate::http::{HttpClient, HttpOptions};
use crate::retry::Retrier;
use crate::socket::{Hello, Socket};
use crate::wire;

/// Default retry timeout.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Options for connecting to a hub.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Options of the HTTP client.
    pub http: HttpOptions,
    /// How long a call is retried while the hub is unavailable. Consumers wait for deliveries without this limit,
    /// until the agent stops.
    pub retry_timeout: Duration,
    /// Source of random bytes, used for idempotency keys and backoff jitter.
    pub entropy: Arc<Entropy>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { http: HttpOptions::default(), retry_timeout: RETRY_TIMEOUT, entropy: Entropy::system() }
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
    connect_with(url, token, ConnectOptions::default()).await
}

/// Connects to a hub with options.
///
/// # Errors
/// See [`connect`].
pub async fn connect_with(url: &str, token: &str, options: ConnectOptions) -> Result<Hub, Error> {
    let retrier = Retrier {
        clock: Arc::clone(&options.http.clock),
        entropy: options.entropy,
        timeout: options.retry_timeout,
    };
    let space = options.http.space.clone();
    let http = HttpClient::new(url, token, options.http)?;
    // Fail early on a wrong URL or token.
    let info: Info = http.get("/v1/info").send().await?.json()?;
    let caller = Arc::new(PrincipalClient { http, token: token.trim().to_owned(), socket: Mutex::default() });
    let is_admin = info.you.role == "admin";
    let (agents, created_tokens) = (Mutex::default(), Mutex::default());
    Ok(Hub::from_backend(Arc::new(RemoteHub { caller, is_admin, agents, created_tokens, retrier, space })))
}

/// A remote hub.
struct RemoteHub {
    /// Client of the principal that connected.
    caller: Arc<PrincipalClient>,
    is_admin: bool,
    /// Tokens created for agents that joined over this connection. They are revoked when it is closed.
    created_tokens: Mutex<Vec<TokenId>>,
    /// Clients of the agents that joined over this connection.
    agents: Mutex<HashMap<AgentId, Arc<PrincipalClient>>>,
    retrier: Retrier,
    space: Option<String>,
}

/// HTTP client, token and WebSocket of one principal.
struct PrincipalClient {
    http: HttpClient,
    token: String,
    /// WebSocket of a running agent.
    socket: Mutex<Option<Socket>>,
}

impl PrincipalClient {
    fn socket_slot(&self) -> MutexGuard<'_, Option<Socket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the WebSocket, if it is open.
    fn socket(&self) -> Option<Socket> {
        self.socket_slot().clone().filter(Socket::is_open)
    }
}

impl RemoteHub {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.retrier.clock
    }

    fn lock_agents(&self) -> MutexGuard<'_, HashMap<AgentId, Arc<PrincipalClient>>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client_of(&self, agent: &AgentId) -> Arc<PrincipalClient> {
        self.lock_agents().get(agent).map_or_else(|| Arc::clone(&self.caller), Arc::clone)
    }

    fn client_for(&self, principal: &Principal) -> Arc<PrincipalClient> {
        match principal {
            Principal::Agent(agent) => self.client_of(agent),
            Principal::System | Principal::Holder { .. } => Arc::clone(&self.caller),
        }
    }

    /// Returns the token with which an agent acts: the token returned by its registration, the token of an earlier
    /// registration over this connection, or a new one. A caller that may not create tokens uses its own.
    async fn token_for(&self, agent: &AgentId, issued: Option<String>) -> Result<String, Error> {
        let earlier = || self.lock_agents().get(agent).map(|client| client.token.clone());
        if let Some(token) = issued.or_else(earlier) {
            return Ok(token);
        }
        if !self.is_admin {
            return Ok(self.caller.token.clone());
        }
        let body = wire::to_json(&NewToken {
            role: "agent".to_owned(),
            agent: Some(agent.clone()),
            name: Some(TokenName::new("connection")?),
            space: None,
            expires_at: None,
            grants: None,
        })?;
        let CreatedToken { id, token } =
            self.caller.http.post("/v1/tokens").json(body).send().await?.json()?;
        let token = token.ok_or_else(|| wire::unexpected_response(&"a created token without its secret"))?;
        self.created_tokens.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(token)
    }

    /// Generates a unique idempotency key.
    fn new_key(&self) -> String {
        quorate_core::hex::encode(&self.retrier.entropy.bytes_16())
    }

    /// Returns the `hello` of a connection without deliveries.
    fn hello(&self, client: &PrincipalClient, identity: &AgentIdentity) -> Hello {
        Hello {
            token: client.token.clone(),
            agent: identity.agent.to_string(),
            epoch: identity.epoch.0,
            lease_ms: LEASE_MS_DEFAULT,
            space: self.space.clone(),
            deliveries: false,
        }
    }

    /// Opens the WebSocket of a running agent.
    async fn open_socket(
        &self,
        client: &PrincipalClient,
        hello: Hello,
        credit: u32,
    ) -> Result<Socket, Error> {
        let socket = Socket::open(client.http.connector(), hello, self.retrier.clone(), credit).await?;
        *client.socket_slot() = Some(socket.clone());
        Ok(socket)
    }

    /// Returns the path of a resource of an agent.
    fn agent_path(identity: &AgentIdentity, rest: &str) -> String {
        format!("/v1/agents/{}{rest}", crate::http::percent_encode(identity.agent.as_str()))
    }
}
