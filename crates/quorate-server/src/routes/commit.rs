//! `POST /v1/commit`: several operations in one atomic commit.

use std::sync::{Mutex, PoisonError};

use quorate_api::ParseContext;
use quorate_api::op::{self, Commit};
use quorate_api::result::{CommitReceipt, OperationResult, TaskRef, is_flag_receipt};
use quorate_core::{Code, Epoch, Op, OpResult, Permission, Refused, Secret, TaskId};

use crate::api::{Route, post};
use crate::body;
use crate::call::{ApiResult, Call, ok_response};
use crate::observe;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/commit", "commits.make", "Commit several operations atomically, as one record.")
            .requires(Permission::Commit)
            .request_body::<Commit<'_>>()
            .returns::<CommitReceipt>(200, "All operations took effect.")
            .handled_by(commit),
    ]
}

pub(crate) async fn commit(mut call: Call) -> ApiResult {
    let make_private = |refused| call.make_private_if_flag(&call.body, refused);
    let request: Commit<'_> = body::parse(&call.body).map_err(make_private)?;
    let epoch = request.epoch.map(Epoch).or(call.epoch);
    let key = match (request.idempotency_key, &call.key) {
        (Some(body), Some(header)) if body != *header => {
            return Err(Refused::new(
                Code::Invalid,
                "the header and the body contain different idempotency keys",
            )
            .hint("send only one of them")
            .into());
        }
        (Some(body), _) => Some(body),
        (None, header) => header.clone(),
    };
    let secrets_created = Mutex::default();
    let parse = |(index, fields)| {
        let op =
            op::parse_op(fields, &ParseContext { secrets: Some(&secrets_created), ..call.parse_context() });
        op.map_err(|refused: Refused| refused.at_op(index))
    };
    let ops = request
        .ops
        .into_iter()
        .enumerate()
        .map(parse)
        .collect::<Result<Vec<_>, _>>()
        .map_err(make_private)?;
    let secrets_created = secrets_created.into_inner().unwrap_or_else(PoisonError::into_inner);
    (call.epoch, call.key) = (epoch, key);
    let tasks: Vec<Vec<Option<TaskId>>> = ops.iter().map(chosen_ids).collect();
    let receipt = call.commit(ops).await?;
    let mut results = call.results(&receipt);
    for ((view, result), chosen) in results.iter_mut().zip(&receipt.results).zip(tasks) {
        complete(view, result, chosen, &secrets_created);
    }
    let response = ok_response(&CommitReceipt { seq: receipt.effective_seq(), results })?;
    Ok(observe::mark_unobserved(response, is_flag_receipt(&receipt)))
}

/// Returns the task ids chosen by the caller.
fn chosen_ids(op: &Op) -> Vec<Option<TaskId>> {
    match op {
        Op::CreateTasks(create) => create.tasks.iter().map(|task| task.id.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Adds data that only this call has: the ids of its tasks, and the secret of its token, which is returned only once.
fn complete(
    view: &mut OperationResult,
    result: &OpResult,
    chosen: Vec<Option<TaskId>>,
    secrets_created: &[Secret],
) {
    match result {
        OpResult::TasksCreated { generation, seq, first, count } => {
            let hub_id = |n: usize| TaskId::generated(*generation, *seq, first + n as u32);
            let ids = chosen.into_iter().enumerate().map(|(n, id)| id.unwrap_or_else(|| hub_id(n)));
            let tasks = ids.map(|id| TaskRef { id }).collect();
            *view = OperationResult::TasksCreated { count: *count, tasks };
        }
        OpResult::TokenCreated { id, digest } => {
            let secret = secrets_created.iter().find(|secret| secret.digest() == *digest);
            let token = secret.map(|secret| secret.reveal().to_owned());
            *view = OperationResult::TokenCreated { id: *id, token };
        }
        _ => {}
    }
}
