//! `quorate audit`: the log for other programs, of a hub that runs or of a data directory. Nothing in it is changed but
//! for payloads that are erased.

mod erase;
mod live;
mod proof;
mod readable;

use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use quorate_api::audit::AuditRecord;
use quorate_api::event::Effect;
use quorate_api::{AgentNames, Names};
use quorate_core::{AgentId, AgentNo, Seq, SpaceName};
use quorate_sqlite::{ExportError, ExportLine, SpaceIds};
use serde_json::json;

use crate::exit::{Ended, NOT_VERIFIED, USAGE};
use crate::hub::{HubArgs, runs};
use crate::shape::{Format, Shape};
use crate::{text, verify};
use quorate_core::hex;

/// The log for other programs.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate audit verify

With --data DIR the directory is read if no hub runs there; else the hub is asked.")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Subcommand, Debug)]
enum AuditVerb {
    /// Check that the log is what was written; exit code 7 if it is not. [ro]
    #[command(after_help = "Example: quorate audit verify --data team-copy")]
    Verify(proof::GivenArgs),
    /// Print what happened, a line a record. [ro]
    #[command(after_help = "Example: quorate audit log --from 100 --limit 20")]
    Log(SpanArgs),
    /// Print the log as JSON lines, to be checked without us: see docs/audit.md. [ro]
    #[command(after_help = "Example: quorate audit export --data team > log.jsonl")]
    Export {
        /// From this record on.
        #[arg(long, default_value_t = 1, value_name = "SEQ")]
        from: u64,
    },
    /// Print where each space stands. Kept elsewhere, it lets `verify` find also a history that was rewritten. [ro]
    #[command(after_help = "Example: quorate audit checkpoint --data team >> heads.jsonl")]
    Checkpoint,
    /// Print what proves that a record is in the log, to whoever has a checkpoint. [ro]
    Proof(proof::ProofArgs),
    /// Blank one payload for good; the record stays, and the chain still verifies. [rw]
    Erase(erase::EraseArgs),
}

/// Which part of the log.
#[derive(Args, Clone, Debug)]
struct SpanArgs {
    /// From this record on.
    #[arg(long, default_value_t = 1, value_name = "SEQ")]
    from: u64,
    /// How many records at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// In another way; of a hub that runs.
    #[arg(long = "as", value_name = "WAY")]
    told_as: Option<ToldAs>,
}

/// Other ways to tell the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ToldAs {
    /// A line in words for each thing that happened.
    Text,
    /// An object for each communication between agents.
    Decisions,
    /// An object for each message that was delivered or given up.
    Messages,
}

impl ToldAs {
    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Decisions => "decisions",
            Self::Messages => "messages",
        }
    }
}

pub(crate) async fn run(args: AuditArgs) -> anyhow::Result<()> {
    let AuditArgs { hub, shape, verb } = args;
    if let AuditVerb::Verify(proof::GivenArgs { proof: Some(file), checkpoint }) = &verb {
        if hub.data.is_some() {
            let hint = "leave out --data to check the proof, or --proof to check the directory";
            return Err(Ended::new(USAGE, "a proof is checked without the log", hint).into());
        }
        return proof::check(file, checkpoint.as_deref(), &shape);
    }
    // A hub that runs there holds the directory, so it is the one to ask.
    let Some(data) = hub.data.clone().filter(|data| runs(data).is_none()) else {
        return live::run(hub, shape, verb).await;
    };
    let space = hub.space.as_deref().map(str::parse::<SpaceName>).transpose()?;
    match verb {
        AuditVerb::Verify(_) => verified(&data, &shape),
        AuditVerb::Log(span) => {
            if let Some(way) = span.told_as {
                let message = format!("--as {} needs a hub that runs", way.word());
                return Err(Ended::new(USAGE, message, "start it: quorate serve --data DIR").into());
            }
            log(&data, space.as_ref(), &span, shape.format())
        }
        AuditVerb::Export { from } => {
            each(&data, space.as_ref(), from, |out, line| writeln!(out, "{}", to_json(line)))
        }
        AuditVerb::Checkpoint => {
            let report = quorate_sqlite::verify(&data, None)?;
            refuse_damaged(report.ok, &data)?;
            for space in report.spaces {
                let hash = hex::encode(&space.head_hash);
                let at = time(space.head_at.0);
                let line = json!({ "space": space.name, "seq": space.head_seq.0, "hash": hash, "at": at });
                text::print(line.to_string());
            }
            Ok(())
        }
        AuditVerb::Proof(args) => proof::of_data(args, &data, space),
        AuditVerb::Erase(args) => erase::run(args, &data, space, &shape).await,
    }
}

/// Tells what happened, as far as it was asked for.
fn log(data: &Path, space: Option<&SpaceName>, span: &SpanArgs, format: Format) -> anyhow::Result<()> {
    let (mut left, mut lead) = (span.limit, "{\"records\":[");
    each(data, space, span.from, |out, line| {
        if left == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        left -= 1;
        match format {
            Format::Json => {
                write!(out, "{}{}", std::mem::replace(&mut lead, ","), text::clean_json(&to_json(line)))
            }
            Format::Jsonl => writeln!(out, "{}", text::clean_json(&to_json(line))),
            _ => writeln!(out, "{}", live::in_words(&serde_json::to_value(audit_record(line))?)),
        }
    })?;
    match (format, lead) {
        (Format::Json, ",") => text::print("]}"),
        (Format::Json, none) => text::print(format!("{none}]}}")),
        _ => {}
    }
    Ok(())
}

/// Writes each record of a data directory, until whoever reads has had enough.
fn each(
    data: &Path,
    space: Option<&SpaceName>,
    from: u64,
    mut write: impl FnMut(&mut dyn std::io::Write, &ExportLine<'_>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let exported = quorate_sqlite::export(data, space, Seq(from), |line| write(&mut out, &line));
    match exported.and_then(|()| Ok(out.flush()?)) {
        // Whoever reads, or the limit, has had enough; what was taken until then must be out.
        Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => match out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cut_short(&error).into()),
            _ => Ok(()),
        },
        Err(ExportError::Write(error)) => Err(cut_short(&error).into()),
        Err(ExportError::Open(error)) => Err(error.into()),
        other => Ok(other?),
    }
}

/// What is not what was written vouches for nothing.
fn refuse_damaged(ok: bool, data: &Path) -> anyhow::Result<()> {
    if ok {
        return Ok(());
    }
    let hint = format!("see what is wrong: quorate verify --data {}", data.display());
    Err(Ended::new(NOT_VERIFIED, "the data is not what was written", hint).into())
}

fn cut_short(error: &std::io::Error) -> quorate_engine::Error {
    text::unwritten(error, "what was printed so far is cut short: make room, and ask again")
}

/// As `quorate verify`, with the exit code of commands.
fn verified(data: &Path, shape: &Shape) -> anyhow::Result<()> {
    let report = quorate_sqlite::verify(data, None)?;
    if shape.is_json() {
        text::print(verify::to_json(&report).to_string());
    } else {
        verify::tell(&report, 0);
    }
    match report.first_bad {
        None => Ok(()),
        Some(bad) => {
            let message = format!("the log is not what was written: {} at record {}", bad.damage, bad.seq);
            let hint = "nothing was changed; keep the directory, and restore a backup into a new one";
            Err(Ended::new(NOT_VERIFIED, message, hint).into())
        }
    }
}

/// RFC 3339 with milliseconds.
pub(crate) fn time(ms: u64) -> String {
    let known = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    known.map_or_else(|| ms.to_string(), |time| format!("{time:.3}"))
}

/// The ids of a data directory; `#NUMBER` for an agent that no record registers.
struct OfflineNames<'a>(&'a SpaceIds<'a>);

impl AgentNames for OfflineNames<'_> {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.0.agent(number).or_else(|| AgentId::new(format!("#{number}")).ok())
    }
}

fn audit_record(line: &ExportLine<'_>) -> AuditRecord {
    let agents = OfflineNames(line.ids);
    let names = Names { agents: &agents, eras: line.ids.eras() };
    let effects = Effect::of_record(&line.record, &names);
    AuditRecord::new(line.space, &line.record, effects, line.previous.as_ref())
}

fn to_json(line: &ExportLine<'_>) -> String {
    serde_json::to_string(&audit_record(line)).unwrap_or_default()
}
