//! `quorate trace`: prints and exports traces of causally related messages.

mod export;
mod perfetto;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;

use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{Hub, HubArgs, Resource, no_items, percent_encode};
use crate::output::{ListResponse, OutputArgs, Table, field};
use crate::terminal;

/// Hexadecimal digits of a trace id.
const ID_LENGTH: usize = 32;
/// Number of newest messages that are searched for a trace.
const SEARCHED_MESSAGES: &str = "1000";

/// Arguments of `quorate trace`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate trace show 4bf92f3577b34da6a3ce929d0e0e4736")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Subcommand, Debug)]
enum TraceVerb {
    /// Print the spans of a trace as a tree. [ro]
    #[command(after_help = "Example: quorate trace show @last

DURATION is the time until the last delivery of a message ended, or … if it is still open. Prefixes and \
@last are resolved among the newest 1,000 messages.")]
    Show {
        /// Trace id (second part of a traceparent), a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Export a trace for other tools. [ro]
    Export(export::ExportArgs),
}

pub(crate) async fn run(args: TraceArgs) -> anyhow::Result<()> {
    let hub = args.hub.open()?;
    let (TraceVerb::Show { id, .. } | TraceVerb::Export(export::ExportArgs { id, .. })) = &args.verb;
    let id = resolve_id(&hub, trace_id_of(id)).await?;
    let response = hub.get(&format!("/v1/traces/{}", percent_encode(&id)), &[]).await?;
    let output = match &args.verb {
        TraceVerb::Export(args) => return export::run(args, &response),
        TraceVerb::Show { output, .. } => output,
    };
    if output.is_json() {
        terminal::print(terminal::sanitize_json(&response));
        return Ok(());
    }
    let trace: Value = serde_json::from_str(&response)?;
    let spans = trace["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let mut table = Table::new(["SPAN", "START", "DURATION", "STATUS", "MESSAGE", "FROM", "TO", "ACTION"]);
    tree(spans).into_iter().for_each(|row| table.row(row));
    table.print(output.format());
    Ok(())
}

/// Returns the trace id, extracting it from a complete traceparent.
fn trace_id_of(text: &str) -> &str {
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [_, trace, _, _] => trace,
        _ => text,
    }
}

/// Resolves a trace id, a unique prefix, or `@last`. There is no list of traces, so the newest messages are searched.
async fn resolve_id(hub: &Hub, reference: &str) -> anyhow::Result<String> {
    if reference.len() == ID_LENGTH {
        return Ok(reference.to_owned());
    }
    let response = hub.get("/v1/messages", &[("limit", Some(SEARCHED_MESSAGES.to_owned()))]).await?;
    let messages = ListResponse::parse(&response, "messages")?.values();
    let mut ids: Vec<String> = Vec::new();
    for message in &messages {
        let id = trace_id_of(&field(message, "traceparent")).to_owned();
        if id.len() == ID_LENGTH && !ids.contains(&id) {
            ids.push(id);
        }
    }
    if reference == "@last" {
        return ids.into_iter().next().ok_or_else(|| no_items(Resource::Trace).into());
    }
    let id = crate::hub::match_id(Resource::Trace, reference, &ids, false)?;
    if id.len() == ID_LENGTH {
        return Ok(id);
    }
    let message = format!("no trace of the newest {} messages begins with {reference:?}", messages.len());
    Err(CommandError::new(
        NOT_FOUND,
        message,
        "use the complete id: the second part of a message's traceparent",
    )
    .into())
}

/// Renders each span below its parent; spans without a known parent are roots.
fn tree(spans: &[Value]) -> Vec<[String; 8]> {
    let id = |span: &Value| field(span, "spanId");
    let is_known = |parent: &str| spans.iter().any(|span| id(span) == parent);
    let mut rows = Vec::new();
    let roots = spans.iter().filter(|span| !is_known(&field(span, "parentSpanId")));
    let mut stack: Vec<(&Value, usize)> = roots.map(|span| (span, 0)).collect();
    stack.reverse();
    while let Some((span, depth)) = stack.pop() {
        // Guards against cycles, such as a span that is its own parent.
        if rows.len() > spans.len() {
            break;
        }
        rows.push(row(span, depth));
        let parent = id(span);
        let children = spans.iter().filter(|span| field(span, "parentSpanId") == parent);
        let mut children: Vec<_> = children.map(|child| (child, depth + 1)).collect();
        children.reverse();
        stack.extend(children);
    }
    rows
}

fn row(span: &Value, depth: usize) -> [String; 8] {
    let prefix = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
    let text = |name| field(span, name);
    [
        format!("{prefix}{}", text("operation")),
        text("startTime"),
        duration(&text("startTime"), &text("endTime")),
        text("status"),
        text("messageId"),
        text("from"),
        text("to"),
        text("action"),
    ]
}

/// Formats the duration between two times.
fn duration(start: &str, end: &str) -> String {
    let ms = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    match (ms(start), ms(end)) {
        (Some(start), Some(end)) if end - start < 1_000 => format!("{} ms", end - start),
        (Some(start), Some(end)) => format!("{}.{} s", (end - start) / 1_000, (end - start) % 1_000 / 100),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn a_duration_has_a_unit_that_fits() {
        let start = "2026-01-31T09:30:00.000Z";
        assert_eq!(duration(start, "2026-01-31T09:30:00.042Z"), "42 ms");
        assert_eq!(duration(start, "2026-01-31T09:31:01.250Z"), "61.2 s");
        assert_eq!(duration(start, ""), "…");
    }
}
