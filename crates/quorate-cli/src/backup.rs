//! `quorate backup`: creates online backups, verifies them, and restores them with a new generation.

use std::path::PathBuf;

use clap::Subcommand;
use quorate_store::{BackupPosition, Clock as _, SystemClock};
use serde_json::json;

use crate::{terminal, verify};
use quorate_core::hex;

/// Subcommands of `quorate backup`.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example: quorate backup create --data team --out team-backup")]
pub(crate) enum BackupCommand {
    /// Create a consistent backup of a data directory, also while a hub is running. [rw]
    #[command(after_help = "Example: quorate backup create --data team --out team-backup")]
    Create {
        /// Data directory to back up.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// New directory for the backup.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Print what would be backed up, without creating the backup.
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup into a new data directory, with a new generation. [rw]
    #[command(after_help = "Example: quorate backup restore --from team-backup --data team2")]
    Restore {
        /// Backup to restore; it is not changed.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// New data directory.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Print what would be restored, without restoring it.
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Verify a backup and print its contents; exit code 7 if it is damaged. [ro]
    #[command(after_help = "Example: quorate backup verify team-backup

Checks every record, payload and table, like `quorate verify`; nothing is changed. A backup that passes \
can be restored. With --checkpoint, a truncated or rewritten log is detected as well.")]
    Verify {
        /// Backup to verify.
        #[arg(value_name = "DIR")]
        backup: PathBuf,
        /// Earlier output of `quorate audit checkpoint`.
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: BackupCommand) -> anyhow::Result<()> {
    match command {
        BackupCommand::Create { data, out, dry_run: true, json } => {
            let positions = quorate_sqlite::backup_dry_run(&data, &out)?;
            print_positions(
                &positions,
                json,
                &format!("dry run: no backup was written to {}", out.display()),
            );
        }
        BackupCommand::Create { data, out, dry_run: false, json } => {
            let written = quorate_sqlite::backup(&data, &out)?;
            print_positions(&written, json, &format!("backup written to {}", out.display()));
        }
        BackupCommand::Restore { from, data, dry_run: true, json } => {
            let positions = quorate_sqlite::restore_dry_run(&from, &data)?;
            print_positions(
                &positions,
                json,
                &format!("dry run: nothing was restored to {}", data.display()),
            );
        }
        BackupCommand::Restore { from, data, dry_run: false, json } => {
            let now = SystemClock::new().now().wall;
            let restored = quorate_sqlite::restore(&from, &data, now)?;
            print_positions(&restored, json, &format!("restored to {}", data.display()));
            if !json {
                terminal::note(
                    "started a new generation: lease tokens and versions continue above all earlier values",
                );
            }
        }
        BackupCommand::Verify { backup, checkpoint, json } => {
            verify::check(&backup, checkpoint.as_deref(), json)?;
        }
    }
    Ok(())
}

fn print_positions(positions: &[BackupPosition], as_json: bool, message: &str) {
    if as_json {
        let spaces: Vec<_> = positions
            .iter()
            .map(|position| {
                let hash = hex::encode(&position.hash);
                json!({ "space": position.space.as_str(), "seq": position.seq.0, "hash": hash })
            })
            .collect();
        terminal::print(json!({ "spaces": spaces }).to_string());
        return;
    }
    terminal::note(message);
    for BackupPosition { space, seq, hash } in positions {
        terminal::print(format!("{space}\tup to record {seq}\thead {}", &hex::encode(hash)[..16]));
    }
}
