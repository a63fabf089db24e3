//! Whether the log is whole, while the hub runs: every hash follows from the stored bytes and the hash before. What else
//! there is to check (payloads, tables) needs a hub that stands still: `quorate verify`.

use quorate_core::chain::{Broken, Chain};
use quorate_core::{Code, Refused, Seq};
use quorate_engine::Pace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PAGE, previous, space_of};
use crate::call::{Answer, Call, ok};

/// Records that one call looks at; the answer says where to go on.
const LOOKED_AT_MAX: u64 = 200_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// The first record.
    from: Option<u64>,
    /// The record of a checkpoint that was kept elsewhere.
    seq: Option<u64>,
    /// The hash of that checkpoint.
    hash: Option<String>,
}

impl Wanted {
    /// The checkpoint, whole: half of one is a slip, and must not pass for a good one.
    fn checkpoint(&self) -> Result<Option<(Seq, &str)>, Refused> {
        let wrong = |what: &str| {
            let hint =
                "give seq and hash as GET /v1/audit/checkpoint told them; the hash is 64 hexadecimal digits";
            Err(Refused::new(Code::Invalid, what).hint(hint))
        };
        match (self.seq, self.hash.as_deref()) {
            (None, None) => Ok(None),
            (Some(seq), Some(hash)) => {
                if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return wrong("hash: is no hash of a record");
                }
                Ok(Some((Seq(seq), hash)))
            }
            (Some(_), None) => wrong("hash is missing: a checkpoint is a record and its hash"),
            (None, Some(_)) => wrong("seq is missing: a checkpoint is a record and its hash"),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LogVerification")]
pub(super) struct VerdictOut {
    ok: bool,
    spaces: Vec<LookedOut>,
    first_bad: Option<BadOut>,
    /// Where to go on, if there is more than one call looks at.
    next: Option<u64>,
}

/// What was looked at.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VerifiedRange")]
struct LookedOut {
    space: String,
    from: u64,
    records: u64,
    /// The last record that is right.
    seq: u64,
    /// The chain up to it.
    hash: String,
}

/// The first record that is not right.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DamagedRecord")]
struct BadOut {
    space: String,
    seq: u64,
    #[schemars(with = "Damage")]
    damage: &'static str,
}

/// What is wrong with it.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
#[expect(dead_code, reason = "only its shape is needed")]
enum Damage {
    Edited,
    Deleted,
    Reordered,
    Truncated,
    Forked,
}

pub(super) async fn verify(call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let checkpoint = wanted.checkpoint()?;
    let busy = || Refused::new(Code::Overloaded, "the log is being verified").hint("ask again in a moment");
    let _underway = call.app.exclusive().begin("audit.verify", call.space.number()).ok_or_else(busy)?;
    let head = call.space.published().head;
    let from = Seq(wanted.from.unwrap_or(1).max(1));
    let (id, name) = space_of(&call)?;
    let missing = || Refused::new(Code::NotFound, format!("there is no record {from} yet"));
    let hash = previous(&call.space, id, from).await?.ok_or_else(missing)?;
    let mut chain = Chain::before(from, hash);
    let to = head.seq.min(Seq(from.0.saturating_add(LOOKED_AT_MAX - 1)));
    let (mut bad, mut pace) = (None, Pace::default());
    while chain.next <= to && bad.is_none() {
        let limit = PAGE.min((to.0 - chain.next.0) as usize + 1);
        let records = call.space.bodies(chain.next, limit).await?;
        if records.is_empty() {
            bad = Some((chain.next, Broken::Truncated));
        }
        for record in &records {
            if let Err(broken) = chain.add(record) {
                bad = Some((chain.next, broken));
                break;
            }
            pace.after(record).await;
        }
    }
    if bad.is_none() && to == head.seq && chain.hash != head.hash {
        bad = Some((to, Broken::Forked));
    }
    if let (None, Some((seq, hash))) = (bad, checkpoint) {
        bad = against(&call, seq, hash).await?;
    }
    ok(&told(&name, &chain, (from, to, head.seq), bad))
}

/// Whether the log still holds what a checkpoint says.
async fn against(
    call: &Call,
    seq: Seq,
    hash: &str,
) -> Result<Option<(Seq, Broken)>, crate::problem::Problem> {
    let records = call.space.bodies(seq, 1).await?;
    Ok(match records.first().filter(|record| record.seq == seq) {
        None => Some((seq, Broken::Truncated)),
        Some(record) if !quorate_core::hex::encode(&record.hash).eq_ignore_ascii_case(hash) => {
            Some((seq, Broken::Forked))
        }
        Some(_) => None,
    })
}

fn told(
    name: &str,
    chain: &Chain,
    (from, to, head): (Seq, Seq, Seq),
    bad: Option<(Seq, Broken)>,
) -> VerdictOut {
    let looked = LookedOut {
        space: name.to_owned(),
        from: from.0,
        records: chain.next.0 - from.0,
        seq: chain.next.0 - 1,
        hash: quorate_core::hex::encode(&chain.hash),
    };
    VerdictOut {
        ok: bad.is_none(),
        spaces: vec![looked],
        first_bad: bad.map(|(seq, broken)| BadOut {
            space: name.to_owned(),
            seq: seq.0,
            damage: broken.as_str(),
        }),
        next: (bad.is_none() && to < head).then_some(to.0 + 1),
    }
}
