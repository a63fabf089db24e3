//! How a command ends: the error in one layout, and an exit code that is part of the interface.

use std::process::ExitCode;

use quorate_core::Code;
use quorate_engine::Error;
use quorate_sqlite::{OpenError, RestoreError};

use crate::text;

/// Something went wrong that has no code of its own.
const FAILED: u8 = 1;
/// A wrong command line, or one that cannot be followed as it is.
pub(crate) const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const CONFLICT: u8 = 5;
const TIMED_OUT: u8 = 6;
/// Of `verify` and `serve`: as in `sysexits.h`.
pub(crate) const USAGE_OF_SERVE: u8 = 64;
pub(crate) const DAMAGED: u8 = 65;
pub(crate) const STORAGE_FAILED: u8 = 74;

/// A failure with its exit code, said already.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Ended {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The exit code of a wrong command line.
pub(crate) fn usage() -> ExitCode {
    let special = std::env::args().nth(1).is_some_and(|command| command == "verify" || command == "serve");
    ExitCode::from(if special { USAGE_OF_SERVE } else { USAGE })
}

/// Prints what happened and what to do next.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let (code, name, hint) = classify(error);
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    text::error(&name, &error.to_string(), &causes, &hint);
    ExitCode::from(code)
}

fn classify(error: &anyhow::Error) -> (u8, String, String) {
    if let Some(ended) = error.downcast_ref::<Ended>() {
        return (ended.code, String::new(), ended.hint.clone());
    }
    if let Some(open) = error.downcast_ref::<OpenError>() {
        return of_open(open);
    }
    if let Some(RestoreError::Backup(open)) = error.downcast_ref::<RestoreError>() {
        return of_open(open);
    }
    if let Some(quorate::OpenHubError::Directory(open)) = error.downcast_ref::<quorate::OpenHubError>() {
        return of_open(open);
    }
    if let Some(refused) = error.downcast_ref::<Error>() {
        let code = match refused.code() {
            Code::NotFound | Code::UnknownRecipient => NOT_FOUND,
            Code::Conflict
            | Code::VersionConflict
            | Code::Duplicate
            | Code::StaleLease
            | Code::StaleEpoch
            | Code::SessionClosed => CONFLICT,
            Code::Timeout => TIMED_OUT,
            Code::StorageFailed | Code::StorageFull => STORAGE_FAILED,
            _ => FAILED,
        };
        return (code, refused.code().to_string(), refused.hint().to_owned());
    }
    (FAILED, String::new(), String::new())
}

fn of_open(error: &OpenError) -> (u8, String, String) {
    let hint = match error {
        OpenError::InUse { .. } => "stop that process first, or work through it",
        OpenError::Foreign { .. } => "give the directory that a hub was started with, or a new one",
        OpenError::Newer { .. } => "install the release that wrote it; nothing was changed",
        OpenError::Damaged { .. } => {
            "nothing was changed; run `quorate verify`, or restore a backup into a new directory"
        }
        OpenError::Missing { .. } => "check the path",
        OpenError::Io { .. } | OpenError::Sqlite { .. } => "nothing was changed",
    };
    let code = match error {
        error if error.is_damage() => DAMAGED,
        OpenError::Missing { .. } => NOT_FOUND,
        OpenError::InUse { .. } => CONFLICT,
        _ => STORAGE_FAILED,
    };
    (code, String::new(), hint.to_owned())
}
