//! How a command ends: the error in one layout, and an exit code that is part of the interface.

use std::io;
use std::process::ExitCode;

use quorate_core::{Code, Refused};
use quorate_engine::Error;
use quorate_sqlite::{BackupError, OpenError, RestoreError};

use crate::advice::{self, Typed};
use crate::{text, verify};

// How a command can end, with the exit code that `ux.md` and the guide give it. `serve` and `verify` say the same things with
// the codes of `sysexits.h`, since whatever starts them looks for those; `told_by` is the table.

/// Something went wrong that has no code of its own.
pub(crate) const FAILED: u8 = 1;
/// A wrong command line, or one that cannot be followed as it is.
pub(crate) const USAGE: u8 = 2;
pub(crate) const NOT_FOUND: u8 = 3;
pub(crate) const NOT_SIGNED_IN: u8 = 4;
pub(crate) const CONFLICT: u8 = 5;
pub(crate) const TIMED_OUT: u8 = 6;
pub(crate) const NOT_VERIFIED: u8 = 7;
/// A deliberation or a count came to no decision: a tie, or nothing to compare.
pub(crate) const NO_DECISION: u8 = 8;
pub(crate) const INTERRUPTED: u8 = 130;
/// The data is not what was written.
pub(crate) const DAMAGED: u8 = 65;
/// The disk, or the system beneath, does not do what it must.
pub(crate) const STORAGE_FAILED: u8 = 74;
/// Of `serve` and `verify` only.
const USAGE_OF_SERVE: u8 = 64;

/// The one table of exit codes: what a command ends with, by how it ended.
fn told_by(special: bool, end: u8) -> u8 {
    match (special, end) {
        (_, INTERRUPTED) => INTERRUPTED,
        (false, DAMAGED) => NOT_VERIFIED,
        (false, STORAGE_FAILED) => FAILED,
        (false, end) => end,
        // The command line names what is not there, is in use, or cannot be used.
        (true, USAGE | NOT_FOUND | NOT_SIGNED_IN | CONFLICT) => USAGE_OF_SERVE,
        (true, DAMAGED | NOT_VERIFIED) => DAMAGED,
        (true, _) => STORAGE_FAILED,
    }
}

/// A failure that the program itself found, with its exit code.
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

/// A failure with a code that no exit code implies.
pub(crate) fn refused(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Error {
    Refused::new(code, message).hint(hint).into()
}

/// The code that goes with an end. A verdict, as of `doctor`, has none.
fn named(end: u8) -> Option<Code> {
    match end {
        USAGE => Some(Code::Invalid),
        NOT_FOUND => Some(Code::NotFound),
        NOT_SIGNED_IN => Some(Code::Unauthenticated),
        CONFLICT => Some(Code::Conflict),
        TIMED_OUT => Some(Code::Timeout),
        NOT_VERIFIED | DAMAGED | STORAGE_FAILED => Some(Code::StorageFailed),
        _ => None,
    }
}

/// The exit code of a wrong command line.
pub(crate) fn usage() -> ExitCode {
    ExitCode::from(told_by(is_special(), USAGE))
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
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    text::error(&name, &error.to_string(), &causes, &hint);
    ExitCode::from(told_by(is_special(), code))
}

fn classify(error: &anyhow::Error) -> (u8, String, String) {
    if let Some(ended) = error.downcast_ref::<Ended>() {
        let name = named(ended.code).map(|code| code.to_string());
        return (ended.code, name.unwrap_or_default(), ended.hint.clone());
    }
    if error.is::<verify::Damaged>() {
        return (DAMAGED, Code::StorageFailed.to_string(), verify::Damaged::HINT.to_owned());
    }
    if let Some(open) = error.downcast_ref::<OpenError>() {
        return of_open(open);
    }
    match error.downcast_ref::<RestoreError>() {
        Some(RestoreError::Backup(open)) => return of_open(open),
        Some(RestoreError::NotEmpty(_)) => return there_already("--data"),
        _ => {}
    }
    match error.downcast_ref::<BackupError>() {
        Some(BackupError::Open(open)) => return of_open(open),
        Some(BackupError::NotEmpty(_)) => return there_already("--to"),
        _ => {}
    }
    if let Some(quorate::OpenHubError::Directory(open)) = error.downcast_ref::<quorate::OpenHubError>() {
        return of_open(open);
    }
    if let Some(refused) = error.downcast_ref::<Error>() {
        let code = refused.code();
        let hint = advice::for_terminal(code, &refused.to_string(), refused.hint(), &Typed::read());
        return (of_code(code), code.to_string(), hint);
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(broken) => of_io(broken),
        None => (FAILED, String::new(), String::new()),
    }
}

/// What the system refused: of a file, as a rule, that the command line names.
fn of_io(error: &io::Error) -> (u8, String, String) {
    let (code, hint) = match error.kind() {
        // Whoever starts `serve` is told by `sysexits.h` that the system beneath did not do it.
        io::ErrorKind::NotFound if !is_special() => (Code::NotFound, "check the path"),
        io::ErrorKind::PermissionDenied => (Code::Forbidden, NOT_YOURS),
        io::ErrorKind::StorageFull => (Code::StorageFull, "make room, and try again"),
        _ => (Code::StorageFailed, "check the path and the disk, and try again"),
    };
    (of_code(code), code.to_string(), hint.to_owned())
}

/// What to do about files of others.
pub(crate) const NOT_YOURS: &str = "ls -ld says whose it is: run this as that user, or give another path";

/// What is there already is a conflict, whichever command meets it.
fn there_already(flag: &str) -> (u8, String, String) {
    let hint = format!("nothing was changed; give a new directory with {flag}");
    (CONFLICT, Code::Conflict.to_string(), hint)
}

/// The exit code that goes with an error's code.
fn of_code(code: Code) -> u8 {
    match code {
        // A wrong value is wrong usage, whoever looks at it.
        Code::Invalid => USAGE,
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
        OpenError::InUse { .. } => {
            "stop that process first; commands that talk to a hub do so through it: quorate status"
        }
        OpenError::Foreign { .. } => "give the directory that a hub was started with, or a new one",
        OpenError::Newer { .. } => "install the release that wrote it; nothing was changed",
        OpenError::Damaged { .. } => {
            "nothing was changed; run `quorate verify`, or restore a backup into a new directory"
        }
        OpenError::Missing { .. } => "check the path; `quorate serve --data DIR` begins a new one",
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => NOT_YOURS,
        OpenError::Io { .. } | OpenError::Sqlite { .. } => {
            "nothing was changed; check the path and the disk: quorate doctor"
        }
    };
    let code = match error {
        error if error.is_damage() => DAMAGED,
        OpenError::Missing { .. } => NOT_FOUND,
        OpenError::InUse { .. } => CONFLICT,
        _ => STORAGE_FAILED,
    };
    let name = match error {
        OpenError::Foreign { .. } | OpenError::Newer { .. } => Some(Code::Invalid),
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some(Code::Forbidden)
        }
        _ => named(code),
    };
    (code, name.map(|code| code.to_string()).unwrap_or_default(), hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [u8; 10] = [
        FAILED,
        USAGE,
        NOT_FOUND,
        NOT_SIGNED_IN,
        CONFLICT,
        TIMED_OUT,
        NOT_VERIFIED,
        INTERRUPTED,
        DAMAGED,
        STORAGE_FAILED,
    ];

    // Fails under: a `told_by` that lets a code of the one table through in the other.
    #[test]
    fn every_command_ends_with_a_code_that_is_documented_for_it() {
        let guide = include_str!("../../../docs/guides/command-line.md");
        for end in ENDS {
            assert!([1, 2, 3, 4, 5, 6, 7, 130].contains(&told_by(false, end)), "{end}");
            assert!([64, 65, 74, 130].contains(&told_by(true, end)), "{end}");
            let row = format!("| {} | {} |", told_by(false, end), told_by(true, end));
            assert!(guide.contains(&row), "the guide has no row {row}");
        }
        // Neither `serve` nor `verify` decides anything.
        assert!(guide.contains(&format!("| {} | – |", told_by(false, NO_DECISION))));
    }
}
