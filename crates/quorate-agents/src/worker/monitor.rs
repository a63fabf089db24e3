//! Notices that the hub does not answer, and that it is back. The agents reconnect on their own; this is only for the person who
//! watches the worker.

use std::time::Duration;

use quorate::{Code, Hub};

use super::event::{EventSink, WorkerEvent};

/// Interval between two probes.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time after which the hub counts as lost.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Probes the hub until it is dropped. The probe reads this agent.
pub(super) async fn run(hub: Hub, agent: String, events: EventSink) {
    let mut was_lost = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let is_lost = match tokio::time::timeout(TIMEOUT, hub.agent_info(&agent)).await {
            Ok(Err(error)) => matches!(error.code(), Code::Unavailable),
            Ok(Ok(_)) => false,
            // The client retries for longer.
            Err(_) => true,
        };
        if is_lost != was_lost {
            events(if is_lost { WorkerEvent::HubLost } else { WorkerEvent::HubBack });
            was_lost = is_lost;
        }
    }
}
