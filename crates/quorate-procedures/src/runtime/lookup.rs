//! What a run reads: which outputs were recorded before a restart, answers, and the ends of what it waits for.

use quorate_core::{
    Approval, ApprovalId, ApprovalState, ClientId, Code, ItemKind, MessageId, Procedure, ProcedureId,
    Refused, Seq, TaskId,
};
use quorate_engine::{Error, StoredItem};

use super::changes::Waited;
use super::drive::RunError;
use super::run::Run;
use super::{Context, commit_backoff, is_retryable};
use crate::machine::{ProcedureEvent, ProcedureOutput};

impl Context {
    /// Looks up the message that was sent under this client id, if any.
    async fn find_sent_message(&self, id: &ProcedureId, name: &str) -> Result<Option<MessageId>, Error> {
        match self.space.message_by_client_id(&client_id(id, name)?).await {
            Ok(message) => Ok(Some(message.id)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the outcome of a request. Dropping the future does not cancel the request.
    async fn await_answer(&self, name: String, message: MessageId) -> Result<ProcedureEvent, Error> {
        let mut backoff = commit_backoff();
        let mut request = loop {
            match self.space.await_request(&self.principal(), Some(self.epoch), message).await {
                Ok(request) => break request,
                Err(error) if is_retryable(&error) => self.wait_backoff(&mut backoff).await,
                Err(error) => return Err(error),
            }
        };
        request.keep_open();
        match request.answer().await {
            Ok(answer) => {
                let from = answer.message.from.as_ref().map(ToString::to_string).unwrap_or_default();
                let metadata = answer.message.metadata.as_deref().map(ToOwned::to_owned);
                let body = answer.message.payload.bytes.clone();
                Ok(ProcedureEvent::Answered { request: name, from, body, metadata })
            }
            // A newer runtime registered, or storage failed: the next runtime resumes.
            Err(Error::Refused(refused)) if refused.code == Code::StaleEpoch => Err(refused.into()),
            Err(Error::Refused(refused)) => {
                let reason = strip_message_id(&refused.detail, message);
                Ok(ProcedureEvent::RequestFailed { request: name, reason })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the event of an item that has ended; `None` if it has not.
    pub(super) async fn read_ended(&self, waited: &Waited) -> Result<Option<ProcedureEvent>, RunError> {
        let (id, output) = (&waited.key.id, waited.output.clone());
        Ok(match waited.key.kind {
            ItemKind::Task => self.read_task(TaskId::new(id)?, output).await?,
            ItemKind::Approval => self.read_approval(ApprovalId::new(id)?, output).await?,
            ItemKind::Procedure => self.read_child(ProcedureId::new(id)?, output).await?,
            _ => None,
        })
    }

    async fn read_task(&self, id: TaskId, task: String) -> Result<Option<ProcedureEvent>, Error> {
        let view = self.space.task(&id).await?;
        let status = view.task.status();
        let reason = view.task.reason().map(|reason| reason.into_owned());
        let ended = ProcedureEvent::TaskEnded { task, status, result: view.result, reason };
        Ok(Some(ended).filter(|_| status.has_ended()))
    }

    async fn read_approval(&self, id: ApprovalId, name: String) -> Result<Option<ProcedureEvent>, Error> {
        let approval = self.space.item::<Approval>(&id).await?;
        if approval.is_pending() {
            return Ok(None);
        }
        let view = self.space.approval_view(approval).await?;
        let state = &view.approval.state;
        let action = match state {
            ApprovalState::Approved(_) => view.action,
            ApprovalState::Modified { .. } => view.modified,
            ApprovalState::Pending | ApprovalState::Rejected(_) | ApprovalState::Expired { .. } => None,
        };
        let reason = state.decision().map(|decision| decision.reason.clone()).unwrap_or_default();
        let action = action.map(|action| action.bytes);
        Ok(Some(ProcedureEvent::Decided { approval: name, state: state.as_str(), reason, action }))
    }

    async fn read_child(&self, id: ProcedureId, child: String) -> Result<Option<ProcedureEvent>, Error> {
        let procedure = self.space.procedure(&id).await?;
        if !procedure.status.has_ended() {
            return Ok(None);
        }
        let view = self.space.procedure_view(procedure).await?;
        let result = view.result.map(|result| result.bytes);
        Ok(Some(ProcedureEvent::ChildEnded { child, status: view.procedure.status, result }))
    }

    async fn exists<T: StoredItem>(&self, id: &T::Id) -> Result<bool, Error> {
        Ok(self.space.find::<T>(id).await?.is_some())
    }
}

/// Derives the client id of an output from its id within the procedure, so that a repetition is recognised.
pub(super) fn client_id(procedure: &ProcedureId, name: &str) -> Result<ClientId, Refused> {
    ClientId::new(format!("{procedure}:{name}"))
}

/// Removes the message id from a failure, so that the same failure has the same text in every run.
fn strip_message_id(detail: &str, request: MessageId) -> String {
    let bare = detail.replace(&format!("request {request} has no answer: "), "");
    bare.replace(&format!(" to {request}"), "").replace(&format!(" {request}"), "")
}

impl Run<'_> {
    /// Resumes from a stored state: queues every output of the state that was not committed, and waits for the others.
    pub(super) async fn resume(&mut self) -> Result<(), RunError> {
        let now = self.now();
        for output in self.instance.pending_outputs(&self.machine_context()) {
            match output {
                ProcedureOutput::Request(request) => {
                    match self.context.find_sent_message(&self.id, &request.id).await? {
                        Some(message) => self.track_answer(request.id, message),
                        None => self.apply_output(ProcedureOutput::Request(request), now)?,
                    }
                }
                ProcedureOutput::Message(message) => {
                    if self.context.find_sent_message(&self.id, &message.id).await?.is_none() {
                        self.apply_output(ProcedureOutput::Message(message), now)?;
                    }
                }
                ProcedureOutput::Task(task) => {
                    match self.context.exists::<quorate_core::Task>(&self.task_id(&task.id)?).await? {
                        true => self.wait_for_task(&task.id).await?,
                        false => self.apply_output(ProcedureOutput::Task(task), now)?,
                    }
                }
                ProcedureOutput::Approval(approval) => {
                    match self.context.exists::<Approval>(&self.approval_id(&approval.id)?).await? {
                        true => self.wait_for_approval(&approval.id).await?,
                        false => self.apply_output(ProcedureOutput::Approval(approval), now)?,
                    }
                }
                ProcedureOutput::Child(child) => {
                    match self.context.exists::<Procedure>(&self.child_id(&child.id)?).await? {
                        true => self.wait_for_child(&child.id).await?,
                        false => self.apply_output(ProcedureOutput::Child(child), now)?,
                    }
                }
                // They are committed together with the state that implies them.
                ProcedureOutput::Write(_) | ProcedureOutput::Cancel(_) => {}
                other @ (ProcedureOutput::Timer { .. }
                | ProcedureOutput::Watch { .. }
                | ProcedureOutput::Ignored(_)
                | ProcedureOutput::Finish(_)
                | ProcedureOutput::Fail(_)) => self.apply_output(other, now)?,
            }
        }
        Ok(())
    }

    pub(super) fn task_id(&self, name: &str) -> Result<TaskId, Refused> {
        TaskId::new(format!("{}:{name}", self.id))
    }

    pub(super) fn approval_id(&self, name: &str) -> Result<ApprovalId, Refused> {
        ApprovalId::new(format!("{}:{name}", self.id))
    }

    pub(super) fn child_id(&self, name: &str) -> Result<ProcedureId, Refused> {
        ProcedureId::new(format!("{}:{name}", self.id))
    }

    pub(super) fn track_answer(&mut self, name: String, message: MessageId) {
        self.requests.insert(name.clone(), message);
        self.answers.push(Box::pin(self.context.await_answer(name, message)));
    }

    pub(super) async fn wait_for_task(&mut self, name: &str) -> Result<(), RunError> {
        let waited = Waited::task(self.task_id(name)?.as_str(), name);
        self.wait_for_end(waited).await
    }

    pub(super) async fn wait_for_approval(&mut self, name: &str) -> Result<(), RunError> {
        let waited = Waited::approval(self.approval_id(name)?.as_str(), name);
        self.wait_for_end(waited).await
    }

    pub(super) async fn wait_for_child(&mut self, name: &str) -> Result<(), RunError> {
        let waited = Waited::procedure(self.child_id(name)?.as_str(), name);
        self.wait_for_end(waited).await
    }

    /// Waits for the end of an item. If it has ended already, its event is ready.
    async fn wait_for_end(&mut self, waited: Waited) -> Result<(), RunError> {
        self.context.changes.wait_for(waited.clone(), &self.link.sender);
        match self.context.read_ended(&waited).await? {
            Some(event) => {
                self.context.changes.forget(&waited, &self.link.sender);
                self.events.push(event);
            }
            None => drop(self.awaited.insert(waited)),
        }
        Ok(())
    }

    /// Watches memory entries. Each change is reported once; the machine continues the watch after it.
    pub(super) fn watch_entries(&mut self, id: String, prefix: &str, from: Seq) {
        let mut watch = self.context.space.watch(prefix, from);
        self.answers.push(Box::pin(async move {
            let change = watch.next().await?;
            Ok(ProcedureEvent::EntryChanged {
                watch: id,
                seq: change.seq,
                key: change.key.to_string(),
                version: change.version,
                content: change.content.map(|content| content.bytes),
            })
        }));
    }
}
