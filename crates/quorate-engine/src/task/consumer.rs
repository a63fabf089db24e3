//! A standing claim of tasks: they come as they become ready, within its credit.

use std::collections::VecDeque;

use quorate_core::{Code, ConsumerId, Op, TaskHanded, TaskId, TaskLoss, Token, Told, Waiting};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::post::Mail;
use crate::space::{Closing, Space};
use crate::task::{TaskClaim, TaskInHand, claimed};

/// What comes to somebody who works on tasks.
#[derive(Clone, PartialEq, Debug)]
pub enum TaskEvent {
    /// A task to work on.
    Task(Box<TaskInHand>),
    /// A task that it works on is not its own any more: it should stop.
    Lost {
        /// Which task.
        task: TaskId,
        /// The lease that is over.
        token: Token,
        /// Why.
        loss: TaskLoss,
    },
}

/// A standing claim of tasks. Ends when its agent is started again.
pub struct TaskConsumer {
    space: Space,
    id: ConsumerId,
    mail: mpsc::UnboundedReceiver<Mail>,
    ready: VecDeque<Told>,
}

impl Space {
    /// Opens a standing claim of tasks with this much credit.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn consume_tasks(&self, claim: &TaskClaim, credit: u32) -> Result<TaskConsumer, Error> {
        let (id, mail) = self.post().wait(self.number());
        let mut closing = Closing { space: self, id, waits: true, mailbox: true };
        let receipt = self.commit(super::claim_commit(claim, credit, Waiting::Standing(id))).await?;
        // From here on the consumer looks after itself.
        closing.waits = false;
        closing.mailbox = false;
        let handed = claimed(receipt.results).into_iter().map(|one| Told::TaskHanded(Box::new(one)));
        Ok(TaskConsumer { space: self.clone(), id, mail, ready: handed.collect() })
    }
}

impl TaskConsumer {
    /// The operation that lets this many more tasks come. Put it into the commit that ends some: it costs nothing extra
    /// there.
    #[must_use]
    pub fn grant(&self, credit: u32) -> Op {
        Op::Grant { consumer: self.id, credit }
    }

    /// What comes next. `None` when the agent was started again elsewhere, or the hub is closed.
    ///
    /// # Errors
    /// When the input of a task cannot be read.
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
                // Nobody who waits for tasks is told anything else.
                Some(_) => {}
                None => match self.mail.recv().await {
                    Some(mail) => self.sort(mail),
                    None => return Ok(None),
                },
            }
        }
    }

    fn sort(&mut self, mail: Mail) {
        match mail {
            Mail::Told(told) => self.ready.push_back(told),
            // What is not a task does not come here.
            Mail::Handed(_) | Mail::Ephemeral(_) => {}
        }
    }

    /// Takes no more. Tasks that came and were not looked at are given back untouched.
    ///
    /// # Errors
    /// When the storage fails; the leases then lapse by themselves.
    pub async fn close(mut self) -> Result<(), Error> {
        self.space.commit_system(vec![Op::Close { consumer: self.id }]).await?;
        self.space.post().close(self.id);
        while let Some(mail) = self.mail.recv().await {
            self.sort(mail);
        }
        for told in std::mem::take(&mut self.ready) {
            if let Told::TaskHanded(handed) = told {
                self.give_back(&handed).await?;
            }
        }
        Ok(())
    }

    /// Gives a task back untouched. If its lease is over meanwhile, it is somebody else's already.
    async fn give_back(&self, handed: &TaskHanded) -> Result<(), Error> {
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
