//! The agent registry: agents and their load, inboxes and heartbeats.

use std::time::Duration;

use quorate_core::{
    AgentFilter, AgentId, AgentInspection, AgentNo, AgentStatus, Code, Commit, DeliveryId,
    DeliveryInspection, DeliveryNo, Epoch, Health, Heartbeat, Inspect, InspectResult, MessageId, Op,
    OpResult, Principal, Refused, StuckWork,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::space::Space;

/// Agent with its presence and load.
pub type AgentView = AgentInspection;

/// Open delivery in an inbox.
#[derive(Clone, PartialEq, Debug)]
pub struct InboxEntry {
    /// Delivery ID.
    pub id: DeliveryId,
    /// ID of the delivered message.
    pub message: MessageId,
    /// State of the delivery.
    pub delivery: DeliveryInspection,
}

impl Space {
    pub(crate) async fn inspect(&self, inspect: Inspect) -> Result<InspectResult, Error> {
        let receipt = self.commit_system(vec![Op::Inspect(inspect)]).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::Inspected(result)) => Ok(*result),
            _ => Err(StoreError::Read("unexpected result of an inspection".into()).into()),
        }
    }

    /// Returns agents with their load, in the order of their registration, after a given number.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn agents(
        &self,
        filter: AgentFilter,
        after: AgentNo,
        limit: usize,
    ) -> Result<Vec<AgentView>, Error> {
        match self.inspect(Inspect::Agents { filter, after, limit }).await? {
            InspectResult::Agents(agents) => Ok(agents),
            other => Err(unexpected_inspection(&other)),
        }
    }

    /// Returns an agent with its profile, presence and load.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn agent(&self, id: &AgentId) -> Result<AgentView, Error> {
        let filter = AgentFilter { id: Some(id.clone()), ..AgentFilter::default() };
        let found = self.agents(filter, AgentNo(0), 1).await?;
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no agent {id}"))
                .hint("register it first, or list the agents")
        };
        found.into_iter().next().ok_or_else(|| missing().into())
    }

    /// Returns the open deliveries of an agent, by number.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn inbox(
        &self,
        agent: &AgentId,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<InboxEntry>, Error> {
        let inspect = Inspect::Inbox { agent: agent.clone(), after, limit };
        let InspectResult::Inbox(deliveries) = self.inspect(inspect).await? else {
            return Err(StoreError::Read("unexpected result of an inspection".into()).into());
        };
        let generations = &self.published().generations;
        let inbox_entry = |delivery: DeliveryInspection| InboxEntry {
            id: generations.delivery_id(delivery.number),
            message: generations.message_id(delivery.open.seq, delivery.open.n()),
            delivery,
        };
        Ok(deliveries.into_iter().map(inbox_entry).collect())
    }

    /// Returns work that waits for agents that are gone, or that do not exist, or that they hold, up to a limit.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn stuck_work(&self, limit: usize) -> Result<Vec<StuckWork>, Error> {
        match self.inspect(Inspect::Stuck { limit }).await? {
            InspectResult::Stuck(stuck) => Ok(stuck),
            other => Err(unexpected_inspection(&other)),
        }
    }

    /// Records a heartbeat. It writes a record only if the status or health of the agent changed.
    ///
    /// # Errors
    /// `STALE_EPOCH` if a newer epoch of the agent has started, another refusal, or a storage failure.
    pub async fn heartbeat(
        &self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        status: AgentStatus,
        health: Health,
    ) -> Result<(), Error> {
        let heartbeat = Heartbeat { agent: agent.clone(), status, health };
        if self.heartbeats().buffer(&self.published(), &heartbeat, epoch) {
            return Ok(());
        }
        let op = Op::Heartbeat(heartbeat);
        let commit = Commit { epoch, ..Commit::new(Principal::Agent(agent.clone()), vec![op]) };
        self.commit(commit).await.map(drop)
    }

    /// Records activity of an agent that is no commit, such as a read or an open stream. It counts as a heartbeat and marks
    /// an offline agent as online.
    pub fn note_activity(&self, agent: &AgentId) {
        self.heartbeats().buffer_activity(&self.published(), agent);
    }

    /// Records that a connection of an agent was closed that is not a consumer, such as that of a waiting call. The agent shows
    /// as disconnected, unless it has another waiting client.
    pub fn note_closed_connection(&self, agent: &AgentId) {
        if let Some(agent) = self.published().agents.number(agent) {
            self.submit_after_heartbeats(Op::ConnectionClosed { agent });
        }
    }

    /// Sends heartbeats of an agent until the future is dropped or a new epoch of the agent starts.
    pub async fn run_heartbeats(
        &self,
        agent: AgentId,
        epoch: Epoch,
        interval: Duration,
        report: impl Fn() -> (AgentStatus, Health),
    ) {
        loop {
            self.sleep(interval).await;
            let (status, health) = report();
            match self.heartbeat(&agent, Some(epoch), status, health).await {
                Err(error) if matches!(error.code(), Code::StaleEpoch | Code::NotFound) => return,
                // Other errors may be temporary: two more heartbeats can be missed before the agent is offline.
                _ => {}
            }
        }
    }
}

pub(crate) fn unexpected_inspection(result: &InspectResult) -> Error {
    let kind = match result {
        InspectResult::Deliveries { .. } => "deliveries",
        InspectResult::Inbox(_) => "an inbox",
        InspectResult::Agents(_) => "agents",
        InspectResult::Stuck(_) => "stuck work",
        InspectResult::Task(_) => "a task",
        InspectResult::Procedure(_) => "a procedure",
        InspectResult::LockQueueLengths(_) => "lengths of lock queues",
        InspectResult::LockQueue(_) => "a lock queue",
    };
    StoreError::Read(format!("unexpected result of an inspection: {kind}").into()).into()
}
