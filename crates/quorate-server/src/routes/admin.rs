//! What admins do: tokens, spaces. And what the rules of a space refused.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AccessToken, AgentId, Bearer, Code, CreateToken, Deed, Op, OpResult, Refused, Secret, SpaceName, TokenId,
    TokenName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sign_in::{is_page, pages_of};
use super::{Page, checked_limit, number_in};
use crate::api::{Route, delete, get, post, words};
use crate::app::DEFAULT_SPACE;
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tokens", "tokens.create", "Makes a token and shows it, this once.")
            .is(Deed::Rule)
            .body::<TokenIn>()
            .answers::<TokenMadeOut>(201, "The token.")
            .to(create_token),
        get(
            "/v1/tokens",
            "tokens.list",
            "The tokens of the space that let somebody in, by age; never the secrets.",
        )
        .is(Deed::Rule)
        .query::<Page>()
        .lists::<TokenOut>("tokens")
        .bulk(list_tokens),
        get("/v1/tokens/{id}", "tokens.get", "One token; never its secret.")
            .is(Deed::Rule)
            .path::<words::TokenId>("id")
            .answers::<TokenOut>(200, "The token.")
            .to(show_token),
        delete(
            "/v1/tokens/{id}",
            "tokens.revoke",
            "Lets nobody in with it any more, nor with the pages it was signed in to.",
        )
        .is(Deed::Rule)
        .path::<words::TokenId>("id")
        .answers::<RevokedOut>(200, "It is revoked.")
        .to(revoke_token),
        post("/v1/spaces", "spaces.create", "Makes a space. For admins of the first one.")
            .is(Deed::Rule)
            .body::<SpaceIn>()
            .answers::<SpaceMadeOut>(200, "It was there.")
            .answers::<SpaceMadeOut>(201, "It is made.")
            .to(create_space),
        get("/v1/spaces", "spaces.list", "The spaces, by name. For admins of the first one.")
            .is(Deed::Rule)
            .query::<Page>()
            .lists::<SpaceOut>("spaces")
            .bulk(list_spaces),
        get("/v1/spaces/{name}", "spaces.get", "One space. For admins of the first one.")
            .is(Deed::Rule)
            .path::<words::Id>("name")
            .answers::<SpaceOut>(200, "The space.")
            .to(show_space),
        get("/v1/violations", "violations.list", "What the rules of the space refused lately, newest last.")
            .is(Deed::Review)
            .query::<Page>()
            .lists::<ViolationOut>("violations")
            .bulk(violations),
    ]
}

/// A token as somebody asks for it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewToken")]
pub(crate) struct TokenIn {
    #[schemars(with = "words::TokenRoleWord")]
    role: String,
    /// For the role agent: which one.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// What people call it; it stands in the log. The agent or the role, if nothing is said.
    #[schemars(with = "Option<words::TokenWord>")]
    name: Option<String>,
    /// In which space it is good; an admin of the hub may name another than its own.
    #[schemars(with = "Option<words::Id>")]
    space: Option<String>,
    #[schemars(with = "Option<words::Time>")]
    expires_at: Option<String>,
}

impl TokenIn {
    /// The space that it names.
    pub(crate) fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }

    pub(crate) fn read(self, secret: &Secret) -> Result<CreateToken, Refused> {
        let name = self.name.or_else(|| self.agent.clone()).unwrap_or_else(|| self.role.clone());
        Ok(CreateToken {
            digest: secret.digest(),
            bearer: Bearer::new(&self.role, self.agent.map(AgentId::new).transpose()?)?,
            name: TokenName::new(name)?,
            expires_at: self.expires_at.map(|text| time::read("expiresAt", &text)).transpose()?,
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TokenMade")]
struct TokenMadeOut {
    id: String,
    /// The secret. Shown once: the hub keeps its digest only, so a repeated call has `null` here.
    token: Option<String>,
}

/// Makes a token and shows it, this once.
pub(crate) async fn create_token(mut call: Call) -> Answer {
    let secret = call.space.draw_secret();
    let asked: TokenIn = body::parse(&call.body)?;
    if let Some(name) = asked.space() {
        call.space = call.space_named(name)?;
    }
    let create = asked.read(&secret)?;
    let digest = create.digest;
    let receipt = call.commit(vec![Op::CreateToken(create)]).await?;
    match receipt.results.first() {
        // Asked again under the same key: the first secret is good, and only the first answer had it.
        Some(OpResult::TokenCreated { id, digest: good }) => {
            let token = (*good == digest).then(|| secret.reveal().to_owned());
            answer(StatusCode::CREATED, &TokenMadeOut { id: id.to_string(), token })
        }
        _ => Err(Refused::new(Code::Unavailable, "the token was not answered").into()),
    }
}

pub(crate) async fn list_tokens(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(|text| text.parse::<TokenId>()).transpose()?;
    let published = call.space.published();
    let mut tokens = published.tokens.list();
    tokens.sort_by_key(|token| token.id);
    let items: Vec<_> = { tokens.iter() }
        .filter(|token| after.is_none_or(|after| token.id > after))
        .take(limit)
        .map(|token| (token.id.to_string(), TokenOut::new(token)))
        .collect();
    let cursor = items.last().filter(|_| items.len() == limit).map(|(last, _)| last.clone());
    page("tokens", items, cursor)
}

pub(crate) async fn show_token(Path(id): Path<String>, call: Call) -> Answer {
    let wanted: TokenId = id.parse()?;
    let published = call.space.published();
    match published.tokens.list().into_iter().find(|token| token.id == wanted) {
        Some(token) => ok(&TokenOut::new(&token)),
        None => Err(Refused::new(Code::NotFound, format!("there is no token {wanted}"))
            .hint("the list of tokens shows those that are good; one that was revoked or has expired is gone")
            .into()),
    }
}

/// A token, without its secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Token")]
struct TokenOut {
    id: String,
    name: String,
    #[schemars(with = "words::TokenRoleWord")]
    role: &'static str,
    agent: Option<String>,
    #[schemars(with = "Option<words::Time>")]
    expires_at: Option<String>,
    #[schemars(with = "words::Time")]
    created_at: String,
    created_by: String,
}

impl TokenOut {
    fn new(token: &AccessToken) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name.as_str().to_owned(),
            role: token.bearer.role(),
            agent: token.bearer.agent().map(ToString::to_string),
            expires_at: token.expires_at.map(time::shown),
            created_at: time::shown(token.created_at),
            created_by: token.created_by.clone(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TokenRevoked")]
struct RevokedOut {
    id: String,
    seq: Option<u64>,
}

pub(crate) async fn revoke_token(Path(id): Path<String>, call: Call) -> Answer {
    let token: TokenId = id.parse()?;
    let receipt = match call.answered().await? {
        Some(receipt) => receipt,
        None => call.commit_asked(revoking(&call, token)).await?,
    };
    ok(&RevokedOut { id, seq: receipt.seq.map(|seq| seq.0) })
}

fn revoking(call: &Call, token: TokenId) -> Vec<Op> {
    let mut ops = vec![Op::RevokeToken { token }];
    // With it go the pages that its bearer is signed in to.
    if let Some(whole) = call.space.tokens().list().iter().find(|one| one.id == token && !is_page(one)) {
        let pages = pages_of(&call.space, &whole.bearer, &whole.name);
        ops.extend(pages.iter().map(|page| Op::RevokeToken { token: page.id }));
    }
    ops
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSpace")]
struct SpaceIn {
    #[schemars(with = "words::Id")]
    name: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SpaceMade")]
struct SpaceMadeOut {
    name: String,
}

/// A space and its newest record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Space")]
struct SpaceOut {
    name: String,
    seq: u64,
}

/// Admins of the first space are admins of the hub.
fn of_the_hub(call: &Call) -> Result<(), Refused> {
    let first = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    match first.is_some_and(|first| first.number() == call.home) {
        true => Ok(()),
        false => Err(Refused::new(Code::Forbidden, "spaces are for the admins of the hub")
            .hint("use a token of the role admin of the first space")),
    }
}

pub(crate) async fn create_space(call: Call) -> Answer {
    of_the_hub(&call)?;
    let name = SpaceName::new(body::parse::<SpaceIn>(&call.body)?.name)?;
    // A key of the space from which it is made; what was committed under it there is something else.
    call.answered().await?;
    let is_new = call.app.new_space(&call.principal, call.key.clone(), &name).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &SpaceMadeOut { name: name.as_str().to_owned() })
}

pub(crate) async fn list_spaces(call: Call) -> Answer {
    of_the_hub(&call)?;
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let spaces = call.app.spaces();
    let cursor = asked.cursor.map(SpaceName::new).transpose()?;
    let after = |name: &SpaceName| cursor.as_ref().is_none_or(|cursor| name > cursor);
    let items: Vec<_> = { spaces.iter() }
        .filter(|(name, _)| after(name))
        .take(limit)
        .map(|(name, space)| {
            let shown = SpaceOut { name: name.to_string(), seq: space.published().head.seq.0 };
            (name.to_string(), shown)
        })
        .collect();
    let cursor = items.last().filter(|_| items.len() == limit).map(|(last, _)| last.clone());
    page("spaces", items, cursor)
}

pub(crate) async fn show_space(Path(name): Path<String>, call: Call) -> Answer {
    of_the_hub(&call)?;
    match call.app.space(&SpaceName::new(&name)?) {
        Some(space) => ok(&SpaceOut { name, seq: space.published().head.seq.0 }),
        None => Err(Refused::new(Code::NotFound, format!("there is no space {name}"))
            .hint("make it first, or look at the list of spaces")
            .into()),
    }
}

/// Something that a rule refused.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Violation")]
struct ViolationOut {
    rule: String,
    principal: String,
    /// Where in what was sent.
    place: String,
    code: &'static str,
    #[schemars(with = "words::Time")]
    at: String,
}

/// What the rules of the space refused, newest last: which rule, who, where, never what it was.
pub(crate) async fn violations(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let found = call.space.violations_after(number_in(asked.cursor.as_deref())?, limit);
    let cursor = found.last().filter(|_| found.len() == limit).map(|(last, _)| last.to_string());
    let items = found.into_iter().map(|(number, one)| {
        let shown = ViolationOut {
            rule: one.rule.to_string(),
            principal: one.principal,
            place: one.place,
            code: one.code.as_str(),
            at: time::shown(one.at),
        };
        (number.to_string(), shown)
    });
    page("violations", items, cursor)
}
