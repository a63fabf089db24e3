//! Who may do what: the one place where that is decided. What an agent may do to others is refused by each operation; here
//! is what kind of thing an operation is, and for whom that kind is.

use std::fmt;

use crate::commit::{Op, Principal};
use crate::destination::Destination;
use crate::refused::{Code, Refused};
use crate::token::TokenRole;

/// What an operation or a call amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Reading what a space shows to everybody in it; agents see less of what is others'.
    Read,
    /// Looking at the state of others. Changes nothing.
    Look,
    /// Reading what the rules refused, and to whom.
    Review,
    /// What agents do for themselves, and operators for any agent.
    Work,
    /// Deciding what others propose.
    Approve,
    /// Telling the moderators of a concern.
    Report,
    /// Reading and settling what the moderators were told.
    Moderate,
    /// Making a commit, for whoever may change anything; what each of its operations needs is asked for each.
    Commit,
    /// Keeping the hub's work going.
    Run,
    /// Laying down what holds for everybody.
    Rule,
    /// What the hub does by itself.
    Hub,
}

use Deed::{Approve, Hub, Look, Moderate, Read, Report, Review, Rule, Run, Work};

/// The table.
fn deeds_of(principal: &Principal) -> &'static [Deed] {
    match principal {
        Principal::System => {
            &[Read, Look, Review, Work, Approve, Report, Moderate, Deed::Commit, Run, Rule, Hub]
        }
        Principal::Agent(_) => OF_AGENTS,
        Principal::Holder { role, .. } => deeds_of_role(*role),
    }
}

const OF_AGENTS: &[Deed] = &[Read, Work, Report, Deed::Commit];

fn deeds_of_role(role: TokenRole) -> &'static [Deed] {
    match role {
        // Not even an admin reads flags: whoever shall makes a token of a moderator, and that is on record.
        TokenRole::Admin => &[Read, Look, Review, Work, Approve, Report, Deed::Commit, Run, Rule],
        TokenRole::Operator => &[Read, Look, Review, Work, Report, Deed::Commit, Run],
        TokenRole::Moderator => &[Read, Look, Review, Report, Moderate],
        TokenRole::Approver => &[Read, Look, Approve, Report, Deed::Commit],
        TokenRole::Viewer => &[Read, Look, Report],
    }
}

impl Deed {
    /// The roles of the tokens with which it may be done, agents first.
    pub fn roles(self) -> impl Iterator<Item = &'static str> {
        let agent = OF_AGENTS.contains(&self).then_some("agent");
        let others = TokenRole::ALL.iter().filter(move |role| deeds_of_role(**role).contains(&self));
        agent.into_iter().chain(others.map(|role| role.as_str()))
    }
}

/// What an operation amounts to, and how a refusal says it. An operation that is added has to be put in its place here.
fn deed_of(op: &Op) -> (Deed, &'static str) {
    match op {
        Op::Inspect(_) => (Look, "look at the state of others"),

        Op::Redrive { .. } => (Run, "redrive dead letters"),
        Op::Purge { agent } if is_pool(agent.as_str()) => (Run, "purge a pool"),

        Op::SetPolicy(_) => (Rule, "set the policy"),
        Op::Erase(_) => (Rule, "erase payloads"),
        // Whoever registers an agent lets it in.
        Op::CreateToken(new) if new.bearer.agent().is_some() => (Run, "create tokens of agents"),
        Op::CreateToken(_) => (Rule, "create tokens"),
        Op::RevokeToken { .. } => (Rule, "revoke tokens"),
        Op::Send { message, .. } if message.from.is_none() => (Rule, "send as the hub"),
        Op::Request(ask) if ask.message.from.is_none() => (Rule, "send as the hub"),

        Op::Sweep => (Hub, "sweep"),
        Op::BringHistory(_) => (Hub, "bring a history"),
        Op::Heard { .. } => (Hub, "give signs of life of others"),

        Op::RegisterAgent(_) | Op::RemoveAgent { .. } | Op::Heartbeat(_) => (Work, "act for agents"),
        Op::Subscribe(_) | Op::Unsubscribe { .. } => (Work, "act for agents"),
        Op::Send { .. } | Op::Request(_) => (Work, "send messages"),
        Op::AwaitRequest { .. } | Op::CancelRequest { .. } => (Work, "wait for answers"),
        Op::Claim { .. } | Op::Grant { .. } | Op::Close { .. } => (Work, "take messages"),
        Op::Ack(_) | Op::AckMany(_) | Op::Nack(_) | Op::Extend(_) => (Work, "take messages"),
        Op::Purge { .. } => (Work, "purge an inbox"),
        Op::Put(_) | Op::Delete(_) => (Work, "change the shared memory"),
        Op::MakeSnapshot(_) | Op::DropSnapshot { .. } => (Work, "change the shared memory"),
        Op::Rollback(_) => (Work, "change the shared memory"),
        Op::AcquireLocks(_) | Op::RenewLocks(_) | Op::ReleaseLocks(_) => (Work, "take locks"),
        Op::SetBudget(_) => (Work, "set a budget"),
        Op::OpenSession(_) | Op::ChangeSession(_) | Op::AddToSession(_) => (Work, "change sessions"),
        Op::CreateTasks(_) | Op::CancelTask(_) => (Work, "change tasks"),
        Op::ClaimTasks(_) | Op::HeartbeatTask(_) | Op::CompleteTask(_) => (Work, "work on tasks"),
        Op::FailTask(_) | Op::ReleaseTask(_) => (Work, "work on tasks"),
        Op::AwaitTask(_) => (Work, "wait for tasks"),
        Op::RequestApproval(_) => (Work, "ask for approvals"),
        Op::DecideApproval(_) => (Approve, "decide approvals"),
        Op::StartProcedure(_) | Op::StepProcedure(_) => (Work, "change procedures"),
        Op::Resume { .. } => (Work, "take messages"),
    }
}

fn is_pool(name: &str) -> bool {
    matches!(name.parse(), Ok(Destination::Can(_)))
}

impl Principal {
    /// Refuses an operation that is not for whoever acts. Runs at the top of every decision, and wherever something is
    /// decided without the writer.
    ///
    /// # Errors
    /// `FORBIDDEN`, with the role that is needed.
    pub fn check_right(&self, op: &Op) -> Result<(), Refused> {
        let (deed, words) = deed_of(op);
        self.check_deed(deed, words)
    }

    /// Refuses a call that is not for whoever acts, whatever is asked for with it.
    ///
    /// # Errors
    /// `FORBIDDEN`, with the role that is needed.
    pub fn check_deed(&self, deed: Deed, words: &str) -> Result<(), Refused> {
        if deeds_of(self).contains(&deed) {
            return Ok(());
        }
        Err(Refused::new(Code::Forbidden, format!("{} may not {words}", Named(self))).hint(needed(deed)))
    }
}

/// Who may, in words.
fn needed(deed: Deed) -> String {
    let roles: Vec<_> = { TokenRole::ALL.iter() }
        .filter(|role| deeds_of_role(**role).contains(&deed))
        .map(|role| role.as_str())
        .collect();
    match roles.as_slice() {
        [] => "the hub does this by itself".to_owned(),
        roles => format!("this needs a token of role {}", roles.join(" or ")),
    }
}

/// A principal as a refusal names it.
struct Named<'a>(&'a Principal);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Principal::System => f.write_str("the hub"),
            Principal::Agent(id) => write!(f, "agent {id}"),
            Principal::Holder { role, name } => write!(f, "{role} {name}"),
        }
    }
}

#[cfg(test)]
mod tests;
