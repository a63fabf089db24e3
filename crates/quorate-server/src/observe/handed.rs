//! Which spans were handed out of late, so that what an agent sends within one continues its trace, whether it says so or
//! not. In memory and bounded: what is forgotten is found in the log by its cause, or begins a trace of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use quorate_core::{ClientId, DeliveryId, Message, MessageId, Op, SpaceNo, TraceContext};
use quorate_engine::{Delivery, MessageRef, Space};

use crate::app::App;

/// Hand-overs that are remembered.
const HANDED_MAX: usize = 16_384;

#[derive(Default)]
struct Inner {
    by_delivery: HashMap<(SpaceNo, DeliveryId), TraceContext, RandomState>,
    by_message: HashMap<(SpaceNo, MessageId), TraceContext, RandomState>,
    order: VecDeque<(SpaceNo, DeliveryId, MessageId)>,
}

/// What was handed out of late.
#[derive(Default)]
pub(crate) struct Handed(Mutex<Inner>);

impl Handed {
    /// A delivery is on its way to its recipient.
    pub(crate) fn note(&self, space: SpaceNo, delivery: &Delivery) {
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
        if inner.order.len() > HANDED_MAX
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

/// Lets the messages of a commit continue the trace that they belong to: the one that they name, else the one of the
/// request, else the one of what they answer or were caused by, else the one of the delivery that the commit ends.
pub(crate) async fn continued(app: &App, space: &Space, ops: &mut [Op], given: Option<TraceContext>) {
    let handed = &app.observed().handed;
    let mut acked = ops.iter().filter_map(|op| match op {
        Op::Ack(lease) => Some(lease.delivery),
        Op::AckMany(leases) => match leases.as_slice() {
            [lease] => Some(lease.delivery),
            _ => None,
        },
        _ => None,
    });
    let step = match (acked.next(), acked.next()) {
        (Some(one), None) => handed.of_delivery(space.number(), one),
        _ => None,
    };
    for op in ops {
        let Some(message) = message_of(op) else { continue };
        if message.traceparent.is_some() {
            continue;
        }
        let context = match given {
            Some(given) => Some(given),
            None => led_to(app, space, message).await.or(step),
        };
        if let Some(context) = context {
            set(op, context);
        }
    }
}

/// A message by itself: as [`continued`].
pub(crate) async fn one_continued(
    app: &App,
    space: &Space,
    message: &mut Message,
    given: Option<TraceContext>,
) {
    if message.traceparent.is_some() {
        return;
    }
    let context = match given {
        Some(given) => Some(given),
        None => led_to(app, space, message).await,
    };
    message.traceparent = context.map(|context| context.to_string());
}

/// The trace of what a message answers, else of what caused it. One that is not there is the sender's affair, and no reason
/// to refuse what it says.
async fn led_to(app: &App, space: &Space, message: &Message) -> Option<TraceContext> {
    for cause in [&message.in_reply_to, &message.causation_id].into_iter().flatten() {
        if let Some(context) = context_of(app, space, cause).await {
            return Some(context);
        }
    }
    None
}

/// The trace of a message by its id, the hub's or its sender's.
async fn context_of(app: &App, space: &Space, cause: &str) -> Option<TraceContext> {
    let view = match cause.parse::<MessageId>() {
        Ok(id) => match app.observed().handed.of_message(space.number(), id) {
            Some(context) => return Some(context),
            None => space.message(id).await,
        },
        // Of what lives in memory only nothing is kept.
        Err(_) if cause.starts_with("eph_") => return None,
        Err(_) => space.message_by_client_id(&ClientId::new(cause).ok()?).await,
    };
    let view = view.ok()?;
    TraceContext::of(view.id, &view.message)
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Send { message, .. } => Some(message),
        Op::Request(ask) => Some(&ask.message),
        _ => None,
    }
}

fn set(op: &mut Op, context: TraceContext) {
    let text = Some(context.to_string());
    match op {
        Op::Send { message, .. } => std::sync::Arc::make_mut(message).traceparent = text,
        Op::Request(ask) => std::sync::Arc::make_mut(&mut ask.message).traceparent = text,
        _ => {}
    }
}
