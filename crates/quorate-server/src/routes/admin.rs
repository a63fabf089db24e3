//! Administration: access tokens, spaces, and policy violations.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::page::{CursorQuery, ListQuery};
use quorate_api::policy::Violation;
use quorate_api::token::{CreatedToken, NewSpace, NewToken, RevokedToken, Space, Token};
use quorate_core::{AccessToken, Code, Op, OpResult, Permission, Refused, SpaceName, TokenId};

use super::{check_limit, numeric_cursor};
use crate::api::{Route, delete, get, post, schema};
use crate::app::DEFAULT_SPACE;
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response, page_response};
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/tokens", "tokens.create", "Create an access token. Its secret is returned only once.")
            .requires(Permission::Administer)
            .request_body::<NewToken>()
            .returns::<CreatedToken>(201, "The created token.")
            .handled_by(create_token),
        get(
            "/v1/tokens",
            "tokens.list",
            "List the valid access tokens of the space, newest first. Secrets are never returned.",
        )
        .requires(Permission::Administer)
        .query_parameters::<ListQuery>()
        .returns_page::<Token>("tokens")
        .handled_in_bulk_by(list_tokens),
        get("/v1/tokens/{id}", "tokens.get", "Get an access token. Its secret is never returned.")
            .requires(Permission::Administer)
            .path_parameter::<schema::TokenId>("id", "Access token ID.")
            .returns::<Token>(200, "The token.")
            .handled_by(show_token),
        delete(
            "/v1/tokens/{id}",
            "tokens.revoke",
            "Revoke an access token and the web sessions that were signed in with it.",
        )
        .requires(Permission::Administer)
        .path_parameter::<schema::TokenId>("id", "Access token ID.")
        .returns::<RevokedToken>(200, "The token is revoked.")
        .handled_by(revoke_token),
        post("/v1/spaces", "spaces.create", "Create a space. Requires an admin of the default space.")
            .requires(Permission::Administer)
            .request_body::<NewSpace>()
            .returns::<NewSpace>(200, "The space already exists.")
            .returns::<NewSpace>(201, "The space was created.")
            .handled_by(create_space),
        get("/v1/spaces", "spaces.list", "List spaces by name. Requires an admin of the default space.")
            .requires(Permission::Administer)
            .query_parameters::<CursorQuery>()
            .returns_page::<Space>("spaces")
            .handled_in_bulk_by(list_spaces),
        get("/v1/spaces/{name}", "spaces.get", "Get a space. Requires an admin of the default space.")
            .requires(Permission::Administer)
            .path_parameter::<schema::Id>("name", "Name of the space.")
            .returns::<Space>(200, "The space.")
            .handled_by(show_space),
        get(
            "/v1/violations",
            "violations.list",
            "List recent policy violations, refused loops and broken deadlocks, oldest first.",
        )
        .requires(Permission::Review)
        .query_parameters::<CursorQuery>()
        .returns_page::<Violation>("violations")
        .handled_in_bulk_by(violations),
    ]
}

/// Creates a token. The secret is returned only once.
pub(crate) async fn create_token(mut call: Call) -> ApiResult {
    let secret = call.space.generate_secret();
    let request: NewToken = body::parse(&call.body)?;
    if let Some(name) = request.space.as_deref() {
        call.space = call.space_named(name)?;
    }
    let create = request.into_core(&secret)?;
    let digest = create.digest;
    let receipt = call.commit(vec![Op::CreateToken(create)]).await?;
    match receipt.results.first() {
        // On a replay with the same idempotency key the first secret is valid, and only the first response contained
        // it.
        Some(OpResult::TokenCreated { id, digest: stored }) => {
            let token = (*stored == digest).then(|| secret.reveal().to_owned());
            json_response(StatusCode::CREATED, &CreatedToken { id: *id, token })
        }
        _ => Err(Problem::unknown_outcome("the token creation returned no result")),
    }
}

pub(crate) async fn list_tokens(call: Call) -> ApiResult {
    let all = |_: &Arc<AccessToken>| true;
    super::list(&call, "tokens", call.query()?, all, |token| Token::from(&**token)).await
}

pub(crate) async fn show_token(Path(id): Path<String>, call: Call) -> ApiResult {
    let token: Arc<AccessToken> = call.space.item(&id.parse()?).await?;
    ok_response(&Token::from(&*token))
}

pub(crate) async fn revoke_token(Path(id): Path<String>, call: Call) -> ApiResult {
    let token: TokenId = id.parse()?;
    let receipt = match call.replayed_receipt().await? {
        Some(receipt) => receipt,
        None => call.commit_for_request(vec![Op::RevokeToken { token }]).await?,
    };
    ok_response(&RevokedToken { id: token, seq: receipt.seq })
}

/// Admins of the default space are hub admins.
fn check_hub_admin(call: &Call) -> Result<(), Refused> {
    let default_space = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    match default_space.is_some_and(|default_space| default_space.number() == call.token_space) {
        true => Ok(()),
        false => Err(Refused::new(Code::Forbidden, "only hub admins can manage spaces")
            .hint("use a token with role admin of the default space")),
    }
}

pub(crate) async fn create_space(call: Call) -> ApiResult {
    check_hub_admin(&call)?;
    let NewSpace { name } = body::parse(&call.body)?;
    // Refuses a key that was used for another call in the caller's space.
    call.replayed_receipt().await?;
    let is_new = call.app.create_space(&call.principal, call.key.clone(), &name).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    json_response(status, &NewSpace { name })
}

pub(crate) async fn list_spaces(call: Call) -> ApiResult {
    check_hub_admin(&call)?;
    let query: CursorQuery = call.query()?;
    let limit = check_limit(query.limit)?;
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
    page_response("spaces", items, cursor)
}

pub(crate) async fn show_space(Path(name): Path<String>, call: Call) -> ApiResult {
    check_hub_admin(&call)?;
    let name = SpaceName::new(name)?;
    match call.app.space(&name) {
        Some(space) => ok_response(&Space { name, seq: space.published().head.seq }),
        None => Err(Refused::new(Code::NotFound, format!("there is no space {name}"))
            .hint("create it with POST /v1/spaces, or list spaces with GET /v1/spaces")
            .into()),
    }
}

/// Lists policy violations, newest last: rule, principal and field path, never the content.
pub(crate) async fn violations(call: Call) -> ApiResult {
    let query: CursorQuery = call.query()?;
    let limit = check_limit(query.limit)?;
    let found = call.space.violations_after(numeric_cursor(query.cursor.as_deref())?, limit);
    let cursor = found.last().filter(|_| found.len() == limit).map(|(last, _)| last.to_string());
    let items =
        found.into_iter().map(|(number, violation)| (number.to_string(), Violation::from(&violation)));
    page_response("violations", items, cursor)
}
