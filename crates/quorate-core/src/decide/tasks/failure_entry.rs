//! The entry `failures/TASK` of the shared memory, which describes the last failure of a task. Its versions are the
//! history of the failures. It is written in the commit in which the attempt fails.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::ids::Key;
use crate::limits::FAILURE_DETAILS_BYTES_MAX;
use crate::message::Payload;
use crate::task::{AttemptFailure, AttemptFailureKind, Task};

/// Prefix of the keys of failure entries.
const PREFIX: &str = "failures/";
/// Type of failure entries.
const ENTRY_TYPE: &str = "task.failure";

impl Draft<'_> {
    /// Writes the last failure of a task to the shared memory. An expired lease or a holder that is gone is the fault of
    /// a holder, not of the task: it is written only if it ends the task.
    pub(super) fn record_failure(&mut self, task: &Task, is_retried: bool) -> Result<(), DecideError> {
        let Some(failure) = &task.last_failure else { return Ok(()) };
        match failure.kind {
            AttemptFailureKind::LeaseExpired | AttemptFailureKind::HolderGone if is_retried => return Ok(()),
            AttemptFailureKind::LeaseExpired
            | AttemptFailureKind::HolderGone
            | AttemptFailureKind::Failed
            | AttemptFailureKind::Permanent
            | AttemptFailureKind::TimedOut => {}
        }
        let Ok(key) = Key::new(format!("{PREFIX}{}", task.spec.id)) else { return Ok(()) };
        let head = self.entry(&key)?;
        // A key without a version left must not keep the task from failing.
        let Ok(version) = self.write_entry(&key, head, false) else { return Ok(()) };
        let details = failure.details.and_then(|details| self.parts.get(details.part as usize)).cloned();
        let text = self.failure_json(task, failure, details.as_ref(), is_retried);
        let part = self.parts.len() as u32;
        self.parts.push(Payload::seal(Bytes::from(text), self.failure_salt(details.as_ref())));
        self.emit(Effect::Written {
            key,
            version,
            entry_type: ENTRY_TYPE.to_owned(),
            content_type: None,
            part,
            depends_on: Vec::new(),
            restores: None,
        });
        Ok(())
    }

    /// The salt covers that of the details, because they are in the entry, but not in the body of the record.
    fn failure_salt(&self, details: Option<&Payload>) -> [u8; 16] {
        let mut salt = self.salt();
        if let Some(details) = details {
            let digest = Sha256::new().chain_update(salt).chain_update(details.salt).finalize();
            salt.copy_from_slice(&digest[..16]);
            // An all-zero salt marks an erased payload.
            salt[0] |= 1;
        }
        salt
    }

    fn failure_json(
        &self,
        task: &Task,
        failure: &AttemptFailure,
        details: Option<&Payload>,
        is_retried: bool,
    ) -> String {
        let mut text = String::from("{\"task\":");
        push_json_string(task.spec.id.as_str(), &mut text);
        let mut field = |name: &str, value: &str| {
            text.push_str(&format!(",\"{name}\":"));
            push_json_string(value, &mut text);
        };
        if !task.spec.task_type.is_empty() {
            field("type", &task.spec.task_type);
        }
        field("agent", &self.agent_id(failure.by));
        field("cause", failure.kind.as_str());
        if let Some(reason) = failure.explanation(&task.spec) {
            field("reason", &reason);
        }
        let (attempt, max) = (failure.attempt, task.spec.attempts_max);
        text.push_str(&format!(",\"attempt\":{attempt},\"maxAttempts\":{max},\"retried\":{is_retried}"));
        match details.map(|details| std::str::from_utf8(&details.bytes)) {
            Some(Ok(details)) if details.len() <= FAILURE_DETAILS_BYTES_MAX => {
                text.push_str(&format!(",\"details\":{details}"));
            }
            Some(_) => text.push_str(",\"detailsOmitted\":true"),
            None => {}
        }
        text.push('}');
        text
    }
}
