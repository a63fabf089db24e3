//! Messages in the formats of the dialects: send and claim. They use the same path to the engine as native messages.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use quorate_api::dialect::{
    DialectDelivery, DialectInboxQuery, DialectMessages, DialectReceipts, SkippedMessage,
};
use quorate_api::result::{OperationResult, SendReceipt, is_flag_receipt};
use quorate_core::{
    AgentId, ClientId, Code, Destination, Durability, Message, MessageId, MessageType, Op, Permission,
    Refused,
};
use quorate_engine::{MessageRef, ReceivedDelivery};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::inbox::check_wait;
use super::messages::ephemeral_receipt;
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, NamedList, ok_response};
use crate::dialect::yaml::{self, Document};
use crate::dialect::{Dialect, Envelope, FieldError, NO_RECIPIENT, field_path};
use crate::observe;
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/dialects/{name}/messages",
            "dialects.send",
            "Send a message in a dialect, or a list of messages in one commit.",
        )
        .path_parameter::<schema::DialectName>("name", "Name of the dialect.")
        .request_body::<DialectMessages>()
        .also_accepts(YAML)
        .returns::<DialectReceipts>(200, "The receipts.")
        .returns_media(200, "The same as YAML.", YAML)
        .handled_by(send),
        get(
            "/v1/dialects/{name}/inbox",
            "dialects.inbox",
            "Claim deliveries under a lease and return their messages in a dialect.",
        )
        .requires(Permission::Work)
        .path_parameter::<schema::DialectName>("name", "Name of the dialect.")
        .query_parameters::<DialectInboxQuery>()
        .returns_list::<DialectDelivery>("deliveries")
        .returns_media(200, "The same as YAML.", YAML)
        .handled_by(inbox),
    ]
}

const YAML: &str = "application/yaml";

/// Sends one message, or a list in one commit.
pub(crate) async fn send(Path(name): Path<String>, headers: HeaderMap, call: Call) -> ApiResult {
    let dialect = Dialect::find(&name)?;
    let request_body = DialectBody::of(dialect, &headers, &call.body)
        .map_err(|refused| call.make_private_if_flag(&call.body, refused))?;
    let (messages, skipped) = match read(&call, dialect, &request_body).await {
        Ok(read) => read,
        Err(refused) => {
            call.raise_flag_or_refuse(&request_body.json, refused).await?;
            let receipts = json!({"receipts": [{"received": true}]});
            return Ok(observe::mark_unobserved(respond(dialect, &headers, &receipts)?, true));
        }
    };
    if let [message] = messages.as_slice()
        && message.durability == Durability::Ephemeral
    {
        let id = call.space.send_ephemeral(&call.principal, call.epoch, message.clone()).await?;
        let response = respond(dialect, &headers, &ephemeral_receipt(id))?;
        return Ok(observe::mark_unobserved(response, id == MessageRef::Flag));
    }
    let receipt = call.commit(messages.into_iter().map(Op::send).collect()).await?;
    let receipts = call.results(&receipt).into_iter().filter_map(|result| match result {
        OperationResult::Sent(sent) => Some(SendReceipt::Message(sent)),
        OperationResult::Flag(flag) => Some(SendReceipt::Flag(flag)),
        _ => None,
    });
    let receipts = DialectReceipts { receipts: receipts.collect(), skipped };
    let response = respond(dialect, &headers, &receipts)?;
    Ok(observe::mark_unobserved(response, is_flag_receipt(&receipt)))
}

/// Parses the messages to send. Also returns the messages of example documents that the caller does not send.
async fn read(
    call: &Call,
    dialect: Dialect,
    request_body: &DialectBody,
) -> Result<(Vec<Message>, Vec<SkippedMessage>), Refused> {
    let mut skipped = Vec::new();
    let mut envelopes = Vec::new();
    for document in request_body.documents(dialect)? {
        envelopes.extend(own_messages(call.calling_agent(), document, &mut skipped));
    }
    let mut messages = Vec::with_capacity(envelopes.len());
    for (path, envelope) in envelopes {
        let mut message = envelope.into_message(dialect, &path, &call.parse_context())?;
        if message.from.is_none() {
            message.from = call.calling_agent().cloned();
        }
        complete_answer(call, dialect, &path, &mut message).await?;
        messages.push(message);
    }
    Ok((messages, skipped))
}

/// A message with its path in the request body.
type Located = (String, Envelope);

/// Returns the messages of a document that the calling agent sends. A document with a message and its answer can be sent
/// by both agents: each sends its own. Without a message of its own, all are returned, and refused as usual.
fn own_messages(
    caller: Option<&AgentId>,
    document: Vec<Located>,
    skipped: &mut Vec<SkippedMessage>,
) -> Vec<Located> {
    let Some(caller) = caller else { return document };
    let sender = |envelope: &Envelope| envelope.message.from.clone().filter(|from| from != caller);
    if document.iter().all(|(_, envelope)| sender(envelope).is_some()) {
        return document;
    }
    let is_own = |(path, envelope): &Located| match sender(envelope) {
        None => true,
        Some(from) => {
            let reason = format!("only {from} can send it: the access token is of {caller}");
            skipped.push(SkippedMessage { path: path.clone(), from, reason });
            false
        }
    };
    document.into_iter().filter(is_own).collect()
}

/// Request body as JSON, with its YAML source positions if it was YAML.
struct DialectBody {
    json: Bytes,
    document: Option<Document>,
}

impl DialectBody {
    fn of(dialect: Dialect, headers: &HeaderMap, body: &Bytes) -> Result<Self, Refused> {
        let content_type = headers
            .get(header::CONTENT_TYPE)
            .and_then(|content_type| content_type.to_str().ok())
            .unwrap_or_default();
        if !is_yaml(content_type) {
            return Ok(Self { json: body.clone(), document: None });
        }
        if !dialect.supports_yaml() {
            return Err(Refused::new(
                Code::Invalid,
                format!("the dialect {} does not support YAML", dialect.as_str()),
            )
            .hint("send JSON; only the dialect orchestrator supports YAML"));
        }
        let document = Document::parse(body)?;
        Ok(Self { json: document.json.clone(), document: Some(document) })
    }

    /// Parses the documents. A document is one message, unless it is an example of the dialect with several.
    fn documents(&self, dialect: Dialect) -> Result<Vec<Vec<Located>>, Refused> {
        let is_list = self.json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        let documents: Vec<&RawValue> = body::parse_one_or_list(&self.json)?;
        let parse_document = |(index, raw): (usize, &RawValue)| -> Result<Vec<Located>, FieldError> {
            let path = if is_list { format!("[{index}]") } else { String::new() };
            let mut located = Vec::new();
            for (path, raw) in dialect.messages(&path, raw)? {
                let envelope = dialect.parse(&path, &raw)?;
                located.push((path, envelope));
            }
            Ok(located)
        };
        let parse = || documents.into_iter().enumerate().map(parse_document).collect::<Result<Vec<_>, _>>();
        parse().map_err(|error| match &self.document {
            Some(document) => document.locate(error),
            None => error.into(),
        })
    }
}

/// Completes a reply. Without a recipient it goes to the requester; with only a correlation id it replies to the
/// message that started the conversation.
async fn complete_answer(
    call: &Call,
    dialect: Dialect,
    path: &str,
    message: &mut Message,
) -> Result<(), Refused> {
    let has_no_recipient = message.to == NO_RECIPIENT;
    let is_reply = message.kind == MessageType::Response && message.in_reply_to.is_none();
    if !has_no_recipient && !is_reply {
        return Ok(());
    }
    let named = match (&message.in_reply_to, &message.correlation_id) {
        (Some(question), _) if dialect == Dialect::Deliberation => Some(("replyTo", question.clone())),
        (Some(question), _) => Some(("inReplyTo", question.clone())),
        (None, Some(conversation)) => Some(("correlationId", conversation.clone())),
        (None, None) => None,
    };
    let question = named.as_ref().map(|(_, question)| question.clone());
    let question_message = match &question {
        Some(question) => question_message(call, question, message.from.as_ref()).await,
        None => None,
    };
    if let Some(question_message) = &question_message
        && is_reply
    {
        message.in_reply_to = question;
        message.to = if has_no_recipient { reply_address(question_message) } else { message.to.clone() };
    } else if let Some(question_message) = &question_message {
        message.to = reply_address(question_message);
    }
    if let (true, None, Some((field, question))) = (message.to == NO_RECIPIENT, &question_message, &named) {
        let detail = format!(
            "{question:?} is not a message that this agent sent or received, so the recipient is unknown"
        );
        return Err(FieldError::new(field_path(path, field), detail)
            .hint("use the id of the received message, or set the recipient")
            .into());
    }
    if message.to == NO_RECIPIENT {
        return Err(FieldError::new(path, "the message has no recipient")
            .hint("set the recipient, or the message to reply to")
            .into());
    }
    Ok(())
}

/// Returns the destination for replies to a message.
fn reply_address(question_message: &Message) -> Destination {
    let agent = question_message.reply_to.clone().or_else(|| question_message.from.clone());
    agent.map_or(NO_RECIPIENT, Destination::Agent)
}

/// Returns a message that the agent sent, received, or could have claimed.
async fn question_message(call: &Call, id: &str, agent: Option<&AgentId>) -> Option<std::sync::Arc<Message>> {
    let view = match id.parse::<MessageId>() {
        Ok(id) => call.space.message(id).await.ok()?,
        Err(_) => call.space.message_by_client_id(&ClientId::new(id).ok()?).await.ok()?,
    };
    let agent = agent?;
    let concerned = view.message.from.as_ref() == Some(agent)
        || view.deliveries.iter().any(|delivery| delivery.agent == *agent)
        || is_pool_member(call, agent, &view.message.to);
    concerned.then_some(view.message)
}

/// Whether the agent is a member of the destination's pool.
fn is_pool_member(call: &Call, agent: &AgentId, to: &Destination) -> bool {
    let Destination::Can(capability) = to else { return false };
    let published = call.space.published();
    let agents = &published.agents;
    agents.number(agent).is_some_and(|number| agents.capable(capability.as_str()).contains(&number))
}

/// Claims deliveries and renders their messages in the dialect. They are acked, nacked and extended like any
/// delivery.
pub(crate) async fn inbox(Path(name): Path<String>, headers: HeaderMap, call: Call) -> ApiResult {
    let dialect = Dialect::find(&name)?;
    let query: DialectInboxQuery = call.query()?;
    let agent = call.acting_agent(query.agent.map(AgentId::new).transpose()?)?;
    let durations = call.durations();
    let wait = check_wait(durations, query.wait_ms)?;
    let (max, lease_ms) = (query.max.unwrap_or(1), query.lease_ms.unwrap_or(durations.lease_ms()));
    let claimed = call.space.claim(&call.principal, call.epoch, &agent, max, lease_ms, wait);
    let deliveries = call.wait(claimed).await?;
    deliveries
        .iter()
        .for_each(|delivery| call.app.telemetry().trace_cache.insert(call.space.number(), delivery));
    let now = call.app.engine().clock().now().wall;
    let items = deliveries.iter().map(|delivery| {
        let lease = quorate_engine::views::delivery_lease(delivery, now);
        Ok(DialectDelivery { lease, message: render(dialect, delivery)? })
    });
    let items = items.collect::<Result<Vec<_>, FieldError>>();
    // The deliveries are leased already.
    let items = items.map_err(|error| {
        let detail = format!("failed to render a message in dialect {name}: {}", Refused::from(error).detail);
        Problem::unknown_outcome(detail)
            .with_hint("when the leases have expired, claim it with POST /v1/agents/{id}/inbox/claim")
    })?;
    let mut response = respond(dialect, &headers, &NamedList { name: "deliveries", items })?;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn render(dialect: Dialect, delivery: &ReceivedDelivery) -> Result<Box<RawValue>, FieldError> {
    let id = delivery.id.to_string();
    dialect.render(&Envelope::from_delivered(dialect, id, delivery.sent_at, &delivery.message))
}

fn is_yaml(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    [YAML, "application/x-yaml", "text/yaml"].iter().any(|yaml| media_type.eq_ignore_ascii_case(yaml))
}

/// Returns a response, as YAML if requested and supported by the dialect.
fn respond(dialect: Dialect, headers: &HeaderMap, value: &impl Serialize) -> ApiResult {
    let accept = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if !dialect.supports_yaml() || !accept.split(',').any(is_yaml) {
        return ok_response(value);
    }
    let serialize_error =
        |error| Problem::unknown_outcome(format!("failed to serialize the response: {error}"));
    let yaml = yaml::to_yaml(&to_raw_value(value).map_err(serialize_error)?)?;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, YAML)], yaml).into_response())
}
