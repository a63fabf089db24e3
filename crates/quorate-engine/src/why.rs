//! Explanations: why a message, a task, an approval or a procedure is in its state, what it waits for, and what
//! happens next.

use quorate_core::{
    AgentNo, ApprovalId, ClientId, Code, DeliveryNo, Inspect, InspectResult, MessageId, ProcedureId,
    Recipient, Refused, Request, RequestState, TaskId, Timestamp, Why,
};
use quorate_store::{ReadQuery, ReadResult, StoredDeliveryState};

use crate::error::Error;
use crate::reads::{MessageView, unexpected_result};
use crate::space::Space;

impl Space {
    /// Explains the state of a message (by its ID or its client-assigned ID), a task, an approval, or a procedure.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn why(&self, id: &str) -> Result<Why, Error> {
        if let Ok(id) = id.parse::<MessageId>() {
            return self.why_message(self.message(id).await?).await;
        }
        if let Ok(task) = id.parse::<TaskId>() {
            match self.why_task(&task).await {
                Err(error) if error.code() == Code::NotFound => {}
                found => return found,
            }
        }
        if let Ok(approval) = id.parse::<ApprovalId>() {
            match self.why_approval(&approval).await {
                Err(error) if error.code() == Code::NotFound => {}
                found => return found,
            }
        }
        if let Ok(procedure) = id.parse::<ProcedureId>() {
            match self.why_procedure(&procedure).await {
                Err(error) if error.code() == Code::NotFound => {}
                found => return found,
            }
        }
        let found = match ClientId::new(id) {
            Ok(client_id) => self.message_by_client_id(&client_id).await,
            Err(refused) => Err(refused.into()),
        };
        match found {
            Ok(view) => self.why_message(view).await,
            Err(error) if matches!(error.code(), Code::NotFound | Code::Invalid) => Err(Refused::new(
                Code::NotFound,
                format!("there is no message, task, approval or procedure {id}"),
            )
            .into()),
            Err(error) => Err(error),
        }
    }

    async fn why_message(&self, view: MessageView) -> Result<Why, Error> {
        let MessageView { id, deliveries, .. } = view;
        let now = self.engine().clock().now().wall;
        let first = deliveries.first().map_or(DeliveryNo(0), |delivery| delivery.id.number);
        let inspect =
            Inspect::Deliveries { message: Some((id.seq, id.n)), first, count: deliveries.len() as u32 };
        let InspectResult::Deliveries { deliveries: inspections, request: pending_request } =
            self.inspect(inspect).await?
        else {
            return Err(quorate_store::StoreError::Read("unexpected result of an inspection".into()).into());
        };
        let mut parts = Vec::with_capacity(deliveries.len());
        for (delivery, inspection) in deliveries.iter().zip(inspections) {
            let name = delivery.id.to_string();
            parts.push(match (inspection, &delivery.state) {
                (Some(inspection), _) => Why::of_open_delivery(name, &inspection, now),
                (None, StoredDeliveryState::Ended { state, seq }) => {
                    let reason = self.reason_of(delivery.id.number).await?;
                    Why::of_ended_delivery(name, delivery.agent.as_str(), *state, *seq, reason.as_deref())
                }
                // The delivery ended between the two reads.
                (None, StoredDeliveryState::Open { .. }) => return Box::pin(self.why(&id.to_string())).await,
            });
        }
        let why = Why::of_message(id.to_string(), parts);
        match pending_request {
            Some((request, until)) => Ok(self.why_waiting(why, &request, until, now)),
            None => Ok(match self.find::<Request>(&id).await? {
                Some(request) => with_request_end(why, &request),
                None => why,
            }),
        }
    }

    fn why_waiting(&self, why: Why, request: &Request, until: Timestamp, now: Timestamp) -> Why {
        let missing = request.missing().map(|to| self.recipient_name(to));
        let delegates = request.delegates.iter().map(|delegate| self.recipient_name(delegate.recipient));
        let missing = missing.chain(delegates).collect();
        why.with_pending_replies(&self.agent_name(request.from), missing, until, now)
    }

    /// Returns the reason for dead-lettering.
    async fn reason_of(&self, delivery: DeliveryNo) -> Result<Option<String>, Error> {
        let after = DeliveryNo(delivery.0.saturating_sub(1));
        match self.read_one(ReadQuery::DeadLetters { agent: None, after, limit: 1 }).await? {
            ReadResult::DeadLetters(dead_letters) => {
                let dead_letter =
                    dead_letters.into_iter().find(|dead_letter| dead_letter.delivery == delivery);
                Ok(dead_letter.map(|dead_letter| dead_letter.reason).filter(|reason| !reason.is_empty()))
            }
            other => Err(unexpected_result(&other)),
        }
    }

    pub(crate) fn agent_name(&self, number: AgentNo) -> String {
        let published = self.published();
        published.agents.get(number).map_or_else(String::new, |agent| agent.id.to_string())
    }

    /// Returns the name of a recipient: an agent, or a description of the pool.
    fn recipient_name(&self, to: Recipient) -> String {
        to.agent_no().map_or_else(|| "any agent with the capability".into(), |agent| self.agent_name(agent))
    }
}

fn with_request_end(why: Why, request: &Request) -> Why {
    match &request.state {
        RequestState::Failed { code, reason } => {
            why.with_request_outcome(request.state.as_str(), Some((*code, reason)))
        }
        RequestState::Waiting | RequestState::Answered | RequestState::TimedOut | RequestState::Cancelled => {
            why.with_request_outcome(request.state.as_str(), None)
        }
    }
}
