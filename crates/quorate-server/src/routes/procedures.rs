//! Procedures: start, step, look at. A list shows none of the states.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::limits::PAYLOAD_BYTES_MAX;
use quorate_core::{
    AgentId, Code, Op, OpResult, Procedure, ProcedureId, ProcedureStatus, Refused, Seq, StartProcedure,
    StepProcedure, Version,
};
use quorate_engine::{Error, ProcedureView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Past, checked_limit};
use crate::api::{Route, get, post, words};
use crate::call::{Answer, Call, answer, page};
use crate::wire::{self, Raw, Sealing, time};
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/procedures", "procedures.start", "Starts a protocol of several steps.")
            .body::<StartIn<'_>>()
            .answers::<ProcedureOut>(201, "It is running; the first step is its driver's.")
            .to(start),
        get("/v1/procedures", "procedures.list", "The procedures, by id, without their states.")
            .query::<Filter>()
            .lists::<ProcedureFields>("procedures")
            .bulk(list),
        get("/v1/procedures/{id}", "procedures.get", "A procedure with its state, as it is or was.")
            .path::<words::Id>("id")
            .query::<Past>()
            .answers::<ProcedureOut>(200, "The procedure.")
            .to(show),
        post("/v1/procedures/{id}/step", "procedures.step", "Goes on with a procedure; for its driver.")
            .path::<words::Id>("id")
            .body::<StepIn<'_>>()
            .answers::<ProcedureOut>(200, "It has a new version.")
            .to(step),
    ]
}

/// A procedure as a caller starts it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewProcedure")]
pub(crate) struct StartIn<'a> {
    /// The caller's own id; the hub makes one if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    id: Option<String>,
    /// What kind of protocol it is, as a word.
    #[schemars(with = "words::Id")]
    kind: String,
    /// The agent that steps it: the one that starts it, if nothing is said; if that is no agent, whoever runs the hub.
    #[schemars(with = "Option<words::Id>")]
    driver: Option<String>,
    /// What it is to do: any JSON of at most 512 KB, kept byte for byte.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    spec: Option<&'a RawValue>,
}

impl StartIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>) -> Result<StartProcedure, Refused> {
        Ok(StartProcedure {
            id: self.id.map(ProcedureId::new).transpose()?,
            kind: self.kind,
            driver: self.driver.map(AgentId::new).transpose()?,
            spec: self.spec.map(|raw| sealing.payload(Some(raw), None)).transpose()?,
        })
    }
}

/// The next step of a procedure.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ProcedureStep")]
pub(crate) struct StepIn<'a> {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    procedure: Option<String>,
    /// The version that it has now.
    #[schemars(with = "words::Number")]
    expect: u64,
    /// The phase that it is in from now on.
    #[schemars(with = "words::Id")]
    phase: String,
    /// `running` if nothing is said. What is over never changes again.
    #[schemars(with = "Option<words::ProcedureWord>")]
    status: Option<String>,
    /// What its driver knows from now on: any JSON of at most 512 KB. As before, if nothing is said.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    state: Option<&'a RawValue>,
    /// What came of it, with the last step.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    result: Option<&'a RawValue>,
}

const _: () = assert!(PAYLOAD_BYTES_MAX == 512 * 1024, "the descriptions above say 512 KB");

impl StepIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>, path: Option<&str>) -> Result<StepProcedure, Refused> {
        let procedure = match (path, self.procedure) {
            (Some(path), Some(body)) if path != body => {
                return Err(Refused::new(Code::Invalid, format!("the path names {path}, the body {body}"))
                    .hint("name it in the path only"));
            }
            (Some(path), _) => ProcedureId::new(path)?,
            (None, body) => ProcedureId::new(body.unwrap_or_default())?,
        };
        Ok(StepProcedure {
            procedure,
            expect: Version(self.expect),
            phase: self.phase,
            status: self.status.map_or(Ok(ProcedureStatus::Running), |word| status_of(&word))?,
            state: self.state.map(|raw| sealing.payload(Some(raw), None)).transpose()?,
            result: self.result.map(|raw| sealing.payload(Some(raw), None)).transpose()?,
        })
    }
}

fn status_of(word: &str) -> Result<ProcedureStatus, Refused> {
    let known = ProcedureStatus::ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| {
        Refused::new(Code::Invalid, format!("there is no procedure status {word:?}"))
            .hint("say running, done or failed")
    })
}

pub(crate) async fn start(call: Call) -> Answer {
    let start = body::parse::<StartIn<'_>>(&call.body)?.read(&call.sealing())?;
    let receipt = call.commit(vec![Op::StartProcedure(start)]).await?;
    match receipt.results.first() {
        Some(OpResult::ProcedureStarted { id }) => {
            let procedure = after(&call, id, receipt.seq).await?;
            shown(&call, StatusCode::CREATED, procedure).await
        }
        _ => Err(Refused::new(Code::Unavailable, "the procedure was not answered").into()),
    }
}

pub(crate) async fn step(Path(id): Path<String>, call: Call) -> Answer {
    let step = body::parse::<StepIn<'_>>(&call.body)?.read(&call.sealing(), Some(&id))?;
    let id = step.procedure.clone();
    let receipt = call.commit(vec![Op::StepProcedure(step)]).await?;
    let procedure = after(&call, &id, receipt.seq).await?;
    shown(&call, StatusCode::OK, procedure).await
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let Past { at, time } = call.query()?;
    let at = call.past(at.as_deref(), time.as_deref()).await?;
    let id = ProcedureId::new(id)?;
    if at.is_none() {
        return at_record(&call, &id, None).await;
    }
    bulk::answer(call, move |call| async move { at_record(&call, &id, at).await }).await
}

async fn at_record(call: &Call, id: &ProcedureId, at: Option<Seq>) -> Answer {
    let procedure = after(call, id, at).await?;
    shown(call, StatusCode::OK, procedure).await
}

/// As it was after a record; after a change as its record left it, so that the same key has the same answer.
async fn after(call: &Call, id: &ProcedureId, at: Option<Seq>) -> Result<Procedure, Error> {
    match at {
        Some(at) => call.space.procedure_at(id, at).await,
        None => call.space.procedure(id).await,
    }
}

async fn shown(call: &Call, status: StatusCode, procedure: Procedure) -> Answer {
    let view: Result<ProcedureView, Error> = call.space.procedure_view(procedure).await;
    let ProcedureView { procedure, spec, state, result } = view?;
    let [spec, state, result] =
        [spec, state, result].map(|payload| payload.map(|payload| wire::shown(&payload, None)));
    answer(status, &ProcedureOut { procedure: of(&procedure), spec, state, result })
}

/// A procedure with what it is to do, what its driver knows, and what came of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProcedureWithState")]
struct ProcedureOut {
    #[serde(flatten)]
    procedure: ProcedureFields,
    spec: Option<Raw>,
    state: Option<Raw>,
    result: Option<Raw>,
}

/// A procedure.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Procedure")]
struct ProcedureFields {
    id: String,
    kind: String,
    /// `null`: whoever runs the hub.
    driver: Option<String>,
    started_by: String,
    #[schemars(with = "words::Time")]
    started_at: String,
    /// What the next step has to expect.
    version: u64,
    /// The record of this version.
    seq: u64,
    #[schemars(with = "words::ProcedureWord")]
    status: &'static str,
    /// Empty before the first step.
    phase: String,
    /// Since when it is in that phase, or over.
    #[schemars(with = "words::Time")]
    since: String,
    #[schemars(with = "words::Time")]
    stepped_at: String,
}

fn of(procedure: &Procedure) -> ProcedureFields {
    ProcedureFields {
        id: procedure.id.to_string(),
        kind: procedure.kind.clone(),
        driver: procedure.driver.as_ref().map(ToString::to_string),
        started_by: procedure.started_by.clone(),
        started_at: time::shown(procedure.started_at),
        version: procedure.version.0,
        seq: procedure.seq.0,
        status: procedure.status.as_str(),
        phase: procedure.phase.clone(),
        since: time::shown(procedure.since),
        stepped_at: time::shown(procedure.stepped_at),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[schemars(with = "Option<words::ProcedureWord>")]
    status: Option<String>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let status = filter.status.map(|word| status_of(&word)).transpose()?;
    let after = filter.cursor.map(ProcedureId::new).transpose()?;
    let found = call.space.procedures(status, after.as_ref(), checked_limit(filter.limit)?).await?;
    let items = found.procedures.iter().map(|one| (one.id.to_string(), of(one)));
    page("procedures", items, found.cursor.map(|id| id.to_string()))
}
