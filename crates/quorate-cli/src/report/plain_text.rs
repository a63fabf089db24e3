//! Renders a report as plain text, 80 columns wide regardless of the terminal.

use std::fmt::Write as _;

use quorate::deliberation::{ConflictResolution, Outcome};

use super::content::{self, OptionRow};
use super::wrap::{WIDTH, unbroken, wrapped};
use crate::terminal::{Style, sanitize_line};

/// Maximum number of issues; the other formats have all.
const ISSUES_MAX: usize = 10;
/// Maximum number of conflicts in addition to the one about what to do.
const CONFLICTS_MAX: usize = 5;
/// Characters of a reason that are printed.
const REASON_CHARS: usize = 110;

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = wrapped("", &sanitize_line(&outcome.subject));
    let (mark, answer) = content::headline(outcome);
    out.push_str(&wrapped(&format!("{mark} "), &sanitize_line(&answer)));
    let highlights = content::highlights(outcome);
    if !highlights.is_empty() {
        out.push_str(&wrapped("  ", &dotted(&highlights)));
    }
    out.push('\n');
    for sentence in &outcome.synthesis.summary {
        let text = format!("{} [{}]", sentence.text, sentence.sources.join(" "));
        out.push_str(&wrapped("- ", &sanitize_line(&text)));
    }
    let (first, others) = content::conflicts(outcome);
    for decision in first {
        out.push('\n');
        conflict(&mut out, decision);
        out.push_str(&wrapped("", &sanitize_line(&content::other_rules_text(outcome, decision))));
    }
    issues(&mut out, outcome);
    for decision in others.iter().take(CONFLICTS_MAX) {
        out.push('\n');
        conflict(&mut out, decision);
    }
    more(&mut out, others.len(), CONFLICTS_MAX, "conflicts");
    out.push('\n');
    for (label, agent) in content::missing_and_not_asked(outcome) {
        out.push_str(&labelled(&label.to_uppercase(), &agent));
    }
    out.push_str(&wrapped("", &dotted(&content::statistics(outcome))));
    for line in content::provider_usage(outcome) {
        out.push_str(&wrapped("", &sanitize_line(&line)));
    }
    let _ = writeln!(out, "stored as {}", sanitize_line(id));
    out
}

/// Returns the style of a line of the report.
pub(super) fn style(index: usize, line: &str) -> Style {
    let is_conflict =
        line.strip_prefix('C').is_some_and(|rest| rest.starts_with(|ch: char| ch.is_ascii_digit()));
    let is_heading = line.starts_with("  OPTION") || line.starts_with("  AGENT");
    let is_group = line.len() > 2 && line.chars().all(|ch| ch.is_ascii_uppercase() || ch == ' ');
    match line {
        _ if index == 0 => Style::Strong,
        _ if line.starts_with('✓') => Style::Good,
        _ if line.starts_with('=') || line.starts_with('·') => Style::Warning,
        _ if is_conflict || is_heading => Style::Heading,
        _ if is_group => Style::Strong,
        _ if line.starts_with("MISSING") => Style::Bad,
        _ => Style::Plain,
    }
}

/// Joins parts with dots; lines are broken only between parts.
fn dotted(parts: &[String]) -> String {
    parts.iter().map(|part| unbroken(&sanitize_line(part))).collect::<Vec<_>>().join(" · ")
}

fn more(out: &mut String, all: usize, printed: usize, noun: &str) {
    if all > printed {
        let _ = writeln!(out, "\nand {} more {noun}: see --format md, html or json", all - printed);
    }
}

/// Renders a label in capitals, followed by a text.
fn labelled(label: &str, text: &str) -> String {
    wrapped(&format!("{label}  "), &sanitize_line(text))
}

/// Renders the beginning of a reason on separate lines; the other formats have all of it.
fn quoted(text: &str) -> String {
    let text = sanitize_line(text);
    let text = match text.char_indices().nth(REASON_CHARS) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text,
    };
    if text.is_empty() { String::new() } else { wrapped("         “", &format!("{text}”")) }
}

pub(super) fn conflict(out: &mut String, decision: &ConflictResolution) {
    let heading = format!("{} ({})", decision.conflict.topic, content::resolution(decision));
    out.push_str(&labelled(&decision.id, &heading));
    if decision.conflict.is_numeric() {
        numbers(out, decision);
    } else {
        table(out, &content::options(decision));
    }
    let (label, positions) = content::quoted_positions(decision);
    for position in positions {
        let text = format!(
            "{}: {} {}",
            position.agent,
            position.position,
            content::confidence_text(position.confidence)
        );
        out.push_str(&labelled(&format!("{:<7}", label.to_uppercase()), text.trim_end()));
        out.push_str(&quoted(&position.reason));
    }
    // Changes of numbers are in the table.
    for change in decision.changes.iter().filter(|_| !decision.conflict.is_numeric()) {
        let change_text = format!("{}: {} → {} [{}]", change.agent, change.from, change.to, change.message);
        out.push_str(&labelled("CHANGED", &change_text));
        // The reason may be printed above already.
        if !positions
            .iter()
            .any(|position| position.agent == change.agent && position.reason == change.reason)
        {
            out.push_str(&quoted(&change.reason));
        }
    }
    if let Some(pivotal) = content::pivotal_votes(decision) {
        out.push_str(&wrapped("", &sanitize_line(&pivotal)));
    }
}

/// Renders the options before and after. The column AGAINST is omitted if it does not fit: it lists all other agents.
fn table(out: &mut String, choices: &[OptionRow<'_>]) {
    let names: Vec<String> =
        choices.iter().map(|option| format!("{} {}", option.mark, sanitize_line(option.name))).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(8, 28);
    let list = |positions: &[&quorate_procedures::conflict::Position]| {
        let holders: Vec<String> = positions
            .iter()
            .map(|position| unbroken(&sanitize_line(&content::holder_label(position))))
            .collect();
        holders.join(", ")
    };
    let held_by: Vec<String> = choices.iter().map(|option| list(&option.held_by)).collect();
    let against: Vec<String> = choices.iter().map(|option| list(&option.against)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (offset, column) = (width + 2 + 6 + 2 + 5 + 2, widest(&held_by).max(3));
    let fits = offset + column + 2 + widest(&against).max(7) <= WIDTH && widest(&against) > 0;
    let mut header = format!("{:<width$}  BEFORE  AFTER  FOR", "  OPTION");
    if fits {
        header = format!("{header:<at$}AGAINST", at = offset + column + 2);
    }
    let _ = writeln!(out, "{}", header.trim_end());
    let number = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}"));
    for ((choice, name), (held_by, against)) in choices.iter().zip(names).zip(held_by.iter().zip(against)) {
        let (before, after) = (number(choice.before), number(choice.after));
        let mut row = format!("{name:<width$}  {before:>6}  {after:>5}  ");
        // A name that is too long gets its own line.
        if name.chars().count() > width {
            let _ = writeln!(out, "{name}");
            row = format!("{:<width$}  {before:>6}  {after:>5}  ", "");
        }
        if fits {
            out.push_str(&wrapped(&format!("{row}{held_by:<column$}  "), &against));
        } else {
            out.push_str(&wrapped(&row, held_by));
        }
    }
}

/// Renders the numbers of each agent before and after, and the decision.
fn numbers(out: &mut String, decision: &ConflictResolution) {
    let rows: Vec<[String; 3]> = content::position_changes(decision)
        .map(|(before, after)| {
            [content::holder_label(after), before.position.to_string(), after.position.to_string()]
        })
        .collect();
    let width = rows.iter().map(|row| row[0].chars().count() + 2).max().unwrap_or(0).max(8);
    let _ = writeln!(out, "{:<width$}  BEFORE  AFTER", "  AGENT");
    for [agent, before, after] in &rows {
        let agent = format!("  {}", sanitize_line(agent));
        let _ = writeln!(out, "{agent:<width$}  {before:>6}  {after:>5}");
    }
    let (before, after) = (
        content::position_text(decision.before.as_ref()),
        content::position_text(decision.position.as_ref()),
    );
    let _ = writeln!(out, "{:<width$}  {before:>6}  {after:>5}", "✓ result");
}

fn issues(out: &mut String, outcome: &Outcome) {
    let mut remaining = ISSUES_MAX;
    for group in content::issue_groups(outcome) {
        if remaining == 0 {
            break;
        }
        let _ = writeln!(out, "\n{}", group.heading.to_uppercase());
        for (issue, demand) in group.issues.into_iter().take(remaining) {
            remaining -= 1;
            let section = demand.and_then(|demand| demand.section.as_ref());
            let section = section.map_or(String::new(), |section| format!(", at {section}"));
            let description = format!("{}{section} ({})", issue.topic, content::reported_by(issue));
            let severity = format!("  {:<9} ", sanitize_line(&issue.severity));
            out.push_str(&wrapped(&severity, &sanitize_line(&description)));
            if let Some(demand) = demand {
                out.push_str(&wrapped("            → ", &sanitize_line(&demand.ask)));
            }
        }
    }
    more(out, outcome.synthesis.issues.len(), ISSUES_MAX, "issues");
}
