//! Renders the outcome of a deliberation as text, Markdown, HTML or JSON. Text from agents is escaped for each format.

mod content;
mod html;
mod markdown;
mod plain_text;
mod wrap;

use clap::{Args, ValueEnum};
use quorate::deliberation::{Estimate, Outcome};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::run::ApprovalResult;
use crate::terminal;
use quorate_core::hex;

/// Format of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Plain text.
    Text,
    /// Markdown.
    Md,
    /// A standalone HTML page.
    Html,
    /// One JSON document.
    Json,
}

/// Options that select the report format.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ReportFormatArgs {
    /// Report format: text, md, html or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
    /// Print one JSON document, same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ReportFormatArgs {
    /// Returns the selected format.
    pub(crate) fn selected(self) -> ReportFormat {
        if self.json { ReportFormat::Json } else { self.format }
    }
}

/// Prints a report to stdout.
pub(crate) fn print(
    outcome: &Outcome,
    id: &str,
    format: ReportFormat,
    approval: Option<&ApprovalResult>,
) -> anyhow::Result<()> {
    let report = match format {
        ReportFormat::Text => text(outcome, id),
        ReportFormat::Md => markdown::report(outcome, id),
        ReportFormat::Html => html(outcome, id),
        ReportFormat::Json => terminal::sanitize_json(&document(outcome, id, approval)?.to_string()),
    };
    terminal::print(report.trim_end());
    Ok(())
}

/// Returns a report as text, with colours if stdout is a terminal.
pub(crate) fn text(outcome: &Outcome, id: &str) -> String {
    let report = plain_text::report(outcome, id);
    let lines =
        report.lines().enumerate().map(|(index, line)| terminal::paint(plain_text::style(index, line), line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a report as a standalone HTML page.
pub(crate) fn html(outcome: &Outcome, id: &str) -> String {
    html::report(outcome, id)
}

/// Returns a report as one JSON document.
pub(crate) fn document(
    outcome: &Outcome,
    id: &str,
    approval: Option<&ApprovalResult>,
) -> anyhow::Result<Value> {
    let mut document = serde_json::to_value(outcome)?;
    document["id"] = id.into();
    document["digest"] = digest(outcome)?.into();
    if let Some(approval) = approval {
        document["approval"] = serde_json::to_value(approval)?;
    }
    Ok(document)
}

/// Returns the SHA-256 of an outcome without timestamps and usage: the same findings and messages give the same digest.
pub(crate) fn digest(outcome: &Outcome) -> anyhow::Result<String> {
    let mut timeless = outcome.clone();
    timeless.record.actual = Default::default();
    timeless.record.messages.iter_mut().for_each(|message| message.timestamp = 0);
    Ok(hex::encode(&Sha256::digest(serde_json::to_vec(&timeless)?)))
}

/// Prints the estimated time, calls, tokens and cost of a deliberation.
pub(crate) fn print_estimate(estimate: &Estimate, format: ReportFormat) -> anyhow::Result<()> {
    if format == ReportFormat::Json {
        terminal::print(serde_json::to_string(estimate)?);
        return Ok(());
    }
    for (name, phase) in
        [("analysis", &estimate.analysis), ("discussion", &estimate.discussion), ("total", &estimate.total)]
    {
        let seconds = format!("{:.0} to {:.0} s", phase.seconds.least, phase.seconds.most);
        terminal::print(format!("{name:<11} {seconds}"));
        for (provider, expected) in &phase.providers {
            let money = expected.money.as_ref();
            let money = money
                .map_or(String::new(), |money| format!(", cost {:.4} to {:.4}", money.least, money.most));
            terminal::print(format!(
                "  {provider:<9} {} to {} calls, {} to {} tokens in, {} to {} out{money}",
                expected.calls.least,
                expected.calls.most,
                expected.tokens_in.least,
                expected.tokens_in.most,
                expected.tokens_out.least,
                expected.tokens_out.most,
            ));
        }
    }
    estimate
        .warnings
        .iter()
        .for_each(|warning| terminal::note(format!("warning: {}", terminal::sanitize_line(warning))));
    Ok(())
}

#[cfg(test)]
mod tests;
