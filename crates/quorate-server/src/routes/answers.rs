//! Questions that are asked without waiting, and the answers to them as they come: for questions to several, and for
//! whoever comes back after a break.

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
use crate::api::{Route, get, post, words};
use crate::call::{Answer, Call, answer, ok};

/// Answers that are told at once, if their payloads do not fill the page before; and those of the same record as the last,
/// which one request brought.
const ANSWERS_MAX: usize = 64;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/requests", "requests.begin", "Asks one or several, and does not wait for the answers.")
            .body::<NewRequest<'_>>()
            .answers::<ShownRequest>(201, "It is asked.")
            .to(begin),
        get(
            "/v1/requests/{id}/answers",
            "requests.answers",
            "The answers to a question in the order in which they came; waits for the next one if asked to.",
        )
        .path::<words::Id>("id")
        .query::<Wanted>()
        .answers::<Answers>(200, "The answers, for whoever asked and those who run the hub.")
        .to(answers),
    ]
}

/// Asks. Under a key, or if the question has an id, asking again is the same request.
pub(crate) async fn begin(call: Call) -> Answer {
    let ask = asked(&call).await?;
    if ask.message.durability == Durability::Ephemeral {
        return Err(Refused::new(
            Code::Invalid,
            "nobody can come back for the answer to an ephemeral message",
        )
        .hint("ask with POST /v1/request, which waits, or leave durability out")
        .into());
    }
    let receipt = call.space.commit(call.as_commit(vec![Op::Request(ask)])).await?;
    match receipt.results.first() {
        Some(OpResult::Requested { id, .. }) => {
            let request = call.space.item(id).await?;
            answer(StatusCode::CREATED, &shown(&call, &request))
        }
        Some(OpResult::Received) => Err(nobody_answers_a_flag().into()),
        _ => Err(Refused::new(Code::Unavailable, "the request was not answered").into()),
    }
}

/// Which answers.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    /// Where to go on, as the page before told.
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
    /// How long to wait if there is none yet. For whoever asked.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
}

pub(crate) async fn answers(Path(id): Path<String>, call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let wait = checked_wait(call.times(), wanted.wait_ms)?;
    let after = Seq(number_in(wanted.cursor.as_deref())?);
    let mut request = own(&call, &id).await?;
    let is_open = request.state == RequestState::Waiting;
    if is_open && !wait.is_zero() && newer(&request, after).is_empty() {
        call.waiting(next_after(&call, request.id, after, wait)).await?;
        request = own(&call, &id).await?;
    }
    let came = newer(&request, after);
    let (mut last, mut told, mut bytes) = (after, Vec::new(), 0);
    for (seq, n) in &came {
        if (told.len() >= ANSWERS_MAX || bytes >= PAGE_BYTES_MAX) && *seq != last {
            break;
        }
        last = *seq;
        let view = call.space.message(call.space.published().eras.message_id(*seq, *n)).await?;
        bytes += view.message.payload.bytes.len();
        told.push(quorate_engine::views::message(view.id, view.at, &view.message));
    }
    let goes_on = request.state == RequestState::Waiting || told.len() < came.len();
    let cursor = goes_on.then(|| last.0.to_string());
    ok(&Answers { page: AnswersPage { answers: told, cursor }, status: (&request.state).into() })
}

/// The answers of later records than this, in order.
fn newer(request: &Request, after: Seq) -> Vec<(Seq, u32)> {
    let mut came: Vec<_> = request.answers().filter(|(seq, _)| *seq > after).collect();
    came.sort_unstable();
    came
}

/// Waits for one more answer, for the end of the request, or for so long.
async fn next_after(call: &Call, id: MessageId, after: Seq, wait: Duration) -> Result<(), Error> {
    let mut asking = call.space.await_request(&call.principal, call.epoch, id).await?;
    // Whoever waits may come back.
    asking.stays();
    let came = async {
        loop {
            match asking.next().await {
                Ok(Some(answer)) if !is_after(answer.id, after) => {}
                Err(error) if error.code() == Code::StaleEpoch => return Err(error),
                // How it ended stands in the request.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    };
    tokio::select! {
        came = came => came,
        () = call.space.pass(wait) => Ok(()),
    }
}

fn is_after(id: MessageRef, after: Seq) -> bool {
    match id {
        MessageRef::Durable(id) => id.seq > after,
        MessageRef::Ephemeral(_) | MessageRef::Flag => true,
    }
}
