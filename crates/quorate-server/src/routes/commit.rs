//! `POST /v1/commit`: several operations, all or nothing.

use quorate_core::{Code, Epoch, IdempotencyKey, Refused};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::{Route, post};
use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::op::{self, CommitIn};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/commit", "commits.make", "Several operations, all or nothing, in one record.")
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
    let asked: CommitIn<'_> = body::parse(&call.body)?;
    let epoch = asked.epoch.map(Epoch).or(call.epoch);
    let key = match (asked.idempotency_key, &call.key) {
        (Some(body), Some(header)) if body != header.as_str() => {
            return Err(
                Refused::new(Code::Invalid, "the header and the body name two idempotency keys").into()
            );
        }
        (Some(body), _) => Some(IdempotencyKey::new(body)?),
        (None, header) => header.clone(),
    };
    let read = |(index, fields)| {
        op::read(fields, &call.sealing(), call.by()).map_err(|refused: Refused| refused.at_op(index))
    };
    let ops = asked.ops.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    (call.epoch, call.key) = (epoch, key);
    let receipt = call.commit(ops).await?;
    ok(&ReceiptOut { seq: receipt.seq.map(|seq| seq.0), results: call.results(&receipt) })
}
