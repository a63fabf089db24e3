//! `quorate trace export`: writes a trace as JSON Lines, OTLP or Chrome trace events.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::perfetto;
use crate::exit::{CONFLICT, CommandError};
use crate::output::{ListResponse, parse_response};
use crate::terminal;

/// Arguments of `quorate trace export`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate trace export @last --format perfetto > trace.json

The format otlp is a request for /v1/traces of a collector; perfetto can be opened in \
https://ui.perfetto.dev. A span that is still open has no status. Its end is set to its start in otlp, and \
to the newest time of the trace in perfetto.")]
pub(crate) struct ExportArgs {
    /// Trace id (second part of a traceparent), a unique prefix of it, or @last.
    pub(super) id: String,
    /// Output format.
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: TraceFormat,
    /// Print one JSON document, same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to this new file instead of stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Target format of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum TraceFormat {
    /// One JSON document, as the hub returns it.
    Json,
    /// One span per line, as the hub returns them.
    Jsonl,
    /// OTLP/JSON, for an OpenTelemetry collector.
    Otlp,
    /// Chrome trace events, for Perfetto and other viewers.
    Perfetto,
}

/// Writes the trace of a response.
pub(super) fn run(args: &ExportArgs, response: &str) -> anyhow::Result<()> {
    let trace = parse_response(response)?;
    let content = match if args.json { TraceFormat::Json } else { args.format } {
        TraceFormat::Json => terminal::sanitize_json(response),
        TraceFormat::Jsonl => {
            let spans = ListResponse::parse(response, "spans")?.items;
            spans.iter().map(|span| terminal::sanitize_json(span.get())).collect::<Vec<_>>().join("\n")
        }
        TraceFormat::Otlp => terminal::sanitize_json(&quorate_server::trace_to_otlp(&trace).to_string()),
        TraceFormat::Perfetto => terminal::sanitize_json(&perfetto::to_trace_events(&trace).to_string()),
    };
    match &args.out {
        Some(file) => write_new(file, &content)?,
        None => terminal::print(content),
    }
    note_incomplete(&trace);
    Ok(())
}

/// Notes on stderr that spans are still open, or that the trace is truncated.
fn note_incomplete(trace: &Value) {
    let spans = trace["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let open = spans.iter().filter(|span| span["endTime"].is_null()).count();
    if open > 0 {
        terminal::note(format!("{open} of {} messages are still open", spans.len()));
    }
    if trace["more"] == true {
        terminal::note(format!("the trace is truncated to its first {} messages", spans.len()));
    }
}

fn write_new(path: &Path, content: &str) -> anyhow::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{} already exists", path.display());
            return Err(CommandError::new(
                CONFLICT,
                message,
                "nothing was changed; choose a new file with --out",
            )
            .into());
        }
        Err(error) => return Err(error).with_context(|| format!("failed to write {}", path.display())),
    };
    writeln!(file, "{content}").with_context(|| format!("failed to write {}", path.display()))?;
    terminal::note(format!("wrote {}", path.display()));
    Ok(())
}
