//! Renders a report in Markdown. All Markdown syntax in text from agents is escaped.

use std::fmt::Write as _;

use quorate::deliberation::{ConflictResolution, Outcome};
use quorate_procedures::conflict::Position;

use super::content;
use crate::terminal::sanitize_line;

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::new();
    let (mark, answer) = content::headline(outcome);
    let _ = writeln!(out, "# {}\n\n{mark} **{}**\n", escaped(&outcome.subject), escaped(&answer));
    let highlights = content::highlights(outcome);
    if !highlights.is_empty() {
        let _ = writeln!(out, "{}\n", escaped(&highlights.join(" · ")));
    }
    for sentence in &outcome.synthesis.summary {
        let _ = writeln!(out, "- {} ({})", escaped(&sentence.text), escaped(&sentence.sources.join(", ")));
    }
    let (first, others) = content::conflicts(outcome);
    for decision in first {
        conflict(&mut out, decision);
        let _ = writeln!(out, "- {}", escaped(&content::other_rules_text(outcome, decision)));
    }
    issues(&mut out, outcome);
    others.into_iter().for_each(|decision| conflict(&mut out, decision));
    out.push_str("\n## Statistics\n\n");
    for (label, agent) in content::missing_and_not_asked(outcome) {
        let _ = writeln!(out, "- {label}: {}", escaped(&agent));
    }
    let statistics = content::statistics(outcome).join(" · ");
    for line in std::iter::once(statistics).chain(content::provider_usage(outcome)) {
        let _ = writeln!(out, "- {}", escaped(&line));
    }
    let _ = writeln!(out, "- Stored as {}", escaped(id));
    out
}

fn conflict(out: &mut String, decision: &ConflictResolution) {
    let (topic, resolution) = (escaped(&decision.conflict.topic), escaped(&content::resolution(decision)));
    let decided = escaped(&content::position_text(decision.position.as_ref()));
    let _ = writeln!(out, "\n## {}: {topic}\n\n**{decided}**: {resolution}", decision.id);
    let choices = content::options(decision);
    if !choices.is_empty() {
        out.push_str("\n| | option | before | after | for | against |\n|---|---|---|---|---|---|\n");
    }
    let number = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}"));
    for choice in choices {
        let list = |positions: &[&Position]| {
            let holders: Vec<String> =
                positions.iter().map(|position| escaped(&content::holder_label(position))).collect();
            holders.join(", ")
        };
        let (held_by, against) = (list(&choice.held_by), list(&choice.against));
        let (before, after) = (number(choice.before), number(choice.after));
        let name = escaped(choice.name);
        let _ =
            writeln!(out, "| {} | {name} | {before} | {after} | {held_by} | {against} |", choice.mark.trim());
    }
    out.push_str("\n| agent | before | after | reason |\n|---|---|---|---|\n");
    for (before, after) in content::position_changes(decision) {
        let position_text = |position: &Position| {
            escaped(
                format!("{} {}", position.position, content::confidence_text(position.confidence)).trim_end(),
            )
        };
        let (agent, reason) = (escaped(&after.agent), escaped(&after.reason));
        let _ =
            writeln!(out, "| {agent} | {} | {} | {reason} |", position_text(before), position_text(after));
    }
    out.push('\n');
    let (label, quoted) = content::quoted_positions(decision);
    for position in quoted {
        let _ = writeln!(
            out,
            "- {label}: {}: {}",
            escaped(&position.agent),
            escaped(&position.position.to_string())
        );
    }
    for change in &decision.changes {
        let change_text = format!("{}: {} → {} ({})", change.agent, change.from, change.to, change.message);
        let _ = writeln!(out, "- Changed: {}", escaped(&change_text));
    }
    if let Some(pivotal) = content::pivotal_votes(decision) {
        let _ = writeln!(out, "- It {}", escaped(&pivotal));
    }
}

fn issues(out: &mut String, outcome: &Outcome) {
    for group in content::issue_groups(outcome) {
        let _ = writeln!(
            out,
            "\n## {}\n\n| severity | issue | where | ask for | reported by |\n|---|---|---|---|---|",
            group.heading
        );
        for (issue, demand) in group.issues {
            let section = demand.and_then(|demand| demand.section.as_deref()).unwrap_or_default();
            let ask = demand.map_or("", |demand| &demand.ask);
            let (severity, topic) = (escaped(&issue.severity), escaped(&issue.topic));
            let agents = escaped(&content::reported_by(issue));
            let _ = writeln!(
                out,
                "| {severity} | {topic} | {} | {} | {agents} |",
                escaped(section),
                escaped(ask)
            );
        }
    }
}

/// Escapes everything that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in sanitize_line(text).chars() {
        match ch {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            ch if ch.is_ascii_punctuation() && !matches!(ch, ',' | ':' | ';' | '%' | '/' | '\'' | '"') => {
                out.push('\\');
                out.push(ch);
            }
            ch => out.push(ch),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn markdown_in_text_from_agents_is_escaped() {
        assert_eq!(
            escaped("<img src=x> [a](javascript:x) `b` | *c*\n# d"),
            "&lt;img src\\=x&gt; \\[a\\]\\(javascript:x\\) \\`b\\` \\| \\*c\\*\\\\n\\# d"
        );
    }
}
