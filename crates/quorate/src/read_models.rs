//! Read models: agents, inboxes, dead letters, messages, budgets. They are the JSON types of the API, so embedded and
//! remote hubs return the same types.

pub use quorate_api::agent::{Agent as AgentInfo, AgentLoad};
pub use quorate_api::budget::Budget;
pub use quorate_api::delivery::{DeliveryState, DeliveryStatus};
pub use quorate_api::inbox::{DeadLetter, InboxDelivery};
pub use quorate_api::message::MessageWithDeliveries;
pub use quorate_api::rollback::Snapshot;
