//! Receives webhook events. Senders have no token but sign the body. Each event becomes one message of the hub with
//! the exact bytes of the body, and passes the same admission checks as any message.

use axum::Extension;
use axum::body::HttpBody as _;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use quorate_api::result::{FlagReceipt, is_flag_receipt};
use quorate_api::webhook::{WebhookMessage, WebhookReceipt};
use quorate_core::limits::PAYLOAD_BYTES_DEFAULT;
use quorate_core::{Code, Commit, IdempotencyKey, Message, MessageType, Op, OpResult, Principal, Refused};
use quorate_engine::Space;
use sha2::{Digest as _, Sha256};

use crate::api::{Route, post, schema};
use crate::app::App;
use crate::body::{self, BODY_BYTES_DEFAULT};
use crate::call::{ApiResult, count_failed_authentication, json_response};
use crate::listen::Connection;
use crate::observe;
use crate::problem::Problem;
use crate::webhook_config::{Webhook, is_valid_name};

const SIGNATURE_HEADER: &str = "x-hub-signature-256";
/// Headers with the kind of event: GitHub's, or our own.
const EVENT_HEADERS: [&str; 2] = ["x-github-event", "x-quorate-event"];
/// Headers with the id of the event, which is the same for each delivery attempt.
const DELIVERY_HEADERS: [&str; 3] = ["x-github-delivery", "x-quorate-delivery", "idempotency-key"];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/webhooks/{name}",
            "webhooks.receive",
            "Receive an external event and send it as a message.",
        )
        .public()
        .path_parameter::<schema::Id>("name", "Name of the webhook.")
        .header_parameter::<schema::Signature>(
            "X-Hub-Signature-256",
            "`sha256=` and the HMAC-SHA-256 of the body, in hex.",
        )
        .header_parameter::<schema::EventKindName>(
            "X-GitHub-Event",
            "Kind of event. The action of the message is `webhook.KIND`.",
        )
        .header_parameter::<schema::EventKindName>(
            "X-Quorate-Event",
            "Same as `X-GitHub-Event`, for other senders.",
        )
        .header_parameter::<schema::HeaderId>(
            "X-GitHub-Delivery",
            "Id of the event. Within 24 hours, events with the same id become one message.",
        )
        .header_parameter::<schema::HeaderId>(
            "X-Quorate-Delivery",
            "Same as `X-GitHub-Delivery`, for other senders.",
        )
        .header_parameter::<schema::HeaderId>(
            "Idempotency-Key",
            "Same as `X-GitHub-Delivery`, for senders that support only this header.",
        )
        .request_body::<schema::Any>()
        .returns::<WebhookReceipt>(202, "The event is stored as one message.")
        .handled_by(receive),
    ]
}

pub(crate) async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    connection: Option<Extension<Connection>>,
    request: Request,
) -> ApiResult {
    let (head, body) = request.into_parts();
    let connection = connection.map(|Extension(connection)| connection);
    let peer = connection.as_ref().map(|connection| connection.peer());
    if app.settings().webhooks.is_empty() {
        return Err(count_failed_authentication(&app, peer, unauthenticated()).into());
    }
    // The sender is not authenticated yet: limit concurrency, and refuse bodies that exceed a message payload.
    let webhooks = &app.settings().webhooks;
    let known = webhooks.contains(&name).then_some(name.as_str());
    let mut upload = app.uploads().start(known, peer, app.engine().clock().now().mono)?;
    if body.size_hint().lower() > PAYLOAD_BYTES_DEFAULT as u64 {
        return Err(too_large(body.size_hint().lower()).into());
    }
    let timeout = app.settings().timeouts.body;
    let body = upload.read(body::read_limited(&head.headers, body, BODY_BYTES_DEFAULT, timeout)).await?;
    // Refused before computing the signature: a larger body cannot become a message.
    if body.len() > PAYLOAD_BYTES_DEFAULT {
        return Err(too_large(body.len() as u64).into());
    }
    let signature = single_header(&head.headers, SIGNATURE_HEADER);
    let Some(webhook) = webhooks.authenticate(&name, signature, &body) else {
        return Err(count_failed_authentication(&app, peer, unauthenticated()).into());
    };
    drop(upload);
    connection.inspect(Connection::authenticated);
    let space = app.space(webhook.space()).ok_or_else(no_space)?;
    app.rates().check_call(space.number(), &Principal::System, app.engine().clock().now().mono)?;
    refuse_form(&head.headers, &body)?;
    let (action, key) = (action_of(&head.headers)?, key_of(webhook, &head.headers)?);
    let message = message_of(webhook, &space, action.clone(), body.clone());
    let trace = head.headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
    let mut ops = vec![Op::send(message)];
    observe::propagate_traces(&app, &space, &mut ops, trace).await;
    // Committed by the hub itself; the origin names the webhook. The key covers the event, not its destination.
    let commit = Commit::new(Principal::System, ops);
    let commit = match key {
        Some(key) => commit.keyed_for(key, &[action.as_bytes(), &body]),
        None => commit,
    };
    let receipt = space.commit(commit).await?;
    if is_flag_receipt(&receipt) {
        let receipt = WebhookReceipt::Flag(FlagReceipt { received: true });
        let response = json_response(StatusCode::ACCEPTED, &receipt)?;
        return Ok(observe::mark_unobserved(response, true));
    }
    let Some(OpResult::Sent { id, .. }) = receipt.results.first() else {
        return Err(Problem::unknown_outcome("sending the message returned no result"));
    };
    let message = WebhookMessage { id: *id, seq: id.seq.0 };
    json_response(StatusCode::ACCEPTED, &WebhookReceipt::Message(message))
}

fn too_large(bytes: u64) -> Refused {
    Refused::new(Code::TooLarge, format!("the event is too large: {bytes} bytes"))
        .limit(PAYLOAD_BYTES_DEFAULT as u64)
        .hint("configure the sender to send smaller or fewer kinds of events")
}

/// Same refusal for an unknown name and an invalid signature, so that names cannot be probed.
fn unauthenticated() -> Refused {
    Refused::new(Code::Unauthenticated, "unknown webhook name or invalid signature").hint(
        "check the name and the secret; X-Hub-Signature-256 must be sha256= and the HMAC-SHA-256 of the body in hex",
    )
}

/// Cannot normally happen: the space is checked at startup, and spaces are never removed.
fn no_space() -> Refused {
    Refused::new(Code::Unavailable, "the space of the webhook does not exist").hint("restart the hub")
}

fn message_of(webhook: &Webhook, space: &Space, action: String, body: Bytes) -> Message {
    let mut message = Message::new(webhook.to().clone(), action, space.seal(body));
    message.kind = MessageType::Event;
    message.origin = Some(format!("webhook:{}", webhook.name()));
    message
}

/// Returns the value of a header if it is text and occurs once.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Returns the first of several headers that is present.
fn first_of<'a>(
    headers: &'a HeaderMap,
    names: &[&'static str],
) -> Result<Option<(&'static str, &'a str)>, Refused> {
    let Some(name) = names.iter().copied().find(|name| headers.contains_key(*name)) else { return Ok(None) };
    let text = single_header(headers, name).ok_or_else(|| {
        Refused::new(Code::Invalid, format!("header {name} is not printable ASCII, or occurs more than once"))
            .hint("send the header once, with printable ASCII characters only")
    })?;
    Ok(Some((name, text)))
}

/// Refuses form-encoded events, GitHub's default. The content type alone is not sufficient: curl sends it by default.
fn refuse_form(headers: &HeaderMap, body: &Bytes) -> Result<(), Refused> {
    let content_type = single_header(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let is_form = content_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
    if !is_form || !body.starts_with(b"payload=") {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, "the event is form-encoded, expected JSON")
        .hint("set the content type to application/json in the settings of the sender"))
}

fn action_of(headers: &HeaderMap) -> Result<String, Refused> {
    match first_of(headers, &EVENT_HEADERS)? {
        None => Ok("webhook".to_owned()),
        Some((_, event)) if is_valid_name(event) => Ok(format!("webhook.{event}")),
        Some((name, _)) => Err(Refused::new(Code::Invalid, format!("invalid event name in header {name}"))
            .hint("use 1 to 64 characters: letters, digits, '-', '_' and '.'")),
    }
}

/// Derives the idempotency key from the id of the event, scoped to this webhook.
fn key_of(webhook: &Webhook, headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Refused> {
    let Some((name, id)) = first_of(headers, &DELIVERY_HEADERS)? else { return Ok(None) };
    IdempotencyKey::new(id)
        .map_err(|refused| Refused { detail: format!("{name}: {}", refused.detail), ..refused })?;
    let mut hash = Sha256::new();
    hash.update(webhook.name());
    hash.update([0]);
    hash.update(id);
    let hash = quorate_core::hex::encode(&hash.finalize());
    IdempotencyKey::new(format!("webhook-{hash}")).map(Some)
}
