//! Procedures: multi-step protocols run by a driver.

use quorate_core::{
    AgentId, ControlProcedure, Payload, Procedure as CoreProcedure, ProcedureControl, ProcedureId,
    ProcedureStatus, Refused, Seq, SignalProcedure, StartProcedure, StepProcedure, Timestamp, Version,
};
use serde::{Deserialize, Serialize};

use crate::json::{Json, RawJson, deserialize_in_two_passes};
use crate::page::Order;
use crate::parse_context::{ParseContext, path_or_body};
use crate::payload;
#[cfg(feature = "schema")]
use crate::schema;

/// Procedure to start.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewProcedure<'a> {
    /// Client-assigned ID; the hub assigns one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ProcedureId>,
    /// Kind of protocol, such as `deliberation`.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub kind: String,
    /// Agent that drives the procedure. Defaults to the agent that starts it; for other principals, to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<AgentId>,
    /// Input of the procedure: any JSON up to the payload limit of the space, 512 KB by default, stored byte for byte.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Json<'a>>,
    /// Procedure whose child it is: it is cancelled with it. Only the driver of that procedure may name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ProcedureId>,
}

impl NewProcedure<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// Never fails today. The signature matches that of the other requests.
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<StartProcedure, Refused> {
        Ok(StartProcedure {
            id: self.id,
            kind: self.kind,
            driver: self.driver,
            spec: context.optional_payload(self.spec.as_ref())?,
            parent: self.parent,
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the spec is not JSON.
    pub fn new(start: &StartProcedure) -> Result<NewProcedure<'static>, Refused> {
        Ok(NewProcedure {
            id: start.id.clone(),
            kind: start.kind.clone(),
            driver: start.driver.clone(),
            spec: start.spec.as_ref().map(|spec| payload::encode(&spec.bytes, None)).transpose()?,
            parent: start.parent.clone(),
        })
    }
}

/// Step of a procedure.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcedureStep<'a> {
    /// Procedure ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub procedure: Option<ProcedureId>,
    /// Expected current version, for optimistic concurrency.
    pub expect: Version,
    /// Phase that the procedure enters.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub phase: String,
    /// New status: `running` (the default), `done`, `failed`, or `stuck` with a `reason`. A procedure that is done or
    /// failed accepts no further steps; one that is stuck accepts none until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ProcedureStatus>,
    /// State of the driver: any JSON up to the payload limit of the space, 512 KB by default. Unchanged if omitted.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json<'a>>,
    /// Result of the procedure, sent with the last step.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json<'a>>,
    /// Why the procedure is stuck. Only with that status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub reason: String,
}

const _: () =
    assert!(quorate_core::limits::PAYLOAD_BYTES_DEFAULT == 512 * 1024, "the descriptions above state 512 KB");

impl ProcedureStep<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the procedure is missing.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<ProcedureId>,
    ) -> Result<StepProcedure, Refused> {
        Ok(StepProcedure {
            procedure: path_or_body("procedure", path, self.procedure)?,
            expect: self.expect,
            phase: self.phase,
            status: self.status.unwrap_or(ProcedureStatus::Running),
            state: context.optional_payload(self.state.as_ref())?,
            result: context.optional_payload(self.result.as_ref())?,
            reason: self.reason,
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if state or result are not JSON.
    pub fn new(step: &StepProcedure) -> Result<ProcedureStep<'static>, Refused> {
        Ok(ProcedureStep {
            procedure: Some(step.procedure.clone()),
            expect: step.expect,
            phase: step.phase.clone(),
            status: Some(step.status),
            state: step.state.as_ref().map(|state| payload::encode(&state.bytes, None)).transpose()?,
            result: step.result.as_ref().map(|result| payload::encode(&result.bytes, None)).transpose()?,
            reason: step.reason.clone(),
        })
    }
}

/// Pause, resume or cancel a procedure.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcedureChange {
    /// Procedure ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub procedure: Option<ProcedureId>,
    /// Reason for the change.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub reason: String,
}

impl ProcedureChange {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the procedure is missing.
    pub fn into_core(
        self,
        control: ProcedureControl,
        path: Option<ProcedureId>,
    ) -> Result<ControlProcedure, Refused> {
        let procedure = path_or_body("procedure", path, self.procedure)?;
        Ok(ControlProcedure { procedure, control, reason: self.reason })
    }

    /// Creates the request body that a client sends.
    #[must_use]
    pub fn new(control: &ControlProcedure) -> Self {
        Self { procedure: Some(control.procedure.clone()), reason: control.reason.clone() }
    }
}

/// Signal for the driver of a procedure.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcedureSignal<'a> {
    /// Procedure ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub procedure: Option<ProcedureId>,
    /// Name of the signal. What a name means depends on the kind of the procedure.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub name: String,
    /// Payload of the signal: any JSON of at most 64 KB.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json<'a>>,
}

const _: () =
    assert!(quorate_core::limits::SIGNAL_BYTES_MAX == 64 * 1024, "the description above states 64 KB");

impl ProcedureSignal<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the procedure is missing.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<ProcedureId>,
    ) -> Result<SignalProcedure, Refused> {
        Ok(SignalProcedure {
            procedure: path_or_body("procedure", path, self.procedure)?,
            name: self.name,
            payload: context.optional_payload(self.payload.as_ref())?,
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the payload is not JSON.
    pub fn new(signal: &SignalProcedure) -> Result<ProcedureSignal<'static>, Refused> {
        let payload = signal.payload.as_ref().map(|payload| payload::encode(&payload.bytes, None));
        Ok(ProcedureSignal {
            procedure: Some(signal.procedure.clone()),
            name: signal.name.clone(),
            payload: payload.transpose()?,
        })
    }
}

/// A procedure: a multi-step protocol run by a driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Procedure {
    /// Unique identifier.
    pub id: ProcedureId,
    /// Kind of protocol.
    pub kind: String,
    /// Agent that drives the procedure; `null` if the hub does.
    pub driver: Option<AgentId>,
    /// Principal that started the procedure.
    pub started_by: String,
    /// Time at which the procedure was started.
    pub started_at: Timestamp,
    /// Current version. The next step must expect it.
    pub version: Version,
    /// Sequence number of the record of this version.
    pub seq: Seq,
    /// Current status.
    pub status: ProcedureStatus,
    /// Current phase; empty before the first step.
    pub phase: String,
    /// Time at which the procedure entered this phase, was paused, got stuck, or ended.
    pub since: Timestamp,
    /// Time of the last step.
    pub stepped_at: Timestamp,
    /// Why it is paused, cancelled or stuck; omitted if there is no reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Procedure whose child it is, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ProcedureId>,
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
            reason: procedure.reason.clone(),
            parent: procedure.parent.clone(),
        }
    }
}

/// Procedure with its spec, state and result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcedureWithState {
    /// The procedure.
    #[serde(flatten)]
    pub procedure: Procedure,
    /// Its payloads.
    #[serde(flatten)]
    pub more: ProcedurePayloads,
}

impl ProcedureWithState {
    /// Creates the API representation of a procedure with its payloads. Erased payloads are omitted.
    #[must_use]
    pub fn new(
        procedure: &CoreProcedure,
        spec: Option<&Payload>,
        state: Option<&Payload>,
        result: Option<&Payload>,
    ) -> Self {
        let more = ProcedurePayloads {
            spec: payload::render_stored(spec),
            state: payload::render_stored(state),
            result: payload::render_stored(result),
        };
        Self { procedure: procedure.into(), more }
    }
}

deserialize_in_two_passes!(ProcedureWithState { procedure, more });

/// Payloads of a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcedurePayloads {
    /// Input of the procedure.
    pub spec: Option<RawJson>,
    /// State of the driver.
    pub state: Option<RawJson>,
    /// Result of the procedure.
    pub result: Option<RawJson>,
}

/// As-of position of a procedure, or a wait for a change.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcedureGetQuery {
    /// Sequence number of a record, or a time: read the state after it. Current state by default.
    pub at: Option<String>,
    /// Read the state at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
    /// How long to wait until the procedure no longer runs; then the current state is returned. Cannot be combined with
    /// `at`.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// With `waitMs`: wait until the version is greater than this one, or the procedure has ended. Also waits while it is paused
    /// or stuck.
    pub after_version: Option<Version>,
}

/// Filter and page of a list of procedures.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProcedureListQuery {
    /// Only procedures with this status.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ProcedureStatusName>"))]
    pub status: Option<String>,
    /// Sort order by creation; `newest` by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Order>"))]
    pub order: Option<Order>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
