//! The report as a page of its own: one file, no script, nothing from elsewhere, and every text escaped.

use std::fmt::Write as _;

use quorate::deliberation::Outcome;

use super::{headline, how, percent};
use crate::text::clean_line;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:light-dark(#d8dce2,#3a3f47);--dim:light-dark(#5b6470,#9aa3ad)}\
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.1rem;margin-top:2rem}\
.head{font-weight:600}.dim{color:var(--dim)}\
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}\
th,td{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--line)}\
th{font-weight:600;color:var(--dim)}td:last-child{min-width:14rem}li{margin:.25rem 0}";

pub(super) fn report(outcome: &Outcome, id: &str) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    let subject = escaped(&outcome.subject);
    let _ = writeln!(out, "<title>{subject}</title>\n<style>{STYLE}</style>\n<h1>{subject}</h1>");
    let _ = writeln!(out, "<p class=\"head\">{}</p>\n<ul>", escaped(&headline(outcome)));
    for sentence in &outcome.synthesis.summary {
        let sources = escaped(&sentence.sources.join(", "));
        let _ = writeln!(out, "<li>{} <span class=\"dim\">{sources}</span>", escaped(&sentence.text));
    }
    out.push_str("</ul>\n");
    for decision in outcome.decisions.iter().chain(&outcome.further) {
        let _ = writeln!(out, "<h2>{}: {}</h2>", decision.id, escaped(&decision.conflict.topic));
        let _ = writeln!(
            out,
            "<p><b>{}</b> <span class=\"dim\">{}, {}</span></p>",
            escaped(&decision.position),
            how(decision),
            percent(decision.share)
        );
        out.push_str("<table><tr><th>agent<th>holds<th>sure<th>why</tr>\n");
        for ballot in &decision.positions {
            let sure = ballot.confidence.map_or(String::new(), |sure| format!("{sure:.2}"));
            let (agent, position) = (escaped(&ballot.agent), escaped(&ballot.position));
            let _ =
                writeln!(out, "<tr><td>{agent}<td>{position}<td>{sure}<td>{}</tr>", escaped(&ballot.reason));
        }
        out.push_str("</table>\n");
    }
    if !outcome.synthesis.issues.is_empty() {
        out.push_str("<h2>Issues</h2>\n<table><tr><th>severity<th>issue<th>flagged by</tr>\n");
        for issue in &outcome.synthesis.issues {
            let by: Vec<&str> = issue.flagged.iter().map(|one| one.agent.as_str()).collect();
            let (severity, topic) = (escaped(&issue.severity), escaped(&issue.topic));
            let _ = writeln!(out, "<tr><td>{severity}<td>{topic}<td>{}</tr>", escaped(&by.join(", ")));
        }
        out.push_str("</table>\n");
    }
    let _ = writeln!(out, "<p class=\"dim\">On record as {}.</p>", escaped(id));
    out
}

fn escaped(text: &str) -> String {
    let text = clean_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
