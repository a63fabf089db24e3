//! Dead letters: what was given up, and giving it out again.

use axum::extract::Path;
use quorate_core::{AgentId, DeliveryId, DeliveryNo, Home, Op};
use serde::Deserialize;
use serde_json::json;

use super::{checked_limit, number_in};
use crate::call::{Answer, Call, ok};
use crate::wire::time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    agent: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Oldest first. An agent sees its own.
pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let named = filter.agent.map(AgentId::new).transpose()?;
    let agent = call.by().cloned().or(named);
    let limit = checked_limit(filter.limit)?;
    let after = DeliveryNo(number_in(filter.cursor.as_deref())?);
    let letters = call.space.dead_letters(agent.as_ref(), after, limit).await?;
    let cursor = letters.last().filter(|_| letters.len() == limit).map(|last| last.delivery.0.to_string());
    let published = call.space.published();
    let shown = letters.iter().map(|letter| {
        json!({
            "deliveryId": published.eras.delivery_id(letter.delivery).to_string(),
            "messageId": published.eras.message_id(letter.seq, letter.n).to_string(),
            // `null` for what was for whoever could do something, and nobody did.
            "agent": match letter.to.home() {
                Home::Agent(agent) => published.agents.get(agent).map(|agent| agent.id.to_string()),
                Home::Pool(_) => None,
            },
            "attempts": letter.attempts,
            "reason": letter.reason,
            "at": time::shown(letter.at),
        })
    });
    ok(&json!({"deadLetters": shown.collect::<Vec<_>>(), "cursor": cursor}))
}

pub(crate) async fn redrive(Path(id): Path<String>, call: Call) -> Answer {
    let delivery: DeliveryId = id.parse()?;
    let receipt = call.commit(vec![Op::Redrive { delivery }]).await?;
    ok(&json!({"deliveryId": delivery.to_string(), "seq": receipt.seq.map(|seq| seq.0)}))
}
