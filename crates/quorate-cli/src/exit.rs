//! How a command ends: the error in one layout, and an exit code that is part of the interface.

use std::process::ExitCode;

use quorate_core::Code;
use quorate_engine::Error;
use quorate_sqlite::{BackupError, OpenError, RestoreError};

use crate::text;

/// Something went wrong that has no code of its own.
pub(crate) const FAILED: u8 = 1;
/// A wrong command line, or one that cannot be followed as it is.
pub(crate) const USAGE: u8 = 2;
pub(crate) const NOT_FOUND: u8 = 3;
pub(crate) const NOT_SIGNED_IN: u8 = 4;
pub(crate) const CONFLICT: u8 = 5;
pub(crate) const TIMED_OUT: u8 = 6;
pub(crate) const NOT_VERIFIED: u8 = 7;
pub(crate) const INTERRUPTED: u8 = 130;
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

impl Ended {
    pub(crate) fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// The exit code of a wrong command line.
pub(crate) fn usage() -> ExitCode {
    ExitCode::from(if is_special() { USAGE_OF_SERVE } else { USAGE })
}

fn is_special() -> bool {
    std::env::args().nth(1).is_some_and(|command| command == "verify" || command == "serve")
}

/// Prints what happened and what to do next.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let (code, name, hint) = classify(error);
    if code == INTERRUPTED {
        // Whoever pressed the keys knows.
        return ExitCode::from(code);
    }
    // A wrong file or flag of `serve` and `verify` is wrong usage of theirs.
    let code = if code == USAGE && is_special() { USAGE_OF_SERVE } else { code };
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
    if let Some(BackupError::Open(open)) = error.downcast_ref::<BackupError>() {
        return of_open(open);
    }
    if let Some(quorate::OpenHubError::Directory(open)) = error.downcast_ref::<quorate::OpenHubError>() {
        return of_open(open);
    }
    if let Some(refused) = error.downcast_ref::<Error>() {
        let code = of_code(refused.code());
        return (code, refused.code().to_string(), refused.hint().to_owned());
    }
    (FAILED, String::new(), String::new())
}

/// The exit code that goes with an error's code.
fn of_code(code: Code) -> u8 {
    match code {
        Code::Unauthenticated => NOT_SIGNED_IN,
        Code::NotFound | Code::UnknownRecipient => NOT_FOUND,
        Code::Conflict
        | Code::VersionConflict
        | Code::Duplicate
        | Code::StaleLease
        | Code::StaleEpoch
        | Code::StaleFence
        | Code::Deadlock
        | Code::LoopRefused
        | Code::Cancelled
        | Code::Expired
        | Code::SessionClosed => CONFLICT,
        Code::Timeout => TIMED_OUT,
        Code::StorageFailed | Code::StorageFull => STORAGE_FAILED,
        _ => FAILED,
    }
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
