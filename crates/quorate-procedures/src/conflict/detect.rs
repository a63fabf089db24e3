//! Detects conflicts between findings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::position::{ABSENT, PRESENT};
use super::{Conflict, ConflictKind, ConflictRule, NumericRule, Position, PositionValue, PresenceRule};
use crate::finding::{Finding, Vocabulary, round_to_micros};
use crate::normalise;

/// Latest finding of each agent.
type LatestFindings<'a> = Vec<(&'a str, &'a Finding)>;

/// Detects all conflicts, most critical first. If an agent has several findings, the last one counts.
#[must_use]
pub fn detect(
    rules: &[ConflictRule],
    vocabulary: &Vocabulary,
    findings: &[(&str, &Finding)],
) -> Vec<Conflict> {
    let findings = latest_findings(findings);
    let mut found: BTreeMap<String, Conflict> = BTreeMap::new();
    for rule in rules {
        let conflicts = match rule {
            ConflictRule::Numeric(rule) => numeric(rule, &findings),
            ConflictRule::Presence(rule) => presence(rule, &findings),
            ConflictRule::Severity(_) => severity(vocabulary, &findings),
            ConflictRule::Categorical(_) => categorical(vocabulary, &findings),
            ConflictRule::Factual(_) => factual(&findings),
        };
        for (topic, name, size, positions) in conflicts {
            let key = format!("{}:{}", rule.kind().as_str(), normalise::normalise_words(&name));
            let criticality = round_to_micros(rule.weight() * size * certainty(&positions));
            let conflict = Conflict { key: key.clone(), kind: rule.kind(), topic, positions, criticality };
            found.entry(key).or_insert(conflict);
        }
    }
    let mut found: Vec<Conflict> = found.into_values().collect();
    found.sort_by(|a, b| b.criticality.total_cmp(&a.criticality).then_with(|| a.key.cmp(&b.key)));
    found
}

/// Agents whose search results are needed by a presence rule but missing.
#[must_use]
pub fn missing_checkers(rules: &[ConflictRule], findings: &[(&str, &Finding)]) -> Vec<String> {
    let findings = latest_findings(findings);
    let has_searched =
        |by: &str| findings.iter().any(|(agent, finding)| *agent == by && finding.found.is_some());
    let any_relied_on = findings.iter().any(|(_, finding)| !finding.relies_on.is_empty());
    let unchecked = rules.iter().filter_map(|rule| match rule {
        ConflictRule::Presence(rule) if any_relied_on && !has_searched(&rule.by) => Some(rule.by.clone()),
        _ => None,
    });
    unchecked.collect()
}

fn latest_findings<'a>(findings: &[(&'a str, &'a Finding)]) -> LatestFindings<'a> {
    let mut latest: LatestFindings<'a> = Vec::new();
    for (agent, finding) in findings {
        match latest.iter_mut().find(|(entry, _)| entry == agent) {
            Some(entry) => entry.1 = finding,
            None => latest.push((agent, finding)),
        }
    }
    latest
}

/// Detected conflict: topic, name for the key, size, positions.
type Detected = (String, String, f64, Vec<Position>);

fn position(agent: &str, finding: &Finding, position: impl Into<PositionValue>) -> Position {
    let (agent, reason) = (agent.to_owned(), finding.summary.clone());
    Position { agent, position: position.into(), confidence: finding.confidence, reason }
}

fn numeric(rule: &NumericRule, findings: &LatestFindings<'_>) -> Vec<Detected> {
    let scores: Vec<(f64, Position)> = findings
        .iter()
        .filter_map(|(agent, finding)| {
            let score = *finding.scores.get(&rule.score)?;
            Some((score, position(agent, finding, score)))
        })
        .collect();
    let least = scores.iter().map(|(score, _)| *score).fold(f64::INFINITY, f64::min);
    let most = scores.iter().map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max);
    if scores.len() < 2 || most - least <= rule.spread {
        return Vec::new();
    }
    let topic =
        format!("{}: {} to {}", rule.score, normalise::format_number(least), normalise::format_number(most));
    let size = if rule.spread > 0.0 { ((most - least) / (2.0 * rule.spread)).min(1.0) } else { 1.0 };
    vec![(topic, rule.score.clone(), size, scores.into_iter().map(|(_, position)| position).collect())]
}

fn presence(rule: &PresenceRule, findings: &LatestFindings<'_>) -> Vec<Detected> {
    let Some((checker, finding_of_checker)) = findings.iter().find(|(agent, _)| *agent == rule.by) else {
        return Vec::new();
    };
    let Some(found) = &finding_of_checker.found else { return Vec::new() };
    let is_found = |name: &str| {
        found.iter().any(|item| normalise::normalise_words(item) == normalise::normalise_words(name))
    };
    let mut missing: BTreeMap<String, (String, Vec<Position>)> = BTreeMap::new();
    for (agent, finding) in findings.iter().filter(|(agent, _)| agent != checker) {
        for name in finding.relies_on.iter().filter(|name| !is_found(name)) {
            let entry =
                missing.entry(normalise::normalise_words(name)).or_insert_with(|| (name.clone(), Vec::new()));
            if entry.1.iter().all(|position| position.agent != *agent) {
                entry.1.push(position(agent, finding, PRESENT));
            }
        }
    }
    let conflict = |(name, mut positions): (String, Vec<Position>)| {
        positions.insert(0, position(checker, finding_of_checker, ABSENT));
        (format!("is \"{name}\" there?"), name, 1.0, positions)
    };
    missing.into_values().map(conflict).collect()
}

#[allow(clippy::cast_precision_loss)]
fn severity(vocabulary: &Vocabulary, findings: &LatestFindings<'_>) -> Vec<Detected> {
    let mut topics: BTreeMap<String, (String, Vec<(usize, Position)>)> = BTreeMap::new();
    for (agent, finding) in findings {
        for issue in &finding.issues {
            let Some(level) = vocabulary.severity_index(&issue.severity) else { continue };
            let (_, held) = topics
                .entry(normalise::normalise_words(&issue.topic))
                .or_insert_with(|| (issue.topic.clone(), Vec::new()));
            let reason = if issue.detail.is_empty() { &finding.summary } else { &issue.detail };
            let mut stated = position(agent, finding, &vocabulary.severities[level]);
            stated.reason.clone_from(reason);
            match held.iter_mut().find(|(_, entry)| entry.agent == *agent) {
                // If an agent names an issue twice, its highest severity counts.
                Some(entry) if entry.0 < level => *entry = (level, stated),
                Some(_) => {}
                None => held.push((level, stated)),
            }
        }
    }
    let steps = vocabulary.severities.len().saturating_sub(1).max(1) as f64;
    let conflict = |(topic, held): (String, Vec<(usize, Position)>)| {
        let least = held.iter().map(|(level, _)| *level).min()?;
        let most = held.iter().map(|(level, _)| *level).max()?;
        let size = ((most - least) as f64 / steps + most as f64 / steps) / 2.0;
        let positions = held.into_iter().map(|(_, position)| position).collect();
        (most > least).then(|| (format!("how severe is \"{topic}\"?"), topic, size, positions))
    };
    topics.into_values().filter_map(conflict).collect()
}

#[allow(clippy::cast_precision_loss)]
fn categorical(vocabulary: &Vocabulary, findings: &LatestFindings<'_>) -> Vec<Detected> {
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    let mut positions = Vec::new();
    for (agent, finding) in findings {
        let Some(recommendation) = &finding.recommendation else { continue };
        let spelling = *spelled.entry(normalise::normalise_words(recommendation)).or_insert(recommendation);
        positions.push(position(agent, finding, spelling));
    }
    if spelled.len() < 2 {
        return Vec::new();
    }
    let indices: Vec<usize> = spelled
        .values()
        .filter_map(|recommendation| vocabulary.recommendation_index(recommendation))
        .collect();
    let steps = vocabulary.recommendations.len().saturating_sub(1) as f64;
    let size = match (indices.iter().min(), indices.iter().max()) {
        (Some(least), Some(most)) if most > least => f64::midpoint(1.0, (most - least) as f64 / steps),
        _ => 1.0,
    };
    vec![("what to do".to_owned(), "recommendation".to_owned(), size, positions)]
}

fn factual(findings: &LatestFindings<'_>) -> Vec<Detected> {
    let mut facts: BTreeMap<String, (String, Vec<(Value, Position)>)> = BTreeMap::new();
    for (agent, finding) in findings {
        for (name, value) in &finding.facts {
            let (_, held) =
                facts.entry(normalise::normalise_words(name)).or_insert_with(|| (name.clone(), Vec::new()));
            if held.iter().all(|(_, known)| known.agent != *agent) {
                held.push((value.clone(), position(agent, finding, normalise::value_to_text(value))));
            }
        }
    }
    let conflict = |(name, held): (String, Vec<(Value, Position)>)| {
        let (values, mut positions): (Vec<Value>, Vec<Position>) = held.into_iter().unzip();
        let keys = normalise::canonical_keys(&values);
        // Equal values are given the same spelling.
        for index in 0..keys.len() {
            if let Some(first) = keys[..index].iter().position(|key| *key == keys[index]) {
                positions[index].position = positions[first].position.clone();
            }
        }
        let differ = keys.iter().any(|key| *key != keys[0]);
        differ.then(|| (name.clone(), name, 1.0, positions))
    };
    facts.into_values().filter_map(conflict).collect()
}

/// Highest confidence on the second most confident side.
#[allow(clippy::cast_precision_loss)]
fn certainty(positions: &[Position]) -> f64 {
    let stated: Vec<f64> = positions.iter().filter_map(|position| position.confidence).collect();
    let mean = if stated.is_empty() { 1.0 } else { stated.iter().sum::<f64>() / stated.len() as f64 };
    let mut sides: BTreeMap<String, f64> = BTreeMap::new();
    for position in positions {
        let side = sides.entry(position.position.to_string()).or_default();
        *side = side.max(position.confidence.unwrap_or(mean));
    }
    let mut sides: Vec<f64> = sides.into_values().collect();
    sides.sort_by(|a, b| b.total_cmp(a));
    sides.get(1).copied().unwrap_or_default()
}

impl Conflict {
    /// Distinct positions, in order of first appearance.
    #[must_use]
    pub fn distinct_positions(&self) -> Vec<PositionValue> {
        let mut distinct: Vec<PositionValue> = Vec::new();
        for position in &self.positions {
            if !distinct.contains(&position.position) {
                distinct.push(position.position.clone());
            }
        }
        distinct
    }

    /// Whether the conflict is about a number.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        self.kind == ConflictKind::Numeric
    }
}
