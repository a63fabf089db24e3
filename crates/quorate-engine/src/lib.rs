//! The engine: everything between a protocol frontend and the store.
//!
//! A frontend (the embedded library, HTTP, WebSocket) authenticates the caller and builds a
//! [`Commit`](quorate_core::Commit). The engine validates it on the caller's thread, passes it to the store,
//! dispatches deliveries to waiting consumers, and runs the timers for lease expiry, message expiry and scheduled
//! deliveries.

mod admission;
mod approvals;
mod audit;
mod causes;
mod consistency;
mod dependencies;
mod engine;
mod enqueue;
mod ephemeral;
mod error;
mod flag_screening;
mod flags;
mod heartbeats;
mod history;
mod holder_events;
mod idempotent_wait;
mod items;
mod json_check;
mod lock;
mod lock_wait;
mod mailboxes;
mod messages;
mod policy;
mod procedures;
mod reads;
mod registry;
mod request;
mod rollback;
mod seal;
mod secrets;
mod sessions;
mod space;
mod subscriptions;
mod sweep;
mod task;
mod timers;
mod tokens;
pub mod views;
mod violations;
mod watch;
mod why;
mod yielder;

pub use admission::Options;
pub use approvals::ApprovalView;
pub use audit::{AuditFailure, AuditProgress};
pub use engine::Engine;
pub use enqueue::PendingCommit;
pub use ephemeral::{
    EPHEMERAL_BYTES_MAX, EPHEMERAL_BYTES_PER_SENDER_MAX, EPHEMERAL_MESSAGES_MAX,
    EPHEMERAL_MESSAGES_PER_SENDER_MAX,
};
pub use error::{Error, RemoteError};
pub use flag_screening::{flag_has_no_answer, is_flag, is_flag_marker, is_marked as is_marked_private};
pub use flags::{FlagRequest, Flags};
pub use holder_events::HolderEvents;
pub use idempotent_wait::CommitBuilder;
pub use items::{ItemPage, StoredItem};
pub use mailboxes::{Consumer, MessageRef, ReceivedDelivery, UnreadDelivery};
pub use messages::{ListedMessage, MessageCursor, MessageFilter, MessagesPage, OutboxPage};
pub use procedures::{ProcedurePage, ProcedureView};
pub use reads::{DeliveryView, MessageView};
pub use registry::{AgentView, InboxEntry};
pub use request::{Answer, RequestWaiter};
pub use secrets::{Scanner, SecretHandling, SecretMatch};
pub use sessions::{RecordedContribution, RecordedSessionEvent, SessionEvent, TIMELINE_MAX};
pub use space::Space;
pub use task::{
    LeasedTaskWithInput, PartialResult, TaskClaimQuery, TaskConsumer, TaskConsumerEvent, TaskFilter, TaskView,
};
pub use watch::{MemoryEntryChange, Watch};
pub use yielder::Yielder;

pub use quorate_api::canonical::action_document;
// Parameters and results of reads.
pub use quorate_store::{
    AsOf, PublishedState, ReadQuery, SpaceInfo, StoreStats, StoredDeadLetter, StoredDeliveryState,
    StoredEntry, TimelinePage,
};
