//! Procedures: protocols of several steps.

use quorate_core::{
    AgentId, Payload, Procedure as CoreProcedure, ProcedureId, ProcedureStatus, Refused, Seq, StartProcedure,
    StepProcedure, Timestamp, Version,
};
use serde::{Deserialize, Serialize};

use crate::json::{Json, Raw, deserialize_in_two_passes};
use crate::payload;
use crate::reading::{Reading, named};
#[cfg(feature = "schema")]
use crate::schema;

/// A procedure to start.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewProcedure<'a> {
    /// The caller's own id; by default the hub assigns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ProcedureId>,
    /// The kind of protocol.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub kind: String,
    /// The agent that drives it. By default the agent that starts it; for other principals, the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<AgentId>,
    /// What it is to do: any JSON of at most 512 KB, kept byte for byte.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Json<'a>>,
}

impl NewProcedure<'_> {
    /// The operation.
    ///
    /// # Errors
    /// None today; the form is that of the other requests.
    pub fn read(self, reading: &Reading<'_>) -> Result<StartProcedure, Refused> {
        Ok(StartProcedure {
            id: self.id,
            kind: self.kind,
            driver: self.driver,
            spec: reading.optional(self.spec.as_ref())?,
        })
    }

    /// A procedure as a client starts it.
    ///
    /// # Errors
    /// `INVALID` if the spec is not JSON.
    pub fn new(start: &StartProcedure) -> Result<NewProcedure<'static>, Refused> {
        Ok(NewProcedure {
            id: start.id.clone(),
            kind: start.kind.clone(),
            driver: start.driver.clone(),
            spec: start.spec.as_ref().map(|spec| payload::json_of(&spec.bytes, None)).transpose()?,
        })
    }
}

/// A step of a procedure.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcedureStep<'a> {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub procedure: Option<ProcedureId>,
    /// The version that it has now.
    pub expect: Version,
    /// The phase that it enters.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub phase: String,
    /// `running` by default. A procedure that is done or failed does not change any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ProcedureStatus>,
    /// The state of the driver: any JSON of at most 512 KB. Unchanged if omitted.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json<'a>>,
    /// The result, with the last step.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json<'a>>,
}

const _: () =
    assert!(quorate_core::limits::PAYLOAD_BYTES_MAX == 512 * 1024, "the descriptions above say 512 KB");

impl ProcedureStep<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no procedure is named.
    pub fn read(self, reading: &Reading<'_>, path: Option<ProcedureId>) -> Result<StepProcedure, Refused> {
        Ok(StepProcedure {
            procedure: named("procedure", path, self.procedure)?,
            expect: self.expect,
            phase: self.phase,
            status: self.status.unwrap_or(ProcedureStatus::Running),
            state: reading.optional(self.state.as_ref())?,
            result: reading.optional(self.result.as_ref())?,
        })
    }

    /// A step as a client sends it.
    ///
    /// # Errors
    /// `INVALID` if state or result are not JSON.
    pub fn new(step: &StepProcedure) -> Result<ProcedureStep<'static>, Refused> {
        Ok(ProcedureStep {
            procedure: Some(step.procedure.clone()),
            expect: step.expect,
            phase: step.phase.clone(),
            status: Some(step.status),
            state: step.state.as_ref().map(|state| payload::json_of(&state.bytes, None)).transpose()?,
            result: step.result.as_ref().map(|result| payload::json_of(&result.bytes, None)).transpose()?,
        })
    }
}

/// A procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Procedure {
    /// Its id.
    pub id: ProcedureId,
    /// The kind of protocol.
    pub kind: String,
    /// The agent that drives it; `null` for the hub.
    pub driver: Option<AgentId>,
    /// The principal that started it.
    pub started_by: String,
    /// When.
    pub started_at: Timestamp,
    /// The version that the next step must expect.
    pub version: Version,
    /// The record of this version.
    pub seq: Seq,
    /// Its state.
    pub status: ProcedureStatus,
    /// Its phase; empty before the first step.
    pub phase: String,
    /// Since when it is in that phase, or over.
    pub since: Timestamp,
    /// When its last step was.
    pub stepped_at: Timestamp,
}

impl From<&CoreProcedure> for Procedure {
    fn from(procedure: &CoreProcedure) -> Self {
        Self {
            id: procedure.id.clone(),
            kind: procedure.kind.clone(),
            driver: procedure.driver.clone(),
            started_by: procedure.started_by.clone(),
            started_at: procedure.started_at,
            version: procedure.version,
            seq: procedure.seq,
            status: procedure.status,
            phase: procedure.phase.clone(),
            since: procedure.since,
            stepped_at: procedure.stepped_at,
        }
    }
}

/// A procedure with its spec, state and result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcedureWithState {
    /// The procedure.
    #[serde(flatten)]
    pub procedure: Procedure,
    /// The rest.
    #[serde(flatten)]
    pub more: ProcedurePayloads,
}

impl ProcedureWithState {
    /// A procedure with its payloads, as it is shown. Erased ones are left out.
    #[must_use]
    pub fn new(
        procedure: &CoreProcedure,
        spec: Option<&Payload>,
        state: Option<&Payload>,
        result: Option<&Payload>,
    ) -> Self {
        let more = ProcedurePayloads {
            spec: payload::stored(spec),
            state: payload::stored(state),
            result: payload::stored(result),
        };
        Self { procedure: procedure.into(), more }
    }
}

deserialize_in_two_passes!(ProcedureWithState { procedure, more });

/// The payloads of a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcedurePayloads {
    /// What it is to do.
    pub spec: Option<Raw>,
    /// The state of its driver.
    pub state: Option<Raw>,
    /// Its result.
    pub result: Option<Raw>,
}
