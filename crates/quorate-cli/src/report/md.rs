//! The report in Markdown. What agents wrote has no power over the page: every letter that Markdown knows is escaped.

use std::fmt::Write as _;

use quorate::deliberation::Outcome;

use super::{headline, how, percent};
use crate::text::clean_line;

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n\n**{}**\n", escaped(&outcome.subject), escaped(&headline(outcome)));
    for sentence in &outcome.synthesis.summary {
        let _ = writeln!(out, "- {} ({})", escaped(&sentence.text), escaped(&sentence.sources.join(", ")));
    }
    for decision in outcome.decisions.iter().chain(&outcome.further) {
        let _ = writeln!(out, "\n## {}: {}\n", decision.id, escaped(&decision.conflict.topic));
        let _ = writeln!(
            out,
            "{} ({}, {})\n",
            escaped(&decision.position),
            how(decision),
            percent(decision.share)
        );
        out.push_str("| agent | holds | sure | why |\n|---|---|---|---|\n");
        for ballot in &decision.positions {
            let sure = ballot.confidence.map_or(String::new(), |sure| format!("{sure:.2}"));
            let (agent, position) = (escaped(&ballot.agent), escaped(&ballot.position));
            let _ = writeln!(out, "| {agent} | {position} | {sure} | {} |", escaped(&ballot.reason));
        }
    }
    if !outcome.synthesis.issues.is_empty() {
        out.push_str("\n## Issues\n\n| severity | issue | flagged by |\n|---|---|---|\n");
    }
    for issue in &outcome.synthesis.issues {
        let by: Vec<&str> = issue.flagged.iter().map(|one| one.agent.as_str()).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            escaped(&issue.severity),
            escaped(&issue.topic),
            escaped(&by.join(", "))
        );
    }
    let _ = writeln!(out, "\nOn record as {id}.");
    out
}

/// As text and nothing else.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in clean_line(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            letter
                if letter.is_ascii_punctuation()
                    && !matches!(letter, ',' | ':' | ';' | '%' | '/' | '\'' | '"') =>
            {
                out.push('\\');
                out.push(letter);
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_an_agent_wrote_stays_text() {
        assert_eq!(
            escaped("<img src=x> [a](javascript:x) `b` | *c*\n# d"),
            "&lt;img src\\=x&gt; \\[a\\]\\(javascript:x\\) \\`b\\` \\| \\*c\\*\\\\n\\# d"
        );
    }
}
