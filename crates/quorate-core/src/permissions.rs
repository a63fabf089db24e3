//! Permissions: which permission an operation needs, and which principals have it. Whether an agent may touch another
//! agent's resources is checked by each operation.

use std::fmt;

use crate::access_token::TokenRole;
use crate::commit::{Op, Principal};
use crate::destination::Destination;
use crate::message::Message;
use crate::refused::{Code, Refused};

/// A permission that an operation or call requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// Read data of the space; agents see only part of what belongs to others.
    Read,
    /// Inspect the state of other agents, read-only.
    Inspect,
    /// Read policy violations.
    Review,
    /// Act as an agent: agents for themselves, operators for any agent.
    Work,
    /// Decide approvals.
    Approve,
    /// Raise a flag for the moderators.
    Report,
    /// Read and resolve flags.
    Moderate,
    /// Submit a commit; each of its operations needs its own permission as well.
    Commit,
    /// Operate the hub: redrive dead letters, purge pools, issue agent tokens.
    Operate,
    /// Administer the space: policy, tokens, erasure.
    Administer,
    /// Internal operations of the hub itself.
    Internal,
}

use Permission::{Administer, Approve, Inspect, Internal, Moderate, Operate, Read, Report, Review, Work};

/// The permissions of each principal.
fn permissions_of(principal: &Principal) -> &'static [Permission] {
    match principal {
        Principal::System => &[
            Read,
            Inspect,
            Review,
            Work,
            Approve,
            Report,
            Moderate,
            Permission::Commit,
            Operate,
            Administer,
            Internal,
        ],
        Principal::Agent(_) => AGENT_PERMISSIONS,
        Principal::Holder { role, .. } => permissions_of_role(*role),
    }
}

const AGENT_PERMISSIONS: &[Permission] = &[Read, Work, Report, Permission::Commit];

fn permissions_of_role(role: TokenRole) -> &'static [Permission] {
    match role {
        // Admins cannot read flags. They can create a moderator token, which leaves a record.
        TokenRole::Admin => {
            &[Read, Inspect, Review, Work, Approve, Report, Permission::Commit, Operate, Administer]
        }
        TokenRole::Operator => &[Read, Inspect, Review, Work, Report, Permission::Commit, Operate],
        TokenRole::Moderator => &[Read, Inspect, Review, Report, Moderate],
        TokenRole::Approver => &[Read, Inspect, Approve, Report, Permission::Commit],
        TokenRole::Viewer => &[Read, Inspect, Report],
    }
}

impl Permission {
    /// The token roles that have this permission, `agent` first.
    pub fn roles(self) -> impl Iterator<Item = &'static str> {
        let agent = AGENT_PERMISSIONS.contains(&self).then_some("agent");
        let others = TokenRole::ALL.iter().filter(move |role| permissions_of_role(**role).contains(&self));
        agent.into_iter().chain(others.map(|role| role.as_str()))
    }
}

/// The permission that an operation needs, and the verb phrase for a refusal ("… is not permitted to {phrase}"). New operations must
/// be added here.
fn required_permission(op: &Op) -> (Permission, &'static str) {
    match op {
        Op::Inspect(_) => (Inspect, "inspect the state of other agents"),

        Op::Redrive { .. } => (Operate, "redrive dead letters"),
        Op::Purge { agent } if is_pool(agent.as_str()) => (Operate, "purge a pool"),

        Op::SetPolicy(_) => (Administer, "set the policy"),
        Op::ErasePayload(_) => (Administer, "erase payloads"),
        // Operators register agents, so they also issue their tokens.
        Op::CreateToken(new) if new.bearer.agent().is_some() => (Operate, "create tokens for agents"),
        Op::CreateToken(_) => (Administer, "create tokens"),
        Op::RevokeToken { .. } => (Administer, "revoke tokens"),
        Op::Send { message, .. } if has_webhook_origin(message) => (Internal, WEBHOOK_ORIGIN_PHRASE),
        Op::Request(send) if has_webhook_origin(&send.message) => (Internal, WEBHOOK_ORIGIN_PHRASE),
        Op::Send { message, .. } if message.from.is_none() => (Administer, "send as the hub"),
        Op::Request(send) if send.message.from.is_none() => (Administer, "send as the hub"),

        Op::Sweep => (Internal, "sweep"),
        Op::Backfill(_) => (Internal, "deliver message history"),
        Op::HeartbeatBatch { .. } | Op::ConnectionClosed { .. } => {
            (Internal, "report heartbeats and connections of other agents")
        }

        Op::RegisterAgent(_) | Op::RemoveAgent { .. } | Op::Heartbeat(_) => (Work, "act as an agent"),
        Op::Subscribe(_) | Op::Unsubscribe { .. } => (Work, "act as an agent"),
        Op::Send { .. } | Op::Request(_) => (Work, "send messages"),
        Op::AwaitRequest { .. } | Op::CancelRequest { .. } => (Work, "wait for replies"),
        Op::Claim { .. } | Op::GrantCredit { .. } | Op::CloseConsumer { .. } => (Work, "consume messages"),
        Op::Ack(_) | Op::AckMany(_) | Op::Nack(_) | Op::Extend(_) => (Work, "consume messages"),
        Op::Purge { .. } => (Work, "purge an inbox"),
        Op::Put(_) | Op::Delete(_) => (Work, "change the shared memory"),
        Op::MakeSnapshot(_) | Op::DropSnapshot { .. } => (Work, "change the shared memory"),
        Op::Rollback(_) => (Work, "change the shared memory"),
        Op::AcquireLocks(_) | Op::RenewLocks(_) | Op::ReleaseLocks(_) => (Work, "use locks"),
        Op::SetBudget(_) => (Work, "set a budget"),
        Op::OpenSession(_) | Op::ChangeSession(_) | Op::AddToSession(_) => (Work, "change sessions"),
        Op::CreateTasks(_) | Op::CancelTask(_) => (Work, "change tasks"),
        Op::ClaimTasks(_) | Op::HeartbeatTask(_) | Op::CompleteTask(_) => (Work, "work on tasks"),
        Op::FailTask(_) | Op::ReleaseTask(_) => (Work, "work on tasks"),
        Op::AwaitTask(_) => (Work, "wait for tasks"),
        Op::RequestApproval(_) => (Work, "request approvals"),
        Op::DecideApproval(_) => (Approve, "decide approvals"),
        Op::StartProcedure(_) | Op::StepProcedure(_) => (Work, "change procedures"),
        Op::ControlProcedure(_) | Op::SignalProcedure(_) => (Work, "change procedures"),
        Op::ResumeLeases { .. } => (Work, "consume messages"),
    }
}

const WEBHOOK_ORIGIN_PHRASE: &str = "send a message with an origin that starts with `webhook:`";

/// Whether a message claims to come from a webhook, whose sender has proved its identity with a signature.
fn has_webhook_origin(message: &Message) -> bool {
    let prefix = |origin: &str| origin.trim_start().as_bytes().get(..8).map(<[u8]>::to_ascii_lowercase);
    message.origin.as_deref().and_then(prefix).is_some_and(|prefix| prefix == b"webhook:")
}

fn is_pool(name: &str) -> bool {
    matches!(name.parse(), Ok(Destination::Can(_)))
}

impl Principal {
    /// Refuses an operation that the principal has no permission for. Runs first in every decision, including those made
    /// outside the writer.
    ///
    /// # Errors
    /// `FORBIDDEN`, with the required role.
    pub fn check_allowed(&self, op: &Op) -> Result<(), Refused> {
        let (permission, phrase) = required_permission(op);
        self.check_permission(permission, phrase)
    }

    /// Refuses a call that the principal has no permission for; `phrase` completes "… is not permitted to".
    ///
    /// # Errors
    /// `FORBIDDEN`, with the required role.
    pub fn check_permission(&self, permission: Permission, phrase: &str) -> Result<(), Refused> {
        if permissions_of(self).contains(&permission) {
            return Ok(());
        }
        Err(Refused::new(Code::Forbidden, format!("{} is not permitted to {phrase}", DisplayPrincipal(self)))
            .hint(role_hint(permission)))
    }
}

/// The hint that names the roles with this permission.
fn role_hint(permission: Permission) -> String {
    let roles: Vec<_> = { TokenRole::ALL.iter() }
        .filter(|role| permissions_of_role(**role).contains(&permission))
        .map(|role| role.as_str())
        .collect();
    match roles.as_slice() {
        [] => "only the hub itself performs this operation".to_owned(),
        roles => format!("use an access token with role {}", roles.join(" or ")),
    }
}

/// Formats a principal for a refusal.
struct DisplayPrincipal<'a>(&'a Principal);

impl fmt::Display for DisplayPrincipal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Principal::System => f.write_str("the hub"),
            principal => f.write_str(&principal.to_text()),
        }
    }
}

#[cfg(test)]
mod tests;
