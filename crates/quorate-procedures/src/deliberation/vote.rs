//! The vote: every conflict gets an outcome, whether it was discussed or not. What agents hold in the end counts, as surely as they
//! hold it in the end.

use std::collections::BTreeMap;

use super::Step;
use super::outcome::{Decision, How};
use super::spec::Spec;
use super::state::{Change, Dispute, name_of};
use crate::conflict::{Conflict, Position, Rule};
use crate::count::{self, Ballot, Merged, Question, Tally};
use crate::finding::steady;
use crate::plain;

/// A conflict that is decided.
struct Case<'a> {
    id: String,
    conflict: &'a Conflict,
    positions: &'a [Position],
    dispute: Option<&'a Dispute>,
}

impl Step<'_> {
    /// Decides all conflicts: those that could be discussed, then the others.
    pub(super) fn decide(&self) -> (Vec<Decision>, Vec<Decision>) {
        let disputes = self.state.disputes.iter().enumerate().map(|(place, dispute)| Case {
            id: name_of(place),
            conflict: &dispute.conflict,
            positions: &dispute.positions,
            dispute: Some(dispute),
        });
        let first = self.state.disputes.len();
        let further = self.state.further.iter().enumerate().map(|(at, conflict)| Case {
            id: name_of(first + at),
            conflict,
            positions: &conflict.positions,
            dispute: None,
        });
        let cases: Vec<Case<'_>> = disputes.chain(further).collect();
        let choices: Vec<&Case<'_>> = cases.iter().filter(|case| !case.conflict.is_numeric()).collect();
        let asked = |case: &&Case<'_>| {
            let rankings = case.dispute.map(|dispute| &dispute.rankings);
            question_of(&case.conflict.key, case.positions, rankings)
        };
        let after: Vec<Question> = choices.iter().map(asked).collect();
        let before: Vec<Question> = choices
            .iter()
            .map(|case| question_of(&case.conflict.key, &case.conflict.positions, None))
            .collect();
        let rule = self.spec.rule;
        // Positions were checked when they were read, so that they can be counted.
        let tallies = count::tally(rule, &after).unwrap_or_default();
        let earlier = count::tally(rule, &before).unwrap_or_default();
        let mut counted = tallies.into_iter().zip(earlier).enumerate();
        let mut decisions: Vec<Decision> = Vec::new();
        for case in &cases {
            decisions.push(if case.conflict.is_numeric() {
                self.merge(case)
            } else if let Some((at, (tally, before))) = counted.next() {
                let flip = count::flip(rule, &after, at);
                self.choose_by(case, tally, before, flip)
            } else {
                continue;
            });
        }
        let further = decisions.split_off(first.min(decisions.len()));
        (decisions, further)
    }

    fn choose_by(
        &self,
        case: &Case<'_>,
        mut tally: Tally,
        before: Tally,
        flip: Option<count::Flip>,
    ) -> Decision {
        tally.shares.iter_mut().for_each(|one| one.share = steady(one.share));
        let agreed = case.dispute.and_then(|dispute| dispute.agreed.clone());
        let rule = tally.rule.as_str();
        let (how, position, resolution) = match agreed {
            Some((round, position)) => {
                let resolution = format!("agreed on \"{position}\" in round {round}");
                (How::Agreed { round }, position, resolution)
            }
            None if tally.is_tie() => {
                let tied: Vec<String> = tally.tied.iter().map(|one| format!("\"{one}\"")).collect();
                let choice = tally.choice.clone();
                let resolution = format!(
                    "a tie between {} ({rule}); \"{choice}\" stands by the order in which ties are broken",
                    tied.join(" and ")
                );
                (How::Tied, choice, resolution)
            }
            None => {
                let choice = tally.choice.clone();
                let resolution =
                    format!("\"{choice}\" won the vote with a share of {:.2} ({rule})", tally.share());
                (How::Voted, choice, resolution)
            }
        };
        let mut decision = self.decision(case, how, position, resolution);
        decision.minority = minority(case.positions, |one| one.position != decision.position);
        decision.before = before.choice;
        decision.shares_before = before.shares;
        decision.shares_before.iter_mut().for_each(|one| one.share = steady(one.share));
        decision.share = share_of(&tally, &decision.position);
        decision.shares = tally.shares;
        decision.would_change = flip;
        decision
    }

    fn merge(&self, case: &Case<'_>) -> Decision {
        let spread = spread(self.spec, case.conflict);
        let found = merged(case.positions).unwrap_or(Merged { value: 0.0, low: 0.0, high: 0.0 });
        let value = plain::number(steady(found.value));
        let (how, resolution) = match case.dispute.and_then(|dispute| dispute.agreed.as_ref()) {
            Some((round, _)) => {
                (How::Agreed { round: *round }, format!("agreed on {value} in round {round}"))
            }
            None => {
                let (low, high) = (plain::number(found.low), plain::number(found.high));
                let resolution =
                    format!("merged to {value}, the median of {low} to {high} weighted by confidence");
                (How::Merged, resolution)
            }
        };
        let far = |one: &Position| (number(one) - found.value).abs() > spread;
        let mut decision = self.decision(case, how, value, resolution);
        decision.minority = minority(case.positions, far);
        decision.before = merged(&case.conflict.positions)
            .map(|merged| plain::number(steady(merged.value)))
            .unwrap_or_default();
        let weights = weights(case.positions);
        let near = case
            .positions
            .iter()
            .zip(&weights)
            .filter(|(one, _)| !far(one))
            .map(|(_, weight)| weight)
            .sum::<f64>();
        let whole: f64 = weights.iter().sum();
        decision.share = if whole > 0.0 { steady(near / whole) } else { 0.0 };
        decision
    }

    /// The minds that changed, with the reasons that their messages give.
    fn changes(&self, dispute: &Dispute) -> Vec<Change> {
        let with_reason = |change: &Change| {
            let said = self.state.messages.iter().find(|message| message.id == change.message);
            let reason = said.and_then(|message| message.content["reasoning"].as_str()).unwrap_or_default();
            Change { reason: reason.to_owned(), ..change.clone() }
        };
        dispute.changes.iter().map(with_reason).collect()
    }

    fn decision(&self, case: &Case<'_>, how: How, position: String, resolution: String) -> Decision {
        let limits = &self.spec.limits;
        let rounds = case.dispute.map_or(0, |dispute| dispute.rounds);
        let undiscussed = match case.dispute {
            None => Some(format!("beyond the {} most critical conflicts", limits.conflicts)),
            Some(_) if rounds > 0 => None,
            Some(_) if limits.rounds == 0 => Some("no rounds of discussion".to_owned()),
            Some(_) => Some(format!(
                "no room within {} messages a round, or fewer than two to talk",
                limits.messages
            )),
        };
        Decision {
            id: case.id.clone(),
            conflict: case.conflict.clone(),
            how,
            position,
            resolution,
            rounds,
            undiscussed,
            positions: case.positions.to_vec(),
            rankings: case.dispute.map(|dispute| dispute.rankings.clone()).unwrap_or_default(),
            changes: case.dispute.map(|dispute| self.changes(dispute)).unwrap_or_default(),
            share: 0.0,
            shares: Vec::new(),
            before: String::new(),
            shares_before: Vec::new(),
            minority: Vec::new(),
            would_change: None,
        }
    }
}

/// What agents hold, as ballots, with their rankings where they gave one.
pub(super) fn question_of(
    name: &str,
    positions: &[Position],
    rankings: Option<&BTreeMap<String, Vec<String>>>,
) -> Question {
    let ballots = positions.iter().map(|one| {
        let ranking = rankings.and_then(|rankings| rankings.get(&one.agent)).cloned().unwrap_or_default();
        Ballot { ranking, ..ballot(one) }
    });
    Question { name: name.to_owned(), ballots: ballots.collect() }
}

fn ballot(position: &Position) -> Ballot {
    Ballot {
        voter: position.agent.clone(),
        choice: position.position.clone(),
        confidence: position.confidence,
        ranking: Vec::new(),
        reason: position.reason.clone(),
    }
}

fn minority(positions: &[Position], is_other: impl Fn(&Position) -> bool) -> Vec<Position> {
    positions.iter().filter(|one| is_other(one)).cloned().collect()
}

fn share_of(tally: &Tally, choice: &str) -> f64 {
    tally.shares.iter().find(|one| one.choice == choice).map_or(0.0, |one| one.share)
}

/// How far apart the numbers of a conflict may be.
pub(super) fn spread(spec: &Spec, conflict: &Conflict) -> f64 {
    let found = spec.conflicts.iter().find_map(|rule| match rule {
        Rule::Numeric(rule) if conflict.key == format!("numeric:{}", plain::words(&rule.score)) => {
            Some(rule.spread)
        }
        _ => None,
    });
    found.unwrap_or_default()
}

/// From the least to the greatest number.
pub(super) fn distance(positions: &[&Position]) -> f64 {
    let least = positions.iter().map(|one| number(one)).fold(f64::INFINITY, f64::min);
    let most = positions.iter().map(|one| number(one)).fold(f64::NEG_INFINITY, f64::max);
    most - least
}

/// What the numbers come to.
pub(super) fn merged(positions: &[Position]) -> Option<Merged> {
    let values: Vec<(f64, f64)> = positions.iter().map(number).zip(weights(positions)).collect();
    count::merge(&values)
}

fn weights(positions: &[Position]) -> Vec<f64> {
    let ballots: Vec<Ballot> = positions.iter().map(ballot).collect();
    count::weights(&ballots.iter().collect::<Vec<_>>())
}

fn number(position: &Position) -> f64 {
    position.position.parse().unwrap_or_default()
}
