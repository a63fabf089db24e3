//! Tournament as a [`Machine`] of the procedure runtime.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use bytes::Bytes;
use quorate_core::ProcedureId;
use serde_json::{Value, json};

use super::TOURNAMENT_KIND;
use super::ballot::{CastBallot, parse_argument, parse_ballot, reported_failure};
use super::requests::{RequestId, RequestSubject, agent_for, pending_of, request};
use super::spec::TournamentSpec;
use super::standings::{Standing, standings};
use super::state::{Argument, Attempt, Ballot, ClosedMatch, OpenMatch, TournamentState};
use crate::finding::FieldError;
use crate::machine::{EntryWrite, Machine, ProcedureContext, ProcedureEvent, ProcedureOutput, Wait};

/// The tournament procedure.
///
/// The record of each match is the memory entry `tournaments/{procedure}/debates/{number}`; the standings after each round are in
/// `tournaments/{procedure}/ranking`.
pub struct TournamentMachine {
    spec: TournamentSpec,
    /// Words of the contents, for their similarity.
    words: OnceLock<Vec<BTreeSet<String>>>,
}

impl TournamentMachine {
    /// Returns the similarity of the contents of two contestants: the share of their words that both have.
    fn similarity(&self, a: usize, b: usize) -> f64 {
        let words = self.words.get_or_init(|| {
            let words = |content: &Value| crate::normalise::normalise_words(&content.to_string());
            let contestants = self.spec.contestants.iter();
            contestants
                .map(|contestant| {
                    words(&contestant.content).split(' ').map(ToOwned::to_owned).collect::<BTreeSet<_>>()
                })
                .collect()
        });
        let shared = words[a].intersection(&words[b]).count() as f64;
        shared / (words[a].union(&words[b]).count() as f64).max(1.0)
    }

    /// Returns the ids of all pending requests.
    fn pending(&self, state: &TournamentState) -> BTreeSet<RequestId> {
        state.active(&self.spec).flat_map(|(number, open)| pending_of(&self.spec, number, open)).collect()
    }

    /// Processes the answer or failure of a request. Returns false if no match waits for it.
    fn receive(&self, state: &mut TournamentState, text: &str, answer: Result<&Bytes, &str>) -> bool {
        let Some(id) = RequestId::parse(text).filter(|id| self.pending(state).contains(id)) else {
            return false;
        };
        let Some(open) = state.open.get_mut(&id.number) else { return false };
        match id.subject {
            RequestSubject::Argument(_) => self.receive_argument(open, id, answer),
            RequestSubject::Ballot(index) => self.receive_ballot(open, id, index, answer),
        }
        true
    }

    fn receive_argument(&self, open: &mut OpenMatch, id: RequestId, answer: Result<&Bytes, &str>) {
        let by = agent_for(&self.spec, id, &open.argument);
        let text = match evaluate(answer, parse_argument) {
            Ok(text) => text,
            Err(failure) if failure.count(&mut open.argument) => return,
            // The debate continues without it.
            Err(_) => String::new(),
        };
        open.arguments.push(Argument { by, text });
        open.argument = Attempt::default();
    }

    fn receive_ballot(
        &self,
        open: &mut OpenMatch,
        id: RequestId,
        index: usize,
        answer: Result<&Bytes, &str>,
    ) {
        let Ballot::Pending(attempt) = &mut open.ballots[index] else { return };
        let judge = agent_for(&self.spec, id, attempt);
        let parse = |body: &[u8]| parse_ballot(body, judge, index == 1, &self.spec);
        match evaluate(answer, parse) {
            Ok(cast) => open.ballots[index] = Ballot::Cast(cast),
            Err(failure) if failure.count(attempt) => {}
            Err(failure) => open.ballots[index] = Ballot::Failed(failure.reason()),
        }
    }

    /// Closes decided matches and rounds, and opens the next round.
    fn advance(&self, state: &mut TournamentState, procedure: &ProcedureId) -> Vec<ProcedureOutput> {
        let decided: Vec<u32> =
            state.open.iter().filter(|(_, open)| open.is_decided()).map(|(number, _)| *number).collect();
        let mut outputs = Vec::new();
        for number in decided {
            let Some(open) = state.open.remove(&number) else { continue };
            outputs.push(ProcedureOutput::Write(EntryWrite {
                key: format!("tournaments/{procedure}/debates/{number}"),
                entry_type: "debate".into(),
                content: self.record(procedure, number, state.round, &open).to_string().into_bytes(),
                expect: None,
            }));
            state.closed.push(ClosedMatch { number, a: open.a, b: open.b, score: open.score() });
        }
        if outputs.is_empty() || !state.open.is_empty() {
            return outputs;
        }
        let ends_early = state.close_round(&self.spec);
        outputs.push(ProcedureOutput::Write(EntryWrite {
            key: format!("tournaments/{procedure}/ranking"),
            entry_type: "ranking".into(),
            content: self.ranking(state).to_string().into_bytes(),
            expect: None,
        }));
        state.ended = ends_early || !state.open_round(&self.spec, |a, b| self.similarity(a, b));
        outputs
    }

    /// Returns the record of a closed match.
    fn record(&self, procedure: &ProcedureId, number: u32, round: u32, open: &OpenMatch) -> Value {
        let id = |index: usize| &self.spec.contestants[index].id;
        let score = open.score();
        let (winner, loser) = match score {
            Some(score) if score > 0.5 => (Some(id(open.a)), Some(id(open.b))),
            Some(score) if score < 0.5 => (Some(id(open.b)), Some(id(open.a))),
            Some(_) | None => (None, None),
        };
        let arguments = open.arguments.iter().enumerate().map(|(index, argument)| {
            let contestant = id(if index.is_multiple_of(2) { open.a } else { open.b });
            json!({ "for": contestant, "by": argument.by, "text": argument.text })
        });
        let mut record = json!({
            "debate_id": format!("{procedure}:match-{number}"),
            "round": round,
            "a": id(open.a),
            "b": id(open.b),
            "result": match score {
                None => "void",
                Some(_) if winner.is_some() => "decided",
                Some(_) => "tie",
            },
            "winner_id": winner,
            "loser_id": loser,
            "debate_transcript": arguments.collect::<Vec<_>>(),
            "ballots": open.ballots,
        });
        if let Some(confidence) = confidence(open) {
            record["confidence_score"] = json!(confidence);
        }
        record
    }

    fn standings(&self, state: &TournamentState) -> Vec<Standing> {
        let ids = self.spec.contestants.iter().map(|contestant| contestant.id.as_str());
        standings(ids, &state.games(), self.spec.limits.provisional_below)
    }

    fn ranking(&self, state: &TournamentState) -> Value {
        json!({ "subject": self.spec.subject, "round": state.round, "ranking": self.standings(state) })
    }

    /// Returns the final output of a tournament that has ended.
    fn result(&self, state: &TournamentState) -> ProcedureOutput {
        let void = state.closed.iter().filter(|closed| closed.score.is_none()).count();
        let mut result = json!({
            "subject": self.spec.subject,
            "ranking": self.standings(state),
            "rounds": state.round,
            "matches": state.closed.len() - void,
            "void_matches": void,
            "ended_early": self.ends_early(state),
        });
        if void == state.closed.len() {
            result["reason"] = json!("no match has a result: no judge gave two valid ballots");
            return ProcedureOutput::Fail(result.to_string().into_bytes());
        }
        ProcedureOutput::Finish(result.to_string().into_bytes())
    }

    /// Whether a contestant could have played further matches.
    fn ends_early(&self, state: &TournamentState) -> bool {
        let limits = &self.spec.limits;
        limits.stable_rounds > 0 && state.unchanged >= limits.stable_rounds
    }
}

/// Why an argument or ballot was not received.
enum RequestFailure {
    /// The agent failed.
    Failed(String),
    /// Its answer is invalid.
    Invalid(String),
}

impl RequestFailure {
    /// Counts the failure. Returns whether the request is repeated.
    fn count(&self, attempt: &mut Attempt) -> bool {
        match self {
            Self::Failed(_) => attempt.fail(),
            Self::Invalid(reason) => attempt.reject(reason.clone()),
        }
    }

    fn reason(self) -> String {
        match self {
            Self::Failed(reason) | Self::Invalid(reason) => reason,
        }
    }
}

fn evaluate<T>(
    answer: Result<&Bytes, &str>,
    parse: impl FnOnce(&[u8]) -> Result<T, FieldError>,
) -> Result<T, RequestFailure> {
    let body = answer.map_err(|reason| RequestFailure::Failed(reason.to_owned()))?;
    match reported_failure(body) {
        Some(reason) => Err(RequestFailure::Failed(reason)),
        None => parse(body).map_err(|error| RequestFailure::Invalid(error.to_string())),
    }
}

/// Confidence in the result of a match: the mean of the ballots' probabilities that the first contestant is better, or that it
/// is not. `None` unless both judges state one.
fn confidence(open: &OpenMatch) -> Option<f64> {
    let probability = |ballot: &CastBallot| {
        let confidence = ballot.confidence?;
        let score = ballot.winner.score();
        Some(score * confidence + (1.0 - score) * (1.0 - confidence))
    };
    let [Ballot::Cast(first), Ballot::Cast(second)] = &open.ballots else { return None };
    let mean = f64::midpoint(probability(first)?, probability(second)?);
    Some((mean.max(1.0 - mean) * 1e4).round() / 1e4)
}

impl Machine for TournamentMachine {
    const KIND: &'static str = TOURNAMENT_KIND;
    const GUIDE: &'static str = "docs/guides/tournaments.md";

    type State = TournamentState;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        Ok(Self { spec: TournamentSpec::parse(spec)?, words: OnceLock::new() })
    }

    fn step(
        &self,
        state: &mut TournamentState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        let before = self.pending(state);
        match &event {
            ProcedureEvent::Started => {
                state.ended = !state.open_round(&self.spec, |a, b| self.similarity(a, b));
            }
            ProcedureEvent::Resumed => {}
            ProcedureEvent::Answered { request, body, .. } => {
                if !self.receive(state, request, Ok(body)) {
                    return vec![ProcedureOutput::Ignored("an answer that no match waits for".into())];
                }
            }
            ProcedureEvent::RequestUnsent { request, reason }
            | ProcedureEvent::RequestFailed { request, reason } => {
                if !self.receive(state, request, Err(reason)) {
                    return vec![ProcedureOutput::Ignored("a failure that no match waits for".into())];
                }
            }
            ProcedureEvent::TaskEnded { .. }
            | ProcedureEvent::Decided { .. }
            | ProcedureEvent::Delivered { .. }
            | ProcedureEvent::EntryChanged { .. }
            | ProcedureEvent::TimerFired { .. }
            | ProcedureEvent::ChildEnded { .. }
            | ProcedureEvent::Signalled { .. } => {
                return vec![ProcedureOutput::Ignored("a tournament handles answers only".into())];
            }
        }
        let mut outputs = self.advance(state, context.id);
        if state.ended {
            outputs.push(self.result(state));
            return outputs;
        }
        let new = self.pending(state).into_iter().filter(|id| !before.contains(id));
        outputs.extend(new.filter_map(|id| request(&self.spec, state, id)).map(ProcedureOutput::Request));
        outputs
    }

    fn pending_outputs(&self, state: &TournamentState, _: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        if state.ended {
            return vec![self.result(state)];
        }
        let pending = self.pending(state).into_iter();
        pending.filter_map(|id| request(&self.spec, state, id)).map(ProcedureOutput::Request).collect()
    }

    fn phase(&self, state: &TournamentState) -> String {
        match (state.round, state.ended) {
            (0, _) => "new".into(),
            (_, true) => "ended".into(),
            (round, false) => format!("round {round}"),
        }
    }

    fn waits_for(&self, state: &TournamentState) -> Vec<Wait> {
        let wait = |id: RequestId| {
            let agent = request(&self.spec, state, id)?.agent;
            Some(Wait::Answer { request: id.to_text(), agent })
        };
        if state.ended { Vec::new() } else { self.pending(state).into_iter().filter_map(wait).collect() }
    }
}
