//! Errors and exit codes of commands. Exit codes are part of the interface.

use std::io;
use std::process::ExitCode;

use quorate_core::{Code, Refused};
use quorate_engine::Error;
use quorate_sqlite::{BackupError, OpenError, RestoreError};

use crate::hints::{self, CommandLine};
use crate::{terminal, verify};

// Exit codes as documented in `docs/guides/command-line.md`. `serve` and `verify` use the codes of `sysexits.h` instead, because
// service managers expect them; `exit_code` is the mapping.

/// An error without a more specific code.
pub(crate) const FAILED: u8 = 1;
/// An invalid command line or configuration.
pub(crate) const USAGE: u8 = 2;
pub(crate) const NOT_FOUND: u8 = 3;
pub(crate) const UNAUTHENTICATED: u8 = 4;
pub(crate) const CONFLICT: u8 = 5;
pub(crate) const TIMED_OUT: u8 = 6;
pub(crate) const VERIFICATION_FAILED: u8 = 7;
/// A deliberation or tally without a decision: a tie, or nothing to compare.
pub(crate) const NO_DECISION: u8 = 8;
pub(crate) const INTERRUPTED: u8 = 130;
/// Damaged data.
pub(crate) const DAMAGED: u8 = 65;
/// A failure of the disk or the operating system.
pub(crate) const STORAGE_FAILED: u8 = 74;
/// Usage error of `serve` and `verify`.
const SYSEXITS_USAGE: u8 = 64;

/// Maps an internal code to the exit code of the command; `sysexits` is true for `serve` and `verify`.
fn exit_code(sysexits: bool, code: u8) -> u8 {
    match (sysexits, code) {
        (_, INTERRUPTED) => INTERRUPTED,
        (false, DAMAGED) => VERIFICATION_FAILED,
        (false, STORAGE_FAILED) => FAILED,
        (false, code) => code,
        // The command line names something that does not exist, is in use, or cannot be used.
        (true, USAGE | NOT_FOUND | UNAUTHENTICATED | CONFLICT) => SYSEXITS_USAGE,
        (true, DAMAGED | VERIFICATION_FAILED) => DAMAGED,
        (true, _) => STORAGE_FAILED,
    }
}

/// An error that the command itself detected, with its exit code and a hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl CommandError {
    pub(crate) fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// Creates an error with an explicit error code.
pub(crate) fn error_with_code(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Error {
    Refused::new(code, message).hint(hint).into()
}

/// Returns the error code that corresponds to an exit code. Verdicts, such as of `doctor` and `verify`, have none: the page of
/// a code describes an error of a hub.
fn error_code(code: u8) -> Option<Code> {
    match code {
        USAGE => Some(Code::Invalid),
        NOT_FOUND => Some(Code::NotFound),
        UNAUTHENTICATED => Some(Code::Unauthenticated),
        CONFLICT => Some(Code::Conflict),
        TIMED_OUT => Some(Code::Timeout),
        STORAGE_FAILED => Some(Code::StorageFailed),
        _ => None,
    }
}

/// Returns the exit code of an invalid command line.
pub(crate) fn usage() -> ExitCode {
    ExitCode::from(exit_code(uses_sysexits(), USAGE))
}

fn uses_sysexits() -> bool {
    std::env::args().nth(1).is_some_and(|command| command == "verify" || command == "serve")
}

/// Prints an error with its hint, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let Classified { code, name, hint, page } = classify(error);
    if code == INTERRUPTED {
        // The user pressed ^C, so there is nothing to report.
        return ExitCode::from(code);
    }
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    terminal::print_error(&name, &error.to_string(), &causes, &hint, page);
    ExitCode::from(exit_code(uses_sysexits(), code))
}

/// An error with everything that is printed about it.
struct Classified {
    code: u8,
    /// Error code; empty for a verdict.
    name: String,
    hint: String,
    /// Whether the page of the error code explains it: only errors of a hub.
    page: bool,
}

impl From<(u8, String, String)> for Classified {
    fn from((code, name, hint): (u8, String, String)) -> Self {
        Self { code, name, hint, page: false }
    }
}

fn classify(error: &anyhow::Error) -> Classified {
    if let Some(refused) = error.downcast_ref::<Error>() {
        let code = refused.code();
        let hint = hints::terminal_hint(code, &refused.to_string(), refused.hint(), &CommandLine::from_env());
        return Classified { code: exit_code_of(code), name: code.to_string(), hint, page: true };
    }
    classify_local(error).into()
}

/// Classifies an error that no hub returned.
fn classify_local(error: &anyhow::Error) -> (u8, String, String) {
    if let Some(command_error) = error.downcast_ref::<CommandError>() {
        let name = error_code(command_error.code).map(|code| code.to_string());
        return (command_error.code, name.unwrap_or_default(), command_error.hint.clone());
    }
    if error.is::<verify::UnreadableData>() {
        return (DAMAGED, Code::StorageFailed.to_string(), verify::UnreadableData::HINT.to_owned());
    }
    if let Some(open) = error.downcast_ref::<OpenError>() {
        return classify_open(open);
    }
    match error.downcast_ref::<RestoreError>() {
        Some(RestoreError::Backup(open)) => return classify_open(open),
        Some(RestoreError::NotEmpty(_)) => return already_exists("--data"),
        _ => {}
    }
    match error.downcast_ref::<BackupError>() {
        Some(BackupError::Open(open)) => return classify_open(open),
        Some(BackupError::NotEmpty(_)) => return already_exists("--out"),
        _ => {}
    }
    if let Some(quorate::OpenHubError::Directory(open)) = error.downcast_ref::<quorate::OpenHubError>() {
        return classify_open(open);
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(error) => classify_io(error),
        None => (FAILED, String::new(), String::new()),
    }
}

/// Classifies an I/O error, usually on a file that the command line names.
fn classify_io(error: &io::Error) -> (u8, String, String) {
    let (code, hint) = match error.kind() {
        // `serve` and `verify` report a missing file as an operating system error.
        io::ErrorKind::NotFound if !uses_sysexits() => (Code::NotFound, "check the path"),
        io::ErrorKind::PermissionDenied => (Code::Forbidden, PERMISSION_HINT),
        io::ErrorKind::StorageFull => (Code::StorageFull, "free disk space and try again"),
        _ => (Code::StorageFailed, "check the path and the disk, then try again"),
    };
    (exit_code_of(code), code.to_string(), hint.to_owned())
}

/// Hint for files of other users.
pub(crate) const PERMISSION_HINT: &str =
    "check the owner with `ls -ld`; run the command as that user, or use another path";

/// Classifies an existing target directory as a conflict.
fn already_exists(option: &str) -> (u8, String, String) {
    let hint = format!("nothing was changed; choose a new directory with {option}");
    (CONFLICT, Code::Conflict.to_string(), hint)
}

/// Returns the exit code that corresponds to an error code.
fn exit_code_of(code: Code) -> u8 {
    match code {
        // An invalid value is a usage error, even if the hub detects it.
        Code::Invalid => USAGE,
        Code::Unauthenticated => UNAUTHENTICATED,
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

fn classify_open(error: &OpenError) -> (u8, String, String) {
    let hint = match error {
        OpenError::InUse { .. } => {
            "stop that process first, or use commands that connect to the running hub, such as `quorate status`"
        }
        OpenError::Foreign { .. } => "use the data directory of a hub, or a new directory",
        OpenError::Newer { .. } => "nothing was changed; install the release that wrote the data",
        OpenError::Damaged { .. } => {
            "nothing was changed; run `quorate verify`, or restore a backup into a new directory"
        }
        OpenError::Missing { .. } => {
            "check the path, or create a new data directory with `quorate serve --data DIR`"
        }
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => PERMISSION_HINT,
        OpenError::Io { .. } | OpenError::Sqlite { .. } => {
            "nothing was changed; check the path and the disk with `quorate doctor`"
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
        error if error.is_damage() => Some(Code::StorageFailed),
        _ => error_code(code),
    };
    (code, name.map(|code| code.to_string()).unwrap_or_default(), hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: [u8; 10] = [
        FAILED,
        USAGE,
        NOT_FOUND,
        UNAUTHENTICATED,
        CONFLICT,
        TIMED_OUT,
        VERIFICATION_FAILED,
        INTERRUPTED,
        DAMAGED,
        STORAGE_FAILED,
    ];

    // Fails under: an `exit_code` that mixes the codes of the two tables.
    #[test]
    fn every_exit_code_is_documented() {
        let guide = include_str!("../../../docs/guides/command-line.md");
        for code in CODES {
            assert!([1, 2, 3, 4, 5, 6, 7, 130].contains(&exit_code(false, code)), "{code}");
            assert!([64, 65, 74, 130].contains(&exit_code(true, code)), "{code}");
            let row = format!("| {} | {} |", exit_code(false, code), exit_code(true, code));
            assert!(guide.contains(&row), "the guide has no row {row}");
        }
        // `serve` and `verify` never end without a decision.
        assert!(guide.contains(&format!("| {} | – |", exit_code(false, NO_DECISION))));
    }
}
