//! Waiting in an agent's name until a task is over: part of who waits for whom.

use std::time::Duration;

use quorate_core::{
    AgentId, AwaitTask, Code, Commit, DeliveryId, Epoch, Op, OpResult, Principal, Refused, TaskId, Told,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::post::Mail;
use crate::space::{Closing, Space};
use crate::task::TaskView;

impl Space {
    /// Waits until a task is over, but not longer than this; then the task as it is. `within` is the delivery that the
    /// agent works on meanwhile.
    ///
    /// # Errors
    /// `TIMEOUT`; `DEADLOCK` if the task waits for what this agent has; another refusal, or a failure of the storage.
    pub async fn await_task(
        &self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        task: &TaskId,
        within: Option<DeliveryId>,
        wait: Duration,
    ) -> Result<TaskView, Error> {
        let (id, mut mail) = self.post().wait(self.number());
        let mut closing = Closing { space: self, id, waits: true, mailbox: true };
        let op = AwaitTask { agent: agent.clone(), task: task.clone(), within, waiting: id };
        let commit = Commit::new(Principal::Agent(agent.clone()), vec![Op::AwaitTask(op)]);
        let receipt = self.commit(Commit { epoch, ..commit }).await?;
        if !matches!(receipt.results.first(), Some(OpResult::InLine)) {
            closing.waits = false;
            return self.task(task).await;
        }
        let came = tokio::select! {
            came = mail.recv() => came,
            () = self.pass(wait) => {
                let detail = format!("task {task} was not over in time");
                return Err(Refused::new(Code::Timeout, detail)
                    .hint("it goes on; ask `why` what it waits for, or wait longer")
                    .into());
            }
        };
        closing.waits = false;
        match came {
            Some(Mail::Told(Told::TaskOver(_))) => self.task(task).await,
            Some(Mail::Told(Told::Refused(refused))) => Err(refused.into()),
            Some(_) => Err(StoreError::Read("a wait was not answered".into()).into()),
            None => Err(Refused::new(Code::StaleEpoch, "the agent was started again or removed")
                .hint("this start of the agent is over; it waits for nothing any more")
                .into()),
        }
    }
}
