//! Events for an agent as the holder of leases, received over its WebSocket.

use std::sync::Arc;

use quorate::Error;
use quorate::backend::{BackendFuture, HeldWork, LeaseEvent, LeaseEventStream};
use quorate_api::delivery::EndedRequest;
use quorate_api::task::LostTask;
use quorate_core::TaskLeaseRef;

use super::Socket;

/// Returns the event of a `requestEnded` frame.
pub(super) fn of_request(ended: &EndedRequest) -> LeaseEvent {
    LeaseEvent::Ended(HeldWork::Delivery(ended.delivery_id))
}

/// Returns the event of a `taskLost` frame.
pub(super) fn of_task(lost: LostTask) -> LeaseEvent {
    LeaseEvent::Ended(HeldWork::Task(TaskLeaseRef { task: lost.task, token: lost.lease_token }))
}

/// Stream of the events of a socket.
pub(crate) struct SocketLeaseEvents {
    socket: Socket,
    owner: SocketOwner,
}

/// What closes a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SocketOwner {
    /// The consumer of its deliveries.
    Inbox,
    /// The stream of its events: the socket was opened for it.
    LeaseEvents,
}

impl SocketLeaseEvents {
    pub(crate) fn new(socket: Socket, owner: SocketOwner) -> Self {
        Self { socket, owner }
    }
}

impl LeaseEventStream for SocketLeaseEvents {
    fn next(&mut self) -> BackendFuture<'_, Option<LeaseEvent>> {
        Box::pin(async move {
            let shared = &self.socket.0;
            loop {
                let (event, end): (_, Option<Option<Error>>) = {
                    let mut state = shared.state();
                    (state.pop_lease_event(), state.outcome.clone())
                };
                match (event, end) {
                    (Some(event), _) => return Ok(Some(event)),
                    (None, Some(Some(error))) => return Err(error),
                    (None, Some(None)) => return Ok(None),
                    (None, None) => shared.lease_ended.notified().await,
                }
            }
        })
    }
}

impl Drop for SocketLeaseEvents {
    fn drop(&mut self) {
        if self.owner == SocketOwner::LeaseEvents {
            let shared = Arc::clone(&self.socket.0);
            shared.state().closing = true;
            shared.send_ready.notify_one();
        }
    }
}
