//! Requests: ask and wait for the answer. And `why`: where something is, what it waits for, what happens next.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use quorate_api::message::Message;
use quorate_api::request::{NewRequest, Request as ShownRequest};
use quorate_api::result::Changed;
use quorate_api::why::Why as ShownWhy;
use quorate_core::{ApprovalId, Ask, ClientId, Durability, MessageId, Op, Refused, Request, Why};
use quorate_engine::{Error, Noun as _, nobody_answers_a_flag, views};

use super::Listing;
use super::approvals;
use super::messages::{missing, visible};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::observe;
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    let why_of =
        |path, id, about| get(path, id, about).path::<words::Id>("id").answers::<ShownWhy>(200, "Why.");
    vec![
        post("/v1/request", "requests.ask", "Asks, and waits for the answer.")
            .body::<NewRequest<'_>>()
            .answers::<Message>(200, "The answer.")
            .to(request),
        get(
            "/v1/requests",
            "requests.list",
            "List requests and what came of them, newest first; an agent sees its own.",
        )
        .query::<Listing>()
        .lists::<ShownRequest>("requests")
        .bulk(list),
        get("/v1/requests/{id}", "requests.get", "A question and what came of it.")
            .path::<words::Id>("id")
            .answers::<ShownRequest>(200, "The request, for whoever asked and those who run the hub.")
            .to(show),
        post("/v1/requests/{id}/cancel", "requests.cancel", "Wants no answer any more.")
            .path::<words::Id>("id")
            .answers::<Changed>(200, "It is called off.")
            .to(cancel),
        why_of(
            "/v1/messages/{id}/why",
            "messages.why",
            "Where a message is, what it waits for, what happens next.",
        )
        .to(why),
        why_of("/v1/tasks/{id}/why", "tasks.why", "Where a task is, what it waits for, what happens next.")
            .to(why),
        why_of(
            "/v1/procedures/{id}/why",
            "procedures.why",
            "In which phase a procedure is, since when, and who goes on with it.",
        )
        .to(why),
    ]
}

/// Asks, and answers with the response message. A caller that goes away wants no answer any more, unless it asked under a
/// key, or the question has an id: then it may come back.
pub(crate) async fn request(call: Call) -> Answer {
    let ask = asked(&call).await?;
    if ask.message.durability == Durability::Ephemeral {
        let within = ask.timeout_ms.map(Duration::from_millis);
        let message = Arc::unwrap_or_clone(ask.message);
        let asked = call.space.request_ephemeral(&call.principal, call.epoch, message, within);
        let answer = asked.await?;
        return ok(&views::message(answer.id, answer.at, &answer.message));
    }
    let named = ask.message.client_id.is_some();
    let mut asking = match &call.key {
        Some(_) => call.space.request_once(&|ops| call.as_commit(ops), ask).await?,
        None => call.space.request(&call.principal, call.epoch, ask).await?,
    };
    if named {
        asking.stays();
    }
    // The question stands, whatever becomes of the wait.
    let question = asking.id();
    let answer = call.waiting_with(asking.answer(), |refused| refused.asked(question)).await?;
    ok(&views::message(answer.id, answer.at, &answer.message))
}

/// The question that a call asks.
pub(super) async fn asked(call: &Call) -> Result<Ask, Problem> {
    match read_asked(call) {
        Ok(ask) => {
            let mut message = Arc::unwrap_or_clone(ask.message);
            observe::one_continued(&call.app, &call.space, &mut message, call.trace).await;
            Ok(Ask { again: ask.again, ..Ask::new(message, ask.timeout_ms, None) })
        }
        Err(refused) => {
            call.unread(&call.body, refused).await?;
            Err(nobody_answers_a_flag().into())
        }
    }
}

fn read_asked(call: &Call) -> Result<Ask, Refused> {
    NewRequest::read(body::parse(&call.body)?, &call.reading())
}

pub(super) fn shown(call: &Call, request: &Request) -> ShownRequest {
    let published = call.space.published();
    ShownRequest::new(&published.agents, &published.eras, request)
}

/// Those that whoever asks asked; for those who run the hub, all of them.
pub(crate) async fn list(call: Call) -> Answer {
    let wanted = |request: &Request| call.sees(Some(request.from));
    super::list(&call, "requests", call.query()?, wanted, |one| shown(&call, one)).await
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let request = own(&call, &id).await?;
    ok(&shown(&call, &request))
}

/// A request by its id, or by the one that its sender gave the question: for whoever asked, and for those who run the hub.
pub(super) async fn own(call: &Call, id: &str) -> Result<Request, Error> {
    let id = id_of(call, id).await?;
    let request: Request = call.space.item(&id).await?;
    if call.sees(Some(request.from)) { Ok(request) } else { Err(Request::not_found(&id).into()) }
}

async fn id_of(call: &Call, id: &str) -> Result<MessageId, Error> {
    match id.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(call.space.message_by_client_id(&ClientId::new(id)?).await?.id),
    }
}

pub(crate) async fn cancel(Path(id): Path<String>, call: Call) -> Answer {
    let request = id_of(&call, &id).await?;
    let receipt = call.commit(vec![Op::CancelRequest { request }]).await?;
    ok(&Changed::from(&receipt))
}

/// Why a message or a task is where it is.
pub(crate) async fn why(Path(id): Path<String>, call: Call) -> Answer {
    let why = call.space.why(&id).await?;
    ok(&ShownWhy::from(&seen(&call, &id, why).await?))
}

/// What an agent may hear of it: what it may see. For others it is not there.
async fn seen(call: &Call, id: &str, why: Why) -> Result<Why, Problem> {
    if call.by().is_none() {
        return Ok(why);
    }
    if let Ok(message) = why.id.parse::<MessageId>() {
        let all = call.space.message(message).await?;
        let sent = all.deliveries.len();
        let view = visible(call, all).ok_or_else(|| missing(id))?;
        if view.message.from.as_ref() == call.by() || view.deliveries.len() == sent {
            return Ok(why);
        }
        let is_own = |part: &Why| view.deliveries.iter().any(|one| one.id.to_string() == part.id);
        return Ok(Why::of_message(why.id, why.parts.into_iter().filter(is_own).collect()));
    }
    if let Ok(approval) = why.id.parse::<ApprovalId>()
        && let Ok(approval) = call.space.item(&approval).await
        && !approvals::is_for(call, &approval)
    {
        return Err(missing(id).into());
    }
    Ok(why)
}
