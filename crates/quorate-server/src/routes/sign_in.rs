//! Signing in to a page: a code for whoever holds a token, and a token for whoever shows the code. No cookies: the page
//! keeps its token and sends it like everybody else.

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

use crate::api::{Route, post, words};
use crate::app::App;
use crate::body;
use crate::call::{Answer, Call, Known, answer};
use crate::listen::Life;
use crate::settings::whole_ms;
use crate::sign_in::Whose;
use crate::wire::time;

/// Pages that one person is signed in to; one more ends the oldest.
pub(crate) const PAGES_PER_PERSON_MAX: usize = 32;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        // For people: whoever may look, and no agent.
        post(
            "/v1/sign-in-codes",
            "signIn.code",
            "Makes a code with which a page gets a token of its own, once.",
        )
        .is(Deed::Look)
        .answers::<CodeOut>(201, "The code.")
        .to(make_code),
        post("/v1/sign-in", "signIn.use", "Turns a code into a token of the same person, for a while.")
            .open()
            .body::<CodeIn>()
            .without_key("There is no token yet whose key it could be; a code is good once.")
            .answers::<SignedInOut>(201, "The token; shown this once.")
            .to(sign_in),
    ]
}

/// A code, shown once.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInCode")]
struct CodeOut {
    code: String,
    #[schemars(with = "words::Time")]
    expires_at: String,
}

/// Makes a code for whoever asks.
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

/// A code, as somebody types it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignIn")]
struct CodeIn {
    /// In capitals or not, with hyphens or without.
    code: String,
}

/// Who signed in, and the token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignedIn")]
struct SignedInOut {
    id: String,
    /// The secret. Shown this once.
    token: String,
    #[schemars(with = "words::TokenRoleWord")]
    role: &'static str,
    #[schemars(with = "words::TokenWord")]
    name: String,
    #[schemars(with = "words::Time")]
    expires_at: String,
}

/// Turns a code into a token of the same person with the same role, good for a while.
pub(crate) async fn sign_in(
    State(app): State<App>,
    life: Option<Extension<Life>>,
    request: Request,
) -> Answer {
    let peer = life.map(|Extension(life)| life.peer);
    let now = app.engine().clock().now();
    // Before the code is looked at: an address that has failed too often may not go on guessing.
    peer.map_or(Ok(()), |peer| app.rates().may_fail(peer, now.mono))?;
    let (head, body) = request.into_parts();
    let bytes = body::read(&head.headers, body, app.settings().patience.body).await?;
    let CodeIn { code } = body::parse(&bytes)?;
    let whose = app.codes().take(&code, now.mono).filter(|whose| whose.pass.is_good());
    let Some(whose) = whose else {
        peer.map_or(Ok(()), |peer| app.rates().failed(peer, now.mono))?;
        return Err(Refused::new(Code::Unauthenticated, "the code is not good: wrong, used, or too old")
            .hint("ask for another one, and use it within a minute")
            .into());
    };
    let Principal::Holder { role, name } = whose.principal().clone() else {
        return Err(Refused::new(Code::Forbidden, "pages are for people")
            .hint("use a token of a person; agents send their own")
            .into());
    };
    let end = now.wall.plus_ms(whole_ms(app.settings().times.page_token));
    // Never longer than the token that it comes from.
    let expires_at = whose.pass.expires_at().map_or(end, |own| own.min(end));
    let home = whose.pass.home();
    let secret = home.draw_secret();
    let bearer = Bearer::Holder(role);
    let mut ops: Vec<_> = oldest_pages(home, &bearer, &name);
    let digest = secret.digest();
    let new = CreateToken { digest, bearer, name: name.clone(), expires_at: Some(expires_at) };
    ops.push(Op::CreateToken(new));
    // By the hub itself: what it gives is no more than what was shown.
    let receipt = home.commit(Commit::new(Principal::System, ops)).await?;
    let Some(OpResult::TokenCreated { id, .. }) = receipt.results.last() else {
        return Err(Refused::new(Code::Unavailable, "the token was not answered").into());
    };
    let told = SignedInOut {
        id: id.to_string(),
        token: secret.reveal().to_owned(),
        role: role.as_str(),
        name: name.as_str().to_owned(),
        expires_at: time::shown(expires_at),
    };
    answer(StatusCode::CREATED, &told)
}

/// Whether a token is that of a page: the hub's own making, and it ends by itself.
pub(crate) fn is_page(token: &AccessToken) -> bool {
    token.expires_at.is_some() && token.created_by == Principal::System.to_text()
}

/// The tokens of the pages that a person is signed in to, oldest first. They bear the name and the role of the token that
/// they come from.
pub(crate) fn pages_of(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Arc<AccessToken>> {
    let whose = |token: &Arc<AccessToken>| is_page(token) && token.bearer == *bearer && token.name == *name;
    space.tokens().list().into_iter().filter(whose).collect()
}

/// Ends as many as must go before there is room for one more.
fn oldest_pages(space: &Space, bearer: &Bearer, name: &TokenName) -> Vec<Op> {
    let pages = pages_of(space, bearer, name);
    let over = (pages.len() + 1).saturating_sub(PAGES_PER_PERSON_MAX);
    pages.iter().take(over).map(|page| Op::RevokeToken { token: page.id }).collect()
}
