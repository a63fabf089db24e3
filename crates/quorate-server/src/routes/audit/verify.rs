//! Verifies the hash chain while the hub runs: each hash must follow from the stored bytes and the previous hash.
//! Payloads and tables are checked offline by `quorate verify`.

use quorate_core::hash_chain::{ChainVerifier, LogDamage};
use quorate_core::{Code, Refused, Seq};
use quorate_engine::Yielder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PAGE, previous_hash, space_of};
use crate::call::{ApiResult, Call, ok_response};

/// Maximum number of records per call; the response states where to continue.
const RECORDS_PER_CALL_MAX: u64 = 200_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifyQuery {
    /// Sequence number of the first record; 1 by default.
    from: Option<u64>,
    /// Sequence number of a checkpoint stored elsewhere.
    seq: Option<u64>,
    /// Hash of that checkpoint.
    hash: Option<String>,
}

impl VerifyQuery {
    /// Returns the checkpoint. Rejects an incomplete one, which would otherwise pass unchecked.
    fn checkpoint(&self) -> Result<Option<(Seq, &str)>, Refused> {
        let invalid = |what: &str| {
            let hint = "send seq and hash as returned by GET /v1/audit/checkpoint; the hash has 64 hexadecimal digits";
            Err(Refused::new(Code::Invalid, what).hint(hint))
        };
        match (self.seq, self.hash.as_deref()) {
            (None, None) => Ok(None),
            (Some(seq), Some(hash)) => {
                if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return invalid("hash: not a valid record hash");
                }
                Ok(Some((Seq(seq), hash)))
            }
            (Some(_), None) => invalid("hash is missing: a checkpoint consists of seq and hash"),
            (None, Some(_)) => invalid("seq is missing: a checkpoint consists of seq and hash"),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LogVerification")]
pub(super) struct VerificationOut {
    ok: bool,
    spaces: Vec<VerifiedOut>,
    first_bad: Option<DamagedOut>,
    /// Sequence number to continue from, if the log is longer than one call verifies.
    next: Option<u64>,
}

/// Verified range.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VerifiedRange")]
struct VerifiedOut {
    space: String,
    from: u64,
    records: u64,
    /// Sequence number of the last valid record.
    seq: u64,
    /// Hash of that record.
    hash: String,
}

/// First damaged record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DamagedRecord")]
struct DamagedOut {
    space: String,
    seq: u64,
    #[schemars(with = "Damage")]
    damage: &'static str,
}

/// Kind of damage.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Damage {
    Edited,
    Deleted,
    Reordered,
    Truncated,
    Forked,
}

pub(super) async fn verify(call: Call) -> ApiResult {
    let wanted: VerifyQuery = call.query()?;
    let checkpoint = wanted.checkpoint()?;
    let busy = || {
        Refused::new(Code::Overloaded, "a verification of this log is already running").hint("retry later")
    };
    let _job = call.app.exclusive_jobs().try_start("audit.verify", call.space.number()).ok_or_else(busy)?;
    let head = call.space.published().head;
    let from = Seq(wanted.from.unwrap_or(1).max(1));
    let (id, name) = space_of(&call)?;
    let missing = || Refused::new(Code::NotFound, format!("record {from} does not exist yet"));
    let hash = previous_hash(&call.space, id, from).await?.ok_or_else(missing)?;
    let mut chain = ChainVerifier::starting_at(from, hash);
    let to = head.seq.min(Seq(from.0.saturating_add(RECORDS_PER_CALL_MAX - 1)));
    let (mut damage, mut pace) = (None, Yielder::default());
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
            pace.after_record(record).await;
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
) -> VerificationOut {
    let verified = VerifiedOut {
        space: name.to_owned(),
        from: from.0,
        records: chain.next.0 - from.0,
        seq: chain.next.0 - 1,
        hash: quorate_core::hex::encode(&chain.hash),
    };
    VerificationOut {
        ok: damage.is_none(),
        spaces: vec![verified],
        first_bad: damage.map(|(seq, broken)| DamagedOut {
            space: name.to_owned(),
            seq: seq.0,
            damage: broken.as_str(),
        }),
        next: (damage.is_none() && to < head).then_some(to.0 + 1),
    }
}
