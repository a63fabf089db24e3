//! Conduct flags that arrive as messages. What is marked `coc_violation_flag` or `PRIVATE_TO_MODERATORS` is raised as a
//! private flag and never reaches the log, whatever way it came: every commit and every ephemeral message passes here
//! before anything else looks at it. See `docs/decisions/0025-private-flags.md`.

mod envelope;
mod mark;

use quorate_core::hex;
use quorate_core::{
    Ask, Code, Commit, CompleteTask, FailTask, HeartbeatTask, IdempotencyKey, Message, Op, OpResult, Payload,
    Principal, Receipt, Refused,
};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::flags::Asked;
use crate::space::Space;
use envelope::Envelope;
use mark::{Mark, mark_of, may_be_marked};
pub use mark::{is_flag_word, is_marked};

/// Which operations of a commit were raised as flags, so that what comes of the rest is told by the caller's numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Counted from 0, ascending.
    raised: Vec<usize>,
}

impl Places {
    /// The place in the commit as it came, of an operation of the rest.
    fn original(&self, place: usize) -> usize {
        self.raised.iter().fold(place, |place, raised| if *raised <= place { place + 1 } else { place })
    }

    /// A receipt for the commit as it came.
    pub(crate) fn complete(&self, mut receipt: Receipt) -> Receipt {
        for place in &self.raised {
            receipt.results.insert((*place).min(receipt.results.len()), OpResult::Received);
        }
        receipt
    }

    /// A refusal of the rest, by the numbers of the commit as it came.
    pub(crate) fn renumber(&self, mut refused: Refused) -> Refused {
        refused.facts.op = refused.facts.op.map(|op| self.original(op));
        for stale in &mut refused.facts.stale {
            stale.op = self.original(stale.op);
        }
        refused
    }
}

/// A commit without what is private.
struct Screened {
    rest: Commit,
    places: Places,
    flags: Vec<Flagged>,
}

/// A flag that is to be raised.
struct Flagged {
    about: Vec<u8>,
    /// The id that its sender gave it: under it, it is raised once.
    client_id: Option<String>,
}

impl Space {
    /// Whether a commit has to be looked through. Costs a search of its payloads for a few words.
    pub(crate) fn may_hold_flags(commit: &Commit) -> bool {
        commit.ops.iter().any(may_hold_flag)
    }

    /// Raises what is marked as flags, and gives back the rest of the commit: `None` if nothing is left. Flags are raised
    /// first: if the rest is refused they stay, and the same commit again does not raise them twice.
    pub(crate) async fn set_aside(&self, commit: Commit) -> Result<(Option<Commit>, Places), Error> {
        // What makes the whole commit known, if it comes again.
        let whole = match &commit.key {
            Some((key, _)) => Some(key.to_string()),
            None => IdempotencyKey::new("whole").ok().and_then(|key| {
                let digest = commit.clone().keyed(key).key?.1;
                Some(hex::encode(&digest))
            }),
        };
        let is_keyed = commit.key.is_some();
        let Screened { mut rest, places, flags } = self.screen(commit)?;
        if flags.is_empty() {
            return Ok((Some(rest), places));
        }
        // A commit of nothing but flags is like a call of `POST /v1/flags`: without a key each call raises another one.
        let whole = whole.filter(|_| is_keyed || !rest.ops.is_empty());
        for (n, flag) in flags.into_iter().enumerate() {
            let key = flag.client_id.as_ref().map(|id| format!("id {id}"));
            let key = key.or_else(|| whole.as_ref().map(|whole| format!("commit {n} {whole}")));
            self.raise_flag(&rest.principal, key, flag.about).await?;
        }
        if rest.ops.is_empty() {
            return Ok((None, places));
        }
        // The log holds the digest of what was asked for: it must not depend on what is private.
        if let Some((key, _)) = rest.key.take() {
            rest = rest.keyed(key);
        }
        Ok((Some(rest), places))
    }

    /// The same for a message that lives in memory only; `None` if it was raised.
    pub(crate) async fn set_message_aside(
        &self,
        principal: &Principal,
        message: Message,
    ) -> Result<Option<Message>, Error> {
        if !may_be_flag(&message) {
            return Ok(Some(message));
        }
        let commit = Commit::new(principal.clone(), vec![Op::send(message)]);
        let (rest, _) = Box::pin(self.set_aside(commit)).await?;
        Ok(rest.and_then(|rest| match rest.ops.into_iter().next() {
            Some(Op::Send { message, .. }) => Some(std::sync::Arc::unwrap_or_clone(message)),
            _ => None,
        }))
    }

    /// Raises a message that no way in could read as one of its own, if it is marked: a JSON object. Says whether it was.
    ///
    /// # Errors
    /// As [`crate::Flags::raise`]; the refusal leaves no trace.
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
        about: Vec<u8>,
    ) -> Result<(), Error> {
        let none = || {
            Refused::new(
                Code::Unavailable,
                "this hub has no private store, and a conduct flag is never public",
            )
            .hint("raise it at a hub that `quorate serve` or Hub::open started")
            .private()
        };
        let flags = self.engine().flags(self.number()).ok_or_else(none)?;
        let key = key.map(hashed).transpose()?;
        let about = bytes::Bytes::from(about);
        let asked = Asked { by: principal, key: key.as_ref(), what: [b"message", &about] };
        flags.raise(&asked, &about).await.map_err(|error| match error {
            Error::Refused(refused) => refused.private().into(),
            other => other,
        })
    }

    /// Takes out what is private.
    fn screen(&self, commit: Commit) -> Result<Screened, Refused> {
        let mut screened = Screened {
            rest: Commit { ops: Vec::with_capacity(commit.ops.len()), ..commit.clone() },
            places: Places::default(),
            flags: Vec::new(),
        };
        for (place, op) in commit.ops.into_iter().enumerate() {
            if !may_hold_flag(&op) {
                screened.rest.ops.push(op);
                continue;
            }
            let (op, flag) = self.screen_op(op, &commit.principal).map_err(|refused| refused.at_op(place))?;
            screened.flags.extend(flag);
            match op {
                Some(op) => screened.rest.ops.push(op),
                None => screened.places.raised.push(place),
            }
        }
        Ok(screened)
    }

    /// An operation without what is private, if anything is left of it, and what has to be raised.
    fn screen_op(&self, op: Op, by: &Principal) -> Result<(Option<Op>, Option<Flagged>), Refused> {
        match op {
            Op::Send { message, .. } => {
                let (rest, flag) = self.screen_message(&message);
                Ok((rest.map(Op::send), flag))
            }
            Op::Request(ask) => {
                let (rest, flag) = self.screen_message(&ask.message);
                let rest = rest.map(|message| {
                    Op::Request(Ask { again: ask.again, ..Ask::new(message, ask.timeout_ms, ask.waiting) })
                });
                Ok((rest, flag))
            }
            Op::CompleteTask(complete) => {
                let about = |result| Envelope::of_completion(&complete, result);
                let (result, flag) = self.screen_payload(complete.result.as_ref(), about);
                Ok((Some(Op::CompleteTask(CompleteTask { result, ..complete })), flag))
            }
            Op::FailTask(fail) => {
                let about = |details| Envelope::of_failure(&fail, details);
                let (details, flag) = self.screen_payload(fail.details.as_ref(), about);
                Ok((Some(Op::FailTask(FailTask { details, ..fail })), flag))
            }
            Op::HeartbeatTask(heartbeat) => {
                let about = |partial| Envelope::of_partial(&heartbeat, partial);
                let (partial, flag) = self.screen_payload(heartbeat.partial.as_ref(), about);
                Ok((Some(Op::HeartbeatTask(HeartbeatTask { partial, ..heartbeat })), flag))
            }
            // What drives a procedure of the hub's own has been through here as messages.
            Op::StartProcedure(_) | Op::StepProcedure(_) if *by == Principal::System => Ok((Some(op), None)),
            op if holds_flag(&op) => Err(Refused::new(
                Code::Invalid,
                "what is marked as private to moderators can be no part of this operation",
            )
            .hint("raise it with POST /v1/flags, or send it as a message, and leave it out here")
            .private()),
            op => Ok((Some(op), None)),
        }
    }

    fn screen_message(&self, message: &Message) -> (Option<Message>, Option<Flagged>) {
        let mark = mark_of_message(message);
        let flag = || Flagged {
            about: Envelope::of_message(message),
            client_id: message.client_id.as_ref().map(ToString::to_string),
        };
        match mark {
            Mark::None => (Some(message.clone()), None),
            Mark::Private => (None, Some(flag())),
            Mark::Concern(rest) => {
                let payload = self.resealed(&message.payload, rest);
                (Some(Message { payload, ..message.clone() }), Some(flag()))
            }
        }
    }

    fn screen_payload<'a>(
        &self,
        payload: Option<&'a Payload>,
        about: impl FnOnce(&'a Payload) -> Vec<u8>,
    ) -> (Option<Payload>, Option<Flagged>) {
        let Some(payload) = payload else { return (None, None) };
        match mark_of(&payload.bytes) {
            Mark::None => (Some(payload.clone()), None),
            Mark::Private => (None, Some(Flagged { about: about(payload), client_id: None })),
            Mark::Concern(rest) => {
                let flag = Flagged { about: about(payload), client_id: None };
                (Some(self.resealed(payload, rest)), Some(flag))
            }
        }
    }

    /// Other bytes under the same salt: those that were sealed with it are never written.
    fn resealed(&self, payload: &Payload, bytes: Vec<u8>) -> Payload {
        match payload.is_sealed() {
            true => Payload::seal(bytes.into(), payload.salt),
            false => Payload::unsealed(bytes.into()),
        }
    }
}

/// Whether what came of a request concerns the private store alone.
pub(crate) fn is_private(outcome: &Result<Receipt, Error>) -> bool {
    match outcome {
        Ok(receipt) => receipt.results.first() == Some(&OpResult::Received),
        Err(Error::Refused(refused)) => refused.facts.private,
        Err(_) => false,
    }
}

/// What whoever waits for an answer is told: the question was raised, and nobody answers a flag.
#[must_use]
pub fn nobody_answers() -> Refused {
    Refused::new(
        Code::Cancelled,
        "the message is kept as a conduct flag for the moderators; nobody answers it",
    )
    .hint("it is on disk; do not repeat it, and do not wait for an answer")
    .private()
    .asked("flag")
}

/// Whether a message is raised as a flag.
#[must_use]
pub fn is_flag(message: &Message) -> bool {
    mark_of_message(message) == Mark::Private
}

fn mark_of_message(message: &Message) -> Mark {
    let metadata = message.metadata.as_ref().map(String::as_bytes);
    if is_flag_word(&message.action) || metadata.is_some_and(is_marked) {
        return Mark::Private;
    }
    mark_of(&message.payload.bytes)
}

/// A quick look: whether it is worth a closer one.
fn may_hold_flag(op: &Op) -> bool {
    let in_words = match op {
        Op::Send { message, .. } => return may_be_flag(message),
        Op::Request(ask) => return may_be_flag(&ask.message),
        _ => holds_flag_word(op),
    };
    in_words || op.payloads().any(|(_, payload)| may_be_marked(&payload.bytes))
}

fn may_be_flag(message: &Message) -> bool {
    is_flag_word(&message.action)
        || may_be_marked(&message.payload.bytes)
        || message.metadata.as_ref().is_some_and(|text| may_be_marked(text.as_bytes()))
}

fn holds_flag_word(op: &Op) -> bool {
    match op {
        Op::RequestApproval(ask) => {
            is_flag_word(&ask.action) || ask.then.iter().any(|(_, action)| is_flag_word(action))
        }
        _ => false,
    }
}

fn holds_flag(op: &Op) -> bool {
    let is_private = |payload: &Payload| is_marked(&payload.bytes);
    let inputs_are_private = match op {
        // Inputs of several tasks lie behind each other.
        Op::CreateTasks(create) => {
            create.tasks.iter().filter_map(|task| create.input_of(task)).any(|input| is_marked(&input))
        }
        _ => op.payloads().any(|(_, payload)| is_private(payload)),
    };
    inputs_are_private || holds_flag_word(op)
}

fn hashed(text: String) -> Result<IdempotencyKey, Refused> {
    let digest = Sha256::digest(text);
    IdempotencyKey::new(hex::encode(&digest))
}
