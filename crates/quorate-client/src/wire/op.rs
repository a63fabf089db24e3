//! Conversion of commits and their results.

use quorate::Error;
use quorate_api::RawJson;
use quorate_api::op::{self, CommitBody};
use quorate_api::result::{self, CommitReceipt};
use quorate_core::{Epoch, Op, OpResult};

use super::task::task_graph;
use super::{to_json, unexpected_response};

/// Serializes a commit. It always has an idempotency key, so that it can be retried.
pub(crate) fn commit_json(ops: &[Op], key: &str, epoch: Option<Epoch>) -> Result<String, Error> {
    let ops = ops
        .iter()
        .map(|op| op::serialize_op(op, |create| task_graph(create, key)))
        .collect::<Result<_, _>>()?;
    to_json(&CommitBody { ops, idempotency_key: key, epoch: epoch.map(|epoch| epoch.0) })
}

/// Parses the results of a commit, one for each operation.
pub(crate) fn parse_results(receipt: &CommitReceipt<RawJson>, ops: &[Op]) -> Result<Vec<OpResult>, Error> {
    if receipt.results.len() != ops.len() {
        let (results, ops) = (receipt.results.len(), ops.len());
        return Err(unexpected_response(&format!("{results} results for {ops} operations")));
    }
    let results = receipt.results.iter().zip(ops);
    results
        .map(|(raw, op)| result::parse_result(op, raw.as_str()).map_err(|error| unexpected_response(&error)))
        .collect()
}

#[cfg(test)]
mod tests {
    use quorate::Code;
    use quorate_api::RawJson;
    use quorate_api::result::CommitReceipt;
    use quorate_core::{AgentId, LeaseRef, LeaseToken, LockName, Op, OpResult, Seq};

    use super::{commit_json, parse_results};

    fn receipt(results: &[&'static str]) -> CommitReceipt<RawJson> {
        let results = results.iter().map(|text| RawJson(text.as_bytes().into())).collect();
        CommitReceipt { seq: Some(Seq(7)), results }
    }

    fn ack() -> Op {
        Op::Ack(LeaseRef { delivery: "dlv_0-9".parse().unwrap(), token: LeaseToken(4) })
    }

    // Fails under: an operation without a JSON representation.
    #[test]
    fn locks_and_registrations_can_be_part_of_a_commit() {
        let agent: AgentId = "alice".parse().unwrap();
        let lock: LockName = "build".parse().unwrap();
        let ops = [
            Op::RegisterAgent(quorate_core::RegisterAgent::named(agent.clone())),
            Op::AckMany(vec![LeaseRef { delivery: "dlv_0-9".parse().unwrap(), token: LeaseToken(4) }]),
            Op::AcquireLocks(quorate_core::AcquireLocks {
                agent,
                names: vec![lock],
                ttl_ms: 1_000,
                priority: quorate_core::Priority::NORMAL,
                capacity: None,
                wait: quorate_core::WaitMode::NoWait,
                within: None,
            }),
        ];
        let body = commit_json(&ops, "key", None).unwrap();
        for name in ["agent.register", "ack", "lock.acquire"] {
            assert!(body.contains(&format!("{{\"op\":\"{name}\"")), "{name}: {body}");
        }
    }

    // Fails under: an unknown result that is parsed as a success.
    #[test]
    fn an_incomplete_result_is_an_error() {
        assert_eq!(
            parse_results(&receipt(&[r#"{"seq":6}"#]), &[ack()]).unwrap(),
            [OpResult::Acked { seq: Seq(6) }]
        );
        for incomplete in ["{}", r#"{"version":1}"#] {
            let error = parse_results(&receipt(&[incomplete]), &[ack()]).unwrap_err();
            assert_eq!(error.code(), Code::Unavailable);
            assert!(!error.nothing_applied(), "the commit took effect");
            assert!(error.to_string().contains("seq"), "{error}");
        }
        let error = parse_results(&receipt(&[]), &[ack()]).unwrap_err();
        assert!(error.to_string().contains("0 results for 1 operations"), "{error}");
    }
}
