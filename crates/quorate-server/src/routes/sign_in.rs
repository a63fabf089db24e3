//! Sign-in to the web UI: a principal gets a code with its token, and the web UI exchanges the code for a token of
//! its own. No cookies: the web UI stores its token and sends it like any client.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use quorate_core::{
    AccessToken, Bearer, Code, Commit, CreateToken, Deed, Op, OpResult, Principal, Refused, TokenName,
};
use quorate_engine::Space;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Route, post, schema};
use crate::app::App;
use crate::body;
use crate::call::{Answer, Call, Known, answer};
use crate::listen::Life;
use crate::settings::whole_ms;
use crate::sign_in::Whose;
use crate::wire::time;

/// Maximum number of web sessions of one principal; a new one ends the oldest.
pub(crate) const PAGES_PER_PERSON_MAX: usize = 32;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        // For people only: requires a permission that agents do not have.
        post(
            "/v1/sign-in-codes",
            "signIn.code",
            "Create a sign-in code for the web UI. It can be used once.",
        )
        .is(Deed::Look)
        .answers::<CodeOut>(201, "The code.")
        .to(make_code),
        post(
            "/v1/sign-in",
            "signIn.use",
            "Exchange a sign-in code for a temporary access token of the same principal.",
        )
        .open()
        .body::<CodeIn>()
        .without_key(
            "The caller has no token yet that a key could belong to, and a code can be used only once.",
        )
        .answers::<SignedInOut>(201, "The access token. It is returned only once.")
        .to(sign_in),
    ]
}

/// A sign-in code.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInCode")]
struct CodeOut {
    code: String,
    #[schemars(with = "schema::Time")]
    expires_at: String,
}

/// Creates a code for the caller.
pub(crate) async fn make_code(call: Call) -> Answer {
    let now = call.app.engine().clock().now();
    let known = Known {
        space: call.space.clone(),
        home: call.home,
        principal: call.principal.clone(),
        bearer: call.bearer.clone(),
    };
    let whose = Whose { known, pass: call.pass.clone(), key: call.key.clone() };
    let bits = call.app.engine().draw_sixteen();
    let until = now.plus(call.times().sign_in_code);
    let (code, expires_at) = call.app.codes().add(bits, whose, now.mono, until)?;
    answer(StatusCode::CREATED, &CodeOut { code, expires_at: time::shown(expires_at) })
}

/// A sign-in code as typed by a person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignIn")]
struct CodeIn {
    /// Upper or lower case, with or without hyphens.
    code: String,
}

/// Access token and principal of a web session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignedIn")]
struct SignedInOut {
    id: String,
    /// The secret. Returned only once.
    token: String,
    #[schemars(with = "schema::TokenRoleWord")]
    role: &'static str,
    #[schemars(with = "schema::TokenWord")]
    name: String,
    #[schemars(with = "schema::Time")]
    expires_at: String,
}

/// Exchanges a code for a temporary token of the same principal with the same role.
pub(crate) async fn sign_in(
    State(app): State<App>,
    life: Option<Extension<Life>>,
    request: Request,
) -> Answer {
    let peer = life.map(|Extension(life)| life.peer);
    let now = app.engine().clock().now();
    // Checked before the code: an address that has failed too often must not continue to guess.
    peer.map_or(Ok(()), |peer| app.rates().may_fail(peer, now.mono))?;
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, app.settings().patience.body).await?;
    let CodeIn { code } = body::parse(&bytes)?;
    let whose = app.codes().take(&code, now.mono).filter(|whose| whose.pass.is_good());
    let Some(whose) = whose else {
        peer.map_or(Ok(()), |peer| app.rates().failed(peer, now.mono))?;
        return Err(Refused::new(
            Code::Unauthenticated,
            "invalid sign-in code: it is wrong, used or expired",
        )
        .hint("request a new code, and use it within a minute")
        .into());
    };
    let Principal::Holder { role, name } = whose.principal().clone() else {
        return Err(Refused::new(Code::Forbidden, "agents cannot sign in to the web UI")
            .hint("use a code created with a token that is not an agent's")
            .into());
    };
    let end = now.wall.plus_ms(whole_ms(app.settings().times.page_token));
    // Never longer than the token it was created with.
    let expires_at = whose.pass.expires_at().map_or(end, |own| own.min(end));
    let home = whose.pass.home();
    let secret = home.draw_secret();
    let bearer = Bearer::Holder(role);
    let mut ops: Vec<_> = revoke_oldest_sessions(home, &bearer, &name);
    let digest = secret.digest();
    let new = CreateToken { digest, bearer, name: name.clone(), expires_at: Some(expires_at) };
    ops.push(Op::CreateToken(new));
    // Committed by the hub itself; the new token grants no more than the token that created the code.
    let receipt = home.commit(Commit::new(Principal::System, ops)).await?;
    let Some(OpResult::TokenCreated { id, .. }) = receipt.results.last() else {
        return Err(Refused::new(Code::Unavailable, "the token creation returned no result").into());
    };
    let response = SignedInOut {
        id: id.to_string(),
        token: secret.reveal().to_owned(),
        role: role.as_str(),
        name: name.as_str().to_owned(),
        expires_at: time::shown(expires_at),
    };
    answer(StatusCode::CREATED, &response)
}

/// Whether a token belongs to a web session: created by the hub itself, with an expiry.
pub(crate) fn is_page(token: &AccessToken) -> bool {
    token.expires_at.is_some() && token.created_by == Principal::System.to_text()
}

/// Returns the tokens of a principal's web sessions, oldest first. They have the name and role of the token they were
/// created with.
pub(crate) fn pages_of(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Arc<AccessToken>> {
    let whose = |token: &Arc<AccessToken>| is_page(token) && token.bearer == *bearer && token.name == *name;
    space.tokens().list().into_iter().filter(whose).collect()
}

/// Revokes the oldest web sessions to make room for one more.
fn revoke_oldest_sessions(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Op> {
    let pages = pages_of(space, bearer, name);
    let excess = (pages.len() + 1).saturating_sub(PAGES_PER_PERSON_MAX);
    pages.iter().take(excess).map(|page| Op::RevokeToken { token: page.id }).collect()
}
