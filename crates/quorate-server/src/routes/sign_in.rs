//! Sign-in to the web UI: a principal gets a code with its token, and the web UI exchanges the code for a token of
//! its own. No cookies: the web UI stores its token and sends it like any client.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use quorate_api::sign_in::{SignIn, SignInCode, SignedIn};
use quorate_core::{
    AccessToken, Bearer, Code, Commit, CreateToken, Op, OpResult, Permission, Principal, Refused, TokenName,
};
use quorate_engine::Space;

use crate::api::{Route, post};
use crate::app::App;
use crate::body;
use crate::call::{ApiResult, Authenticated, Call, json_response};
use crate::listen::Connection;
use crate::problem::Problem;
use crate::settings::whole_ms;
use crate::sign_in_codes::CodeOwner;

/// Maximum number of web sessions of one principal; a new one ends the oldest.
pub(crate) const WEB_SESSIONS_PER_PRINCIPAL_MAX: usize = 32;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        // For people only: requires a permission that agents do not have.
        post(
            "/v1/sign-in-codes",
            "signIn.code",
            "Create a sign-in code for the web UI. It can be used once.",
        )
        .requires(Permission::Inspect)
        .returns::<SignInCode>(201, "The code.")
        .handled_by(create_code),
        post(
            "/v1/sign-in",
            "signIn.use",
            "Exchange a sign-in code for a temporary access token of the same principal.",
        )
        .public()
        .request_body::<SignIn>()
        .without_key(
            "The caller has no token yet that a key could belong to, and a code can be used only once.",
        )
        .returns::<SignedIn>(201, "The access token. It is returned only once.")
        .handled_by(sign_in),
    ]
}

/// Creates a code for the caller.
pub(crate) async fn create_code(call: Call) -> ApiResult {
    let now = call.app.engine().clock().now();
    let authenticated = Authenticated {
        space: call.space.clone(),
        token_space: call.token_space,
        principal: call.principal.clone(),
        bearer: call.bearer.clone(),
    };
    let owner = CodeOwner { authenticated, credential: call.credential.clone(), key: call.key.clone() };
    let bits = call.app.engine().random_16();
    let code_expires_at = now.plus(call.durations().sign_in_code);
    let (code, expires_at) = call.app.sign_in_codes().add(bits, owner, now.mono, code_expires_at)?;
    json_response(StatusCode::CREATED, &SignInCode { code, expires_at })
}

/// Exchanges a code for a temporary token of the same principal with the same role.
pub(crate) async fn sign_in(
    State(app): State<App>,
    connection: Option<Extension<Connection>>,
    request: Request,
) -> ApiResult {
    let peer = connection.map(|Extension(connection)| connection.peer);
    let now = app.engine().clock().now();
    // Checked before the code: an address that has failed too often must not continue to guess.
    peer.map_or(Ok(()), |peer| app.rates().check_failures(peer, now.mono))?;
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, app.settings().timeouts.body).await?;
    let SignIn { code } = body::parse(&bytes)?;
    let owner = app.sign_in_codes().redeem(&code, now.mono).filter(|owner| owner.credential.is_valid());
    let Some(owner) = owner else {
        peer.map_or(Ok(()), |peer| app.rates().count_failure(peer, now.mono))?;
        return Err(Refused::new(
            Code::Unauthenticated,
            "invalid sign-in code: it is wrong, used or expired",
        )
        .hint("request a new code, and use it within a minute")
        .into());
    };
    let Principal::Holder { role, name } = owner.principal().clone() else {
        return Err(Refused::new(Code::Forbidden, "agents cannot sign in to the web UI")
            .hint("use a code created with a token that is not an agent's")
            .into());
    };
    let end = now.wall.plus_ms(whole_ms(app.settings().durations.web_session));
    // Never longer than the token it was created with.
    let expires_at = owner.credential.expires_at().map_or(end, |token_expires_at| token_expires_at.min(end));
    let token_space = owner.credential.token_space();
    let secret = token_space.generate_secret();
    let bearer = Bearer::Holder(role);
    let mut ops: Vec<_> = revoke_oldest_sessions(token_space, &bearer, &name);
    let digest = secret.digest();
    let create_token = CreateToken { digest, bearer, name: name.clone(), expires_at: Some(expires_at) };
    ops.push(Op::CreateToken(create_token));
    // Committed by the hub itself; the new token grants no more than the token that created the code.
    let receipt = token_space.commit(Commit::new(Principal::System, ops)).await?;
    let Some(OpResult::TokenCreated { id, .. }) = receipt.results.last() else {
        return Err(Problem::unknown_outcome("the token creation returned no result"));
    };
    let response = SignedIn {
        id: id.to_string(),
        token: secret.reveal().to_owned(),
        role: role.as_str().into(),
        name: name.as_str().to_owned(),
        expires_at,
    };
    json_response(StatusCode::CREATED, &response)
}

/// Whether a token belongs to a web session: created by the hub itself, with an expiry.
pub(crate) fn is_web_session(token: &AccessToken) -> bool {
    token.expires_at.is_some() && token.created_by == Principal::System.to_text()
}

/// Returns the tokens of a principal's web sessions, oldest first. They have the name and role of the token they were
/// created with.
pub(crate) fn web_sessions_of(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Arc<AccessToken>> {
    let is_own =
        |token: &Arc<AccessToken>| is_web_session(token) && token.bearer == *bearer && token.name == *name;
    space.tokens().list().into_iter().filter(is_own).collect()
}

/// Revokes the oldest web sessions to make room for one more.
fn revoke_oldest_sessions(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Op> {
    let sessions = web_sessions_of(space, bearer, name);
    let excess = (sessions.len() + 1).saturating_sub(WEB_SESSIONS_PER_PRINCIPAL_MAX);
    sessions.iter().take(excess).map(|session| Op::RevokeToken { token: session.id }).collect()
}
