//! Verifies the hash chain while the hub runs: each hash must follow from the stored bytes and the previous hash.
//! Payloads and tables are checked offline by `quorate verify`.

use quorate_api::audit::{AuditVerifyQuery, DamagedRecord, LogVerification, VerifiedRange};
use quorate_core::hash_chain::{ChainVerifier, LogDamage};
use quorate_core::{Code, Refused, Seq};
use quorate_engine::Yielder;

use super::{PAGE, previous_hash, space_of};
use crate::call::{ApiResult, Call, ok_response};

/// Maximum number of records that one call of `/v1/audit/verify` checks.
const RECORDS_PER_CALL_MAX: u64 = 200_000;

pub(super) async fn verify(call: Call) -> ApiResult {
    let query: AuditVerifyQuery = call.query()?;
    let checkpoint = query.checkpoint()?;
    let busy = || {
        Refused::new(Code::Overloaded, "a verification of this log is already running").hint("retry later")
    };
    let _job = call.app.exclusive_jobs().try_start("audit.verify", call.space.number()).ok_or_else(busy)?;
    let head = call.space.published().head;
    let from = Seq(query.from.unwrap_or(1).max(1));
    let (id, name) = space_of(&call)?;
    let missing = || Refused::new(Code::NotFound, format!("record {from} does not exist yet"));
    let hash = previous_hash(&call.space, id, from).await?.ok_or_else(missing)?;
    let mut chain = ChainVerifier::starting_at(from, hash);
    let to = head.seq.min(Seq(from.0.saturating_add(RECORDS_PER_CALL_MAX - 1)));
    let (mut damage, mut yielder) = (None, Yielder::default());
    while chain.next <= to && damage.is_none() {
        let limit = PAGE.min((to.0 - chain.next.0) as usize + 1);
        let records = call.space.records_without_payloads(chain.next, limit).await?;
        if records.is_empty() {
            damage = Some((chain.next, LogDamage::Truncated));
        }
        for record in &records {
            if let Err(broken) = chain.verify_next(record) {
                damage = Some((chain.next, broken));
                break;
            }
            yielder.after_record(record).await;
        }
    }
    if damage.is_none() && to == head.seq && chain.hash != head.hash {
        damage = Some((to, LogDamage::Forked));
    }
    if let (None, Some((seq, hash))) = (damage, checkpoint) {
        damage = compare_checkpoint(&call, seq, hash).await?;
    }
    ok_response(&verdict(&name, &chain, (from, to, head.seq), damage))
}

/// Compares a checkpoint with the log.
async fn compare_checkpoint(
    call: &Call,
    seq: Seq,
    hash: &str,
) -> Result<Option<(Seq, LogDamage)>, crate::problem::Problem> {
    let records = call.space.records_without_payloads(seq, 1).await?;
    Ok(match records.first().filter(|record| record.seq == seq) {
        None => Some((seq, LogDamage::Truncated)),
        Some(record) if !quorate_core::hex::encode(&record.hash).eq_ignore_ascii_case(hash) => {
            Some((seq, LogDamage::Forked))
        }
        Some(_) => None,
    })
}

fn verdict(
    name: &str,
    chain: &ChainVerifier,
    (from, to, head): (Seq, Seq, Seq),
    damage: Option<(Seq, LogDamage)>,
) -> LogVerification {
    let verified = VerifiedRange {
        space: name.to_owned(),
        from: from.0,
        records: chain.next.0 - from.0,
        seq: chain.next.0 - 1,
        hash: quorate_core::hex::encode(&chain.hash),
    };
    LogVerification {
        ok: damage.is_none(),
        spaces: vec![verified],
        first_bad: damage.map(|(seq, broken)| DamagedRecord {
            space: name.to_owned(),
            seq: seq.0,
            damage: broken.as_str().into(),
        }),
        next: (damage.is_none() && to < head).then_some(to.0 + 1),
    }
}
