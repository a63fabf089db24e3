//! A hub for AI agents: durable messages, tasks, locks and shared memory, embedded in your process and stored on
//! disk.
//!
//! A [`Hub`] is an open data directory. Agents join it, send messages to each other, claim them under a lease, and
//! finish each step of their work with one atomic commit. A commit that has returned is on disk, and a step takes
//! effect exactly once or not at all.
//!
//! ```
//! use quorate::{Failure, Hub, Work};
//!
//! async fn review(work: Work<String>) -> Result<String, Failure> {
//!     Ok(format!("{}: looks good", work.payload))
//! }
//!
//! # async fn hello(directory: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let hub = Hub::open(directory).await?;
//! let _reviewer = hub.agent("reviewer").on("review", review).run().await?;
//! let alice = hub.agent("alice").join().await?;
//! alice.send("reviewer", "review", "my draft").await?;
//! let answer = alice.receive(std::time::Duration::from_secs(5)).await?.ok_or("no answer")?;
//! assert_eq!(answer.payload::<String>()?, "my draft: looks good");
//! alice.step(&answer).commit().await?;
//! hub.close().await;
//! # Ok(())
//! # }
//! # let directory = tempfile::tempdir().unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(hello(&directory.path().join("team"))).unwrap();
//! ```
//!
//! To use a hub that runs in another process, connect with the crate `quorate-client`. It returns the same [`Hub`].
//!
//! # Errors
//!
//! All calls return [`Error`]. [`Error::code`] is stable and documented; [`Error::nothing_applied`] is `true` if the
//! call certainly had no effect. In addition to the codes listed for each method, every call can fail with a storage
//! error (`STORAGE_FAILED`, `STORAGE_FULL`) and, over the network, with `UNAVAILABLE`.

mod agent;
mod approval;
pub mod backend;
mod budget;
#[cfg(feature = "embedded")]
mod deliberations;
#[cfg(feature = "embedded")]
mod embedded;
mod handler;
mod held_leases;
mod hub;
mod lock;
mod memory;
mod procedure;
mod read_models;
mod request;
mod rollback;
mod running;
mod send;
mod session;
mod step;
mod task;
mod topics;

pub use agent::{Agent, AgentBuilder, ReceivedMessage};
pub use approval::{Approval, ApprovalDraft, ApprovalInfo, ApprovalStatus, Approver};
pub use handler::{Failure, Work};
pub use hub::Hub;
#[cfg(feature = "embedded")]
pub use hub::{HubOptions, OpenHubError};
pub use lock::{LockBuilder, LockGuard};
pub use memory::{Memory, MemoryChange, MemoryEntry, MemoryWatch};
pub use procedure::{Procedure, ProcedureDraft, ProcedureInfo, ProcedureStep};
pub use read_models::{
    AgentInfo, AgentLoad, Budget, DeadLetter, DeliveryState, DeliveryStatus, InboxDelivery,
    MessageWithDeliveries, Snapshot,
};
pub use request::{AskBuilder, Replies, Reply, RequestHandle};
pub use running::RunningAgent;
pub use send::{SendBuilder, SendReceipt};
pub use session::{
    Session, SessionContribution, SessionInfo, TimelineChange, TimelineContribution, TimelineEntry,
    TimelineEvent, TimelineMessage, TimelineRecord,
};
pub use step::Step;
pub use task::{ClaimedTask, Task, TaskDraft, TaskWithPayloads, TaskWork};
pub use topics::SubscribeBuilder;

pub use quorate_api::page::{Order, Page, PageQuery};
pub use quorate_api::query::{
    ListedMessage, MessageCursor, MessageFilter, MessagesPage, OutboxPage, TaskFilter,
};
pub use quorate_api::received::MessageRef;
pub use quorate_api::rollback::{
    ConsistencyCounts, ConsistencyReport, DerivedEntry, Inconsistency, RestoredEntry, RollbackResult,
};
pub use quorate_api::session::Participant;
pub use quorate_api::task::{DependencyResult, TaskContext};
pub use quorate_api::{Error, RemoteError};
pub use quorate_core::{
    ActionDigest, AgentFilter, AgentRole, AgentStatus, AnswerFrom, ApprovalId, Code, ContributionKind,
    DeclarationDigest, DeliveryId, DeliveryStateCounts, EndState, Fence, FenceRef, Health, IfUnavailable,
    LeaseToken, MessageId, MessageType, NextTransition, OnDependencyFailure, Pattern, Policy, Preset,
    Priority, ProcedureId, ProcedureStatus, Refused, RollbackTarget, Seq, SessionStatus, TaskCounts, TaskId,
    TaskLeaseRef, TaskStatus, Timestamp, Verb, Version, Violation, WaitsFor, Why,
};
#[cfg(feature = "embedded")]
pub use quorate_engine::SecretHandling;
pub use quorate_env::{Clock, Entropy, ManualClock, SystemClock};
#[cfg(feature = "embedded")]
pub use quorate_procedures::{ProcedureHost, Registry, deliberation, machine, proposal};
#[cfg(feature = "embedded")]
pub use quorate_sqlite::OpenError;
#[cfg(feature = "embedded")]
pub use quorate_store::BackupPosition;

/// Compiles the example of the README as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
