//! The inbox of a runtime: routes each delivery to the run of its procedure.

use std::sync::Arc;

use quorate_core::{Nack, NackAction, Op, Procedure, ProcedureId};
use quorate_engine::{Error, ReceivedDelivery};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::{Context, commit_backoff, is_retryable};
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
    /// Grants credit for the next delivery.
    grant: Op,
}

impl HeldDelivery {
    /// Returns the operations that ack it and grant credit for the next one.
    pub(super) fn ack_ops(&self) -> impl Iterator<Item = Op> {
        self.delivery.lease.map(Op::Ack).into_iter().chain([self.grant.clone()])
    }

    /// Returns only the operation that grants credit, for a delivery whose lease has expired.
    pub(super) fn grant_op(&self) -> Op {
        self.grant.clone()
    }

    /// Returns the operations that return it, because its procedure is paused or stuck, and grant credit for the next
    /// one. The hub holds it until the procedure is resumed.
    pub(super) fn return_ops(&self) -> impl Iterator<Item = Op> {
        let nack = |lease| {
            let action = NackAction::Retry { delay_ms: None };
            Op::Nack(Nack { lease, action, reason: "the procedure is paused or stuck".into() })
        };
        self.delivery.lease.map(nack).into_iter().chain([self.grant.clone()])
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
        let mut runs = JoinSet::new();
        let changes = Arc::clone(&self.changes);
        let _changes = AbortOnDrop(tokio::spawn(async move { changes.follow().await }));
        for procedure in running {
            self.spawn(&mut runs, procedure.id, None);
        }
        let (principal, mut backoff) = (self.principal(), commit_backoff());
        let mut consumer = loop {
            let opened = self.space.consume(&principal, Some(self.epoch), &self.agent, CREDIT, LEASE_MS);
            match opened.await {
                Ok(consumer) => break consumer,
                Err(error) if is_retryable(&error) => self.wait_backoff(&mut backoff).await,
                Err(error) => {
                    let code = error.code().as_str();
                    tracing::error!(code, "procedure runtime stopped: cannot open its inbox");
                    return;
                }
            }
        };
        loop {
            tokio::select! {
                () = stop.notified() => break,
                Some(_) = runs.join_next() => {}
                Some(child) = children.recv() => self.spawn(&mut runs, child, None),
                delivery = consumer.next() => {
                    let delivery = match delivery {
                        Ok(Some(delivery)) => delivery,
                        Ok(None) => break,
                        Err(error) => {
                            let code = error.code().as_str();
                            tracing::error!(code, "procedure runtime stopped: inbox failed");
                            break;
                        }
                    };
                    let held = Box::new(HeldDelivery { delivery, grant: consumer.grant_credit_op(1) });
                    match held.procedure() {
                        Some(id) => self.spawn(&mut runs, id, Some(held)),
                        None => self.settle(held.ack_ops().collect()).await,
                    }
                }
            }
        }
        runs.shutdown().await;
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
