//! A call: who asks, in which space, and what was sent with it. The one way from a request to the engine.

use std::net::IpAddr;

use axum::extract::{FromRequest, FromRequestParts as _, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use quorate_api::Reading;
use quorate_api::result::OperationResult;
use quorate_core::limits::{NUMBER_MAX, PAGE_BYTES_MAX};
use quorate_core::{
    AgentId, AgentNo, Bearer, Code, Commit, Epoch, Found, IdempotencyKey, Op, Principal, Receipt, Refused,
    Secret, Seq, SpaceName, SpaceNo, Timestamp, TokenDigest, TokenRole, TraceContext, misread,
};
use quorate_engine::{Error, Space, is_marked_private};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::api::{Asked, Who};
use crate::app::{App, DEFAULT_SPACE};
use crate::body;
use crate::deliberations;
use crate::listen::Life;
use crate::observe;
use crate::problem::Problem;
use crate::settings::Times;
use crate::wire::time;

/// Which start of an agent acts.
const EPOCH: &str = "quorate-epoch";
/// Under which key a call may be repeated.
const KEY: &str = "idempotency-key";
/// In which space an admin acts.
const SPACE: &str = "quorate-space";

/// A call by somebody who is known.
pub(crate) struct Call {
    pub(crate) app: App,
    pub(crate) space: Space,
    /// The space of the token. Admins of the hub may act in others.
    pub(crate) home: SpaceNo,
    pub(crate) principal: Principal,
    pub(crate) bearer: Bearer,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) uri: Uri,
    pub(crate) body: Bytes,
    /// For what goes on after the answer has begun.
    pub(crate) pass: Pass,
    /// The connection, if there is one.
    life: Option<Life>,
    /// The span that led to the request, if it says so.
    pub(crate) trace: Option<TraceContext>,
}

/// An answer.
pub(crate) type Answer = Result<Response, Problem>;

impl FromRequest<App> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        // Who asks comes first: nobody else learns anything, not even that a request was too large.
        let life = head.extensions.get::<Life>().cloned();
        let (known, pass) = known(app, &head.headers)
            .map_err(|refused| counted(app, life.as_ref().map(|life| life.peer), refused))?;
        let Known { space, home, principal, bearer } = known;
        app.rates().call(home, &principal, app.engine().clock().now().mono)?;
        if let Some(who) = head.extensions.get::<observe::Caller>() {
            who.is(space.number(), &principal);
        }
        // What is no trace context is as good as none, says the standard.
        let trace = head.headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
        // Then whether it may at all, before anything of what it sent is read.
        if let Some(asked) = head.extensions.get::<Asked>().copied() {
            if let Who::Holders(deed) = asked.who {
                principal.check_deed(deed, &format!("call {}", asked.id))?;
            }
            if let (true, Some(by)) = (asked.itself, bearer.agent()) {
                check_itself(by, asked.id, &mut head).await?;
            }
            check_query(asked, &head.uri)?;
        }
        let epoch = text_of(&head.headers, EPOCH)?.map(|text| {
            let wrong = || {
                Refused::new(Code::Invalid, format!("{EPOCH}: {text:?} is no epoch"))
                    .hint("send the number that registering answered, or leave the header out")
            };
            let number = text.parse().ok().filter(|number| *number <= NUMBER_MAX);
            number.map(Epoch).ok_or_else(wrong)
        });
        let key = text_of(&head.headers, KEY)?.map(IdempotencyKey::new).transpose()?;
        let body = body::read(&head.headers, body, app.settings().patience.body).await?;
        Ok(Self {
            app: app.clone(),
            space,
            home,
            principal,
            bearer,
            epoch: epoch.transpose()?,
            key,
            uri: head.uri,
            body,
            pass,
            life,
            trace,
        })
    }
}

/// Refuses parameters of a call that has none: whoever sends one means something by it.
fn check_query(asked: Asked, uri: &Uri) -> Result<(), Refused> {
    match uri.query() {
        Some(query) if !asked.has_query && !query.is_empty() => {
            let name = query.split(['=', '&']).next().unwrap_or_default();
            Err(Refused::new(Code::Invalid, format!("{} has no parameter {name:?}", asked.id)).hint(
                "leave out what stands behind the question mark; GET /v1/openapi.json has every parameter",
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses an agent that names another one in the path.
async fn check_itself(by: &AgentId, call: &str, head: &mut Parts) -> Result<(), Refused> {
    let named = RawPathParams::from_request_parts(head, &()).await.ok();
    let named = named.as_ref().and_then(|all| all.iter().find(|(name, _)| *name == "id"));
    match named {
        Some((_, id)) if id != by.as_str() => {
            Err(Refused::new(Code::Forbidden, format!("agent {by} may not call {call} for {id}"))
                .hint("an agent acts for itself; for others this needs a token of role operator or admin"))
        }
        _ => Ok(()),
    }
}

/// Somebody who is known.
pub(crate) struct Known {
    pub(crate) space: Space,
    pub(crate) home: SpaceNo,
    pub(crate) principal: Principal,
    pub(crate) bearer: Bearer,
}

/// What the hub remembers of a token that keeps a connection open.
#[derive(Clone)]
pub(crate) struct Pass {
    home: Space,
    digest: TokenDigest,
}

impl Pass {
    /// The space of the token.
    pub(crate) fn home(&self) -> &Space {
        &self.home
    }

    /// When the token ends, if it does.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let now = self.home.engine().clock().now().wall;
        match self.home.published().tokens.find(&self.digest, now) {
            Found::Active(token) => token.expires_at,
            Found::Expired(_) | Found::Unknown => Some(now),
        }
    }

    /// Whether the token still lets its bearer in.
    pub(crate) fn is_good(&self) -> bool {
        let now = self.home.engine().clock().now().wall;
        matches!(self.home.published().tokens.find(&self.digest, now), Found::Active(_))
    }
}

/// Counts somebody who is not known at the address that it comes from. Whoever is known is not held up by that.
pub(crate) fn counted(app: &App, peer: Option<IpAddr>, refused: Refused) -> Refused {
    let Some(peer) = peer.filter(|_| refused.code == Code::Unauthenticated) else { return refused };
    let now = app.engine().clock().now().mono;
    app.rates().failed(peer, now).err().unwrap_or(refused)
}

fn unknown(detail: &str) -> Refused {
    Refused::new(Code::Unauthenticated, detail)
        .hint("send Authorization: Bearer TOKEN with a token of this hub")
}

/// Who holds the token of a request.
pub(crate) fn known(app: &App, headers: &HeaderMap) -> Result<(Known, Pass), Refused> {
    let bearer = text_of(headers, header::AUTHORIZATION.as_str())?
        .ok_or_else(|| unknown("the request bears no token"))?;
    let (scheme, secret) = bearer.split_once(' ').unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unknown("the request bears no token"));
    }
    bearer_of(app, secret, text_of(headers, SPACE)?.as_deref())
}

/// Who holds a token. An admin of the hub may name another space.
pub(crate) fn bearer_of(app: &App, secret: &str, wanted: Option<&str>) -> Result<(Known, Pass), Refused> {
    let digest = secret.trim().parse::<Secret>().map_err(|wrong| unknown(&wrong.to_string()))?.digest();
    let now = app.engine().clock().now().wall;
    let found = app.spaces().iter().find_map(|(name, space)| {
        let published = space.published();
        match published.tokens.find(&digest, now) {
            Found::Active(token) => {
                Some(Ok((name.clone(), space.clone(), token.principal(), token.bearer.clone())))
            }
            Found::Expired(_) => Some(Err(unknown("the token has expired"))),
            Found::Unknown => None,
        }
    });
    let unfound = || unknown("the token is not known here; it may have been revoked or have expired");
    let (name, home, principal, bearer) = found.ok_or_else(unfound)??;
    let space = match wanted {
        Some(other) if other != name.as_str() => other_space(app, &name, &bearer, other)?,
        _ => home.clone(),
    };
    let known = Known { space, home: home.number(), principal, bearer };
    Ok((known, Pass { home, digest }))
}

/// Admins of the first space are admins of the hub. For anybody else there is no other space than its own.
fn other_space(app: &App, own: &SpaceName, bearer: &Bearer, name: &str) -> Result<Space, Refused> {
    let found = SpaceName::new(name).ok().and_then(|name| app.space(&name));
    let may = *bearer == Bearer::Holder(TokenRole::Admin) && own.as_str() == DEFAULT_SPACE;
    found.filter(|_| may).ok_or_else(|| {
        // Whatever somebody sent by mistake is not told: it may be a token.
        Refused::new(Code::NotFound, "there is no space of the name that Quorate-Space has").hint(
            "leave the header Quorate-Space out: a token is good in its own space, \
             and an admin of the hub in those of GET /v1/spaces",
        )
    })
}

fn text_of(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refused> {
    let text = headers.get(name).map(|value| value.to_str().map(str::to_owned));
    text.transpose().map_err(|_| {
        Refused::new(Code::Invalid, format!("the header {name} is no plain text"))
            .hint("letters, digits and signs of ASCII only")
    })
}

impl Call {
    /// The connection, if there is one.
    pub(crate) fn life(&self) -> Option<&Life> {
        self.life.as_ref()
    }

    /// The agent that acts, if it is one.
    pub(crate) fn by(&self) -> Option<&AgentId> {
        self.bearer.agent()
    }

    /// Whether the caller sees what belongs to an agent: agents see what is their own, everybody else sees all.
    pub(crate) fn sees(&self, owner: Option<AgentNo>) -> bool {
        let Some(by) = self.by() else { return true };
        let published = self.space.published();
        owner.and_then(|owner| published.agents.get(owner)).is_some_and(|agent| agent.id == *by)
    }

    /// The space of this name, if whoever asks may act there.
    pub(crate) fn space_named(&self, name: &str) -> Result<Space, Refused> {
        let own = self
            .app
            .spaces()
            .iter()
            .find(|(_, space)| space.number() == self.home)
            .map(|(name, _)| name.clone());
        match own {
            Some(own) if own.as_str() == name => Ok(self.pass.home().clone()),
            Some(own) => other_space(&self.app, &own, &self.bearer, name),
            None => Err(unknown("the space of the token is gone")),
        }
    }

    /// An agent looks at what is its own; whoever runs or watches the hub, at everybody's.
    pub(crate) fn own_or_all(&self, agent: AgentId) -> Result<AgentId, Refused> {
        match self.by() {
            Some(by) if *by != agent => {
                Err(Refused::new(Code::Forbidden, format!("{by} may not look at what {agent} sends or gets"))
                    .hint("ask for your own, or with a token of role viewer, operator or admin"))
            }
            _ => Ok(agent),
        }
    }

    /// What holds for those who name no time.
    pub(crate) fn times(&self) -> &Times {
        &self.app.settings().times
    }

    /// Waits for something that may take long: for as long as the token is good, and until the hub stops.
    ///
    /// # Errors
    /// Whatever comes of it; `UNAUTHENTICATED` when the token is good no more, `UNAVAILABLE` when the hub stops.
    pub(crate) async fn waiting<T>(
        &self,
        what: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Problem> {
        self.waiting_with(what, |refused| refused).await
    }

    /// As [`Call::waiting`], for a call that has done something before it waits: what ends the wait must say so.
    pub(crate) async fn waiting_with<T>(
        &self,
        what: impl Future<Output = Result<T, Error>>,
        saying: impl Fn(Refused) -> Refused,
    ) -> Result<T, Problem> {
        let mut life = self.life.clone();
        let stops = async {
            match &mut life {
                Some(life) => life.must_let_go().await,
                None => std::future::pending().await,
            }
        };
        let revoked = async {
            while self.pass.is_good() {
                tokio::time::sleep(self.times().look).await;
            }
        };
        tokio::select! {
            biased;
            done = what => done.map_err(Problem::from),
            () = revoked => {
                Err(saying(unknown("the token was revoked, or has expired, while the call waited")).into())
            }
            () = stops => Err(saying(
                Refused::new(Code::Unavailable, "the hub stops, and the call only waited")
                    .hint("call again when the hub is back"),
            )
            .into()),
        }
    }

    /// What reading the request needs.
    pub(crate) fn reading(&self) -> Reading<'_> {
        let defaults = self.times().defaults();
        Reading { body: &self.body, agent: self.by(), defaults, seal: &self.space, secrets: None }
    }

    /// What stands behind the question mark.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let wrong = |error: axum::extract::rejection::QueryRejection| {
            let text = error.body_text();
            let said = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            // With a path in front, or without.
            let said = match said.split_once(": ") {
                Some((path, what)) if !path.contains(' ') => format!("{path}: {}", misread(what)),
                _ => misread(said),
            };
            Refused::new(Code::Invalid, said).hint("see GET /v1/openapi.json for every parameter")
        };
        Query::try_from_uri(&self.uri).map(|Query(query)| query).map_err(wrong)
    }

    /// The record after which something is asked for: by its number, or as the newest one at a time.
    pub(crate) async fn past(&self, at: Option<&str>, time: Option<&str>) -> Result<Option<Seq>, Error> {
        let when = match (at, time) {
            (None, None) => return Ok(None),
            (Some(at), None) => {
                at.parse().map_or_else(|_| time::read("at", at).map(Err), |seq| Ok(Ok(Seq(seq))))?
            }
            (None, Some(text)) => Err(time::read("time", text)?),
            (Some(_), Some(_)) => {
                return Err(Refused::new(Code::Invalid, "at and time exclude each other")
                    .hint("keep one of them")
                    .into());
            }
        };
        let head = self.space.published().head.seq;
        let seq = match when {
            Ok(seq) => seq,
            Err(time) => self.space.seq_at(time).await?.unwrap_or(Seq(0)),
        };
        if seq.0 == 0 || seq > head {
            return Err(Refused::new(Code::NotFound, "there is no record then")
                .hint(format!("the first one is 1, the newest one is {head}"))
                .into());
        }
        Ok(Some(seq))
    }

    /// Commits in the name of whoever asks.
    pub(crate) async fn commit(&self, mut ops: Vec<Op>) -> Result<Receipt, Error> {
        observe::continued(&self.app, &self.space, &mut ops, self.trace).await;
        deliberations::driven(&self.app, &self.space, &mut ops).await?;
        self.space.commit(self.as_commit(ops)).await
    }

    /// The commit of whoever asks, with its epoch and key.
    pub(crate) fn as_commit(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), ops) };
        match &self.key {
            Some(key) => commit.keyed(key.clone()),
            None => commit,
        }
    }

    /// Like [`Self::commit`], for operations that follow from what is there: the key is for what was asked.
    pub(crate) async fn commit_asked(&self, mut ops: Vec<Op>) -> Result<Receipt, Error> {
        observe::continued(&self.app, &self.space, &mut ops, self.trace).await;
        self.space.commit(self.as_asked(ops)).await
    }

    /// What the same call under the same key was answered before. To be looked at before what is there.
    pub(crate) async fn answered(&self) -> Result<Option<Receipt>, Error> {
        match &self.key {
            Some(_) => self.space.answered(self.as_asked(Vec::new())).await,
            None => Ok(None),
        }
    }

    fn as_asked(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), ops) };
        match &self.key {
            Some(key) => commit.keyed_for(key.clone(), &[self.uri.path().as_bytes(), &self.body]),
            None => commit,
        }
    }

    /// The agent for which something is done: whoever asks, or the one that somebody names who is no agent.
    pub(crate) fn acting(&self, named: Option<AgentId>) -> Result<AgentId, Refused> {
        match (named, self.by()) {
            (Some(named), _) => Ok(named),
            (None, Some(by)) => Ok(by.clone()),
            (None, None) => Err(Refused::new(Code::Invalid, "agent is missing").hint("say for which agent")),
        }
    }

    /// A message that could not be read as one. If it is a conduct flag it is raised as it is: no field is a reason to
    /// turn it away, or to tell others of it.
    pub(crate) async fn unread(&self, json: &Bytes, refused: Refused) -> Result<(), Problem> {
        if self.space.raise_if_marked(&self.principal, self.key.as_ref(), json).await? {
            return Ok(());
        }
        Err(self.hushed(json, refused).into())
    }

    /// A refusal of what could not be read. What is for moderators only leaves no trace.
    pub(crate) fn hushed(&self, json: &[u8], refused: Refused) -> Refused {
        if !is_marked_private(json) {
            return refused;
        }
        refused.hint("a conduct flag is raised by itself: with POST /v1/flags, or as one message").private()
    }

    /// What each operation came to.
    pub(crate) fn results(&self, receipt: &Receipt) -> Vec<OperationResult> {
        let eras = &self.space.published().eras;
        receipt.results.iter().map(|one| OperationResult::new(eras, one)).collect()
    }
}

/// JSON with a status.
pub(crate) fn answer(status: StatusCode, value: &impl Serialize) -> Answer {
    let json = written(value)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// A list under its name, all of it. Written as it is: by way of [`Value`] payloads would not stay as they came.
pub(crate) struct Listed<T> {
    pub(crate) name: &'static str,
    pub(crate) items: Vec<T>,
}

impl<T: Serialize> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.name, &self.items)?;
        map.end()
    }
}

/// A page of a list under its name, and where the list goes on. Each item comes with the cursor after it: a page ends with
/// the item that brings it to [`PAGE_BYTES_MAX`], whatever is left; else the list goes on at `rest`, if it does.
pub(crate) fn page<T: Serialize>(
    name: &'static str,
    items: impl IntoIterator<Item = (String, T)>,
    rest: Option<String>,
) -> Answer {
    let mut json = format!("{{\"{name}\":[");
    let mut cursor = rest;
    let mut items = items.into_iter().peekable();
    while let Some((after, item)) = items.next() {
        json.push_str(&written(&item)?);
        if items.peek().is_none() {
            break;
        }
        if json.len() >= PAGE_BYTES_MAX {
            cursor = Some(after);
            break;
        }
        json.push(',');
    }
    json.push_str(&format!("],\"cursor\":{}}}", written(&cursor)?));
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn written(value: &impl Serialize) -> Result<String, Refused> {
    serde_json::to_string(value).map_err(|error| {
        // Only a type of our own that is no JSON could do that.
        Refused::new(Code::Unavailable, format!("the answer could not be written: {error}"))
    })
}

/// JSON, and all is well.
pub(crate) fn ok(value: &impl Serialize) -> Answer {
    answer(StatusCode::OK, value)
}
