//! Ephemeral requests: held in memory only, sent to one agent, answered at most once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{AgentNo, Code, Epoch, Message, Principal, Refused, SendRequest, SpaceNo};
use tokio::sync::oneshot;

use crate::ephemeral::{Admitted, EphemeralMessage, EphemeralTarget};
use crate::error::Error;
use crate::flag_screening::flag_has_no_answer;
use crate::mailboxes::MessageRef;
use crate::request::Answer;
use crate::space::Space;

/// Number of shards, to reduce lock contention.
const SHARDS: usize = 16;

/// Identifies a request: messages are numbered per space.
type RequestKey = (SpaceNo, u64);

/// Pending request: its sender, and the agents that can answer it.
struct PendingRequest {
    from: AgentNo,
    to: Vec<AgentNo>,
    answer: oneshot::Sender<EphemeralMessage>,
}

/// Pending ephemeral requests.
#[derive(Default)]
pub(crate) struct EphemeralRequests([Mutex<HashMap<RequestKey, PendingRequest>>; SHARDS]);

impl EphemeralRequests {
    fn shard(&self, (_, number): RequestKey) -> MutexGuard<'_, HashMap<RequestKey, PendingRequest>> {
        self.0[number as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts an answer if its sender is a recipient of the request and it is addressed to the requester; otherwise
    /// drops it.
    pub(crate) fn answer(&self, request: u64, space: SpaceNo, answer: Admitted) {
        let (Some(from), EphemeralTarget::All(to)) = (answer.from, &answer.to) else { return };
        let key = (space, request);
        let mut shard = self.shard(key);
        let matches = |pending: &PendingRequest| pending.to.contains(&from) && *to == [pending.from];
        if shard.get(&key).is_some_and(matches)
            && let Some(pending) = shard.remove(&key)
        {
            let _ = pending.answer.send(answer.message);
        }
    }
}

/// Removes a pending request on drop.
struct PendingGuard<'a> {
    space: &'a Space,
    number: u64,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let key = (self.space.number(), self.number);
        self.space.mailboxes().requests.shard(key).remove(&key);
    }
}

impl Space {
    /// Sends an ephemeral request: at most once, without a record. The recipient is one agent, or one connected agent
    /// with a capability.
    ///
    /// # Errors
    /// `TIMEOUT` if no answer arrived in time, or the refusal.
    pub async fn request_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        let Some(message) = self.extract_message_flag(principal, message).await? else {
            return Err(flag_has_no_answer().into());
        };
        let timeout_ms = match timeout {
            Some(timeout) => u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            None => SendRequest::default_timeout_ms(&message, 1),
        };
        let admitted = self.record_violation(principal, self.admit_ephemeral(principal, epoch, message))?;
        let number = admitted.message.number;
        let recipient = admitted.message.message.to.to_string();
        let (guard, answer) = self.register_request(&admitted)?;
        self.deliver_ephemeral(admitted)?;
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.sleep(Duration::from_millis(timeout_ms)) => None,
        };
        drop(guard);
        match answer {
            Some(EphemeralMessage { number, sent_at, message }) => {
                Ok(Answer { id: MessageRef::Ephemeral(number), at: sent_at, message })
            }
            None => {
                let detail = format!(
                    "no answer from {recipient} to {} within {timeout_ms} ms",
                    MessageRef::Ephemeral(number)
                );
                Err(Refused::new(Code::Timeout, detail)
                    .hint("ephemeral requests are not stored; retry, or send a durable request")
                    .sent_request(MessageRef::Ephemeral(number))
                    .into())
            }
        }
    }

    fn register_request(
        &self,
        request: &Admitted,
    ) -> Result<(PendingGuard<'_>, oneshot::Receiver<EphemeralMessage>), Refused> {
        let Some(from) = request.from else {
            return Err(Refused::new(Code::Invalid, "a request without a sender cannot be answered")
                .hint("send the request as an agent"));
        };
        let to = match &request.to {
            EphemeralTarget::All(agents) if agents.len() == 1 => agents.clone(),
            EphemeralTarget::One(capable) => capable.clone(),
            EphemeralTarget::All(_) | EphemeralTarget::Any(_) => {
                return Err(Refused::new(Code::Invalid, "an ephemeral request can have only one recipient")
                    .hint("send it to one agent or to can:CAPABILITY, or send a durable request"));
            }
        };
        let (sender, receiver) = oneshot::channel();
        let number = request.message.number;
        let key = (self.number(), number);
        let pending = PendingRequest { from, to, answer: sender };
        self.mailboxes().requests.shard(key).insert(key, pending);
        Ok((PendingGuard { space: self, number }, receiver))
    }
}
