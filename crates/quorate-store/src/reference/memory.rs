//! Shared memory: a sequence of versions per key, none of which is ever reused.

use bytes::Bytes;
use quorate_core::{
    Code, DeleteEntry, EntryHead, EntryVersion, ErasePayload, Generation, Key, OpResult, PutEntry, Refused,
    Version,
};

use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn put(&mut self, put: &PutEntry) -> Result<OpResult, Refused> {
        self.check_session_entry(&put.key, put.expect)?;
        self.check_fence(put.fence.as_ref())?;
        self.check_version(&put.key, put.expect)?;
        let depends_on = put.depends_on.iter().map(|key| (key.clone(), self.live_version(key))).collect();
        let version = EntryVersion {
            head: self.next_head(&put.key, false),
            at: self.now.wall,
            author: self.commit.principal.to_string(),
            entry_type: put.entry_type.clone(),
            content_type: put.content_type.clone(),
            content_part: Some((self.seq, self.parts.len() as u32)),
            depends_on,
            restores: None,
        };
        self.parts.push(put.content.clone());
        Ok(self.write(&put.key, version))
    }

    pub(super) fn delete(&mut self, delete: &DeleteEntry) -> Result<OpResult, Refused> {
        self.check_session_entry(&delete.key, delete.expect)?;
        self.check_fence(delete.fence.as_ref())?;
        self.check_version(&delete.key, delete.expect)?;
        if self.live_version(&delete.key) == Version(0) {
            return Err(Refused::new(Code::NotFound, format!("unknown entry {}", delete.key)));
        }
        let tombstone = self.tombstone(&delete.key);
        Ok(self.write(&delete.key, tombstone))
    }

    /// Builds the tombstone version of an entry.
    pub(super) fn tombstone(&self, key: &Key) -> EntryVersion {
        EntryVersion {
            head: self.next_head(key, true),
            at: self.now.wall,
            author: self.commit.principal.to_string(),
            entry_type: String::new(),
            content_type: None,
            content_part: None,
            depends_on: Vec::new(),
            restores: None,
        }
    }

    /// Erases a payload of an earlier record. Erasing it again is a no-op without a record.
    pub(super) fn erase(&mut self, erase: ErasePayload) -> Result<OpResult, Refused> {
        let record = erase.seq.0.checked_sub(1).and_then(|index| {
            let index = usize::try_from(index).ok()?;
            self.space.records.get_mut(index)
        });
        let Some(part) = record.and_then(|record| record.parts.get_mut(erase.part as usize)) else {
            let detail = format!("record {} has no payload part {}", erase.seq, erase.part);
            return Err(Refused::new(Code::NotFound, detail));
        };
        if part.salt != [0; 16] {
            part.bytes = Bytes::from(vec![0; part.bytes.len()]);
            part.salt = [0; 16];
            self.changed = true;
            // A fingerprint would let a client confirm a guess of the erased content.
            for sent in &mut self.space.messages {
                if (sent.seq, sent.part) == (erase.seq, erase.part) {
                    sent.fingerprint = [0; 32];
                }
            }
            self.space.drop_cached_inputs(erase.seq);
        }
        Ok(OpResult::Done)
    }

    /// Returns the live version of an entry, or 0 if there is none.
    pub(super) fn live_version(&self, key: &Key) -> Version {
        let newest = self.space.entries.get(key).and_then(|versions| versions.last());
        newest.filter(|newest| !newest.head.deleted).map_or(Version(0), |newest| newest.head.version)
    }

    pub(super) fn check_version(&self, key: &Key, expect: Option<Version>) -> Result<(), Refused> {
        let current = self.live_version(key);
        match expect {
            Some(expected) if expected != current => {
                Err(Refused::new(Code::VersionConflict, format!("{key} is at version {current}"))
                    .current_version(current.0))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the head of the next version, which is greater than every earlier one, including tombstones.
    pub(super) fn next_head(&self, key: &Key, deleted: bool) -> EntryHead {
        let newest = self.space.entries.get(key).and_then(|versions| versions.last());
        let next = newest.map_or(0, |newest| newest.head.version.0) + 1;
        let generation = self.space.generation();
        let same = newest.map_or(Generation(0), |newest| newest.head.generation) == generation;
        let version = Version(if same { next } else { next.max(self.space.number_floor()) });
        EntryHead { version, generation, seq: self.seq, deleted }
    }

    pub(super) fn write(&mut self, key: &Key, version: EntryVersion) -> OpResult {
        let number = version.head.version;
        self.space.entries.entry(key.clone()).or_default().push(version);
        self.changed = true;
        OpResult::Written { version: number }
    }
}
