//! Integrity checks of the data: everything before startup if it is small, otherwise the newest records; the rest in the
//! background, and everything again every day. Damaged data is not served.

use std::time::Duration;

use clap::Args;
use quorate_core::Seq;
use quorate_engine::AuditFailure;
use quorate_sqlite::DirectoryLock;

use super::{Engines, StoreEngine};
use crate::exit::CommandError;
use crate::{terminal, verify};

/// Up to this size, including the write-ahead log, everything is verified before startup, tables included: about 25,000 short
/// records in 0.2 s.
const FULL_CHECK_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Number of records of larger data that are verified before startup, in about 0.2 s. Shared by all spaces.
const NEWEST_RECORDS: u64 = 20_000;
/// Interval of the background verification.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Args, Debug)]
#[command(next_help_heading = "Integrity checks")]
pub(crate) struct IntegrityArgs {
    /// Maximum data size in bytes for a complete verification before startup.
    #[arg(long, value_name = "BYTES", hide_short_help = true, default_value_t = FULL_CHECK_BYTES_MAX)]
    full_check_max_bytes: u64,
    /// Number of newest records to verify before startup, for larger data.
    #[arg(long, value_name = "COUNT", hide_short_help = true, default_value_t = NEWEST_RECORDS)]
    startup_check_records: u64,
    /// Interval of the background verification.
    #[arg(long, value_name = "MS", hide_short_help = true, default_value_t = INTERVAL.as_millis() as u64, value_parser = clap::value_parser!(u64).range(1..))]
    check_every_ms: u64,
}

/// Extent and interval of the integrity checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegrityChecks {
    full_check_bytes_max: u64,
    newest_records: u64,
    interval: Duration,
}

impl Default for IntegrityChecks {
    fn default() -> Self {
        Self {
            full_check_bytes_max: FULL_CHECK_BYTES_MAX,
            newest_records: NEWEST_RECORDS,
            interval: INTERVAL,
        }
    }
}

impl IntegrityArgs {
    pub(crate) fn checks(&self) -> IntegrityChecks {
        let interval = Duration::from_millis(self.check_every_ms);
        IntegrityChecks {
            full_check_bytes_max: self.full_check_max_bytes,
            newest_records: self.startup_check_records,
            interval,
        }
    }
}

impl IntegrityChecks {
    /// Verifies a store completely before it is opened, if it is small. Returns whether it did. The two stores are checked
    /// separately, so that nothing reported about one depends on the size of the other.
    pub(super) fn verify_all(&self, lock: &DirectoryLock, prefix: &str) -> anyhow::Result<bool> {
        let Some(bytes) =
            quorate_sqlite::database_bytes(lock.path()).filter(|bytes| *bytes <= self.full_check_bytes_max)
        else {
            return Ok(false);
        };
        let report = match quorate_sqlite::verify_locked(lock) {
            Ok(report) => report,
            Err(error) if error.is_damage() => return Err(error.into()),
            // After a crash a copy is verified, for which the disk may lack space. That does not prevent the start.
            Err(error) => {
                tracing::warn!(error = %error, bytes, "skipped the complete verification before startup");
                return Ok(false);
            }
        };
        let Some(mut defect) = report.first_defect else { return Ok(true) };
        defect.space.insert_str(0, prefix);
        report_damage(&defect.space, defect.seq, defect.damage.as_str(), &defect.detail);
        Err(verify::damage_error(&defect).into())
    }

    /// Verifies the newest records of stores that were not verified completely.
    pub(super) async fn verify_newest(&self, engines: &Engines) -> anyhow::Result<()> {
        for StoreEngine { engine, prefix, checked } in engines.stores() {
            if !checked {
                let result = engine.audit_newest(self.newest_records).await;
                result.map_err(|failure| damage_error(&failure, prefix))?;
            }
        }
        Ok(())
    }

    /// Verifies the log periodically in the background. Returns only if it finds damage.
    pub(super) async fn run_in_background(&self, engines: &Engines) -> CommandError {
        let [public, private] = &engines.stores();
        tokio::select! {
            error = self.verify_periodically(public) => error,
            error = self.verify_periodically(private) => error,
        }
    }

    async fn verify_periodically(&self, store: &StoreEngine<'_>) -> CommandError {
        if store.checked {
            tokio::time::sleep(self.interval).await;
        }
        loop {
            if let Err(failure) = store.engine.audit_all().await {
                return damage_error(&failure, store.prefix);
            }
            tokio::time::sleep(self.interval).await;
        }
    }
}

fn report_damage(space: &str, seq: Seq, damage: &str, detail: &str) {
    tracing::error!(space, seq = seq.0, damage, detail, "the data is damaged");
}

fn damage_error(failure: &AuditFailure, prefix: &str) -> CommandError {
    let AuditFailure { space, seq, damage, detail } = failure;
    let space = format!("{prefix}{space}");
    report_damage(&space, *seq, damage.as_str(), detail);
    verify::damage_error_at(damage.as_str(), *seq, &terminal::sanitize(&space))
}
