//! `quorate trace export`: a trace for other programs.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::perfetto;
use crate::exit::{CONFLICT, Ended};
use crate::shape::{Format, Listed, Shape, read};
use crate::text;

/// Which trace, and for whom.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate trace export @last --to perfetto > trace.json

jsonl is a span a line, as the hub tells them; otlp is the request that a collector
takes at /v1/traces; perfetto is what https://ui.perfetto.dev opens. What has not
ended ends where it began in otlp, without a status, and with the newest time of the
trace in perfetto.")]
pub(crate) struct ExportArgs {
    /// The id of the trace (the second part of a traceparent), a beginning of it that only one has, or @last.
    pub(super) id: String,
    /// For which program.
    #[arg(long, value_name = "PROGRAM", default_value = "jsonl")]
    to: Target,
    /// Into a new file; else to stdout.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Who reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Target {
    /// A span a line.
    Jsonl,
    /// A collector of OpenTelemetry: OTLP in JSON.
    Otlp,
    /// Perfetto, and whatever else reads Chrome's trace events.
    Perfetto,
}

/// Writes the trace that the hub answered.
pub(super) fn run(args: &ExportArgs, answer: &str, shape: &Shape) -> anyhow::Result<()> {
    let trace = read(answer)?;
    let exported = match args.to {
        Target::Jsonl if shape.format() == Format::Json => text::clean_json(answer),
        Target::Jsonl => {
            let spans = Listed::read(answer, "spans")?.items;
            spans.iter().map(|span| text::clean_json(span.get())).collect::<Vec<_>>().join("\n")
        }
        Target::Otlp => text::clean_json(&quorate_server::otlp_of(&trace).to_string()),
        Target::Perfetto => text::clean_json(&perfetto::of(&trace).to_string()),
    };
    match &args.output {
        Some(file) => into_new(file, &exported)?,
        None => text::print(exported),
    }
    tell(&trace);
    Ok(())
}

/// What the reader of a file would not see.
fn tell(trace: &Value) {
    let spans = trace["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let open = spans.iter().filter(|span| span["endTime"].is_null()).count();
    if open > 0 {
        text::say(format!("not ended yet: {open} of {} messages", spans.len()));
    }
    if trace["more"] == true {
        text::say(format!("the trace is longer: these are its first {} messages", spans.len()));
    }
}

fn into_new(path: &Path, content: &str) -> anyhow::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{} is there already", path.display());
            return Err(
                Ended::new(CONFLICT, message, "nothing was changed; give a new file with --output").into()
            );
        }
        Err(error) => return Err(error).with_context(|| format!("failed to write {}", path.display())),
    };
    writeln!(file, "{content}").with_context(|| format!("failed to write {}", path.display()))?;
    text::say(format!("written to {}", path.display()));
    Ok(())
}
