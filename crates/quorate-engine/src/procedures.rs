//! Procedures: starting, stepping, and reading them now or as of a record. Lists contain no payloads: those are
//! stored in the log and read one at a time.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{
    Commit, ControlProcedure, Effect, Epoch, Inspect, InspectResult, Item, ItemKind, ItemRange, Op, OpResult,
    PartRef, Payload, Principal, Procedure, ProcedureControl, ProcedureId, ProcedureStatus, Seq,
    StartProcedure, StepProcedure, Version, Why, codec,
};
use quorate_store::{BoxFuture, ReadQuery, ReadResult, StoreError};

use crate::error::Error;
use crate::items::StoredItem as _;
use crate::registry::unexpected_inspection;
use crate::space::Space;

/// Checks a procedure that is about to be started, and completes it.
pub(crate) type ProcedureAdmission = Arc<
    dyn for<'a> Fn(&'a Space, &'a Principal, StartProcedure) -> BoxFuture<'a, Result<StartProcedure, Error>>
        + Send
        + Sync,
>;

/// Procedure with its spec, state and result.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcedureView {
    /// The procedure.
    pub procedure: Procedure,
    /// Input of the procedure.
    pub spec: Option<Payload>,
    /// State of the driver; `None` before the first state.
    pub state: Option<Payload>,
    /// Result of the procedure.
    pub result: Option<Payload>,
}

/// Page of procedures.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcedurePage {
    /// Procedures, by ID.
    pub procedures: Vec<Procedure>,
    /// Cursor of the next page; `None` on the last page.
    pub cursor: Option<ItemRange>,
}

impl Space {
    /// Starts a procedure and returns its ID.
    ///
    /// # Errors
    /// `DUPLICATE` if the ID is taken by another procedure, `NOT_FOUND` for an unknown driver, another refusal, or a
    /// storage failure.
    pub async fn start_procedure(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        start: StartProcedure,
    ) -> Result<ProcedureId, Error> {
        match self.procedure_op(principal, epoch, Op::StartProcedure(start)).await? {
            OpResult::ProcedureStarted { id } => Ok(id),
            _ => Err(unexpected_result()),
        }
    }

    /// Advances a procedure and returns its new version. To combine this with other operations, commit
    /// `Op::StepProcedure` directly.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` with the current version, `FORBIDDEN`, `CONFLICT` if it has ended, or a storage failure.
    pub async fn step_procedure(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        step: StepProcedure,
    ) -> Result<Version, Error> {
        match self.procedure_op(principal, epoch, Op::StepProcedure(step)).await? {
            OpResult::ProcedureStepped { version } => Ok(version),
            _ => Err(unexpected_result()),
        }
    }

    /// Cancels a procedure and all its open requests and tasks. Repeating it continues an interrupted cancellation.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN`, `CONFLICT` if it has ended otherwise, or a storage failure.
    pub async fn cancel_procedure(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        procedure: &ProcedureId,
        reason: &str,
    ) -> Result<Version, Error> {
        loop {
            let op = Op::ControlProcedure(ControlProcedure {
                procedure: procedure.clone(),
                control: ProcedureControl::Cancel,
                reason: reason.to_owned(),
            });
            match self.procedure_op(principal, epoch, op).await? {
                OpResult::ProcedureChanged { version, remaining: 0 } => return Ok(version),
                OpResult::ProcedureChanged { .. } => {}
                _ => return Err(unexpected_result()),
            }
        }
    }

    /// Applies the admission of the hub to the procedures that a commit starts.
    pub(crate) async fn admit_procedures(&self, commit: &mut Commit) -> Result<(), Error> {
        let Some(admission) = self.engine().procedure_admission() else { return Ok(()) };
        for (index, op) in commit.ops.iter_mut().enumerate() {
            // The writer refuses an operation that is not permitted.
            if commit.principal.check_allowed(op).is_err() {
                continue;
            }
            if let Op::StartProcedure(start) = op {
                *start = match admission(self, &commit.principal, start.clone()).await {
                    Err(Error::Refused(refused)) => return Err(refused.at_op(index).into()),
                    start => start?,
                };
            }
        }
        Ok(())
    }

    /// Waits for at most this long until a procedure no longer runs; with `after`, until its version is greater or it has
    /// ended. Then returns its current state.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn wait_for_procedure(
        &self,
        id: &ProcedureId,
        after: Option<Version>,
        wait: Duration,
    ) -> Result<Procedure, Error> {
        let mut published = self.follow();
        let changed = async {
            loop {
                let changes = published.borrow_and_update().procedure_changes;
                let procedure = self.procedure(id).await?;
                let is_over = match after {
                    // A pause has a version of its own, so a caller that knows of it waits for the next change.
                    Some(after) => procedure.version > after || procedure.status.has_ended(),
                    None => procedure.status != ProcedureStatus::Running,
                };
                if is_over {
                    return Ok(procedure);
                }
                // Check again only after some procedure has changed.
                if published.wait_for(|published| published.procedure_changes != changes).await.is_err() {
                    return Err(StoreError::Closed.into());
                }
            }
        };
        tokio::select! {
            changed = changed => changed,
            () = self.sleep(wait) => self.procedure(id).await,
        }
    }

    async fn procedure_op(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: Op,
    ) -> Result<OpResult, Error> {
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        receipt.results.into_iter().next().ok_or_else(unexpected_result)
    }

    /// Returns a procedure without its payloads.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn procedure(&self, id: &ProcedureId) -> Result<Procedure, Error> {
        self.item(id).await
    }

    /// Returns a procedure as of a record, by following its versions backwards.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was started later; or a storage failure.
    pub async fn procedure_at(&self, id: &ProcedureId, at: Seq) -> Result<Procedure, Error> {
        let mut procedure = self.procedure(id).await?;
        while procedure.seq > at {
            let before = procedure.previous_seq.ok_or_else(|| Procedure::not_found(id))?;
            procedure = self.version_in(id, before).await?;
        }
        Ok(procedure)
    }

    /// Returns the procedure as of the end of a record.
    async fn version_in(&self, id: &ProcedureId, seq: Seq) -> Result<Procedure, Error> {
        let ReadResult::Record(Some(record)) = self.read_one(ReadQuery::Record(seq)).await? else {
            return Err(unexpected_result());
        };
        let body = codec::read_without_payload(&record)
            .map_err(|error| StoreError::Corrupt(format!("record {seq}: {error}").into()))?;
        let last = body.effects.into_iter().rev().find_map(|effect| match effect {
            Effect::Changed { item: Item::Procedure(procedure), .. } if procedure.id == *id => {
                Some(procedure)
            }
            _ => None,
        });
        last.ok_or_else(unexpected_result)
    }

    /// Returns procedures by ID, optionally with a given status, without their payloads. A page can be short and
    /// still have a cursor if the scan limit was reached.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        after: Option<&ItemRange>,
        limit: usize,
    ) -> Result<ProcedurePage, Error> {
        let filter = |item| match item {
            Item::Procedure(procedure) if status.is_none_or(|status| status == procedure.status) => {
                Some(procedure)
            }
            _ => None,
        };
        let page = self.items(ItemKind::Procedure, after.cloned(), limit, filter).await?;
        Ok(ProcedurePage { procedures: page.items, cursor: page.cursor })
    }

    /// Returns a procedure with its payloads.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn procedure_view(&self, procedure: Procedure) -> Result<ProcedureView, Error> {
        let spec = self.payload_part(procedure.spec).await?;
        let state = self.payload_part(procedure.state).await?;
        let result = self.payload_part(procedure.result).await?;
        Ok(ProcedureView { procedure, spec, state, result })
    }

    /// Returns a payload by its location. An erased payload is marked as such.
    pub(crate) async fn payload_part(&self, part: Option<PartRef>) -> Result<Option<Payload>, Error> {
        let Some(PartRef { seq, part }) = part else { return Ok(None) };
        match self.read_one(ReadQuery::Part { seq, part, start: 0, length: u64::MAX }).await? {
            ReadResult::Part(Some(found)) => {
                // The salt is not disclosed. A zero salt marks an erased payload.
                let salt = if found.erased { [0; 16] } else { [0xff; 16] };
                Ok(Some(Payload { salt, ..Payload::unsealed(found.bytes) }))
            }
            _ => Err(unexpected_result()),
        }
    }

    /// Explains the state of a procedure.
    pub(crate) async fn why_procedure(&self, id: &ProcedureId) -> Result<Why, Error> {
        let now = self.engine().clock().now().wall;
        let procedure = self.procedure(id).await?;
        match self.inspect(Inspect::Procedure(id.clone())).await? {
            InspectResult::Procedure(inspection) => Ok(Why::of_procedure(&procedure, &inspection, now)),
            other => Err(unexpected_inspection(&other)),
        }
    }
}

fn unexpected_result() -> Error {
    StoreError::Read("unexpected result of a procedure operation".into()).into()
}
