//! Whether the hub is well, and what it is.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use futures_util::FutureExt as _;
use quorate_core::{Code, Refused, TaskStatus, TokenRole, limits};
use serde_json::json;

use crate::app::App;
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::call::{Answer, Call, ok};
use crate::wire::time;

/// It answers, so it lives.
pub(crate) async fn alive(State(_): State<App>) -> Answer {
    Ok((StatusCode::OK, "ok\n").into_response())
}

/// Whether more may be sent here. A hub listens only after it has recovered; it is not ready when it is about to end,
/// or when its storage has failed.
pub(crate) async fn ready(State(app): State<App>) -> Answer {
    let why = match (app.ends(), app.engine().failure().now_or_never()) {
        (true, _) => "the hub is stopping",
        (_, Some(_)) => "the storage has failed",
        _ => return Ok((StatusCode::OK, "ready\n").into_response()),
    };
    Err(Refused::new(Code::Unavailable, why).hint("ask another hub, or wait until this one is back").into())
}

/// What this hub is, and its limits.
pub(crate) async fn info(call: Call) -> Answer {
    let limits = json!({
        "requestBytes": BODY_BYTES_MAX,
        "jsonDepth": DEPTH_MAX,
        "payloadBytes": limits::PAYLOAD_BYTES_MAX,
        "operations": limits::OPS_MAX,
        "deliveries": limits::DELIVERIES_PER_COMMIT_MAX,
        "inFlight": limits::IN_FLIGHT_MAX,
        "inbox": limits::INBOX_MAX,
        "hops": limits::HOPS_MAX,
    });
    let published = call.space.published();
    let you = json!({"principal": call.principal.to_text(), "role": call.bearer.role()});
    ok(&json!({"name": "quorate", "version": env!("CARGO_PKG_VERSION"), "you": you, "limits": limits,
        "seq": published.head.seq.0, "time": time::shown(call.app.engine().clock().now().wall),
    }))
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
    let tasks: serde_json::Map<_, _> = TaskStatus::ALL
        .iter()
        .map(|status| (status.as_str().to_owned(), published.tasks.of(*status).into()))
        .collect();
    let known = || published.agents.iter().filter(|(_, agent)| !agent.removed);
    let [low, normal, high, urgent] = published.ready_by_level;
    ok(&json!({
        "seq": published.head.seq.0,
        "at": time::shown(published.head.at),
        "agents": known().count(),
        "activeAgents": known().filter(|(_, agent)| agent.presence.available).count(),
        "deliveries": deliveries,
        "queueDepth": {"low": low, "normal": normal, "high": high, "urgent": urgent},
        "tasks": tasks,
    }))
}
