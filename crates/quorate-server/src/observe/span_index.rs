//! Index of the newest spans of a space and their deliveries: a bounded window of the log. It does not contain
//! message content, which is read from the log when needed.

use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use quorate_core::{
    AgentNo, DeliveryNo, EndState, Message, MessageId, MessageType, ReturnCause, Seq, SpanId, Timestamp,
    TraceContext, TraceId,
};

/// Maximum number of spans in memory. The oldest are evicted.
pub(crate) const SPANS_MAX: usize = 50_000;
/// Maximum number of their deliveries.
const DELIVERIES_MAX: usize = 200_000;

/// Position of a message: sequence number of its record, and index of the message in that record.
pub(crate) type MessagePosition = (Seq, u32);

/// Span of a message.
#[derive(Clone, Debug)]
pub(crate) struct MessageSpan {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) at: Timestamp,
    /// Time from which it could be delivered.
    pub(crate) due: Timestamp,
    pub(crate) kind: MessageType,
    pub(crate) level: usize,
    /// In order of their numbers.
    pub(crate) deliveries: Vec<DeliveryTrace>,
    /// Number of deliveries that have not ended.
    open: usize,
    /// Time at which the last delivery ended.
    pub(crate) ended_at: Option<Timestamp>,
    /// Whether it was passed to the exporter.
    pub(crate) exported: bool,
}

/// State of one delivery.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryTrace {
    pub(crate) number: DeliveryNo,
    /// Recipient; `None` for a pool delivery that no agent has claimed.
    pub(crate) agent: Option<AgentNo>,
    pub(crate) delivered_at: Option<Timestamp>,
    pub(crate) attempts: u16,
    /// Cause of the last return.
    pub(crate) last_return: Option<ReturnCause>,
    pub(crate) ended: Option<(Timestamp, EndState)>,
}

impl MessageSpan {
    /// Records the end of a delivery. Returns whether it was the last one.
    pub(crate) fn end(&mut self, index: usize, at: Timestamp, state: EndState) -> bool {
        if self.deliveries[index].ended.replace((at, state)).is_none() {
            self.open -= 1;
        }
        if self.open == 0 {
            self.ended_at = Some(at);
        }
        self.open == 0
    }

    /// Records that an ended delivery was redriven.
    pub(crate) fn reopen(&mut self, index: usize) {
        if self.deliveries[index].ended.take().is_some() {
            self.open += 1;
        }
        self.ended_at = None;
    }
}

/// Bounded index of spans and traces.
#[derive(Default)]
pub(crate) struct SpanIndex {
    spans: BTreeMap<MessagePosition, MessageSpan>,
    traces: HashMap<TraceId, VecDeque<MessagePosition>, RandomState>,
    /// Total number of deliveries.
    deliveries: usize,
    /// Number of spans evicted before they ended.
    pub(crate) evicted_open: u64,
}

impl SpanIndex {
    /// Adds a message. Without deliveries its span has ended already.
    pub(crate) fn add_message(
        &mut self,
        id: MessageId,
        at: Timestamp,
        message: &Message,
    ) -> Option<&mut MessageSpan> {
        let context = TraceContext::of_message(id, message)?;
        let position = (id.seq, id.n);
        // Most traces are one message, and most messages one delivery: allocate for one.
        self.traces.entry(context.trace).or_insert_with(|| VecDeque::with_capacity(1)).push_back(position);
        let span = MessageSpan {
            context,
            parent: TraceContext::parent_of(message).map(|parent| parent.span),
            at,
            due: message.deliver_at.map_or(at, |due| due.max(at)),
            kind: message.kind,
            level: usize::from(message.priority.level.min(3)),
            deliveries: Vec::new(),
            open: 0,
            ended_at: Some(at),
            exported: false,
        };
        self.spans.insert(position, span);
        self.evict();
        self.spans.get_mut(&position)
    }

    /// Adds a delivery to a span in the index.
    pub(crate) fn add_delivery(
        &mut self,
        position: MessagePosition,
        number: DeliveryNo,
        agent: Option<AgentNo>,
    ) {
        let Some(span) = self.spans.get_mut(&position) else { return };
        let delivery =
            DeliveryTrace { number, agent, delivered_at: None, attempts: 0, last_return: None, ended: None };
        if span.deliveries.is_empty() {
            span.deliveries.reserve_exact(1);
        }
        span.deliveries.push(delivery);
        span.open += 1;
        span.ended_at = None;
        self.deliveries += 1;
        self.evict();
    }

    /// Returns the span of a delivery and the index of the delivery in it.
    pub(crate) fn find(
        &mut self,
        position: MessagePosition,
        number: DeliveryNo,
    ) -> Option<(&mut MessageSpan, usize)> {
        let span = self.spans.get_mut(&position)?;
        let index = span.deliveries.binary_search_by_key(&number, |delivery| delivery.number).ok()?;
        Some((span, index))
    }

    fn evict(&mut self) {
        while self.spans.len() > SPANS_MAX || self.deliveries > DELIVERIES_MAX {
            let Some((_, span)) = self.spans.pop_first() else { return };
            self.deliveries -= span.deliveries.len();
            self.evicted_open += u64::from(span.ended_at.is_none());
            if let Some(positions) = self.traces.get_mut(&span.context.trace) {
                // The oldest span is also the oldest of its trace.
                positions.pop_front();
                if positions.is_empty() {
                    self.traces.remove(&span.context.trace);
                }
            }
        }
    }

    /// Returns the spans of a trace, oldest first.
    pub(crate) fn of_trace(&self, trace: TraceId, max: usize) -> Vec<(MessagePosition, MessageSpan)> {
        let positions = self.traces.get(&trace).into_iter().flatten().take(max);
        positions.filter_map(|position| Some((*position, self.spans.get(position)?.clone()))).collect()
    }

    pub(crate) fn get_mut(&mut self, position: MessagePosition) -> Option<&mut MessageSpan> {
        self.spans.get_mut(&position)
    }

    /// Returns the oldest record with a span in the index.
    pub(crate) fn oldest_seq(&self) -> Option<Seq> {
        self.spans.first_key_value().map(|((seq, _), _)| *seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use quorate_core::{
        AgentNo, DeliveryNo, Destination, Generation, Message, MessageId, Payload, Seq, Timestamp,
    };

    use super::{SPANS_MAX, SpanIndex};

    // Fails under: an index that grows without bound.
    #[test]
    fn i21_the_span_index_is_bounded() {
        let mut spans = SpanIndex::default();
        let payload = Payload::seal(Bytes::from_static(b"1"), [7; 16]);
        let message = Message::new(Destination::Broadcast, "go", payload);
        let extra = 100;
        for seq in 1..=(SPANS_MAX + extra) as u64 {
            let id = MessageId { generation: Generation(0), seq: Seq(seq), n: 0 };
            spans.add_message(id, Timestamp(seq), &message);
            spans.add_delivery((Seq(seq), 0), DeliveryNo(seq), Some(AgentNo(1)));
        }
        assert_eq!((spans.len(), spans.oldest_seq()), (SPANS_MAX, Some(Seq(extra as u64 + 1))));
        assert_eq!((spans.deliveries, spans.traces.len()), (SPANS_MAX, 1));
        assert_eq!(spans.evicted_open, extra as u64);
        let trace = *spans.traces.keys().next().expect("one trace");
        assert_eq!(spans.of_trace(trace, 2).len(), 2);
        let mut contains = |seq| spans.find((Seq(seq), 0), DeliveryNo(seq)).is_some();
        assert!(!contains(1) && contains(9_999));
    }
}
