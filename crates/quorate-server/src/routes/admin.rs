//! Administration: access tokens, spaces, and policy violations.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::policy::Violation;
use quorate_api::token::{CreatedToken, NewSpace, NewToken, RevokedToken, Space, Token};
use quorate_core::{AccessToken, Code, Deed, Op, OpResult, Refused, SpaceName, TokenId};

use super::sign_in::{is_page, pages_of};
use super::{Listing, Page, checked_limit, number_in};
use crate::api::{Route, delete, get, post, schema};
use crate::app::DEFAULT_SPACE;
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tokens", "tokens.create", "Create an access token. Its secret is returned only once.")
            .is(Deed::Rule)
            .body::<NewToken>()
            .answers::<CreatedToken>(201, "The created token.")
            .to(create_token),
        get(
            "/v1/tokens",
            "tokens.list",
            "List the valid access tokens of the space, newest first. Secrets are never returned.",
        )
        .is(Deed::Rule)
        .query::<Listing>()
        .lists::<Token>("tokens")
        .bulk(list_tokens),
        get("/v1/tokens/{id}", "tokens.get", "Get an access token. Its secret is never returned.")
            .is(Deed::Rule)
            .path::<schema::TokenId>("id")
            .answers::<Token>(200, "The token.")
            .to(show_token),
        delete(
            "/v1/tokens/{id}",
            "tokens.revoke",
            "Revoke an access token and the web sessions that were signed in with it.",
        )
        .is(Deed::Rule)
        .path::<schema::TokenId>("id")
        .answers::<RevokedToken>(200, "The token is revoked.")
        .to(revoke_token),
        post("/v1/spaces", "spaces.create", "Create a space. Requires an admin of the default space.")
            .is(Deed::Rule)
            .body::<NewSpace>()
            .answers::<NewSpace>(200, "The space already exists.")
            .answers::<NewSpace>(201, "The space was created.")
            .to(create_space),
        get("/v1/spaces", "spaces.list", "List spaces by name. Requires an admin of the default space.")
            .is(Deed::Rule)
            .query::<Page>()
            .lists::<Space>("spaces")
            .bulk(list_spaces),
        get("/v1/spaces/{name}", "spaces.get", "Get a space. Requires an admin of the default space.")
            .is(Deed::Rule)
            .path::<schema::Id>("name")
            .answers::<Space>(200, "The space.")
            .to(show_space),
        get("/v1/violations", "violations.list", "List recent policy violations of the space, oldest first.")
            .is(Deed::Review)
            .query::<Page>()
            .lists::<Violation>("violations")
            .bulk(violations),
    ]
}

/// Creates a token. The secret is returned only once.
pub(crate) async fn create_token(mut call: Call) -> Answer {
    let secret = call.space.draw_secret();
    let query: NewToken = body::parse(&call.body)?;
    if let Some(name) = query.space.as_deref() {
        call.space = call.space_named(name)?;
    }
    let create = query.read(&secret)?;
    let digest = create.digest;
    let receipt = call.commit(vec![Op::CreateToken(create)]).await?;
    match receipt.results.first() {
        // On a replay with the same idempotency key the first secret is valid, and only the first response contained
        // it.
        Some(OpResult::TokenCreated { id, digest: stored }) => {
            let token = (*stored == digest).then(|| secret.reveal().to_owned());
            answer(StatusCode::CREATED, &CreatedToken { id: *id, token })
        }
        _ => Err(Refused::new(Code::Unavailable, "the token creation returned no result").into()),
    }
}

pub(crate) async fn list_tokens(call: Call) -> Answer {
    let all = |_: &Arc<AccessToken>| true;
    super::list(&call, "tokens", call.query()?, all, |token| Token::from(&**token)).await
}

pub(crate) async fn show_token(Path(id): Path<String>, call: Call) -> Answer {
    let token: Arc<AccessToken> = call.space.item(&id.parse()?).await?;
    ok(&Token::from(&*token))
}

pub(crate) async fn revoke_token(Path(id): Path<String>, call: Call) -> Answer {
    let token: TokenId = id.parse()?;
    let receipt = match call.answered().await? {
        Some(receipt) => receipt,
        None => call.commit_asked(revoke_ops(&call, token)).await?,
    };
    ok(&RevokedToken { id: token, seq: receipt.seq })
}

fn revoke_ops(call: &Call, token: TokenId) -> Vec<Op> {
    let mut ops = vec![Op::RevokeToken { token }];
    // Also revokes the web sessions of its bearer.
    if let Some(whole) = call.space.tokens().list().iter().find(|one| one.id == token && !is_page(one)) {
        let pages = pages_of(&call.space, &whole.bearer, &whole.name);
        ops.extend(pages.iter().map(|page| Op::RevokeToken { token: page.id }));
    }
    ops
}

/// Admins of the default space are hub admins.
fn check_hub_admin(call: &Call) -> Result<(), Refused> {
    let first = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    match first.is_some_and(|first| first.number() == call.home) {
        true => Ok(()),
        false => Err(Refused::new(Code::Forbidden, "only hub admins can manage spaces")
            .hint("use a token with role admin of the default space")),
    }
}

pub(crate) async fn create_space(call: Call) -> Answer {
    check_hub_admin(&call)?;
    let NewSpace { name } = body::parse(&call.body)?;
    // Refuses a key that was used for another call in the caller's space.
    call.answered().await?;
    let is_new = call.app.new_space(&call.principal, call.key.clone(), &name).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &NewSpace { name })
}

pub(crate) async fn list_spaces(call: Call) -> Answer {
    check_hub_admin(&call)?;
    let query: Page = call.query()?;
    let limit = checked_limit(query.limit)?;
    let spaces = call.app.spaces();
    let cursor = query.cursor.map(SpaceName::new).transpose()?;
    let after = |name: &SpaceName| cursor.as_ref().is_none_or(|cursor| name > cursor);
    let items: Vec<_> = { spaces.iter() }
        .filter(|(name, _)| after(name))
        .take(limit)
        .map(|(name, space)| {
            let item = Space { name: name.clone(), seq: space.published().head.seq };
            (name.to_string(), item)
        })
        .collect();
    let cursor = items.last().filter(|_| items.len() == limit).map(|(last, _)| last.clone());
    page("spaces", items, cursor)
}

pub(crate) async fn show_space(Path(name): Path<String>, call: Call) -> Answer {
    check_hub_admin(&call)?;
    let name = SpaceName::new(name)?;
    match call.app.space(&name) {
        Some(space) => ok(&Space { name, seq: space.published().head.seq }),
        None => Err(Refused::new(Code::NotFound, format!("there is no space {name}"))
            .hint("create it with POST /v1/spaces, or list spaces with GET /v1/spaces")
            .into()),
    }
}

/// Lists policy violations, newest last: rule, principal and field path, never the content.
pub(crate) async fn violations(call: Call) -> Answer {
    let query: Page = call.query()?;
    let limit = checked_limit(query.limit)?;
    let found = call.space.violations_after(number_in(query.cursor.as_deref())?, limit);
    let cursor = found.last().filter(|_| found.len() == limit).map(|(last, _)| last.to_string());
    let items = found.into_iter().map(|(number, one)| {
        let item = Violation {
            rule: one.rule.to_string(),
            principal: one.principal,
            place: one.place,
            code: one.code.as_str().to_owned(),
            at: one.at,
        };
        (number.to_string(), item)
    });
    page("violations", items, cursor)
}
