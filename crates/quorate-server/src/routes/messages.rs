//! Messages: send, list, get.

use axum::extract::Path;
use quorate_api::message::{Message, MessageListQuery, MessageWithDeliveries, NewMessage, NewMessages};
use quorate_api::result::{SendReceipt, is_flag_receipt};
use quorate_core::{
    AgentId, ClientId, Code, Durability, Message as CoreMessage, MessageId, Op, Refused, SessionId,
};
use quorate_engine::{MessageCursor, MessageFilter, MessageRef, MessageView, views};
use serde_json::{Value, json};

use super::check_limit;

use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, ok_response, page_response};
use crate::observe;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/messages", "messages.send", "Send a message, or a list of messages in one commit.")
            .request_body::<NewMessages<'_>>()
            .returns_list::<SendReceipt>("receipts")
            .handled_by(send),
        get(
            "/v1/messages",
            "messages.list",
            "List messages, newest first. Agents see only those they sent or received.",
        )
        .query_parameters::<MessageListQuery>()
        .returns_page::<Message>("messages")
        .handled_in_bulk_by(list),
        get("/v1/messages/{id}", "messages.get", "Get a message and the state of its deliveries.")
            .path_parameter::<schema::Id>("id", "Message ID, or the ID assigned by its sender.")
            .returns::<MessageWithDeliveries>(
                200,
                "The message. Visible to its sender, its recipients and operators.",
            )
            .handled_by(show),
    ]
}

/// Sends one message, or a list in one commit.
pub(crate) async fn send(call: Call) -> ApiResult {
    let messages = match parse_messages(&call) {
        Ok(messages) => messages,
        Err(refused) => {
            call.raise_flag_or_refuse(&call.body, refused).await?;
            return Ok(observe::mark_unobserved(
                ok_response(&json!({"receipts": [{"received": true}]}))?,
                true,
            ));
        }
    };
    if let [message] = messages.as_slice()
        && message.durability == Durability::Ephemeral
    {
        let mut message = message.clone();
        observe::propagate_trace(&call.app, &call.space, &mut message, call.trace).await;
        let id = call.space.send_ephemeral(&call.principal, call.epoch, message).await?;
        return Ok(observe::mark_unobserved(ok_response(&ephemeral_receipt(id))?, id == MessageRef::Flag));
    }
    let receipt = call.commit(messages.into_iter().map(Op::send).collect()).await?;
    let response = ok_response(&json!({"receipts": call.results(&receipt)}))?;
    Ok(observe::mark_unobserved(response, is_flag_receipt(&receipt)))
}

fn parse_messages(call: &Call) -> Result<Vec<CoreMessage>, Refused> {
    let messages: Vec<NewMessage<'_>> = body::parse_one_or_list(&call.body)?;
    let context = call.parse_context();
    messages.into_iter().map(|message| message.into_core(&context)).collect()
}

/// Returns the receipt of an ephemeral message.
pub(super) fn ephemeral_receipt(id: MessageRef) -> Value {
    match id {
        MessageRef::Flag => json!({"receipts": [{"received": true}]}),
        id => json!({"receipts": [{"id": id.to_string(), "seq": null, "deliveries": []}]}),
    }
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let query: MessageListQuery = call.query()?;
    let parse_agent = |id: Option<String>| id.map(AgentId::new).transpose();
    let agent = parse_agent(query.agent)?;
    let participant = match (call.calling_agent(), agent) {
        (Some(caller), Some(agent)) if *caller != agent => {
            return Err(Refused::new(
                Code::Forbidden,
                format!("{caller} is not allowed to read messages of {agent}"),
            )
            .hint("omit agent")
            .into());
        }
        (Some(caller), _) => Some(caller.clone()),
        (None, agent) => agent,
    };
    let filter = MessageFilter {
        from: parse_agent(query.from)?,
        to: parse_agent(query.to)?,
        kind: query.r#type,
        session: query.session.map(SessionId::new).transpose()?,
        participant,
    };
    let before = query.cursor.as_deref().map(str::parse).transpose()?;
    let page = call.space.messages(&filter, before, check_limit(query.limit)?).await?;
    let items = page.messages.iter().map(|message| {
        let after = MessageCursor { seq: message.id.seq, n: message.id.n };
        (after.to_string(), views::message(message.id, message.at, &message.message))
    });
    page_response("messages", items, page.cursor.map(|before| before.to_string()))
}

/// Returns a message and its deliveries, for its sender, its recipients and operators.
pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let found = match id.parse::<MessageId>() {
        Ok(id) => call.space.message(id).await,
        Err(_) => call.space.message_by_client_id(&ClientId::new(&id)?).await,
    };
    let view = match found {
        // The same response as for a message that the agent may not see.
        Err(error) if error.code() == Code::NotFound && call.calling_agent().is_some() => None,
        found => visible(&call, found?),
    };
    let view = view.ok_or_else(|| message_not_found(&id))?;
    ok_response(&views::message_with_deliveries(&view))
}

/// Returns a message as the caller may see it, if at all: the sender and operators see every delivery, a recipient
/// only its own.
pub(super) fn visible(call: &Call, mut view: MessageView) -> Option<MessageView> {
    let Some(caller) = call.calling_agent().filter(|caller| view.message.from.as_ref() != Some(caller))
    else {
        return Some(view);
    };
    view.deliveries.retain(|delivery| is_for(call, caller, &delivery.agent));
    Some(view).filter(|view| !view.deliveries.is_empty())
}

/// Refusal for a message that does not exist or is not visible to the caller.
fn message_not_found(id: &str) -> Refused {
    Refused::new(Code::NotFound, format!("there is no message {id}"))
        .hint("check the id; agents see only messages they sent or received")
}

/// Whether the agent is the recipient of a delivery, or a member of its pool.
fn is_for(call: &Call, agent_id: &AgentId, recipient: &AgentId) -> bool {
    let can = |capability: &str| {
        let published = call.space.published();
        let agent = published.agents.by_id(agent_id);
        agent.is_some_and(|agent| agent.capabilities.iter().any(|own| own == capability))
    };
    recipient == agent_id || recipient.as_str().strip_prefix("can:").is_some_and(can)
}
