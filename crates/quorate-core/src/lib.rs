//! Quorate's domain model and decision logic.
//!
//! Every state change is a [`Commit`]: a list of operations that is applied atomically. This crate defines which commits
//! are accepted ([`decide`]), what they do ([`Effect`]), how records are encoded and hash-chained ([`codec`],
//! [`hash_chain`]), and the resulting state ([`WorkingState`], [`ReplayedSpace`]).
//!
//! It is pure: no I/O, no async, no clock, no SQL, no randomness. Time and entropy are passed in as arguments.

mod access_token;
mod approval;
mod budget;
mod cause;
pub mod codec;
mod commit;
mod creation_order;
mod deadlock;
mod decide;
mod declaration;
mod destination;
mod effect;
mod entry;
mod error_chain;
mod grants;
pub mod hash_chain;
pub mod hex;
mod hidden_character;
mod history_position;
mod ids;
mod inspect;
mod item;
mod json_error;
pub mod limits;
mod lock;
mod lookup;
mod message;
mod pause_scope;
mod permissions;
mod policy;
mod pool;
mod presence;
mod procedure;
mod recipient;
mod refused;
mod registry;
mod replay;
mod request;
pub mod retry;
mod routing;
mod secret;
mod session;
mod snapshot;
mod store_error;
mod stuck;
mod subscription;
mod task;
mod text_serde;
mod time;
mod topic;
mod trace;
mod why;
mod working;

pub use access_token::{AccessToken, Bearer, CreateToken, TokenDigest, TokenName, TokenRole, TokenState};
pub use approval::{
    ActionDigest, Approval, ApprovalFollowUp, ApprovalState, DecideApproval, Decision, RequestApproval,
    Verdict,
};
pub use budget::{Budget, SetBudget};
pub use cause::{Cause, Causes};
pub use commit::{
    Commit, ConsumerEvent, DeleteEntry, ErasePayload, Extend, Fingerprint, GrantedLocks, HolderEvent,
    LeaseRef, Nack, NackAction, Op, OpResult, Principal, PutEntry, Receipt, RegisterAgent, WaitMode,
    check_lease,
};
pub use creation_order::{CreationIndex, CreationPosition, ItemRange};
pub use decide::{
    CommitOutcome, DecideError, EndedDelivery, LeasedDelivery, RollbackPlan, decide, decide_genesis,
    decide_restore,
};
pub use declaration::DeclarationDigest;
pub use destination::Destination;
pub use effect::{
    Body, DeliveryOrigin, Effect, EndState, LoggedLease, NewDelivery, Record, RecordKind, RestoredVersion,
    ReturnCause, ReturnOutcome,
};
pub use entry::EntryHead;
pub use error_chain::error_chain;
pub use grants::{Granted, Grants};
pub use hidden_character::{is_hidden_character, is_hidden_in_text};
pub use history_position::{AsOf, TimelinePage};
pub use ids::{
    AgentId, AgentNo, ApprovalId, BudgetId, BudgetNo, Capability, ClientId, ConsumerId, DeliveryId,
    DeliveryNo, Epoch, Fence, Generation, GenerationStart, Generations, IdempotencyKey, Key, LeaseToken,
    LockName, MessageId, PoolNo, ProcedureId, ScopeNo, Seq, SessionId, SnapshotName, SpaceId, SpaceName,
    SpaceNo, TaskId, TokenId, Version, row_id,
};
pub use inspect::{
    AgentFilter, AgentInspection, DeliveryInspection, Inspect, InspectResult, LockWait, ProcedureInspection,
    ProcedureWait, ProcedureWaitSubject, TaskInspection,
};
pub use item::{Item, ItemKey, ItemKind, ItemTimer, Retention, Verb};
pub use json_error::describe_json_error;
pub use lock::{AcquireLocks, FenceRef, Grant, Lock, RenewLocks};
pub use lookup::{
    DeadDelivery, DeliveryEnd, EraseTarget, Lookup, LookupError, PrefixScan, PriorSend, StoredReceipt,
    VersionSelector,
};
pub use message::{Durability, IfUnavailable, Message, MessageType, Payload, Priority, is_json};
pub use permissions::Permission;
pub use policy::{ActivePolicy, BroadcastQuota, Policy, Preset, Violation};
pub use pool::{Pool, PoolAccess};
pub use presence::{
    Absence, AbsentAgent, AgentStatus, Health, Heartbeat, LastSeen, Presence, check_health_note,
};
pub use procedure::{
    ControlProcedure, Procedure, ProcedureControl, ProcedureStatus, SignalProcedure, StartProcedure,
    StepProcedure, truncate_reason,
};
pub use recipient::{QueueId, Recipient};
pub use refused::{Code, Facts, Refused, RequestEnd, StaleReference, WaitEdge};
pub use registry::{Agent, AgentRegistry, AgentRole};
pub use replay::{EntryVersion, ReplayedSpace};
pub use request::{
    AnswerFrom, Delegate, DelegatedDelivery, RecipientOutcome, ReplyState, Request, RequestState, SendRequest,
};
pub use routing::{RoutedTo, RoutingContext};
pub use secret::{InvalidSecret, Secret, redact_tokens};
pub use session::{
    AddToSession, ChangeSession, ContributionKind, OpenSession, Participant, Session, SessionChange,
    SessionEntry, SessionStatus, TimelineKind,
};
pub use snapshot::{MakeSnapshot, Rollback, RollbackScope, RollbackTarget, Snapshot, SnapshotState};
pub use store_error::StoreError;
pub use stuck::{HeldCount, StuckSubject, StuckWork};
pub use subscription::{
    Backfill, EarlierMessage, History, RecordedMessage, Subscribe, Subscription, SubscriptionState,
};
pub use task::{
    AttemptFailure, AttemptFailureKind, AwaitTask, CancelTask, Cancellation, ClaimTasks, CompleteTask,
    Completion, CreateTasks, Dependency, EscalateTo, Escalation, EscalationTarget, FailTask, HeartbeatTask,
    LeaseLoss, LeasedTask, NewTask, OnDependencyFailure, PartRef, Task, TaskCounts, TaskFailure, TaskInput,
    TaskLease, TaskLeaseRef, TaskNext, TaskNo, TaskPartial, TaskSpec, TaskState, TaskStatus, TaskTarget,
    TaskWaitsFor, TaskWhy,
};
pub use text_serde::{extract_refusal, parse as parse_text};
pub use time::{Mono, Now, Timestamp};
pub use topic::{Pattern, Topic};
pub use trace::{SpanId, TraceContext, TraceId};
pub use why::{NextTransition, WaitsFor, Why};
pub use working::{
    AccessTokens, DeliveryStateCounts, Head, NextWake, OpenDelivery, OpenDeliveryState, ReplayedRecord,
    StoredCounters, SubscriptionTree, TokenLookup, WorkingState,
};
