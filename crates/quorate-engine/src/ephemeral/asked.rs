//! Questions that live in memory only: asked of one agent, answered once or not at all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{AgentNo, Ask, Code, Epoch, Message, Principal, Refused, SpaceNo};
use tokio::sync::oneshot;

use crate::ephemeral::{Admitted, Ephemeral, To};
use crate::error::Error;
use crate::flagged::nobody_answers;
use crate::post::MessageRef;
use crate::request::Answer;
use crate::space::Space;

/// Lists of open questions, so that few get in each other's way.
const LISTS: usize = 16;

/// Who may answer a question, and to whom.
struct Open {
    space: SpaceNo,
    from: AgentNo,
    to: Vec<AgentNo>,
    answer: oneshot::Sender<Ephemeral>,
}

/// The questions that somebody waits with.
#[derive(Default)]
pub(crate) struct Questions([Mutex<HashMap<u64, Open>>; LISTS]);

impl Questions {
    fn list(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.0[number as usize % LISTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer, if it is one of somebody who was asked to whoever asked. Else nothing happens.
    pub(crate) fn answer(&self, question: u64, space: SpaceNo, answer: Admitted) {
        let (Some(from), To::All(to)) = (answer.from, &answer.to) else { return };
        let mut list = self.list(question);
        let fits = |open: &Open| open.space == space && open.to.contains(&from) && *to == [open.from];
        if list.get(&question).is_some_and(fits)
            && let Some(open) = list.remove(&question)
        {
            let _ = open.answer.send(answer.letter);
        }
    }
}

/// Takes a question off the list when nobody waits with it any more.
struct Waiting<'a> {
    space: &'a Space,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.space.post().questions.list(self.number).remove(&self.number);
    }
}

impl Space {
    /// Asks in memory only: at most once, no record. Of one agent, or of one who can do something and listens.
    ///
    /// # Errors
    /// `TIMEOUT` if no answer came in time; the refusal.
    pub async fn request_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        let Some(message) = self.set_message_aside(principal, message).await? else {
            return Err(nobody_answers().into());
        };
        let timeout_ms = timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let length_ms = match timeout_ms {
            Some(length_ms) => length_ms,
            None => Ask::length_by_type(&message, 1),
        };
        let admitted = self.noting(principal, self.admit_ephemeral(principal, epoch, message))?;
        let number = admitted.letter.number;
        let name = admitted.letter.message.to.to_string();
        let (waiting, answer) = self.note_question(&admitted)?;
        self.deliver_ephemeral(admitted)?;
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.pass(Duration::from_millis(length_ms)) => None,
        };
        drop(waiting);
        match answer {
            Some(Ephemeral { number, sent_at, message }) => {
                Ok(Answer { id: MessageRef::Ephemeral(number), at: sent_at, message })
            }
            None => {
                let detail = format!(
                    "no answer from {name} to {} within {length_ms} ms",
                    MessageRef::Ephemeral(number)
                );
                Err(Refused::new(Code::Timeout, detail)
                    .hint("nothing of it is kept; ask again, or ask durably")
                    .asked(MessageRef::Ephemeral(number))
                    .into())
            }
        }
    }

    fn note_question(
        &self,
        question: &Admitted,
    ) -> Result<(Waiting<'_>, oneshot::Receiver<Ephemeral>), Refused> {
        let Some(from) = question.from else {
            return Err(Refused::new(Code::Invalid, "the hub itself cannot be answered")
                .hint("ask in the name of an agent"));
        };
        let to = match &question.to {
            To::All(agents) if agents.len() == 1 => agents.clone(),
            To::One(able) => able.clone(),
            To::All(_) | To::Any(_) => {
                return Err(Refused::new(Code::Invalid, "in memory only one agent can be asked at a time")
                    .hint("ask one agent or can:CAPABILITY, or ask several durably"));
            }
        };
        let (sender, receiver) = oneshot::channel();
        let number = question.letter.number;
        let open = Open { space: self.number(), from, to, answer: sender };
        self.post().questions.list(number).insert(number, open);
        Ok((Waiting { space: self, number }, receiver))
    }
}
