//! `quorate verify`: verifies a data directory, offline and read-only.

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_core::Seq;
use quorate_sqlite::{Defect, LogCheckpoint, OpenError, VerifyReport};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exit::{CommandError, DAMAGED, USAGE};
use crate::terminal;
use quorate_core::hex;

/// Arguments of `quorate verify`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate verify --data team --checkpoint heads.jsonl

Checks every record, payload and table; nothing is changed. Exit codes: 0 intact, 64 usage error or \
missing directory, 65 damaged data, 74 read failure.")]
pub(crate) struct VerifyArgs {
    /// Data directory to verify.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Earlier output of `quorate audit checkpoint`, to detect a truncated or rewritten log.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A line of a checkpoint file.
#[derive(Deserialize)]
struct CheckpointLine {
    space: String,
    seq: u64,
    hash: String,
}

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    check(&args.data, args.checkpoint.as_deref(), args.json)
}

/// Verifies a data directory or a backup, and prints the result.
///
/// # Errors
/// If the data is damaged or cannot be read.
pub(crate) fn check(data: &Path, checkpoint: Option<&Path>, as_json: bool) -> anyhow::Result<()> {
    let checkpoints = checkpoint.map(read_checkpoints).transpose()?;
    let report = match quorate_sqlite::verify(data, checkpoints.as_deref()) {
        Ok(report) => report,
        Err(error) => return Err(unreadable(data, error, as_json)),
    };
    if as_json {
        terminal::print(to_json(&report).to_string());
    } else {
        print_report(&report, checkpoints.as_ref().map_or(0, Vec::len));
    }
    match report.first_defect {
        None => Ok(()),
        Some(defect) => Err(damage_error(&defect).into()),
    }
}

const DAMAGE_HINT: &str = "nothing was changed; keep the directory, and restore a backup into a new one";

/// Returns the error for damaged data.
pub(crate) fn damage_error(defect: &Defect) -> CommandError {
    if defect.seq == Seq(0) {
        // Damage of a file as a whole: no record describes it.
        return damaged(&format!("{}: {}", defect.damage, defect.detail));
    }
    damage_error_at(defect.damage.as_str(), defect.seq, &terminal::sanitize(&defect.space))
}

/// Returns the error for damage of a file as a whole.
pub(crate) fn damaged(reason: &str) -> CommandError {
    CommandError::new(DAMAGED, format!("the data is damaged: {}", terminal::sanitize(reason)), DAMAGE_HINT)
}

/// Same as [`damage_error`], from its parts.
pub(crate) fn damage_error_at(damage: &str, seq: Seq, space: &str) -> CommandError {
    let location = if space.is_empty() { String::new() } else { format!(" of space {space}") };
    let message = format!("the data is damaged: {damage} at record {seq}{location}");
    CommandError::new(DAMAGED, message, DAMAGE_HINT)
}

/// Returns the error for data that cannot be opened, and prints the JSON document for it.
fn unreadable(data: &Path, error: OpenError, as_json: bool) -> anyhow::Error {
    // An existing directory without a database is damaged; a missing directory is a wrong path.
    let is_database_missing = matches!(error, OpenError::Missing { .. }) && data.exists();
    let is_damage = error.is_damage() || is_database_missing;
    if as_json && (is_damage || matches!(error, OpenError::Missing { .. })) {
        let detail = quorate_core::error_chain(&error);
        let defect = json!({ "space": "", "seq": 0, "damage": "unreadable", "detail": detail });
        terminal::print(json!({ "ok": false, "spaces": [], "firstBad": defect }).to_string());
    }
    match error {
        OpenError::Newer { .. } => error.into(),
        error if is_damage => UnreadableData(error).into(),
        error => error.into(),
    }
}

/// Data that cannot be opened at all.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct UnreadableData(OpenError);

impl UnreadableData {
    pub(crate) const HINT: &'static str = DAMAGE_HINT;
}

fn in_space(defect: &Defect) -> String {
    if defect.space.is_empty() {
        String::new()
    } else if defect.seq == Seq(0) {
        format!(" in {}", terminal::sanitize(&defect.space))
    } else {
        format!(" of space {}", terminal::sanitize(&defect.space))
    }
}

pub(crate) fn to_json(report: &VerifyReport) -> Value {
    let spaces: Vec<Value> = report
        .spaces
        .iter()
        .map(|space| {
            json!({
                "space": space.name,
                "records": space.records,
                "seq": space.head_seq.0,
                "hash": hex::encode(&space.head_hash),
                "erased": space.erased,
            })
        })
        .collect();
    let defect = report.first_defect.as_ref().map(|defect| {
        json!({
            "space": defect.space,
            "seq": defect.seq.0,
            "damage": defect.damage.as_str(),
            "detail": defect.detail,
        })
    });
    json!({ "ok": report.ok, "spaces": spaces, "firstBad": defect })
}

/// Prints the result for each space and the first damage.
pub(crate) fn print_report(report: &VerifyReport, checkpoints: usize) {
    for space in &report.spaces {
        let defect = report.first_defect.as_ref().filter(|defect| defect.space == space.name);
        let mark = if defect.is_none() { "✓" } else { "✗" };
        terminal::print(format!(
            "{mark} {}: {} of {} records   head {}…   {} erased",
            terminal::sanitize(&space.name),
            space.records,
            space.head_seq,
            &hex::encode(&space.head_hash)[..16],
            space.erased
        ));
    }
    if let Some(defect) = &report.first_defect {
        let record = if defect.seq == Seq(0) { String::new() } else { format!(" at record {}", defect.seq) };
        terminal::print(format!("✗ {}{record}{}", defect.damage, in_space(defect)));
        for line in defect.detail.lines() {
            terminal::print(format!("    {}", terminal::sanitize(line)));
        }
    } else if checkpoints == 0 {
        terminal::note(
            "no checkpoint given: a completely rewritten log cannot be detected (create one with `quorate audit checkpoint`)",
        );
    }
    terminal::note(format!("{:.2} s", report.seconds));
}

/// Reads checkpoints from a file.
pub(crate) fn read_checkpoints(file: &Path) -> anyhow::Result<Vec<LogCheckpoint>> {
    let content = std::fs::read_to_string(file).map_err(|error| {
        CommandError::new(
            USAGE,
            format!("cannot read {}: {error}", file.display()),
            "check the path of --checkpoint",
        )
    })?;
    let values = serde_json::Deserializer::from_str(&content).into_iter::<CheckpointLine>();
    let mut checkpoints = Vec::new();
    for value in values {
        let CheckpointLine { space, seq, hash } = value.map_err(|_| not_a_checkpoint_file(file))?;
        let hash = hex::decode(&hash).ok_or_else(|| not_a_checkpoint_file(file))?;
        checkpoints.push(LogCheckpoint { space, seq: Seq(seq), hash });
    }
    if checkpoints.is_empty() { Err(not_a_checkpoint_file(file).into()) } else { Ok(checkpoints) }
}

fn not_a_checkpoint_file(file: &Path) -> CommandError {
    let message = format!("{} is not a checkpoint file", file.display());
    CommandError::new(USAGE, message, "use the output of `quorate audit checkpoint`")
}
