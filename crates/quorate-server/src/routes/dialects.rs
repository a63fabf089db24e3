//! Messages in the shapes of the dialects: sent, claimed, and shown. The way to the engine is the same as everybody's.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use quorate_api::delivery::Held;
use quorate_api::result::is_private;
use quorate_core::{
    AgentId, ClientId, Code, Deed, Destination, Durability, Message, MessageId, MessageType, Op, Refused,
};
use quorate_engine::{Delivery, MessageRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::inbox::checked_wait;
use super::messages::{SendReceipt, sent_ephemeral};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, Listed, ok};
use crate::dialect::yaml::{self, Document};
use crate::dialect::{Dialect, Letter, NOBODY, Wrong, under};
use crate::observe;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/dialects/{name}/messages",
            "dialects.send",
            "Sends a message in the shape of a dialect, or a list of them in one commit.",
        )
        .path::<DialectWord>("name")
        .body::<Messages>()
        .also_as(YAML)
        .lists_all::<SendReceipt>("receipts")
        .answers_with(200, "The same in YAML.", YAML)
        .to(send),
        get(
            "/v1/dialects/{name}/inbox",
            "dialects.inbox",
            "Takes deliveries under a lease, and shows their messages in the shape of a dialect.",
        )
        .is(Deed::Work)
        .path::<DialectWord>("name")
        .query::<InboxIn>()
        .lists_all::<HeldOut>("deliveries")
        .answers_with(200, "The same in YAML.", YAML)
        .to(inbox),
    ]
}

const YAML: &str = "application/yaml";

/// The name of a dialect.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum DialectWord {
    Deliberation,
    Orchestrator,
    Coscientist,
    Native,
}

/// One message in the shape of the dialect, or a list of them. The guide to dialects says what each shape is.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "DialectMessages")]
#[allow(dead_code)]
enum Messages {
    One(BTreeMap<String, words::Any>),
    List(#[schemars(length(min = 1, max = 256))] Vec<BTreeMap<String, words::Any>>),
}

/// One message or a list, in one commit.
pub(crate) async fn send(Path(name): Path<String>, headers: HeaderMap, call: Call) -> Answer {
    let dialect = Dialect::find(&name)?;
    let sent = Sent::of(dialect, &headers, &call.body).map_err(|refused| call.hushed(&call.body, refused))?;
    let messages = match read(&call, dialect, &sent).await {
        Ok(messages) => messages,
        Err(refused) => {
            call.unread(&sent.json, refused).await?;
            let receipts = json!({"receipts": [{"received": true}]});
            return Ok(observe::unobserved(spoken(dialect, &headers, &receipts)?, true));
        }
    };
    if let [message] = messages.as_slice()
        && message.durability == Durability::Ephemeral
    {
        let id = call.space.send_ephemeral(&call.principal, call.epoch, message.clone()).await?;
        let answer = spoken(dialect, &headers, &sent_ephemeral(id))?;
        return Ok(observe::unobserved(answer, id == MessageRef::Flag));
    }
    let receipt = call.commit(messages.into_iter().map(Op::send).collect()).await?;
    let answer = spoken(dialect, &headers, &json!({"receipts": call.results(&receipt)}))?;
    Ok(observe::unobserved(answer, is_private(&receipt)))
}

async fn read(call: &Call, dialect: Dialect, sent: &Sent) -> Result<Vec<Message>, Refused> {
    let letters = sent.letters(dialect)?;
    let mut messages = Vec::with_capacity(letters.len());
    for (path, letter) in letters {
        let mut message = letter.into_message(dialect, &path, &call.reading())?;
        if message.from.is_none() {
            message.from = call.by().cloned();
        }
        complete_answer(call, dialect, &path, &mut message).await?;
        messages.push(message);
    }
    Ok(messages)
}

/// What was sent: JSON, and where it came from if that was YAML.
struct Sent {
    json: Bytes,
    document: Option<Document>,
}

impl Sent {
    fn of(dialect: Dialect, headers: &HeaderMap, body: &Bytes) -> Result<Self, Refused> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !is_yaml(kind) {
            return Ok(Self { json: body.clone(), document: None });
        }
        if !dialect.speaks_yaml() {
            return Err(Refused::new(Code::Invalid, format!("{} is JSON, not YAML", dialect.as_str()))
                .hint("only the dialect orchestrator is written in YAML, too"));
        }
        let document = Document::read(body)?;
        Ok(Self { json: document.json.clone(), document: Some(document) })
    }

    /// The letters, each with the path at which it stood.
    fn letters(&self, dialect: Dialect) -> Result<Vec<(String, Letter)>, Refused> {
        let is_list = self.json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        let raws: Vec<&RawValue> = body::parse_one_or_list(&self.json)?;
        let read = || -> Result<Vec<(String, Letter)>, Wrong> {
            let mut letters = Vec::new();
            for (at, raw) in raws.into_iter().enumerate() {
                let path = if is_list { format!("[{at}]") } else { String::new() };
                for (path, raw) in dialect.messages(&path, raw)? {
                    let letter = dialect.read(&path, &raw)?;
                    letters.push((path, letter));
                }
            }
            Ok(letters)
        };
        read().map_err(|wrong| match &self.document {
            Some(document) => document.located(wrong),
            None => wrong.into(),
        })
    }
}

/// An answer that does not say to whom goes to whoever asked; one that only names the conversation answers the message
/// that began it.
async fn complete_answer(
    call: &Call,
    dialect: Dialect,
    path: &str,
    message: &mut Message,
) -> Result<(), Refused> {
    let unnamed = message.to == NOBODY;
    let answers = message.kind == MessageType::Response && message.in_reply_to.is_none();
    if !unnamed && !answers {
        return Ok(());
    }
    let named = match (&message.in_reply_to, &message.correlation_id) {
        (Some(question), _) if dialect == Dialect::Deliberation => Some(("replyTo", question.clone())),
        (Some(question), _) => Some(("inReplyTo", question.clone())),
        (None, Some(conversation)) => Some(("correlationId", conversation.clone())),
        (None, None) => None,
    };
    let question = named.as_ref().map(|(_, question)| question.clone());
    let asked = match &question {
        Some(question) => asked(call, question, message.from.as_ref()).await,
        None => None,
    };
    if let Some(asked) = &asked
        && answers
    {
        message.in_reply_to = question;
        message.to = if unnamed { reply_address(asked) } else { message.to.clone() };
    } else if let Some(asked) = &asked {
        message.to = reply_address(asked);
    }
    if let (true, None, Some((field, question))) = (message.to == NOBODY, &asked, &named) {
        let what = format!(
            "{question:?} is no message that this agent sent or got, so it does not say to whom this goes"
        );
        return Err(Wrong::new(under(path, field), what)
            .hint("give the id of the message as it came, or name the recipient")
            .into());
    }
    if message.to == NOBODY {
        return Err(Wrong::new(path, "does not say to whom it goes")
            .hint("name the recipient, or the message that it answers")
            .into());
    }
    Ok(())
}

/// Who wants the answer.
fn reply_address(asked: &Message) -> Destination {
    let agent = asked.reply_to.clone().or_else(|| asked.from.clone());
    agent.map_or(NOBODY, Destination::Agent)
}

/// A message that was sent to this agent, to those it is one of, or by it.
async fn asked(call: &Call, id: &str, by: Option<&AgentId>) -> Option<std::sync::Arc<Message>> {
    let view = match id.parse::<MessageId>() {
        Ok(id) => call.space.message(id).await.ok()?,
        Err(_) => call.space.message_by_client_id(&ClientId::new(id).ok()?).await.ok()?,
    };
    let by = by?;
    let concerned = view.message.from.as_ref() == Some(by)
        || view.deliveries.iter().any(|delivery| delivery.agent == *by)
        || may_take(call, by, &view.message.to);
    concerned.then_some(view.message)
}

/// Whether an agent is one of those from whom one takes it.
fn may_take(call: &Call, agent: &AgentId, to: &Destination) -> bool {
    let Destination::Can(capability) = to else { return false };
    let published = call.space.published();
    let agents = &published.agents;
    agents.number(agent).is_some_and(|number| agents.capable(capability.as_str()).contains(&number))
}

/// How much to take, and for whom.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InboxIn {
    /// For which agent; only whoever runs the hub names one.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// How many at most; 1 if nothing is said.
    #[schemars(range(min = 1, max = 256))]
    max: Option<u32>,
    /// How long to wait if there is none.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
    /// How long each is held; 30 s if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    lease_ms: Option<u64>,
}

/// Claims deliveries, and shows their messages in the dialect. They are acked, nacked and extended as all others.
pub(crate) async fn inbox(Path(name): Path<String>, headers: HeaderMap, call: Call) -> Answer {
    let dialect = Dialect::find(&name)?;
    let asked: InboxIn = call.query()?;
    let agent = call.acting(asked.agent.map(AgentId::new).transpose()?)?;
    let times = call.times();
    let wait = checked_wait(times, asked.wait_ms)?;
    let (max, lease_ms) = (asked.max.unwrap_or(1), asked.lease_ms.unwrap_or(times.lease_ms()));
    let claimed = call.space.claim(&call.principal, call.epoch, &agent, max, lease_ms, wait);
    let deliveries = call.waiting(claimed).await?;
    deliveries.iter().for_each(|delivery| call.app.observed().handed.note(call.space.number(), delivery));
    let now = call.app.engine().clock().now().wall;
    let items = deliveries.iter().map(|delivery| {
        let held = quorate_engine::views::held(delivery, now);
        Ok(HeldOut { held, message: shown(dialect, delivery)? })
    });
    let items = items.collect::<Result<Vec<_>, Wrong>>();
    let items = items.map_err(|wrong| {
        let detail = format!("a message cannot be said in {name}: {}", Refused::from(wrong).detail);
        Refused::new(Code::Unavailable, detail).hint("take it by POST /v1/agents/{id}/inbox/claim")
    })?;
    let mut answer = spoken(dialect, &headers, &Listed { name: "deliveries", items })?;
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// A delivery in the hands of its recipient, in its dialect.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DialectDelivery")]
struct HeldOut {
    #[serde(flatten)]
    held: Held,
    /// In the shape of the dialect.
    #[schemars(with = "words::Any")]
    message: Box<RawValue>,
}

fn shown(dialect: Dialect, delivery: &Delivery) -> Result<Box<RawValue>, Wrong> {
    let id = delivery.id.to_string();
    dialect.write(&Letter::received(dialect, id, delivery.sent_at, &delivery.message))
}

fn is_yaml(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    [YAML, "application/x-yaml", "text/yaml"].iter().any(|yaml| kind.eq_ignore_ascii_case(yaml))
}

/// An answer, in YAML if that is wanted and the dialect has it.
fn spoken(dialect: Dialect, headers: &HeaderMap, value: &impl Serialize) -> Answer {
    let wanted = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    if !dialect.speaks_yaml() || !wanted.split(',').any(is_yaml) {
        return ok(value);
    }
    let unwritten =
        |error| Refused::new(Code::Unavailable, format!("the answer could not be written: {error}"));
    let yaml = yaml::written(&to_raw_value(value).map_err(unwritten)?)?;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, YAML)], yaml).into_response())
}
