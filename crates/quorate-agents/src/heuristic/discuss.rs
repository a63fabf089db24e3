//! What a reader answers when others see it differently. The rules:
//!
//! - **score, recommendation**: a peer's issue that it quotes is looked up in the contract. If the words stand there, it counts
//!   for me too, as bad as the peer says; if they do not, it does not. An issue without a quote counts if the peer is at
//!   least 0.7 sure of it. The score and the recommendation follow from what I then know.
//! - **severity**: who reckons with a figure outranks who judges by kind; two others who agree outrank one. Else I stay.
//! - **presence**: who can quote a paragraph is right. The extractor looks again by the words of the name.
//! - **fact**: if body and schedule differ and the contract says which prevails, that holds. Else everybody keeps what it read.
//!
//! Who learns something is surer afterwards; who stays alone is less sure.

use std::sync::LazyLock;

use regex::bytes::Regex;
use serde_json::{Value, json};

use super::Heuristic;
use super::finding::{self, Case, recommendation, score, severity_word, short, topic};
use super::reading::regex;
use crate::contracts::{Problem, Severity};

static CLAIM: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"\[(low|medium|high|critical)\] ([a-z ]+)(?:: "([^"]+)")?"#));
static SCHEDULE_PREVAILS: LazyLock<Regex> = LazyLock::new(|| {
    regex("(?:schedule|order form|exhibit)[a-z ]* (?:shall )?(?:prevails?|takes? precedence|controls?)")
});
static BODY_PREVAILS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        "(?:otherwise the main body does|(?:main body|body of this agreement|this agreement)[a-z ]* (?:shall )?(?:prevails?|takes? precedence|controls?))",
    )
});

/// What somebody holds.
struct Position<'a> {
    agent: &'a str,
    position: &'a str,
    confidence: f64,
    reason: &'a str,
}

impl<'a> Position<'a> {
    fn read(value: &'a Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default();
        let confidence = value["confidence"].as_f64().unwrap_or(0.5);
        Self { agent: text("agent"), position: text("position"), confidence, reason: text("reason") }
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

fn reply(
    position: Value,
    confidence: f64,
    agrees: bool,
    reasoning: String,
    evidence: Option<String>,
) -> Value {
    let confidence = (confidence.clamp(0.1, 0.95) * 100.0).round() / 100.0;
    let mut reply = json!({
        "revised_position": position,
        "confidence": confidence,
        "agrees_with_peer": agrees,
        "reasoning": reasoning,
    });
    if let Some(evidence) = evidence {
        reply["evidence"] = evidence.into();
    }
    reply
}

/// Stays, a little less sure.
fn keep(own: &Position<'_>, why: &str, evidence: Option<String>) -> Value {
    reply(own.position.into(), own.confidence - 0.05, false, why.to_owned(), evidence)
}

/// An issue that somebody names.
struct Claim {
    problem: Problem,
    severity: Severity,
    quote: Option<String>,
    by: String,
    sure: f64,
}

fn claims(position: &Position<'_>) -> Vec<Claim> {
    let read = |found: regex::bytes::Captures<'_>| {
        let text = |at: usize| found.get(at).map(|one| String::from_utf8_lossy(one.as_bytes()).into_owned());
        let severity = match text(1)?.as_str() {
            "low" => Severity::Low,
            "medium" => Severity::Medium,
            "high" => Severity::High,
            _ => Severity::Critical,
        };
        let name = text(2)?.trim().replace(' ', "_");
        let problem = Problem::all().find(|problem| problem.name() == name)?;
        Some(Claim {
            problem,
            severity,
            quote: text(3),
            by: position.agent.to_owned(),
            sure: position.confidence,
        })
    };
    CLAIM.captures_iter(position.reason.as_bytes()).filter_map(read).collect()
}

/// Score and recommendation: what peers can show is taken up.
fn whole(case: &Case, text: &str, own: &Position<'_>, others: &[Position<'_>], numeric: bool) -> Value {
    let text =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['"', '\u{201c}', '\u{201d}'], "'");
    let mut known: Vec<(Problem, Severity, String)> =
        case.issues.iter().map(|issue| (issue.problem, issue.severity, case.claim(issue))).collect();
    let before = known.len();
    let (mut taken, mut doubted) = (Vec::new(), Vec::new());
    // What I took up in an earlier round I still know.
    for claim in claims(own).into_iter().chain(others.iter().flat_map(claims)) {
        if known.iter().any(|(problem, ..)| *problem == claim.problem) {
            continue;
        }
        let stands = claim.quote.as_ref().map_or(claim.sure >= 0.7, |quote| text.contains(quote.as_str()));
        if !stands {
            doubted.push(format!("{} (by {})", topic(claim.problem), claim.by));
            continue;
        }
        let quote = claim.quote.map(|quote| format!(": \"{quote}\"")).unwrap_or_default();
        let told = format!("[{}] {}{quote}", severity_word(claim.severity), topic(claim.problem));
        taken.push(told.clone());
        known.push((claim.problem, claim.severity, told));
    }
    let score = score(known.iter().map(|(_, severity, _)| *severity));
    let position = if numeric { json!(score) } else { json!(recommendation(score)) };
    let said = position.as_str().map_or_else(|| position.to_string(), str::to_owned);
    let near = |other: &Position<'_>| match other.position.parse::<f64>() {
        Ok(theirs) if numeric => (theirs - f64::from(score)).abs() <= 10.0,
        _ => other.position == said,
    };
    let agrees = others.iter().any(near);
    known.sort_by_key(|(problem, severity, _)| (std::cmp::Reverse(*severity), *problem));
    let all: Vec<String> = known.iter().take(6).map(|(.., told)| told.clone()).collect();
    let mut reasoning = match (taken.len(), before) {
        (0, 0) => "I see nothing in the text that speaks against it.".to_owned(),
        (0, _) => format!("Nothing that peers show is new to me. I count {}.", all.join("; ")),
        (new, _) => {
            format!("{new} issues of peers stand in the text, and I count them. In all {}.", all.join("; "))
        }
    };
    if !doubted.is_empty() {
        reasoning.push_str(&format!(" Not counted, for want of words in the text: {}.", doubted.join(", ")));
    }
    let change = if !taken.is_empty() {
        0.1
    } else if agrees {
        0.05
    } else {
        -0.05
    };
    reply(position, own.confidence + change, agrees, reasoning, taken.first().cloned())
}

/// Who reckons outranks who judges by kind.
fn severity(own: &Position<'_>, others: &[Position<'_>]) -> Value {
    let reckons = |position: &Position<'_>| position.reason.bytes().any(|byte| byte.is_ascii_digit());
    if !reckons(own) {
        let best =
            others.iter().filter(|one| reckons(one)).max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        if let Some(peer) = best.filter(|peer| peer.position != own.position) {
            let why = format!("{} reckons with figures where I judge by kind: {}", peer.agent, peer.reason);
            return reply(peer.position.into(), own.confidence, true, why, None);
        }
    }
    for peer in others.iter().filter(|peer| peer.position != own.position) {
        let same = others.iter().filter(|one| one.position == peer.position).count();
        if same >= 2 && !reckons(own) {
            let why = format!("{same} peers hold {}, and I have no figure against it.", peer.position);
            return reply(peer.position.into(), own.confidence - 0.05, true, why, None);
        }
    }
    let agrees = others.iter().any(|one| one.position == own.position);
    let why = if reckons(own) {
        "My figures stand in the text, and nobody has others."
    } else {
        "Nobody shows a figure that speaks against me."
    };
    reply(own.position.into(), own.confidence, agrees, why.to_owned(), None)
}

/// Who can quote a paragraph is right.
fn presence(
    reader: Heuristic,
    case: &Case,
    own: &Position<'_>,
    others: &[Position<'_>],
    topic: &str,
) -> Value {
    let name = topic.split('"').nth(1).unwrap_or(topic).replace('_', " ");
    let stems: Vec<&str> =
        name.split(' ').filter(|word| word.len() > 3).map(|word| &word[..word.len().min(6)]).collect();
    let by_words = || {
        let all = |plain: &str| stems.iter().all(|stem| plain.contains(stem));
        case.contract.paragraphs.iter().find(|one| !stems.is_empty() && all(&one.plain))
    };
    let Some(one) = by_words() else {
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
                format!("I took \"{name}\" to be there by a looser sign and find no paragraph to quote.");
            return reply("absent".into(), 0.5, true, why, None);
        }
        return keep(own, "I have nothing to add.", None);
    };
    let evidence = format!("{}: \"{}\"", one.label, short(&one.quote, 200));
    let agrees = others.iter().any(|peer| peer.position == "present");
    let why = format!("A paragraph has the words of \"{name}\" ({}).", one.label);
    reply("present".into(), own.confidence.max(0.6), agrees, why, Some(evidence))
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
    let prevails = if case.contract.any(&SCHEDULE_PREVAILS) {
        Some(true)
    } else {
        case.contract.any(&BODY_PREVAILS).then_some(false)
    };
    let Some(in_schedule) = prevails else {
        return keep(own, "Body and schedule say different things, and nothing says which prevails.", None);
    };
    let Some(one) = finding::first(stated, in_schedule) else {
        return keep(own, "I find it stated once only.", None);
    };
    let value = finding::value(&one.value);
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let agrees = others.iter().any(|peer| peer.position == text);
    let which = if in_schedule { "schedule" } else { "main body" };
    let evidence = short(&case.contract.paragraphs[one.place].quote, 200);
    reply(
        value,
        own.confidence + 0.1,
        agrees,
        format!("The {which} prevails, and it says {text}."),
        Some(evidence),
    )
}
