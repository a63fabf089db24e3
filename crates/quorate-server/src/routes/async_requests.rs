//! Asynchronous requests: send without waiting and read the answers as they arrive. For requests to several
//! recipients, and for clients that reconnect.

use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::request::{AnswerListQuery, Answers, AnswersPage, NewRequest, Request as ShownRequest};
use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{Code, Durability, MessageId, Op, OpResult, Refused, Request, RequestState, Seq};
use quorate_engine::{Error, MessageRef, flag_has_no_answer};

use super::inbox::check_wait;
use super::numeric_cursor;
use super::requests::{parse_request, request_view, visible_request};
use crate::api::{Route, get, post, schema};
use crate::call::{ApiResult, Call, json_response, ok_response};
use crate::problem::Problem;

/// Maximum number of answers per page of a request, unless payloads fill the page first. Answers of the same record stay together.
const ANSWERS_MAX: usize = 64;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/requests",
            "requests.begin",
            "Send a request to one or several recipients without waiting for answers.",
        )
        .request_body::<NewRequest<'_>>()
        .returns::<ShownRequest>(201, "The request is sent.")
        .handled_by(begin),
        get(
            "/v1/requests/{id}/answers",
            "requests.answers",
            "List the answers to a request in order of arrival. Set `waitMs` to wait for the next one.",
        )
        .path_parameter::<schema::Id>("id", "Request ID, or the ID assigned by the requester.")
        .query_parameters::<AnswerListQuery>()
        .returns::<Answers>(200, "The answers. Visible to the requester and to operators.")
        .handled_by(answers),
    ]
}

/// Sends a request. Repeating it with the same idempotency key or client id returns the same request.
pub(crate) async fn begin(call: Call) -> ApiResult {
    let (send_request, ()) = parse_request(&call, |_| Ok(())).await?;
    if send_request.message.durability == Durability::Ephemeral {
        return Err(Refused::new(Code::Invalid, "answers to an ephemeral message cannot be read later")
            .hint("use POST /v1/request, which waits for the answer, or omit durability")
            .into());
    }
    let receipt = call.space.commit(call.new_commit(vec![Op::Request(send_request)])).await?;
    match receipt.results.first() {
        Some(OpResult::Requested { id, .. }) => {
            let request = call.space.item(id).await?;
            json_response(StatusCode::CREATED, &request_view(&call, &request))
        }
        Some(OpResult::Received) => Err(flag_has_no_answer().into()),
        _ => Err(Problem::unknown_outcome("the request returned no result")),
    }
}

pub(crate) async fn answers(Path(id): Path<String>, call: Call) -> ApiResult {
    let query: AnswerListQuery = call.query()?;
    let wait = check_wait(call.durations(), query.wait_ms)?;
    let after = Seq(numeric_cursor(query.cursor.as_deref())?);
    let mut request = visible_request(&call, &id).await?;
    let is_open = request.state == RequestState::Waiting;
    if is_open && !wait.is_zero() && newer(&request, after).is_empty() {
        call.wait(next_after(&call, request.id, after, wait)).await?;
        request = visible_request(&call, &id).await?;
    }
    let arrived = newer(&request, after);
    let (mut last, mut answers_page, mut bytes) = (after, Vec::new(), 0);
    for (seq, n) in &arrived {
        if (answers_page.len() >= ANSWERS_MAX || bytes >= PAGE_BYTES_MAX) && *seq != last {
            break;
        }
        last = *seq;
        let view = call.space.message(call.space.published().generations.message_id(*seq, *n)).await?;
        bytes += view.message.payload.bytes.len();
        answers_page.push(quorate_engine::views::message(view.id, view.at, &view.message));
    }
    let has_more = request.state == RequestState::Waiting || answers_page.len() < arrived.len();
    let cursor = has_more.then(|| last.0.to_string());
    ok_response(&Answers {
        page: AnswersPage { answers: answers_page, cursor },
        status: (&request.state).into(),
    })
}

/// Returns the answers of later records, in order.
fn newer(request: &Request, after: Seq) -> Vec<(Seq, u32)> {
    let mut arrived: Vec<_> = request.replies().filter(|(seq, _)| *seq > after).collect();
    arrived.sort_unstable();
    arrived
}

/// Waits for a further answer, the end of the request, or the timeout.
async fn next_after(call: &Call, id: MessageId, after: Seq, wait: Duration) -> Result<(), Error> {
    let mut waiter = call.space.await_request(&call.principal, call.epoch, id).await?;
    // Keep the request open: the client may call again.
    waiter.keep_open();
    let arrived = async {
        loop {
            match waiter.next().await {
                Ok(Some(answer)) if !is_after(answer.id, after) => {}
                Err(error) if error.code() == Code::StaleEpoch => return Err(error),
                // The state of the request contains how it ended.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    };
    tokio::select! {
        arrived = arrived => arrived,
        () = call.space.sleep(wait) => Ok(()),
    }
}

fn is_after(id: MessageRef, after: Seq) -> bool {
    match id {
        MessageRef::Durable(id) => id.seq > after,
        MessageRef::Ephemeral(_) | MessageRef::Flag => true,
    }
}
