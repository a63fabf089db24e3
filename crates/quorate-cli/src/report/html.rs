//! Renders a report as a standalone HTML page: one file without scripts or external resources, all text escaped.

use std::fmt::Write as _;

use quorate::deliberation::{ConflictResolution, Outcome};
use quorate_procedures::conflict::Position;

use super::content;
use crate::terminal::sanitize_line;

/// Characters of a reason that are visible before it is expanded.
const VISIBLE_CHARS: usize = 200;

const STYLE: &str = include_str!("page.css");

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    let subject = escaped(&outcome.subject);
    let _ = writeln!(out, "<title>{subject}</title>\n<style>\n{STYLE}</style>\n<h1>{subject}</h1>");
    let (mark, answer) = content::headline(outcome);
    let kind = if outcome.is_decided() { "" } else { " tie" };
    let _ = writeln!(out, "<p class=\"answer{kind}\"><span>{mark}</span> {}</p>", escaped(&answer));
    out.push_str("<ul class=\"chips\">");
    content::highlights(outcome)
        .iter()
        .for_each(|highlight| out.push_str(&format!("<li>{}</li>", escaped(highlight))));
    out.push_str("</ul>\n<ul class=\"summary\">\n");
    for sentence in &outcome.synthesis.summary {
        let sources = escaped(&sentence.sources.join(" "));
        let _ = writeln!(out, "<li>{} <span class=\"dim\">{sources}</span></li>", escaped(&sentence.text));
    }
    out.push_str("</ul>\n");
    let (first, others) = content::conflicts(outcome);
    first.into_iter().for_each(|decision| {
        conflict(&mut out, decision, Some(&content::other_rules_text(outcome, decision)));
    });
    issues(&mut out, outcome);
    others.into_iter().for_each(|decision| conflict(&mut out, decision, None));
    out.push_str("<footer>\n");
    for (label, agent) in content::missing_and_not_asked(outcome) {
        let _ = writeln!(out, "<p><b class=\"warn\">{label}</b> {}</p>", escaped(&agent));
    }
    let statistics = content::statistics(outcome).join(" · ");
    for line in std::iter::once(statistics).chain(content::provider_usage(outcome)) {
        let _ = writeln!(out, "<p>{}</p>", escaped(&line));
    }
    let _ = writeln!(out, "<p>Stored as {}</p>\n</footer>", escaped(id));
    out
}

fn conflict(out: &mut String, decision: &ConflictResolution, note: Option<&str>) {
    let (topic, resolution) = (escaped(&decision.conflict.topic), escaped(&content::resolution(decision)));
    let _ = writeln!(out, "<section>\n<h2><span class=\"dim\">{}</span> {topic}</h2>", decision.id);
    let decided = escaped(&content::position_text(decision.position.as_ref()));
    let _ = writeln!(out, "<p><b>{decided}</b> <span class=\"dim\">{resolution}</span></p>");
    for choice in content::options(decision) {
        let percent = |share: Option<f64>| 100.0 * share.unwrap_or_default();
        let number = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}"));
        let holders: Vec<String> =
            choice.held_by.iter().map(|position| escaped(&content::holder_label(position))).collect();
        let class = if choice.mark == " " { "" } else { " first" };
        let _ = writeln!(
            out,
            "<div class=\"choice{class}\"><span>{} {}</span> <span class=\"shares\">{} ▸ <b>{}</b></span>\
             <div class=\"bar\"><i class=\"was\" style=\"width:{:.1}%\"></i><i style=\"width:{:.1}%\"></i></div>\
             <div class=\"dim\">{}</div></div>",
            choice.mark,
            escaped(choice.name),
            number(choice.before),
            number(choice.after),
            percent(choice.before),
            percent(choice.after),
            holders.join(" · ")
        );
    }
    out.push_str("<ul class=\"ballots\">\n");
    for (before, after) in content::position_changes(decision) {
        ballot(out, decision, before, after);
    }
    out.push_str("</ul>\n");
    if let Some(pivotal) = content::pivotal_votes(decision) {
        let _ = writeln!(out, "<p class=\"dim\">It {}.</p>", escaped(&pivotal));
    }
    if let Some(note) = note {
        let _ = writeln!(out, "<p class=\"dim\">{}</p>", escaped(note));
    }
    out.push_str("</section>\n");
}

/// Renders the position and reason of an agent, tagged if it changed its position or dissents.
fn ballot(out: &mut String, decision: &ConflictResolution, before: &Position, after: &Position) {
    let position_text = |position: &Position| {
        escaped(format!("{} {}", position.position, content::confidence_text(position.confidence)).trim_end())
    };
    let mut tags = String::new();
    if before.position != after.position {
        let changes = decision.changes.iter().filter(|change| change.agent == after.agent);
        let messages: Vec<&str> = changes.map(|change| change.message.as_str()).collect();
        let _ = write!(tags, " <span class=\"tag\">changed position {}</span>", escaped(&messages.join(" ")));
    }
    let (label, quoted) = content::quoted_positions(decision);
    if label == "Dissent" && quoted.iter().any(|position| position.agent == after.agent) {
        tags.push_str(" <span class=\"tag warn\">dissent</span>");
    }
    let was = if position_text(before) == position_text(after) {
        String::new()
    } else {
        format!("<span class=\"dim\">{} ▸</span> ", position_text(before))
    };
    let (agent, reason) = (escaped(&after.agent), folded(&after.reason));
    let _ = writeln!(out, "<li><b>{agent}</b> {was}{}{tags}{reason}</li>", position_text(after));
}

/// Renders a long text as a collapsed element that shows its beginning.
fn folded(text: &str) -> String {
    match text.char_indices().nth(VISIBLE_CHARS) {
        None => format!("<p>{}</p>", escaped(text)),
        Some((end, _)) => {
            let beginning = escaped(text[..end].trim_end());
            format!("<details><summary>{beginning} …</summary><p>{}</p></details>", escaped(text))
        }
    }
}

fn issues(out: &mut String, outcome: &Outcome) {
    for group in content::issue_groups(outcome) {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>\n<ol class=\"issues\">", group.heading);
        for (issue, demand) in group.issues {
            let severity = escaped(&issue.severity);
            let _ = write!(out, "<li><span class=\"tag\">{severity}</span> <b>{}</b>", escaped(&issue.topic));
            if let Some(section) = demand.and_then(|demand| demand.section.as_ref()) {
                let _ = write!(out, " <span class=\"dim\">{}</span>", escaped(section));
            }
            if let Some(demand) = demand {
                let _ = write!(out, "<p>Ask for: {}</p>", escaped(&demand.ask));
            }
            let agents = escaped(&content::reported_by(issue));
            let _ = writeln!(out, "<div class=\"dim\">reported by {agents}</div></li>");
        }
        out.push_str("</ol>\n</section>\n");
    }
}

fn escaped(text: &str) -> String {
    let text = sanitize_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
