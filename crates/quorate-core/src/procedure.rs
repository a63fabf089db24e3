//! Procedures: the state of a protocol of several steps, kept so that each step of whoever drives it is a commit. What a
//! state means only the driver knows; the kernel keeps it, counts its versions, and lets one driver at a time go on.

use crate::ids::{AgentId, ProcedureId, Seq, Version};
use crate::limits::PROCEDURES_OPEN_MAX;
use crate::message::{Payload, check_word};
use crate::refused::{Code, Refused};
use crate::task::PartRef;
use crate::time::Timestamp;

/// Where a procedure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcedureStatus {
    /// Its driver goes on with it.
    Running,
    /// Over, with a result.
    Done,
    /// Over, without one, or with what was gathered until then.
    Failed,
}

crate::text_serde::serde_words!(ProcedureStatus);

impl ProcedureStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Failed];

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Done => 1,
            Self::Failed => 2,
        }
    }

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Whether it never changes again.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Running => false,
            Self::Done | Self::Failed => true,
        }
    }
}

/// A procedure. What it is to do, its state and its result lie in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Procedure {
    /// Its id.
    pub id: ProcedureId,
    /// What kind of protocol it is, as a word.
    pub kind: String,
    /// The only agent that may step it; `None`: whoever runs the hub.
    pub driver: Option<AgentId>,
    /// Who started it, as it stands in the log.
    pub started_by: String,
    /// When.
    pub started_at: Timestamp,
    /// What it is to do.
    pub spec: Option<PartRef>,
    /// Its version: 1 when it starts, one more with each step; the first step after a restore jumps.
    pub version: Version,
    /// The record that made this version.
    pub seq: Seq,
    /// The record that made the version before, and not this one; `None` at the start.
    pub before: Option<Seq>,
    /// Where it is.
    pub status: ProcedureStatus,
    /// In which phase, as its driver calls it; empty before the first step.
    pub phase: String,
    /// Since when it is in that phase, or over.
    pub since: Timestamp,
    /// When it was last stepped, or started.
    pub stepped_at: Timestamp,
    /// What its driver knows; `None` before the first state.
    pub state: Option<PartRef>,
    /// What came of it.
    pub result: Option<PartRef>,
}

/// `procedure.start`: begins a procedure. The first step is its driver's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartProcedure {
    /// The id that the client chose; the hub makes one if there is none.
    pub id: Option<ProcedureId>,
    /// What kind of protocol it is, as a word.
    pub kind: String,
    /// Who shall drive it, and is told so by a message `procedure.started`. An agent that says nothing drives it itself.
    pub driver: Option<AgentId>,
    /// What it is to do, as JSON.
    pub spec: Option<Payload>,
}

/// `procedure.step`: the next version of a procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepProcedure {
    /// Which one.
    pub procedure: ProcedureId,
    /// The version that it must have now.
    pub expect: Version,
    /// The phase that it is in from now on.
    pub phase: String,
    /// Whether it goes on.
    pub status: ProcedureStatus,
    /// What its driver knows from now on, as JSON; `None`: as before.
    pub state: Option<Payload>,
    /// What came of it, as JSON. Only with the end.
    pub result: Option<Payload>,
}

fn check_payload(payload: Option<&Payload>) -> Result<(), Refused> {
    payload.map_or(Ok(()), |payload| payload.check().and_then(|()| payload.check_sealed()))
}

fn check_named(what: &str, word: &str) -> Result<(), Refused> {
    if word.is_empty() {
        return Err(Refused::new(Code::Invalid, format!("the {what} of the procedure is empty"))
            .hint(format!("say in a word which {what} it is")));
    }
    check_word(what, word)
}

impl StartProcedure {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if let Some(id) = self.id.as_ref().filter(|id| id.is_made_by_hub()) {
            return Err(Refused::new(
                Code::Invalid,
                format!("the procedure id {id} is one that the hub makes"),
            )
            .hint("choose an id that does not start with prc_, or none"));
        }
        check_named("kind", &self.kind)?;
        check_payload(self.spec.as_ref())
    }
}

impl StepProcedure {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_named("phase", &self.phase)?;
        if self.result.is_some() && !self.status.is_over() {
            return Err(Refused::new(Code::Invalid, "a procedure that goes on has no result yet")
                .hint("keep it in the state until the last step"));
        }
        check_payload(self.state.as_ref())?;
        check_payload(self.result.as_ref())
    }
}

pub(crate) fn too_many() -> Refused {
    Refused::new(Code::LimitExceeded, "the space has as many running procedures as it may have")
        .limit(PROCEDURES_OPEN_MAX as u64)
        .passes()
        .hint("wait until one is over, or end those that nobody drives any more")
}
