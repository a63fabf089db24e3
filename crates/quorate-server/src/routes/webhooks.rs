//! Events from outside: what somebody sends who has no token, but has signed it. Each becomes one message of the hub's, byte for
//! byte, on its way through the same door as all others.

use axum::Extension;
use axum::body::HttpBody as _;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use quorate_core::limits::PAYLOAD_BYTES_MAX;
use quorate_core::{Code, Commit, IdempotencyKey, Message, MessageType, Op, OpResult, Principal, Refused};
use quorate_engine::Space;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::api::{Route, post, words};
use crate::app::App;
use crate::body;
use crate::call::{Answer, answer, counted};
use crate::listen::Life;
use crate::observe;
use crate::webhook::{Webhook, is_word};
use quorate_api::result::{FlagReceived, is_private};

const SIGNATURE: &str = "x-hub-signature-256";
/// The kind of the event: GitHub's word for it, or ours.
const EVENTS: [&str; 2] = ["x-github-event", "x-quorate-event"];
/// Its id, the same for each attempt to deliver it.
const DELIVERIES: [&str; 3] = ["x-github-delivery", "x-quorate-delivery", "idempotency-key"];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/webhooks/{name}",
            "webhooks.receive",
            "Brings an event from outside: it becomes a message.",
        )
        .open()
        .path::<words::Id>("name")
        .header::<words::Signature>(
            "X-Hub-Signature-256",
            "`sha256=` and the HMAC-SHA-256 of the body, in hex.",
        )
        .header::<words::EventWord>("X-GitHub-Event", "The kind of event; the action is `webhook.KIND`.")
        .header::<words::EventWord>("X-Quorate-Event", "The same, for senders that are not GitHub.")
        .header::<words::HeaderId>(
            "X-GitHub-Delivery",
            "Its id: under the same id it is one message, for a day.",
        )
        .header::<words::HeaderId>("X-Quorate-Delivery", "The same, for senders that are not GitHub.")
        .header::<words::HeaderId>("Idempotency-Key", "The same, for senders that know no other.")
        .body::<words::Any>()
        .answers::<ReceivedOut>(202, "It is on disk, as one message.")
        .to(receive),
    ]
}

/// What an event has become. Only described here.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "WebhookReceipt")]
#[allow(dead_code)]
enum ReceivedOut {
    Message(MessageReceived),
    Flag(FlagReceived),
}

/// The message that an event has become. Who gets it is not for its sender to know.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookMessage")]
struct MessageReceived {
    #[schemars(with = "words::MessageId")]
    id: String,
    seq: u64,
}

/// Events whose sender is not authenticated yet, at a time.
pub(crate) const UNAUTHENTICATED_MAX: usize = 64;

pub(crate) async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    life: Option<Extension<Life>>,
    request: Request,
) -> Answer {
    let (head, body) = request.into_parts();
    let peer = life.map(|Extension(life)| life.peer);
    if app.settings().webhooks.is_empty() {
        return Err(counted(&app, peer, unknown()).into());
    }
    // Nobody knows yet who it is: not many at once, and no more than can be a message.
    let _permit = app.webhook_permits().try_acquire().map_err(|_| {
        Refused::new(Code::Overloaded, "too many events come at once").hint("send it again in a moment")
    })?;
    if body.size_hint().lower() > PAYLOAD_BYTES_MAX as u64 {
        return Err(too_large(body.size_hint().lower()).into());
    }
    let body = body::read(&head.headers, body, app.settings().patience.body).await?;
    // Whoever it is: what is larger can be no message, and nobody makes us reckon with it.
    if body.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large(body.len() as u64).into());
    }
    let signature = one_text(&head.headers, SIGNATURE);
    let Some(webhook) = app.settings().webhooks.signed(&name, signature, &body) else {
        return Err(counted(&app, peer, unknown()).into());
    };
    let space = app.space(webhook.space()).ok_or_else(no_space)?;
    app.rates().call(space.number(), &Principal::System, app.engine().clock().now().mono)?;
    refuse_form(&head.headers, &body)?;
    let (action, key) = (action_of(&head.headers)?, key_of(webhook, &head.headers)?);
    let message = message_of(webhook, &space, action.clone(), body.clone());
    let trace = head.headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
    let mut ops = vec![Op::send(message)];
    observe::continued(&app, &space, &mut ops, trace).await;
    // By the hub itself; its origin says which webhook it came by. The key is for what was sent, not for where it goes.
    let commit = Commit::new(Principal::System, ops);
    let commit = match key {
        Some(key) => commit.keyed_for(key, &[action.as_bytes(), &body]),
        None => commit,
    };
    let receipt = space.commit(commit).await?;
    if is_private(&receipt) {
        let answer = answer(StatusCode::ACCEPTED, &FlagReceived { received: true })?;
        return Ok(observe::unobserved(answer, true));
    }
    let Some(OpResult::Sent { id, .. }) = receipt.results.first() else {
        return Err(Refused::new(Code::Unavailable, "the message was not answered")
            .hint("look for it in the log before you send it again")
            .into());
    };
    answer(StatusCode::ACCEPTED, &MessageReceived { id: id.to_string(), seq: id.seq.0 })
}

fn too_large(bytes: u64) -> Refused {
    Refused::new(Code::TooLarge, format!("the event has {bytes} bytes"))
        .limit(PAYLOAD_BYTES_MAX as u64)
        .hint("let the sender leave something out, or subscribe to fewer kinds of events")
}

/// The same for a name that is none and for a signature that does not fit: nobody learns which names there are.
fn unknown() -> Refused {
    Refused::new(Code::Unauthenticated, "there is no webhook of this name that this is signed for").hint(
        "look at the name and at the secret; X-Hub-Signature-256 is sha256= and the HMAC-SHA-256 of the body in hex",
    )
}

/// The app has looked for it when it began, and spaces stay.
fn no_space() -> Refused {
    Refused::new(Code::Unavailable, "the space of the webhook is not there").hint("start the hub again")
}

fn message_of(webhook: &Webhook, space: &Space, action: String, body: Bytes) -> Message {
    let mut message = Message::new(webhook.to().clone(), action, space.seal(body));
    message.kind = MessageType::Event;
    message.origin = Some(format!("webhook:{}", webhook.name()));
    message
}

/// The one value of a header, if it is text. Of two nobody knows which one counts.
fn one_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// The first of several headers that is there.
fn first_of<'a>(
    headers: &'a HeaderMap,
    names: &[&'static str],
) -> Result<Option<(&'static str, &'a str)>, Refused> {
    let Some(name) = names.iter().copied().find(|name| headers.contains_key(*name)) else { return Ok(None) };
    let text = one_text(headers, name).ok_or_else(|| {
        Refused::new(Code::Invalid, format!("the header {name} is no plain text, or is there twice"))
            .hint("send it once, in letters, digits and signs of ASCII")
    })?;
    Ok(Some((name, text)))
}

/// GitHub sends forms if nobody tells it otherwise. The header alone says little: curl writes it over everything.
fn refuse_form(headers: &HeaderMap, body: &Bytes) -> Result<(), Refused> {
    let kind = one_text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let is_form = kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
    if !is_form || !body.starts_with(b"payload=") {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, "the event came as a form, not as JSON")
        .hint("choose the content type application/json in the settings of the sender"))
}

fn action_of(headers: &HeaderMap) -> Result<String, Refused> {
    match first_of(headers, &EVENTS)? {
        None => Ok("webhook".to_owned()),
        Some((_, event)) if is_word(event) => Ok(format!("webhook.{event}")),
        Some((name, _)) => Err(Refused::new(Code::Invalid, format!("the header {name} is no word"))
            .hint("use at most 64 letters, digits, and - _ or .")),
    }
}

/// The id of a delivery as a key: one of this webhook, whatever others use.
fn key_of(webhook: &Webhook, headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Refused> {
    let Some((name, id)) = first_of(headers, &DELIVERIES)? else { return Ok(None) };
    IdempotencyKey::new(id)
        .map_err(|refused| Refused { detail: format!("{name}: {}", refused.detail), ..refused })?;
    let mut own = Sha256::new();
    own.update(webhook.name());
    own.update([0]);
    own.update(id);
    let own = quorate_core::hex::encode(&own.finalize());
    IdempotencyKey::new(format!("webhook-{own}")).map(Some)
}
