//! Whether the hub is well, and what it is.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use quorate_core::TokenRole;
use serde_json::json;

use crate::app::App;
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::call::{Answer, Call, ok};

/// It answers, so it has recovered and is ready.
pub(crate) async fn alive(State(_): State<App>) -> Answer {
    Ok((StatusCode::OK, "ok\n").into_response())
}

/// What this hub is, and its limits.
pub(crate) async fn info(call: Call) -> Answer {
    let limits = json!({"requestBytes": BODY_BYTES_MAX, "jsonDepth": DEPTH_MAX});
    let you = json!({"principal": call.principal.to_text(), "role": call.bearer.role()});
    ok(&json!({"name": "quorate", "version": env!("CARGO_PKG_VERSION"), "you": you, "limits": limits}))
}

/// How much there is of everything.
pub(crate) async fn stats(call: Call) -> Answer {
    call.only(&[TokenRole::Operator])?;
    let published = call.space.published();
    let counts = published.counts;
    let deliveries = json!({
        "ready": counts.ready, "scheduled": counts.scheduled, "leased": counts.leased,
        "acked": counts.acked, "dead": counts.dead, "expired": counts.expired, "purged": counts.purged,
    });
    ok(
        &json!({"seq": published.head.seq.0, "agents": published.agents.iter().filter(|(_, agent)| !agent.removed).count(), "deliveries": deliveries}),
    )
}
