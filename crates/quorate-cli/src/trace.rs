//! `quorate trace`: how one thing led to another.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;

use crate::exit::{Ended, NOT_FOUND};
use crate::hub::{Hub, HubArgs, Noun, none_yet, segment};
use crate::shape::{Listed, Shape, Table, field};
use crate::text;

/// Hexadecimal digits of a trace's id.
const ID_LENGTH: usize = 32;
/// Messages among whose traces one is looked for.
const LOOKED_AT: &str = "1000";

/// How one thing led to another.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate trace show 4bf92f3577b34da6a3ce929d0e0e4736")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Subcommand, Debug)]
enum TraceVerb {
    /// Print the spans of a trace, as a tree. [ro]
    #[command(after_help = "Example: quorate trace show @last

TOOK is the time until the last delivery of a message ended; … is one that has
not. A beginning of an id, and @last, are looked for among the newest messages.")]
    Show {
        /// The id of the trace (the second part of a traceparent), a beginning of it that only one has, or @last.
        id: String,
    },
}

pub(crate) async fn run(args: TraceArgs) -> anyhow::Result<()> {
    let hub = args.hub.open()?;
    let TraceVerb::Show { id } = args.verb;
    let id = meant(&hub, id_in(&id)).await?;
    let answer = hub.get(&format!("/v1/traces/{}", segment(&id)), &[]).await?;
    if args.shape.is_json() {
        text::print(text::clean_json(&answer));
        return Ok(());
    }
    let trace: Value = serde_json::from_str(&answer)?;
    let spans = trace["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let mut table = Table::new(["SPAN", "START", "TOOK", "STATUS", "MESSAGE", "FROM", "TO", "ACTION"]);
    tree(spans).into_iter().for_each(|row| table.row(row));
    table.print(args.shape.format());
    Ok(())
}

/// A trace's id, also out of a whole traceparent.
fn id_in(text: &str) -> &str {
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [_, trace, _, _] => trace,
        _ => text,
    }
}

/// The trace that is meant: there is no list of traces, so those of the newest messages are looked at.
async fn meant(hub: &Hub, typed: &str) -> anyhow::Result<String> {
    if typed.len() == ID_LENGTH {
        return Ok(typed.to_owned());
    }
    let answer = hub.get("/v1/messages", &[("limit", Some(LOOKED_AT.to_owned()))]).await?;
    let messages = Listed::read(&answer, "messages")?.values();
    let mut ids: Vec<String> = Vec::new();
    for message in &messages {
        let id = id_in(&field(message, "traceparent")).to_owned();
        if id.len() == ID_LENGTH && !ids.contains(&id) {
            ids.push(id);
        }
    }
    if typed == "@last" {
        return ids.into_iter().next().ok_or_else(|| none_yet(Noun::Trace).into());
    }
    let found = crate::hub::meant(Noun::Trace, typed, &ids, false)?;
    if found.len() == ID_LENGTH {
        return Ok(found);
    }
    let message = format!("no trace of the newest {} messages begins with {typed:?}", messages.len());
    Err(Ended::new(NOT_FOUND, message, "give the whole id: the second part of a message's traceparent")
        .into())
}

/// Each span below the one that it came from; those whose origin is elsewhere stand at the left.
fn tree(spans: &[Value]) -> Vec<[String; 8]> {
    let id = |span: &Value| field(span, "spanId");
    let has = |parent: &str| spans.iter().any(|span| id(span) == parent);
    let mut rows = Vec::new();
    let roots = spans.iter().filter(|span| !has(&field(span, "parentSpanId")));
    let mut work: Vec<(&Value, usize)> = roots.map(|span| (span, 0)).collect();
    work.reverse();
    while let Some((span, depth)) = work.pop() {
        // A span that names itself as its origin is no reason to go round in circles.
        if rows.len() > spans.len() {
            break;
        }
        rows.push(row(span, depth));
        let parent = id(span);
        let children = spans.iter().filter(|span| field(span, "parentSpanId") == parent);
        let mut children: Vec<_> = children.map(|child| (child, depth + 1)).collect();
        children.reverse();
        work.extend(children);
    }
    rows
}

fn row(span: &Value, depth: usize) -> [String; 8] {
    let lead = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
    let told = |name| field(span, name);
    [
        format!("{lead}{}", told("operation")),
        told("startTime"),
        took(&told("startTime"), &told("endTime")),
        told("status"),
        told("messageId"),
        told("from"),
        told("to"),
        told("action"),
    ]
}

/// From one time to another.
fn took(start: &str, end: &str) -> String {
    let ms = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    match (ms(start), ms(end)) {
        (Some(start), Some(end)) if end - start < 1_000 => format!("{} ms", end - start),
        (Some(start), Some(end)) => format!("{}.{} s", (end - start) / 1_000, (end - start) % 1_000 / 100),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::took;

    #[test]
    fn a_span_takes_from_its_start_to_its_end() {
        let start = "2026-01-31T09:30:00.000Z";
        assert_eq!(took(start, "2026-01-31T09:30:00.042Z"), "42 ms");
        assert_eq!(took(start, "2026-01-31T09:31:01.250Z"), "61.2 s");
        assert_eq!(took(start, ""), "…");
    }
}
