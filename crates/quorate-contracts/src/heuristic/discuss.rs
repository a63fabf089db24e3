//! What a reader answers when others see it differently. The rules:
//!
//! - **score, recommendation**: a peer's issue that it quotes is looked up in the contract. If the words stand there, it counts
//!   for me too, as bad as the peer says; if they do not, it does not. An issue without a quote counts if the peer is at
//!   least 0.7 sure of it. The score and the recommendation follow from what I then know.
//! - **severity**: who reckons with a figure outranks who judges by kind; two others who agree outrank one. Else I stay.
//! - **presence**: who can quote a paragraph is right. The extractor looks again by the words of the name.
//! - **fact**: if body and schedule differ and the contract says which prevails, that holds. Else everybody keeps what it read.
//!
//! Who changes its position is surer if it learnt something. Whose position is the same after all keeps it and is as sure as
//! before: taking note of what a peer shows is no change of mind.

use serde_json::{Value, json};

use super::Heuristic;
use super::finding::{self, Case, recommendation, score, severity_word, short, topic};
use crate::generator::{Problem, Severity};

/// What somebody holds.
struct Position<'a> {
    agent: &'a str,
    /// As it came: a number in a numeric conflict, else a text.
    value: &'a Value,
    /// The same as text.
    position: String,
    confidence: f64,
    reason: &'a str,
}

impl<'a> Position<'a> {
    fn read(value: &'a Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default();
        let confidence = value["confidence"].as_f64().unwrap_or(0.5);
        let held = &value["position"];
        let position = match held {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        Self { agent: text("agent"), value: held, position, confidence, reason: text("reason") }
    }

    /// Whether that is the same position, however a number is written.
    fn is(&self, position: &str) -> bool {
        match (self.position.parse::<f64>(), position.parse::<f64>()) {
            (Ok(own), Ok(other)) => (own - other).abs() < 1e-9,
            _ => self.position == position,
        }
    }
}

/// Answers on a conflict.
pub(crate) fn answer(reader: Heuristic, text: &str, payload: &Value) -> Value {
    let own = Position::read(&payload["your_position"]);
    let others: Vec<Position<'_>> =
        payload["other_positions"].as_array().into_iter().flatten().map(Position::read).collect();
    let case = Case::read(reader, text);
    let topic = payload["conflict"]["topic"].as_str().unwrap_or_default();
    match payload["conflict"]["kind"].as_str().unwrap_or_default() {
        "numeric" => whole(&case, text, &own, &others, true),
        "categorical" => whole(&case, text, &own, &others, false),
        "severity" => severity(&own, &others),
        "presence" => presence(reader, &case, &own, &others, topic),
        "factual" => fact(&case, &own, &others, topic),
        _ => keep(&own, "I know no rule for such a conflict.", None),
    }
}

/// Takes a position. If it is the one held before, it is kept, as sure as it was.
fn take(
    own: &Position<'_>,
    position: &Value,
    confidence: f64,
    agrees: bool,
    reasoning: String,
    evidence: Option<String>,
) -> Value {
    let said = position.as_str().map_or_else(|| position.to_string(), str::to_owned);
    let mut reply =
        json!({ "revised_position": position, "agrees_with_peer": agrees, "reasoning": reasoning });
    // Without a confidence a reply leaves it as it is.
    if !own.is(&said) {
        reply["confidence"] = ((confidence.clamp(0.1, 0.95) * 100.0).round() / 100.0).into();
    }
    if let Some(evidence) = evidence {
        reply["evidence"] = evidence.into();
    }
    reply
}

/// Stays.
fn keep(own: &Position<'_>, why: &str, evidence: Option<String>) -> Value {
    take(own, own.value, own.confidence, false, why.to_owned(), evidence)
}

/// An issue that somebody names.
struct Claim {
    problem: Problem,
    severity: Severity,
    /// What it says of it: `Section 9.1 lets the vendor …`.
    told: String,
    quote: Option<String>,
    by: String,
    sure: f64,
}

impl Claim {
    /// As it was told, for peers to check.
    fn again(&self) -> String {
        let quote = self.quote.as_ref().map(|quote| format!(": \"{quote}\"")).unwrap_or_default();
        format!("{} ({}, {}{quote}).", self.told, severity_word(self.severity), topic(self.problem))
    }
}

/// The issues in a reason: `Section 9.1 lets … (high, free assignment: "The Vendor may …").`
fn claims(position: &Position<'_>) -> Vec<Claim> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in position.reason.match_indices('(') {
        let inner = &position.reason[at + 1..];
        let severities = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
        let named = severities.into_iter().find_map(|severity| {
            Some((severity, inner.strip_prefix(severity_word(severity))?.strip_prefix(", ")?))
        });
        let Some((severity, rest)) = named else { continue };
        let end = rest.find([':', ')']).unwrap_or(rest.len());
        let name = rest[..end].trim().replace(' ', "_");
        let Some(problem) = Problem::all().find(|problem| problem.name() == name) else { continue };
        let quote =
            rest[end..].strip_prefix(": \"").and_then(|rest| rest.split('"').next()).map(str::to_owned);
        let told = position.reason.get(from..at).unwrap_or_default();
        let told = told.trim_start_matches(|c: char| !c.is_alphanumeric()).trim().to_owned();
        from = at + 1 + position.reason[at + 1..].find(").").map_or(0, |end| end + 2);
        found.push(Claim {
            problem,
            severity,
            told,
            quote,
            by: position.agent.to_owned(),
            sure: position.confidence,
        });
    }
    found
}

/// Score and recommendation: what peers can show is taken up.
fn whole(case: &Case, text: &str, own: &Position<'_>, others: &[Position<'_>], numeric: bool) -> Value {
    let text =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['"', '\u{201c}', '\u{201d}'], "'");
    let mut known: Vec<(Problem, Severity)> =
        case.issues.iter().map(|issue| (issue.problem, issue.severity)).collect();
    let mine = claims(own);
    let (mut taken, mut doubted): (Vec<Claim>, Vec<Claim>) = (Vec::new(), Vec::new());
    // What I took up in an earlier round I still know.
    for claim in claims(own).into_iter().chain(others.iter().flat_map(claims)) {
        if known.iter().any(|(problem, _)| *problem == claim.problem) {
            continue;
        }
        let stands = match &claim.quote {
            Some(quote) => text.contains(quote.trim_end_matches([' ', '\u{2026}'])),
            None => claim.sure >= 0.7,
        };
        if stands {
            known.push((claim.problem, claim.severity));
            taken.push(claim);
        } else if !doubted.iter().any(|known| known.problem == claim.problem) {
            doubted.push(claim);
        }
    }
    let score = score(known.iter().map(|(_, severity)| *severity));
    let position = if numeric { json!(score) } else { json!(recommendation(score)) };
    let said = position.as_str().map_or_else(|| position.to_string(), str::to_owned);
    let near = |other: &Position<'_>| match other.position.parse::<f64>() {
        Ok(theirs) if numeric => (theirs - f64::from(score)).abs() <= 10.0,
        _ => other.position == said,
    };
    let agrees = others.iter().any(near);
    taken.sort_by_key(|claim| std::cmp::Reverse(claim.severity));
    let new: Vec<&Claim> =
        taken.iter().filter(|claim| !mine.iter().any(|own| own.problem == claim.problem)).collect();
    let reasoning = reasons(own, &said, (&new, &taken, &doubted), known.len());
    let evidence =
        new.first().and_then(|claim| Some(format!("{}: \"{}\"", claim.told, claim.quote.as_ref()?)));
    take(own, &position, own.confidence + 0.1, agrees, reasoning, evidence)
}

/// The decisive point first, then all that was taken over, so that peers can check it in turn.
fn reasons(
    own: &Position<'_>,
    said: &str,
    (new, taken, doubted): (&[&Claim], &[Claim], &[Claim]),
    known: usize,
) -> String {
    let mut reasons = match (new, own.is(said)) {
        ([], _) if known == 0 => "Nothing in the text speaks against it.".to_owned(),
        ([], _) => {
            let issues = if known == 1 { "one issue".to_owned() } else { format!("{known} issues") };
            format!("Peers show nothing that is new to me; I count {issues}.")
        }
        ([first], true) => format!("{}; I count it, and my position stays the same.", first.told),
        ([first], false) => format!("{}; I had not counted it.", first.told),
        ([first, rest @ ..], same) => {
            let more = rest.len();
            let end = if same { "my position stays the same" } else { "I had counted none of them" };
            format!("{}; with {more} more that stand in the text, {end}.", first.told)
        }
    };
    if !taken.is_empty() {
        let all: Vec<String> = taken.iter().map(Claim::again).collect();
        reasons.push_str(&format!(" Taken over: {}", all.join(" ")));
    }
    if !doubted.is_empty() {
        let all: Vec<String> =
            doubted.iter().map(|claim| format!("{} (by {})", topic(claim.problem), claim.by)).collect();
        reasons.push_str(&format!(" Not counted, for want of words in the text: {}.", all.join(", ")));
    }
    reasons
}

/// Whether a reason has a figure; the number of a section and what is quoted are none.
fn reckons(position: &Position<'_>) -> bool {
    let mut before = "";
    for word in position.reason.split('"').step_by(2).flat_map(str::split_whitespace) {
        let cites = ["section", "schedule", "article", "exhibit", "annex", "appendix"]
            .contains(&before.to_lowercase().as_str());
        let in_place = before.ends_with(',') && word.trim_end_matches('.').len() <= 2;
        if word.contains(|c: char| c.is_ascii_digit()) && !cites && !in_place && !word.starts_with('(') {
            return true;
        }
        before = word;
    }
    false
}

/// Who reckons outranks who judges by kind.
fn severity(own: &Position<'_>, others: &[Position<'_>]) -> Value {
    if !reckons(own) {
        let best =
            others.iter().filter(|one| reckons(one)).max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        if let Some(peer) = best.filter(|peer| peer.position != own.position) {
            let why = format!("{} {} reckons it, where I judge by kind.", peer.reason.trim_end(), peer.agent);
            return take(own, peer.value, own.confidence, true, why, None);
        }
    }
    for peer in others.iter().filter(|peer| peer.position != own.position) {
        let same = others.iter().filter(|one| one.position == peer.position).count();
        if same >= 2 && !reckons(own) {
            let why =
                format!("{same} peers hold it to be {}, and I have no figure against it.", peer.position);
            return take(own, peer.value, own.confidence - 0.05, true, why, None);
        }
    }
    let agrees = others.iter().any(|one| one.position == own.position);
    let why = if reckons(own) {
        "My figures stand in the text, and nobody has others."
    } else {
        "Nobody shows a figure that speaks against me."
    };
    take(own, own.value, own.confidence, agrees, why.to_owned(), None)
}

/// Who can quote a paragraph is right.
fn presence(
    reader: Heuristic,
    case: &Case,
    own: &Position<'_>,
    others: &[Position<'_>],
    topic: &str,
) -> Value {
    let named = topic.split('"').nth(1).unwrap_or(topic);
    let name = named.replace('_', " ");
    let stems: Vec<&str> =
        name.split(' ').filter(|word| word.len() > 3).map(|word| &word[..word.len().min(6)]).collect();
    let contract = &case.contract;
    let by_rule = || contract.paragraphs.iter().find_map(|one| Some((one, contract.fits(one, named)?)));
    let by_words = || {
        let all = |plain: &str| stems.iter().all(|stem| plain.contains(stem));
        let one = contract.paragraphs.iter().find(|one| !stems.is_empty() && all(&one.plain))?;
        Some((one, one.plains.iter().position(|plain| all(plain)).unwrap_or(0)))
    };
    let Some((one, at)) = by_rule().or_else(by_words) else {
        if own.position == "absent" {
            let mut kept = keep(own, &format!("No paragraph has the words of \"{name}\"."), None);
            if let Some(peer) = others.iter().find(|peer| peer.position == "present") {
                kept["question"] =
                    json!({ "to": peer.agent, "text": format!("Which paragraph is the {name}?") });
            }
            return kept;
        }
        if reader != Heuristic::Clauses && others.iter().any(|peer| peer.position == "absent") {
            let why =
                format!("No paragraph can be quoted for \"{name}\"; I took it to be there by a looser sign.");
            return take(own, &"absent".into(), 0.5, true, why, None);
        }
        return keep(own, "I have nothing to add.", None);
    };
    let evidence = format!("{}: \"{}\"", one.label, short(one.sentence(at), 200));
    let agrees = others.iter().any(|peer| peer.position == "present");
    let why = format!("{} has the words of \"{name}\".", capital(&one.label));
    take(own, &"present".into(), own.confidence.max(0.6), agrees, why, Some(evidence))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

/// If the contract says which place prevails, that holds.
fn fact(case: &Case, own: &Position<'_>, others: &[Position<'_>], name: &str) -> Value {
    let stated = match name {
        "payment_days" => &case.facts.payment_days,
        "liability_cap" => &case.facts.caps,
        "governing_law" => &case.facts.laws,
        "end_of_term" => &case.facts.ends,
        _ => return keep(own, "I read it once and find no other place.", None),
    };
    let prevails = if case.contract.any("schedule_prevails") {
        Some(true)
    } else {
        case.contract.any("body_prevails").then_some(false)
    };
    let Some(in_schedule) = prevails else {
        return keep(own, "Body and schedule say different things, and nothing says which prevails.", None);
    };
    let Some(one) = finding::first(stated, in_schedule) else {
        return keep(own, "I find it stated once only.", None);
    };
    let value = finding::value(&one.value);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let agrees = others.iter().any(|peer| peer.is(&text));
    let which = if in_schedule { "schedule" } else { "main body" };
    let place = &case.contract.paragraphs[one.place];
    let evidence = format!("{}: \"{}\"", place.label, short(&place.quote, 200));
    let why = format!("{} says {}, and the {which} prevails.", capital(&place.label), one.value);
    take(own, &value, own.confidence + 0.1, agrees, why, Some(evidence))
}
