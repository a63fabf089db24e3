//! Whether the data is what was written: all of it before the start if that is quick, else the newest records; the rest
//! while the hub works, and all of it again every day. Damaged data is not served.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use quorate_core::Seq;
use quorate_engine::Unsound;
use quorate_sqlite::OpenError;

use super::{Engines, Part};
use crate::exit::Ended;
use crate::{text, verify};

/// Up to so many bytes, with the write-ahead log, all of it is checked before the start, tables included: some 25,000 short
/// records at the most, in about 0.2 s.
const WHOLE_BYTES: u64 = 8 * 1024 * 1024;
/// Of larger data so many records are checked before the start: about 0.2 s as well. Many spaces share them.
const NEWEST: u64 = 20_000;
/// How often the log is checked while the hub works.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Args, Debug)]
#[command(next_help_heading = "Checks of the data, to be set for tests")]
pub(crate) struct CheckArgs {
    /// Up to how many bytes of data all of it is checked before the start.
    #[arg(long, value_name = "BYTES", hide_short_help = true, default_value_t = WHOLE_BYTES)]
    check_whole_bytes: u64,
    /// How many of the newest records are checked before the start, if there is more.
    #[arg(long, value_name = "COUNT", hide_short_help = true, default_value_t = NEWEST)]
    check_newest: u64,
    /// How often the log is checked while the hub works.
    #[arg(long, value_name = "MS", hide_short_help = true, default_value_t = EVERY.as_millis() as u64, value_parser = clap::value_parser!(u64).range(1..))]
    check_every_ms: u64,
}

/// How much is checked, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks {
    whole_bytes: u64,
    newest: u64,
    every: Duration,
}

impl Default for Checks {
    fn default() -> Self {
        Self { whole_bytes: WHOLE_BYTES, newest: NEWEST, every: EVERY }
    }
}

impl CheckArgs {
    pub(crate) fn checks(&self) -> Checks {
        let every = Duration::from_millis(self.check_every_ms);
        Checks { whole_bytes: self.check_whole_bytes, newest: self.check_newest, every }
    }
}

impl Checks {
    /// Checks all of one store if it is small, before it is opened. Says whether it did. Each of the two by itself: what
    /// is told of one must not follow from how much is in the other.
    pub(super) fn whole(&self, data: &Path, prefix: &str) -> anyhow::Result<bool> {
        let Some(bytes) = quorate_sqlite::data_bytes(data).filter(|bytes| *bytes <= self.whole_bytes) else {
            return Ok(false);
        };
        let report = match quorate_sqlite::verify_one(data, None) {
            Ok(report) => report,
            Err(error) if error.is_damage() || matches!(error, OpenError::InUse { .. }) => {
                return Err(error.into());
            }
            // After a crash a copy is checked, and there may be no room for one. That is no reason not to start.
            Err(error) => {
                tracing::warn!(why = %error, bytes, "the data is not checked as a whole before the start");
                return Ok(false);
            }
        };
        let Some(mut bad) = report.first_bad else { return Ok(true) };
        bad.space.insert_str(0, prefix);
        report_damage(&bad.space, bad.seq, bad.damage.as_str(), &bad.detail);
        Err(verify::damaged(&bad).into())
    }

    /// Checks the newest records of data that was not checked as a whole.
    pub(super) async fn newest(&self, engines: &Engines) -> anyhow::Result<()> {
        for Part { engine, prefix, checked } in engines.parts() {
            if !checked {
                let found = engine.audit_newest(self.newest).await;
                found.map_err(|unsound| in_words(&unsound, prefix))?;
            }
        }
        Ok(())
    }

    /// Checks the log while the hub works, again and again. Ends only with damage.
    pub(super) async fn go_on(&self, engines: &Engines) -> Ended {
        let [public, private] = &engines.parts();
        tokio::select! {
            ended = self.go_on_with(public) => ended,
            ended = self.go_on_with(private) => ended,
        }
    }

    async fn go_on_with(&self, part: &Part<'_>) -> Ended {
        if part.checked {
            tokio::time::sleep(self.every).await;
        }
        loop {
            if let Err(unsound) = part.engine.audit_all().await {
                return in_words(&unsound, part.prefix);
            }
            tokio::time::sleep(self.every).await;
        }
    }
}

fn report_damage(space: &str, seq: Seq, damage: &str, detail: &str) {
    tracing::error!(space, seq = seq.0, damage, detail, "the data is damaged");
}

fn in_words(unsound: &Unsound, prefix: &str) -> Ended {
    let Unsound { space, seq, broken, detail } = unsound;
    let space = format!("{prefix}{space}");
    report_damage(&space, *seq, broken.as_str(), detail);
    verify::not_what_was_written(broken.as_str(), *seq, &text::clean(&space))
}
