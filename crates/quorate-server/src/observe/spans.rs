//! The newest spans of a space, and what became of each: an index over a window of the log, bounded in memory. What a
//! message says is not in it; whoever shows a span reads the message from the log.

use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use quorate_core::{
    AgentNo, DeliveryNo, EndState, Message, MessageId, MessageType, ReturnCause, Seq, SpanId, Timestamp,
    TraceContext, TraceId,
};

/// Spans that are known at a time; the oldest make room.
pub(crate) const SPANS_MAX: usize = 50_000;
/// Deliveries of them.
const DELIVERIES_MAX: usize = 200_000;

/// Where a message lies: its record, and which message of it.
pub(crate) type Place = (Seq, u32);

/// A message as a span.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) at: Timestamp,
    /// From when on it could be handed out.
    pub(crate) due: Timestamp,
    pub(crate) kind: MessageType,
    pub(crate) level: usize,
    /// By number, which is the order in which they come.
    pub(crate) deliveries: Vec<Delivered>,
    /// How many of them have not ended.
    open: usize,
    /// When the last delivery ended.
    pub(crate) ended_at: Option<Timestamp>,
    /// Whether it was handed to whoever collects spans.
    pub(crate) exported: bool,
}

/// What became of one delivery.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub(crate) number: DeliveryNo,
    /// Who has it, had it, or will have it; nobody yet if it waits for whoever can.
    pub(crate) agent: Option<AgentNo>,
    pub(crate) handed_at: Option<Timestamp>,
    pub(crate) attempts: u16,
    /// Why it came back the last time, if it did.
    pub(crate) returned: Option<ReturnCause>,
    pub(crate) ended: Option<(Timestamp, EndState)>,
}

impl Span {
    /// Notes how one of its deliveries ended. Says whether it was the last.
    pub(crate) fn end(&mut self, index: usize, at: Timestamp, how: EndState) -> bool {
        if self.deliveries[index].ended.replace((at, how)).is_none() {
            self.open -= 1;
        }
        if self.open == 0 {
            self.ended_at = Some(at);
        }
        self.open == 0
    }

    /// Notes that a delivery that had ended is given out again.
    pub(crate) fn reopen(&mut self, index: usize) {
        if self.deliveries[index].ended.take().is_some() {
            self.open += 1;
        }
        self.ended_at = None;
    }
}

/// The index.
#[derive(Default)]
pub(crate) struct Spans {
    spans: BTreeMap<Place, Span>,
    traces: HashMap<TraceId, VecDeque<Place>, RandomState>,
    /// How many deliveries they have together.
    deliveries: usize,
    /// Spans that made room before they had ended.
    pub(crate) forgotten: u64,
}

impl Spans {
    /// Takes in a message. Without a delivery it has ended with that.
    pub(crate) fn sent(&mut self, id: MessageId, at: Timestamp, message: &Message) -> Option<&mut Span> {
        let context = TraceContext::of(id, message)?;
        let place = (id.seq, id.n);
        // Most traces are one message, and most messages one delivery: room for more is made when it is needed.
        self.traces.entry(context.trace).or_insert_with(|| VecDeque::with_capacity(1)).push_back(place);
        let span = Span {
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
        self.spans.insert(place, span);
        self.make_room();
        self.spans.get_mut(&place)
    }

    /// Adds a delivery to a span that is known.
    pub(crate) fn delivery(&mut self, place: Place, number: DeliveryNo, agent: Option<AgentNo>) {
        let Some(span) = self.spans.get_mut(&place) else { return };
        let new = Delivered { number, agent, handed_at: None, attempts: 0, returned: None, ended: None };
        if span.deliveries.is_empty() {
            span.deliveries.reserve_exact(1);
        }
        span.deliveries.push(new);
        span.open += 1;
        span.ended_at = None;
        self.deliveries += 1;
        self.make_room();
    }

    /// The span of a delivery, if it is known, and which of its deliveries that is.
    pub(crate) fn find(&mut self, place: Place, number: DeliveryNo) -> Option<(&mut Span, usize)> {
        let span = self.spans.get_mut(&place)?;
        let index = span.deliveries.binary_search_by_key(&number, |delivery| delivery.number).ok()?;
        Some((span, index))
    }

    fn make_room(&mut self) {
        while self.spans.len() > SPANS_MAX || self.deliveries > DELIVERIES_MAX {
            let Some((_, span)) = self.spans.pop_first() else { return };
            self.deliveries -= span.deliveries.len();
            self.forgotten += u64::from(span.ended_at.is_none());
            if let Some(places) = self.traces.get_mut(&span.context.trace) {
                // The oldest span of all is also the oldest of its trace.
                places.pop_front();
                if places.is_empty() {
                    self.traces.remove(&span.context.trace);
                }
            }
        }
    }

    /// The spans of a trace, oldest first.
    pub(crate) fn of_trace(&self, trace: TraceId, max: usize) -> Vec<(Place, Span)> {
        let places = self.traces.get(&trace).into_iter().flatten().take(max);
        places.filter_map(|place| Some((*place, self.spans.get(place)?.clone()))).collect()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Span> {
        self.spans.get_mut(&place)
    }

    /// The oldest record of which a span is known.
    pub(crate) fn oldest(&self) -> Option<Seq> {
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

    use super::{SPANS_MAX, Spans};

    // Fails under: an index that keeps what it was told for ever.
    #[test]
    fn i21_the_index_of_spans_is_bounded() {
        let mut spans = Spans::default();
        let payload = Payload::seal(Bytes::from_static(b"1"), [7; 16]);
        let message = Message::new(Destination::Everybody, "go", payload);
        let extra = 100;
        for seq in 1..=(SPANS_MAX + extra) as u64 {
            let id = MessageId { generation: Generation(0), seq: Seq(seq), n: 0 };
            spans.sent(id, Timestamp(seq), &message);
            spans.delivery((Seq(seq), 0), DeliveryNo(seq), Some(AgentNo(1)));
        }
        assert_eq!((spans.len(), spans.oldest()), (SPANS_MAX, Some(Seq(extra as u64 + 1))));
        assert_eq!((spans.deliveries, spans.traces.len()), (SPANS_MAX, 1));
        assert_eq!(spans.forgotten, extra as u64);
        let trace = *spans.traces.keys().next().expect("one trace");
        assert_eq!(spans.of_trace(trace, 2).len(), 2);
        let mut knows = |seq| spans.find((Seq(seq), 0), DeliveryNo(seq)).is_some();
        assert!(!knows(1) && knows(9_999));
    }
}
