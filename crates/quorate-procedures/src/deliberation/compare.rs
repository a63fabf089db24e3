//! The same ballots under every counting rule, before and after the discussion: where the rules differ, the way of counting decided.

use serde::Serialize;

use super::outcome::{Decision, Outcome};
use super::vote::question_of;
use crate::count::{self, Question, Rule, Tally};
use crate::finding::steady;

/// A conflict under every rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// The conflict.
    pub id: String,
    /// What it is about.
    pub topic: String,
    /// What stands.
    pub position: String,
    /// Under each rule; none for numbers, which are merged.
    pub rules: Vec<Counted>,
    /// Whether, after the discussion, two rules come to different choices, or one to a tie.
    pub differ: bool,
}

/// What a rule comes to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Counted {
    /// The rule.
    pub rule: Rule,
    /// Without discussion.
    pub before: Choice,
    /// With it.
    pub after: Choice,
}

/// What ballots come to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Choice {
    /// What wins, if need be by the order in which ties are broken.
    pub choice: String,
    /// Its share.
    pub share: f64,
    /// Those that share the first place, if several do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<String>,
}

/// Counts all conflicts of an outcome under every rule. `borda` is there only if somebody gave a ranking.
#[must_use]
pub fn compare(outcome: &Outcome) -> Vec<Compared> {
    let decisions: Vec<&Decision> = outcome.every_decision().collect();
    let choices: Vec<&Decision> =
        decisions.iter().copied().filter(|one| !one.conflict.is_numeric()).collect();
    let before: Vec<Question> =
        choices.iter().map(|one| question_of(&one.conflict.key, &one.conflict.positions, None)).collect();
    let after: Vec<Question> = choices
        .iter()
        .map(|one| question_of(&one.conflict.key, &one.positions, Some(&one.rankings)))
        .collect();
    let counted: Vec<(Rule, Vec<Tally>, Vec<Tally>)> = Rule::ALL
        .into_iter()
        .filter_map(|rule| Some((rule, count::tally(rule, &before).ok()?, count::tally(rule, &after).ok()?)))
        .collect();
    let mut place = 0..;
    let compared = |decision: &&Decision| {
        let at = if decision.conflict.is_numeric() { None } else { place.next() };
        let rules: Vec<Counted> = counted
            .iter()
            .filter(|(rule, ..)| *rule != Rule::Borda || !decision.rankings.is_empty())
            .filter_map(|(rule, before, after)| {
                let (before, after) = (choice(before.get(at?)?), choice(after.get(at?)?));
                Some(Counted { rule: *rule, before, after })
            })
            .collect();
        let first = rules.first().map(|one| one.after.choice.clone());
        let differ =
            rules.iter().any(|one| !one.after.tied.is_empty() || Some(&one.after.choice) != first.as_ref());
        Compared {
            id: decision.id.clone(),
            topic: decision.conflict.topic.clone(),
            position: decision.position.clone(),
            rules,
            differ,
        }
    };
    decisions.iter().map(compared).collect()
}

fn choice(tally: &Tally) -> Choice {
    Choice { choice: tally.choice.clone(), share: steady(tally.share()), tied: tally.tied.clone() }
}
