//! Requests of a tournament: ids, agents and payloads. Everything follows from the state, so that a run that is resumed asks
//! for exactly what is missing.

use serde_json::{Value, json};

use super::spec::TournamentSpec;
use super::state::{Attempt, Ballot, OpenMatch, TournamentState};
use super::{ARGUE, JUDGE};
use crate::machine::RequestOutput;

/// Instructions for judges.
const TO_JUDGE: &str = "\
Compare `a` and `b` for the `subject`. If there are `criteria`, score both for each of them from 0 to 10. If there is a `debate`, \
consider its arguments, and check them against the contents: an eloquent argument is not evidence. The order in which the two are \
given means nothing. `winner` is \"a\", \"b\", or \"tie\" if they are equally good; `confidence` is the probability, from 0 to 1, that \
it is right. If the request contains `wrong`, your previous answer was rejected for that reason: correct it.";
/// Instructions for debaters.
const TO_ARGUE: &str = "\
Argue that `own` is better than `other` for the `subject`. Use only what their contents support, and answer the arguments of the \
other side in `debate`. At most 200 words. If the request contains `wrong`, your previous answer was rejected for that reason: \
correct it.";

/// A request that a match waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RequestId {
    /// Number of the match.
    pub(super) number: u32,
    pub(super) subject: RequestSubject,
    /// Number of failed attempts before.
    pub(super) failed: u32,
}

/// What is requested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum RequestSubject {
    /// The argument with this index.
    Argument(usize),
    /// The ballot with this index.
    Ballot(usize),
}

impl RequestId {
    /// Returns the id of the request within the procedure.
    pub(super) fn to_text(self) -> String {
        let Self { number, failed, subject } = self;
        match subject {
            RequestSubject::Argument(index) => format!("match-{number}:argument-{index}:{failed}"),
            RequestSubject::Ballot(index) => format!("match-{number}:ballot-{index}:{failed}"),
        }
    }

    /// Parses [`RequestId::to_text`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let number = parts.next()?.strip_prefix("match-")?.parse().ok()?;
        let (kind, index) = parts.next()?.split_once('-')?;
        let index = index.parse().ok()?;
        let subject = match kind {
            "argument" => RequestSubject::Argument(index),
            "ballot" => RequestSubject::Ballot(index),
            _ => return None,
        };
        let failed = parts.next()?.parse().ok()?;
        Some(Self { number, subject, failed })
    }
}

/// Returns the ids of the requests that a match waits for.
pub(super) fn pending_of(
    spec: &TournamentSpec,
    number: u32,
    open: &OpenMatch,
) -> impl Iterator<Item = RequestId> {
    let next_argument = open.arguments.len();
    let argument = (next_argument < spec.arguments()).then_some(RequestId {
        number,
        subject: RequestSubject::Argument(next_argument),
        failed: open.argument.failed,
    });
    let is_debated = argument.is_none();
    let ballots = open.ballots.iter().enumerate().filter_map(move |(index, ballot)| match ballot {
        Ballot::Pending(attempt) if is_debated => {
            Some(RequestId { number, subject: RequestSubject::Ballot(index), failed: attempt.failed })
        }
        Ballot::Pending(_) | Ballot::Cast(_) | Ballot::Failed(_) => None,
    });
    argument.into_iter().chain(ballots)
}

/// Returns the agent that an argument or ballot is requested from.
pub(super) fn agent_for(spec: &TournamentSpec, id: RequestId, attempt: &Attempt) -> String {
    let (agents, first) = match (id.subject, &spec.debate) {
        // The two contestants have different debaters, if there are several.
        (RequestSubject::Argument(index), Some(debate)) => (&debate.debaters, id.number as usize + index % 2),
        // The same judge casts both ballots.
        (RequestSubject::Ballot(_), _) | (RequestSubject::Argument(_), None) => {
            (&spec.judges, id.number as usize)
        }
    };
    agents[(first + attempt.moved_on as usize) % agents.len()].clone()
}

/// Returns a request with its payload; `None` if its match does not wait for it.
pub(super) fn request(
    spec: &TournamentSpec,
    state: &TournamentState,
    id: RequestId,
) -> Option<RequestOutput> {
    let open = state.open.get(&id.number)?;
    let (action, attempt, payload) = match id.subject {
        RequestSubject::Argument(index) => (ARGUE, &open.argument, argument_payload(spec, open, index)),
        RequestSubject::Ballot(index) => match &open.ballots[index] {
            Ballot::Pending(attempt) => (JUDGE, attempt, ballot_payload(spec, open, index)),
            Ballot::Cast(_) | Ballot::Failed(_) => return None,
        },
    };
    let mut payload = payload;
    payload["subject"] = json!(spec.subject);
    if !spec.criteria.is_empty() {
        payload["criteria"] = json!(spec.criteria);
    }
    if let Some(wrong) = &attempt.wrong {
        payload["wrong"] = json!(wrong);
    }
    Some(RequestOutput {
        id: id.to_text(),
        agent: agent_for(spec, id, attempt),
        action: action.to_owned(),
        payload: payload.to_string(),
        timeout_ms: spec.limits.answer_ms,
        ..RequestOutput::default()
    })
}

fn ballot_payload(spec: &TournamentSpec, open: &OpenMatch, index: usize) -> Value {
    let is_swapped = index == 1;
    let (first, second) = if is_swapped { (open.b, open.a) } else { (open.a, open.b) };
    let mut payload = json!({
        "instructions": TO_JUDGE,
        "a": spec.contestants[first].content,
        "b": spec.contestants[second].content,
        "answer": ballot_schema(spec),
    });
    if !open.arguments.is_empty() {
        let sides = if is_swapped { ["b", "a"] } else { ["a", "b"] };
        payload["debate"] = debate(open, sides);
    }
    payload
}

fn argument_payload(spec: &TournamentSpec, open: &OpenMatch, index: usize) -> Value {
    let is_first = index.is_multiple_of(2);
    let (own, other) = if is_first { (open.a, open.b) } else { (open.b, open.a) };
    let sides = if is_first { ["own", "other"] } else { ["other", "own"] };
    json!({
        "instructions": TO_ARGUE,
        "own": spec.contestants[own].content,
        "other": spec.contestants[other].content,
        "debate": debate(open, sides),
        "answer": {
            "type": "object",
            "properties": { "argument": { "type": "string" } },
            "required": ["argument"],
            "additionalProperties": false,
        },
    })
}

/// Renders the arguments. `sides` are the names of the first and second contestant of the match.
fn debate(open: &OpenMatch, sides: [&str; 2]) -> Value {
    let arguments = open.arguments.iter().enumerate();
    arguments.map(|(index, argument)| json!({ "for": sides[index % 2], "text": argument.text })).collect()
}

/// Returns the schema of a ballot.
fn ballot_schema(spec: &TournamentSpec) -> Value {
    let side = json!({ "type": "number", "minimum": 0, "maximum": 10 });
    let sides = json!({
        "type": "object",
        "properties": { "a": side, "b": side },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let mut properties = json!({
        "reasoning": { "type": "string" },
        "winner": { "enum": ["a", "b", "tie"] },
        "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
    });
    if !spec.criteria.is_empty() {
        let names = spec.criteria.iter().map(|criterion| (criterion.name.clone(), sides.clone()));
        properties["scores"] = json!({
            "type": "object",
            "properties": names.collect::<serde_json::Map<_, _>>(),
            "additionalProperties": false,
        });
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["winner", "confidence", "reasoning"],
        "additionalProperties": false,
    })
}
