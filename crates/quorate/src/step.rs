//! Steps: atomic commits built operation by operation.

use quorate_api::Error;
use quorate_core::{
    AddToSession, ContributionKind, DeleteEntry, FenceRef, IdempotencyKey, Key, LeaseRef, Op, PutEntry,
    Receipt, Seq, SessionId, Version,
};
use serde::Serialize;

use crate::agent::{Agent, to_json};
use crate::send::MessageDraft;

/// Builder for an atomic commit: all operations take effect, or none does.
#[must_use = "a step takes effect when it is committed"]
pub struct Step {
    pub(crate) agent: Agent,
    ops: Result<Vec<Op>, Error>,
    key: Option<String>,
    fence: Option<FenceRef>,
}

impl Step {
    pub(crate) fn new(agent: Agent, acked: Option<LeaseRef>) -> Self {
        Self { agent, ops: Ok(acked.map(Op::Ack).into_iter().collect()), key: None, fence: None }
    }

    pub(crate) fn add(mut self, op: Result<Op, Error>) -> Self {
        self.ops = self.ops.and_then(|mut ops| {
            ops.push(op?);
            Ok(ops)
        });
        self
    }

    /// Sends a message.
    pub fn send(self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) -> Self {
        let draft = MessageDraft::new(vec![to.into()], action.into(), to_json(payload));
        let message = draft.into_message(&*self.agent.backend, &self.agent.id);
        self.add(message.map(Op::send))
    }

    /// Guards the writes added after this call with a fencing token. The commit is rejected if the lock was granted
    /// to another holder since.
    pub fn with_fence(mut self, fence: FenceRef) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Writes a memory entry unconditionally.
    pub fn put(self, key: &str, entry_type: &str, content: impl Serialize) -> Self {
        self.write(key, entry_type, content, None)
    }

    fn write(self, key: &str, entry_type: &str, content: impl Serialize, version: Option<u64>) -> Self {
        let op = put_op(&self.agent, key, entry_type, content, version).map(|op| match op {
            Op::Put(put) => Op::Put(PutEntry { fence: self.fence.clone(), ..put }),
            other => other,
        });
        self.add(op)
    }

    /// Writes a memory entry if it is at the given version. Version 0 means that the entry must not exist.
    pub fn put_if_version(self, key: &str, entry_type: &str, content: impl Serialize, version: u64) -> Self {
        self.write(key, entry_type, content, Some(version))
    }

    /// Deletes a memory entry.
    pub fn delete(self, key: &str) -> Self {
        let fence = self.fence.clone();
        let op = Key::new(key).map(|key| Op::Delete(DeleteEntry { key, expect: None, fence }));
        let op = op.map_err(Error::from);
        self.add(op)
    }

    /// Adds a contribution to a session, with its rationale.
    pub fn add_to_session(
        self,
        session: &str,
        kind: ContributionKind,
        body: impl Serialize,
        rationale: &str,
    ) -> Self {
        let op = to_json(body).and_then(|body| {
            Ok(Op::AddToSession(AddToSession {
                session: SessionId::new(session)?,
                kind,
                body: self.agent.backend.seal(body.into()),
                content_type: None,
                rationale: rationale.to_owned(),
            }))
        });
        self.add(op)
    }

    /// Sets an idempotency key. For 24 hours the same step with the same key takes effect once and returns the same
    /// result.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Commits the step and returns its sequence number. When this returns, all effects are on disk.
    ///
    /// # Errors
    /// Returns an error if an operation is rejected, in which case nothing was changed, or if the storage fails.
    pub async fn commit(self) -> Result<Option<Seq>, Error> {
        self.commit_ops().await.map(|receipt| receipt.seq)
    }

    async fn commit_ops(self) -> Result<Receipt, Error> {
        let mut commit = self.agent.new_commit(self.ops?);
        if let Some(key) = self.key {
            commit = commit.keyed(IdempotencyKey::new(key)?);
        }
        self.agent.backend.commit(commit).await
    }
}

/// Builds the operation that writes a memory entry.
pub(crate) fn put_op(
    agent: &Agent,
    key: &str,
    entry_type: &str,
    content: impl Serialize,
    expect: Option<u64>,
) -> Result<Op, Error> {
    Ok(Op::Put(PutEntry {
        key: Key::new(key)?,
        entry_type: entry_type.to_owned(),
        content: agent.backend.seal(to_json(content)?.into()),
        content_type: None,
        expect: expect.map(Version),
        depends_on: Vec::new(),
        fence: None,
    }))
}
