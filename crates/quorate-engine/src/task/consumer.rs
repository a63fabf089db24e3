//! Standing consumer of tasks: receives them as they become ready, within its credit.

use std::collections::VecDeque;

use quorate_core::{Code, ConsumerId, Op, TaskHanded, TaskId, TaskLoss, Token, Told, Waiting};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::post::Mail;
use crate::space::{Closing, Space};
use crate::task::{TaskClaim, TaskInHand, claimed};

/// Event of a task consumer.
#[derive(Clone, PartialEq, Debug)]
pub enum TaskEvent {
    /// A task to work on.
    Task(Box<TaskInHand>),
    /// The lease of a task that the agent works on has ended: it should stop.
    Lost {
        /// Task ID.
        task: TaskId,
        /// Token of the lease that ended.
        token: Token,
        /// Reason for the loss.
        loss: TaskLoss,
    },
}

/// Standing consumer of tasks. Ends when a new epoch of its agent starts.
pub struct TaskConsumer {
    space: Space,
    id: ConsumerId,
    mail: mpsc::UnboundedReceiver<Mail>,
    ready: VecDeque<Told>,
}

impl Space {
    /// Opens a standing consumer of tasks with an initial credit.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn consume_tasks(&self, claim: &TaskClaim, credit: u32) -> Result<TaskConsumer, Error> {
        let (id, mail) = self.post().wait(self.number());
        let mut closing = Closing { space: self, id, waits: true, mailbox: true };
        let receipt = self.commit(super::claim_commit(claim, credit, Waiting::Standing(id))).await?;
        // From here on the consumer closes itself when dropped.
        closing.waits = false;
        closing.mailbox = false;
        let handed = claimed(receipt.results).into_iter().map(|task| Told::TaskHanded(Box::new(task)));
        Ok(TaskConsumer { space: self.clone(), id, mail, ready: handed.collect() })
    }
}

impl TaskConsumer {
    /// Returns the operation that grants credit for more tasks. Add it to the commit that ends some, where it costs
    /// nothing extra.
    #[must_use]
    pub fn grant(&self, credit: u32) -> Op {
        Op::Grant { consumer: self.id, credit }
    }

    /// Returns the next event; `None` when a new epoch of the agent started elsewhere or the hub was closed.
    ///
    /// # Errors
    /// If the input of a task cannot be read.
    pub async fn next(&mut self) -> Result<Option<TaskEvent>, Error> {
        loop {
            match self.ready.pop_front() {
                Some(Told::TaskHanded(handed)) => {
                    let task = self.space.with_input(*handed).await?;
                    return Ok(Some(TaskEvent::Task(Box::new(task))));
                }
                Some(Told::TaskLost { task, token, loss }) => {
                    return Ok(Some(TaskEvent::Lost { task, token, loss }));
                }
                // A task consumer receives no other events.
                Some(_) => {}
                None => match self.mail.recv().await {
                    Some(mail) => self.enqueue(mail),
                    None => return Ok(None),
                },
            }
        }
    }

    fn enqueue(&mut self, mail: Mail) {
        match mail {
            Mail::Told(event) => self.ready.push_back(event),
            // Only task events are sent to this mailbox.
            Mail::Handed(_) | Mail::Ephemeral(_) => {}
        }
    }

    /// Closes the consumer. Tasks that were received but not read are released.
    ///
    /// # Errors
    /// Storage failures; the leases then expire.
    pub async fn close(mut self) -> Result<(), Error> {
        self.space.commit_system(vec![Op::Close { consumer: self.id }]).await?;
        self.space.post().close(self.id);
        while let Some(mail) = self.mail.recv().await {
            self.enqueue(mail);
        }
        for event in std::mem::take(&mut self.ready) {
            if let Told::TaskHanded(handed) = event {
                self.release(&handed).await?;
            }
        }
        Ok(())
    }

    /// Releases a task without counting the attempt. A lease that has expired meanwhile is skipped.
    async fn release(&self, handed: &TaskHanded) -> Result<(), Error> {
        match self.space.commit_system(vec![Op::ReleaseTask(handed.lease_ref())]).await {
            Err(error) if !matches!(error.code(), Code::StaleLease | Code::Cancelled) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for TaskConsumer {
    fn drop(&mut self) {
        self.space.post().close(self.id);
        self.space.forget_consumer(self.id);
    }
}
