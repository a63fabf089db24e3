//! The same ballots under every counting rule, before and after the discussion: where the rules differ, the way of counting decided.

use serde::Serialize;

use super::outcome::{Decision, Outcome};
use super::vote::question_of;
use crate::conflict::PositionValue;
use crate::count::{self, Agreement, Counting, Question, Rule, Tally};
use crate::finding::steady;

/// A conflict under every rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// The conflict.
    pub id: String,
    /// What it is about.
    pub topic: String,
    /// What stands; `None` for a tie.
    pub position: Option<PositionValue>,
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
    /// What wins; `None` for a tie that no declared tie-break decides.
    pub choice: Option<String>,
    /// Its share, or that of each of the tied.
    pub share: f64,
    /// How far the agents agree by that rule.
    pub agreement: Agreement,
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
    let before: Vec<Question> = choices
        .iter()
        .map(|one| question_of(&one.conflict, &one.options, &one.conflict.positions, None))
        .collect();
    let after: Vec<Question> = choices
        .iter()
        .map(|one| question_of(&one.conflict, &one.options, &one.positions, Some(&one.rankings)))
        .collect();
    let counted: Vec<(Rule, Vec<Tally>, Vec<Tally>)> = Rule::ALL
        .into_iter()
        .filter_map(|rule| {
            let counting = Counting { rule, ..outcome.counting() };
            Some((rule, count::tally(counting, &before).ok()?, count::tally(counting, &after).ok()?))
        })
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
            rules.iter().any(|one| one.after.choice.is_none() || Some(&one.after.choice) != first.as_ref());
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
    Choice {
        choice: tally.choice.clone(),
        share: steady(tally.share()),
        agreement: Agreement::of(Some(tally)),
        tied: if tally.choice.is_none() { tally.tied.clone() } else { Vec::new() },
    }
}
