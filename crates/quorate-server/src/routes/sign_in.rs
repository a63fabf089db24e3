//! Sign-in to the web UI: a principal gets a code with its token, and the web UI exchanges the code for a token of
//! its own. No cookies: the web UI stores its token and sends it like any client.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use quorate_api::sign_in::{SignIn, SignInCode, SignedIn};
use quorate_api::token::RevokedToken;
use quorate_core::{Bearer, Code, Commit, CreateToken, Grants, Op, OpResult, Permission, Principal, Refused};

use crate::api::{Route, post};
use crate::app::App;
use crate::body;
use crate::call::{ApiResult, Authenticated, Call, json_response, ok_response};
use crate::listen::Connection;
use crate::problem::Problem;
use crate::settings::whole_ms;
use crate::sign_in_codes::CodeOwner;
use crate::unauthenticated::UNAUTHENTICATED_BYTES_MAX;

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
        post("/v1/sign-out", "signIn.end", "Sign out: revoke the access token of this web session.")
            .requires(Permission::Inspect)
            .without_key("The token is revoked by the first call, so that a repeated one is unauthenticated.")
            .returns::<RevokedToken>(200, "The token was revoked.")
            .handled_by(sign_out),
    ]
}

/// Creates a code for the caller.
pub(crate) async fn create_code(call: Call) -> ApiResult {
    if call.credential.token()?.parent.is_some() {
        return Err(Refused::new(Code::Forbidden, "a web session cannot create sign-in codes")
            .hint("use the access token that you signed in with")
            .into());
    }
    let now = call.app.engine().clock().now();
    let authenticated = Authenticated {
        space: call.space.clone(),
        token_space: call.token_space,
        principal: call.principal.clone(),
        bearer: call.bearer.clone(),
        agent_token: call.agent_token,
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
    let connection = connection.map(|Extension(connection)| connection);
    let peer = connection.as_ref().map(|connection| connection.peer());
    let now = app.engine().clock().now();
    // Checked before the code: an address that has failed too often must not continue to guess.
    peer.map_or(Ok(()), |peer| app.rates().check_failures(peer, now.mono))?;
    let (head, body) = request.into_parts();
    let timeout = app.settings().timeouts.body;
    let bytes = body::read_limited(&head.headers, body, UNAUTHENTICATED_BYTES_MAX, timeout).await?;
    let SignIn { code } = body::parse(&bytes)?;
    let owner = app.sign_in_codes().redeem(&code, now.mono);
    // The token may have been revoked or have expired since it created the code.
    let owner = owner.and_then(|owner| Some((owner.credential.token().ok()?, owner)));
    let Some((parent, owner)) = owner else {
        peer.map_or(Ok(()), |peer| app.rates().count_failure(peer, now.mono))?;
        return Err(Refused::new(
            Code::Unauthenticated,
            "invalid sign-in code: it is wrong, used or expired",
        )
        .hint("request a new code, and use it within a minute")
        .into());
    };
    connection.inspect(Connection::authenticated);
    let Principal::Holder { role, name } = owner.principal().clone() else {
        return Err(Refused::new(Code::Forbidden, "agents cannot sign in to the web UI")
            .hint("use a code created with a token that is not an agent's")
            .into());
    };
    let end = now.wall.plus_ms(whole_ms(app.settings().durations.web_session));
    // Never longer than the token it was created with.
    let expires_at = parent.expires_at.map_or(end, |token_expires_at| token_expires_at.min(end));
    let token_space = owner.credential.token_space();
    let secret = token_space.generate_secret();
    let create_token = CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Holder(role),
        name: name.clone(),
        expires_at: Some(expires_at),
        parent: Some(parent.id),
        grants: Grants::default(),
    };
    // Committed by the hub itself; the new token grants no more than the token that created the code.
    let commit = Commit::new(Principal::System, vec![Op::CreateToken(create_token)]);
    let receipt = token_space.commit(commit).await?;
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

/// Ends the web session of the caller.
pub(crate) async fn sign_out(call: Call) -> ApiResult {
    let token = call.credential.token()?;
    if token.parent.is_none() {
        return Err(Refused::new(Code::Conflict, "the access token does not belong to a web session")
            .hint("an admin can revoke any token with DELETE /v1/tokens/{id}")
            .into());
    }
    // Committed by the hub itself: a principal may end its web session without the permission to revoke tokens.
    let commit = Commit::new(Principal::System, vec![Op::RevokeToken { token: token.id }]);
    let receipt = call.credential.token_space().commit(commit).await?;
    ok_response(&RevokedToken { id: token.id, seq: receipt.seq })
}
