//! What admins do: tokens, spaces. And what the rules of a space refused.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    AccessToken, AgentId, Bearer, Code, CreateToken, Op, OpResult, Refused, SpaceName, TokenId, TokenName,
    TokenRole,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::sign_in::{is_page, pages_of};
use crate::app::DEFAULT_SPACE;
use crate::body;
use crate::call::{Answer, Call, answer, ok};
use crate::wire::time;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenIn {
    role: String,
    agent: Option<String>,
    name: String,
    expires_at: Option<String>,
}

/// Makes a token and shows it, this once.
pub(crate) async fn create_token(call: Call) -> Answer {
    call.only(&[])?;
    let asked: TokenIn = body::parse(&call.body)?;
    let secret = call.space.draw_secret();
    let create = CreateToken {
        digest: secret.digest(),
        bearer: Bearer::new(&asked.role, asked.agent.map(AgentId::new).transpose()?)?,
        name: TokenName::new(asked.name)?,
        expires_at: asked.expires_at.map(|text| time::read("expiresAt", &text)).transpose()?,
    };
    let digest = create.digest;
    let receipt = call.commit(vec![Op::CreateToken(create)]).await?;
    match receipt.results.first() {
        // Asked again under the same key: the first secret is good, and only the first answer had it.
        Some(OpResult::TokenCreated { digest: good, .. }) if *good != digest => {
            Err(Refused::new(Code::Conflict, "the token was made before, and is shown only once")
                .hint("revoke it, and make another one")
                .into())
        }
        Some(OpResult::TokenCreated { id, .. }) => {
            answer(StatusCode::CREATED, &json!({"id": id.to_string(), "token": secret.reveal()}))
        }
        _ => Err(Refused::new(Code::Unavailable, "the token was not answered").into()),
    }
}

pub(crate) async fn list_tokens(call: Call) -> Answer {
    call.only(&[])?;
    let published = call.space.published();
    let shown: Vec<Value> = published.tokens.list().iter().map(|token| token_shown(token)).collect();
    ok(&json!({"tokens": shown}))
}

fn token_shown(token: &AccessToken) -> Value {
    json!({
        "id": token.id.to_string(),
        "name": token.name.as_str(),
        "role": token.bearer.role(),
        "agent": token.bearer.agent().map(ToString::to_string),
        "expiresAt": token.expires_at.map(time::shown),
        "createdAt": time::shown(token.created_at),
        "createdBy": token.created_by,
    })
}

pub(crate) async fn revoke_token(Path(id): Path<String>, call: Call) -> Answer {
    call.only(&[])?;
    let token: TokenId = id.parse()?;
    let mut ops = vec![Op::RevokeToken { token }];
    // With it go the pages that its bearer is signed in to.
    if let Some(whole) = call.space.tokens().list().iter().find(|one| one.id == token && !is_page(one)) {
        let pages = pages_of(&call.space, &whole.bearer, &whole.name);
        ops.extend(pages.iter().map(|page| Op::RevokeToken { token: page.id }));
    }
    let receipt = call.commit(ops).await?;
    ok(&json!({"id": id, "seq": receipt.seq.map(|seq| seq.0)}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceIn {
    name: String,
}

/// Admins of the first space are admins of the hub.
fn of_the_hub(call: &Call) -> Result<(), Refused> {
    call.only(&[])?;
    let first = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    match first.is_some_and(|first| first.number() == call.home) {
        true => Ok(()),
        false => Err(Refused::new(Code::Forbidden, "spaces are made by the admins of the hub")),
    }
}

pub(crate) async fn create_space(call: Call) -> Answer {
    of_the_hub(&call)?;
    let name = SpaceName::new(body::parse::<SpaceIn>(&call.body)?.name)?;
    let is_new = call.app.space(&name).is_none();
    call.app.make_space(name.clone()).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &json!({"name": name.as_str()}))
}

pub(crate) async fn list_spaces(call: Call) -> Answer {
    of_the_hub(&call)?;
    let spaces = call.app.spaces();
    let shown = spaces
        .iter()
        .map(|(name, space)| json!({"name": name.as_str(), "seq": space.published().head.seq.0}));
    ok(&json!({"spaces": shown.collect::<Vec<_>>()}))
}

/// What the rules of the space refused, newest last: which rule, who, where, never what it was.
pub(crate) async fn violations(call: Call) -> Answer {
    call.only(&[TokenRole::Operator, TokenRole::Moderator])?;
    let shown = call.space.violations().into_iter().map(|one| {
        json!({"rule": one.rule, "principal": one.principal, "place": one.place, "code": one.code.as_str(), "at": time::shown(one.at)})
    });
    ok(&json!({"violations": shown.collect::<Vec<_>>()}))
}
