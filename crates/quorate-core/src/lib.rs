//! Quorate's domain model and decision logic.
//!
//! Every state change is a [`Commit`]: a list of operations that is applied atomically. This crate defines which commits
//! are accepted ([`decide`]), what they do ([`Effect`]), how records are encoded and hash-chained ([`codec`], [`chain`]),
//! and the resulting state ([`Working`], [`World`]).
//!
//! It is pure: no I/O, no async, no clock, no SQL, no randomness. Time and entropy are passed in as arguments.

mod approval;
mod budget;
mod cause;
pub mod chain;
pub mod codec;
mod commit;
mod created;
mod decide;
mod destination;
mod effect;
mod entry;
mod error_chain;
mod fold;
pub mod hex;
mod ids;
mod inspect;
mod item;
pub mod limits;
mod lock;
mod message;
mod misread;
mod policy;
mod pool;
mod position;
mod presence;
mod procedure;
mod reach;
mod recipient;
mod refused;
mod registry;
mod request;
pub mod retry;
mod rights;
mod rows;
mod secret;
mod session;
mod snapshot;
mod store_error;
mod subscription;
mod task;
mod text_serde;
mod time;
mod token;
mod topic;
mod trace;
mod waits;
mod why;
mod working;

pub use approval::{
    ActionDigest, Approval, ApprovalState, DecideApproval, Decision, RequestApproval, Then, Verdict,
};
pub use budget::{Budget, SetBudget};
pub use cause::Cause;
pub use commit::{
    Commit, DeleteEntry, ErasePayload, Extend, Fingerprint, LeaseRef, Locked, Nack, NackThen, Op, OpResult,
    Principal, PutEntry, Receipt, RegisterAgent, Told, Waiting, check_lease,
};
pub use created::{Created, Creations, ItemRange};
pub use decide::{Decided, EndedOpen, Handed, No, RollbackPlan, decide, genesis, restored};
pub use destination::Destination;
pub use effect::{
    Body, Effect, EndState, Holding, NewDelivery, Next, Origin, Record, RecordKind, Restored, ReturnCause,
};
pub use entry::EntryHead;
pub use error_chain::error_chain;
pub use fold::{EntryVersion, World};
pub use ids::{
    AgentId, AgentNo, ApprovalId, BudgetId, Capability, ClientId, ConsumerId, DeliveryId, DeliveryNo, Epoch,
    Era, Eras, Fence, Generation, IdempotencyKey, Key, LockName, MessageId, PoolNo, ProcedureId, Seq,
    SessionId, SessionNo, SnapshotName, SpaceId, SpaceName, SpaceNo, TaskId, Token, TokenId, Version, row_id,
};
pub use inspect::{AgentFilter, AgentLook, DeliveryLook, Inspect, Inspected};
pub use item::{Alarm, Item, ItemKey, ItemKind, Keep, Verb};
pub use lock::{AcquireLocks, FenceRef, Grant, Lock, RenewLocks};
pub use message::{Durability, IfUnavailable, Message, MessageType, Payload, Priority, is_json};
pub use misread::misread;
pub use policy::{Broadcasts, InForce, Policy, Preset, Violation};
pub use pool::{Pool, Takers};
pub use position::{Page, When};
pub use presence::{Health, Heartbeat, Presence, Status, check_health_note};
pub use procedure::{Procedure, ProcedureStatus, StartProcedure, StepProcedure};
pub use reach::{Map, Reach};
pub use recipient::{Home, Recipient};
pub use refused::{Code, Facts, Refused, Stale, Waits};
pub use registry::{Agent, Agents, Role};
pub use request::{Ask, Asked, Reply, Request, RequestState};
pub use rights::Deed;
pub use rows::{Answered, Dead, Ended, EraseTarget, LookupFailed, Rows, Scan, SentBefore, VersionAt};
pub use secret::{NoSecret, Secret};
pub use session::{
    AddKind, AddToSession, ChangeSession, LineKind, OpenSession, Participant, Session, SessionChange,
    SessionStatus,
};
pub use snapshot::{MakeSnapshot, Rollback, RollbackTo, RollbackWhat, Snapshot, SnapshotState};
pub use store_error::StoreError;
pub use subscription::{BringHistory, Earlier, History, Letter, Subscribe, Subscription, SubscriptionState};
pub use task::{
    AwaitTask, CancelTask, Cancellation, ClaimTasks, CompleteTask, Completion, CreateTasks, Dependency,
    Escalate, EscalateTo, Escalation, FailTask, GivenUp, HeartbeatTask, NewTask, OnDependencyFailure,
    PartRef, Setback, SetbackKind, Task, TaskCounts, TaskHanded, TaskInput, TaskLease, TaskLeaseRef,
    TaskLoss, TaskNext, TaskNo, TaskPartial, TaskSpec, TaskState, TaskStatus, TaskTarget, TaskWaitsFor,
    TaskWhy,
};
pub use text_serde::{parse as parse_text, refusal_in};
pub use time::{Mono, Now, Timestamp};
pub use token::{AccessToken, Bearer, CreateToken, TokenDigest, TokenName, TokenRole, TokenState};
pub use topic::{Pattern, Topic};
pub use trace::{SpanId, TraceContext, TraceId};
pub use why::{Next as WhyNext, WaitsFor, Why};
pub use working::{Counts, Found, Head, Kept, Open, OpenState, Replayed, Tokens, Topics, Wake, Working};
