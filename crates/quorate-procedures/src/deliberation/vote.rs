//! The vote: resolves every conflict, whether it was discussed or not, from the final positions and confidences. The
//! voting rule determines the winner of every conflict about a choice, both from the initial positions (`before`) and
//! from the final ones; the discussion only decides whether the result counts as an agreement.

use std::collections::BTreeMap;

use super::Step;
use super::outcome::{ConflictResolution, ResolutionMethod};
use super::spec::Spec;
use super::state::{Dispute, PositionChange, conflict_id};
use crate::conflict::{Conflict, ConflictRule, Position, PositionValue};
use crate::finding::round_to_micros;
use crate::normalise;
use crate::tally::{self, Agreement, Ballot, Question, Tally, WeightedMedian};

/// A conflict to be decided.
struct Case<'a> {
    id: String,
    conflict: &'a Conflict,
    positions: &'a [Position],
    dispute: Option<&'a Dispute>,
}

impl Step<'_> {
    /// All conflicts: those eligible for discussion, then the others.
    fn cases(&self) -> Vec<Case<'_>> {
        let disputes = self.state.disputes.iter().enumerate().map(|(index, dispute)| Case {
            id: conflict_id(index),
            conflict: &dispute.conflict,
            positions: &dispute.positions,
            dispute: Some(dispute),
        });
        let dispute_count = self.state.disputes.len();
        let further = self.state.further.iter().enumerate().map(|(index, conflict)| Case {
            id: conflict_id(dispute_count + index),
            conflict,
            positions: &conflict.positions,
            dispute: None,
        });
        disputes.chain(further).collect()
    }

    /// Current ballots of all conflicts that are voted on.
    fn questions(&self, cases: &[Case<'_>]) -> Vec<Question> {
        let choices = cases.iter().filter(|case| !case.conflict.is_numeric());
        let questions = choices.map(|case| {
            let rankings = case.dispute.map(|dispute| &dispute.rankings);
            ballot_question(case.conflict, self.spec.options(case.conflict.kind), case.positions, rankings)
        });
        questions.collect()
    }

    /// Tallies the current positions, in the order of the conflicts; `None` for numbers.
    pub(super) fn tallies(&self) -> Vec<Option<Tally>> {
        let cases = self.cases();
        // Positions were validated when they were parsed, so tallying cannot fail.
        let tallies =
            tally::tally_questions(self.spec.tally_method(), &self.questions(&cases)).unwrap_or_default();
        let mut tallies = tallies.into_iter();
        cases.iter().map(|case| if case.conflict.is_numeric() { None } else { tallies.next() }).collect()
    }

    /// Decides all conflicts: those eligible for discussion, then the others.
    pub(super) fn decide(&self) -> (Vec<ConflictResolution>, Vec<ConflictResolution>) {
        let (cases, method) = (self.cases(), self.spec.tally_method());
        let after = self.questions(&cases);
        let choices = cases.iter().filter(|case| !case.conflict.is_numeric());
        let before: Vec<Question> = choices
            .map(|case| {
                let options = self.spec.options(case.conflict.kind);
                ballot_question(case.conflict, options, &case.conflict.positions, None)
            })
            .collect();
        let tallies_before = tally::tally_questions(method, &before).unwrap_or_default();
        let mut tallies_before = tallies_before.into_iter().enumerate();
        let mut decisions: Vec<ConflictResolution> = Vec::new();
        for (case, tally) in cases.iter().zip(self.tallies()) {
            decisions.push(match tally {
                None => self.merge(case),
                Some(tally) => {
                    let Some((index, before)) = tallies_before.next() else { continue };
                    let pivotal = tally::pivotal_voters(method, &after, index);
                    self.decide_by_vote(case, tally, before, pivotal)
                }
            });
        }
        let dispute_count = self.state.disputes.len();
        let further = decisions.split_off(dispute_count.min(decisions.len()));
        (decisions, further)
    }

    fn decide_by_vote(
        &self,
        case: &Case<'_>,
        mut tally: Tally,
        before: Tally,
        pivotal: Option<tally::PivotalVoters>,
    ) -> ConflictResolution {
        tally.shares.iter_mut().for_each(|share| share.share = round_to_micros(share.share));
        let agreed = case.dispute.and_then(|dispute| dispute.agreed.as_ref());
        let method = resolution_method(&tally, agreed);
        let resolution = resolution(&tally, method);
        let position = tally.choice.as_ref().map(PositionValue::from);
        let mut decision = self.decision(case, method, position, resolution);
        decision.agreement = Some(Agreement::of(Some(&tally)));
        let is_against = |position: &Position| {
            decision.position.as_ref().is_some_and(|winner| position.position != *winner)
        };
        decision.minority = minority(case.positions, is_against);
        decision.before = before.choice.map(PositionValue::from);
        decision.shares_before = before.shares;
        decision.shares_before.iter_mut().for_each(|share| share.share = round_to_micros(share.share));
        decision.share = tally.shares.first().map_or(0.0, |share| share.share);
        decision.shares = tally.shares;
        decision.would_change = pivotal;
        decision
    }

    fn merge(&self, case: &Case<'_>) -> ConflictResolution {
        let spread = allowed_spread(self.spec, case.conflict);
        let median =
            merge_positions(case.positions).unwrap_or(WeightedMedian { value: 0.0, low: 0.0, high: 0.0 });
        let value = PositionValue::from(round_to_micros(median.value));
        let (method, resolution) = match case.dispute.and_then(|dispute| dispute.agreed.as_ref()) {
            Some((round, _)) => {
                (ResolutionMethod::Agreed { round: *round }, format!("agreed on {value} in round {round}"))
            }
            None => {
                let (low, high) =
                    (normalise::format_number(median.low), normalise::format_number(median.high));
                let resolution =
                    format!("merged to {value}, the median of {low} to {high} weighted by confidence");
                (ResolutionMethod::Merged, resolution)
            }
        };
        let is_outlier = |position: &Position| (number(position) - median.value).abs() > spread;
        let mut decision = self.decision(case, method, Some(value), resolution);
        decision.minority = minority(case.positions, is_outlier);
        decision.before =
            merge_positions(&case.conflict.positions).map(|merged| round_to_micros(merged.value).into());
        let weights = weights(case.positions);
        let inlier_weight = case
            .positions
            .iter()
            .zip(&weights)
            .filter(|(position, _)| !is_outlier(position))
            .map(|(_, weight)| weight)
            .sum::<f64>();
        let total: f64 = weights.iter().sum();
        decision.share = if total > 0.0 { round_to_micros(inlier_weight / total) } else { 0.0 };
        decision
    }

    /// Changes of position, with the reasons from their messages.
    fn changes(&self, dispute: &Dispute) -> Vec<PositionChange> {
        let with_reason = |change: &PositionChange| {
            let message = self.state.messages.iter().find(|message| message.id == change.message);
            let reason =
                message.and_then(|message| message.content["reasoning"].as_str()).unwrap_or_default();
            PositionChange { reason: reason.to_owned(), ..change.clone() }
        };
        dispute.changes.iter().map(with_reason).collect()
    }

    /// Returns the number of agents that could discuss a conflict.
    fn participant_count(&self, dispute: &Dispute) -> usize {
        let index = self.state.disputes.iter().position(|other| std::ptr::eq(other, dispute));
        let takes_part = |agent: &str| index.is_some_and(|index| !self.state.is_excluded(agent, index));
        dispute.positions.iter().filter(|position| takes_part(&position.agent)).count()
    }

    fn decision(
        &self,
        case: &Case<'_>,
        method: ResolutionMethod,
        position: Option<PositionValue>,
        resolution: String,
    ) -> ConflictResolution {
        let limits = &self.spec.limits;
        let rounds = case.dispute.map_or(0, |dispute| dispute.rounds);
        let undiscussed = match case.dispute {
            None => Some(format!("beyond the {} most critical conflicts", limits.conflicts)),
            Some(_) if rounds > 0 => None,
            Some(_) if limits.rounds == 0 => Some("no rounds of discussion".to_owned()),
            Some(dispute) if self.participant_count(dispute) < 2 => {
                Some("fewer than two of its agents still answer".to_owned())
            }
            Some(_) => Some(format!("limit of {} messages per round reached", limits.messages)),
        };
        ConflictResolution {
            id: case.id.clone(),
            conflict: case.conflict.clone(),
            how: method,
            position,
            agreement: None,
            options: self.spec.options(case.conflict.kind).to_vec(),
            resolution,
            rounds,
            undiscussed,
            ballots: case.positions.to_vec(),
            rankings: case.dispute.map(|dispute| dispute.rankings.clone()).unwrap_or_default(),
            changes: case.dispute.map(|dispute| self.changes(dispute)).unwrap_or_default(),
            share: 0.0,
            shares: Vec::new(),
            before: None,
            shares_before: Vec::new(),
            minority: Vec::new(),
            would_change: None,
        }
    }
}

/// Determines how a tally settles a conflict. The rule decides the winner; it counts as agreed if the discussion had
/// the same result.
fn resolution_method(tally: &Tally, agreed: Option<&(u32, PositionValue)>) -> ResolutionMethod {
    match (&tally.choice, agreed) {
        (None, _) => ResolutionMethod::Tied,
        (Some(winner), Some((round, position))) if *position == **winner => {
            ResolutionMethod::Agreed { round: *round }
        }
        (Some(_), _) => ResolutionMethod::Voted,
    }
}

/// Renders the resolution as a sentence.
fn resolution(tally: &Tally, method: ResolutionMethod) -> String {
    let rule = tally.rule.as_str();
    let tied = || tally.tied.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(" and ");
    match (&tally.choice, method, tally.tie_break) {
        (None, ..) => format!("no decision: tied between {} ({rule})", tied()),
        (Some(winner), _, Some(tie_break)) => {
            let name = tie_break.as_str();
            format!("\"{winner}\" won a tie between {} ({rule}) by the declared tie-break {name}", tied())
        }
        (Some(winner), ResolutionMethod::Agreed { round }, None) => {
            format!("agreed on \"{winner}\" in round {round}")
        }
        (Some(winner), ..) => {
            format!("\"{winner}\" won the vote with a share of {:.2} ({rule})", tally.share())
        }
    }
}

/// Builds a ballot question from positions and rankings.
pub(super) fn ballot_question(
    conflict: &Conflict,
    options: &[String],
    positions: &[Position],
    rankings: Option<&BTreeMap<String, Vec<String>>>,
) -> Question {
    let ballots = positions.iter().map(|position| {
        let ranking =
            rankings.and_then(|rankings| rankings.get(&position.agent)).cloned().unwrap_or_default();
        Ballot { ranking, ..ballot(position) }
    });
    Question { name: conflict.key.clone(), options: options.to_vec(), ballots: ballots.collect() }
}

fn ballot(position: &Position) -> Ballot {
    Ballot {
        voter: position.agent.clone(),
        choice: position.position.to_string(),
        confidence: position.confidence,
        ranking: Vec::new(),
        reason: position.reason.clone(),
    }
}

fn minority(positions: &[Position], is_other: impl Fn(&Position) -> bool) -> Vec<Position> {
    positions.iter().filter(|position| is_other(position)).cloned().collect()
}

/// Allowed spread of a numeric conflict.
pub(super) fn allowed_spread(spec: &Spec, conflict: &Conflict) -> f64 {
    let spread = spec.conflicts.iter().find_map(|rule| match rule {
        ConflictRule::Numeric(rule)
            if conflict.key == format!("numeric:{}", normalise::normalise_words(&rule.score)) =>
        {
            Some(rule.spread)
        }
        _ => None,
    });
    spread.unwrap_or_default()
}

/// Smallest and greatest number.
pub(super) fn value_range(positions: &[&Position]) -> (f64, f64) {
    let least = positions.iter().map(|position| number(position)).fold(f64::INFINITY, f64::min);
    let most = positions.iter().map(|position| number(position)).fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// Merges the numbers of the positions.
pub(super) fn merge_positions(positions: &[Position]) -> Option<WeightedMedian> {
    let values: Vec<(f64, f64)> = positions.iter().map(number).zip(weights(positions)).collect();
    tally::weighted_median(&values)
}

fn weights(positions: &[Position]) -> Vec<f64> {
    let ballots: Vec<Ballot> = positions.iter().map(ballot).collect();
    tally::weights(&ballots.iter().collect::<Vec<_>>())
}

fn number(position: &Position) -> f64 {
    position.position.as_number().unwrap_or_default()
}
