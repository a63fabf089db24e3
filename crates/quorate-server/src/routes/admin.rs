//! What admins do: tokens, spaces. And what the rules of a space refused.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::policy::Violation;
use quorate_api::token::{CreatedToken, NewSpace, NewToken, RevokedToken, Space, Token};
use quorate_core::{AccessToken, Code, Deed, Op, OpResult, Refused, SpaceName, TokenId};

use super::sign_in::{is_page, pages_of};
use super::{Listing, Page, checked_limit, number_in};
use crate::api::{Route, delete, get, post, words};
use crate::app::DEFAULT_SPACE;
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tokens", "tokens.create", "Makes a token and shows it, this once.")
            .is(Deed::Rule)
            .body::<NewToken>()
            .answers::<CreatedToken>(201, "The token.")
            .to(create_token),
        get(
            "/v1/tokens",
            "tokens.list",
            "List the valid tokens of the space, newest first; never their secrets.",
        )
        .is(Deed::Rule)
        .query::<Listing>()
        .lists::<Token>("tokens")
        .bulk(list_tokens),
        get("/v1/tokens/{id}", "tokens.get", "One token; never its secret.")
            .is(Deed::Rule)
            .path::<words::TokenId>("id")
            .answers::<Token>(200, "The token.")
            .to(show_token),
        delete(
            "/v1/tokens/{id}",
            "tokens.revoke",
            "Lets nobody in with it any more, nor with the pages it was signed in to.",
        )
        .is(Deed::Rule)
        .path::<words::TokenId>("id")
        .answers::<RevokedToken>(200, "It is revoked.")
        .to(revoke_token),
        post("/v1/spaces", "spaces.create", "Makes a space. For admins of the first one.")
            .is(Deed::Rule)
            .body::<NewSpace>()
            .answers::<NewSpace>(200, "It was there.")
            .answers::<NewSpace>(201, "It is made.")
            .to(create_space),
        get("/v1/spaces", "spaces.list", "List spaces, by name. For admins of the first one.")
            .is(Deed::Rule)
            .query::<Page>()
            .lists::<Space>("spaces")
            .bulk(list_spaces),
        get("/v1/spaces/{name}", "spaces.get", "One space. For admins of the first one.")
            .is(Deed::Rule)
            .path::<words::Id>("name")
            .answers::<Space>(200, "The space.")
            .to(show_space),
        get(
            "/v1/violations",
            "violations.list",
            "List what the rules of the space refused lately, oldest first.",
        )
        .is(Deed::Review)
        .query::<Page>()
        .lists::<Violation>("violations")
        .bulk(violations),
    ]
}

/// Makes a token and shows it, this once.
pub(crate) async fn create_token(mut call: Call) -> Answer {
    let secret = call.space.draw_secret();
    let asked: NewToken = body::parse(&call.body)?;
    if let Some(name) = asked.space.as_deref() {
        call.space = call.space_named(name)?;
    }
    let create = asked.read(&secret)?;
    let digest = create.digest;
    let receipt = call.commit(vec![Op::CreateToken(create)]).await?;
    match receipt.results.first() {
        // Asked again under the same key: the first secret is good, and only the first answer had it.
        Some(OpResult::TokenCreated { id, digest: good }) => {
            let token = (*good == digest).then(|| secret.reveal().to_owned());
            answer(StatusCode::CREATED, &CreatedToken { id: *id, token })
        }
        _ => Err(Refused::new(Code::Unavailable, "the token was not answered").into()),
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
        None => call.commit_asked(revoking(&call, token)).await?,
    };
    ok(&RevokedToken { id: token, seq: receipt.seq })
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
    let NewSpace { name } = body::parse(&call.body)?;
    // A key of the space from which it is made; what was committed under it there is something else.
    call.answered().await?;
    let is_new = call.app.new_space(&call.principal, call.key.clone(), &name).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &NewSpace { name })
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
            let shown = Space { name: name.clone(), seq: space.published().head.seq };
            (name.to_string(), shown)
        })
        .collect();
    let cursor = items.last().filter(|_| items.len() == limit).map(|(last, _)| last.clone());
    page("spaces", items, cursor)
}

pub(crate) async fn show_space(Path(name): Path<String>, call: Call) -> Answer {
    of_the_hub(&call)?;
    let name = SpaceName::new(name)?;
    match call.app.space(&name) {
        Some(space) => ok(&Space { name, seq: space.published().head.seq }),
        None => Err(Refused::new(Code::NotFound, format!("there is no space {name}"))
            .hint("make it first, or look at the list of spaces")
            .into()),
    }
}

/// What the rules of the space refused, newest last: which rule, who, where, never what it was.
pub(crate) async fn violations(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let found = call.space.violations_after(number_in(asked.cursor.as_deref())?, limit);
    let cursor = found.last().filter(|_| found.len() == limit).map(|(last, _)| last.to_string());
    let items = found.into_iter().map(|(number, one)| {
        let shown = Violation {
            rule: one.rule.to_string(),
            principal: one.principal,
            place: one.place,
            code: one.code.as_str().to_owned(),
            at: one.at,
        };
        (number.to_string(), shown)
    });
    page("violations", items, cursor)
}
