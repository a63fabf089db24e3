//! The registry as callers see it: who is there, what each has to do. Signs of life.

use std::time::Duration;

use quorate_core::{
    AgentFilter, AgentId, AgentLook, AgentNo, Code, Commit, DeliveryId, DeliveryLook, DeliveryNo, Epoch,
    Health, Heartbeat, Inspect, Inspected, MessageId, Op, OpResult, Principal, Refused, Status,
};
use quorate_store::StoreError;

use crate::error::Error;
use crate::space::Space;

/// An agent and what it has to do.
pub type AgentView = AgentLook;

/// An open delivery of an inbox.
#[derive(Clone, PartialEq, Debug)]
pub struct Letter {
    /// The delivery.
    pub id: DeliveryId,
    /// The message that it brings.
    pub message: MessageId,
    /// Where it is.
    pub look: DeliveryLook,
}

impl Space {
    pub(crate) async fn inspect(&self, what: Inspect) -> Result<Inspected, Error> {
        let receipt = self.commit_system(vec![Op::Inspect(what)]).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::Inspected(seen)) => Ok(*seen),
            _ => Err(StoreError::Read("a look was not answered".into()).into()),
        }
    }

    /// Agents with their load, in the order in which they came: those after this one, at most so many.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn agents(
        &self,
        filter: AgentFilter,
        after: AgentNo,
        limit: usize,
    ) -> Result<Vec<AgentView>, Error> {
        match self.inspect(Inspect::Agents { filter, after, limit }).await? {
            Inspected::Agents(agents) => Ok(agents),
            other => Err(unasked(&other)),
        }
    }

    /// One agent: how it described itself, whether it is there, and what it has to do.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn agent(&self, id: &AgentId) -> Result<AgentView, Error> {
        let filter = AgentFilter { id: Some(id.clone()), ..AgentFilter::default() };
        let found = self.agents(filter, AgentNo(0), 1).await?;
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no agent {id}"))
                .hint("register it first, or look at the list of agents")
        };
        found.into_iter().next().ok_or_else(|| missing().into())
    }

    /// What lies in an agent's inbox and has not ended, by number.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn inbox(
        &self,
        agent: &AgentId,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<Letter>, Error> {
        let what = Inspect::Inbox { agent: agent.clone(), after, limit };
        let Inspected::Inbox(looks) = self.inspect(what).await? else {
            return Err(StoreError::Read("an inbox was not answered".into()).into());
        };
        let eras = &self.published().eras;
        let letter = |look: DeliveryLook| Letter {
            id: eras.delivery_id(look.number),
            message: eras.message_id(look.open.seq, look.open.n()),
            look,
        };
        Ok(looks.into_iter().map(letter).collect())
    }

    /// A sign of life. Leaves no record unless the agent says something new of itself.
    ///
    /// # Errors
    /// `STALE_EPOCH` if the agent was started again, another refusal, or a failure of the storage.
    pub async fn heartbeat(
        &self,
        agent: &AgentId,
        epoch: Option<Epoch>,
        status: Status,
        health: Health,
    ) -> Result<(), Error> {
        let heartbeat = Heartbeat { agent: agent.clone(), status, health };
        if self.signs().take(&self.published(), &heartbeat, epoch) {
            return Ok(());
        }
        let op = Op::Heartbeat(heartbeat);
        let commit = Commit { epoch, ..Commit::new(Principal::Agent(agent.clone()), vec![op]) };
        self.commit(commit).await.map(drop)
    }

    /// Gives signs of life of an agent for as long as it is polled, or until the agent was started again.
    pub async fn beat(
        &self,
        agent: AgentId,
        epoch: Epoch,
        every: Duration,
        says: impl Fn() -> (Status, Health),
    ) {
        loop {
            self.pass(every).await;
            let (status, health) = says();
            match self.heartbeat(&agent, Some(epoch), status, health).await {
                Err(error) if matches!(error.code(), Code::StaleEpoch | Code::NotFound) => return,
                // Anything else may pass; two more may be missed.
                _ => {}
            }
        }
    }
}

fn unasked(seen: &Inspected) -> Error {
    let kind = match seen {
        Inspected::Deliveries { .. } => "deliveries",
        Inspected::Inbox(_) => "an inbox",
        Inspected::Agents(_) => "agents",
    };
    StoreError::Read(format!("a look saw {kind}, which was not asked for").into()).into()
}
