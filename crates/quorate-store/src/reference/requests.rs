//! Requests: recipients, deadlines, answers and waiters.

use std::sync::Arc;

use quorate_core::{
    AgentNo, AnswerFrom, Code, ConsumerEvent, ConsumerId, Delegate, DelegatedDelivery, DeliveryId,
    DeliveryNo, EndState, Fingerprint, HolderEvent, Item, ItemKey, ItemKind, Message, MessageId, MessageType,
    OpResult, Principal, QueueId, Recipient, RecipientOutcome, Refused, ReplyState, Request, RequestEnd,
    RequestState, SendRequest, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::{DeliveryPhase, Space};
use crate::reference::transaction::Transaction;

/// Waiters of an open request, and the delivery that the requester was processing when it sent the request.
#[derive(Clone)]
pub(super) struct RequestWaiters {
    pub(super) ids: Vec<ConsumerId>,
    pub(super) within: Option<DeliveryNo>,
}

impl Space {
    /// Returns the requests that a consumer waits for.
    pub(super) fn requests_awaited_by(&self, id: ConsumerId) -> Vec<MessageId> {
        self.request_waiters
            .iter()
            .filter(|(_, waiters)| waiters.ids.contains(&id))
            .map(|(request, _)| *request)
            .collect()
    }

    pub(super) fn request(&self, id: MessageId) -> Option<Request> {
        match self.items.get(&key(id)) {
            Some(Item::Request(request)) => Some(request.clone()),
            _ => None,
        }
    }

    /// Returns the open requests, oldest first.
    pub(super) fn open_requests(&self) -> Vec<Request> {
        let all = self.items.values().filter_map(|item| match item {
            Item::Request(request) if request.is_open() => Some(request.clone()),
            _ => None,
        });
        let mut open: Vec<_> = all.collect();
        open.sort_by_key(|request| (request.id.seq, request.id.n));
        open
    }
}

/// Match of a response with the request it answers.
pub(super) struct MatchedReply {
    request: Request,
    index: usize,
    from: AgentNo,
}

fn key(id: MessageId) -> ItemKey {
    ItemKey::new(ItemKind::Request, id.to_string())
}

impl Transaction<'_> {
    pub(super) fn send_request(&mut self, send: &SendRequest) -> Result<OpResult, Refused> {
        self.check_sender(&send.message)?;
        if let Some(result) = self.prior_send(&send.message, &send.fingerprint)? {
            let OpResult::Sent { id, first, count } = result else { return Ok(result) };
            let is_open = self.add_waiter(id, send.consumer);
            return Ok(OpResult::Requested { id, first, count, is_open });
        }
        self.check_session(send.message.session_id.as_deref())?;
        self.check_repetition(send)?;
        self.check_message_format(&send.message)?;
        let recipients = self.recipients(&send.message)?;
        let recipients = self.resolve_unavailable(&send.message, recipients)?;
        self.check_inbox_capacity(send.message.from.as_ref(), &recipients)?;
        if recipients.is_empty() {
            return Err(Refused::new(Code::Unavailable, "no recipient is available"));
        }
        if recipients.len() > limits::REQUEST_RECIPIENTS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many recipients")
                .limit(limits::REQUEST_RECIPIENTS_MAX as u64));
        }
        let no_sender = || Refused::new(Code::Invalid, "a request needs a sender");
        let requester = send.message.from.as_ref().ok_or_else(no_sender)?;
        let from = self.space.agent_number(requester).ok_or_else(|| unknown_agent(requester))?;
        let open = self.space.open_requests().iter().filter(|request| request.from == from).count();
        if open >= limits::REQUESTS_OPEN_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many open requests")
                .limit(limits::REQUESTS_OPEN_MAX as u64));
        }
        let timeout_ms = self.request_timeout_ms(send, recipients.len());
        let id = MessageId { generation: self.space.generation(), seq: self.seq, n: self.messages };
        let mut message = (*send.message).clone();
        message.expires_at = Some(self.now.wall.plus_ms(timeout_ms));
        let correlation = message.correlation_id.get_or_insert_with(|| id.to_string()).clone();
        let reply_to = message.reply_to.as_ref().and_then(|agent| self.space.agent_number(agent));
        let pending = |to: &Recipient| RecipientOutcome { recipient: *to, reply: ReplyState::Pending };
        let outcomes = recipients.iter().map(pending).collect();
        let (count, first) = (recipients.len() as u32, DeliveryNo(self.space.deliveries.len() as u64 + 1));
        let low = self.charge_budget(&message)?;
        self.store_message(&Arc::new(message), send.fingerprint.written, recipients);
        let request = Request {
            id,
            from,
            reply_to,
            correlation,
            timeout_ms,
            first_delivery: first,
            recipients: outcomes,
            answer_from: send.answer_from,
            delegates: Vec::new(),
            delegated: Vec::new(),
            state: RequestState::Waiting,
        };
        self.set_item(Item::Request(request));
        self.space.request_deadlines.insert(id, self.now.mono.plus_ms(timeout_ms));
        self.add_waiter(id, send.consumer);
        let within = self.leased_cause(from, &send.message);
        if let Some(waiters) = self.space.request_waiters.get_mut(&id) {
            waiters.within = within;
        }
        if let Some(budget) = low {
            self.send_budget_warning(&budget, &send.message);
        }
        Ok(OpResult::Requested { id, first, count, is_open: true })
    }

    fn request_timeout_ms(&self, send: &SendRequest, recipients: usize) -> u64 {
        let timeout_ms = send.timeout_ms.unwrap_or(match (recipients, send.message.kind) {
            (2.., _) => 1_000,
            (_, MessageType::Query) => 5_000,
            _ => 30_000,
        });
        match send.message.expires_at {
            Some(expires_at) => timeout_ms.min(expires_at.0.saturating_sub(self.now.wall.0)),
            None => timeout_ms,
        }
    }

    /// Applies loop detection, except to the retry of a request that timed out or failed.
    fn check_repetition(&self, send: &SendRequest) -> Result<(), Refused> {
        let Some(original) = send.retry_of else { return self.check_chain(&send.message) };
        match self.own_request(original)?.state {
            RequestState::TimedOut | RequestState::Failed { .. } => send.message.check_hops(),
            _ => self.check_chain(&send.message),
        }
    }

    /// Registers a waiter. Returns whether the request is still open.
    fn add_waiter(&mut self, id: MessageId, consumer: Option<ConsumerId>) -> bool {
        let is_open = self.space.request(id).is_some_and(|request| request.is_open());
        if let (true, Some(consumer)) = (is_open, consumer) {
            self.schedule_deadlock_check();
            let new = RequestWaiters { ids: Vec::new(), within: None };
            let waiters = self.space.request_waiters.entry(id).or_insert(new);
            waiters.ids.push(consumer);
            if waiters.ids.len() > limits::REQUEST_LISTENERS_MAX {
                let oldest = waiters.ids.remove(0);
                let refused = Refused::new(Code::Conflict, "replaced by newer waiters of the same request");
                self.consumer_events.push((oldest, ConsumerEvent::Refused(refused)));
            }
        }
        is_open
    }

    /// Removes and returns all waiters of a request. The requester counts as active until now.
    pub(super) fn remove_waiters(&mut self, request: MessageId) -> Vec<ConsumerId> {
        let Some(waiters) = self.space.request_waiters.remove(&request) else { return Vec::new() };
        if let Some(request) = self.space.request(request) {
            self.record_activity(request.from);
        }
        waiters.ids
    }

    /// Removes one waiter of a request.
    pub(super) fn remove_waiter(&mut self, request: MessageId, id: ConsumerId) {
        let Some(waiters) = self.space.request_waiters.get_mut(&request) else { return };
        waiters.ids.retain(|other| *other != id);
        if waiters.ids.is_empty() {
            self.remove_waiters(request);
        }
    }

    /// Returns the leased delivery of the agent whose message caused this one.
    fn leased_cause(&self, agent: AgentNo, message: &Message) -> Option<DeliveryNo> {
        let cause: MessageId = message.causation_id.as_ref()?.parse().ok()?;
        let carries_cause = |number: &DeliveryNo| {
            let delivery = self.space.delivery(*number);
            delivery.is_some_and(|delivery| (delivery.seq, delivery.n) == (cause.seq, cause.n))
        };
        self.space.held_by(agent).into_iter().find(carries_cause)
    }

    /// Dismisses the request waiters of an agent that began a new epoch or was removed.
    pub(super) fn dismiss_request_waiters(&mut self, agent: AgentNo) {
        for request in self.space.open_requests() {
            if request.from == agent {
                let waiters = self.remove_waiters(request.id);
                self.dismissed_consumers.extend(waiters);
            }
        }
    }

    pub(super) fn await_request(&mut self, id: MessageId, consumer: ConsumerId) -> Result<OpResult, Refused> {
        let request = self.own_request(id)?;
        let is_open = self.add_waiter(id, Some(consumer));
        Ok(OpResult::Requested {
            id,
            first: request.first_delivery,
            count: request.recipients.len() as u32,
            is_open,
        })
    }

    fn own_request(&self, id: MessageId) -> Result<Request, Refused> {
        let request = self.space.request(id);
        let request = request.ok_or_else(|| Refused::new(Code::NotFound, format!("unknown request {id}")))?;
        match self.commit.principal {
            // For an agent, only its own requests exist.
            Principal::Agent(_) if self.actor != Some(request.from) => {
                Err(Refused::new(Code::NotFound, format!("unknown request {id}")))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(request),
        }
    }

    pub(super) fn cancel_request_by_id(&mut self, id: MessageId) -> Result<OpResult, Refused> {
        let request = self.own_request(id)?;
        match request.state {
            RequestState::Waiting => {
                self.cancel_request(request);
                Ok(OpResult::Done)
            }
            RequestState::Cancelled => Ok(OpResult::Done),
            _ => Err(Refused::new(Code::Conflict, "the request has ended")),
        }
    }

    /// Ends a request without a further answer and notifies its waiters.
    fn end_wait(&mut self, request: Request, state: RequestState, code: Code) {
        let id = request.id;
        let waiters = self.remove_waiters(id);
        self.set_item(Item::Request(Request { state, ..request.clone() }));
        self.space.request_deadlines.remove(&id);
        for (index, outcome) in request.recipients.iter().enumerate() {
            let number = DeliveryNo(request.first_delivery.0 + index as u64);
            let is_leased = self.space.delivery(number).is_some_and(|delivery| delivery.is_leased());
            // An agent that has answered still acks its delivery.
            if !(is_leased && matches!(outcome.reply, ReplyState::Answered { .. })) {
                self.drop_delivery(id, number, code);
            }
        }
        for delegated in &request.delegated {
            if request.recipients[delegated.index as usize].reply == ReplyState::Pending {
                self.drop_delivery(id, delegated.delivery, code);
            }
        }
        for waiter in waiters {
            self.consumer_events
                .push((waiter, ConsumerEvent::Refused(Refused::new(code, "the request was not answered"))));
        }
    }

    /// Ends an open delivery of a request that no longer needs its answer, and notifies the holder of its lease.
    fn drop_delivery(&mut self, request: MessageId, number: DeliveryNo, code: Code) {
        let Some(delivery) = self.space.delivery(number).filter(|delivery| delivery.is_open()) else {
            return;
        };
        let holder = if delivery.is_leased() { delivery.to.agent_no() } else { None };
        let end = if code == Code::Timeout { EndState::Expired } else { EndState::Purged };
        self.end_delivery(number, end, String::new());
        if let Some(holder) = holder {
            let event = HolderEvent::RequestEnded { request, delivery: number, code };
            self.holder_events.push((holder, event));
        }
    }

    /// Returns the request with which a delivery ended, and the code for its holder.
    pub(super) fn request_that_ended(&self, id: DeliveryId, number: DeliveryNo) -> Option<RequestEnd> {
        let delivery = self.space.delivery(number)?;
        let DeliveryPhase::Ended { state: EndState::Expired | EndState::Purged, .. } = delivery.phase else {
            return None;
        };
        let generation = self.space.generation_of(delivery.seq);
        let id_of_message = MessageId { generation, seq: delivery.seq, n: delivery.n };
        let (request, index) = match self.space.request(id_of_message) {
            Some(request) => {
                let index = number.0.checked_sub(request.first_delivery.0)? as usize;
                (request, index)
            }
            None => self.request_of_delegated(number)?,
        };
        let is_own = request.id == id_of_message;
        let code = match (request.recipients.get(index)?.reply, request.state) {
            (ReplyState::Answered { .. }, _) if is_own => Code::Conflict,
            (ReplyState::Pending, RequestState::Cancelled) => Code::Cancelled,
            (ReplyState::Pending, RequestState::TimedOut) => Code::Timeout,
            (ReplyState::Pending, RequestState::Failed { code, .. }) => code,
            _ => return None,
        };
        Some(RequestEnd { delivery: id, request: request.id, code })
    }

    /// Returns the request whose answer was delegated with a delivery, and the index of the recipient.
    fn request_of_delegated(&self, number: DeliveryNo) -> Option<(Request, usize)> {
        self.space.items.values().find_map(|item| match item {
            Item::Request(request) => {
                let delegated = request.delegated.iter().find(|delegated| delegated.delivery == number)?;
                Some((request.clone(), delegated.index as usize))
            }
            _ => None,
        })
    }

    pub(super) fn cancel_request(&mut self, request: Request) {
        self.end_request(
            request,
            RequestState::Cancelled,
            Refused::new(Code::Cancelled, "the request was cancelled"),
        );
    }

    /// Ends a request with this reason.
    pub(super) fn end_request(&mut self, request: Request, state: RequestState, reason: Refused) {
        let index = self.consumer_events.len();
        self.end_wait(request, state, reason.code);
        if let Some((_, ConsumerEvent::Refused(refused))) = self.consumer_events.get_mut(index) {
            *refused = reason;
        }
    }

    pub(super) fn cancel_requests_of(&mut self, agent: AgentNo) {
        for request in self.space.open_requests() {
            if request.from == agent {
                self.cancel_request(request);
            }
        }
    }

    /// Times out requests, earliest deadline first.
    pub(super) fn time_out_requests(&mut self) {
        let mut due: Vec<_> =
            self.space.request_deadlines.iter().filter(|(_, at)| **at <= self.now.mono).collect();
        due.sort_by_key(|(id, at)| (**at, id.to_string()));
        let due: Vec<MessageId> = due.into_iter().map(|(id, _)| *id).take(limits::SWEEP_MAX).collect();
        for id in due {
            let Some(request) = self.space.request(id) else { continue };
            let (outcomes, delegated) = (request.recipients.clone(), !request.delegates.is_empty());
            self.end_wait(request, RequestState::TimedOut, Code::Timeout);
            if let [RecipientOutcome { recipient: to, reply: ReplyState::Pending | ReplyState::Lost }] =
                outcomes[..]
                && !delegated
                && let QueueId::Agent(agent) = to.queue()
            {
                self.mark_unavailable(agent);
            }
        }
    }

    /// Marks the answer to a dead-lettered or purged delivery of a request as lost.
    pub(super) fn fail_request_delivery(&mut self, number: DeliveryNo) {
        let code = self.lost_request_code;
        for mut request in self.space.open_requests() {
            let index = number.0.wrapping_sub(request.first_delivery.0) as usize;
            let delegated = request.delegates.iter().any(|delegate| delegate.index as usize == index);
            if delegated
                || request.recipients.get(index).is_none_or(|outcome| outcome.reply != ReplyState::Pending)
            {
                continue;
            }
            request.recipients[index].reply = ReplyState::Lost;
            let open = request.recipients.iter().any(|outcome| outcome.reply == ReplyState::Pending);
            let answered =
                request.recipients.iter().any(|outcome| matches!(outcome.reply, ReplyState::Answered { .. }));
            match (open, answered) {
                (true, _) => self.set_item(Item::Request(request)),
                (false, true) => self.end_wait(request, RequestState::Answered, code),
                (false, false) => {
                    self.end_wait(request, RequestState::Failed { code, reason: String::new() }, code)
                }
            }
        }
    }

    /// Expects the answer to a redirected delivery of a request from its new recipient.
    pub(super) fn redirect_request_delivery(&mut self, number: DeliveryNo, to: AgentNo) {
        for mut request in self.space.open_requests() {
            let index = number.0.wrapping_sub(request.first_delivery.0) as usize;
            if let Some(outcome) = request.recipients.get_mut(index) {
                outcome.recipient = to.into();
                self.set_item(Item::Request(request));
            }
        }
    }

    /// Finds the request that a message answers: a response from a recipient of the request to its requester.
    pub(super) fn match_reply(&self, message: &Message, recipients: &[Recipient]) -> Option<MatchedReply> {
        if message.kind != MessageType::Response {
            return None;
        }
        let [to] = recipients else { return None };
        let requester = to.agent_no().filter(|_| message.to.names_agents())?;
        let from = self.space.agent_number(message.from.as_ref()?)?;
        let named = match (&message.in_reply_to, &message.correlation_id) {
            (Some(request_id), _) => self.find_message(request_id).and_then(|id| self.space.request(id)),
            (None, Some(conversation)) => self.find_by_conversation(conversation, from, requester),
            (None, None) => None,
        };
        let expects = |request: &Request| requester == request.from || Some(requester) == request.reply_to;
        let request = named.filter(expects).or_else(|| {
            let mut delegated = self.space.open_requests();
            delegated.retain(|request| {
                Some(&request.correlation) == message.correlation_id.as_ref()
                    && expects(request)
                    && request.delegates.iter().any(|to| self.space.may_take(from, to.recipient.queue()))
                    && self.has_pending_answer(request, from)
            });
            if delegated.len() == 1 { delegated.pop() } else { None }
        })?;
        let places = self.places(&request, from);
        let is_pending = |place: &&usize| request.recipients[**place].reply == ReplyState::Pending;
        let index = *places.iter().find(is_pending).or(places.first())?;
        Some(MatchedReply { request, index, from })
    }

    /// Returns the indexes of the recipients in whose place an agent may answer: its own, then delegated ones.
    fn places(&self, request: &Request, from: AgentNo) -> Vec<usize> {
        let may_take = |to: &Recipient| self.space.may_take(from, to.queue());
        let own = request.recipients.iter().zip(0..).filter(|(outcome, _)| may_take(&outcome.recipient));
        let delegated = request.delegates.iter().filter(|delegate| may_take(&delegate.recipient));
        own.map(|(_, index)| index).chain(delegated.map(|delegate| delegate.index as usize)).collect()
    }

    fn has_pending_answer(&self, request: &Request, from: AgentNo) -> bool {
        let places = self.places(request, from);
        places.iter().any(|place| request.recipients[*place].reply == ReplyState::Pending)
    }

    /// Lets the recipients of a message answer the requests of its chain that its sender may answer.
    pub(super) fn delegate_answers(&mut self, message: &Message, recipients: &[Recipient]) {
        let caused = crate::reference::message_chains::chain(message).is_some();
        let from = message.from.as_ref().and_then(|from| self.space.agent_number(from));
        let Some(from) = from.filter(|_| caused) else { return };
        for mut request in self.space.open_requests() {
            if Some(&request.correlation) != message.correlation_id.as_ref()
                || request.answer_from == AnswerFrom::Asked
            {
                continue;
            }
            let before = request.clone();
            let mut places = self.places(&request, from);
            places.retain(|place| request.recipients[*place].reply == ReplyState::Pending);
            for place in places.clone() {
                for to in recipients {
                    let delegate = Delegate { recipient: to.without_holder(), index: place as u32 };
                    let asked = request.recipients[place].recipient.queue() == to.queue();
                    let known =
                        asked || to.agent_no() == Some(request.from) || request.delegates.contains(&delegate);
                    if !known && request.delegates.len() < limits::REQUEST_DELEGATES_MAX {
                        request.delegates.push(delegate);
                    }
                }
            }
            if let (Some(place), true) = (places.first(), message.kind != MessageType::Event) {
                self.track_delegated(&mut request, *place, recipients);
            }
            if request != before {
                self.set_item(Item::Request(request));
            }
        }
    }

    /// Remembers the deliveries of the next message to agents that may answer for this recipient.
    fn track_delegated(&self, request: &mut Request, place: usize, recipients: &[Recipient]) {
        let asked = request.recipients[place].recipient.queue();
        let (next, index) = (self.space.deliveries.len() as u64 + 1, place as u32);
        let mut new = Vec::new();
        for (to, number) in recipients.iter().zip(next..) {
            let delegate = Delegate { recipient: to.without_holder(), index };
            if to.queue() == asked || request.delegates.contains(&delegate) {
                new.push(DelegatedDelivery { delivery: DeliveryNo(number), index });
            }
        }
        if !new.is_empty() {
            let is_open = |number| self.space.delivery(number).is_some_and(|delivery| delivery.is_open());
            request.delegated.retain(|earlier| is_open(earlier.delivery));
            new.truncate(limits::REQUEST_DELEGATES_MAX.saturating_sub(request.delegated.len()));
            request.delegated.extend(new);
        }
    }

    /// Finds the open request between these agents with this id, or else the only one with this correlation id.
    fn find_by_conversation(&self, conversation: &str, from: AgentNo, requester: AgentNo) -> Option<Request> {
        let mut open = self.space.open_requests();
        open.retain(|request| {
            (request.from == requester || request.reply_to == Some(requester))
                && self.has_pending_answer(request, from)
        });
        let id = self.find_message(conversation);
        if let Some(request) = open.iter().find(|request| Some(request.id) == id) {
            return Some(request.clone());
        }
        open.retain(|request| request.correlation == conversation);
        if open.len() == 1 { open.pop() } else { None }
    }

    /// Finds a message by its own id or by its client id.
    fn find_message(&self, name: &str) -> Option<MessageId> {
        name.parse().ok().or_else(|| {
            let mut messages = self.space.messages.iter();
            let has_client_id = |sent: &&crate::reference::space::LoggedMessage| {
                sent.message.client_id.as_ref().is_some_and(|id| id.as_str() == name)
            };
            let sent = messages.find(has_client_id)?;
            Some(MessageId { generation: self.space.generation_of(sent.seq), seq: sent.seq, n: sent.n })
        })
    }

    pub(super) fn accept_reply(
        &mut self,
        message: &Arc<Message>,
        fingerprint: &Fingerprint,
        MatchedReply { mut request, index, from }: MatchedReply,
    ) -> OpResult {
        let id = MessageId { generation: self.space.generation(), seq: self.seq, n: self.messages };
        let late = !request.is_open() || request.recipients[index].reply != ReplyState::Pending;
        let result = OpResult::Replied { id, late };
        self.store_message(message, fingerprint.written, Vec::new());
        if let Some(sent) = self.space.messages.last_mut() {
            sent.result = result.clone();
        }
        if late {
            return result;
        }
        let asked = request.recipients[index].recipient;
        let is_own = self.space.may_take(from, asked.queue());
        let to = if is_own { asked.held_by(from) } else { asked };
        request.recipients[index] =
            RecipientOutcome { recipient: to, reply: ReplyState::Answered { seq: id.seq, n: id.n } };
        let is_last = request.recipients.iter().all(|outcome| outcome.reply != ReplyState::Pending);
        if is_last {
            request.state = RequestState::Answered;
            self.space.request_deadlines.remove(&request.id);
        }
        let (request_id, number) = (request.id, DeliveryNo(request.first_delivery.0 + index as u64));
        self.set_item(Item::Request(request));
        for waiter in self.space.request_waiters.get(&request_id).into_iter().flat_map(|waiters| &waiters.ids)
        {
            let (at, message) = (self.now.wall, Arc::clone(message));
            self.consumer_events.push((*waiter, ConsumerEvent::Answered { id, at, message, is_last }));
        }
        if is_last {
            self.remove_waiters(request_id);
        }
        let is_own = self.space.delivery(number).is_none_or(|delivery| match delivery.phase {
            DeliveryPhase::Leased { .. } => delivery.to.agent_no() == Some(from),
            _ => delivery.to.queue() == QueueId::Agent(from),
        });
        if !is_own {
            self.drop_delivery(request_id, number, Code::Conflict);
        }
        result
    }
}
