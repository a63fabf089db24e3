//! Messages: send, and look where they are.

use axum::extract::Path;
use quorate_api::message::{Message, MessageWithDeliveries, NewMessage};
use quorate_api::result::{FlagReceived, SentMessage, is_private};
use quorate_core::{
    AgentId, ClientId, Code, Durability, Message as CoreMessage, MessageId, MessageType, Op, Refused,
    SessionId,
};
use quorate_engine::{Before, MessageFilter, MessageRef, MessageView, views};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::checked_limit;

use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};
use crate::observe;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/messages", "messages.send", "Sends a message, or a list of them in one commit.")
            .body::<Messages<'_>>()
            .lists_all::<SendReceipt>("receipts")
            .to(send),
        get(
            "/v1/messages",
            "messages.list",
            "List messages, newest first; an agent sees what it sent and what it received.",
        )
        .query::<Filter>()
        .lists::<Message>("messages")
        .bulk(list),
        get("/v1/messages/{id}", "messages.get", "A message with where each of its deliveries is.")
            .path::<words::Id>("id")
            .answers::<MessageWithDeliveries>(
                200,
                "The message, for its sender, its recipients and those who run the hub.",
            )
            .to(show),
    ]
}

/// One message or a list of them. Only described here; it is read by [`body::parse_one_or_list`].
#[derive(JsonSchema)]
#[schemars(untagged, rename = "NewMessages")]
#[allow(dead_code)]
enum Messages<'a> {
    One(Box<NewMessage<'a>>),
    List(#[schemars(length(min = 1, max = 256))] Vec<NewMessage<'a>>),
}

/// What a message came to. Only described here.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
pub(super) enum SendReceipt {
    Message(SentMessage),
    Flag(FlagReceived),
}

/// One message or a list, in one commit.
pub(crate) async fn send(call: Call) -> Answer {
    let messages = match read(&call) {
        Ok(messages) => messages,
        Err(refused) => {
            call.unread(&call.body, refused).await?;
            return Ok(observe::unobserved(ok(&json!({"receipts": [{"received": true}]}))?, true));
        }
    };
    if let [message] = messages.as_slice()
        && message.durability == Durability::Ephemeral
    {
        let mut message = message.clone();
        observe::one_continued(&call.app, &call.space, &mut message, call.trace).await;
        let id = call.space.send_ephemeral(&call.principal, call.epoch, message).await?;
        return Ok(observe::unobserved(ok(&sent_ephemeral(id))?, id == MessageRef::Flag));
    }
    let receipt = call.commit(messages.into_iter().map(Op::send).collect()).await?;
    let answer = ok(&json!({"receipts": call.results(&receipt)}))?;
    Ok(observe::unobserved(answer, is_private(&receipt)))
}

fn read(call: &Call) -> Result<Vec<CoreMessage>, Refused> {
    let messages: Vec<NewMessage<'_>> = body::parse_one_or_list(&call.body)?;
    let reading = call.reading();
    messages.into_iter().map(|message| message.read(&reading)).collect()
}

/// What a message in memory only came to.
pub(super) fn sent_ephemeral(id: MessageRef) -> Value {
    match id {
        MessageRef::Flag => json!({"receipts": [{"received": true}]}),
        id => json!({"receipts": [{"id": id.to_string(), "seq": null, "deliveries": []}]}),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// Only what this agent sent.
    #[schemars(with = "Option<words::Id>")]
    from: Option<String>,
    /// Only what went to this agent.
    #[schemars(with = "Option<words::Id>")]
    to: Option<String>,
    /// Only what this agent sent or got.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    r#type: Option<MessageType>,
    #[schemars(with = "Option<words::Id>")]
    session: Option<String>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    /// From the page before. A page may be short, or empty, and still have one.
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let asked: Filter = call.query()?;
    let named = |id: Option<String>| id.map(AgentId::new).transpose();
    let agent = named(asked.agent)?;
    let of = match (call.by(), agent) {
        (Some(by), Some(agent)) if *by != agent => {
            return Err(Refused::new(
                Code::Forbidden,
                format!("{by} may not look at what {agent} sends or gets"),
            )
            .hint("leave agent out")
            .into());
        }
        (Some(by), _) => Some(by.clone()),
        (None, agent) => agent,
    };
    let filter = MessageFilter {
        from: named(asked.from)?,
        to: named(asked.to)?,
        kind: asked.r#type,
        session: asked.session.map(SessionId::new).transpose()?,
        of,
    };
    let before = asked.cursor.as_deref().map(str::parse).transpose()?;
    let found = call.space.messages(&filter, before, checked_limit(asked.limit)?).await?;
    let shown = found.messages.iter().map(|one| {
        let after = Before { seq: one.id.seq, n: one.id.n };
        (after.to_string(), views::message(one.id, one.at, &one.message))
    });
    page("messages", shown, found.cursor.map(|before| before.to_string()))
}

/// A message with where each of its deliveries is: for its sender and its recipients, and for those who run the hub.
pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let view = match id.parse::<MessageId>() {
        Ok(id) => call.space.message(id).await?,
        Err(_) => call.space.message_by_client_id(&ClientId::new(&id)?).await?,
    };
    let view = visible(&call, view).ok_or_else(|| missing(&id))?;
    ok(&views::message_with_deliveries(&view))
}

/// A message as whoever asks may see it, if at all: its sender and those who run the hub see every delivery, a recipient its
/// own. Who else got it is the sender's business.
pub(super) fn visible(call: &Call, mut view: MessageView) -> Option<MessageView> {
    let Some(by) = call.by().filter(|by| view.message.from.as_ref() != Some(by)) else { return Some(view) };
    view.deliveries.retain(|delivery| is_for(call, by, &delivery.agent));
    Some(view).filter(|view| !view.deliveries.is_empty())
}

/// What is not for somebody is not there.
pub(super) fn missing(id: &str) -> Refused {
    Refused::new(Code::NotFound, format!("there is no message {id}"))
        .hint("check the id; an agent sees what it sent and what it got")
}

/// Whether a delivery is an agent's, or one that it may take: what lies in a pool is for all who can.
fn is_for(call: &Call, by: &AgentId, recipient: &AgentId) -> bool {
    let can = |capability: &str| {
        let published = call.space.published();
        let agent = published.agents.by_id(by);
        agent.is_some_and(|agent| agent.capabilities.iter().any(|one| one == capability))
    };
    recipient == by || recipient.as_str().strip_prefix("can:").is_some_and(can)
}
