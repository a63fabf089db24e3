//! `quorate audit`: verifies, prints and exports the log of a running hub or of a data directory. Only `erase` writes.

mod erase;
mod online;
mod proof;
mod readable_fields;

use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use quorate_api::audit::AuditRecord;
use quorate_api::event::Effect;
use quorate_api::{AgentIds, IdResolver};
use quorate_core::{AgentId, AgentNo, Seq, SpaceName};
use quorate_sqlite::{ExportError, ExportLine, SpaceIds};
use serde_json::json;

use crate::exit::{CommandError, USAGE, VERIFICATION_FAILED};
use crate::hub::{HubArgs, running_hub_url};
use crate::output::OutputArgs;
use crate::{terminal, verify};
use quorate_core::hex;

/// Arguments of `quorate audit`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate audit verify

With --data DIR, the directory is read directly if no hub is running there; otherwise the running hub is \
queried.")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Subcommand, Debug)]
enum AuditVerb {
    /// Verify the hash chain of the log; exit code 7 if it is broken. [ro]
    #[command(after_help = "Example: quorate audit verify --data team-backup")]
    Verify(proof::VerifyArgs),
    /// Print the log, one line per record. [ro]
    #[command(after_help = "Example: quorate audit log --from 100 --limit 20")]
    Log(LogArgs),
    /// Export the log as JSON Lines, for independent verification: see docs/audit.md. [ro]
    #[command(after_help = "Example: quorate audit export --data team > log.jsonl")]
    Export {
        /// First record to export.
        #[arg(long, default_value_t = 1, value_name = "SEQ")]
        from: u64,
    },
    /// Print the head of each space. Stored elsewhere, it lets `quorate verify --checkpoint` detect a rewritten log. [ro]
    #[command(after_help = "Example: quorate audit checkpoint --data team >> heads.jsonl")]
    Checkpoint,
    /// Print a proof that a record is in the log, to be checked against a checkpoint. [ro]
    Proof(proof::ProofArgs),
    /// Erase one payload permanently; the record stays and the chain still verifies. [rw]
    Erase(erase::EraseArgs),
}

/// Arguments of `quorate audit log`.
#[derive(Args, Clone, Debug)]
struct LogArgs {
    /// First record to print.
    #[arg(long, default_value_t = 1, value_name = "SEQ")]
    from: u64,
    /// Maximum number of records.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Output format; text, communications and messages need a running hub.
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    format: LogFormat,
    /// Print one JSON document.
    #[arg(long, conflicts_with = "jsonl", help_heading = "Output")]
    json: bool,
    /// Print one JSON document per line.
    #[arg(long, help_heading = "Output")]
    jsonl: bool,
}

/// Formats of `quorate audit log`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    /// One line per record.
    Table,
    /// One JSON document with all records.
    Json,
    /// One JSON document per record.
    Jsonl,
    /// One sentence per event.
    Text,
    /// One JSON object per communication between agents.
    Communications,
    /// One JSON object per message that was delivered or dead-lettered.
    Messages,
}

impl LogFormat {
    /// Returns the parameter `format` of the API, for formats that only a hub can render.
    fn rendered_by_hub(self) -> Option<&'static str> {
        match self {
            Self::Table | Self::Json | Self::Jsonl => None,
            Self::Text => Some("text"),
            Self::Communications => Some("decisions"),
            Self::Messages => Some("messages"),
        }
    }
}

impl LogArgs {
    /// Whether the lines are joined into one JSON document.
    fn is_document(&self) -> bool {
        self.json || self.format == LogFormat::Json
    }
}

pub(crate) async fn run(args: AuditArgs) -> anyhow::Result<()> {
    let AuditArgs { hub, verb } = args;
    if let AuditVerb::Verify(proof::VerifyArgs { proof: Some(file), checkpoint, output }) = &verb {
        if hub.data.is_some() {
            let hint = "omit --data to check the proof, or --proof to verify the directory";
            return Err(CommandError::new(
                USAGE,
                "--proof and --data cannot be combined: a proof is checked without the log",
                hint,
            )
            .into());
        }
        return proof::check(file, checkpoint.as_deref(), output);
    }
    // A running hub holds the lock of the directory, so it is queried instead.
    let Some(data) = hub.data.clone().filter(|data| running_hub_url(data).is_none()) else {
        return online::run(hub, verb).await;
    };
    let space = hub.space.as_deref().map(str::parse::<SpaceName>).transpose()?;
    match verb {
        AuditVerb::Verify(args) => verify_directory(&data, &args.output),
        AuditVerb::Log(args) => {
            if args.format.rendered_by_hub().is_some() {
                let message = "this format needs a running hub";
                return Err(
                    CommandError::new(USAGE, message, "start the hub: quorate serve --data DIR").into()
                );
            }
            log(&data, space.as_ref(), &args)
        }
        AuditVerb::Export { from } => {
            write_records(&data, space.as_ref(), from, |out, line| writeln!(out, "{}", to_json(line)))
        }
        AuditVerb::Checkpoint => {
            let report = quorate_sqlite::verify(&data, None)?;
            require_intact(report.ok, &data)?;
            for space in report.spaces {
                let hash = hex::encode(&space.head_hash);
                let at = format_time(space.head_at.0);
                let line = json!({ "space": space.name, "seq": space.head_seq.0, "hash": hash, "at": at });
                terminal::print(line.to_string());
            }
            Ok(())
        }
        AuditVerb::Proof(args) => proof::print_offline(args, &data, space),
        AuditVerb::Erase(args) => erase::run(args, &data, space).await,
    }
}

/// Prints a range of the log of a data directory.
fn log(data: &Path, space: Option<&SpaceName>, args: &LogArgs) -> anyhow::Result<()> {
    let (mut remaining, mut separator) = (args.limit, "{\"records\":[");
    write_records(data, space, args.from, |out, line| {
        if remaining == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        remaining -= 1;
        if args.is_document() {
            write!(
                out,
                "{}{}",
                std::mem::replace(&mut separator, ","),
                terminal::sanitize_json(&to_json(line))
            )
        } else if args.jsonl || args.format == LogFormat::Jsonl {
            writeln!(out, "{}", terminal::sanitize_json(&to_json(line)))
        } else {
            writeln!(out, "{}", online::record_line(&serde_json::to_value(audit_record(line))?))
        }
    })?;
    match (args.is_document(), separator) {
        (true, ",") => terminal::print("]}"),
        (true, opening) => terminal::print(format!("{opening}]}}")),
        (false, _) => {}
    }
    Ok(())
}

/// Passes each record of a data directory to `write`, until the reader closes the pipe or `write` returns `BrokenPipe`.
fn write_records(
    data: &Path,
    space: Option<&SpaceName>,
    from: u64,
    mut write: impl FnMut(&mut dyn std::io::Write, &ExportLine<'_>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let result = quorate_sqlite::export(data, space, Seq(from), |line| write(&mut out, &line));
    match result.and_then(|()| Ok(out.flush()?)) {
        // The reader closed the pipe, or the limit is reached: the output so far is still flushed.
        Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => match out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(incomplete_output(&error).into()),
            _ => Ok(()),
        },
        Err(ExportError::Write(error)) => Err(incomplete_output(&error).into()),
        Err(ExportError::Open(error)) => Err(error.into()),
        other => Ok(other?),
    }
}

/// Fails if the data did not verify: checkpoints and proofs of damaged data would be worthless.
fn require_intact(ok: bool, data: &Path) -> anyhow::Result<()> {
    if ok {
        return Ok(());
    }
    let hint = format!("for details: quorate verify --data {}", data.display());
    Err(CommandError::new(VERIFICATION_FAILED, "the data is damaged", hint).into())
}

fn incomplete_output(error: &std::io::Error) -> quorate_engine::Error {
    terminal::output_error(error, "the output is incomplete; free disk space and run the command again")
}

/// Does the same as `quorate verify`, but with the exit codes of ordinary commands.
fn verify_directory(data: &Path, output: &OutputArgs) -> anyhow::Result<()> {
    let report = quorate_sqlite::verify(data, None)?;
    if output.is_json() {
        terminal::print(verify::to_json(&report).to_string());
    } else {
        verify::print_report(&report, 0);
    }
    match report.first_defect {
        None => Ok(()),
        Some(defect) => {
            let message = format!("the log is damaged: {} at record {}", defect.damage, defect.seq);
            let hint = "nothing was changed; keep the directory, and restore a backup into a new one";
            Err(CommandError::new(VERIFICATION_FAILED, message, hint).into())
        }
    }
}

/// Formats a time as RFC 3339 with milliseconds.
pub(crate) fn format_time(ms: u64) -> String {
    let timestamp = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    timestamp.map_or_else(|| ms.to_string(), |time| format!("{time:.3}"))
}

/// Resolves the agent numbers of a data directory; `#NUMBER` if no record registers the agent.
struct OfflineNames<'a>(&'a SpaceIds<'a>);

impl AgentIds for OfflineNames<'_> {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.0.agent(number).or_else(|| AgentId::new(format!("#{number}")).ok())
    }
}

fn audit_record(line: &ExportLine<'_>) -> AuditRecord {
    let agents = OfflineNames(line.ids);
    let names = IdResolver { agents: &agents, generations: line.ids.generations() };
    let effects = Effect::from_record(&line.record, &names);
    AuditRecord::new(line.space, &line.record, effects, line.previous.as_ref())
}

fn to_json(line: &ExportLine<'_>) -> String {
    serde_json::to_string(&audit_record(line)).unwrap_or_default()
}
