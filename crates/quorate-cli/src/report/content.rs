//! Content that all report formats share, without layout. Nothing is escaped here: each format does its own escaping.

use quorate::deliberation::{ConflictResolution, LOCAL_PROVIDER, Outcome, ProviderUsage, ResolutionMethod};
use quorate_procedures::conflict::{ConflictKind, Position, PositionValue};
use quorate_procedures::deliberation::{
    Demand, MissingAnswer, RankedIssue, RuleResult, UsageStats, compare_rules,
};
use quorate_procedures::tally::Agreement;

use crate::output::plural;
use crate::run::NO_RECOMMENDATION;

/// Returns the decision in one line, with its mark.
pub(super) fn headline(outcome: &Outcome) -> (&'static str, String) {
    match (&outcome.synthesis.agreement, &outcome.synthesis.recommendation) {
        (_, Some(recommendation)) => ("✓", recommendation.clone()),
        (Agreement::Tied { between, .. }, None) => {
            ("=", format!("no decision: tied between {}", between.join(" and ")))
        }
        (_, None) => ("·", format!("no decision: {NO_RECOMMENDATION}")),
    }
}

/// Returns score, confidence, margin and agreement.
pub(super) fn highlights(outcome: &Outcome) -> Vec<String> {
    let synthesis = &outcome.synthesis;
    let mut parts = Vec::new();
    if let Some(score) = &synthesis.score {
        let level = score.level.as_ref().map_or(String::new(), |level| format!(" ({level})"));
        parts.push(format!("{} {}{level}", score.name.replace('_', " "), score.value));
    }
    if let Some(confidence) = synthesis.confidence {
        parts.push(format!("confidence {confidence:.2}"));
    }
    let decided = outcome.recommendation_decision().filter(|decision| decision.position.is_some());
    parts.extend(decided.map(|decision| format!("margin {:.2}", margin(decision))));
    // Without a decision, the headline states it already.
    if outcome.is_decided() {
        parts.push(synthesis.agreement.to_string());
    }
    let (all, given) = (outcome.record.findings.len(), recommendation_count(outcome));
    if (1..all).contains(&given) {
        parts.push(format!("{given} of {all} gave a recommendation"));
    }
    parts
}

/// Returns the number of agents that gave a recommendation.
fn recommendation_count(outcome: &Outcome) -> usize {
    outcome.record.findings.values().filter(|finding| finding.recommendation.is_some()).count()
}

/// Returns the lead of the decision over the next option.
fn margin(decision: &ConflictResolution) -> f64 {
    let others = decision.shares.iter().skip(1);
    decision.share - others.map(|other| other.share).fold(0.0, f64::max)
}

/// Returns the conflict about what to do, and the other conflicts.
pub(super) fn conflicts(outcome: &Outcome) -> (Vec<&ConflictResolution>, Vec<&ConflictResolution>) {
    outcome.all_decisions().partition(|decision| decision.conflict.kind == ConflictKind::Categorical)
}

/// Describes how a conflict was resolved.
pub(super) fn resolution(decision: &ConflictResolution) -> String {
    let agreement =
        decision.agreement.as_ref().filter(|agreement| !matches!(agreement, Agreement::Tied { .. }));
    let agreement = agreement.map_or(String::new(), |agreement| format!("; {agreement}"));
    let method = match decision.how {
        ResolutionMethod::Agreed { round } => return format!("agreed in round {round}{agreement}"),
        ResolutionMethod::Voted => "voted",
        ResolutionMethod::Tied => "tied",
        ResolutionMethod::Merged => "merged by confidence",
    };
    match (&decision.undiscussed, decision.rounds) {
        (Some(reason), _) => format!("{method}{agreement}; not discussed: {reason}"),
        (None, rounds) => format!("{method} after {}{agreement}", plural(rounds, "round")),
    }
}

fn tied_choices(decision: &ConflictResolution) -> &[String] {
    match &decision.agreement {
        Some(Agreement::Tied { between, .. }) => between,
        _ => &[],
    }
}

/// Returns the decided position as text; "no decision" for a tie.
pub(super) fn position_text(position: Option<&PositionValue>) -> String {
    position.map_or("no decision".to_owned(), ToString::to_string)
}

/// An option with its share before and after the discussion.
pub(super) struct OptionRow<'a> {
    pub(super) name: &'a str,
    /// `✓` for the decision, `=` for a tied option, or a space.
    pub(super) mark: &'static str,
    pub(super) before: Option<f64>,
    pub(super) after: Option<f64>,
    pub(super) held_by: Vec<&'a Position>,
    /// Positions of the other agents; only set for the decision.
    pub(super) against: Vec<&'a Position>,
}

/// Returns the options of a conflict, greatest share first; options without remaining votes come last. Empty for numbers.
pub(super) fn options<'a>(decision: &'a ConflictResolution) -> Vec<OptionRow<'a>> {
    let tied = tied_choices(decision);
    let abandoned =
        decision.shares_before.iter().filter(|old| share(&decision.shares, &old.choice).is_none());
    let names = decision.shares.iter().chain(abandoned).map(|share| share.choice.as_str());
    let row = |name: &'a str| {
        let (held_by, others) = decision.ballots.iter().partition(|position| position.position == *name);
        let mark = match &decision.position {
            Some(decided) if *decided == *name => "✓",
            None if tied.iter().any(|choice| choice == name) => "=",
            _ => " ",
        };
        OptionRow {
            name,
            mark,
            before: share(&decision.shares_before, name),
            after: share(&decision.shares, name),
            held_by,
            against: if mark == "✓" { others } else { Vec::new() },
        }
    };
    names.map(row).collect()
}

fn share(shares: &[quorate_procedures::tally::Share], name: &str) -> Option<f64> {
    shares.iter().find(|entry| entry.choice == name).map(|entry| entry.share)
}

/// Returns the positions before and after the discussion, in the order of the agents.
pub(super) fn position_changes(
    decision: &ConflictResolution,
) -> impl Iterator<Item = (&Position, &Position)> {
    let before =
        |after: &Position| decision.conflict.positions.iter().find(|position| position.agent == after.agent);
    decision.ballots.iter().map(move |after| (before(after).unwrap_or(after), after))
}

/// Returns the positions whose reasons are printed, with a label: the dissenting ones, or all for a tie.
pub(super) fn quoted_positions(decision: &ConflictResolution) -> (&'static str, &[Position]) {
    match decision.how {
        ResolutionMethod::Tied => ("Holds", &decision.ballots),
        ResolutionMethod::Agreed { .. } | ResolutionMethod::Voted | ResolutionMethod::Merged => {
            ("Dissent", &decision.minority)
        }
    }
}

/// Formats a confidence briefly, as `.82`.
pub(super) fn confidence_text(confidence: Option<f64>) -> String {
    let text = confidence.map_or(String::new(), |value| format!("{value:.2}"));
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

/// Returns the agent of a position with its confidence.
pub(super) fn holder_label(position: &Position) -> String {
    format!("{} {}", position.agent, confidence_text(position.confidence)).trim_end().to_owned()
}

/// A group of issues with a heading.
pub(super) struct IssueGroup<'a> {
    pub(super) heading: &'static str,
    pub(super) issues: Vec<(&'a RankedIssue, Option<&'a Demand>)>,
}

/// Groups the issues by the priority of their demands; issues without a remedy come last.
pub(super) fn issue_groups(outcome: &Outcome) -> Vec<IssueGroup<'_>> {
    use quorate_procedures::deliberation::DemandPriority;
    let synthesis = &outcome.synthesis;
    let demand = |issue: &RankedIssue| synthesis.strategy.iter().find(|demand| demand.topic == issue.topic);
    let all: Vec<_> = synthesis.issues.iter().map(|issue| (issue, demand(issue))).collect();
    let with_priority = |need: Option<DemandPriority>| {
        all.iter().filter(move |entry| entry.1.map(|demand| demand.need) == need)
    };
    let rest = if synthesis.strategy.is_empty() { "Issues" } else { "Issues without a remedy" };
    // The stored priorities are words of a negotiation, but a report may be about anything.
    [
        ("Critical", Some(DemandPriority::MustHave)),
        ("Important", Some(DemandPriority::ShouldHave)),
        ("Minor", Some(DemandPriority::Negotiable)),
        (rest, None),
    ]
    .into_iter()
    .map(|(heading, need)| IssueGroup { heading, issues: with_priority(need).copied().collect() })
    .filter(|group| !group.issues.is_empty())
    .collect()
}

/// Returns the agents that reported an issue.
pub(super) fn reported_by(issue: &RankedIssue) -> String {
    issue.flagged.iter().map(|source| source.agent.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the number of agents, calls and messages, the duration, and the voting rule.
pub(super) fn statistics(outcome: &Outcome) -> Vec<String> {
    let (record, quorum) = (&outcome.record, &outcome.record.quorum);
    vec![
        format!("{} of {} (quorum {})", quorum.present, plural(quorum.asked, "agent"), quorum.needed),
        plural(record.actual.calls(), "call"),
        plural(record.messages.len(), "message"),
        format!("{:.1} s", seconds(&record.actual)),
        format!("tallied by {}", outcome.rule.as_str()),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn seconds(actual: &UsageStats) -> f64 {
    (actual.analysis.ms + actual.discussion.ms) as f64 / 1_000.0
}

/// Returns the usage of each provider, and of local agents if they report tokens or cost.
pub(super) fn provider_usage(outcome: &Outcome) -> Vec<String> {
    let actual = &outcome.record.actual;
    let mut used: std::collections::BTreeMap<&str, ProviderUsage> = std::collections::BTreeMap::new();
    for (name, usage) in actual.analysis.providers.iter().chain(&actual.discussion.providers) {
        let sum = used.entry(name).or_default();
        sum.calls += usage.calls;
        sum.tokens_in += usage.tokens_in;
        sum.tokens_out += usage.tokens_out;
        sum.money = usage.money.map(|money| money + sum.money.unwrap_or_default()).or(sum.money);
    }
    let has_usage = |(name, usage): &(&str, ProviderUsage)| {
        *name != LOCAL_PROVIDER || usage.tokens_in > 0 || usage.money.is_some()
    };
    let line = |(name, usage): (&str, ProviderUsage)| {
        let money = usage.money.map_or(String::new(), |money| format!(", cost {money:.4}"));
        let calls = plural(usage.calls, "call");
        format!("{name}: {calls}, {} tokens in, {} out{money}", usage.tokens_in, usage.tokens_out)
    };
    used.into_iter().filter(has_usage).map(line).collect()
}

/// Returns the missing answers and the agents that were not asked: a label, and the agent with the reason.
pub(super) fn missing_and_not_asked(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let record = &outcome.record;
    let missing = record.missing.iter().map(|answer| {
        let (agent, reason) = missing_answer(answer);
        ("Missing", format!("{agent}: {reason}"))
    });
    let not_asked = record
        .not_asked
        .iter()
        .map(|not_asked| ("Not asked", format!("{}: {}", not_asked.agent, not_asked.why)));
    missing.chain(not_asked).collect()
}

/// Returns the missing agent with its conflict, and the reason.
fn missing_answer(missing: &MissingAnswer) -> (String, String) {
    let conflict = missing.conflict.as_ref().map_or(String::new(), |conflict| format!(" on {conflict}"));
    (format!("{}{conflict}", missing.agent), missing.reason())
}

/// Returns the smallest change of votes that would have changed the decision.
pub(super) fn pivotal_votes(decision: &ConflictResolution) -> Option<String> {
    let change = decision.would_change.as_ref()?;
    Some(format!("would be {} if {} had voted differently", change.to, change.voters.join(", ")))
}

/// Describes the results under the other rules.
pub(super) fn other_rules_text(outcome: &Outcome, decision: &ConflictResolution) -> String {
    let comparison = compare_rules(outcome).into_iter().find(|comparison| comparison.id == decision.id);
    let rules = comparison.map(|comparison| comparison.rules).unwrap_or_default();
    let others: Vec<&RuleResult> = rules.iter().filter(|result| result.rule != outcome.rule).collect();
    let decided = decision.position.as_ref().map(ToString::to_string);
    let is_same = |result: &&RuleResult| result.after.choice == decided;
    if others.iter().all(is_same) {
        let names: Vec<&str> = others.iter().map(|result| result.rule.as_str()).collect();
        return format!("same result under the other rules: {}", names.join(", "));
    }
    let results = others.iter().map(|result| {
        let choice = result.after.choice.as_deref().unwrap_or("tied");
        format!("{} {choice} {:.2}", result.rule.as_str(), result.after.share)
    });
    format!("other rules: {}", results.collect::<Vec<_>>().join(" · "))
}
