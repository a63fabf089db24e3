//! Plans: their steps, and how they are displayed.

use std::fmt;

use quorate_core::TokenRole;

use super::approvals::ApprovalOp;
use super::lease_reuse::ReuseExtra;
use super::locks::{FenceSelector, LockRequest};
use super::message_chains::{BudgetSpec, ChainFields};
use super::procedures::ProcedureOp;
use super::requests::RequestOp;
use super::rollback::RollbackOp;
use super::sessions::{SESSION_IDS, SessionOp};
use super::tokens::TokenOp;
use super::topics::{MessageStyle, PlannedDestination, SubscriptionOp};

use super::tasks::TaskOp;

/// Sequence of steps.
#[derive(Clone)]
pub struct Plan(pub(super) Vec<Step>);

/// Agents of a plan. The last one is not registered initially.
pub(super) const AGENTS: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// Spaces of a plan.
pub(super) const SPACES: [&str; 2] = ["default", "team"];
/// Memory keys of a plan.
pub(super) const KEYS: [&str; 5] = ["plan", "plan/a", "plan/b", "note", "sessions/s1/state"];

/// One step of a plan.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Submit commits in one batch.
    Commit { space: usize, planned: Vec<PlannedCommit> },
    /// Repeat a keyed commit with identical content.
    RepeatKeyed { space: usize, back: usize },
    /// End leases again that an accepted commit has ended.
    ReuseLeases { space: usize, back: usize, extra: ReuseExtra },
    /// Advance both clocks.
    AdvanceClock { ms: u64 },
    /// Move the wall clock.
    MoveWallClock { ms: i64 },
    /// Close and reopen the store.
    Restart,
}

/// One commit.
#[derive(Clone, Debug)]
pub(super) struct PlannedCommit {
    pub(super) actor: Actor,
    pub(super) epoch: StatedEpoch,
    /// The token of an agent, counted back from its newest.
    pub(super) token: Option<usize>,
    pub(super) key: Option<u8>,
    pub(super) ops: Vec<PlannedOp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Actor {
    Hub,
    Agent(usize),
    /// Holder of a token with this role.
    Holder(usize),
}

/// Epoch stated in a commit or registration.
#[derive(Clone, Copy, Debug)]
pub(super) enum StatedEpoch {
    Omitted,
    Current,
    Earlier,
    Unknown,
}

/// One operation of a commit.
#[derive(Clone, Debug)]
pub(super) enum PlannedOp {
    Register {
        agent: usize,
        epoch: StatedEpoch,
        variant: usize,
    },
    Remove {
        agent: usize,
    },
    Send(MessageSpec),
    Claim {
        agent: usize,
        max: u32,
        lease_ms: u64,
        wait: WaitChoice,
    },
    Grant {
        agent: usize,
        slot: u64,
        credit: u32,
    },
    Close {
        agent: usize,
        slot: u64,
    },
    Ack(LeaseSelector),
    Nack {
        lease: LeaseSelector,
        then: NackChoice,
        reason: &'static str,
    },
    Extend {
        lease: LeaseSelector,
        ms: u64,
    },
    Resume {
        agent: usize,
        ms: u64,
    },
    Redrive(RedriveTarget),
    Purge {
        agent: usize,
    },
    Put {
        key: usize,
        expect: VersionChoice,
        content: u8,
        depends: Option<usize>,
        fence: Option<FenceSelector>,
    },
    Delete {
        key: usize,
        expect: VersionChoice,
        fence: Option<FenceSelector>,
    },
    Erase {
        back: usize,
        part: u32,
    },
    Sweep,
    Lock(LockRequest),
    Renew {
        selector: FenceSelector,
        ttl_ms: Option<u64>,
    },
    Unlock(FenceSelector),
    Budget(BudgetSpec),
    Session(SessionOp),
    Task(TaskOp),
    Rollback(RollbackOp),
    /// Topics, pools and the policy.
    Subscription(SubscriptionOp),
    /// Several leases in one operation.
    AckMany(Vec<LeaseSelector>),
    Request(RequestOp),
    Token(TokenOp),
    Procedure(ProcedureOp),
    Approval(ApprovalOp),
}

/// Parameters of a message.
#[derive(Clone, Debug)]
pub(super) struct MessageSpec {
    /// Whether the sender is another agent than the actor.
    pub(super) as_another: bool,
    pub(super) to: PlannedDestination,
    pub(super) style: MessageStyle,
    pub(super) client_id: Option<u8>,
    pub(super) content: u8,
    pub(super) level: u8,
    pub(super) rank: u8,
    pub(super) attempts: u16,
    pub(super) after_ms: Option<u64>,
    pub(super) expires_ms: Option<i64>,
    pub(super) session: Option<usize>,
    pub(super) chain: ChainFields,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WaitChoice {
    No,
    Once(u64),
    Standing(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NackChoice {
    Retry(Option<u64>),
    Release,
    Dead,
}

/// Selects a lease, counted back from the newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseSelector {
    /// Only leases of the actor.
    pub(super) own: bool,
    /// Only current leases.
    pub(super) held: bool,
    pub(super) back: usize,
    pub(super) defect: LeaseDefect,
}

/// Defect in a lease reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaseDefect {
    None,
    /// Token of the next lease.
    NextToken,
    WrongToken,
    OtherGeneration,
    UnknownDelivery,
}

/// Target of a redrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum RedriveTarget {
    /// One of the dead letters.
    Dead(usize),
    /// Any delivery, dead or not.
    Delivery(u64),
}

/// Expected version of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum VersionChoice {
    Anything,
    Nothing,
    Current,
    Older,
    Future,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| writeln!(f, "  {step};"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit { space, planned } => {
                let planned: Vec<_> = planned.iter().map(ToString::to_string).collect();
                write!(f, "{}{}", space_prefix(*space), planned.join(" | "))
            }
            Self::RepeatKeyed { space, back } => {
                write!(f, "{}repeats keyed commit -{back}", space_prefix(*space))
            }
            Self::ReuseLeases { space, back, extra } => {
                write!(f, "{}ends the leases of commit -{back} again{extra}", space_prefix(*space))
            }
            Self::AdvanceClock { ms } => write!(f, "+{}", span(*ms)),
            Self::MoveWallClock { ms } => {
                write!(f, "wall {}{}", if *ms < 0 { "-" } else { "+" }, span(ms.unsigned_abs()))
            }
            Self::Restart => f.write_str("restart"),
        }
    }
}

fn space_prefix(space: usize) -> String {
    if space == 0 { String::new() } else { format!("in {}: ", SPACES[space]) }
}

fn span(ms: u64) -> String {
    match ms {
        _ if !ms.is_multiple_of(1000) || ms == 0 => format!("{ms}ms"),
        _ => format!("{}s", ms / 1000),
    }
}

fn epoch_suffix(epoch: StatedEpoch) -> &'static str {
    match epoch {
        StatedEpoch::Omitted => "",
        StatedEpoch::Current => " (current epoch)",
        StatedEpoch::Earlier => " (earlier epoch)",
        StatedEpoch::Unknown => " (unknown epoch)",
    }
}

impl fmt::Display for PlannedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actor = match self.actor {
            Actor::Hub => "hub",
            Actor::Agent(agent) => AGENTS[agent],
            Actor::Holder(role) => TokenRole::ALL[role].as_str(),
        };
        let ops: Vec<_> = self.ops.iter().map(ToString::to_string).collect();
        let token = self.token.map_or(String::new(), |back| format!(" (token -{back})"));
        write!(f, "{actor}{}{token} {}", epoch_suffix(self.epoch), ops.join(" & "))?;
        self.key.map_or(Ok(()), |key| write!(f, " with key k{key}"))
    }
}

impl fmt::Display for PlannedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { agent, epoch, variant } => {
                write!(f, "registers {} as variant {variant}{}", AGENTS[*agent], epoch_suffix(*epoch))
            }
            Self::Remove { agent } => write!(f, "removes {}", AGENTS[*agent]),
            Self::Send(spec) => spec.fmt(f),
            Self::Claim { agent, max, lease_ms, wait } => {
                write!(f, "claims {max} of {} for {}", AGENTS[*agent], span(*lease_ms))?;
                match wait {
                    WaitChoice::No => Ok(()),
                    WaitChoice::Once(slot) => write!(f, " waiting as {slot}"),
                    WaitChoice::Standing(slot) => write!(f, " standing as {slot}"),
                }
            }
            Self::Grant { agent, slot, credit } => {
                write!(f, "grants {credit} to {slot} of {}", AGENTS[*agent])
            }
            Self::Close { agent, slot } => write!(f, "closes {slot} of {}", AGENTS[*agent]),
            Self::Ack(lease) => write!(f, "acks {lease}"),
            Self::Nack { lease, then, reason } => match then {
                NackChoice::Retry(None) => write!(f, "retries {lease} later {reason:?}"),
                NackChoice::Retry(Some(delay_ms)) => {
                    write!(f, "retries {lease} after {} {reason:?}", span(*delay_ms))
                }
                NackChoice::Release => write!(f, "releases {lease} {reason:?}"),
                NackChoice::Dead => write!(f, "drops {lease} {reason:?}"),
            },
            Self::Extend { lease, ms } => write!(f, "extends {lease} to {}", span(*ms)),
            Self::Resume { agent, ms } => write!(f, "resumes {} for {}", AGENTS[*agent], span(*ms)),
            Self::Redrive(RedriveTarget::Dead(back)) => write!(f, "redrives dead letter {back}"),
            Self::Redrive(RedriveTarget::Delivery(number)) => write!(f, "redrives delivery {number}"),
            Self::Purge { agent } => write!(f, "purges {}", AGENTS[*agent]),
            Self::Put { key, expect, content, depends, fence } => {
                write!(f, "puts {}={content}{}", KEYS[*key], expected(*expect))?;
                depends.map_or(Ok(()), |source| write!(f, " on {}", KEYS[source]))?;
                fence.map_or(Ok(()), |selector| write!(f, " under {selector}"))
            }
            Self::Delete { key, expect, fence } => {
                write!(f, "deletes {}{}", KEYS[*key], expected(*expect))?;
                fence.map_or(Ok(()), |selector| write!(f, " under {selector}"))
            }
            Self::Erase { back, part } => write!(f, "erases part {part} of written record -{back}"),
            Self::Sweep => f.write_str("sweeps"),
            Self::Lock(request) => request.fmt(f),
            Self::Renew { selector, ttl_ms: None } => write!(f, "renews {selector}"),
            Self::Renew { selector, ttl_ms: Some(ttl_ms) } => write!(f, "renews {selector} for {ttl_ms}ms"),
            Self::Unlock(selector) => write!(f, "unlocks {selector}"),
            Self::Budget(spec) => spec.fmt(f),
            Self::Session(op) => op.fmt(f),
            Self::Task(op) => op.fmt(f),
            Self::Rollback(op) => op.fmt(f),
            Self::Subscription(op) => op.fmt(f),
            Self::AckMany(leases) => {
                let leases: Vec<_> = leases.iter().map(ToString::to_string).collect();
                write!(f, "acks in one operation [{}]", leases.join(", "))
            }
            Self::Request(op) => op.fmt(f),
            Self::Token(op) => op.fmt(f),
            Self::Procedure(op) => op.fmt(f),
            Self::Approval(op) => op.fmt(f),
        }
    }
}

fn expected(expect: VersionChoice) -> &'static str {
    match expect {
        VersionChoice::Anything => "",
        VersionChoice::Nothing => " expecting nothing",
        VersionChoice::Current => " expecting the current version",
        VersionChoice::Older => " expecting an older version",
        VersionChoice::Future => " expecting a future version",
    }
}

impl fmt::Display for MessageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sends {} ({:?}) to {}", self.content, self.style, self.to)?;
        if self.as_another {
            f.write_str(" as another")?;
        }
        if let Some(id) = self.client_id {
            write!(f, " id m{id}")?;
        }
        write!(f, " level {}.{} tries {}", self.level, self.rank, self.attempts)?;
        if let Some(ms) = self.after_ms {
            write!(f, " after {}", span(ms))?;
        }
        if let Some(name) = self.session {
            write!(f, " in {}", SESSION_IDS[name])?;
        }
        self.chain.fmt(f)?;
        self.expires_ms.map_or(Ok(()), |ms| write!(f, " expires {ms}ms"))
    }
}

impl fmt::Display for LeaseSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = if self.held { "held" } else { "held or ended" };
        write!(f, "{} delivery {held} -{}", if self.own { "own" } else { "any" }, self.back)?;
        f.write_str(match self.defect {
            LeaseDefect::None => "",
            LeaseDefect::NextToken => " (next token)",
            LeaseDefect::WrongToken => " (wrong token)",
            LeaseDefect::OtherGeneration => " (another generation)",
            LeaseDefect::UnknownDelivery => " (unknown delivery)",
        })
    }
}
