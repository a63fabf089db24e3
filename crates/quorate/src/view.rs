//! What callers read: agents, inboxes, dead letters, messages, budgets. They are the JSON types of the interface, so they
//! are the same whether the hub is embedded or remote.

pub use quorate_api::agent::{Agent as AgentInfo, Load};
pub use quorate_api::budget::Budget;
pub use quorate_api::delivery::{DeliveryState, DeliveryStatus};
pub use quorate_api::inbox::{DeadLetter, InboxDelivery};
pub use quorate_api::message::MessageWithDeliveries;
pub use quorate_api::rollback::Snapshot;
