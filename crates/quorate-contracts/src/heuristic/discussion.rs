//! Replies of an analyst when other agents disagree. The rules:
//!
//! - **score, recommendation**: an issue that a peer quotes is looked up in the contract. If the quoted words are
//!   there, it is adopted with the peer's severity; otherwise it is not. An issue without a quotation is adopted if the
//!   peer's confidence is at least 0.7. Score and recommendation follow from the resulting issues.
//! - **severity**: a position with a figure outranks one without; two peers who agree outrank one. Otherwise the
//!   position stays.
//! - **presence**: a position with a quoted paragraph is right. The extractor searches again by the words of the name.
//! - **fact**: if body and schedule differ and the contract states which prevails, that value holds. Otherwise the
//!   position stays.
//!
//! A changed position gets a higher confidence if it is based on new information. An unchanged position keeps its
//! confidence: adopting a peer's issue alone is not a change of position.

use serde_json::{Value, json};

use super::Heuristic;
use super::finding::{self, Review, recommendation, score, severity_name, topic, truncate_quote};
use crate::generator::{Problem, Severity};

/// Position of an agent.
struct Position<'a> {
    agent: &'a str,
    /// The value as received: a number in a numeric conflict, else a string.
    value: &'a Value,
    /// The value as text.
    position: String,
    confidence: f64,
    reason: &'a str,
}

impl<'a> Position<'a> {
    fn read(json: &'a Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap_or_default();
        let confidence = json["confidence"].as_f64().unwrap_or(0.5);
        let value = &json["position"];
        let position = match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        Self { agent: text("agent"), value, position, confidence, reason: text("reason") }
    }

    /// Whether the positions are equal; numbers are compared by value.
    fn is(&self, position: &str) -> bool {
        match (self.position.parse::<f64>(), position.parse::<f64>()) {
            (Ok(own), Ok(other)) => (own - other).abs() < 1e-9,
            _ => self.position == position,
        }
    }
}

/// Replies to a conflict.
pub(crate) fn answer(analyst: Heuristic, text: &str, payload: &Value) -> Value {
    let own = Position::read(&payload["your_position"]);
    let others: Vec<Position<'_>> =
        payload["other_positions"].as_array().into_iter().flatten().map(Position::read).collect();
    let review = Review::new(analyst, text);
    let topic = payload["conflict"]["topic"].as_str().unwrap_or_default();
    match payload["conflict"]["kind"].as_str().unwrap_or_default() {
        "numeric" => score_or_recommendation(&review, text, &own, &others, true),
        "categorical" => score_or_recommendation(&review, text, &own, &others, false),
        "severity" => severity(&own, &others),
        "presence" => presence(analyst, &review, &own, &others, topic),
        "factual" => fact(&review, &own, &others, topic),
        _ => keep(&own, "No rule applies to this kind of conflict.", None),
    }
}

/// Builds the reply for a position. If it equals the current one, the confidence stays unchanged.
fn reply_with(
    own: &Position<'_>,
    position: &Value,
    confidence: f64,
    agrees: bool,
    reasoning: String,
    evidence: Option<String>,
) -> Value {
    let text = position.as_str().map_or_else(|| position.to_string(), str::to_owned);
    let mut reply =
        json!({ "revised_position": position, "agrees_with_peer": agrees, "reasoning": reasoning });
    // A reply without a confidence leaves it unchanged.
    if !own.is(&text) {
        reply["confidence"] = ((confidence.clamp(0.1, 0.95) * 100.0).round() / 100.0).into();
    }
    if let Some(evidence) = evidence {
        reply["evidence"] = evidence.into();
    }
    reply
}

/// Builds a reply that keeps the position.
fn keep(own: &Position<'_>, reasoning: &str, evidence: Option<String>) -> Value {
    reply_with(own, own.value, own.confidence, false, reasoning.to_owned(), evidence)
}

/// An issue claimed by an agent.
struct Claim {
    problem: Problem,
    severity: Severity,
    /// Description of the issue: `Section 9.1 lets the vendor …`.
    description: String,
    quote: Option<String>,
    agent: String,
    confidence: f64,
}

impl Claim {
    /// Renders the claim so that peers can verify it.
    fn render(&self) -> String {
        let quote = self.quote.as_ref().map(|quote| format!(": \"{quote}\"")).unwrap_or_default();
        format!("{} ({}, {}{quote}).", self.description, severity_name(self.severity), topic(self.problem))
    }
}

/// Parses the issues in a reason: `Section 9.1 lets … (high, free assignment: "The Vendor may …").`
fn claims(position: &Position<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut start = 0;
    for (offset, _) in position.reason.match_indices('(') {
        let inner = &position.reason[offset + 1..];
        let severities = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
        let parsed = severities.into_iter().find_map(|severity| {
            Some((severity, inner.strip_prefix(severity_name(severity))?.strip_prefix(", ")?))
        });
        let Some((severity, rest)) = parsed else { continue };
        let end = rest.find([':', ')']).unwrap_or(rest.len());
        let name = rest[..end].trim().replace(' ', "_");
        let Some(problem) = Problem::all().find(|problem| problem.name() == name) else { continue };
        let quote =
            rest[end..].strip_prefix(": \"").and_then(|rest| rest.split('"').next()).map(str::to_owned);
        let description = position.reason.get(start..offset).unwrap_or_default();
        let description = description.trim_start_matches(|c: char| !c.is_alphanumeric()).trim().to_owned();
        start = offset + 1 + position.reason[offset + 1..].find(").").map_or(0, |end| end + 2);
        claims.push(Claim {
            problem,
            severity,
            description,
            quote,
            agent: position.agent.to_owned(),
            confidence: position.confidence,
        });
    }
    claims
}

/// Replies on score and recommendation: adopts the issues of peers that can be verified.
fn score_or_recommendation(
    review: &Review,
    text: &str,
    own: &Position<'_>,
    others: &[Position<'_>],
    numeric: bool,
) -> Value {
    let text =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['"', '\u{201c}', '\u{201d}'], "'");
    let mut counted: Vec<(Problem, Severity)> =
        review.issues.iter().map(|issue| (issue.problem, issue.severity)).collect();
    let own_claims = claims(own);
    let (mut adopted, mut doubted): (Vec<Claim>, Vec<Claim>) = (Vec::new(), Vec::new());
    // Issues adopted in an earlier round are part of the own reason.
    for claim in claims(own).into_iter().chain(others.iter().flat_map(claims)) {
        if counted.iter().any(|(problem, _)| *problem == claim.problem) {
            continue;
        }
        let is_verified = match &claim.quote {
            Some(quote) => text.contains(quote.trim_end_matches([' ', '\u{2026}'])),
            None => claim.confidence >= 0.7,
        };
        if is_verified {
            counted.push((claim.problem, claim.severity));
            adopted.push(claim);
        } else if !doubted.iter().any(|doubt| doubt.problem == claim.problem) {
            doubted.push(claim);
        }
    }
    let score = score(counted.iter().map(|(_, severity)| *severity));
    let position = if numeric { json!(score) } else { json!(recommendation(score)) };
    let position_text = position.as_str().map_or_else(|| position.to_string(), str::to_owned);
    let is_near = |other: &Position<'_>| match other.position.parse::<f64>() {
        Ok(theirs) if numeric => (theirs - f64::from(score)).abs() <= 10.0,
        _ => other.position == position_text,
    };
    let agrees = others.iter().any(is_near);
    adopted.sort_by_key(|claim| std::cmp::Reverse(claim.severity));
    let new: Vec<&Claim> =
        adopted.iter().filter(|claim| !own_claims.iter().any(|own| own.problem == claim.problem)).collect();
    let reasoning = reasons(own, &position_text, (&new, &adopted, &doubted), counted.len());
    let evidence =
        new.first().and_then(|claim| Some(format!("{}: \"{}\"", claim.description, claim.quote.as_ref()?)));
    reply_with(own, &position, own.confidence + 0.1, agrees, reasoning, evidence)
}

/// Renders the reasoning: the decisive point first, then all adopted issues, so that peers can verify them.
fn reasons(
    own: &Position<'_>,
    position: &str,
    (new, adopted, doubted): (&[&Claim], &[Claim], &[Claim]),
    issue_count: usize,
) -> String {
    let mut reasons = match (new, own.is(position)) {
        ([], _) if issue_count == 0 => "Nothing in the text speaks against it.".to_owned(),
        ([], _) => {
            let issues =
                if issue_count == 1 { "one issue".to_owned() } else { format!("{issue_count} issues") };
            format!("Peers show nothing new to me; I count {issues}.")
        }
        ([first], true) => format!("{}; I count it, and my position stays the same.", first.description),
        ([first], false) => format!("{}; I had not counted it.", first.description),
        ([first, rest @ ..], same) => {
            let more = rest.len();
            let end = if same { "my position stays the same" } else { "I had counted none of them" };
            format!("{}; with {more} more that are in the text, {end}.", first.description)
        }
    };
    if !adopted.is_empty() {
        let rendered: Vec<String> = adopted.iter().map(Claim::render).collect();
        reasons.push_str(&format!(" Adopted: {}", rendered.join(" ")));
    }
    if !doubted.is_empty() {
        let rendered: Vec<String> =
            doubted.iter().map(|claim| format!("{} (by {})", topic(claim.problem), claim.agent)).collect();
        reasons.push_str(&format!(
            " Not counted, because the quoted words are not in the text: {}.",
            rendered.join(", ")
        ));
    }
    reasons
}

/// Whether a reason contains a figure; section numbers and quotations do not count.
fn has_figure(position: &Position<'_>) -> bool {
    let mut before = "";
    for word in position.reason.split('"').step_by(2).flat_map(str::split_whitespace) {
        let cites = ["section", "schedule", "article", "exhibit", "annex", "appendix"]
            .contains(&before.to_lowercase().as_str());
        let is_subsection = before.ends_with(',') && word.trim_end_matches('.').len() <= 2;
        if word.contains(|c: char| c.is_ascii_digit()) && !cites && !is_subsection && !word.starts_with('(') {
            return true;
        }
        before = word;
    }
    false
}

/// Replies on a severity: a position with a figure outranks one without.
fn severity(own: &Position<'_>, others: &[Position<'_>]) -> Value {
    if !has_figure(own) {
        let best = others
            .iter()
            .filter(|peer| has_figure(peer))
            .max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        if let Some(peer) = best.filter(|peer| peer.position != own.position) {
            let reasoning = format!(
                "{} {} gives a figure, while I judge by category.",
                peer.reason.trim_end(),
                peer.agent
            );
            return reply_with(own, peer.value, own.confidence, true, reasoning, None);
        }
    }
    for peer in others.iter().filter(|peer| peer.position != own.position) {
        let same = others.iter().filter(|other| other.position == peer.position).count();
        if same >= 2 && !has_figure(own) {
            let reasoning = format!("{same} peers hold {}, and I have no figure against it.", peer.position);
            return reply_with(own, peer.value, own.confidence - 0.05, true, reasoning, None);
        }
    }
    let agrees = others.iter().any(|peer| peer.position == own.position);
    let reasoning = if has_figure(own) {
        "My figures are in the text, and no peer gives others."
    } else {
        "No peer gives a figure that contradicts me."
    };
    reply_with(own, own.value, own.confidence, agrees, reasoning.to_owned(), None)
}

/// Replies on the presence of a clause: a position with a quoted paragraph is right.
fn presence(
    analyst: Heuristic,
    review: &Review,
    own: &Position<'_>,
    others: &[Position<'_>],
    topic: &str,
) -> Value {
    let rule = topic.split('"').nth(1).unwrap_or(topic);
    let name = rule.replace('_', " ");
    let stems: Vec<&str> =
        name.split(' ').filter(|word| word.len() > 3).map(|word| &word[..word.len().min(6)]).collect();
    let contract = &review.contract;
    let by_rule = || {
        contract
            .paragraphs
            .iter()
            .find_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, rule)?)))
    };
    let by_words = || {
        let contains_all = |text: &str| stems.iter().all(|stem| text.contains(stem));
        let paragraph = contract
            .paragraphs
            .iter()
            .find(|paragraph| !stems.is_empty() && contains_all(&paragraph.normalised))?;
        Some((
            paragraph,
            paragraph.normalised_sentences.iter().position(|text| contains_all(text)).unwrap_or(0),
        ))
    };
    let Some((paragraph, sentence)) = by_rule().or_else(by_words) else {
        if own.position == "absent" {
            let mut reply = keep(own, &format!("No paragraph contains the words of \"{name}\"."), None);
            if let Some(peer) = others.iter().find(|peer| peer.position == "present") {
                reply["question"] =
                    json!({ "to": peer.agent, "text": format!("Which paragraph is the {name}?") });
            }
            return reply;
        }
        if analyst != Heuristic::Clauses && others.iter().any(|peer| peer.position == "absent") {
            let reasoning =
                format!("No paragraph can be quoted for \"{name}\"; I assumed it from a weaker cue.");
            return reply_with(own, &"absent".into(), 0.5, true, reasoning, None);
        }
        return keep(own, "I have nothing to add.", None);
    };
    let evidence = format!("{}: \"{}\"", paragraph.label, truncate_quote(paragraph.sentence(sentence), 200));
    let agrees = others.iter().any(|peer| peer.position == "present");
    let reasoning = format!("{} contains the words of \"{name}\".", capital(&paragraph.label));
    reply_with(own, &"present".into(), own.confidence.max(0.6), agrees, reasoning, Some(evidence))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

/// Replies on a fact: if the contract states which part prevails, that value holds.
fn fact(review: &Review, own: &Position<'_>, others: &[Position<'_>], name: &str) -> Value {
    let stated_values = match name {
        "payment_days" => &review.facts.payment_days,
        "liability_cap" => &review.facts.caps,
        "governing_law" => &review.facts.laws,
        "end_of_term" => &review.facts.ends,
        _ => return keep(own, "I find it stated in one place only.", None),
    };
    let prevails = if review.contract.matches_anywhere("schedule_prevails") {
        Some(true)
    } else {
        review.contract.matches_anywhere("body_prevails").then_some(false)
    };
    let Some(in_schedule) = prevails else {
        return keep(own, "Body and schedule differ, and the contract does not state which prevails.", None);
    };
    let Some(stated_value) = finding::first(stated_values, in_schedule) else {
        return keep(own, "I find it stated only once.", None);
    };
    let value = finding::value(&stated_value.value);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let agrees = others.iter().any(|peer| peer.is(&text));
    let part = if in_schedule { "schedule" } else { "main body" };
    let paragraph = &review.contract.paragraphs[stated_value.paragraph];
    let evidence = format!("{}: \"{}\"", paragraph.label, truncate_quote(&paragraph.quote, 200));
    let reasoning =
        format!("{} states {}, and the {part} prevails.", capital(&paragraph.label), stated_value.value);
    reply_with(own, &value, own.confidence + 0.1, agrees, reasoning, Some(evidence))
}
