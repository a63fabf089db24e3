//! `POST /v1/commit`: several operations, all or nothing.

use quorate_core::{Code, Epoch, IdempotencyKey, Refused};
use serde_json::json;

use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::op::{self, CommitIn};

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
    ok(&json!({"seq": receipt.seq.map(|seq| seq.0), "results": call.results(&receipt)}))
}
