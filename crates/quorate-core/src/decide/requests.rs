//! Request/reply: sending requests, matching replies, and requests that end without a reply.

use std::sync::Arc;

use crate::codec;
use crate::commit::{ConsumerEvent, HolderEvent, OpResult};
use crate::decide::{DecideError, Draft};
use crate::effect::{Effect, ReturnCause};
use crate::ids::{AgentNo, ClientId, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{REQUEST_LISTENERS_MAX, REQUEST_RECIPIENTS_MAX, REQUESTS_OPEN_MAX};
use crate::lookup::LookupError;
use crate::message::{Message, MessageType};
use crate::recipient::{QueueId, Recipient};
use crate::refused::{Code, Refused, RequestEnd};
use crate::request::{RecipientOutcome, ReplyState, Request, RequestState, SendRequest};
use crate::working::{OpenDelivery, ReplyListeners};

/// A message that was matched to a request as the reply of one recipient.
pub(super) struct MatchedReply {
    request: Request,
    index: usize,
    from: AgentNo,
}

impl Draft<'_> {
    pub(super) fn request(&mut self, send: &SendRequest) -> Result<OpResult, DecideError> {
        self.check_sender(&send.message)?;
        if let Some(result) = self.prior_send_result(&send.message, &send.fingerprint)? {
            let OpResult::Sent { id, first, count } = result else { return Ok(result) };
            let is_open = self.add_listener(id, send.consumer);
            return Ok(OpResult::Requested { id, first, count, is_open });
        }
        self.check_session(send.message.session_id.as_deref())?;
        self.check_loop(send)?;
        self.working.policy().check_required_fields(&send.message)?;
        let recipients = self.recipients(&send.message)?;
        let recipients = self.resolve_unavailable(&send.message, recipients)?;
        self.check_inbox_capacity(send.message.from.as_ref(), &recipients)?;
        let from = self.check_requester(send, recipients.len())?;
        let low_budget = self.charge_budget(&send.message)?;
        let id = self.next_message_id();
        let mut message = (*send.message).clone();
        let timeout_ms = self.timeout_of(send, recipients.len());
        message.expires_at = Some(self.now.wall.plus_ms(timeout_ms));
        let correlation = message.correlation_id.get_or_insert_with(|| id.to_string()).clone();
        let outcomes = recipients
            .iter()
            .map(|to| RecipientOutcome { recipient: *to, reply: ReplyState::Pending })
            .collect();
        let first = self.working.next_delivery();
        let count = recipients.len() as u32;
        let reply_to = message.reply_to.as_ref().and_then(|agent| self.working.agents().number(agent));
        self.emit_message(&Arc::new(message), recipients);
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
        self.change_request(Verb::RequestMade, request);
        if let Some(waiter) = send.consumer {
            let listener =
                ReplyListeners { ids: vec![waiter], within: self.causing_delivery(from, &send.message) };
            self.working.set_listener(id, Some(listener), self.now);
        }
        if let Some(budget) = low_budget {
            self.send_budget_warning(&budget, &send.message);
        }
        let result = OpResult::Sent { id, first, count };
        self.remember_sent(&send.message, &send.fingerprint, result);
        Ok(OpResult::Requested { id, first, count, is_open: true })
    }

    /// Checks the message for loops. A request that timed out or failed may be repeated within the hop limit.
    fn check_loop(&self, send: &SendRequest) -> Result<(), DecideError> {
        let Some(earlier) = send.retry_of else { return Ok(self.check_chain(&send.message)?) };
        match self.own_request(earlier)?.state {
            RequestState::TimedOut | RequestState::Failed { .. } => Ok(send.message.check_hops()?),
            RequestState::Waiting | RequestState::Answered | RequestState::Cancelled => {
                Ok(self.check_chain(&send.message)?)
            }
        }
    }

    /// Returns the delivery leased to an agent whose message caused this one.
    fn causing_delivery(&self, agent: AgentNo, message: &Message) -> Option<DeliveryNo> {
        let cause: MessageId = message.causation_id.as_ref()?.parse().ok()?;
        let leased = self.working.inbox(agent).leased.iter().copied();
        let carries_cause = |number: &DeliveryNo| {
            self.working.open(*number).is_some_and(|open| (open.seq, open.n()) == (cause.seq, cause.n))
        };
        leased.into_iter().find(carries_cause)
    }

    pub(super) fn change_request(&mut self, verb: Verb, request: Request) {
        self.change_item(verb, Item::Request(request));
    }

    /// Removes and returns all listeners of a request.
    fn take_listeners(&mut self, id: MessageId) -> Vec<ConsumerId> {
        let waiters = self.listeners_of(id);
        if !waiters.is_empty() {
            self.working.set_listener(id, None, self.now);
        }
        waiters
    }

    /// Returns the listeners of a request.
    fn listeners_of(&self, id: MessageId) -> Vec<ConsumerId> {
        self.working.items().requests.listener(id).map_or_else(Vec::new, |listener| listener.ids.clone())
    }

    /// Removes one listener of a request.
    pub(super) fn remove_listener(&mut self, id: MessageId, waiter: ConsumerId) {
        let Some(mut listener) = self.working.items().requests.listener(id).cloned() else { return };
        listener.ids.retain(|other| *other != waiter);
        let left = Some(listener).filter(|listener| !listener.ids.is_empty());
        self.working.set_listener(id, left, self.now);
    }

    fn notify_all(&mut self, waiters: Vec<ConsumerId>, event: &ConsumerEvent) {
        self.consumer_events.extend(waiters.into_iter().map(|waiter| (waiter, event.clone())));
    }

    /// Returns the requesting agent, if it may send another request to this many recipients.
    fn check_requester(&self, send: &SendRequest, recipients: usize) -> Result<AgentNo, Refused> {
        if recipients == 0 {
            return Err(Refused::new(Code::Unavailable, "the request has no recipient")
                .hint("no agent receives messages for this destination; nothing was sent"));
        }
        if recipients > REQUEST_RECIPIENTS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the request has {recipients} recipients"),
            )
            .limit(REQUEST_RECIPIENTS_MAX as u64)
            .hint("send it to fewer recipients, or send an event and let them answer with messages"));
        }
        let no_sender =
            || Refused::new(Code::Invalid, "a request needs a sender: the hub itself cannot receive replies");
        let from = self.require_agent(send.message.from.as_ref().ok_or_else(no_sender)?)?;
        if self.working.items().requests.count_of(from) >= REQUESTS_OPEN_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("agent {} has too many open requests", self.agent_id(from)),
            )
            .limit(REQUESTS_OPEN_MAX as u64)
            .retryable()
            .hint("wait for replies, or cancel some requests"));
        }
        Ok(from)
    }

    /// Returns the timeout of a request, limited by the expiry of its message.
    fn timeout_of(&self, send: &SendRequest, recipients: usize) -> u64 {
        let timeout_ms = send.effective_timeout_ms(recipients);
        let remaining_ms =
            send.message.expires_at.map_or(u64::MAX, |at| at.0.saturating_sub(self.now.wall.0));
        timeout_ms.min(remaining_ms)
    }

    /// Adds a listener to an existing request, alongside earlier ones. Returns whether the request is open.
    fn add_listener(&mut self, id: MessageId, consumer: Option<ConsumerId>) -> bool {
        let requests = &self.working.items().requests;
        let is_open = requests.of_message(id.seq, id.n).is_some();
        if let (true, Some(waiter)) = (is_open, consumer) {
            let before = requests.listener(id).cloned();
            let mut listener = before.unwrap_or(ReplyListeners { ids: Vec::new(), within: None });
            listener.ids.push(waiter);
            if listener.ids.len() > REQUEST_LISTENERS_MAX {
                let oldest = listener.ids.remove(0);
                self.consumer_events.push((oldest, ConsumerEvent::Refused(too_many_listeners(id))));
            }
            self.working.set_listener(id, Some(listener), self.now);
        }
        is_open
    }

    pub(super) fn await_request(
        &mut self,
        id: MessageId,
        consumer: ConsumerId,
    ) -> Result<OpResult, DecideError> {
        let request = self.own_request(id)?;
        let (first, count) = (request.first_delivery, request.recipients.len() as u32);
        let is_open = self.add_listener(id, Some(consumer));
        Ok(OpResult::Requested { id, first, count, is_open })
    }

    pub(super) fn cancel_request(&mut self, id: MessageId) -> Result<OpResult, DecideError> {
        let request = self.own_request(id)?;
        match &request.state {
            RequestState::Waiting => self.withdraw(request),
            // Cancelling is idempotent.
            RequestState::Cancelled => {}
            ended => {
                let refused = Refused::new(
                    Code::Conflict,
                    format!("request {id} has already ended: {}", ended.as_str()),
                )
                .hint("read its result instead");
                return Err(refused.into());
            }
        }
        Ok(OpResult::Done)
    }

    /// Returns a request, if it belongs to the acting agent; that of another agent does not exist for it. Other principals
    /// may access every request.
    fn own_request(&self, id: MessageId) -> Result<Request, DecideError> {
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no request {id}"))
                .hint("a message without a requester is not a request; inspect it with `why`")
        };
        let key = ItemKey::new(ItemKind::Request, id.to_string());
        match self.item(&key)? {
            Some(Item::Request(request)) if self.actor.is_none_or(|actor| actor == request.from) => {
                Ok(request)
            }
            _ => Err(missing().into()),
        }
    }

    pub(super) fn withdraw(&mut self, request: Request) {
        let id = request.id;
        self.end_request(Verb::RequestCancelled, request, RequestState::Cancelled, || {
            Refused::new(Code::Cancelled, format!("request {id} was cancelled"))
        });
    }

    /// Fails a request to break a deadlock.
    pub(super) fn fail_deadlocked(&mut self, request: Request, refused: Refused) {
        let state = RequestState::Failed { code: refused.code, reason: refused.detail.clone() };
        self.end_request(Verb::RequestFailed, request, state, || refused);
    }

    /// Dismisses all reply listeners of an agent, because it registered again or was removed.
    pub(super) fn dismiss_listeners(&mut self, agent: AgentNo) {
        let open: Vec<_> =
            self.working.items().requests.of_requester(agent).map(|request| request.id).collect();
        for id in open {
            let listener = self.take_listeners(id);
            self.dismissed_consumers.extend(listener);
        }
    }

    /// Cancels all open requests of an agent that is being removed.
    pub(super) fn cancel_requests_of(&mut self, agent: AgentNo) {
        let open: Vec<_> = self.working.items().requests.of_requester(agent).cloned().collect();
        open.into_iter().for_each(|request| self.withdraw(request));
    }

    /// Times out a request. A sole recipient that did not reply is marked as unavailable until its next activity.
    pub(super) fn time_out_request(&mut self, key: &ItemKey) {
        let Some(Item::Request(request)) = self.working.items().get(key) else { return };
        let unanswered: Vec<_> = request.missing().collect();
        let names: Vec<_> = unanswered.iter().map(|to| self.recipient_name(*to)).collect();
        let (id, timeout_ms) = (request.id, request.timeout_ms);
        // A recipient that delegated its answer has responded.
        let is_sole = request.recipients.len() == 1 && request.delegates.is_empty();
        self.end_request(Verb::RequestTimedOut, request, RequestState::TimedOut, || {
            let names = names.join(", ");
            Refused::new(Code::Timeout, format!("no answer from {names} to {id} within {timeout_ms} ms"))
                .hint("the recipient may still work on it: check with `why`, or retry with a longer timeout")
        });
        if let (true, [to]) = (is_sole, &unanswered[..])
            && let QueueId::Agent(agent) = to.queue()
        {
            self.mark_unavailable(agent);
        }
    }

    /// Ends a request without a further reply: notifies its listeners, and ends its deliveries.
    pub(super) fn end_request(
        &mut self,
        verb: Verb,
        request: Request,
        state: RequestState,
        refusal: impl FnOnce() -> Refused,
    ) {
        let waiters = self.take_listeners(request.id);
        let refused = refusal();
        let (id, unneeded) = (request.id, self.unneeded_deliveries(&request));
        self.change_request(verb, Request { state, ..request });
        for delivery in unneeded {
            self.end_unneeded(id, delivery, refused.code);
        }
        self.notify_all(waiters, &ConsumerEvent::Refused(refused));
    }

    /// Returns the deliveries to end with a request: its open ones, and those with which an outstanding answer was delegated.
    /// An agent that has answered keeps its lease until it acks.
    fn unneeded_deliveries(&self, request: &Request) -> Vec<DeliveryNo> {
        let deliveries = (request.first_delivery.0..).map(DeliveryNo).zip(&request.recipients);
        let is_unneeded = |(number, outcome): &(DeliveryNo, &RecipientOutcome)| {
            let has_answered = matches!(outcome.reply, ReplyState::Answered { .. });
            self.working.open(*number).is_some_and(|open| open.token().is_none() || !has_answered)
        };
        let own = deliveries.filter(is_unneeded).map(|(number, _)| number);
        own.chain(request.outstanding_delegated()).collect()
    }

    /// Ends a delivery of a request whose answer is not needed any more, and notifies its holder, if it is leased. The
    /// request is changed before, so that it does not fail with the delivery.
    fn end_unneeded(&mut self, request: MessageId, delivery: DeliveryNo, code: Code) {
        let Some(open) = self.working.open(delivery).copied() else { return };
        match code {
            // The message expires together with the request.
            Code::Timeout => self.expire_delivery(delivery),
            _ => self.purge_delivery(delivery),
        }
        if let (Some(_), Some(holder)) = (open.token(), open.to.agent_no()) {
            self.holder_events.push((holder, HolderEvent::RequestEnded { request, delivery, code }));
        }
    }

    /// Returns the request whose end ended a delivery: it ended without an answer of the recipient, or another agent
    /// answered it. The delivery is of the request, or of a message with which its answer was delegated.
    pub(super) fn request_that_ended(
        &self,
        delivery: DeliveryNo,
        message: (Seq, u32),
        ended_by: Option<Seq>,
    ) -> Result<Option<RequestEnd>, DecideError> {
        let id = self.working.generations().message_id(message.0, message.1);
        let key = ItemKey::new(ItemKind::Request, id.to_string());
        let end = match self.item(&key)? {
            Some(Item::Request(request)) => request.end_of(delivery).map(|code| (id, code)),
            _ => self.request_that_ended_delegated(delivery, ended_by)?,
        };
        let delivery = self.working.generations().delivery_id(delivery);
        Ok(end.map(|(request, code)| RequestEnd { delivery, request, code }))
    }

    /// Returns the request that ended a delegated delivery in this record, or in this commit.
    fn request_that_ended_delegated(
        &self,
        delivery: DeliveryNo,
        ended_by: Option<Seq>,
    ) -> Result<Option<(MessageId, Code)>, DecideError> {
        let end_in = |effects: &[Effect]| {
            effects.iter().find_map(|effect| match effect {
                Effect::Changed { item: Item::Request(request), .. } => {
                    request.end_of_delegated(delivery).map(|code| (request.id, code))
                }
                _ => None,
            })
        };
        let Some(seq) = ended_by else { return Ok(end_in(&self.effects)) };
        Ok(self.effects_of(seq)?.and_then(|effects| end_in(&effects)))
    }

    fn effects_of(&self, seq: Seq) -> Result<Option<Vec<Effect>>, DecideError> {
        let body = self.lookup.record(seq)?.as_ref().map(codec::read_body).transpose();
        let body = body.map_err(|source| LookupError { subject: "a record", source: Box::new(source) })?;
        Ok(body.map(|body| body.effects))
    }

    /// Handles a dead-lettered or purged delivery of a request: its recipient can no longer reply.
    pub(super) fn lose_reply(&mut self, delivery: DeliveryNo, open: &OpenDelivery) {
        let request = self.working.items().requests.of_message(open.seq, open.n());
        let Some(request) = request.cloned() else { return };
        let Some(index) = request.index_of(delivery) else { return };
        // A delegate may still answer.
        if request.recipients[index].reply != ReplyState::Pending
            || request.delegates_of(index).next().is_some()
        {
            return;
        }
        let name = self.recipient_name(request.recipients[index].recipient);
        // The last effect is the one that ended the delivery.
        let (code, reason) = match self.effects.last() {
            Some(Effect::Returned { cause: ReturnCause::Offline, .. }) => {
                (Code::Unavailable, format!("{name} is offline"))
            }
            Some(Effect::Returned { reason, .. }) if !reason.is_empty() => {
                (Code::Cancelled, format!("{name} gave it up: {reason}"))
            }
            Some(Effect::DeniedByPolicy { .. }) => {
                (Code::PolicyViolation, format!("the policy no longer allows delivery to {name}"))
            }
            Some(Effect::Returned { .. }) => (Code::Cancelled, format!("{name} gave it up")),
            _ => (Code::Cancelled, "it was taken out of the inbox".to_owned()),
        };
        let request = request.with_reply(index, ReplyState::Lost);
        match &request.state {
            // Other recipients may still reply.
            RequestState::Waiting
                if request.recipients.iter().any(|outcome| outcome.reply == ReplyState::Pending) =>
            {
                self.change_request(Verb::RequestFailed, request);
            }
            RequestState::Waiting => self.fail_request(request, code, reason),
            _ => {
                let id = request.id;
                let waiters = self.take_listeners(id);
                self.change_request(Verb::RequestFailed, request);
                let refused = Refused::new(code, format!("the last reply to {id} cannot arrive: {reason}"));
                self.notify_all(waiters, &ConsumerEvent::Refused(refused));
            }
        }
    }

    /// Fails a request to which no reply can arrive.
    pub(super) fn fail_request(&mut self, request: Request, code: Code, reason: String) {
        let id = request.id;
        let detail = format!("request {id} has no answer: {reason}");
        let state = RequestState::Failed { code, reason };
        self.end_request(Verb::RequestFailed, request, state, || {
            Refused::new(code, detail).hint("run `why` on the message for details")
        });
    }

    /// Matches a message to a request: it must be a response from a recipient of the request to its requester.
    pub(super) fn match_reply(
        &self,
        message: &Message,
        recipients: &[Recipient],
    ) -> Result<Option<MatchedReply>, DecideError> {
        // A reply has exactly one recipient, addressed by name.
        let (MessageType::Response, [to], true) = (message.kind, recipients, message.to.names_agents())
        else {
            return Ok(None);
        };
        let from = message.from.as_ref().and_then(|from| self.working.agents().number(from));
        let (Some(from), Some(requester)) = (from, to.agent_no()) else { return Ok(None) };
        let request = match (&message.in_reply_to, &message.correlation_id) {
            (Some(name), _) => self.request_by_id(name)?,
            (None, Some(correlation)) => self.request_by_correlation(correlation, from, requester)?,
            (None, None) => None,
        };
        let request = match request.filter(|request| request.accepts_reply_to(requester)) {
            Some(request) => Some(request),
            None => self.request_delegated_to(from, message, requester),
        };
        let Some(request) = request else { return Ok(None) };
        let index = self.answer_index(&request, from);
        Ok(index.map(|index| MatchedReply { request, index, from }))
    }

    /// Finds the request for a response that only has a correlation id: the open request with that message id, else
    /// the only open request with that correlation id that the sender has not answered yet. If several match, or none
    /// is open, the response is delivered like any other message.
    fn request_by_correlation(
        &self,
        correlation: &str,
        from: AgentNo,
        requester: AgentNo,
    ) -> Result<Option<Request>, DecideError> {
        let requests = &self.working.items().requests;
        if requests.is_empty() {
            return Ok(None);
        }
        let is_match = |request: &&Request| {
            request.accepts_reply_to(requester) && self.pending_indexes(request, from).next().is_some()
        };
        let by_id = self.resolve_message_id(correlation)?;
        let by_id = by_id.and_then(|id| requests.of_message(id.seq, id.n).filter(|found| found.id == id));
        if let Some(request) = by_id.filter(is_match) {
            return Ok(Some(request.clone()));
        }
        let mut matching = requests.of_correlation(correlation).filter(is_match);
        Ok(matching.next().filter(|_| matching.next().is_none()).cloned())
    }

    /// Whether an agent may reply: it is the recipient, or it serves the pool that is the recipient.
    pub(super) fn may_answer(&self, agent: AgentNo, recipient: Recipient) -> bool {
        match recipient.queue() {
            QueueId::Agent(owner) => owner == agent,
            QueueId::Pool(pool) => self.working.inbox(agent).pools().contains(&pool),
        }
    }

    /// Returns the name of a recipient: an agent id, or a pool such as `can:review`.
    pub(super) fn recipient_name(&self, to: Recipient) -> String {
        match (to.agent_no(), to.queue()) {
            (Some(agent), _) | (None, QueueId::Agent(agent)) => self.agent_id(agent),
            (None, QueueId::Pool(pool)) => {
                let capability = self.working.pools().get(pool).map_or("", |pool| pool.capability.as_str());
                format!("can:{capability}")
            }
        }
    }

    /// Returns the request with this message id or client id.
    fn request_by_id(&self, name: &str) -> Result<Option<Request>, DecideError> {
        let Some(id) = self.resolve_message_id(name)? else { return Ok(None) };
        match self.item(&ItemKey::new(ItemKind::Request, id.to_string()))? {
            Some(Item::Request(request)) => Ok(Some(request)),
            _ => Ok(None),
        }
    }

    /// Resolves a message id or a client id.
    fn resolve_message_id(&self, name: &str) -> Result<Option<MessageId>, DecideError> {
        if let Ok(id) = name.parse::<MessageId>() {
            return Ok(Some(id));
        }
        let Ok(client_id) = ClientId::new(name) else { return Ok(None) };
        let position = self.position_of(&client_id)?;
        Ok(position.map(|(seq, n)| self.working.generations().message_id(seq, n)))
    }

    fn position_of(&self, id: &ClientId) -> Result<Option<(Seq, u32)>, DecideError> {
        if let Some((_, OpResult::Sent { id, .. })) = self.sent_in_commit.get(id) {
            return Ok(Some((id.seq, id.n)));
        }
        Ok(self.lookup.prior_send(id)?.map(|prior| (prior.seq, prior.n)))
    }

    /// Accepts a reply: stores the message and notifies the listeners. It is not delivered to an inbox.
    pub(super) fn accept_reply(&mut self, message: &Arc<Message>, reply: MatchedReply) -> OpResult {
        let MatchedReply { mut request, index, from } = reply;
        let id = self.next_message_id();
        self.emit_message(message, Vec::new());
        let late = !request.is_open() || request.recipients[index].reply != ReplyState::Pending;
        if !late {
            // The agent that claimed it from the pool; a delegate does not replace the recipient.
            if self.may_answer(from, request.recipients[index].recipient) {
                request.recipients[index].recipient = request.recipients[index].recipient.held_by(from);
            }
            let request = request.with_reply(index, ReplyState::Answered { seq: id.seq, n: id.n });
            let (request_id, is_last) = (request.id, !request.is_open());
            let unneeded = self.delivery_of_another(&request, index, from);
            let waiters = match is_last {
                true => self.take_listeners(request.id),
                false => self.listeners_of(request.id),
            };
            self.change_request(Verb::RequestAnswered, request);
            let (at, message) = (self.now.wall, Arc::clone(message));
            self.notify_all(waiters, &ConsumerEvent::Answered { id, at, message, is_last });
            if let Some(delivery) = unneeded {
                self.end_unneeded(request_id, delivery, Code::Conflict);
            }
        }
        OpResult::Replied { id, late }
    }

    /// Returns the open delivery in whose place an agent answers, if another agent holds it, or may claim it. The agent
    /// that answers acks its own.
    fn delivery_of_another(&self, request: &Request, index: usize, from: AgentNo) -> Option<DeliveryNo> {
        let delivery = DeliveryNo(request.first_delivery.0 + index as u64);
        let open = self.working.open(delivery)?;
        let is_own = match open.token() {
            Some(_) => open.to.agent_no() == Some(from),
            None => open.to.queue() == QueueId::Agent(from),
        };
        (!is_own).then_some(delivery)
    }

    /// Returns the original result of a repeated message that was accepted as a reply.
    pub(super) fn replied_before(
        &self,
        message: &Message,
        id: MessageId,
    ) -> Result<Option<OpResult>, DecideError> {
        if message.kind != MessageType::Response || !message.to.names_agents() {
            return Ok(None);
        }
        let is_reply_to = |request: &Request| request.replies().any(|(seq, n)| (seq, n) == (id.seq, id.n));
        // The record contains the matched request; the correlation id may match other requests by now.
        let replied = self.effects_of(id.seq)?.into_iter().flatten().any(|effect| match effect {
            Effect::Changed { item: Item::Request(request), .. } => is_reply_to(&request),
            _ => false,
        });
        if replied {
            return Ok(Some(OpResult::Replied { id, late: false }));
        }
        let named = message.in_reply_to.as_ref().map(|name| self.request_by_id(name)).transpose()?.flatten();
        Ok(named.map(|_| OpResult::Replied { id, late: true }))
    }
}

/// Returns the refusal for the oldest listener when too many wait for the same reply.
fn too_many_listeners(id: MessageId) -> Refused {
    Refused::new(
        Code::Conflict,
        format!("{REQUEST_LISTENERS_MAX} newer listeners wait for the reply to {id}"),
    )
    .limit(REQUEST_LISTENERS_MAX as u64)
    .hint("repeat the request with the same id or key to wait for the same reply")
}
