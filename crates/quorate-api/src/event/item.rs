//! Effects on items: resources that are stored as one row each. Each effect contains the complete new state of its
//! resource.

use quorate_core::{
    AgentId, Capability, Item, LeaseToken, MessageId, PartRef, PoolAccess, PoolNo, ReplyState, Seq,
    SubscriptionState, Task as CoreTask, TaskState, Timestamp, Verb,
};
use serde::{Deserialize, Serialize};

use super::{Effect, PayloadLocation};
use crate::approval::Approval;
use crate::budget::Budget;
use crate::id_resolver::IdResolver;
use crate::lock::Lock;
use crate::policy::Policy;
use crate::procedure::Procedure;
use crate::request::Request;
use crate::rollback::Snapshot;
#[cfg(feature = "schema")]
use crate::schema;
use crate::session::Session;
use crate::subscription::{AgentSubscription, SubscriptionHistory};
use crate::task::Task;
use crate::token::Token;

/// Declares an effect on an item: its name, the resource, and further fields.
macro_rules! item_effect {
    ($(#[$doc:meta])* $name:ident { $verb:literal; $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Name of the effect.
            #[cfg_attr(feature = "schema", schemars(with = $verb))]
            pub effect: Verb,
            $($fields)*
        }
    };
}

item_effect!(
    /// The policy of the space changed.
    PolicyEffect { "schema::PolicyVerb";
        /// Policy in force from this record on.
        pub policy: Policy,
    }
);

item_effect!(
    /// A lock was granted, released, or revoked.
    LockEffect { "schema::LockVerb";
        /// The lock.
        pub lock: Lock,
    }
);

item_effect!(
    /// A budget was set, or spent from.
    BudgetEffect { "schema::BudgetVerb";
        /// The budget.
        pub budget: Budget,
    }
);

item_effect!(
    /// A snapshot was created or dropped.
    SnapshotEffect { "schema::SnapshotVerb";
        /// The snapshot.
        pub snapshot: Snapshot,
    }
);

item_effect!(
    /// An access token was created, revoked, or expired.
    TokenEffect { "schema::TokenVerb";
        /// The token, without its secret.
        pub token: Token,
    }
);

item_effect!(
    /// A pool was created: the queue of messages to a capability.
    PoolEffect { "schema::PoolVerb";
        /// Number of the pool. Deliveries refer to pools by number.
        pub pool: PoolNo,
        /// Capability that an agent needs to claim from the pool.
        pub capability: Capability,
        /// Agents with that capability that are allowed to claim from the pool.
        pub access: PoolMembers,
    }
);

/// Agents with the capability of a pool that are allowed to claim from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PoolMembers {
    Any,
    Coordinators,
}

item_effect!(
    /// A session was opened, changed its state, or a participant joined or left.
    SessionEffect { "schema::SessionVerb";
        /// The session.
        pub session: Session,
        /// Storage location of its task.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub payloads: Vec<PayloadLocation>,
    }
);

item_effect!(
    /// A procedure was started, took a step, or ended.
    ProcedureEffect { "schema::ProcedureVerb";
        /// The procedure.
        pub procedure: Procedure,
        /// Storage locations of its spec, state and result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub payloads: Vec<PayloadLocation>,
    }
);

item_effect!(
    /// An approval was requested, decided, or expired.
    ApprovalEffect { "schema::ApprovalVerb";
        /// The approval.
        pub approval: Approval,
        /// Storage locations of the action, its modification and the modified action.
        pub payloads: Vec<PayloadLocation>,
    }
);

item_effect!(
    /// A subscription to topics was created, caught up, or ended.
    SubscriptionEffect { "schema::TopicVerb";
        /// The subscription.
        pub subscription: AgentSubscription,
        /// State of the subscription.
        pub status: SubscriptionStatus,
        /// Earlier messages that are still to be delivered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub history: Option<SubscriptionHistory>,
    }
);

/// State of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum SubscriptionStatus {
    Active,
    CatchingUp,
    Ended,
}

item_effect!(
    /// A request was made, answered, redirected, or ended without an answer.
    RequestEffect { "schema::RequestVerb";
        /// The request.
        pub request: Request,
        /// Correlation ID shared by all messages of a conversation.
        pub correlation_id: String,
        /// How long the request waits for answers.
        pub timeout_ms: u64,
        /// Recipients and their answers.
        pub asked: Vec<RequestRecipient>,
    }
);

/// Recipient of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequestRecipient {
    /// Agent. For a request to a capability, the agent that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Pool, for a request to a capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
    /// ID of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Present and true if no answer can arrive any longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

item_effect!(
    /// A task changed: it was created, leased, completed, retried and so on.
    TaskEffect { "schema::TaskVerb";
        /// The task.
        pub task: Task,
        /// Lease token of the holder, or of the lease that a cancellation ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub lease_token: Option<LeaseToken>,
        /// Last failed attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failed_attempt: Option<FailedAttempt>,
        /// Message that reported an escalated task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message_id: Option<MessageId>,
        /// Storage locations of its input, partial results, result and error details. One payload holds the inputs of
        /// all tasks created by the same operation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub payloads: Vec<PayloadLocation>,
    }
);

/// Failed attempt at a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// Cause: `failed`, `hopeless`, `timed out`, `lapsed` or `holder gone`.
    pub cause: String,
    /// Agent that held the task.
    pub holder: Option<AgentId>,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Sequence number of the record that ended the attempt.
    pub seq: Seq,
    /// Time at which the attempt ended.
    pub at: Timestamp,
    /// Reason given by the holder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Creates the effect of a changed item.
pub(super) fn item_effect(verb: Verb, item: &Item, ids: &IdResolver<'_>) -> Effect {
    let effect = verb;
    match item {
        Item::Policy(policy) => PolicyEffect { effect, policy: policy.into() }.into(),
        Item::Lock(lock) => LockEffect { effect, lock: Lock::new(ids.agents, lock) }.into(),
        Item::Budget(budget) => BudgetEffect { effect, budget: Budget::new(ids.agents, budget) }.into(),
        Item::Snapshot(snapshot) => SnapshotEffect { effect, snapshot: snapshot.into() }.into(),
        Item::Token(token) => TokenEffect { effect, token: (&**token).into() }.into(),
        Item::Pool(pool) => PoolEffect {
            effect,
            pool: pool.number,
            capability: pool.capability.clone(),
            access: match pool.access {
                PoolAccess::AnyCapable => PoolMembers::Any,
                PoolAccess::Coordinators => PoolMembers::Coordinators,
            },
        }
        .into(),
        Item::Session(session) => {
            let task = session.task.map(|part| PartRef { seq: session.number.record(), part });
            SessionEffect { effect, session: session.into(), payloads: locations([("task", task)]) }.into()
        }
        Item::Procedure(procedure) => {
            let stored = [("spec", procedure.spec), ("state", procedure.state), ("result", procedure.result)];
            ProcedureEffect { effect, procedure: procedure.into(), payloads: locations(stored) }.into()
        }
        Item::Approval(approval) => {
            let modified = match &approval.state {
                quorate_core::ApprovalState::Modified { patch, action, .. } => Some((*patch, *action)),
                _ => None,
            };
            let stored = [
                ("document", Some(approval.document)),
                ("modification", modified.map(|(patch, _)| patch)),
                ("approvedDocument", modified.map(|(_, action)| action)),
            ];
            let approval = Approval::new(ids.agents, approval);
            ApprovalEffect { effect, approval, payloads: locations(stored) }.into()
        }
        Item::Subscription(subscription) => {
            let status = match subscription.state {
                SubscriptionState::Active => SubscriptionStatus::Active,
                SubscriptionState::CatchingUp(_) => SubscriptionStatus::CatchingUp,
                SubscriptionState::Ended => SubscriptionStatus::Ended,
            };
            let history = subscription.pending_backfill().map(|history| Some(&history).into());
            let subscription = AgentSubscription {
                agent: subscription.agent.clone(),
                topic: subscription.pattern.clone(),
                since: subscription.since,
            };
            SubscriptionEffect { effect, subscription, status, history }.into()
        }
        Item::Request(request) => request_effect(effect, request, ids),
        Item::Task(task) => task_effect(effect, task, ids),
    }
}

fn locations<const N: usize>(stored: [(&'static str, Option<PartRef>); N]) -> Vec<PayloadLocation> {
    stored.into_iter().filter_map(|(field, part)| Some(PayloadLocation::new(field, part?))).collect()
}

fn request_effect(effect: Verb, request: &quorate_core::Request, ids: &IdResolver<'_>) -> Effect {
    let recipients = request.recipients.iter().map(|outcome| RequestRecipient {
        agent: outcome.recipient.agent_no().and_then(|agent| ids.agent_id(agent)),
        pool: outcome.recipient.pool_no(),
        message_id: match outcome.reply {
            ReplyState::Answered { seq, n } => Some(ids.message_id(seq, n)),
            ReplyState::Pending | ReplyState::Lost => None,
        },
        lost: matches!(outcome.reply, ReplyState::Lost),
    });
    RequestEffect {
        effect,
        correlation_id: request.correlation.clone(),
        timeout_ms: request.timeout_ms,
        asked: recipients.collect(),
        request: Request::new(ids.agents, ids.generations, request),
    }
    .into()
}

fn task_effect(effect: Verb, task: &CoreTask, ids: &IdResolver<'_>) -> Effect {
    let (lease_token, message_id, result) = match &task.state {
        TaskState::Leased(lease) => (Some(lease.token), None, None),
        TaskState::Cancelled(end) => (end.token, None, None),
        TaskState::Escalated(end) => (None, Some(end.message), None),
        TaskState::Done(end) | TaskState::Partial(end) => (None, None, end.result),
        _ => (None, None, None),
    };
    let failed_attempt = task.last_failure.as_deref().map(|failure| FailedAttempt {
        cause: failure.kind.as_str().to_owned(),
        holder: ids.agent_id(failure.by),
        attempt: failure.attempt,
        seq: failure.seq,
        at: failure.at,
        reason: failure.reason.clone(),
    });
    let input = task.spec.input.map(|input| PartRef { seq: task.spec.number.seq, part: input.part });
    let details = task.last_failure.as_deref().and_then(|failure| failure.details);
    let mut payloads = locations([("input", input), ("result", result), ("details", details)]);
    payloads.extend(task.partials.iter().map(|partial| PayloadLocation::new("partials", partial.part)));
    TaskEffect {
        effect,
        task: Task::new(ids.agents, task),
        lease_token,
        failed_attempt,
        message_id,
        payloads,
    }
    .into()
}
