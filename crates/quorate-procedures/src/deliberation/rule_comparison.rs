//! Tallies the same ballots under every voting rule, before and after the discussion. Where the results differ, the
//! choice of the rule decided.

use serde::Serialize;

use super::outcome::{ConflictResolution, Outcome};
use super::vote::ballot_question;
use crate::conflict::PositionValue;
use crate::finding::round_to_micros;
use crate::tally::{self, Agreement, Question, Tally, TallyMethod, VotingRule};

/// Result of a conflict under every voting rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleComparison {
    /// Id of the conflict.
    pub id: String,
    /// Topic of the conflict.
    pub topic: String,
    /// The decided position; `None` for a tie.
    pub position: Option<PositionValue>,
    /// Result under each rule; empty for numbers, which are merged.
    pub rules: Vec<RuleResult>,
    /// Whether, after the discussion, two rules choose differently or one results in a tie.
    pub differ: bool,
}

/// Result under one rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleResult {
    /// The rule.
    pub rule: VotingRule,
    /// Result without the discussion.
    pub before: TallySummary,
    /// Result after the discussion.
    pub after: TallySummary,
}

/// Summary of a tally.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TallySummary {
    /// The winner; `None` for a tie that no declared tie-break decides.
    pub choice: Option<String>,
    /// Share of the winner, or of each tied choice.
    pub share: f64,
    /// Degree of agreement under this rule.
    pub agreement: Agreement,
    /// The choices tied for first place, if there is no winner.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<String>,
}

/// Tallies all conflicts of an outcome under every rule. `borda` is included only if an agent gave a ranking.
#[must_use]
pub fn compare_rules(outcome: &Outcome) -> Vec<RuleComparison> {
    let decisions: Vec<&ConflictResolution> = outcome.all_decisions().collect();
    let choices: Vec<&ConflictResolution> =
        decisions.iter().copied().filter(|decision| !decision.conflict.is_numeric()).collect();
    let before: Vec<Question> = choices
        .iter()
        .map(|decision| {
            ballot_question(&decision.conflict, &decision.options, &decision.conflict.positions, None)
        })
        .collect();
    let after: Vec<Question> = choices
        .iter()
        .map(|decision| {
            ballot_question(
                &decision.conflict,
                &decision.options,
                &decision.ballots,
                Some(&decision.rankings),
            )
        })
        .collect();
    let tallies: Vec<(VotingRule, Vec<Tally>, Vec<Tally>)> = VotingRule::ALL
        .into_iter()
        .filter_map(|rule| {
            let method = TallyMethod { rule, ..outcome.tally_method() };
            Some((
                rule,
                tally::tally_questions(method, &before).ok()?,
                tally::tally_questions(method, &after).ok()?,
            ))
        })
        .collect();
    let mut indices = 0..;
    let compare = |decision: &&ConflictResolution| {
        let index = if decision.conflict.is_numeric() { None } else { indices.next() };
        let rules: Vec<RuleResult> = tallies
            .iter()
            .filter(|(rule, ..)| *rule != VotingRule::Borda || !decision.rankings.is_empty())
            .filter_map(|(rule, before, after)| {
                let (before, after) = (summarise(before.get(index?)?), summarise(after.get(index?)?));
                Some(RuleResult { rule: *rule, before, after })
            })
            .collect();
        let first = rules.first().map(|result| result.after.choice.clone());
        let differ = rules
            .iter()
            .any(|result| result.after.choice.is_none() || Some(&result.after.choice) != first.as_ref());
        RuleComparison {
            id: decision.id.clone(),
            topic: decision.conflict.topic.clone(),
            position: decision.position.clone(),
            rules,
            differ,
        }
    };
    decisions.iter().map(compare).collect()
}

fn summarise(tally: &Tally) -> TallySummary {
    TallySummary {
        choice: tally.choice.clone(),
        share: round_to_micros(tally.share()),
        agreement: Agreement::of(Some(tally)),
        tied: if tally.choice.is_none() { tally.tied.clone() } else { Vec::new() },
    }
}
