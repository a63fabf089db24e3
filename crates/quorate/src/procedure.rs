//! Procedures: a protocol of several steps whose state is kept, so that each step of its driver is one commit: what came
//! in is acked, the state goes on, and messages go out, all of it or nothing.

use std::sync::Arc;

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::procedure::ProcedureWithState;
use quorate_core::{
    AgentId, Commit, Op, OpResult, Principal, ProcedureId, ProcedureStatus, Receipt, Seq, StartProcedure,
    StepProcedure, StoreError, Version,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, from_json, to_json};
use crate::hub::Hub;
use crate::link::Link;
use crate::step::Step;

pub use quorate_api::procedure::Procedure;

/// A procedure to be started.
#[must_use = "a procedure starts when somebody starts it"]
pub struct ProcedureDraft {
    kind: String,
    spec: Result<Vec<u8>, Error>,
    id: Option<String>,
    driver: Option<String>,
}

impl ProcedureDraft {
    /// A procedure of this kind, with what it is to do. An agent that starts it drives it, if nothing else is said.
    pub fn new(kind: impl Into<String>, spec: impl Serialize) -> Self {
        Self { kind: kind.into(), spec: to_json(spec), id: None, driver: None }
    }

    /// An id of one's own: starting the same again is then the same procedure.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The agent that drives it: nobody else steps it but those who run the hub.
    pub fn driver(mut self, agent: impl Into<String>) -> Self {
        self.driver = Some(agent.into());
        self
    }

    fn op(self, link: &dyn Link) -> Result<Op, Error> {
        Ok(Op::StartProcedure(StartProcedure {
            id: self.id.map(ProcedureId::new).transpose()?,
            kind: self.kind,
            driver: self.driver.map(AgentId::new).transpose()?,
            spec: Some(link.seal(self.spec?.into())),
        }))
    }
}

/// The next step of a procedure, to be committed with [`Step::procedure`].
#[must_use = "a step takes effect when it is committed"]
pub struct ProcedureStep {
    id: String,
    expect: u64,
    phase: String,
    status: ProcedureStatus,
    state: Option<Result<Vec<u8>, Error>>,
    result: Option<Result<Vec<u8>, Error>>,
}

impl ProcedureStep {
    /// A step from this version into a phase; the state stays as it was if none is given.
    pub fn new(id: impl Into<String>, expect: Version, phase: impl Into<String>) -> Self {
        let status = ProcedureStatus::Running;
        Self { id: id.into(), expect: expect.0, phase: phase.into(), status, state: None, result: None }
    }

    /// What its driver knows from now on.
    pub fn state(mut self, state: impl Serialize) -> Self {
        self.state = Some(to_json(state));
        self
    }

    /// The last step: this came of it.
    pub fn done(mut self, result: impl Serialize) -> Self {
        (self.status, self.result) = (ProcedureStatus::Done, Some(to_json(result)));
        self
    }

    /// The last step: it came to nothing, or only to this.
    pub fn failed(mut self, result: impl Serialize) -> Self {
        (self.status, self.result) = (ProcedureStatus::Failed, Some(to_json(result)));
        self
    }

    fn op(self, link: &dyn Link) -> Result<Op, Error> {
        let seal = |bytes: Result<Vec<u8>, Error>| bytes.map(|bytes| link.seal(bytes.into()));
        Ok(Op::StepProcedure(StepProcedure {
            procedure: ProcedureId::new(self.id)?,
            expect: Version(self.expect),
            phase: self.phase,
            status: self.status,
            state: self.state.map(seal).transpose()?,
            result: self.result.map(seal).transpose()?,
        }))
    }
}

impl Step {
    /// Goes on with a procedure: refused with `VERSION_CONFLICT`, and with it the whole step, if somebody else did.
    pub fn procedure(self, step: ProcedureStep) -> Self {
        let op = step.op(&*self.agent.link);
        self.add(op)
    }

    /// Starts a procedure.
    pub fn start_procedure(self, draft: ProcedureDraft) -> Self {
        let op = draft.op(&*self.agent.link);
        self.add(op)
    }
}

/// A procedure with its spec, state and result.
#[derive(Clone, Debug)]
pub struct ProcedureInfo(ProcedureWithState);

impl From<ProcedureWithState> for ProcedureInfo {
    fn from(procedure: ProcedureWithState) -> Self {
        Self(procedure)
    }
}

impl ProcedureInfo {
    /// The procedure without its payloads.
    #[must_use]
    pub fn procedure(&self) -> &Procedure {
        &self.0.procedure
    }

    /// The version that the next step must expect.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.procedure.version
    }

    /// Its spec, typed.
    ///
    /// # Errors
    /// `INVALID` if it does not fit the type, or was erased.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.0.more.spec.as_ref().map_or(b"null", |spec| &spec.0))
    }

    /// The state of its driver, typed; `None` before the first state.
    ///
    /// # Errors
    /// As [`ProcedureInfo::spec`].
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.0.more.state.as_ref().map(|state| from_json(&state.0)).transpose()
    }

    /// Its result, typed; `None` if there is none.
    ///
    /// # Errors
    /// As [`ProcedureInfo::spec`].
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.0.more.result.as_ref().map(|result| from_json(&result.0)).transpose()
    }
}

fn started(receipt: &Receipt) -> Result<ProcedureId, Error> {
    match receipt.results.first() {
        Some(OpResult::ProcedureStarted { id }) => Ok(id.clone()),
        _ => Err(StoreError::Read("a start was not answered".into()).into()),
    }
}

impl Agent {
    /// Starts a procedure. Gives its id.
    ///
    /// # Errors
    /// `DUPLICATE` if the id is another procedure's, `NOT_FOUND` for an unknown driver, or a failure of the storage.
    pub async fn start_procedure(&self, draft: ProcedureDraft) -> Result<ProcedureId, Error> {
        let op = draft.op(&*self.link)?;
        started(&self.link.commit(self.commit_of(vec![op])).await?)
    }

    /// A procedure as it is now.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn procedure(&self, id: &str) -> Result<ProcedureInfo, Error> {
        info(&self.link, id, None).await
    }
}

async fn info(link: &Arc<dyn Link>, id: &str, at: Option<Seq>) -> Result<ProcedureInfo, Error> {
    link.procedure(ProcedureId::new(id)?, at).await
}

impl Hub {
    /// Starts a procedure in the name of the hub. Gives its id.
    ///
    /// # Errors
    /// As [`Agent::start_procedure`].
    pub async fn start_procedure(&self, draft: ProcedureDraft) -> Result<ProcedureId, Error> {
        let op = draft.op(&*self.link)?;
        started(&self.link.commit(Commit::new(Principal::System, vec![op])).await?)
    }

    /// A procedure as it is now.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn procedure(&self, id: &str) -> Result<ProcedureInfo, Error> {
        info(&self.link, id, None).await
    }

    /// A procedure as it was after a record.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was started later; or a failure of the storage.
    pub async fn procedure_at(&self, id: &str, at: Seq) -> Result<ProcedureInfo, Error> {
        info(&self.link, id, Some(at)).await
    }

    /// A page of the procedures with this status, or of all. Without their states.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn procedures(
        &self,
        status: Option<ProcedureStatus>,
        page: PageQuery,
    ) -> Result<Page<Procedure>, Error> {
        self.link.procedures(status, page).await
    }
}
