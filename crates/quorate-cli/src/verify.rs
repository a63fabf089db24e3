//! `quorate verify`: is the data what was written? Offline and read-only.

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_core::Seq;
use quorate_sqlite::{Bad, Checkpoint, OpenError, Report};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exit::{DAMAGED, Ended, USAGE};
use crate::text;
use quorate_core::hex;

/// Checks every record, every payload and every table of a data directory. Nothing in it is changed.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate verify --data team --checkpoint heads.jsonl

Every record, every payload and every table is checked; nothing is changed.
Exit codes: 0 all is well, 64 wrong usage (also: there is no such directory), 65
damaged data, 74 it cannot be read")]
pub(crate) struct VerifyArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// What `quorate audit checkpoint` said earlier: finds also a history that was cut off or rewritten as a whole.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

/// A checkpoint as it stands in a file.
#[derive(Deserialize)]
struct Stored {
    space: String,
    seq: u64,
    hash: String,
}

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    check(&args.data, args.checkpoint.as_deref(), args.json)
}

/// Checks a data directory or a copy of one, and tells what it holds.
///
/// # Errors
/// When it is not what was written, or cannot be read.
pub(crate) fn check(data: &Path, checkpoint: Option<&Path>, as_json: bool) -> anyhow::Result<()> {
    let checkpoints = checkpoint.map(read_checkpoints).transpose()?;
    let report = match quorate_sqlite::verify(data, checkpoints.as_deref()) {
        Ok(report) => report,
        Err(error) => return Err(unreadable(data, error, as_json)),
    };
    if as_json {
        text::print(to_json(&report).to_string());
    } else {
        tell(&report, checkpoints.as_ref().map_or(0, Vec::len));
    }
    match report.first_bad {
        None => Ok(()),
        Some(bad) => Err(damaged(&bad).into()),
    }
}

const WHAT_TO_DO: &str = "nothing was changed; keep the directory, and restore a backup into a new one";

/// How a command ends that found damaged data.
pub(crate) fn damaged(bad: &Bad) -> Ended {
    not_what_was_written(bad.damage.as_str(), bad.seq, &text::clean(&bad.space))
}

/// The same in words of its own.
pub(crate) fn not_what_was_written(damage: &str, seq: Seq, space: &str) -> Ended {
    let place = if space.is_empty() { String::new() } else { format!(" of space {space}") };
    let message = format!("the data is not what was written: {damage} at record {seq}{place}");
    Ended::new(DAMAGED, message, WHAT_TO_DO)
}

/// There is no log to walk. Whoever reads the document learns that from it as well.
fn unreadable(data: &Path, error: OpenError, as_json: bool) -> anyhow::Error {
    // A directory without its database has lost it; one that is not there was never named rightly.
    let lost = matches!(error, OpenError::Missing { .. }) && data.exists();
    let is_damage = error.is_damage() || lost;
    if as_json && (is_damage || matches!(error, OpenError::Missing { .. })) {
        let detail = quorate_core::error_chain(&error);
        let bad = json!({ "space": "", "seq": 0, "damage": "unreadable", "detail": detail });
        text::print(json!({ "ok": false, "spaces": [], "firstBad": bad }).to_string());
    }
    match error {
        OpenError::Newer { .. } => error.into(),
        error if is_damage => Damaged(error).into(),
        error => error.into(),
    }
}

/// What cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Damaged(OpenError);

impl Damaged {
    pub(crate) const HINT: &'static str = WHAT_TO_DO;
}

fn in_space(bad: &Bad) -> String {
    if bad.space.is_empty() { String::new() } else { format!(" of space {}", text::clean(&bad.space)) }
}

pub(crate) fn to_json(report: &Report) -> Value {
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
    let bad = report.first_bad.as_ref().map(|bad| {
        json!({ "space": bad.space, "seq": bad.seq.0, "damage": bad.damage.as_str(), "detail": bad.detail })
    });
    json!({ "ok": report.ok, "spaces": spaces, "firstBad": bad })
}

pub(crate) fn tell(report: &Report, checkpoints: usize) {
    for space in &report.spaces {
        let bad = report.first_bad.as_ref().filter(|bad| bad.space == space.name);
        let mark = if bad.is_none() { "✓" } else { "✗" };
        text::print(format!(
            "{mark} {}: {} of {} records   head {}…   {} erased",
            text::clean(&space.name),
            space.records,
            space.head_seq,
            &hex::encode(&space.head_hash)[..16],
            space.erased
        ));
    }
    if let Some(bad) = &report.first_bad {
        text::print(format!("✗ {} at record {}{}", bad.damage, bad.seq, in_space(bad)));
        for line in bad.detail.lines() {
            text::print(format!("    {}", text::clean(line)));
        }
    } else if checkpoints == 0 {
        text::say(
            "no checkpoint given: a history rewritten as a whole would not show (quorate audit checkpoint makes one)",
        );
    }
    text::say(format!("{:.2} s", report.seconds));
}

/// The checkpoints of a file.
pub(crate) fn read_checkpoints(file: &Path) -> anyhow::Result<Vec<Checkpoint>> {
    let content = std::fs::read_to_string(file).map_err(|error| {
        Ended::new(
            USAGE,
            format!("{} cannot be read: {error}", file.display()),
            "check the path of --checkpoint",
        )
    })?;
    let values = serde_json::Deserializer::from_str(&content).into_iter::<Stored>();
    let mut found = Vec::new();
    for value in values {
        let Stored { space, seq, hash } = value.map_err(|_| wrong(file))?;
        let hash = hex::decode(&hash).ok_or_else(|| wrong(file))?;
        found.push(Checkpoint { space, seq: Seq(seq), hash });
    }
    if found.is_empty() { Err(wrong(file).into()) } else { Ok(found) }
}

fn wrong(file: &Path) -> Ended {
    let message = format!("{} holds no checkpoint", file.display());
    Ended::new(USAGE, message, "give the file that `quorate audit checkpoint` printed")
}
