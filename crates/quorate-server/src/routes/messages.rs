//! Messages: send, and look where they are.

use axum::extract::Path;
use quorate_core::{ClientId, Code, Durability, MessageId, Op, Refused};
use schemars::JsonSchema;
use serde_json::json;

use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::message::{MessageIn, MessageStateOut};
use crate::wire::result::Sent;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/messages", "messages.send", "Sends a message, or a list of them in one commit.")
            .body::<Messages<'_>>()
            .lists_all::<Sent>("receipts")
            .to(send),
        get("/v1/messages/{id}", "messages.get", "A message with where each of its deliveries is.")
            .path::<words::Id>("id")
            .answers::<MessageStateOut>(
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
    One(MessageIn<'a>),
    List(#[schemars(length(min = 1, max = 256))] Vec<MessageIn<'a>>),
}

/// One message or a list, in one commit.
pub(crate) async fn send(call: Call) -> Answer {
    let messages: Vec<MessageIn<'_>> = body::parse_one_or_list(&call.body)?;
    let sealing = call.sealing();
    let read = messages.into_iter().map(|message| message.read(&sealing, call.by()));
    let messages = read.collect::<Result<Vec<_>, _>>()?;
    if let [message] = messages.as_slice()
        && message.durability == Durability::Ephemeral
    {
        let id = call.space.send_ephemeral(&call.principal, call.epoch, message.clone())?;
        return ok(&json!({"receipts": [{"id": id.to_string(), "seq": null, "deliveries": []}]}));
    }
    let receipt = call.commit(messages.into_iter().map(Op::send).collect()).await?;
    ok(&json!({"receipts": call.results(&receipt)}))
}

/// A message with where each of its deliveries is: for its sender and its recipients, and for those who run the hub.
pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let view = match id.parse::<MessageId>() {
        Ok(id) => call.space.message(id).await?,
        Err(_) => call.space.message_by_client_id(&ClientId::new(&id)?).await?,
    };
    if let Some(by) = call.by()
        && view.message.from.as_ref() != Some(by)
        && view.deliveries.iter().all(|delivery| delivery.agent != *by)
    {
        return Err(Refused::new(Code::NotFound, format!("there is no message {id}")).into());
    }
    ok(&MessageStateOut::new(&view))
}
