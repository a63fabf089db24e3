//! The agent `outbox`, which writes approved letters: exactly the approved bytes, to a file in one directory.
//!
//! A letter is a task, whose result is the file. Writing the file again gives the same file, so an attempt that ended between the
//! file and the completion is repeated without another effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate::{AgentBuilder, Failure, MessageType, TaskWork, Work};
use quorate_env::replace_file;
use quorate_procedures::proposal::is_file_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{EventSink, WorkerEvent};

/// Id of the agent that writes approved letters.
pub const OUTBOX: &str = "outbox";
/// Type of the tasks with approved letters.
pub const LETTER_TASK: &str = "letter";

/// Result of the task: a letter that was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WrittenLetter {
    /// The file.
    pub file: PathBuf,
    /// Digest of the approved action.
    pub digest: String,
}

/// Input of the task.
#[derive(Deserialize)]
struct LetterTask {
    approval: String,
    digest: String,
    action: ApprovedAction,
}

#[derive(Deserialize)]
struct ApprovedAction {
    payload: ApprovedLetter,
}

#[derive(Deserialize)]
struct ApprovedLetter {
    letter: String,
    write: String,
}

/// Adds the handlers. The directory is absolute.
pub(super) fn handle(builder: AgentBuilder, directory: &Path, events: &EventSink) -> AgentBuilder {
    let (directory, events) = (directory.to_owned(), Arc::clone(events));
    // Its inbox is open as well, so that other workers see that it is connected.
    let builder = builder.on_other(async |work: Work<Value>| match work.message().message().kind {
        MessageType::Event | MessageType::Response => Ok(Value::Null),
        MessageType::Command | MessageType::Query => {
            Err(Failure::permanent("the outbox only writes approved letters"))
        }
    });
    builder.on_task(LETTER_TASK, move |work: TaskWork<Value>| {
        let (directory, events) = (directory.clone(), Arc::clone(&events));
        async move { write_letter(&work, &directory, &events) }
    })
}

fn write_letter(
    work: &TaskWork<Value>,
    directory: &Path,
    events: &EventSink,
) -> Result<WrittenLetter, Failure> {
    let invalid = |reason: &str| Failure::permanent(format!("the outbox cannot write this letter: {reason}"));
    let LetterTask { approval, digest, action } =
        serde_json::from_value(work.input.clone()).map_err(|error| invalid(&error.to_string()))?;
    let ApprovedAction { payload: ApprovedLetter { letter, write } } = action;
    // The approver may have modified the name.
    if !is_file_name(&write) {
        return Err(invalid("`write` is not a plain file name"));
    }
    let file = directory.join(write);
    replace_file(&file, letter.as_bytes(), None)
        .map_err(|error| Failure::retry(format!("{}: {error}", file.display())))?;
    // The policy of a space may require both.
    work.set_confidence(1.0);
    work.set_rationale("these are the approved bytes");
    events(WorkerEvent::LetterWritten { approval, file: file.clone() });
    Ok(WrittenLetter { file, digest })
}
