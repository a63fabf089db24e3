//! An authenticated API call: principal, space, and request. All routes that need a token reach the engine through
//! it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts as _, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use quorate_api::ParseContext;
use quorate_api::result::OperationResult;
use quorate_core::limits::{NUMBER_MAX, PAGE_BYTES_MAX};
use quorate_core::{
    AccessToken, AgentId, AgentNo, Bearer, Code, Commit, Epoch, IdempotencyKey, Op, Principal, Receipt,
    Refused, Secret, Seq, SpaceName, SpaceNo, TokenDigest, TokenId, TokenLookup, TokenRole, TraceContext,
    describe_json_error,
};
use quorate_engine::{Error, Space, is_marked_private};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::api::{Access, RouteAccess};
use crate::app::{App, DEFAULT_SPACE};
use crate::body;
use crate::caller_activity::CallerActivity;
use crate::large_requests::LargeRequest;
use crate::listen::Connection;
use crate::observe;
use crate::problem::Problem;
use crate::settings::Durations;
use crate::wire::time;

/// Header with the epoch of the calling agent.
const EPOCH: &str = "quorate-epoch";
/// Header with the idempotency key.
const KEY: &str = "idempotency-key";
/// Header with the space that a hub admin acts in.
const SPACE: &str = "quorate-space";

/// An authenticated call.
pub(crate) struct Call {
    pub(crate) app: App,
    pub(crate) space: Space,
    /// Space of the token. Hub admins may act in other spaces.
    pub(crate) token_space: SpaceNo,
    pub(crate) principal: Principal,
    pub(crate) bearer: Bearer,
    /// Token of the calling agent; `None` for other principals.
    pub(crate) agent_token: Option<TokenId>,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) uri: Uri,
    pub(crate) body: Bytes,
    /// Rechecked while a response streams or a call waits.
    pub(crate) credential: Credential,
    /// Client connection; `None` in tests that call the router directly.
    connection: Option<Connection>,
    /// Trace context of the request's `traceparent` header.
    pub(crate) trace: Option<TraceContext>,
    /// The calling agent: each call is a heartbeat.
    activity: CallerActivity,
    /// Slot of a large request, occupied until the call ends.
    _large: Option<LargeRequest>,
}

/// Result of a handler.
pub(crate) type ApiResult = Result<Response, Problem>;

impl FromRequest<App> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        // Authenticate first: unauthenticated clients learn nothing, not even that a request was too large.
        let connection = head.extensions.get::<Connection>().cloned();
        let (authenticated, credential) = authenticate(app, &head.headers).map_err(|refused| {
            count_failed_authentication(app, connection.as_ref().map(|connection| connection.peer()), refused)
        })?;
        let Authenticated { space, token_space, principal, bearer, agent_token } = authenticated;
        connection.as_ref().inspect(|connection| connection.authenticated());
        // An invalid header is refused below, but the agent is alive.
        let epoch = epoch_of(&head.headers);
        let stated_epoch = epoch.as_ref().ok().copied().flatten();
        let activity = CallerActivity::new(&space, bearer.agent(), stated_epoch, app.agent_connections());
        if let Some(slot) = head.extensions.get::<observe::CallerSlot>() {
            slot.set_activity(&activity);
        }
        app.rates().check_call(token_space, &principal, app.engine().clock().now().mono)?;
        if let Some(slot) = head.extensions.get::<observe::CallerSlot>() {
            slot.set(space.number(), &principal);
        }
        // W3C Trace Context: an invalid `traceparent` is ignored.
        let trace = head.headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
        // Check permissions before reading anything of the body.
        if let Some(route) = head.extensions.get::<RouteAccess>().copied() {
            if let Access::Requires(permission) = route.access {
                principal.check_permission(permission, &verb_phrase(route.summary))?;
            }
            if let (true, Some(agent)) = (route.own_agent_only, bearer.agent()) {
                check_own_agent(agent, route.id, &mut head).await?;
            }
            check_query(route, &head.uri)?;
        }
        let epoch = epoch?;
        let key = header_text(&head.headers, KEY)?.map(IdempotencyKey::new).transpose()?;
        let policy = Arc::clone(&space.published().policy);
        let slot = || app.large_requests().clone().acquire(space.number(), &principal);
        let read_timeout = app.settings().timeouts.body;
        let (body, large) = body::read(&head.headers, body, &policy.policy, read_timeout, slot).await?;
        Ok(Self {
            app: app.clone(),
            space,
            token_space,
            principal,
            bearer,
            agent_token,
            epoch,
            key,
            uri: head.uri,
            body,
            credential,
            connection,
            trace,
            activity,
            _large: large,
        })
    }
}

/// Returns the epoch of the calling agent, if the call states one.
fn epoch_of(headers: &HeaderMap) -> Result<Option<Epoch>, Refused> {
    let Some(text) = header_text(headers, EPOCH)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| *number <= NUMBER_MAX);
    number.map(|number| Some(Epoch(number))).ok_or_else(|| {
        Refused::new(Code::Invalid, format!("{EPOCH}: {text:?} is not a valid epoch"))
            .hint("send the epoch returned by the agent's registration, or omit the header")
    })
}

/// Rejects query parameters on operations that take none, instead of ignoring them silently.
fn check_query(route: RouteAccess, uri: &Uri) -> Result<(), Refused> {
    match uri.query() {
        Some(query) if !route.has_query && !query.is_empty() => {
            let name = query.split(['=', '&']).next().unwrap_or_default();
            Err(Refused::new(Code::Invalid, format!("{} takes no parameter {name:?}", route.id))
                .hint("remove the query string; GET /v1/openapi.json lists every parameter"))
        }
        _ => Ok(()),
    }
}

/// Refuses an agent that names another agent in the path.
async fn check_own_agent(caller: &AgentId, operation: &str, head: &mut Parts) -> Result<(), Refused> {
    let parameters = RawPathParams::from_request_parts(head, &()).await.ok();
    let id = parameters.as_ref().and_then(|parameters| parameters.iter().find(|(name, _)| *name == "id"));
    match id {
        Some((_, id)) if id != caller.as_str() => Err(Refused::new(
            Code::Forbidden,
            format!("agent {caller} is not allowed to call {operation} for {id}"),
        )
        .hint("agents can only act for themselves; use a token with role operator or admin")),
        _ => Ok(()),
    }
}

/// An authenticated principal and the space it acts in.
pub(crate) struct Authenticated {
    pub(crate) space: Space,
    pub(crate) token_space: SpaceNo,
    pub(crate) principal: Principal,
    pub(crate) bearer: Bearer,
    /// Token of the calling agent; `None` for other principals. Its grants limit what the agent may register.
    pub(crate) agent_token: Option<TokenId>,
}

/// Identifies a token, to recheck its validity on long-lived connections.
#[derive(Clone)]
pub(crate) struct Credential {
    token_space: Space,
    digest: TokenDigest,
}

impl Credential {
    /// Returns the space of the token.
    pub(crate) fn token_space(&self) -> &Space {
        &self.token_space
    }

    /// Returns the token.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` if it is no longer valid.
    pub(crate) fn token(&self) -> Result<Arc<AccessToken>, Refused> {
        let now = self.token_space.engine().clock().now().wall;
        match self.token_space.published().tokens.find(&self.digest, now) {
            TokenLookup::Active(token) => Ok(Arc::clone(token)),
            TokenLookup::Expired(_) | TokenLookup::Unknown => {
                Err(unauthenticated("the access token was revoked or has expired"))
            }
        }
    }

    /// Whether the token is still valid: neither expired nor revoked.
    pub(crate) fn is_valid(&self) -> bool {
        self.token().is_ok()
    }
}

/// Counts a failed authentication against the peer address. Authenticated calls are not affected by that limit.
pub(crate) fn count_failed_authentication(app: &App, peer: Option<IpAddr>, refused: Refused) -> Refused {
    let Some(peer) = peer.filter(|_| refused.code == Code::Unauthenticated) else { return refused };
    let now = app.engine().clock().now().mono;
    app.rates().count_failure(peer, now).err().unwrap_or(refused)
}

fn unauthenticated(detail: &str) -> Refused {
    Refused::new(Code::Unauthenticated, detail)
        .hint("send Authorization: Bearer TOKEN with a token of this hub")
}

/// Authenticates a request by its bearer token.
pub(crate) fn authenticate(app: &App, headers: &HeaderMap) -> Result<(Authenticated, Credential), Refused> {
    let bearer = header_text(headers, header::AUTHORIZATION.as_str())?
        .ok_or_else(|| unauthenticated("the request has no bearer token"))?;
    let (scheme, secret) = bearer.split_once(' ').unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unauthenticated("the request has no bearer token"));
    }
    authenticate_secret(app, secret, header_text(headers, SPACE)?.as_deref())
}

/// Authenticates a token secret. Hub admins may request another space.
pub(crate) fn authenticate_secret(
    app: &App,
    secret: &str,
    requested_space: Option<&str>,
) -> Result<(Authenticated, Credential), Refused> {
    let digest =
        secret.trim().parse::<Secret>().map_err(|invalid| unauthenticated(&invalid.to_string()))?.digest();
    let now = app.engine().clock().now().wall;
    let found = app.spaces().iter().find_map(|(name, space)| {
        let published = space.published();
        match published.tokens.find(&digest, now) {
            TokenLookup::Active(token) => Some(Ok((name.clone(), space.clone(), Arc::clone(token)))),
            TokenLookup::Expired(_) => Some(Err(unauthenticated("the access token has expired"))),
            TokenLookup::Unknown => None,
        }
    });
    let not_found = || unauthenticated("unknown access token; it may have been revoked or have expired");
    let (name, token_space, token) = found.ok_or_else(not_found)??;
    let (principal, bearer) = (token.principal(), token.bearer.clone());
    let space = match requested_space {
        Some(other) if other != name.as_str() => other_space(app, &name, &bearer, other)?,
        _ => token_space.clone(),
    };
    let agent_token = bearer.agent().map(|_| token.id);
    let authenticated =
        Authenticated { space, token_space: token_space.number(), principal, bearer, agent_token };
    Ok((authenticated, Credential { token_space, digest }))
}

/// Resolves a space other than the token's own. Only admins of the default space, the hub admins, have access to it.
fn other_space(app: &App, own: &SpaceName, bearer: &Bearer, name: &str) -> Result<Space, Refused> {
    let found = SpaceName::new(name).ok().and_then(|name| app.space(&name));
    let is_hub_admin = *bearer == Bearer::Holder(TokenRole::Admin) && own.as_str() == DEFAULT_SPACE;
    found.filter(|_| is_hub_admin).ok_or_else(|| {
        // Do not echo the value: it may be a token sent in the wrong header.
        Refused::new(Code::NotFound, "unknown space in header Quorate-Space").hint(
            "omit the header to use the space of the token; \
             hub admins can name any space listed by GET /v1/spaces",
        )
    })
}

/// Returns the value of a header that may occur once: with two different ones, this hub and a proxy in front of it might
/// use different values.
fn header_text(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refused::new(Code::Invalid, format!("header {name} occurs more than once"))
            .hint("send the header once"));
    }
    value.to_str().map(|text| Some(text.to_owned())).map_err(|_| {
        Refused::new(Code::Invalid, format!("header {name} is not printable ASCII"))
            .hint("use printable ASCII characters only")
    })
}

impl Call {
    /// Returns the client connection.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Returns the calling agent; `None` for other principals.
    pub(crate) fn calling_agent(&self) -> Option<&AgentId> {
        self.bearer.agent()
    }

    /// Whether the caller may see items of this owner: agents see their own, other principals see all.
    pub(crate) fn can_see(&self, owner: Option<AgentNo>) -> bool {
        let Some(caller) = self.calling_agent() else { return true };
        let published = self.space.published();
        owner.and_then(|owner| published.agents.get(owner)).is_some_and(|agent| agent.id == *caller)
    }

    /// Resolves a space by name if the caller may act in it.
    pub(crate) fn space_named(&self, name: &str) -> Result<Space, Refused> {
        let own = self
            .app
            .spaces()
            .iter()
            .find(|(_, space)| space.number() == self.token_space)
            .map(|(name, _)| name.clone());
        match own {
            Some(own) if own.as_str() == name => Ok(self.credential.token_space().clone()),
            Some(own) => other_space(&self.app, &own, &self.bearer, name),
            None => Err(unauthenticated("the space of the token no longer exists")),
        }
    }

    /// Checks that the caller may read the traffic of an agent: agents read their own, other principals read all.
    pub(crate) fn check_readable_agent(&self, agent: AgentId) -> Result<AgentId, Refused> {
        match self.calling_agent() {
            Some(caller) if *caller != agent => Err(Refused::new(
                Code::Forbidden,
                format!("{caller} is not allowed to read messages of {agent}"),
            )
            .hint("read your own messages, or use a token with role viewer, operator or admin")),
            _ => Ok(agent),
        }
    }

    /// Returns the default durations and check intervals.
    pub(crate) fn durations(&self) -> &Durations {
        &self.app.settings().durations
    }

    /// Returns the agent whose activity this call is.
    pub(crate) fn activity(&self) -> &CallerActivity {
        &self.activity
    }

    /// Awaits a long-running operation while the token is valid and the hub is running.
    ///
    /// # Errors
    /// Errors of the operation; `UNAUTHENTICATED` when the token becomes invalid, `UNAVAILABLE` when the hub shuts
    /// down.
    pub(crate) async fn wait<T>(
        &self,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Problem> {
        self.wait_mapping_refusal(operation, |refused| refused).await
    }

    /// Like [`Call::wait`], for a call that takes effect before it waits: `amend` states this in the error that
    /// ends the wait.
    pub(crate) async fn wait_mapping_refusal<T>(
        &self,
        operation: impl Future<Output = Result<T, Error>>,
        amend: impl Fn(Refused) -> Refused,
    ) -> Result<T, Problem> {
        let shutdown = async {
            match &self.connection {
                Some(connection) => connection.drain_deadline().await,
                None => std::future::pending().await,
            }
        };
        let revoked = async {
            while self.credential.is_valid() {
                self.activity.note();
                tokio::time::sleep(self.durations().token_check).await;
            }
        };
        // The future is dropped in the middle of the wait if the client closes its connection.
        let connection = self.activity.open_connection();
        let outcome = tokio::select! {
            biased;
            done = operation => done.map_err(Problem::from),
            () = revoked => {
                Err(amend(unauthenticated("the access token expired or was revoked during the call")).into())
            }
            () = shutdown => Err(amend(
                Refused::new(Code::Unavailable, "the hub is shutting down; the wait was cancelled")
                    .hint("retry when the hub is back"),
            )
            .into()),
        };
        connection.answered();
        outcome
    }

    /// Returns the context for parsing the request.
    pub(crate) fn parse_context(&self) -> ParseContext<'_> {
        let defaults = self.durations().defaults();
        ParseContext {
            body: &self.body,
            agent: self.calling_agent(),
            defaults,
            seal: &self.space,
            secrets: None,
        }
    }

    /// Parses the query string.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let invalid = |error: axum::extract::rejection::QueryRejection| {
            let text = error.body_text();
            let detail = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            // The message may start with the path of the field.
            let detail = match detail.split_once(": ") {
                Some((path, message)) if !path.contains(' ') => {
                    format!("{path}: {}", describe_json_error(message))
                }
                _ => describe_json_error(detail),
            };
            Refused::new(Code::Invalid, detail).hint("GET /v1/openapi.json lists every parameter")
        };
        Query::try_from_uri(&self.uri).map(|Query(query)| query).map_err(invalid)
    }

    /// Resolves the position of an as-of read: a sequence number, or the newest record at a time.
    pub(crate) async fn as_of(&self, at: Option<&str>, time: Option<&str>) -> Result<Option<Seq>, Error> {
        let position = match (at, time) {
            (None, None) => return Ok(None),
            (Some(at), None) => {
                at.parse().map_or_else(|_| time::parse("at", at).map(Err), |seq| Ok(Ok(Seq(seq))))?
            }
            (None, Some(text)) => Err(time::parse("time", text)?),
            (Some(_), Some(_)) => {
                return Err(Refused::new(Code::Invalid, "at and time cannot be combined")
                    .hint("send only one of them")
                    .into());
            }
        };
        let head = self.space.published().head.seq;
        let seq = match position {
            Ok(seq) => seq,
            Err(time) => self.space.seq_at(time).await?.unwrap_or(Seq(0)),
        };
        if seq.0 == 0 || seq > head {
            return Err(Refused::new(Code::NotFound, "no record exists at that position")
                .hint(format!("the first record is 1, the newest is {head}"))
                .into());
        }
        Ok(Some(seq))
    }

    /// Commits operations as the caller.
    pub(crate) async fn commit(&self, mut ops: Vec<Op>) -> Result<Receipt, Error> {
        observe::propagate_traces(&self.app, &self.space, &mut ops, self.trace).await;
        self.space.commit(self.new_commit(ops)).await
    }

    /// Builds a commit with the caller's principal, epoch and idempotency key.
    pub(crate) fn new_commit(&self, ops: Vec<Op>) -> Commit {
        match &self.key {
            Some(key) => self.unkeyed_commit(ops).keyed(key.clone()),
            None => self.unkeyed_commit(ops),
        }
    }

    /// Like [`Self::new_commit`], for the retry of a request with this number, starting at 1: it has a key of its own, so
    /// that a repeated call makes the same attempts.
    pub(crate) fn retry_commit(&self, ops: Vec<Op>, retries: u32) -> Commit {
        let key = self.key.clone().filter(|_| retries == 0).or_else(|| {
            let key = self.key.as_ref()?;
            IdempotencyKey::new(format!("{key}.retry{retries}")).ok()
        });
        match key {
            Some(key) => self.unkeyed_commit(ops).keyed(key),
            // The key is too long for a suffix.
            None => self.unkeyed_commit(ops),
        }
    }

    /// Like [`Self::new_commit`], without the idempotency key.
    pub(crate) fn unkeyed_commit(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit::new(self.principal.clone(), ops);
        Commit { epoch: self.epoch, token: self.agent_token, ..commit }
    }

    /// Like [`Self::commit`], for operations derived from current state: the idempotency key covers the request (path
    /// and body) instead of the operations.
    pub(crate) async fn commit_for_request(&self, mut ops: Vec<Op>) -> Result<Receipt, Error> {
        observe::propagate_traces(&self.app, &self.space, &mut ops, self.trace).await;
        self.space.commit(self.request_commit(ops)).await
    }

    /// Returns the receipt of an earlier call with the same idempotency key. Check it before reading current state.
    pub(crate) async fn replayed_receipt(&self) -> Result<Option<Receipt>, Error> {
        match &self.key {
            Some(_) => self.space.stored_receipt(self.request_commit(Vec::new())).await,
            None => Ok(None),
        }
    }

    fn request_commit(&self, ops: Vec<Op>) -> Commit {
        let commit = self.unkeyed_commit(ops);
        match &self.key {
            Some(key) => commit.keyed_for(key.clone(), &[self.uri.path().as_bytes(), &self.body]),
            None => commit,
        }
    }

    /// Returns the agent to act for: the named one, by default the caller. Principals that are not agents must name
    /// one.
    pub(crate) fn acting_agent(&self, named: Option<AgentId>) -> Result<AgentId, Refused> {
        match (named, self.calling_agent()) {
            (Some(named), _) => Ok(named),
            (None, Some(caller)) => Ok(caller.clone()),
            (None, None) => {
                Err(Refused::new(Code::Invalid, "agent is missing").hint("set agent to the agent to act for"))
            }
        }
    }

    /// Handles a message that could not be parsed. A conduct flag is raised from the raw JSON: an invalid field must
    /// neither prevent it nor disclose it.
    pub(crate) async fn raise_flag_or_refuse(&self, json: &Bytes, refused: Refused) -> Result<(), Problem> {
        if self.space.raise_if_marked(&self.principal, self.key.as_ref(), json).await? {
            return Ok(());
        }
        Err(self.make_private_if_flag(json, refused).into())
    }

    /// Marks the error as private if the unparsed request was meant for moderators, so that it is not recorded
    /// anywhere.
    pub(crate) fn make_private_if_flag(&self, json: &[u8], refused: Refused) -> Refused {
        if !is_marked_private(json) {
            return refused;
        }
        refused.hint("send a conduct flag on its own: with POST /v1/flags, or as a single message").private()
    }

    /// Returns the result of each operation.
    pub(crate) fn results(&self, receipt: &Receipt) -> Vec<OperationResult> {
        let generations = &self.space.published().generations;
        receipt.results.iter().map(|result| OperationResult::new(generations, result)).collect()
    }
}

/// Returns a JSON response with the given status.
pub(crate) fn json_response(status: StatusCode, value: &impl Serialize) -> ApiResult {
    let json = to_json(value)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// An unpaginated list under its field name. Serialized directly, because a round trip through [`serde_json::Value`]
/// would not preserve payload bytes.
pub(crate) struct NamedList<T> {
    pub(crate) name: &'static str,
    pub(crate) items: Vec<T>,
}

impl<T: Serialize> Serialize for NamedList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.name, &self.items)?;
        map.end()
    }
}

/// Returns one page of a list under its field name, with the cursor of the next page. Each item comes with the cursor
/// after it: the page ends early with the item that reaches [`PAGE_BYTES_MAX`]; otherwise the cursor is `rest`.
pub(crate) fn page_response<T: Serialize>(
    name: &'static str,
    items: impl IntoIterator<Item = (String, T)>,
    rest: Option<String>,
) -> ApiResult {
    let mut json = format!("{{\"{name}\":[");
    let mut cursor = rest;
    let mut items = items.into_iter().peekable();
    while let Some((after, item)) = items.next() {
        json.push_str(&to_json(&item)?);
        if items.peek().is_none() {
            break;
        }
        if json.len() >= PAGE_BYTES_MAX {
            cursor = Some(after);
            break;
        }
        json.push(',');
    }
    json.push_str(&format!("],\"cursor\":{}}}", to_json(&cursor)?));
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Converts the summary of an operation to a verb phrase: `List flags.` to `list flags`.
fn verb_phrase(summary: &str) -> String {
    // The order of a list is not part of the phrase.
    let sentence = summary.split(". ").next().unwrap_or(summary).trim_end_matches('.');
    let sentence = sentence.trim_end_matches(", oldest first").trim_end_matches(", newest first");
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn to_json(value: &impl Serialize) -> Result<String, Problem> {
    // Only a bug in one of our own Serialize types can cause this. The change of the call may be committed already.
    serde_json::to_string(value)
        .map_err(|error| Problem::unknown_outcome(format!("failed to serialize the response: {error}")))
}

/// Returns a JSON response with status 200.
pub(crate) fn ok_response(value: &impl Serialize) -> ApiResult {
    json_response(StatusCode::OK, value)
}
