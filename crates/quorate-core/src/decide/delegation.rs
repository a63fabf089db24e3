//! Delegated answers: a recipient of a request passes it on along the chain, and the last agent answers the requester.
//!
//! A message of an agent that may answer a request, with its correlation id and caused by its chain, lets the recipients of
//! that message answer as well, each in place of the same recipient. A request delegates nothing: its sender waits for the
//! answer itself. The deliveries of such messages end with the request, except those of notifications.

use crate::decide::Draft;
use crate::ids::{AgentNo, DeliveryNo};
use crate::item::Verb;
use crate::limits::REQUEST_DELEGATES_MAX;
use crate::message::{Message, MessageType};
use crate::recipient::Recipient;
use crate::request::{AnswerFrom, Delegate, DelegatedDelivery, ReplyState, Request};

impl Draft<'_> {
    /// Returns the open requests that the next message delegates to its recipients, with these and their deliveries.
    pub(super) fn delegate_answers(&self, message: &Message, recipients: &[Recipient]) -> Vec<Request> {
        // Only a message with a cause is in a chain; a correlation id alone is a conversation.
        let (Some(correlation), Some(_)) = (&message.correlation_id, message.chain()) else {
            return Vec::new();
        };
        let from = message.from.as_ref().and_then(|from| self.working.agents().number(from));
        let requests = &self.working.items().requests;
        let Some(from) = from.filter(|_| !requests.is_empty()) else { return Vec::new() };
        self.lookup.add_steps(requests.of_correlation(correlation).count());
        let open = self.working.items().requests.of_correlation(correlation);
        let delegable = open.filter(|request| request.answer_from == AnswerFrom::Chain);
        delegable.filter_map(|request| self.delegated(request, from, message, recipients)).collect()
    }

    /// Writes the requests that were delegated.
    pub(super) fn change_delegated(&mut self, requests: Vec<Request>) {
        for request in requests {
            self.change_request(Verb::RequestDelegated, request);
        }
    }

    /// Returns the request with these recipients as further delegates of an agent, and with the deliveries of the message;
    /// `None` if that changes nothing.
    fn delegated(
        &self,
        request: &Request,
        from: AgentNo,
        message: &Message,
        recipients: &[Recipient],
    ) -> Option<Request> {
        let mut delegates = request.delegates.clone();
        for index in self.pending_indexes(request, from) {
            let asked = request.recipients[index].recipient.queue();
            for recipient in recipients {
                if delegates.len() == REQUEST_DELEGATES_MAX {
                    break;
                }
                let delegate = Delegate { recipient: recipient.without_holder(), index: index as u32 };
                let is_requester = recipient.agent_no() == Some(request.from);
                if !is_requester && recipient.queue() != asked && !delegates.contains(&delegate) {
                    delegates.push(delegate);
                }
            }
        }
        let changed = Request { delegates, ..request.clone() };
        let delegated = self.delegated_deliveries(&changed, from, message, recipients);
        let changed = Request { delegated, ..changed };
        (changed != *request).then_some(changed)
    }

    /// Returns the delegated deliveries of a request with those of the next message. Work of its recipients ends with the
    /// request. A notification does not expect an answer, so it is delivered in any case.
    fn delegated_deliveries(
        &self,
        request: &Request,
        from: AgentNo,
        message: &Message,
        recipients: &[Recipient],
    ) -> Vec<DelegatedDelivery> {
        let mut delegated = request.delegated.clone();
        let Some(index) = self.pending_indexes(request, from).next() else { return delegated };
        if message.kind == MessageType::Event {
            return delegated;
        }
        let asked = request.recipients[index].recipient.queue();
        let index = index as u32;
        let may_answer = |to: Recipient| {
            to.queue() == asked
                || request.delegates.contains(&Delegate { recipient: to.without_holder(), index })
        };
        let numbers = (self.working.next_delivery().0..).map(DeliveryNo);
        let new = numbers.zip(recipients).filter(|(_, to)| may_answer(**to));
        let mut new = new.map(|(delivery, _)| DelegatedDelivery { delivery, index }).peekable();
        if new.peek().is_some() {
            delegated.retain(|earlier| self.working.open(earlier.delivery).is_some());
            let free = REQUEST_DELEGATES_MAX.saturating_sub(delegated.len());
            delegated.extend(new.take(free));
        }
        delegated
    }

    /// Returns the indexes of the recipients in whose place an agent may answer: first its own.
    fn indexes<'a>(&'a self, request: &'a Request, from: AgentNo) -> impl Iterator<Item = usize> + 'a {
        let own = request.recipients.iter().enumerate();
        let own = own.filter(move |(_, outcome)| self.may_answer(from, outcome.recipient));
        let delegates =
            request.delegates.iter().filter(move |delegate| self.may_answer(from, delegate.recipient));
        own.map(|(index, _)| index).chain(delegates.map(|delegate| delegate.index as usize))
    }

    /// Returns the indexes of the recipients in whose place an agent may answer, and whose answer is outstanding.
    pub(super) fn pending_indexes<'a>(
        &'a self,
        request: &'a Request,
        from: AgentNo,
    ) -> impl Iterator<Item = usize> + 'a {
        let is_pending = move |index: &usize| {
            request.recipients.get(*index).is_some_and(|outcome| outcome.reply == ReplyState::Pending)
        };
        self.indexes(request, from).filter(is_pending)
    }

    /// Returns the index of the recipient in whose place an agent answers; `None` if it may not answer.
    pub(super) fn answer_index(&self, request: &Request, from: AgentNo) -> Option<usize> {
        let pending = self.pending_indexes(request, from).next();
        pending.or_else(|| self.indexes(request, from).find(|index| *index < request.recipients.len()))
    }

    /// Finds the only open request of the chain whose answer was delegated to an agent. Its response may name the message
    /// that it received, instead of the request.
    pub(super) fn request_delegated_to(
        &self,
        from: AgentNo,
        message: &Message,
        requester: AgentNo,
    ) -> Option<Request> {
        let is_match = |request: &&Request| {
            let mut delegates = request.delegates.iter();
            request.accepts_reply_to(requester)
                && delegates.any(|delegate| self.may_answer(from, delegate.recipient))
                && self.pending_indexes(request, from).next().is_some()
        };
        let correlation = message.correlation_id.as_deref()?;
        let mut matching = self.working.items().requests.of_correlation(correlation).filter(is_match);
        matching.next().filter(|_| matching.next().is_none()).cloned()
    }
}
