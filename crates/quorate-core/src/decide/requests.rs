//! Requests: asking, answering, and the ways in which a wait ends without an answer.

use std::sync::Arc;

use crate::codec;
use crate::commit::{OpResult, Principal, Told};
use crate::decide::{Draft, No};
use crate::effect::{Effect, ReturnCause};
use crate::ids::{AgentNo, ClientId, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{REQUEST_ASKED_MAX, REQUEST_LISTENERS_MAX, REQUESTS_OPEN_MAX};
use crate::message::{Message, MessageType};
use crate::recipient::{Home, Recipient};
use crate::refused::{Code, Refused};
use crate::request::{Ask, Asked, Reply, Request, RequestState};
use crate::rows::LookupFailed;
use crate::working::{Listener, Open};

/// A message that answers one of the questions of a request.
pub(super) struct Answer {
    request: Request,
    index: usize,
    from: AgentNo,
}

impl Draft<'_> {
    pub(super) fn request(&mut self, ask: &Ask) -> Result<OpResult, No> {
        self.check_sender(&ask.message)?;
        if let Some(result) = self.sent_already(&ask.message, &ask.fingerprint)? {
            let OpResult::Sent { id, first, count } = result else { return Ok(result) };
            let is_open = self.wait_again(id, ask.waiting);
            return Ok(OpResult::Requested { id, first, count, is_open });
        }
        self.check_session(ask.message.session_id.as_deref())?;
        self.check_repeated(ask)?;
        self.working.policy().check_shape(&ask.message)?;
        let recipients = self.recipients(&ask.message)?;
        let recipients = self.reachable(&ask.message, recipients)?;
        self.check_room(&recipients)?;
        let from = self.check_asker(ask, recipients.len())?;
        let low = self.spend(&ask.message)?;
        let id = self.next_message_id();
        let mut message = (*ask.message).clone();
        let length_ms = self.length_of(ask, recipients.len());
        message.expires_at = Some(self.now.wall.plus_ms(length_ms));
        let correlation = message.correlation_id.get_or_insert_with(|| id.to_string()).clone();
        let asked = recipients.iter().map(|to| Asked { to: *to, reply: Reply::Open }).collect();
        let first = self.working.next_delivery();
        let count = recipients.len() as u32;
        let reply_to = message.reply_to.as_ref().and_then(|agent| self.working.agents().number(agent));
        self.post(&Arc::new(message), recipients);
        let request = Request {
            id,
            from,
            reply_to,
            correlation,
            length_ms,
            first,
            asked,
            state: RequestState::Waiting,
        };
        self.change_request(Verb::RequestMade, request);
        if let Some(waiter) = ask.waiting {
            let listener = Listener { ids: vec![waiter], within: self.cause_in_hand(from, &ask.message) };
            self.working.set_listener(id, Some(listener), self.now);
        }
        if let Some(budget) = low {
            self.warn(&budget, &ask.message);
        }
        let result = OpResult::Sent { id, first, count };
        self.remember_sent(&ask.message, &ask.fingerprint, result);
        Ok(OpResult::Requested { id, first, count, is_open: true })
    }

    /// Refuses a question that its chain has seen too often. One that was not answered may be asked again.
    fn check_repeated(&self, ask: &Ask) -> Result<(), No> {
        let Some(earlier) = ask.again else { return Ok(self.check_chain(&ask.message)?) };
        match self.own_request(earlier)?.state {
            RequestState::TimedOut | RequestState::Failed { .. } => Ok(ask.message.check_hops()?),
            RequestState::Waiting | RequestState::Answered | RequestState::Cancelled => {
                Ok(self.check_chain(&ask.message)?)
            }
        }
    }

    /// The delivery in an agent's hands that brought the message that caused this one.
    fn cause_in_hand(&self, agent: AgentNo, message: &Message) -> Option<DeliveryNo> {
        let cause: MessageId = message.causation_id.as_ref()?.parse().ok()?;
        let leased = self.working.inbox(agent).leased.iter().copied();
        let brings = |number: &DeliveryNo| {
            self.working.open(*number).is_some_and(|open| (open.seq, open.n()) == (cause.seq, cause.n))
        };
        leased.into_iter().find(brings)
    }

    pub(super) fn change_request(&mut self, verb: Verb, request: Request) {
        self.change(verb, Item::Request(request));
    }

    /// Those who wait for the answers to a request wait no longer.
    fn take_listener(&mut self, id: MessageId) -> Vec<ConsumerId> {
        let waiters = self.listening(id);
        if !waiters.is_empty() {
            self.working.set_listener(id, None, self.now);
        }
        waiters
    }

    /// Those who wait for the answers to a request.
    fn listening(&self, id: MessageId) -> Vec<ConsumerId> {
        self.working.items().requests.listener(id).map_or_else(Vec::new, |listener| listener.ids.clone())
    }

    /// One of them waits no longer.
    pub(super) fn hang_up(&mut self, id: MessageId, waiter: ConsumerId) {
        let Some(mut listener) = self.working.items().requests.listener(id).cloned() else { return };
        listener.ids.retain(|other| *other != waiter);
        let left = Some(listener).filter(|listener| !listener.ids.is_empty());
        self.working.set_listener(id, left, self.now);
    }

    fn tell_all(&mut self, waiters: Vec<ConsumerId>, told: &Told) {
        self.told.extend(waiters.into_iter().map(|waiter| (waiter, told.clone())));
    }

    /// Who asks, if they may ask this many.
    fn check_asker(&self, ask: &Ask, recipients: usize) -> Result<AgentNo, Refused> {
        if recipients == 0 {
            return Err(Refused::new(Code::Unavailable, "there is nobody to ask")
                .hint("nobody takes what is sent there now; nothing was sent"));
        }
        if recipients > REQUEST_ASKED_MAX {
            return Err(Refused::new(Code::LimitExceeded, format!("the request asks {recipients} agents"))
                .limit(REQUEST_ASKED_MAX as u64)
                .hint("ask fewer at once, or send it as an event and let them answer by messages"));
        }
        let nobody = || Refused::new(Code::Invalid, "the hub itself cannot be answered");
        let from = self.known(ask.message.from.as_ref().ok_or_else(nobody)?)?;
        if self.working.items().requests.count_of(from) >= REQUESTS_OPEN_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("agent {} waits for too many answers", self.name(from)),
            )
            .limit(REQUESTS_OPEN_MAX as u64)
            .passes()
            .hint("wait for some of them, or cancel some"));
        }
        Ok(from)
    }

    /// How long the wait is: not longer than the question itself is wanted.
    fn length_of(&self, ask: &Ask, recipients: usize) -> u64 {
        let length_ms = ask.length_ms(recipients);
        let wanted = ask.message.expires_at.map_or(u64::MAX, |at| at.0.saturating_sub(self.now.wall.0));
        length_ms.min(wanted)
    }

    /// The same question again: whoever asks waits on the request that there is, beside those who do already. Says whether it
    /// is open.
    fn wait_again(&mut self, id: MessageId, waiting: Option<ConsumerId>) -> bool {
        let requests = &self.working.items().requests;
        let is_open = requests.of_message(id.seq, id.n).is_some();
        if let (true, Some(waiter)) = (is_open, waiting) {
            let before = requests.listener(id).cloned();
            let mut listener = before.unwrap_or(Listener { ids: Vec::new(), within: None });
            listener.ids.push(waiter);
            if listener.ids.len() > REQUEST_LISTENERS_MAX {
                let oldest = listener.ids.remove(0);
                self.told.push((oldest, Told::Refused(crowded_out(id))));
            }
            self.working.set_listener(id, Some(listener), self.now);
        }
        is_open
    }

    pub(super) fn await_request(&mut self, id: MessageId, waiting: ConsumerId) -> Result<OpResult, No> {
        let request = self.own_request(id)?;
        let (first, count) = (request.first, request.asked.len() as u32);
        let is_open = self.wait_again(id, Some(waiting));
        Ok(OpResult::Requested { id, first, count, is_open })
    }

    pub(super) fn cancel_request(&mut self, id: MessageId) -> Result<OpResult, No> {
        let request = self.own_request(id)?;
        match &request.state {
            RequestState::Waiting => self.withdraw(request),
            // Said once or twice, it is the same.
            RequestState::Cancelled => {}
            over => {
                let refused =
                    Refused::new(Code::Conflict, format!("request {id} is over: {}", over.as_str()))
                        .hint("read its result");
                return Err(refused.into());
            }
        }
        Ok(OpResult::Done)
    }

    /// A request of whoever acts.
    fn own_request(&self, id: MessageId) -> Result<Request, No> {
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no request {id}"))
                .hint("a message that nobody waits for is not a request; look at it with `why`")
        };
        let key = ItemKey::new(ItemKind::Request, id.to_string());
        let Some(Item::Request(request)) = self.item(&key)? else { return Err(missing().into()) };
        if let Principal::Agent(actor) = &self.commit.principal
            && self.actor != Some(request.from)
        {
            return Err(Refused::new(Code::Forbidden, format!("agent {actor} did not make request {id}"))
                .hint("only whoever asked may wait for the answer or cancel it")
                .into());
        }
        Ok(request)
    }

    fn withdraw(&mut self, request: Request) {
        let id = request.id;
        self.call_back(Verb::RequestCancelled, request, RequestState::Cancelled, || {
            Refused::new(Code::Cancelled, format!("request {id} was cancelled"))
        });
    }

    /// They wait for each other: whoever asked is told, and what nobody took yet is withdrawn.
    pub(super) fn fail_stuck(&mut self, request: Request, refused: Refused) {
        let state = RequestState::Failed { code: refused.code, reason: refused.detail.clone() };
        self.call_back(Verb::RequestFailed, request, state, || refused);
    }

    /// Nobody wants the answer any more: what nobody took yet is withdrawn.
    fn call_back(
        &mut self,
        verb: Verb,
        request: Request,
        state: RequestState,
        why: impl FnOnce() -> Refused,
    ) {
        let waiting = self.untaken(&request);
        self.end_request(verb, request, state, why);
        for delivery in waiting {
            self.purge_one(delivery);
        }
    }

    /// An agent was started again, or is gone: this start of it hears no answers any more.
    pub(super) fn dismiss_listeners(&mut self, agent: AgentNo) {
        let open: Vec<_> = self.working.items().requests.of_asker(agent).map(|request| request.id).collect();
        for id in open {
            let listener = self.take_listener(id);
            self.dismissed.extend(listener);
        }
    }

    /// An agent is removed: nobody is left who could hear the answers.
    pub(super) fn cancel_requests_of(&mut self, agent: AgentNo) {
        let open: Vec<_> = self.working.items().requests.of_asker(agent).cloned().collect();
        open.into_iter().for_each(|request| self.withdraw(request));
    }

    /// The time for answers is over. Whoever was asked alone and said nothing is away until its next sign of life.
    pub(super) fn time_out(&mut self, key: &ItemKey) {
        let Some(Item::Request(request)) = self.working.items().get(key) else { return };
        for delivery in self.untaken(&request) {
            self.expire(delivery);
        }
        let silent: Vec<_> = request.missing().collect();
        let names: Vec<_> = silent.iter().map(|to| self.recipient_name(*to)).collect();
        let (id, length_ms, alone) = (request.id, request.length_ms, request.asked.len() == 1);
        self.end_request(Verb::RequestTimedOut, request, RequestState::TimedOut, || {
            let names = names.join(", ");
            Refused::new(Code::Timeout, format!("no answer from {names} to {id} within {length_ms} ms"))
                .hint("it may still be worked on; ask `why` where it is, or ask again with more time")
        });
        if let (true, [to]) = (alone, &silent[..])
            && let Home::Agent(agent) = to.home()
        {
            self.mark_unavailable(agent);
        }
    }

    /// Deliveries of a question that wait to be taken.
    fn untaken(&self, request: &Request) -> Vec<DeliveryNo> {
        let numbers = (request.first.0..).map(DeliveryNo).take(request.asked.len());
        let waits = |number: &DeliveryNo| self.working.open(*number).is_some_and(|one| one.token().is_none());
        numbers.filter(waits).collect()
    }

    /// Ends the wait without a further answer and tells whoever waits why.
    pub(super) fn end_request(
        &mut self,
        verb: Verb,
        request: Request,
        state: RequestState,
        why: impl FnOnce() -> Refused,
    ) {
        let waiters = self.take_listener(request.id);
        self.change_request(verb, Request { state, ..request });
        self.tell_all(waiters, &Told::Refused(why()));
    }

    /// A delivery was given up or withdrawn: if it was a question, its answer cannot come any more.
    pub(super) fn lose_question(&mut self, delivery: DeliveryNo, open: &Open) {
        let request = self.working.items().requests.of_message(open.seq, open.n());
        let Some(request) = request.cloned() else { return };
        let Some(index) = request.index_of(delivery) else { return };
        if request.asked[index].reply != Reply::Open {
            return;
        }
        let name = self.recipient_name(request.asked[index].to);
        // The effect that ended it is the last one.
        let (code, reason) = match self.effects.last() {
            Some(Effect::Returned { cause: ReturnCause::Offline, .. }) => {
                (Code::Unavailable, format!("{name} is offline"))
            }
            Some(Effect::Returned { reason, .. }) if !reason.is_empty() => {
                (Code::Cancelled, format!("{name} gave it up: {reason}"))
            }
            Some(Effect::Barred { .. }) => {
                (Code::PolicyViolation, format!("the policy bars it from {name} since"))
            }
            Some(Effect::Returned { .. }) => (Code::Cancelled, format!("{name} gave it up")),
            _ => (Code::Cancelled, "it was taken out of the inbox".to_owned()),
        };
        let request = request.with(index, Reply::Lost);
        match &request.state {
            // Others may still answer.
            RequestState::Waiting if request.asked.iter().any(|one| one.reply == Reply::Open) => {
                self.change_request(Verb::RequestFailed, request);
            }
            RequestState::Waiting => self.fail_request(request, code, reason),
            _ => {
                let id = request.id;
                let waiters = self.take_listener(id);
                self.change_request(Verb::RequestFailed, request);
                let refused = Refused::new(code, format!("the last answer to {id} cannot come: {reason}"));
                self.tell_all(waiters, &Told::Refused(refused));
            }
        }
    }

    /// No answer can come, or the wait is ended by force.
    pub(super) fn fail_request(&mut self, request: Request, code: Code, reason: String) {
        let id = request.id;
        let detail = format!("request {id} has no answer: {reason}");
        let state = RequestState::Failed { code, reason };
        self.end_request(Verb::RequestFailed, request, state, || {
            Refused::new(code, detail).hint("ask `why` what became of it")
        });
    }

    /// Whether a message answers a request: one of those who were asked says so, to whoever asked.
    pub(super) fn answer_of(
        &self,
        message: &Message,
        recipients: &[Recipient],
    ) -> Result<Option<Answer>, No> {
        // Whoever waits is one agent, and named.
        let (MessageType::Response, [to], true) = (message.kind, recipients, message.to.is_by_name()) else {
            return Ok(None);
        };
        let from = message.from.as_ref().and_then(|from| self.working.agents().number(from));
        let (Some(from), Some(asker)) = (from, to.agent_no()) else { return Ok(None) };
        let request = match (&message.in_reply_to, &message.correlation_id) {
            (Some(question), _) => self.request_named(question)?,
            (None, Some(conversation)) => self.request_meant(conversation, from, asker)?,
            (None, None) => None,
        };
        let Some(request) = request.filter(|request| request.is_answered_to(asker)) else { return Ok(None) };
        let index = request.asked.iter().position(|one| self.may_answer(from, one.to));
        Ok(index.map(|index| Answer { request, index, from }))
    }

    /// The request that a response means which names only the conversation: the question with this id, else the one of this
    /// conversation that its sender has yet to answer. Which of several is not guessed: then it is a message like any other,
    /// and so it is once nobody waits.
    fn request_meant(
        &self,
        conversation: &str,
        from: AgentNo,
        asker: AgentNo,
    ) -> Result<Option<Request>, No> {
        let requests = &self.working.items().requests;
        if requests.is_empty() {
            return Ok(None);
        }
        let is_meant = |request: &&Request| {
            let open = request.asked.iter().filter(|one| one.reply == Reply::Open);
            request.is_answered_to(asker) && { open }.any(|one| self.may_answer(from, one.to))
        };
        let named = self.message_named(conversation)?;
        let named = named.and_then(|id| requests.of_message(id.seq, id.n).filter(|found| found.id == id));
        if let Some(request) = named.filter(is_meant) {
            return Ok(Some(request.clone()));
        }
        let mut meant = requests.of_correlation(conversation).filter(is_meant);
        Ok(meant.next().filter(|_| meant.next().is_none()).cloned())
    }

    /// Whether an agent was asked: itself, or as one of those who may take from the pool that was asked.
    fn may_answer(&self, agent: AgentNo, asked: Recipient) -> bool {
        match asked.home() {
            Home::Agent(one) => one == agent,
            Home::Pool(pool) => self.working.inbox(agent).pools().contains(&pool),
        }
    }

    /// What people know somebody by who was asked.
    pub(super) fn recipient_name(&self, to: Recipient) -> String {
        match (to.agent_no(), to.home()) {
            (Some(agent), _) | (None, Home::Agent(agent)) => self.name(agent),
            (None, Home::Pool(pool)) => {
                let capability = self.working.pools().get(pool).map_or("", |pool| pool.capability.as_str());
                format!("can:{capability}")
            }
        }
    }

    /// The request that a question made, by its id or by the id that its client gave it.
    fn request_named(&self, question: &str) -> Result<Option<Request>, No> {
        let Some(id) = self.message_named(question)? else { return Ok(None) };
        match self.item(&ItemKey::new(ItemKind::Request, id.to_string()))? {
            Some(Item::Request(request)) => Ok(Some(request)),
            _ => Ok(None),
        }
    }

    /// The message with this id, the hub's or its client's.
    fn message_named(&self, name: &str) -> Result<Option<MessageId>, No> {
        if let Ok(id) = name.parse::<MessageId>() {
            return Ok(Some(id));
        }
        let Ok(client_id) = ClientId::new(name) else { return Ok(None) };
        let place = self.place_of(&client_id)?;
        Ok(place.map(|(seq, n)| self.working.eras().message_id(seq, n)))
    }

    fn place_of(&self, id: &ClientId) -> Result<Option<(Seq, u32)>, No> {
        if let Some((_, OpResult::Sent { id, .. })) = self.sent_here.get(id) {
            return Ok(Some((id.seq, id.n)));
        }
        Ok(self.rows.sent_before(id)?.map(|before| (before.seq, before.n)))
    }

    /// Takes an answer: into the record, and to whoever waits. Into no inbox: it is nobody's work.
    pub(super) fn take_answer(&mut self, message: &Arc<Message>, answer: Answer) -> OpResult {
        let Answer { mut request, index, from } = answer;
        let id = self.next_message_id();
        self.post(message, Vec::new());
        let late = !request.is_open() || request.asked[index].reply != Reply::Open;
        if !late {
            request.asked[index].to = request.asked[index].to.held_by(from);
            let request = request.with(index, Reply::Answered { seq: id.seq, n: id.n });
            let is_last = !request.is_open();
            let waiters = match is_last {
                true => self.take_listener(request.id),
                false => self.listening(request.id),
            };
            self.change_request(Verb::RequestAnswered, request);
            let (at, message) = (self.now.wall, Arc::clone(message));
            self.tell_all(waiters, &Told::Answered { id, at, message, is_last });
        }
        OpResult::Replied { id, late }
    }

    /// How a message was answered that was sent before and went into no inbox: it replied to a request.
    pub(super) fn replied_before(&self, message: &Message, id: MessageId) -> Result<Option<OpResult>, No> {
        if message.kind != MessageType::Response || !message.to.is_by_name() {
            return Ok(None);
        }
        let is_it = |request: &Request| request.answers().any(|(seq, n)| (seq, n) == (id.seq, id.n));
        if let Some(question) = &message.in_reply_to {
            let request = self.request_named(question)?;
            return Ok(request.map(|request| OpResult::Replied { id, late: !is_it(&request) }));
        }
        // Which question it meant is in its record: the conversation may have gone on since.
        let body = self.rows.record(id.seq)?.as_ref().map(codec::read_body).transpose();
        let body = body.map_err(|source| LookupFailed { what: "an answer", source: Box::new(source) })?;
        let replied = body.into_iter().flat_map(|body| body.effects).any(|effect| match effect {
            Effect::Changed { item: Item::Request(request), .. } => is_it(&request),
            _ => false,
        });
        Ok(replied.then_some(OpResult::Replied { id, late: false }))
    }
}

/// What the oldest of too many is told who wait for the same answer.
fn crowded_out(id: MessageId) -> Refused {
    Refused::new(Code::Conflict, format!("{REQUEST_LISTENERS_MAX} others wait for the answer to {id} since"))
        .limit(REQUEST_LISTENERS_MAX as u64)
        .hint("ask again under the same id or key: it is the same question, and waits for the same answer")
}
