//! Procedures as callers see them: starting, stepping, and reading one as it is or was. A list shows none of the states:
//! those lie in the log, and are read one at a time.

use quorate_core::{
    Commit, Effect, Epoch, Item, ItemKind, ItemRange, Op, OpResult, PartRef, Payload, Principal, Procedure,
    ProcedureId, ProcedureStatus, Seq, StartProcedure, StepProcedure, Version, Why, codec,
};
use quorate_store::{Read, Rows, StoreError};

use crate::error::Error;
use crate::items::Noun as _;
use crate::space::Space;

/// A procedure with what it is to do, what its driver knows, and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcedureView {
    /// Where it is.
    pub procedure: Procedure,
    /// What it is to do.
    pub spec: Option<Payload>,
    /// What its driver knows; `None` before the first state.
    pub state: Option<Payload>,
    /// What came of it.
    pub result: Option<Payload>,
}

/// Some procedures, and where to go on.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcedurePage {
    /// The procedures, by id.
    pub procedures: Vec<Procedure>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<ItemRange>,
}

impl Space {
    /// Starts a procedure. Gives its id.
    ///
    /// # Errors
    /// `DUPLICATE` if the id is another procedure's, `NOT_FOUND` for an unknown driver, another refusal, or a failure of
    /// the storage.
    pub async fn start_procedure(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        start: StartProcedure,
    ) -> Result<ProcedureId, Error> {
        match self.procedure_op(principal, epoch, Op::StartProcedure(start)).await? {
            OpResult::ProcedureStarted { id } => Ok(id),
            _ => Err(unanswered()),
        }
    }

    /// Goes on with a procedure. Gives its version then. To do so together with other things, commit the operation.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` with the current version, `FORBIDDEN`, `CONFLICT` if it is over, or a failure of the storage.
    pub async fn step_procedure(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        step: StepProcedure,
    ) -> Result<Version, Error> {
        match self.procedure_op(principal, epoch, Op::StepProcedure(step)).await? {
            OpResult::ProcedureStepped { version } => Ok(version),
            _ => Err(unanswered()),
        }
    }

    async fn procedure_op(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: Op,
    ) -> Result<OpResult, Error> {
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        receipt.results.into_iter().next().ok_or_else(unanswered)
    }

    /// A procedure, without its payloads.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn procedure(&self, id: &ProcedureId) -> Result<Procedure, Error> {
        self.item(id).await
    }

    /// A procedure as it was after this record. Goes back version by version.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was started later; or a failure of the storage.
    pub async fn procedure_at(&self, id: &ProcedureId, at: Seq) -> Result<Procedure, Error> {
        let mut procedure = self.procedure(id).await?;
        while procedure.seq > at {
            let before = procedure.before.ok_or_else(|| Procedure::not_found(id))?;
            procedure = self.version_in(id, before).await?;
        }
        Ok(procedure)
    }

    /// The procedure as a record left it.
    async fn version_in(&self, id: &ProcedureId, seq: Seq) -> Result<Procedure, Error> {
        let Rows::Record(Some(record)) = self.read_one(Read::Record(seq)).await? else {
            return Err(unanswered());
        };
        let body = codec::read_bare(&record)
            .map_err(|why| StoreError::Damaged(format!("record {seq}: {why}").into()))?;
        let last = body.effects.into_iter().rev().find_map(|effect| match effect {
            Effect::Changed { item: Item::Procedure(procedure), .. } if procedure.id == *id => {
                Some(procedure)
            }
            _ => None,
        });
        last.ok_or_else(unanswered)
    }

    /// Procedures by id: those with this status, or all. Without their payloads. A page may be short and still have a
    /// cursor: it looked at many that were not wanted.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        after: Option<&ItemRange>,
        limit: usize,
    ) -> Result<ProcedurePage, Error> {
        let wanted = |item| match item {
            Item::Procedure(one) if status.is_none_or(|status| status == one.status) => Some(one),
            _ => None,
        };
        let page = self.items(ItemKind::Procedure, after.cloned(), limit, wanted).await?;
        Ok(ProcedurePage { procedures: page.items, cursor: page.cursor })
    }

    /// A procedure with its payloads.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn procedure_view(&self, procedure: Procedure) -> Result<ProcedureView, Error> {
        let spec = self.payload_part(procedure.spec).await?;
        let state = self.payload_part(procedure.state).await?;
        let result = self.payload_part(procedure.result).await?;
        Ok(ProcedureView { procedure, spec, state, result })
    }

    /// A payload by its place; one that was erased is told as such.
    pub(crate) async fn payload_part(&self, part: Option<PartRef>) -> Result<Option<Payload>, Error> {
        let Some(PartRef { seq, part }) = part else { return Ok(None) };
        match self.read_one(Read::Part { seq, part, start: 0, length: u64::MAX }).await? {
            Rows::Part(Some(found)) => {
                // The salt of what is there is nobody's business; only what was erased has none.
                let salt = if found.erased { [0; 16] } else { [0xff; 16] };
                Ok(Some(Payload { salt, ..Payload::unsealed(found.bytes) }))
            }
            _ => Err(unanswered()),
        }
    }

    /// Why a procedure is where it is.
    pub(crate) async fn why_procedure(&self, id: &ProcedureId) -> Result<Why, Error> {
        let now = self.engine().clock().now().wall;
        Ok(Why::of_procedure(&self.procedure(id).await?, now))
    }
}

fn unanswered() -> Error {
    StoreError::Read("a question about a procedure was not answered".into()).into()
}
