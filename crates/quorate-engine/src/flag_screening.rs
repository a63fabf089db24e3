//! Screening for conduct flags that arrive as messages. Content marked `coc_violation_flag` or
//! `PRIVATE_TO_MODERATORS` is raised as a private flag and never reaches the public log. Every commit and every
//! ephemeral message is screened before any other processing. See `docs/decisions/0025-private-flags.md`.

mod envelope;
mod marker;

use quorate_core::hex;
use quorate_core::{
    Code, Commit, CompleteTask, FailTask, HeartbeatTask, IdempotencyKey, Message, Op, OpResult, Payload,
    Principal, Receipt, Refused,
};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::flags::FlagRequest;
use crate::space::Space;
use envelope::Envelope;
use marker::{Mark, mark_of, may_be_marked};
pub use marker::{is_flag_marker, is_marked};

/// Operations of a commit that were raised as flags. Used to map results of the remaining operations back to the
/// indexes of the original commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlaggedOps {
    /// Indexes starting at 0, ascending.
    raised: Vec<usize>,
}

impl FlaggedOps {
    /// Returns the index in the original commit of an operation of the remaining commit.
    fn original(&self, index: usize) -> usize {
        self.raised.iter().fold(index, |index, raised| if *raised <= index { index + 1 } else { index })
    }

    /// Adds the results of the flagged operations to a receipt.
    pub(crate) fn restore_results(&self, mut receipt: Receipt) -> Receipt {
        for index in &self.raised {
            receipt.results.insert((*index).min(receipt.results.len()), OpResult::Received);
        }
        receipt
    }

    /// Maps the indexes of a refusal to those of the original commit.
    pub(crate) fn restore_indexes(&self, mut refused: Refused) -> Refused {
        refused.facts.op = refused.facts.op.map(|op| self.original(op));
        for stale in &mut refused.facts.stale {
            stale.op = self.original(stale.op);
        }
        refused
    }
}

/// Commit without its private parts.
struct Screened {
    rest: Commit,
    flagged: FlaggedOps,
    flags: Vec<Flagged>,
}

/// Flag to raise.
struct Flagged {
    report: Vec<u8>,
    /// Client-assigned ID. A flag is raised only once per ID.
    client_id: Option<String>,
}

impl Space {
    /// Whether a commit has to be screened. Only searches its payloads for a few keywords.
    pub(crate) fn may_contain_flags(commit: &Commit) -> bool {
        commit.ops.iter().any(may_contain_flag)
    }

    /// Raises marked content as flags and returns the remaining commit; `None` if nothing is left. Flags are raised
    /// first: they remain if the rest is refused, and a retry of the same commit does not raise them again.
    pub(crate) async fn extract_flags(&self, commit: Commit) -> Result<(Option<Commit>, FlaggedOps), Error> {
        // Identifies the commit in case of a retry.
        let identity = match &commit.key {
            Some((key, _)) => Some(key.to_string()),
            None => IdempotencyKey::new("whole").ok().and_then(|key| {
                let digest = commit.clone().keyed(key).key?.1;
                Some(hex::encode(&digest))
            }),
        };
        let is_keyed = commit.key.is_some();
        let Screened { mut rest, flagged, flags } = self.screen(commit)?;
        if flags.is_empty() {
            return Ok((Some(rest), flagged));
        }
        // A commit that consists only of flags behaves like `POST /v1/flags`: without a key, each call raises a new
        // flag.
        let identity = identity.filter(|_| is_keyed || !rest.ops.is_empty());
        for (n, flag) in flags.into_iter().enumerate() {
            let key = flag.client_id.as_ref().map(|id| format!("id {id}"));
            let key = key.or_else(|| identity.as_ref().map(|identity| format!("commit {n} {identity}")));
            self.raise_flag(&rest.principal, key, flag.report).await?;
        }
        if rest.ops.is_empty() {
            return Ok((None, flagged));
        }
        // The log contains the fingerprint of the request, which must not depend on private content.
        if let Some((key, _)) = rest.key.take() {
            rest = rest.keyed(key);
        }
        Ok((Some(rest), flagged))
    }

    /// Screens an ephemeral message; returns `None` if it was raised as a flag.
    pub(crate) async fn extract_message_flag(
        &self,
        principal: &Principal,
        message: Message,
    ) -> Result<Option<Message>, Error> {
        if !may_be_flag(&message) {
            return Ok(Some(message));
        }
        let commit = Commit::new(principal.clone(), vec![Op::send(message)]);
        let (rest, _) = Box::pin(self.extract_flags(commit)).await?;
        Ok(rest.and_then(|rest| match rest.ops.into_iter().next() {
            Some(Op::Send { message, .. }) => Some(std::sync::Arc::unwrap_or_clone(message)),
            _ => None,
        }))
    }

    /// Raises a JSON object that no endpoint could parse as a message, if it is marked. Returns whether it was.
    ///
    /// # Errors
    /// As [`crate::Flags::raise`]; the refusal is not recorded.
    pub async fn raise_if_marked(
        &self,
        principal: &Principal,
        key: Option<&IdempotencyKey>,
        json: &bytes::Bytes,
    ) -> Result<bool, Error> {
        if !json.trim_ascii_start().starts_with(b"{") || !is_marked(json) {
            return Ok(false);
        }
        let key = key.map(|key| format!("body {key}"));
        self.raise_flag(principal, key, json.to_vec()).await.map(|()| true)
    }

    async fn raise_flag(
        &self,
        principal: &Principal,
        key: Option<String>,
        report: Vec<u8>,
    ) -> Result<(), Error> {
        let unavailable = || {
            Refused::new(Code::Unavailable, "this hub has no private store for conduct flags")
                .hint("raise the flag on a hub started with `quorate serve` or Hub::open")
                .private()
        };
        let flags = self.engine().flags(self.number()).ok_or_else(unavailable)?;
        let key = key.map(hashed_key).transpose()?;
        let report = bytes::Bytes::from(report);
        let request = FlagRequest { principal, key: key.as_ref(), content: [b"message", &report] };
        flags.raise(&request, &report).await.map_err(|error| match error {
            Error::Refused(refused) => refused.private().into(),
            other => other,
        })
    }

    /// Removes the private parts of a commit.
    fn screen(&self, commit: Commit) -> Result<Screened, Refused> {
        let mut screened = Screened {
            rest: Commit { ops: Vec::with_capacity(commit.ops.len()), ..commit.clone() },
            flagged: FlaggedOps::default(),
            flags: Vec::new(),
        };
        for (index, op) in commit.ops.into_iter().enumerate() {
            if !may_contain_flag(&op) {
                screened.rest.ops.push(op);
                continue;
            }
            let (op, flag) = self.screen_op(op, &commit.principal).map_err(|refused| refused.at_op(index))?;
            screened.flags.extend(flag);
            match op {
                Some(op) => screened.rest.ops.push(op),
                None => screened.flagged.raised.push(index),
            }
        }
        Ok(screened)
    }

    /// Returns an operation without its private parts, if anything is left of it, and the flag to raise.
    fn screen_op(&self, op: Op, by: &Principal) -> Result<(Option<Op>, Option<Flagged>), Refused> {
        match op {
            Op::Send { message, .. } => {
                let (rest, flag) = self.screen_message(&message);
                Ok((rest.map(Op::send), flag))
            }
            Op::Request(request) => {
                let (rest, flag) = self.screen_message(&request.message);
                let rest = rest.map(|message| Op::Request(request.with_message(message)));
                Ok((rest, flag))
            }
            Op::CompleteTask(complete) => {
                let report = |result| Envelope::of_completion(&complete, result);
                let (result, flag) = self.screen_payload(complete.result.as_ref(), report);
                Ok((Some(Op::CompleteTask(CompleteTask { result, ..complete })), flag))
            }
            Op::FailTask(fail) => {
                let report = |details| Envelope::of_failure(&fail, details);
                let (details, flag) = self.screen_payload(fail.details.as_ref(), report);
                Ok((Some(Op::FailTask(FailTask { details, ..fail })), flag))
            }
            Op::HeartbeatTask(heartbeat) => {
                let report = |partial| Envelope::of_partial(&heartbeat, partial);
                let (partial, flag) = self.screen_payload(heartbeat.partial.as_ref(), report);
                Ok((Some(Op::HeartbeatTask(HeartbeatTask { partial, ..heartbeat })), flag))
            }
            // The state of a procedure driven by the hub consists of messages that were screened before.
            Op::StartProcedure(_) | Op::StepProcedure(_) if *by == Principal::System => Ok((Some(op), None)),
            op if contains_flag(&op) => Err(Refused::new(
                Code::Invalid,
                "content marked as private to moderators is not allowed in this operation",
            )
            .hint(
                "raise a flag with POST /v1/flags or send it as a message, and remove it from this operation",
            )
            .private()),
            op => Ok((Some(op), None)),
        }
    }

    fn screen_message(&self, message: &Message) -> (Option<Message>, Option<Flagged>) {
        let mark = mark_of_message(message);
        let flag = || Flagged {
            report: Envelope::of_message(message),
            client_id: message.client_id.as_ref().map(ToString::to_string),
        };
        match mark {
            Mark::None => (Some(message.clone()), None),
            Mark::Private => (None, Some(flag())),
            Mark::Concern(rest) => {
                let payload = self.reseal(&message.payload, rest);
                (Some(Message { payload, ..message.clone() }), Some(flag()))
            }
        }
    }

    fn screen_payload<'a>(
        &self,
        payload: Option<&'a Payload>,
        report: impl FnOnce(&'a Payload) -> Vec<u8>,
    ) -> (Option<Payload>, Option<Flagged>) {
        let Some(payload) = payload else { return (None, None) };
        match mark_of(&payload.bytes) {
            Mark::None => (Some(payload.clone()), None),
            Mark::Private => (None, Some(Flagged { report: report(payload), client_id: None })),
            Mark::Concern(rest) => {
                let flag = Flagged { report: report(payload), client_id: None };
                (Some(self.reseal(payload, rest)), Some(flag))
            }
        }
    }

    /// Seals other bytes with the same salt. The bytes that were sealed with it before are never written.
    fn reseal(&self, payload: &Payload, bytes: Vec<u8>) -> Payload {
        match payload.is_sealed() {
            true => Payload::seal(bytes.into(), payload.salt),
            false => Payload::unsealed(bytes.into()),
        }
    }
}

/// Whether the outcome of a request concerns only the private store.
pub(crate) fn is_private(outcome: &Result<Receipt, Error>) -> bool {
    match outcome {
        Ok(receipt) => receipt.results.first() == Some(&OpResult::Received),
        Err(Error::Refused(refused)) => refused.facts.private,
        Err(_) => false,
    }
}

/// Creates the error for a request that was raised as a flag and will never receive an answer.
#[must_use]
pub fn flag_has_no_answer() -> Refused {
    Refused::new(
        Code::Cancelled,
        "the message was stored as a conduct flag for the moderators and receives no answer",
    )
    .hint("the flag is durable; do not retry, and do not wait for an answer")
    .private()
    .sent_request("flag")
}

/// Whether a message is raised as a flag.
#[must_use]
pub fn is_flag(message: &Message) -> bool {
    mark_of_message(message) == Mark::Private
}

fn mark_of_message(message: &Message) -> Mark {
    let metadata = message.metadata.as_ref().map(String::as_bytes);
    let is_private_text = [Some(&message.action), message.rationale.as_ref()];
    if is_private_text.into_iter().flatten().any(|text| is_flag_marker(text))
        || metadata.is_some_and(is_marked)
    {
        return Mark::Private;
    }
    mark_of(&message.payload.bytes)
}

/// Fast check whether an operation has to be screened.
fn may_contain_flag(op: &Op) -> bool {
    let has_keyword = match op {
        Op::Send { message, .. } => return may_be_flag(message),
        Op::Request(request) => return may_be_flag(&request.message),
        _ => has_flag_action(op),
    };
    has_keyword || op.payloads().any(|(_, payload)| may_be_marked(&payload.bytes))
}

fn may_be_flag(message: &Message) -> bool {
    is_flag_marker(&message.action)
        || message.rationale.as_ref().is_some_and(|text| is_flag_marker(text))
        || may_be_marked(&message.payload.bytes)
        || message.metadata.as_ref().is_some_and(|text| may_be_marked(text.as_bytes()))
}

fn has_flag_action(op: &Op) -> bool {
    match op {
        Op::RequestApproval(request) => {
            is_flag_marker(&request.action)
                || request.follow_ups.iter().any(|(_, action)| is_flag_marker(action))
        }
        _ => false,
    }
}

fn contains_flag(op: &Op) -> bool {
    let is_private = |payload: &Payload| is_marked(&payload.bytes);
    let inputs_are_private = match op {
        // The inputs of several tasks are concatenated in one payload.
        Op::CreateTasks(create) => {
            create.tasks.iter().filter_map(|task| create.input_of(task)).any(|input| is_marked(&input))
        }
        _ => op.payloads().any(|(_, payload)| is_private(payload)),
    };
    inputs_are_private || has_flag_action(op)
}

fn hashed_key(text: String) -> Result<IdempotencyKey, Refused> {
    let digest = Sha256::digest(text);
    IdempotencyKey::new(hex::encode(&digest))
}
