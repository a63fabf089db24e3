//! Procedures: start, step, pause, resume, cancel, signal, get, list. Lists do not include states.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::page::ListQuery;
use quorate_api::payload;
use quorate_api::procedure::{
    NewProcedure, Procedure as ShownProcedure, ProcedureChange, ProcedureGetQuery, ProcedureListQuery,
    ProcedurePayloads, ProcedureSignal, ProcedureStep, ProcedureWithState,
};
use quorate_core::{
    Code, Op, OpResult, Payload, Procedure, ProcedureControl, ProcedureId, ProcedureStatus, Refused, Seq,
};
use quorate_engine::{Error, ProcedureView};

use crate::api::{Operation, Route, get, post, schema};
use crate::call::{ApiResult, Call, json_response};
use crate::problem::Problem;
use crate::routes::{at_with_wait, inbox::check_wait};
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    let change = |path, id, summary| -> Operation {
        post(path, id, summary)
            .path_parameter::<schema::Id>("id", "Procedure ID.")
            .request_body::<ProcedureChange>()
            .returns::<ProcedureWithState>(200, "The procedure.")
    };
    vec![
        post("/v1/procedures", "procedures.start", "Start a procedure.")
            .request_body::<NewProcedure<'_>>()
            .returns::<ProcedureWithState>(201, "The procedure is running; its driver takes the first step.")
            .handled_by(start),
        get("/v1/procedures", "procedures.list", "List procedures without their states, newest first.")
            .query_parameters::<ProcedureListQuery>()
            .returns_page::<ShownProcedure>("procedures")
            .handled_in_bulk_by(list),
        get(
            "/v1/procedures/{id}",
            "procedures.get",
            "Get a procedure, optionally as of a past record, or wait until it ends, is paused or is stuck.",
        )
        .path_parameter::<schema::Id>("id", "Procedure ID.")
        .query_parameters::<ProcedureGetQuery>()
        .returns::<ProcedureWithState>(200, "The procedure.")
        .handled_by(show),
        post(
            "/v1/procedures/{id}/step",
            "procedures.step",
            "Advance a procedure by one step. Requires its driver.",
        )
        .path_parameter::<schema::Id>("id", "Procedure ID.")
        .request_body::<ProcedureStep<'_>>()
        .returns::<ProcedureWithState>(200, "The procedure has a new version.")
        .handled_by(step),
        change(
            "/v1/procedures/{id}/pause",
            "procedures.pause",
            "Pause a procedure: it accepts no step until it is resumed.",
        )
        .handled_by(pause),
        change(
            "/v1/procedures/{id}/resume",
            "procedures.resume",
            "Resume a procedure that is paused or stuck.",
        )
        .handled_by(resume),
        change(
            "/v1/procedures/{id}/cancel",
            "procedures.cancel",
            "Cancel a procedure with its open requests and tasks.",
        )
        .handled_by(cancel),
        post(
            "/v1/procedures/{id}/signal",
            "procedures.signal",
            "Send a signal to the driver of a procedure.",
        )
        .path_parameter::<schema::Id>("id", "Procedure ID.")
        .request_body::<ProcedureSignal<'_>>()
        .returns::<ProcedureWithState>(200, "The driver will receive the signal.")
        .handled_by(signal),
    ]
}

fn status_of(name: &str) -> Result<ProcedureStatus, Refused> {
    let known = ProcedureStatus::ALL.into_iter().find(|status| status.as_str() == name);
    known.ok_or_else(|| {
        Refused::new(Code::Invalid, format!("unknown procedure status {name:?}"))
            .hint("use running, done, failed, cancelled, paused or stuck")
    })
}

pub(crate) async fn start(call: Call) -> ApiResult {
    let start = body::parse::<NewProcedure<'_>>(&call.body)?.into_core(&call.parse_context())?;
    let receipt = call.commit(vec![Op::StartProcedure(start)]).await?;
    match receipt.results.first() {
        Some(OpResult::ProcedureStarted { id }) => {
            let procedure = as_of(&call, id, receipt.seq).await?;
            respond(&call, StatusCode::CREATED, procedure).await
        }
        _ => Err(Problem::unknown_outcome("starting the procedure returned no result")),
    }
}

pub(crate) async fn step(Path(id): Path<String>, call: Call) -> ApiResult {
    let step = body::parse::<ProcedureStep<'_>>(&call.body)?
        .into_core(&call.parse_context(), Some(ProcedureId::new(id)?))?;
    let id = step.procedure.clone();
    let receipt = call.commit(vec![Op::StepProcedure(step)]).await?;
    let procedure = as_of(&call, &id, receipt.seq).await?;
    respond(&call, StatusCode::OK, procedure).await
}

async fn pause(Path(id): Path<String>, call: Call) -> ApiResult {
    control(id, call, ProcedureControl::Pause).await
}

async fn resume(Path(id): Path<String>, call: Call) -> ApiResult {
    control(id, call, ProcedureControl::Resume).await
}

async fn cancel(Path(id): Path<String>, call: Call) -> ApiResult {
    control(id, call, ProcedureControl::Cancel).await
}

async fn control(id: String, call: Call, control: ProcedureControl) -> ApiResult {
    let control =
        body::parse::<ProcedureChange>(&call.body)?.into_core(control, Some(ProcedureId::new(id)?))?;
    let id = control.procedure.clone();
    let reason = control.reason.clone();
    let receipt = call.commit(vec![Op::ControlProcedure(control)]).await?;
    if let Some(OpResult::ProcedureChanged { remaining: 1.., .. }) = receipt.results.first() {
        call.space.cancel_procedure(&call.principal, None, &id, &reason).await?;
    }
    let procedure = as_of(&call, &id, receipt.seq).await?;
    respond(&call, StatusCode::OK, procedure).await
}

async fn signal(Path(id): Path<String>, call: Call) -> ApiResult {
    let signal = body::parse::<ProcedureSignal<'_>>(&call.body)?
        .into_core(&call.parse_context(), Some(ProcedureId::new(id)?))?;
    let id = signal.procedure.clone();
    let receipt = call.commit(vec![Op::SignalProcedure(signal)]).await?;
    let procedure = as_of(&call, &id, receipt.seq).await?;
    respond(&call, StatusCode::OK, procedure).await
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let ProcedureGetQuery { at, time, wait_ms, after_version } = call.query()?;
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    let wait = check_wait(call.durations(), wait_ms)?;
    let id = ProcedureId::new(id)?;
    if at.is_none() {
        let procedure = match wait_ms {
            Some(_) => call.space.wait_for_procedure(&id, after_version, wait).await?,
            None => call.space.procedure(&id).await?,
        };
        return respond(&call, StatusCode::OK, procedure).await;
    }
    if wait_ms.is_some() {
        return Err(at_with_wait().into());
    }
    bulk::run_as_bulk_read(call, move |call| async move { at_record(&call, &id, at).await }).await
}

async fn at_record(call: &Call, id: &ProcedureId, at: Option<Seq>) -> ApiResult {
    let procedure = as_of(call, id, at).await?;
    respond(call, StatusCode::OK, procedure).await
}

/// Returns the procedure as of a record. After a change that is the record of the change, so that an idempotent
/// replay returns the same response.
async fn as_of(call: &Call, id: &ProcedureId, at: Option<Seq>) -> Result<Procedure, Error> {
    match at {
        Some(at) => call.space.procedure_at(id, at).await,
        None => call.space.procedure(id).await,
    }
}

async fn respond(call: &Call, status: StatusCode, procedure: Procedure) -> ApiResult {
    let view: Result<ProcedureView, Error> = call.space.procedure_view(procedure).await;
    let ProcedureView { procedure, spec, state, result } = view?;
    let state = match state {
        Some(state) => visible_state(call, &procedure, state).await?,
        None => None,
    };
    let [spec, state, result] =
        [spec, state, result].map(|payload| payload.map(|payload| payload::render(&payload, None)));
    let more = ProcedurePayloads { spec, state, result };
    json_response(status, &ProcedureWithState { procedure: (&procedure).into(), more })
}

/// Returns the state as the caller may see it while the procedure runs. In a deliberation, agents do not see answers
/// that were given before their own.
async fn visible_state(call: &Call, shown: &Procedure, state: Payload) -> Result<Option<Payload>, Error> {
    let Some(agent) = call.calling_agent() else { return Ok(Some(state)) };
    // An earlier version of a procedure that has ended is not secret.
    if call.space.procedure(&shown.id).await?.status.has_ended() {
        return Ok(Some(state));
    }
    let visible = call.app.procedures().registry().visible_state(shown, &state.bytes, agent.as_str());
    Ok(visible.map(|bytes| Payload { bytes: bytes.into(), ..state }))
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: ProcedureListQuery = call.query()?;
    let status = filter.status.map(|name| status_of(&name)).transpose()?;
    let list_query = ListQuery { order: filter.order, limit: filter.limit, cursor: filter.cursor };
    let matches = |procedure: &Procedure| status.is_none_or(|status| status == procedure.status);
    super::list(&call, "procedures", list_query, matches, |procedure| ShownProcedure::from(procedure)).await
}
