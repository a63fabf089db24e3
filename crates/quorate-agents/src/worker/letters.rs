//! The agent `outbox`, which writes approved letters: exactly the approved bytes, to a file in one directory.
//!
//! Its inbox receives the decision on an approval that it requested. Writing the file again gives the same file, and the commit
//! that acks the decision also records the file. If the process ends in between, the decision is delivered again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate::{AgentBuilder, Failure, Work};
use quorate_env::replace_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{EventSink, WorkerEvent};
use crate::playbook::is_file_name;

/// Id of the agent that writes approved letters.
pub const OUTBOX: &str = "outbox";

/// Memory entry about a letter that was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WrittenLetter {
    /// The file.
    pub file: PathBuf,
    /// Digest of the approved action.
    pub digest: String,
}

impl WrittenLetter {
    /// Returns the key of the memory entry about the letter of an approval.
    #[must_use]
    pub fn key(approval: &str) -> String {
        format!("letters/{approval}")
    }
}

/// Payload of the message with a decision.
#[derive(Deserialize)]
struct DecidedApproval {
    approval: String,
    digest: String,
    /// The approved action; `None` if it was not approved.
    action: Option<ApprovedAction>,
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

/// Adds the handler for decisions. The directory is absolute.
pub(super) fn handle(builder: AgentBuilder, directory: &Path, events: &EventSink) -> AgentBuilder {
    let (directory, events) = (directory.to_owned(), Arc::clone(events));
    builder.on("approval.decided", move |work: Work<Value>| {
        let (directory, events) = (directory.clone(), Arc::clone(&events));
        async move { write_letter(&work, &directory, &events) }
    })
}

fn write_letter(work: &Work<Value>, directory: &Path, events: &EventSink) -> Result<(), Failure> {
    let invalid =
        |reason: &str| Failure::permanent(format!("the outbox cannot process this decision: {reason}"));
    let decided: DecidedApproval =
        serde_json::from_value(work.payload.clone()).map_err(|error| invalid(&error.to_string()))?;
    let Some(ApprovedAction { payload: ApprovedLetter { letter, write } }) = decided.action else {
        return Ok(());
    };
    // The approver may have modified the name.
    if !is_file_name(&write) {
        return Err(invalid("`write` is not a plain file name"));
    }
    let file = directory.join(write);
    replace_file(&file, letter.as_bytes(), None)
        .map_err(|error| Failure::retry(format!("{}: {error}", file.display())))?;
    let key = WrittenLetter::key(&decided.approval);
    work.put(&key, "letter", WrittenLetter { file: file.clone(), digest: decided.digest });
    events(WorkerEvent::LetterWritten { approval: decided.approval, file });
    Ok(())
}
