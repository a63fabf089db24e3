//! Pause scopes: sessions and procedures. While one is paused, the deliveries that belong to it are held.
//!
//! A delivery belongs to at most one scope, which is determined when it is created: the procedure whose id is the
//! correlation id of its message, if the recipient drives that procedure, or else the session that the message names.

use crate::effect::Effect;
use crate::ids::{Generation, ScopeNo, Seq, SessionId};
use crate::item::{Item, Verb};
use crate::message::Message;
use crate::procedure::ProcedureStatus;
use crate::session::SessionStatus;

/// Scopes that a record opens, at most one per operation.
const SCOPES_PER_RECORD: u32 = 256;

impl ScopeNo {
    /// Returns the number of the `n`-th session that a record opens.
    #[must_use]
    pub(crate) fn of_session(seq: Seq, n: u32) -> Self {
        Self(seq.0 << 8 | u64::from(n))
    }

    /// Returns the number of the `n`-th procedure that a record starts. Counted downwards, so that it differs from those
    /// of the sessions of the record.
    #[must_use]
    pub(crate) fn of_procedure(seq: Seq, n: u32) -> Self {
        Self(seq.0 << 8 | u64::from(SCOPES_PER_RECORD - 1 - n))
    }

    /// Returns the record that opened the scope.
    #[must_use]
    pub fn record(self) -> Seq {
        Seq(self.0 >> 8)
    }

    /// Returns the generated id of a session.
    pub(crate) fn session_id(self, generation: Generation) -> SessionId {
        SessionId::generated(generation, self.record(), self.0 & 0xff)
    }
}

impl Item {
    /// Returns the number of a session or procedure, and whether it is paused.
    #[must_use]
    pub fn pause_scope(&self) -> Option<(ScopeNo, bool)> {
        match self {
            Self::Session(session) => Some((session.number, session.status == SessionStatus::Paused)),
            Self::Procedure(procedure) => {
                let paused = match procedure.status {
                    ProcedureStatus::Paused | ProcedureStatus::Stuck => true,
                    ProcedureStatus::Running
                    | ProcedureStatus::Done
                    | ProcedureStatus::Failed
                    | ProcedureStatus::Cancelled => false,
                };
                Some((procedure.number?, paused))
            }
            Self::Policy(_)
            | Self::Lock(_)
            | Self::Task(_)
            | Self::Snapshot(_)
            | Self::Budget(_)
            | Self::Subscription(_)
            | Self::Pool(_)
            | Self::Request(_)
            | Self::Token(_)
            | Self::Approval(_) => None,
        }
    }
}

impl Effect {
    /// Returns the scope whose deliveries the effect may hold or release, and whether it is paused now.
    #[must_use]
    pub fn pause_change(&self) -> Option<(ScopeNo, bool)> {
        let Self::Changed { verb, item } = self else { return None };
        let may_change = matches!(
            verb,
            Verb::SessionPaused
                | Verb::SessionResumed
                | Verb::SessionCompleted
                | Verb::SessionFailed
                | Verb::ProcedurePaused
                | Verb::ProcedureStuck
                | Verb::ProcedureResumed
                | Verb::ProcedureCancelled
        );
        item.pause_scope().filter(|_| may_change)
    }
}

impl Message {
    /// Whether it is a notice of the hub that a procedure was paused, resumed or cancelled. Its driver receives it while
    /// the procedure is paused.
    pub(crate) fn is_control_notice(&self) -> bool {
        let controls = [Verb::ProcedurePaused, Verb::ProcedureResumed, Verb::ProcedureCancelled];
        self.from.is_none() && controls.iter().any(|verb| self.action == verb.as_str())
    }
}
