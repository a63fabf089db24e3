//! Waiting for the end of a task on behalf of an agent. The wait is part of the wait-for graph.

use std::time::Duration;

use quorate_core::{
    AgentId, AwaitTask, Code, Commit, ConsumerEvent, DeliveryId, Epoch, Op, OpResult, Principal, Refused,
    TaskId,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::mailboxes::MailboxItem;
use crate::space::{ConsumerGuard, Space};
use crate::task::TaskView;

impl Space {
    /// Waits for at most this long until a task ends, then returns its current state. Unlike [`Space::wait_for_task`],
    /// the wait takes part in deadlock detection. `within` is the delivery that the agent is processing meanwhile.
    ///
    /// # Errors
    /// `TIMEOUT`; `DEADLOCK` if the task waits for a resource that this agent holds; another refusal, or a storage
    /// failure.
    pub async fn wait_for_task_as_agent(
        &self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        task: &TaskId,
        within: Option<DeliveryId>,
        wait: Duration,
    ) -> Result<TaskView, Error> {
        let (id, mut mailbox) = self.mailboxes().open_waiter(self.number());
        let mut guard = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let op = AwaitTask { agent: agent.clone(), task: task.clone(), within, consumer: id };
        let commit = Commit::new(Principal::Agent(agent.clone()), vec![Op::AwaitTask(op)]);
        let receipt = self.commit(Commit { epoch, ..commit }).await?;
        if !matches!(receipt.results.first(), Some(OpResult::Queued)) {
            guard.registered = false;
            return self.task(task).await;
        }
        let event = tokio::select! {
            event = mailbox.recv() => event,
            () = self.sleep(wait) => {
                let detail = format!("task {task} did not end in time");
                return Err(Refused::new(Code::Timeout, detail)
                    .hint("the task continues; use `why` to see what it waits for, or increase the timeout")
                    .into());
            }
        };
        guard.registered = false;
        match event {
            Some(MailboxItem::Event(ConsumerEvent::TaskEnded(_))) => self.task(task).await,
            Some(MailboxItem::Event(ConsumerEvent::Refused(refused))) => {
                Err(self.record_aborted_wait(refused).into())
            }
            Some(_) => Err(StoreError::Read("unexpected result of a wait".into()).into()),
            None => Err(Refused::new(Code::StaleEpoch, "the agent has registered again, or was removed")
                .hint("stop this instance of the agent, or register it again to get a new epoch")
                .into()),
        }
    }
}
