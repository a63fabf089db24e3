//! Dead letters: list, get and redrive.

use std::collections::BTreeMap;

use axum::extract::Path;
use quorate_api::inbox::{DeadLetter as ShownDeadLetter, DeadLetterListQuery, RedrivenDelivery};
use quorate_core::{AgentId, Code, DeliveryId, DeliveryNo, Op, Permission, PoolNo, QueueId, Refused};
use quorate_engine::{Error, StoredDeadLetter};

use super::{check_limit, numeric_cursor};
use crate::api::{Route, get, post, schema};
use crate::call::{ApiResult, Call, ok_response, page_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/dead-letters",
            "dead-letters.list",
            "List dead letters, oldest first. Agents see only their own.",
        )
        .query_parameters::<DeadLetterListQuery>()
        .returns_page::<ShownDeadLetter>("deadLetters")
        .handled_in_bulk_by(list),
        get("/v1/dead-letters/{id}", "dead-letters.get", "Get a dead letter. Agents see only their own.")
            .path_parameter::<schema::DeliveryId>("id", "Delivery ID.")
            .returns::<ShownDeadLetter>(200, "The dead letter.")
            .handled_by(show),
        post(
            "/v1/dead-letters/{id}/redrive",
            "dead-letters.redrive",
            "Redrive a dead letter with a full set of attempts.",
        )
        .path_parameter::<schema::DeliveryId>("id", "Delivery ID.")
        .requires(Permission::Operate)
        .returns::<RedrivenDelivery>(200, "The delivery is back in its inbox.")
        .handled_by(redrive),
    ]
}

/// Lists dead letters, oldest first. Agents see only their own.
pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: DeadLetterListQuery = call.query()?;
    let named = filter.agent.map(AgentId::new).transpose()?;
    let agent = call.calling_agent().cloned().or(named);
    let limit = check_limit(filter.limit)?;
    let after = DeliveryNo(numeric_cursor(filter.cursor.as_deref())?);
    let dead_letters = call.space.dead_letters(agent.as_ref(), after, limit).await?;
    let cursor =
        dead_letters.last().filter(|_| dead_letters.len() == limit).map(|last| last.delivery.0.to_string());
    let after = dead_letters.iter().map(|dead_letter| dead_letter.delivery.0.to_string());
    page_response("deadLetters", after.zip(render(&call, &dead_letters).await?), cursor)
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let requested: DeliveryId = id.parse()?;
    let before = DeliveryNo(requested.number.0.saturating_sub(1));
    let dead_letters = call.space.dead_letters(call.calling_agent(), before, 1).await?;
    let found = render(&call, &dead_letters)
        .await?
        .into_iter()
        .find(|dead_letter| dead_letter.delivery_id == requested);
    match found {
        Some(dead_letter) => ok_response(&dead_letter),
        None => Err(Refused::new(Code::NotFound, format!("there is no dead letter {id}"))
            .hint("list dead letters with GET /v1/dead-letters; redriven ones are no longer included")
            .into()),
    }
}

async fn render(call: &Call, dead_letters: &[StoredDeadLetter]) -> Result<Vec<ShownDeadLetter>, Error> {
    let published = call.space.published();
    let pools = pools_of(call, dead_letters).await?;
    let name = |queue| match queue {
        QueueId::Agent(agent) => published.agents.get(agent).map(|agent| agent.id.to_string()),
        QueueId::Pool(pool) => pools.get(&pool).cloned(),
    };
    let render = dead_letters.iter().map(|dead_letter| ShownDeadLetter {
        delivery_id: published.generations.delivery_id(dead_letter.delivery),
        message_id: published.generations.message_id(dead_letter.seq, dead_letter.n),
        agent: name(dead_letter.to.queue()).unwrap_or_default(),
        attempts: dead_letter.attempts,
        reason: dead_letter.reason.clone(),
        at: dead_letter.at,
    });
    Ok(render.collect())
}

/// Returns the names of the letters' pools, taken from the destination of one message each.
async fn pools_of(call: &Call, dead_letters: &[StoredDeadLetter]) -> Result<BTreeMap<PoolNo, String>, Error> {
    let mut names = BTreeMap::new();
    for dead_letter in dead_letters {
        if let QueueId::Pool(pool) = dead_letter.to.queue()
            && !names.contains_key(&pool)
        {
            let id = call.space.published().generations.message_id(dead_letter.seq, dead_letter.n);
            names.insert(pool, call.space.destination(id).await?.to_string());
        }
    }
    Ok(names)
}

pub(crate) async fn redrive(Path(id): Path<String>, call: Call) -> ApiResult {
    let delivery: DeliveryId = id.parse()?;
    let receipt = call.commit(vec![Op::Redrive { delivery }]).await?;
    ok_response(&RedrivenDelivery { delivery_id: delivery, seq: receipt.seq })
}
