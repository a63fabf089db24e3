//! Shared memory: compare-and-set writes, tombstones, erasure.

use crate::commit::{DeleteEntry, ErasePayload, OpResult, PutEntry};
use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::entry::EntryHead;
use crate::ids::{Key, Version};
use crate::limits::NUMBER_MAX;
use crate::refused::{Code, Refused};

impl Draft<'_> {
    pub(super) fn put(&mut self, put: &PutEntry) -> Result<OpResult, DecideError> {
        self.check_session_entry(&put.key, put.expect)?;
        self.check_fence(put.fence.as_ref())?;
        let head = self.entry(&put.key)?;
        expect_version(&put.key, head.as_ref(), put.expect)?;
        let mut depends_on = Vec::with_capacity(put.depends_on.len());
        for key in &put.depends_on {
            let dependency = self.entry(key)?;
            depends_on.push((key.clone(), Version(EntryHead::expected(dependency.as_ref()))));
        }
        let version = self.write_entry(&put.key, head, false)?;
        let part = self.parts.len() as u32;
        self.parts.push(put.content.clone());
        self.emit(Effect::Written {
            key: put.key.clone(),
            version,
            entry_type: put.entry_type.clone(),
            content_type: put.content_type.clone(),
            part,
            depends_on,
            restores: None,
        });
        Ok(OpResult::Written { version })
    }

    pub(super) fn delete(&mut self, delete: &DeleteEntry) -> Result<OpResult, DecideError> {
        self.check_session_entry(&delete.key, delete.expect)?;
        self.check_fence(delete.fence.as_ref())?;
        let head = self.entry(&delete.key)?;
        expect_version(&delete.key, head.as_ref(), delete.expect)?;
        if EntryHead::expected(head.as_ref()) == 0 {
            return Err(Refused::new(Code::NotFound, format!("there is no entry {}", delete.key))
                .hint("nothing to do: it was deleted, or never written")
                .into());
        }
        let version = self.write_entry(&delete.key, head, true)?;
        self.emit(Effect::Deleted { key: delete.key.clone(), version });
        Ok(OpResult::Written { version })
    }

    pub(super) fn erase(&mut self, erase: ErasePayload) -> Result<OpResult, DecideError> {
        let ErasePayload { seq, part } = erase;
        let target = self.lookup.erase_target(seq, part)?;
        let Some(target) = target.filter(|target| part < target.parts) else {
            let refused = Refused::new(Code::NotFound, format!("record {seq} has no payload part {part}"))
                .hint("parts are numbered from 0, across all messages and entries of the record");
            return Err(refused.into());
        };
        if !target.erased && !self.erased_in_commit.contains(&(seq, part)) {
            self.erased_in_commit.push((seq, part));
            self.emit(Effect::Erased { seq, part });
        }
        Ok(OpResult::Done)
    }

    /// Returns the newest version of an entry, including the effects of this commit.
    pub(super) fn entry(&self, key: &Key) -> Result<Option<EntryHead>, DecideError> {
        match self.entries.get(key) {
            Some(head) => Ok(Some(*head)),
            None => Ok(self.lookup.entry(key)?),
        }
    }

    pub(super) fn write_entry(
        &mut self,
        key: &Key,
        head: Option<EntryHead>,
        deleted: bool,
    ) -> Result<Version, Refused> {
        let generation = self.working.head.generation;
        let version = EntryHead::next_version(head.as_ref(), generation);
        if version.0 > NUMBER_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("entry {key} has no version left"))
                .limit(NUMBER_MAX));
        }
        self.entries.insert(key.clone(), EntryHead { version, generation, seq: self.seq, deleted });
        Ok(version)
    }
}

pub(super) fn expect_version(
    key: &Key,
    head: Option<&EntryHead>,
    expect: Option<Version>,
) -> Result<(), Refused> {
    let current = EntryHead::expected(head);
    match expect {
        Some(expected) if expected.0 != current => {
            let actual =
                if current == 0 { "does not exist".to_owned() } else { format!("is at version {current}") };
            let detail = format!("expected version {expected}, but entry {key} {actual}");
            Err(Refused::new(Code::VersionConflict, detail).current_version(current).hint(
                "read the entry again, apply the change to the current content, and write with that version",
            ))
        }
        _ => Ok(()),
    }
}
