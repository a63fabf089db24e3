//! Acquiring locks, with a wait in the queue of the lock.

use std::time::Duration;

use quorate_core::limits::INSPECT_MAX;
use quorate_core::{
    AcquireLocks, Code, Commit, ConsumerEvent, ConsumerId, Epoch, FenceRef, GrantedLocks, Inspect,
    InspectResult, LockName, LockWait, Op, OpResult, Principal, Refused, WaitMode,
};
use quorate_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::Error;
use crate::mailboxes::MailboxItem;
use crate::registry::unexpected_inspection;
use crate::space::Space;

impl Space {
    /// Returns the requests that wait for a lock, first to last, up to a limit.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn lock_queue(&self, name: &LockName) -> Result<Vec<LockWait>, Error> {
        let inspect = Inspect::LockQueue { name: name.clone(), limit: INSPECT_MAX };
        match self.inspect(inspect).await? {
            InspectResult::LockQueue(queue) => Ok(queue),
            other => Err(unexpected_inspection(&other)),
        }
    }

    /// Returns the number of agents that wait for each of up to [`INSPECT_MAX`] locks, in the order of the names.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn lock_queue_lengths(&self, names: Vec<LockName>) -> Result<Vec<usize>, Error> {
        match self.inspect(Inspect::LockQueueLengths(names)).await? {
            InspectResult::LockQueueLengths(lengths) => Ok(lengths),
            other => Err(unexpected_inspection(&other)),
        }
    }

    /// Acquires locks atomically, waiting for at most this long. The `waiting` field of the request is ignored.
    ///
    /// # Errors
    /// `TIMEOUT` if the locks were not granted in time, `DEADLOCK` if they never can be, another refusal, or a storage
    /// failure. No lock is held then.
    pub async fn lock(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: AcquireLocks,
        wait: Duration,
    ) -> Result<GrantedLocks, Error> {
        let (id, mailbox) = self.mailboxes().open_waiter(self.number());
        let mode = if wait.is_zero() { WaitMode::NoWait } else { WaitMode::Once(id) };
        let mut queued =
            QueuedLock { space: self.clone(), id, mailbox: Some(mailbox), waits: !wait.is_zero() };
        let name = request.names.first().cloned();
        let op = Op::AcquireLocks(AcquireLocks { wait: mode, ..request });
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::LocksGranted(granted)) => {
                queued.waits = false;
                Ok(granted)
            }
            Some(OpResult::Queued) => queued.wait(wait, name).await,
            _ => Err(StoreError::Read("unexpected result of a lock operation".into()).into()),
        }
    }
}

/// A position in the queue of a lock. If the calling future is dropped, neither the position nor a lock remains.
struct QueuedLock {
    space: Space,
    id: ConsumerId,
    mailbox: Option<UnboundedReceiver<MailboxItem>>,
    /// Whether the waiter is registered with the writer.
    waits: bool,
}

impl QueuedLock {
    async fn wait(mut self, wait: Duration, name: Option<LockName>) -> Result<GrantedLocks, Error> {
        let space = self.space.clone();
        let Some(mailbox) = &mut self.mailbox else { return Err(StoreError::Closed.into()) };
        let (mut event, in_time) = tokio::select! {
            event = mailbox.recv() => (event, true),
            () = space.sleep(wait) => (None, false),
        };
        if event.is_none() {
            // Locks granted before the wait ended are in the mailbox once this commit returns.
            space.commit_system(vec![Op::CloseConsumer { consumer: self.id }]).await?;
            event = mailbox.try_recv().ok();
        }
        self.waits = false;
        match event {
            Some(MailboxItem::Event(ConsumerEvent::LocksGranted(granted))) => Ok(granted),
            Some(MailboxItem::Event(ConsumerEvent::Refused(refused))) => {
                Err(space.record_aborted_wait(refused).into())
            }
            Some(_) => Err(StoreError::Read("unexpected result of a lock operation".into()).into()),
            None if in_time => {
                Err(Refused::new(Code::StaleEpoch, "the agent has registered again, or was removed")
                    .hint("stop this instance of the agent, or register it again to get a new epoch")
                    .into())
            }
            None => {
                let name = name.map_or(String::new(), |name| format!(" {name}"));
                Err(Refused::new(Code::Timeout, format!("the lock{name} was not granted in time"))
                    .hint("retry, or wait longer; none of the locks was acquired")
                    .into())
            }
        }
    }
}

impl Space {
    /// Releases locks whose caller is gone.
    pub(crate) async fn release_abandoned_locks(&self, locks: Vec<FenceRef>) {
        if let Err(error) = self.commit_system(vec![Op::ReleaseLocks(locks)]).await {
            let (space, code) = (self.number().0, error.code().as_str());
            tracing::warn!(space, code, "failed to release locks; they expire on their own");
        }
    }
}

impl Drop for QueuedLock {
    fn drop(&mut self) {
        let (space, id) = (self.space.clone(), self.id);
        let Some(mut mailbox) = self.mailbox.take().filter(|_| self.waits) else {
            return space.mailboxes().close(id);
        };
        let Ok(handle) = Handle::try_current() else {
            space.mailboxes().close(id);
            return space.close_consumer_detached(id);
        };
        handle.spawn(async move {
            let closed = space.commit_system(vec![Op::CloseConsumer { consumer: id }]).await;
            space.mailboxes().close(id);
            // Release locks that were granted in the meantime, since the caller is gone. If that cannot be written,
            // they expire.
            while let (Ok(_), Ok(MailboxItem::Event(event))) = (&closed, mailbox.try_recv()) {
                if let ConsumerEvent::LocksGranted(granted) = event {
                    space.release_abandoned_locks(granted.locks).await;
                }
            }
        });
    }
}
