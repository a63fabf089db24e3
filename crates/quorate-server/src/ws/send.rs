//! Sending: replies in the order of their frames, and deliveries in batches within the credit.

use axum::extract::ws::Message;
use futures_util::{FutureExt as _, SinkExt as _};
use quorate_core::{HolderEvent, LeaseRef, Mono, Receipt, Seq};
use quorate_engine::{Error, ReceivedDelivery, UnreadDelivery, views};
use serde_json::json;

use super::connection::{CloseReason, LeaseEnd, PendingOperation, Reply, WsConnection};
use super::frame::{self, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX};
use crate::problem::Problem;
use crate::wire::message_cache::MessageJson;

/// A delivery, with a cached message if it has several recipients.
type Rendered = quorate_api::delivery::Delivery<MessageJson>;

impl WsConnection {
    /// Sends the next reply, which is ready.
    pub(super) async fn send_ready(&mut self) -> Result<(), CloseReason> {
        match self.replies.pop_front() {
            Some(Reply::Ready(text)) => self.feed(Message::Text(text.into())).await,
            _ => Ok(()),
        }
    }

    /// Sends the reply to a call that has waited, ahead of pending replies.
    pub(super) async fn send_wait_reply(
        &mut self,
        n: u64,
        reply: Result<String, Problem>,
    ) -> Result<(), CloseReason> {
        let text = reply.unwrap_or_else(|problem| {
            self.session.refused(&problem);
            frame::problem(Some(n), &problem)
        });
        self.feed(Message::Text(text.into())).await
    }

    /// Notifies the agent that work that it holds is no longer needed. A delivery that was not sent yet is dropped
    /// instead.
    pub(super) async fn notify_holder(&mut self, event: &HolderEvent) -> Result<(), CloseReason> {
        if let (HolderEvent::RequestEnded { delivery, .. }, Some(consumer)) = (event, &mut self.consumer)
            && let Some(unread) = consumer.drop_ended(*delivery)
        {
            match unread {
                UnreadDelivery::New => self.ledger.return_credit(1),
                UnreadDelivery::Resumed => self.ledger.skip_resumed(1),
            }
            self.grant().await;
            return Ok(());
        }
        let text = frame::holder_event(&self.session.space, event);
        self.feed(Message::Text(text.into())).await
    }

    /// Sends the result of the first pending operation.
    pub(super) async fn send_result(&mut self, outcome: Result<Receipt, Error>) -> Result<(), CloseReason> {
        let Some(Reply::Pending(n, _, operation)) = self.replies.pop_front() else { return Ok(()) };
        let text = match outcome {
            Ok(receipt) => {
                let seq = receipt.effective_seq();
                match operation {
                    PendingOperation::Grant { .. } => return Ok(()),
                    PendingOperation::Commit { resumed } => {
                        self.skip_resumed(&resumed);
                        frame::ok(n, &frame::commit_result(&self.session.space, &receipt))
                    }
                    PendingOperation::EndLeases { end, .. } => {
                        self.ended(&end, seq);
                        frame::ok(n, &json!({"seq": seq.map(|seq| seq.0)}))
                    }
                    PendingOperation::Extend => frame::ok(n, &json!({"seq": seq.map(|seq| seq.0)})),
                }
            }
            Err(error) => {
                let problem = Problem::from(error);
                self.ledger.expire(problem.stale());
                if let PendingOperation::EndLeases { credit, .. } | PendingOperation::Grant { credit } =
                    operation
                {
                    self.ledger.return_credit(u64::from(credit));
                }
                if matches!(operation, PendingOperation::Grant { .. }) {
                    return Ok(());
                }
                self.session.refused(&problem);
                frame::problem(Some(n), &problem)
            }
        };
        self.feed(Message::Text(text.into())).await
    }

    /// Records in the ledger how leases ended.
    fn ended(&mut self, end: &LeaseEnd, seq: Option<Seq>) {
        match end {
            LeaseEnd::Acked { ranges, resumed } => {
                self.ledger.acked(ranges, seq);
                self.skip_resumed(resumed);
            }
            LeaseEnd::Returned { ranges } => self.ledger.returned(ranges),
        }
    }

    /// Drops ended deliveries that were still to be redelivered. Runs before the reply to the commit that ended them:
    /// a delivery never follows the reply to its own ack.
    fn skip_resumed(&mut self, ended: &[LeaseRef]) {
        if let Some(consumer) = &mut self.consumer {
            self.ledger.skip_resumed(consumer.skip_resumed(ended));
        }
    }

    /// Sends the delivery and all that are available, as many as fit into a frame.
    pub(super) async fn deliver(&mut self, first: ReceivedDelivery) -> Result<(), CloseReason> {
        let now = self.session.app.engine().clock().now().wall;
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(delivery) = next.take() {
            let space = self.session.space.number();
            self.session.app.telemetry().trace_cache.insert(space, &delivery);
            let message = self.session.app.message_cache().render(space, &delivery);
            let bytes = batch.add(&views::delivery(&delivery, now, message));
            if let Some(full) = batch.overflow() {
                self.feed(Message::Text(full.text().into())).await?;
            }
            batch.number(self.ledger.send(delivery.lease, bytes as u64));
            if self.ledger.may_send()
                && batch.count < BATCH_MESSAGES_MAX
                && let Some(consumer) = &mut self.consumer
            {
                // An error is reported by the next wait.
                next = consumer.try_next().now_or_never().and_then(Result::ok).flatten();
            }
        }
        self.feed(Message::Text(batch.text().into())).await?;
        self.starved_since = None;
        if self.ledger.needs_grant() {
            self.grant().await;
        }
        Ok(())
    }

    /// Requests more deliveries if there is credit. Unsent deliveries without credit are released before their lease
    /// expires, without counting an attempt.
    pub(super) async fn check_deliveries(&mut self, now: Mono) {
        if self.ledger.may_send() {
            self.starved_since = None;
            return self.grant().await;
        }
        // Measured between periodic checks: deliveries that arrived in between are younger.
        let since = *self.starved_since.get_or_insert(now);
        let Some(consumer) = &mut self.consumer else { return };
        if now >= since.plus_ms(self.session.starved_after.as_millis() as u64) {
            let count = consumer.release_unread().await.unwrap_or(0);
            self.ledger.return_credit(count as u64);
            self.starved_since = None;
        }
    }

    pub(super) async fn feed(&mut self, message: Message) -> Result<(), CloseReason> {
        self.is_dirty = true;
        let timeout = self.session.app.settings().timeouts.write;
        match tokio::time::timeout(timeout, self.socket.feed(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(CloseReason::Disconnected),
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), CloseReason> {
        self.is_dirty = false;
        let timeout = self.session.app.settings().timeouts.write;
        match tokio::time::timeout(timeout, self.socket.flush()).await {
            Ok(Ok(())) => Ok(()),
            // The connection broke, or the client does not read. Sent deliveries stay leased until they expire or are
            // resumed.
            _ => Err(CloseReason::Disconnected),
        }
    }
}

/// Deliveries collected for one frame.
#[derive(Default)]
struct Batch {
    first: u64,
    count: usize,
    /// Byte offset of the last delivery.
    last: usize,
    items: Vec<u8>,
}

impl Batch {
    /// Appends a delivery and returns its size in bytes.
    fn add(&mut self, item: &Rendered) -> usize {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.last = self.items.len();
        self.count += 1;
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut self.items, item);
        self.items.len() - self.last
    }

    /// Sets the number of the last delivery.
    fn number(&mut self, number: u64) {
        if self.count == 1 {
            self.first = number;
        }
    }

    /// If the last delivery made the batch too large, returns all before it. The last one starts the next batch.
    fn overflow(&mut self) -> Option<Self> {
        if self.count < 2 || self.items.len() <= BATCH_BYTES_MAX {
            return None;
        }
        let next = Self { first: 0, count: 1, last: 0, items: self.items.split_off(self.last) };
        let mut full = std::mem::replace(self, next);
        // Trailing comma.
        full.items.pop();
        Some(full)
    }

    fn text(self) -> String {
        // JSON is UTF-8.
        let items = String::from_utf8(self.items).unwrap_or_default();
        format!("{{\"first\":{},\"deliveries\":[{items}]}}", self.first)
    }
}
