//! Errors of playbooks and of the files that they name.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::PlaybookPath;
use crate::spelling::closest_match;

/// An invalid playbook, or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaybookError {
    /// The content is invalid.
    #[error("{}{message}", Prefix(position.as_ref()))]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
        /// Where it is wrong; `None` if that is no line of a file, or part of the message.
        position: Option<PlaybookPosition>,
    },
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Position in a file. Lines and columns start at 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaybookPosition {
    /// The file.
    pub file: PathBuf,
    /// The line.
    pub line: u64,
    /// The column, if it is known.
    pub column: Option<u64>,
}

impl fmt::Display for PlaybookPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// The position before a message.
struct Prefix<'a>(Option<&'a PlaybookPosition>);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "{position}: "))
    }
}

impl PlaybookError {
    /// Creates an error without a position.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), hint: hint.into(), position: None }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// What to do; empty for an error of the operating system.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Invalid { hint, .. } => hint,
            Self::Read { .. } => "",
        }
    }

    /// Where the error is, if it is in a line of a file.
    #[must_use]
    pub fn position(&self) -> Option<&PlaybookPosition> {
        match self {
            Self::Invalid { position, .. } => position.as_ref(),
            Self::Read { .. } => None,
        }
    }

    /// Renders the error and its cause in one line.
    pub(super) fn with_cause(&self) -> String {
        match self {
            Self::Invalid { .. } => self.to_string(),
            Self::Read { source, .. } => format!("{self}: {source}"),
        }
    }
}

impl PlaybookPath<'_> {
    pub(super) fn error_at(&self, line: u64, message: &str, hint: &str) -> PlaybookError {
        self.error_in((line, None), message, hint)
    }

    fn error_in(&self, (line, column): (u64, Option<u64>), message: &str, hint: &str) -> PlaybookError {
        let position = Some(PlaybookPosition { file: self.0.to_owned(), line, column });
        PlaybookError::Invalid { message: message.to_owned(), hint: hint.to_owned(), position }
    }

    /// Converts an error of the YAML parser.
    pub(super) fn yaml_error(&self, error: &serde_saphyr::Error) -> PlaybookError {
        let error = error.without_snippet();
        let position =
            error.location().map_or((1, None), |location| (location.line(), Some(location.column())));
        let guide = "see docs/guides/your-first-playbook.md";
        let (message, hint) = match error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let hint = match closest_match(field, expected.iter().copied()) {
                    Some(closest) => format!("did you mean {closest:?}?"),
                    None => format!("the keys are {}", expected.join(", ")),
                };
                (format!("unknown key {field:?}"), hint)
            }
            serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_ref().map_or_else(String::new, |key| format!(" {key:?}"));
                let hint = "remove or rename one of them: each agent and each setting has a name of its own";
                (format!("the key{key} is there twice"), hint.to_owned())
            }
            other => (other.to_string(), guide.to_owned()),
        };
        self.error_in(position, &message, &hint)
    }
}
