//! `quorate trace`: how one thing led to another.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::hub::{HubArgs, segment};
use crate::shape::{Shape, field};
use crate::text;

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
    #[command(after_help = "Example: quorate trace show 4bf92f3577b34da6a3ce929d0e0e4736")]
    Show {
        /// The id of the trace: the second part of a traceparent.
        id: String,
    },
}

pub(crate) async fn run(args: TraceArgs) -> anyhow::Result<()> {
    let hub = args.hub.open()?;
    let TraceVerb::Show { id } = args.verb;
    let answer = hub.get(&format!("/v1/traces/{}", segment(id_in(&id))), &[]).await?;
    if args.shape.is_json() {
        text::print(text::clean_json(&answer));
        return Ok(());
    }
    let trace: Value = serde_json::from_str(&answer)?;
    let spans = trace["spans"].as_array().map_or(&[][..], Vec::as_slice);
    tree(spans).iter().for_each(text::print);
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

/// Each span below the one that it came from; those whose origin is elsewhere stand at the left.
fn tree(spans: &[Value]) -> Vec<String> {
    let id = |span: &Value| field(span, "spanId");
    let has = |parent: &str| spans.iter().any(|span| id(span) == parent);
    let mut lines = Vec::new();
    let roots = spans.iter().filter(|span| !has(&field(span, "parentSpanId")));
    let mut work: Vec<(&Value, usize)> = roots.map(|span| (span, 0)).collect();
    work.reverse();
    while let Some((span, depth)) = work.pop() {
        // A span that names itself as its origin is no reason to go round in circles.
        if lines.len() > spans.len() {
            break;
        }
        lines.push(line(span, depth));
        let parent = id(span);
        let children = spans.iter().filter(|span| field(span, "parentSpanId") == parent);
        let mut children: Vec<_> = children.map(|child| (child, depth + 1)).collect();
        children.reverse();
        work.extend(children);
    }
    lines
}

fn line(span: &Value, depth: usize) -> String {
    let lead = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
    let mut about = vec![field(span, "name")];
    about.extend(
        ["startTime", "status", "messageId", "from", "to", "action"].iter().map(|name| field(span, name)),
    );
    about.retain(|text| !text.is_empty());
    text::clean_line(&format!("{lead}{}", about.join("  ")))
}
