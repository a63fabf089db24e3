//! `POST /v1/commit`: several operations, all or nothing.

use std::cell::RefCell;

use quorate_core::{Code, Deed, Epoch, IdempotencyKey, Op, OpResult, Refused, Secret, TaskId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::{Route, post};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::observe;
use crate::wire::op::{self, CommitIn};
use crate::wire::result::is_private;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/commit", "commits.make", "Several operations, all or nothing, in one record.")
            .is(Deed::Commit)
            .body::<CommitIn<'_>>()
            .answers::<ReceiptOut>(200, "All of it took effect.")
            .to(commit),
    ]
}

/// What a commit came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Receipt")]
struct ReceiptOut {
    /// Its record; `null` if nothing durable changed.
    seq: Option<u64>,
    /// One for each operation, in their order: what its own call would answer with, in short.
    #[schemars(with = "Vec<Map<String, Value>>")]
    results: Vec<Value>,
}

pub(crate) async fn commit(mut call: Call) -> Answer {
    let hushed = |refused| call.hushed(&call.body, refused);
    let asked: CommitIn<'_> = body::parse(&call.body).map_err(hushed)?;
    let epoch = asked.epoch.map(Epoch).or(call.epoch);
    let key = match (asked.idempotency_key, &call.key) {
        (Some(body), Some(header)) if body != header.as_str() => {
            return Err(Refused::new(Code::Invalid, "the header and the body name two idempotency keys")
                .hint("keep one of them")
                .into());
        }
        (Some(body), _) => Some(IdempotencyKey::new(body)?),
        (None, header) => header.clone(),
    };
    let drawn = RefCell::default();
    let read = |(index, fields)| {
        let read = op::read_drawing(fields, &call.sealing(), call.by(), &drawn);
        read.map_err(|refused: Refused| refused.at_op(index))
    };
    let ops = asked.ops.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>().map_err(hushed)?;
    let drawn = drawn.into_inner();
    (call.epoch, call.key) = (epoch, key);
    let tasks: Vec<Vec<Option<TaskId>>> = ops.iter().map(chosen_ids).collect();
    let receipt = call.commit(ops).await?;
    let mut results = call.results(&receipt);
    for ((shown, result), chosen) in results.iter_mut().zip(&receipt.results).zip(tasks) {
        complete(shown, result, chosen, &drawn);
    }
    let answer = ok(&ReceiptOut { seq: receipt.happened_in().map(|seq| seq.0), results })?;
    Ok(observe::unobserved(answer, is_private(&receipt)))
}

/// The ids that whoever makes tasks chose for them.
fn chosen_ids(op: &Op) -> Vec<Option<TaskId>> {
    match op {
        Op::CreateTasks(create) => create.tasks.iter().map(|task| task.id.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Adds what only the caller's own operation tells: the ids of its tasks, and the secret of its token, this once.
fn complete(shown: &mut Value, result: &OpResult, chosen: Vec<Option<TaskId>>, drawn: &[Secret]) {
    match result {
        OpResult::TasksCreated { generation, seq, first, .. } => {
            let made = |n: usize| TaskId::made_by_hub(*generation, *seq, first + n as u32);
            let ids = chosen.into_iter().enumerate().map(|(n, id)| id.unwrap_or_else(|| made(n)));
            shown["tasks"] = ids.map(|id| json!({"id": id.as_str()})).collect();
        }
        OpResult::TokenCreated { digest, .. } => {
            let secret = drawn.iter().find(|secret| secret.digest() == *digest);
            shown["token"] = secret.map(|secret| secret.reveal().to_owned()).into();
        }
        _ => {}
    }
}
