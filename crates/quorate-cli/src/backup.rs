//! `quorate backup`: a copy, also while a hub works, whether it is good, and back with a new generation.

use std::path::PathBuf;

use clap::Subcommand;
use quorate_store::{Clock as _, Position, SystemClock};
use serde_json::json;

use crate::{text, verify};
use quorate_core::hex;

/// Copies and restores.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example: quorate backup create --data team --to team-copy")]
pub(crate) enum BackupCommand {
    /// Copy a data directory, as of one moment. A hub may work in it meanwhile. [rw]
    #[command(after_help = "Example: quorate backup create --data team --to team-copy")]
    Create {
        /// The data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// A new directory for the copy.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Only say what would be copied.
        #[arg(long)]
        dry_run: bool,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Bring a copy back into a new data directory, with a new generation. [rw]
    #[command(after_help = "Example: quorate backup restore --from team-copy --data team2")]
    Restore {
        /// The copy; it is not changed.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// A new data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Only say what would be restored.
        #[arg(long)]
        dry_run: bool,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Check that a copy is what was written, and say what it holds; exit code 7 if it is not. [ro]
    #[command(after_help = "Example: quorate backup verify team-copy

Every record, every payload and every table is checked, as by `quorate verify`;
nothing is changed. A copy that passes can be restored. With --checkpoint also a
history that was cut off or rewritten as a whole is found.")]
    Verify {
        /// The copy.
        #[arg(value_name = "DIR")]
        copy: PathBuf,
        /// What `quorate audit checkpoint` said earlier.
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: BackupCommand) -> anyhow::Result<()> {
    match command {
        BackupCommand::Create { data, to, dry_run: true, json } => {
            let there = quorate_sqlite::backup_dry(&data, &to)?;
            tell(&there, json, &format!("a dry run: nothing was copied to {}", to.display()));
        }
        BackupCommand::Create { data, to, dry_run: false, json } => {
            let copied = quorate_sqlite::backup(&data, &to)?;
            tell(&copied, json, &format!("copied to {}", to.display()));
        }
        BackupCommand::Restore { from, data, dry_run: true, json } => {
            let there = quorate_sqlite::restore_dry(&from, &data)?;
            tell(&there, json, &format!("a dry run: nothing was restored to {}", data.display()));
        }
        BackupCommand::Restore { from, data, dry_run: false, json } => {
            let now = SystemClock::new().now().wall;
            let restored = quorate_sqlite::restore(&from, &data, now)?;
            tell(&restored, json, &format!("restored to {}", data.display()));
            if !json {
                text::say("a new generation has begun: tokens and versions go up, never back");
            }
        }
        BackupCommand::Verify { copy, checkpoint, json } => {
            verify::check(&copy, checkpoint.as_deref(), json)?;
        }
    }
    Ok(())
}

fn tell(positions: &[Position], as_json: bool, done: &str) {
    if as_json {
        let spaces: Vec<_> = positions
            .iter()
            .map(
                |one| json!({ "space": one.space.as_str(), "seq": one.seq.0, "hash": hex::encode(&one.hash) }),
            )
            .collect();
        text::print(json!({ "spaces": spaces }).to_string());
        return;
    }
    text::say(done);
    for Position { space, seq, hash } in positions {
        text::print(format!("{space}\tup to record {seq}\thead {}", &hex::encode(hash)[..16]));
    }
}
