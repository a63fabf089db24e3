//! Aggregates the log of a space into metrics and spans. Each record is read once, after it was acknowledged, without
//! involving the writer.

use quorate_core::{
    AgentNo, DeliveryNo, Effect, EndState, Record, RecordKind, ReturnCause, ReturnOutcome, Seq, Timestamp,
    codec,
};
use quorate_engine::{Error, Space, Yielder};

use super::histogram::Histogram;
use super::span_index::{MessagePosition, SpanIndex};

/// Records per read.
const PAGE: usize = 1_000;
/// Number of records before the start of the hub whose spans are restored, so that traces survive a restart.
const HISTORY: u64 = 20_000;

/// Counters of one space since the hub was started.
#[derive(Default)]
pub(super) struct SpaceCounters {
    pub(super) records: u64,
    pub(super) sweeps: u64,
    /// By message type and priority level.
    pub(super) sent: [[u64; 4]; 4],
    /// By message type.
    pub(super) received: [u64; 4],
    pub(super) redelivered: u64,
    /// From send to ack, by message type.
    pub(super) latency_ms: [Histogram; 4],
    /// From send to first delivery, by priority level.
    pub(super) queue_ms: [Histogram; 4],
    pub(super) leased: u64,
    /// By cause, as in [`RETURN_CAUSES`].
    pub(super) returned: [u64; RETURN_CAUSES.len()],
    /// By end state, as in [`END_STATES`].
    pub(super) ended: [u64; 4],
}

/// Causes of returned deliveries.
pub(super) const RETURN_CAUSES: [ReturnCause; 6] = [
    ReturnCause::Nacked,
    ReturnCause::LeaseExpired,
    ReturnCause::EpochEnded,
    ReturnCause::Released,
    ReturnCause::Offline,
    ReturnCause::Restored,
];
/// End states of deliveries.
pub(super) const END_STATES: [(EndState, &str); 4] = [
    (EndState::Acked, "acked"),
    (EndState::Dead, "dead"),
    (EndState::Expired, "expired"),
    (EndState::Purged, "purged"),
];

/// Incremental aggregate of one space's log.
pub(crate) struct LogMetrics {
    next: Seq,
    /// First record that is counted; earlier ones are read for their spans only.
    from: Seq,
    pub(super) counters: SpaceCounters,
    pub(crate) spans: SpanIndex,
    /// Messages whose last delivery has ended, if an exporter collects them.
    finished: Option<Vec<MessagePosition>>,
}

impl LogMetrics {
    /// Starts [`HISTORY`] records before the head.
    pub(super) fn new(head: Seq, is_exporting: bool) -> Self {
        Self {
            next: Seq(head.0.saturating_sub(HISTORY) + 1),
            from: Seq(head.0 + 1),
            counters: SpaceCounters::default(),
            spans: SpanIndex::default(),
            finished: is_exporting.then(Vec::new),
        }
    }

    /// Returns the next record to read.
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// Reads at most one page. Returns whether everything up to `to` has been read.
    pub(super) async fn read_page(&mut self, space: &Space, to: Seq) -> Result<bool, Error> {
        if self.next > to {
            return Ok(true);
        }
        let records = space.records_without_payloads(self.next, PAGE).await?;
        if records.is_empty() {
            return Ok(true);
        }
        let mut yielder = Yielder::default();
        for record in &records {
            self.apply(space, record);
            yielder.after_record(record).await;
        }
        Ok(self.next > to)
    }

    /// Returns the messages that have ended since the last call.
    pub(super) fn take_finished(&mut self) -> Vec<MessagePosition> {
        self.finished.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn apply(&mut self, space: &Space, record: &Record) {
        self.next = Seq(record.seq.0 + 1);
        let is_counted = record.seq >= self.from;
        if is_counted {
            self.counters.records += 1;
            self.counters.sweeps += u64::from(record.kind == RecordKind::Sweep.number());
        }
        // Skip records in a format of a later release.
        let Ok(body) = codec::read_without_payload(record) else { return };
        let generations = std::sync::Arc::clone(&space.published().generations);
        let mut n = 0;
        for effect in &body.effects {
            let step = Step { metrics: self, at: record.at, is_counted };
            if let Effect::Sent { message, first, deliveries, .. } = effect {
                let id = generations.message_id(record.seq, n);
                n += 1;
                if step.metrics.spans.add_message(id, record.at, message).is_some() {
                    step.sent((id.seq, id.n), *first, deliveries);
                }
            } else {
                step.apply(effect);
            }
        }
    }
}

/// One effect being applied.
struct Step<'a> {
    metrics: &'a mut LogMetrics,
    at: Timestamp,
    is_counted: bool,
}

impl Step<'_> {
    fn sent(
        mut self,
        position: MessagePosition,
        first: DeliveryNo,
        deliveries: &[quorate_core::NewDelivery],
    ) {
        let Some(span) = self.metrics.spans.get_mut(position) else { return };
        let (kind, level) = (span.kind as usize, span.level);
        if self.is_counted {
            self.metrics.counters.sent[kind][level] += 1;
        }
        for (number, delivery) in (first.0..).map(DeliveryNo).zip(deliveries) {
            self.metrics.spans.add_delivery(position, number, delivery.to.agent_no());
            if delivery.lease.is_some() {
                self.leased(position, number, None);
            }
        }
        if deliveries.is_empty() {
            // An answer goes directly to the waiting requester, without a delivery.
            if self.is_counted && kind == quorate_core::MessageType::Response as usize {
                self.metrics.counters.received[kind] += 1;
                self.metrics.counters.latency_ms[kind].observe(0);
            }
            self.finish(position);
        }
    }

    /// Applies any effect except a sent message.
    fn apply(mut self, effect: &Effect) {
        match effect {
            Effect::Leased { deliveries, .. } => {
                deliveries
                    .iter()
                    .for_each(|held| self.leased(held.origin.message_position(), held.delivery, None));
            }
            Effect::LeasedFromPool { agent, deliveries, .. } => {
                for held in deliveries {
                    self.leased(held.origin.message_position(), held.delivery, Some(*agent));
                }
            }
            Effect::Acked { delivery, origin, .. } => {
                self.ended(origin.message_position(), *delivery, EndState::Acked)
            }
            Effect::AckedMany { deliveries } => {
                for held in deliveries {
                    self.ended(held.origin.message_position(), held.delivery, EndState::Acked);
                }
            }
            Effect::Returned { delivery, origin, cause, next, .. } => {
                self.returned(origin.message_position(), *delivery, *cause, *next);
            }
            Effect::Expired { delivery, origin } => {
                self.ended(origin.message_position(), *delivery, EndState::Expired)
            }
            Effect::Purged { delivery, origin } => {
                self.ended(origin.message_position(), *delivery, EndState::Purged)
            }
            Effect::DeniedByPolicy { delivery, origin } => {
                self.ended(origin.message_position(), *delivery, EndState::Dead)
            }
            Effect::Redriven { delivery, seq, n, .. } => {
                if let Some((span, index)) = self.metrics.spans.find((*seq, *n), *delivery) {
                    span.reopen(index);
                }
            }
            Effect::Backfilled { agent, first, messages } => {
                for (number, message) in (first.0..).map(DeliveryNo).zip(messages) {
                    self.metrics.spans.add_delivery((message.seq, message.n), number, Some(*agent));
                }
            }
            _ => {}
        }
    }

    fn leased(&mut self, position: MessagePosition, number: DeliveryNo, to: Option<AgentNo>) {
        self.metrics.counters.leased += u64::from(self.is_counted);
        let (at, is_counted) = (self.at, self.is_counted);
        let Some((span, index)) = self.metrics.spans.find(position, number) else { return };
        let (kind, level, due) = (span.kind as usize, span.level, span.due);
        let delivery = &mut span.deliveries[index];
        let is_first = delivery.delivered_at.is_none();
        delivery.delivered_at.get_or_insert(at);
        delivery.attempts = delivery.attempts.saturating_add(1);
        delivery.agent = to.or(delivery.agent);
        if !is_counted {
            return;
        }
        if is_first {
            self.metrics.counters.received[kind] += 1;
            self.metrics.counters.queue_ms[level].observe(at.0.saturating_sub(due.0));
        } else {
            self.metrics.counters.redelivered += 1;
        }
    }

    fn returned(
        &mut self,
        position: MessagePosition,
        number: DeliveryNo,
        cause: ReturnCause,
        next: ReturnOutcome,
    ) {
        if self.is_counted
            && let Some(index) = RETURN_CAUSES.iter().position(|other| *other == cause)
        {
            self.metrics.counters.returned[index] += 1;
        }
        if let Some((span, index)) = self.metrics.spans.find(position, number) {
            let delivery = &mut span.deliveries[index];
            delivery.last_return = Some(cause);
            if let ReturnOutcome::Redirected(agent) = next {
                delivery.agent = Some(agent);
            }
        }
        match next {
            ReturnOutcome::Dead => self.ended(position, number, EndState::Dead),
            ReturnOutcome::Expired => self.ended(position, number, EndState::Expired),
            ReturnOutcome::Ready | ReturnOutcome::Scheduled(_) | ReturnOutcome::Redirected(_) => {}
        }
    }

    fn ended(&mut self, position: MessagePosition, number: DeliveryNo, state: EndState) {
        if self.is_counted
            && let Some(index) = END_STATES.iter().position(|(other, _)| *other == state)
        {
            self.metrics.counters.ended[index] += 1;
        }
        let (at, is_counted) = (self.at, self.is_counted);
        let Some((span, index)) = self.metrics.spans.find(position, number) else { return };
        let (kind, sent_at) = (span.kind as usize, span.at);
        let is_last = span.end(index, at, state);
        if is_counted && state == EndState::Acked {
            self.metrics.counters.latency_ms[kind].observe(at.0.saturating_sub(sent_at.0));
        }
        if is_last {
            self.finish(position);
        }
    }

    fn finish(&mut self, position: MessagePosition) {
        let Some(finished) = &mut self.metrics.finished else { return };
        if !self.is_counted {
            return;
        }
        // A redriven dead letter ends twice, but is exported once.
        if let Some(span) = self.metrics.spans.get_mut(position)
            && !std::mem::replace(&mut span.exported, true)
        {
            finished.push(position);
        }
    }
}
