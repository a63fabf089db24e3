//! The inbox of a runtime: routes each delivery to the run of its procedure.

use std::sync::Arc;

use quorate_core::{AgentId, ConsumerId, Nack, NackAction, Op, Procedure, ProcedureId};
use quorate_engine::{Error, ReceivedDelivery};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::{Context, commit_backoff, ends_runtime};
use crate::machine::ProcedureEvent;

/// Maximum number of deliveries that are not acked yet; further ones wait in the inbox.
const CREDIT: u32 = 256;
const LEASE_MS: u64 = 30_000;

/// Input of a run from outside.
pub(super) enum Incoming {
    /// A delivery for the procedure.
    Delivery(Box<HeldDelivery>),
    /// An item that the procedure waits for has ended.
    Ended(super::changes::Waited),
}

/// A delivery that is not acked yet.
pub(super) struct HeldDelivery {
    delivery: ReceivedDelivery,
    /// The consumer that received it.
    consumer: ConsumerId,
}

/// Returns the operations that ack deliveries and grant credit for as many others: at most two.
pub(super) fn ack_ops(held: &[HeldDelivery]) -> impl Iterator<Item = Op> {
    let leases: Vec<_> = held.iter().filter_map(|held| held.delivery.lease).collect();
    let acks = (!leases.is_empty()).then_some(Op::AckMany(leases));
    acks.into_iter().chain(grant_op(held))
}

/// Returns the operation that grants credit for as many other deliveries.
pub(super) fn grant_op(held: &[HeldDelivery]) -> Option<Op> {
    let consumer = held.first()?.consumer;
    Some(Op::GrantCredit { consumer, credit: held.len() as u32 })
}

impl HeldDelivery {
    /// Returns the operation that returns it, because its procedure is paused or stuck. The hub holds it until the
    /// procedure is resumed.
    pub(super) fn return_op(&self) -> Option<Op> {
        let action = NackAction::Retry { delay_ms: None };
        let nack = |lease| Nack { lease, action, reason: "the procedure is paused or stuck".into() };
        self.delivery.lease.map(nack).map(Op::Nack)
    }

    /// Whether the procedure sent it to itself.
    pub(super) fn is_from(&self, driver: &AgentId) -> bool {
        self.delivery.message.from.as_ref() == Some(driver)
    }

    fn is_notice(&self) -> bool {
        let message = &self.delivery.message;
        message.from.is_none() && message.action.starts_with("procedure.")
    }

    /// Action of a notice of the hub; empty for another message.
    pub(super) fn notice(&self) -> &str {
        if self.is_notice() { &self.delivery.message.action } else { "" }
    }

    /// Returns the event of the machine; `None` for a notice that has been considered by loading the procedure.
    pub(super) fn event(&self) -> Option<ProcedureEvent> {
        let message = &self.delivery.message;
        if !self.is_notice() {
            let from = message.from.as_ref().map(ToString::to_string);
            let (action, payload) = (message.action.clone(), message.payload.bytes.clone());
            return Some(ProcedureEvent::Delivered { from, action, payload });
        }
        if message.action != "procedure.signalled" {
            return None;
        }
        let mut notice: Value = serde_json::from_slice(&message.payload.bytes).ok()?;
        let text = |field: &str| notice[field].as_str().unwrap_or_default().to_owned();
        let (name, by) = (text("name"), text("by"));
        Some(ProcedureEvent::Signalled { name, by, payload: notice["payload"].take() })
    }

    /// Returns the procedure that the delivery is for.
    fn procedure(&self) -> Option<ProcedureId> {
        self.delivery.message.correlation_id.as_deref().and_then(|id| ProcedureId::new(id).ok())
    }
}

impl Context {
    pub(super) async fn run(
        self,
        running: Vec<Procedure>,
        mut children: mpsc::UnboundedReceiver<ProcedureId>,
        stop: Arc<Notify>,
    ) {
        let changes = Arc::clone(&self.changes);
        let _changes = AbortOnDrop(tokio::spawn(async move { changes.follow().await }));
        let (mut running, mut backoff) = (Ok(running), commit_backoff());
        loop {
            let mut runs = JoinSet::new();
            let served = match running {
                Ok(running) => {
                    running.into_iter().for_each(|procedure| self.spawn(&mut runs, procedure.id, None));
                    self.serve(&mut runs, &mut children, &stop).await
                }
                Err(error) => Err(error),
            };
            runs.shutdown().await;
            let Err(error) = served else { return };
            let code = error.code().as_str();
            tracing::error!(code, "procedure runtime: inbox failed");
            if ends_runtime(&error) {
                return;
            }
            // Deliveries under lease come again with the next consumer.
            self.lock_active().clear();
            self.wait_backoff(&mut backoff).await;
            running = self.running_procedures().await;
        }
    }

    /// Passes deliveries and started children to runs, until the runtime is stopped.
    async fn serve(
        &self,
        runs: &mut JoinSet<()>,
        children: &mut mpsc::UnboundedReceiver<ProcedureId>,
        stop: &Notify,
    ) -> Result<(), Error> {
        let principal = self.principal();
        let opened = self.space.consume(&principal, Some(self.epoch), &self.agent, CREDIT, LEASE_MS);
        let mut consumer = opened.await?;
        loop {
            tokio::select! {
                () = stop.notified() => return Ok(()),
                Some(_) = runs.join_next() => {}
                Some(child) = children.recv() => self.spawn(runs, child, None),
                delivery = consumer.next() => {
                    let Some(delivery) = delivery? else { return Ok(()) };
                    let held = HeldDelivery { delivery, consumer: consumer.id() };
                    match held.procedure() {
                        Some(id) => self.spawn(runs, id, Some(Box::new(held))),
                        None => self.settle(ack_ops(&[held]).collect()).await,
                    }
                }
            }
        }
    }

    /// Passes a delivery to the run of a procedure. Starts the run, if there is none.
    fn spawn(&self, runs: &mut JoinSet<()>, id: ProcedureId, held: Option<Box<HeldDelivery>>) {
        let mut active = self.lock_active();
        let mut first = held;
        if let Some(run) = active.get(&id) {
            let Some(held) = first.take() else { return };
            match run.send(Incoming::Delivery(held)) {
                Ok(()) => return,
                // Its task panicked or was aborted: the delivery starts a new run.
                Err(mpsc::error::SendError(Incoming::Delivery(held))) => first = Some(held),
                Err(_) => {}
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(held) = first {
            // The receiver exists.
            let _ = sender.send(Incoming::Delivery(held));
        }
        active.insert(id.clone(), sender.clone());
        drop(active);
        runs.spawn(self.clone().drive(id, sender, receiver));
    }

    /// Commits operations that end deliveries. If this fails, the deliveries are redelivered.
    pub(super) async fn settle(&self, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        if let Err(error) = self.space.commit(self.commit(ops)).await {
            let code = error.code().as_str();
            tracing::debug!(code, "failed to settle a delivery; it will be redelivered");
        }
    }
}

/// Background task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Converts an error of a channel or task that only exists while the runtime does.
pub(super) fn closed() -> Error {
    quorate_core::StoreError::Closed.into()
}
