//! `quorate audit`: the log for other programs, offline. Nothing in it is changed but for payloads that are erased.

mod erase;

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Subcommand;
use jiff::Timestamp;
use quorate_core::{Record, Seq, SpaceName};
use quorate_sqlite::{ExportError, ExportLine};
use serde_json::{Value, json};

use crate::{hex, text};

/// The log for other programs.
#[derive(Subcommand, Debug)]
pub(crate) enum AuditCommand {
    /// Print the log as JSON lines, to be checked without us: see docs/audit.md. [ro]
    #[command(after_help = "Example: quorate audit export --data team > log.jsonl")]
    Export {
        /// The data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// One space only.
        #[arg(long)]
        space: Option<SpaceName>,
        /// From this record on.
        #[arg(long, default_value_t = 1, value_name = "SEQ")]
        from: u64,
    },
    /// Print where each space stands. Kept elsewhere, it lets `verify` find also a history that was rewritten. [ro]
    #[command(after_help = "Example: quorate audit checkpoint --data team >> heads.jsonl")]
    Checkpoint {
        /// The data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Blank one payload for good; the record stays, and the chain still verifies. [rw]
    Erase(erase::EraseArgs),
}

pub(crate) async fn run(command: AuditCommand) -> anyhow::Result<()> {
    match command {
        AuditCommand::Export { data, space, from } => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let exported = quorate_sqlite::export(&data, space.as_ref(), Seq(from), |line| {
                writeln!(out, "{}", to_json(line))
            });
            match exported.and_then(|()| Ok(out.flush()?)) {
                // Whoever read had enough.
                Err(ExportError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                Err(ExportError::Open(error)) => Err(error.into()),
                other => Ok(other?),
            }
        }
        AuditCommand::Checkpoint { data } => {
            let report = quorate_sqlite::verify(&data, None)?;
            anyhow::ensure!(report.ok, "the data is not what was written; run `quorate verify` first");
            for space in report.spaces {
                let hash = hex::write(&space.head_hash);
                let at = time(space.head_at.0);
                let line = json!({ "space": space.name, "seq": space.head_seq.0, "hash": hash, "at": at });
                text::print(line.to_string());
            }
            Ok(())
        }
        AuditCommand::Erase(args) => erase::run(args).await,
    }
}

/// RFC 3339 with milliseconds.
fn time(ms: u64) -> String {
    let known = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    known.map_or_else(|| ms.to_string(), |time| format!("{time:.3}"))
}

fn to_json(line: ExportLine) -> Value {
    let record = Record {
        seq: line.seq,
        at: line.at,
        format: line.format,
        kind: line.kind_number,
        principal: line.principal,
        hash: line.hash,
        body: line.body,
        salts: Vec::new(),
        payload: Bytes::new(),
    };
    quorate_server::audit::line(&line.space, &record, line.effects, line.previous.as_ref())
}
