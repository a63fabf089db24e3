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
struct Stored {
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
        Some(bad) => Err(damage_error(&bad).into()),
    }
}

const DAMAGE_HINT: &str = "nothing was changed; keep the directory, and restore a backup into a new one";

/// Returns the error for damaged data.
pub(crate) fn damage_error(bad: &Defect) -> CommandError {
    damage_error_at(bad.damage.as_str(), bad.seq, &terminal::sanitize(&bad.space))
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
    let lost = matches!(error, OpenError::Missing { .. }) && data.exists();
    let is_damage = error.is_damage() || lost;
    if as_json && (is_damage || matches!(error, OpenError::Missing { .. })) {
        let detail = quorate_core::error_chain(&error);
        let bad = json!({ "space": "", "seq": 0, "damage": "unreadable", "detail": detail });
        terminal::print(json!({ "ok": false, "spaces": [], "firstBad": bad }).to_string());
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

fn in_space(bad: &Defect) -> String {
    if bad.space.is_empty() { String::new() } else { format!(" of space {}", terminal::sanitize(&bad.space)) }
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
    let bad = report.first_defect.as_ref().map(|bad| {
        json!({ "space": bad.space, "seq": bad.seq.0, "damage": bad.damage.as_str(), "detail": bad.detail })
    });
    json!({ "ok": report.ok, "spaces": spaces, "firstBad": bad })
}

/// Prints the result for each space and the first damage.
pub(crate) fn print_report(report: &VerifyReport, checkpoints: usize) {
    for space in &report.spaces {
        let bad = report.first_defect.as_ref().filter(|bad| bad.space == space.name);
        let mark = if bad.is_none() { "✓" } else { "✗" };
        terminal::print(format!(
            "{mark} {}: {} of {} records   head {}…   {} erased",
            terminal::sanitize(&space.name),
            space.records,
            space.head_seq,
            &hex::encode(&space.head_hash)[..16],
            space.erased
        ));
    }
    if let Some(bad) = &report.first_defect {
        terminal::print(format!("✗ {} at record {}{}", bad.damage, bad.seq, in_space(bad)));
        for line in bad.detail.lines() {
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
    let values = serde_json::Deserializer::from_str(&content).into_iter::<Stored>();
    let mut found = Vec::new();
    for value in values {
        let Stored { space, seq, hash } = value.map_err(|_| wrong(file))?;
        let hash = hex::decode(&hash).ok_or_else(|| wrong(file))?;
        found.push(LogCheckpoint { space, seq: Seq(seq), hash });
    }
    if found.is_empty() { Err(wrong(file).into()) } else { Ok(found) }
}

fn wrong(file: &Path) -> CommandError {
    let message = format!("{} is not a checkpoint file", file.display());
    CommandError::new(USAGE, message, "use the output of `quorate audit checkpoint`")
}
