//! Standing consumer of tasks: receives them as they become ready, within its credit.

use std::collections::VecDeque;

use quorate_core::{
    Code, ConsumerEvent, ConsumerId, LeaseLoss, LeaseToken, LeasedTask, Op, TaskId, WaitMode,
};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::mailboxes::MailboxItem;
use crate::space::{ConsumerGuard, Space};
use crate::task::{LeasedTaskWithInput, TaskClaimQuery, claimed_tasks};

/// Event of a task consumer.
#[derive(Clone, PartialEq, Debug)]
pub enum TaskConsumerEvent {
    /// A task to work on.
    Task(Box<LeasedTaskWithInput>),
    /// The lease of a task that the agent works on has ended: it should stop.
    Lost {
        /// Task ID.
        task: TaskId,
        /// Token of the lease that ended.
        token: LeaseToken,
        /// Reason for the loss.
        loss: LeaseLoss,
    },
}

/// Standing consumer of tasks. Ends when a new epoch of its agent starts.
pub struct TaskConsumer {
    space: Space,
    id: ConsumerId,
    mailbox: mpsc::UnboundedReceiver<MailboxItem>,
    ready: VecDeque<ConsumerEvent>,
}

impl Space {
    /// Opens a standing consumer of tasks with an initial credit.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn consume_tasks(&self, claim: &TaskClaimQuery, credit: u32) -> Result<TaskConsumer, Error> {
        let (id, mailbox) = self.mailboxes().open_waiter(self.number());
        let mut guard = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let receipt = self.commit(super::claim_commit(claim, credit, WaitMode::Standing(id))).await?;
        // From here on the consumer closes itself when dropped.
        guard.registered = false;
        guard.owns_mailbox = false;
        let leased =
            claimed_tasks(receipt.results).into_iter().map(|task| ConsumerEvent::TaskLeased(Box::new(task)));
        Ok(TaskConsumer { space: self.clone(), id, mailbox, ready: leased.collect() })
    }
}

impl TaskConsumer {
    /// Returns the operation that grants credit for more tasks. Add it to the commit that ends some, where it costs
    /// nothing extra.
    #[must_use]
    pub fn grant_credit_op(&self, credit: u32) -> Op {
        Op::GrantCredit { consumer: self.id, credit }
    }

    /// Returns the next event; `None` when a new epoch of the agent started elsewhere or the hub was closed.
    ///
    /// # Errors
    /// If the input of a task cannot be read.
    pub async fn next(&mut self) -> Result<Option<TaskConsumerEvent>, Error> {
        loop {
            match self.ready.pop_front() {
                Some(ConsumerEvent::TaskLeased(leased)) => {
                    let tasks = self.space.with_inputs(vec![*leased]).await?;
                    if let Some(task) = tasks.into_iter().next() {
                        return Ok(Some(TaskConsumerEvent::Task(Box::new(task))));
                    }
                }
                Some(ConsumerEvent::TaskLost { task, token, loss }) => {
                    return Ok(Some(TaskConsumerEvent::Lost { task, token, loss }));
                }
                // A task consumer receives no other events.
                Some(_) => {}
                None => match self.mailbox.recv().await {
                    Some(item) => self.enqueue(item),
                    None => return Ok(None),
                },
            }
        }
    }

    fn enqueue(&mut self, item: MailboxItem) {
        match item {
            MailboxItem::Event(event) => self.ready.push_back(event),
            // Only task events are sent to this mailbox.
            MailboxItem::Leased(_) | MailboxItem::Ephemeral(_) => {}
        }
    }

    /// Closes the consumer. Tasks that were received but not read are released.
    ///
    /// # Errors
    /// Storage failures; the leases then expire.
    pub async fn close(mut self) -> Result<(), Error> {
        self.space.commit_system(vec![Op::CloseConsumer { consumer: self.id }]).await?;
        self.space.mailboxes().close(self.id);
        while let Some(item) = self.mailbox.recv().await {
            self.enqueue(item);
        }
        for event in std::mem::take(&mut self.ready) {
            if let ConsumerEvent::TaskLeased(leased) = event {
                self.release(&leased).await?;
            }
        }
        Ok(())
    }

    /// Releases a task without counting the attempt. A lease that has expired meanwhile is skipped.
    async fn release(&self, leased: &LeasedTask) -> Result<(), Error> {
        match self.space.commit_system(vec![Op::ReleaseTask(leased.lease_ref())]).await {
            Err(error) if !matches!(error.code(), Code::StaleLease | Code::Cancelled) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for TaskConsumer {
    fn drop(&mut self) {
        self.space.mailboxes().close(self.id);
        self.space.close_consumer_detached(self.id);
    }
}
