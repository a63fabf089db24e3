//! Renders a report in Markdown. All Markdown syntax in text from agents is escaped.

use std::fmt::Write as _;

use quorate::deliberation::{Decision, Outcome};
use quorate_procedures::conflict::Position;

use super::parts;
use crate::text::clean_line;

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::new();
    let (mark, answer) = parts::answer(outcome);
    let _ = writeln!(out, "# {}\n\n{mark} **{}**\n", escaped(&outcome.subject), escaped(&answer));
    let qualities = parts::qualities(outcome);
    if !qualities.is_empty() {
        let _ = writeln!(out, "{}\n", escaped(&qualities.join(" · ")));
    }
    for sentence in &outcome.synthesis.summary {
        let _ = writeln!(out, "- {} ({})", escaped(&sentence.text), escaped(&sentence.sources.join(", ")));
    }
    let (first, others) = parts::conflicts(outcome);
    for decision in first {
        conflict(&mut out, decision);
        let _ = writeln!(out, "- {}", escaped(&parts::other_rules(outcome, decision)));
    }
    issues(&mut out, outcome);
    others.into_iter().for_each(|decision| conflict(&mut out, decision));
    out.push_str("\n## Statistics\n\n");
    for (label, who) in parts::absent(outcome) {
        let _ = writeln!(out, "- {label}: {}", escaped(&who));
    }
    let figures = parts::figures(outcome).join(" · ");
    for line in std::iter::once(figures).chain(parts::providers(outcome)) {
        let _ = writeln!(out, "- {}", escaped(&line));
    }
    let _ = writeln!(out, "- Stored as {}", escaped(id));
    out
}

fn conflict(out: &mut String, decision: &Decision) {
    let (topic, how) = (escaped(&decision.conflict.topic), escaped(&parts::how(decision)));
    let stands = escaped(&parts::stands(decision.position.as_ref()));
    let _ = writeln!(out, "\n## {}: {topic}\n\n**{stands}**: {how}", decision.id);
    let choices = parts::choices(decision);
    if !choices.is_empty() {
        out.push_str("\n| | option | before | after | for | against |\n|---|---|---|---|---|---|\n");
    }
    let number = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}"));
    for choice in choices {
        let list = |held: &[&Position]| {
            let holders: Vec<String> = held.iter().map(|one| escaped(&parts::holder(one))).collect();
            holders.join(", ")
        };
        let (held_by, against) = (list(&choice.held_by), list(&choice.against));
        let (before, after) = (number(choice.before), number(choice.after));
        let name = escaped(choice.name);
        let _ =
            writeln!(out, "| {} | {name} | {before} | {after} | {held_by} | {against} |", choice.mark.trim());
    }
    out.push_str("\n| agent | before | after | reason |\n|---|---|---|---|\n");
    for (before, after) in parts::before_and_after(decision) {
        let held =
            |one: &Position| escaped(format!("{} {}", one.position, parts::sure(one.confidence)).trim_end());
        let (agent, why) = (escaped(&after.agent), escaped(&after.reason));
        let _ = writeln!(out, "| {agent} | {} | {} | {why} |", held(before), held(after));
    }
    out.push('\n');
    let (label, voices) = parts::voices(decision);
    for voice in voices {
        let _ =
            writeln!(out, "- {label}: {}: {}", escaped(&voice.agent), escaped(&voice.position.to_string()));
    }
    for change in &decision.changes {
        let moved = format!("{}: {} → {} ({})", change.agent, change.from, change.to, change.message);
        let _ = writeln!(out, "- Changed: {}", escaped(&moved));
    }
    if let Some(flip) = parts::flip(decision) {
        let _ = writeln!(out, "- It {}", escaped(&flip));
    }
}

fn issues(out: &mut String, outcome: &Outcome) {
    for group in parts::issues(outcome) {
        let _ = writeln!(
            out,
            "\n## {}\n\n| severity | issue | where | ask for | flagged by |\n|---|---|---|---|---|",
            group.heading
        );
        for (issue, demand) in group.issues {
            let section = demand.and_then(|demand| demand.section.as_deref()).unwrap_or_default();
            let ask = demand.map_or("", |demand| &demand.ask);
            let (severity, topic) = (escaped(&issue.severity), escaped(&issue.topic));
            let by = escaped(&parts::flagged(issue));
            let _ =
                writeln!(out, "| {severity} | {topic} | {} | {} | {by} |", escaped(section), escaped(ask));
        }
    }
}

/// Escapes everything that Markdown or HTML would interpret.
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
    fn markdown_in_text_from_agents_is_escaped() {
        assert_eq!(
            escaped("<img src=x> [a](javascript:x) `b` | *c*\n# d"),
            "&lt;img src\\=x&gt; \\[a\\]\\(javascript:x\\) \\`b\\` \\| \\*c\\*\\\\n\\# d"
        );
    }
}
