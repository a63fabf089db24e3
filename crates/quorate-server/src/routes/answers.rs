//! Asynchronous requests: send without waiting and read the answers as they arrive. For requests to several
//! recipients, and for clients that reconnect.

use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::request::{Answers, AnswersPage, NewRequest, Request as ShownRequest};
use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{Code, Durability, MessageId, Op, OpResult, Refused, Request, RequestState, Seq};
use quorate_engine::{Error, MessageRef, nobody_answers_a_flag};
use schemars::JsonSchema;
use serde::Deserialize;

use super::inbox::checked_wait;
use super::number_in;
use super::requests::{asked, own, shown};
use crate::api::{Route, get, post, schema};
use crate::call::{Answer, Call, answer, ok};

/// Maximum number of answers per page, unless payloads fill the page first. Answers of the same record stay together.
const ANSWERS_MAX: usize = 64;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/requests",
            "requests.begin",
            "Send a request to one or several recipients without waiting for answers.",
        )
        .body::<NewRequest<'_>>()
        .answers::<ShownRequest>(201, "The request is sent.")
        .to(begin),
        get(
            "/v1/requests/{id}/answers",
            "requests.answers",
            "List the answers to a request in order of arrival. Set `waitMs` to wait for the next one.",
        )
        .path::<schema::Id>("id")
        .query::<AnswersQuery>()
        .answers::<Answers>(200, "The answers. Visible to the requester and to operators.")
        .to(answers),
    ]
}

/// Sends a request. Repeating it with the same idempotency key or client id returns the same request.
pub(crate) async fn begin(call: Call) -> Answer {
    let ask = asked(&call).await?;
    if ask.message.durability == Durability::Ephemeral {
        return Err(Refused::new(Code::Invalid, "answers to an ephemeral message cannot be read later")
            .hint("use POST /v1/request, which waits for the answer, or omit durability")
            .into());
    }
    let receipt = call.space.commit(call.as_commit(vec![Op::Request(ask)])).await?;
    match receipt.results.first() {
        Some(OpResult::Requested { id, .. }) => {
            let request = call.space.item(id).await?;
            answer(StatusCode::CREATED, &shown(&call, &request))
        }
        Some(OpResult::Received) => Err(nobody_answers_a_flag().into()),
        _ => Err(Refused::new(Code::Unavailable, "the request returned no result").into()),
    }
}

/// Page of answers.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnswersQuery {
    /// Cursor of the previous page.
    #[schemars(with = "Option<schema::Cursor>")]
    cursor: Option<String>,
    /// How long to wait if there is no further answer yet. Only for the requester.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
}

pub(crate) async fn answers(Path(id): Path<String>, call: Call) -> Answer {
    let query: AnswersQuery = call.query()?;
    let wait = checked_wait(call.times(), query.wait_ms)?;
    let after = Seq(number_in(query.cursor.as_deref())?);
    let mut request = own(&call, &id).await?;
    let is_open = request.state == RequestState::Waiting;
    if is_open && !wait.is_zero() && newer(&request, after).is_empty() {
        call.waiting(next_after(&call, request.id, after, wait)).await?;
        request = own(&call, &id).await?;
    }
    let arrived = newer(&request, after);
    let (mut last, mut answers_page, mut bytes) = (after, Vec::new(), 0);
    for (seq, n) in &arrived {
        if (answers_page.len() >= ANSWERS_MAX || bytes >= PAGE_BYTES_MAX) && *seq != last {
            break;
        }
        last = *seq;
        let view = call.space.message(call.space.published().eras.message_id(*seq, *n)).await?;
        bytes += view.message.payload.bytes.len();
        answers_page.push(quorate_engine::views::message(view.id, view.at, &view.message));
    }
    let has_more = request.state == RequestState::Waiting || answers_page.len() < arrived.len();
    let cursor = has_more.then(|| last.0.to_string());
    ok(&Answers { page: AnswersPage { answers: answers_page, cursor }, status: (&request.state).into() })
}

/// Returns the answers of later records, in order.
fn newer(request: &Request, after: Seq) -> Vec<(Seq, u32)> {
    let mut arrived: Vec<_> = request.answers().filter(|(seq, _)| *seq > after).collect();
    arrived.sort_unstable();
    arrived
}

/// Waits for a further answer, the end of the request, or the timeout.
async fn next_after(call: &Call, id: MessageId, after: Seq, wait: Duration) -> Result<(), Error> {
    let mut asking = call.space.await_request(&call.principal, call.epoch, id).await?;
    // Keep the request open: the client may call again.
    asking.stays();
    let arrived = async {
        loop {
            match asking.next().await {
                Ok(Some(answer)) if !is_after(answer.id, after) => {}
                Err(error) if error.code() == Code::StaleEpoch => return Err(error),
                // The state of the request contains how it ended.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    };
    tokio::select! {
        arrived = arrived => arrived,
        () = call.space.pass(wait) => Ok(()),
    }
}

fn is_after(id: MessageRef, after: Seq) -> bool {
    match id {
        MessageRef::Durable(id) => id.seq > after,
        MessageRef::Ephemeral(_) | MessageRef::Flag => true,
    }
}
