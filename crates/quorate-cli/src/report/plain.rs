//! The report on a terminal: what was decided, who disagreed, and why.

use std::fmt::Write as _;

use quorate::deliberation::{Decision, Outcome};

use super::{headline, how, percent};
use crate::text::clean_line;

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", clean_line(&outcome.subject));
    let _ = writeln!(out, "✓ {}\n", clean_line(&headline(outcome)));
    for sentence in &outcome.synthesis.summary {
        let _ =
            writeln!(out, "  {}  [{}]", clean_line(&sentence.text), clean_line(&sentence.sources.join(" ")));
    }
    for decision in outcome.decisions.iter().chain(&outcome.further) {
        out.push('\n');
        conflict(&mut out, decision);
    }
    if !outcome.synthesis.issues.is_empty() {
        out.push_str("\nISSUES\n");
    }
    for issue in &outcome.synthesis.issues {
        let by: Vec<&str> = issue.flagged.iter().map(|one| one.agent.as_str()).collect();
        let _ = writeln!(
            out,
            "  {:<9} {}  ({})",
            clean_line(&issue.severity),
            clean_line(&issue.topic),
            clean_line(&by.join(", "))
        );
        if let Some(advice) = issue.flagged.iter().find_map(|one| one.issue.advice.as_ref()) {
            let _ = writeln!(out, "            ask for: {}", clean_line(advice));
        }
    }
    for missing in &outcome.gathered.missing {
        let _ = writeln!(
            out,
            "\nMISSING  {}: {}",
            clean_line(&missing.agent),
            clean_line(&missing.why.join("; then: "))
        );
    }
    let quorum = &outcome.gathered.quorum;
    let _ = writeln!(
        out,
        "\non record as {id}: {} of {} agents, {} messages, quorum {}",
        quorum.present,
        quorum.asked,
        outcome.gathered.messages.len(),
        quorum.needed
    );
    out
}

/// The beginning of what somebody said; the whole of it is in the other formats.
fn short(text: &str) -> String {
    const LETTERS: usize = 100;
    let text = clean_line(text);
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text,
    }
}

fn conflict(out: &mut String, decision: &Decision) {
    let _ = writeln!(
        out,
        "CONFLICT {}  {}: {} ({}, {})",
        decision.id,
        clean_line(&decision.conflict.topic),
        clean_line(&decision.position),
        how(decision),
        percent(decision.share)
    );
    for ballot in &decision.positions {
        let sure = ballot.confidence.map_or(String::new(), |sure| format!(" {sure:.2}"));
        let _ = writeln!(out, "  {:<20} {}{sure}", clean_line(&ballot.agent), clean_line(&ballot.position));
    }
    for change in &decision.changes {
        let _ = writeln!(
            out,
            "  CHANGED  {}: {} → {}  {:?}  [{}]",
            clean_line(&change.agent),
            clean_line(&change.from),
            clean_line(&change.to),
            short(&change.reason),
            clean_line(&change.message)
        );
    }
    for dissent in &decision.minority {
        let _ = writeln!(
            out,
            "  DISSENT  {}: {}  {:?}",
            clean_line(&dissent.agent),
            clean_line(&dissent.position),
            short(&dissent.reason)
        );
    }
    if let Some(flip) = &decision.would_change {
        let _ = writeln!(
            out,
            "  would be {} had {} voted otherwise",
            clean_line(&flip.to),
            clean_line(&flip.voters.join(", "))
        );
    }
}
