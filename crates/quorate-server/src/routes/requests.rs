//! Requests: send and wait for the answer. And `why`: state of an item, what it waits for, and what happens next.

use std::time::Duration;

use axum::extract::Path;
use quorate_api::message::Message;
use quorate_api::page::ListQuery;
use quorate_api::request::{NewRequest, Request as ShownRequest, RequestWithRetries, take_retries};
use quorate_api::result::ChangeReceipt;
use quorate_api::why::Explanation as ShownWhy;
use quorate_core::{
    ApprovalId, ClientId, Code, Durability, Message as CoreMessage, MessageId, Op, Refused, Request,
    SendRequest, Why,
};
use quorate_engine::{Answer, Error, flag_has_no_answer, views};
use quorate_env::{Attempt, FailedRequest, retry_request};

use super::approvals;
use super::messages::visible;
use crate::api::{Route, get, post, schema};
use crate::body::{self, RequestFields};
use crate::call::{ApiResult, Call, ok_response};
use crate::observe;
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    let explanation = |path, id, summary, description| {
        get(path, id, summary)
            .path_parameter::<schema::Id>("id", description)
            .returns::<ShownWhy>(200, "The explanation.")
    };
    vec![
        post("/v1/request", "requests.ask", "Send a request and wait for the answer.")
            .request_body::<RequestWithRetries<'_>>()
            .returns::<Message>(200, "The answer.")
            .handled_by(request),
        get(
            "/v1/requests",
            "requests.list",
            "List requests and their state, newest first. Agents see only their own.",
        )
        .query_parameters::<ListQuery>()
        .returns_page::<ShownRequest>("requests")
        .handled_in_bulk_by(list),
        get("/v1/requests/{id}", "requests.get", "Get a request and its state.")
            .path_parameter::<schema::Id>("id", "Request ID, or the ID assigned by the requester.")
            .returns::<ShownRequest>(200, "The request. Visible to the requester and to operators.")
            .handled_by(show),
        post("/v1/requests/{id}/cancel", "requests.cancel", "Cancel a request.")
            .path_parameter::<schema::Id>("id", "Request ID, or the ID assigned by the requester.")
            .returns::<ChangeReceipt>(200, "The request is cancelled.")
            .handled_by(cancel),
        explanation(
            "/v1/messages/{id}/why",
            "messages.why",
            "Explain where a message is, what it waits for, and what happens next.",
            "Message ID, or the ID assigned by its sender.",
        )
        .handled_by(why),
        explanation(
            "/v1/tasks/{id}/why",
            "tasks.why",
            "Explain the state of a task, what it waits for, and what happens next.",
            "Task ID.",
        )
        .handled_by(why),
        explanation(
            "/v1/procedures/{id}/why",
            "procedures.why",
            "Explain the phase of a procedure, since when it lasts, and which driver continues it.",
            "Procedure ID.",
        )
        .handled_by(why),
    ]
}

/// Sends a request and returns the response message. If the caller disconnects, the request is cancelled, unless it
/// has an idempotency key or client id: then the caller may retry.
///
/// After a transient failure it is sent again, if the caller asks for it.
pub(crate) async fn request(call: Call) -> ApiResult {
    let (send_request, retries) = parse_request(&call, take_retries).await?;
    let (waiting, space) = (&call, &call.space);
    let pause = |delay| {
        waiting.wait(async move {
            space.sleep(delay).await;
            Ok(())
        })
    };
    let answer = retry_request(retries, Problem::code, pause, |attempt| ask(&call, &send_request, attempt));
    let answer = answer.await?;
    ok_response(&views::message(answer.id, answer.at, &answer.message))
}

/// Sends a request once and waits for the answer.
async fn ask(
    call: &Call,
    send_request: &SendRequest,
    Attempt { retries, retry_of }: Attempt,
) -> Result<Answer, FailedRequest<Problem>> {
    let not_sent = |error: Error| FailedRequest { request: None, error: error.into() };
    if send_request.message.durability == Durability::Ephemeral {
        let timeout = send_request.timeout_ms.map(Duration::from_millis);
        let message = CoreMessage::clone(&send_request.message);
        let answer = call.space.request_ephemeral(&call.principal, call.epoch, message, timeout);
        return answer.await.map_err(not_sent);
    }
    let send_request = match retries {
        0 => send_request.clone(),
        _ => send_request.for_retry(retries, retry_of),
    };
    let has_client_id = send_request.message.client_id.is_some();
    let sent = match &call.key {
        Some(_) => call.space.request_idempotent(&|ops| call.retry_commit(ops, retries), send_request).await,
        None => call.space.request(&call.principal, call.epoch, send_request).await,
    };
    let sent = sent.map_err(not_sent)?;
    // Dropped in reverse order: cancelling the request is a commit of the agent, and its connection was closed after that.
    let (connection, mut waiter) = (call.activity().open_connection(), sent);
    if has_client_id {
        waiter.keep_open();
    }
    // The request remains open, whatever ends the wait.
    let request_id = waiter.id();
    let answer = call.wait_mapping_refusal(waiter.answer(), |refused| refused.sent_request(request_id)).await;
    connection.answered();
    answer.map_err(|error| FailedRequest { request: Some(request_id), error })
}

/// Parses the request of a call; `take` takes the fields that only this call has.
pub(super) async fn parse_request<T>(
    call: &Call,
    take: impl Fn(&mut RequestFields<'_>) -> Result<T, Refused>,
) -> Result<(SendRequest, T), Problem> {
    let parsed = body::parse(&call.body).and_then(|mut fields| {
        let taken = take(&mut fields)?;
        Ok((NewRequest::parse(fields, &call.parse_context())?, taken))
    });
    match parsed {
        Ok((send_request, taken)) => {
            let mut message = CoreMessage::clone(&send_request.message);
            observe::propagate_trace(&call.app, &call.space, &mut message, call.trace).await;
            Ok((send_request.with_message(message), taken))
        }
        Err(refused) => {
            call.raise_flag_or_refuse(&call.body, refused).await?;
            Err(flag_has_no_answer().into())
        }
    }
}

pub(super) fn request_view(call: &Call, request: &Request) -> ShownRequest {
    let published = call.space.published();
    ShownRequest::new(&published.agents, &published.generations, request)
}

/// Lists requests: agents see their own, other principals see all.
pub(crate) async fn list(call: Call) -> ApiResult {
    let matches = |request: &Request| call.can_see(Some(request.from));
    super::list(&call, "requests", call.query()?, matches, |request| request_view(&call, request)).await
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let request = visible_request(&call, &id).await?;
    ok_response(&request_view(&call, &request))
}

/// Returns a request by its id or client id, if the caller may see it.
pub(super) async fn visible_request(call: &Call, id: &str) -> Result<Request, Error> {
    let found = async { call.space.item::<Request>(&id_of(call, id).await?).await };
    match found.await {
        Ok(request) if call.can_see(Some(request.from)) => Ok(request),
        Err(error) if error.code() != Code::NotFound => Err(error),
        // Names the id as given: the id of a message with this client id is not visible to the caller.
        Ok(_) | Err(_) => Err(Refused::new(Code::NotFound, format!("there is no request {id}"))
            .hint("check the id; agents see only requests they sent; inspect a message with `why`")
            .into()),
    }
}

async fn id_of(call: &Call, id: &str) -> Result<MessageId, Error> {
    match id.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(call.space.message_by_client_id(&ClientId::new(id)?).await?.id),
    }
}

pub(crate) async fn cancel(Path(id): Path<String>, call: Call) -> ApiResult {
    let request = visible_request(&call, &id).await?.id;
    let receipt = call.commit(vec![Op::CancelRequest { request }]).await?;
    ok_response(&ChangeReceipt::from(&receipt))
}

/// Explains the state of a message, task or procedure.
pub(crate) async fn why(Path(id): Path<String>, call: Call) -> ApiResult {
    let explanation = match call.space.why(&id).await {
        Err(error) if error.code() == Code::NotFound => return Err(why_not_found(&id).into()),
        explanation => explanation?,
    };
    ok_response(&ShownWhy::from(&visible_why(&call, &id, explanation).await?))
}

/// Refusal for something that does not exist or is not visible to the caller.
fn why_not_found(id: &str) -> Refused {
    Refused::new(Code::NotFound, format!("there is no message, task, approval or procedure {id}"))
        .hint("check the id; agents see only messages they sent or received, and approvals that concern them")
}

/// Restricts an explanation to what the caller may see; otherwise not found.
async fn visible_why(call: &Call, id: &str, explanation: Why) -> Result<Why, Problem> {
    if call.calling_agent().is_none() {
        return Ok(explanation);
    }
    if let Ok(message) = explanation.id.parse::<MessageId>() {
        let full_view = call.space.message(message).await?;
        let delivery_count = full_view.deliveries.len();
        let view = visible(call, full_view).ok_or_else(|| why_not_found(id))?;
        if view.message.from.as_ref() == call.calling_agent() || view.deliveries.len() == delivery_count {
            return Ok(explanation);
        }
        let is_own = |part: &Why| view.deliveries.iter().any(|delivery| delivery.id.to_string() == part.id);
        return Ok(Why::of_message(explanation.id, explanation.parts.into_iter().filter(is_own).collect()));
    }
    if let Ok(approval) = explanation.id.parse::<ApprovalId>()
        && let Ok(approval) = call.space.item(&approval).await
        && !approvals::is_visible(call, &approval)
    {
        return Err(why_not_found(id).into());
    }
    Ok(explanation)
}
