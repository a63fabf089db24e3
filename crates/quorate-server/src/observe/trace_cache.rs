//! Trace contexts of recent deliveries. A message that an agent sends while it handles a delivery continues the trace
//! of that delivery, even if the agent does not set `traceparent`. In memory and bounded: after eviction the context
//! is read from the log by causation, or the message starts a new trace.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use quorate_core::{ClientId, DeliveryId, Message, MessageId, Op, SpaceNo, TraceContext};
use quorate_engine::{MessageRef, ReceivedDelivery, Space};

use crate::app::App;

/// Maximum number of cached deliveries.
const CACHED_MAX: usize = 16_384;

#[derive(Default)]
struct Inner {
    by_delivery: HashMap<(SpaceNo, DeliveryId), TraceContext, RandomState>,
    by_message: HashMap<(SpaceNo, MessageId), TraceContext, RandomState>,
    order: VecDeque<(SpaceNo, DeliveryId, MessageId)>,
}

/// Cache of trace contexts of recent deliveries.
#[derive(Default)]
pub(crate) struct TraceCache(Mutex<Inner>);

impl TraceCache {
    /// Stores the trace context of a delivery that is being sent.
    pub(crate) fn insert(&self, space: SpaceNo, delivery: &ReceivedDelivery) {
        let (Some(lease), MessageRef::Durable(message), Some(context)) =
            (delivery.lease, delivery.id, delivery.trace())
        else {
            return;
        };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.by_delivery.insert((space, lease.delivery), context).is_some() {
            return;
        }
        inner.by_message.insert((space, message), context);
        inner.order.push_back((space, lease.delivery, message));
        if inner.order.len() > CACHED_MAX
            && let Some((space, delivery, message)) = inner.order.pop_front()
        {
            inner.by_delivery.remove(&(space, delivery));
            inner.by_message.remove(&(space, message));
        }
    }

    fn of_delivery(&self, space: SpaceNo, delivery: DeliveryId) -> Option<TraceContext> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_delivery.get(&(space, delivery)).copied()
    }

    fn of_message(&self, space: SpaceNo, message: MessageId) -> Option<TraceContext> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_message.get(&(space, message)).copied()
    }
}

/// Sets the trace context of the messages in a commit. In order of precedence: the context that the message states,
/// the context of the request, the context of its cause (`inReplyTo`, then `causationId`), the context of the acked
/// delivery.
pub(crate) async fn propagate_traces(
    app: &App,
    space: &Space,
    ops: &mut [Op],
    from_request: Option<TraceContext>,
) {
    let cache = &app.telemetry().trace_cache;
    let mut acked = ops.iter().filter_map(|op| match op {
        Op::Ack(lease) => Some(lease.delivery),
        Op::AckMany(leases) => match leases.as_slice() {
            [lease] => Some(lease.delivery),
            _ => None,
        },
        _ => None,
    });
    let acked_context = match (acked.next(), acked.next()) {
        (Some(delivery), None) => cache.of_delivery(space.number(), delivery),
        _ => None,
    };
    for op in ops {
        let Some(message) = message_of(op) else { continue };
        if message.traceparent.is_some() {
            continue;
        }
        let context = match from_request {
            Some(from_request) => Some(from_request),
            None => cause_context(app, space, message).await.or(acked_context),
        };
        if let Some(context) = context {
            set_traceparent(op, context);
        }
    }
}

/// Like [`propagate_traces`], for a single message.
pub(crate) async fn propagate_trace(
    app: &App,
    space: &Space,
    message: &mut Message,
    from_request: Option<TraceContext>,
) {
    if message.traceparent.is_some() {
        return;
    }
    let context = match from_request {
        Some(from_request) => Some(from_request),
        None => cause_context(app, space, message).await,
    };
    message.traceparent = context.map(|context| context.to_string());
}

/// Returns the trace context of the message it replies to, else of its cause. An unknown cause is ignored here.
async fn cause_context(app: &App, space: &Space, message: &Message) -> Option<TraceContext> {
    for cause in [&message.in_reply_to, &message.causation_id].into_iter().flatten() {
        if let Some(context) = context_of(app, space, cause).await {
            return Some(context);
        }
    }
    None
}

/// Returns the trace context of a message by its hub id or client id.
async fn context_of(app: &App, space: &Space, cause: &str) -> Option<TraceContext> {
    let view = match cause.parse::<MessageId>() {
        Ok(id) => match app.telemetry().trace_cache.of_message(space.number(), id) {
            Some(context) => return Some(context),
            None => space.message(id).await,
        },
        // Ephemeral messages are not stored.
        Err(_) if cause.starts_with("eph_") => return None,
        Err(_) => space.message_by_client_id(&ClientId::new(cause).ok()?).await,
    };
    let view = view.ok()?;
    TraceContext::of_message(view.id, &view.message)
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Send { message, .. } => Some(message),
        Op::Request(request) => Some(&request.message),
        _ => None,
    }
}

fn set_traceparent(op: &mut Op, context: TraceContext) {
    let text = Some(context.to_string());
    match op {
        Op::Send { message, .. } => std::sync::Arc::make_mut(message).traceparent = text,
        Op::Request(request) => std::sync::Arc::make_mut(&mut request.message).traceparent = text,
        _ => {}
    }
}
