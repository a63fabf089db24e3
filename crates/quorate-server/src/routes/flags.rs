//! Conduct flags: any principal can raise them, only moderators can read them. No other response depends on flags:
//! raising one always returns the same bytes, and unauthorized reads are refused whether or not flags exist.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::audit::Checkpoint;
use quorate_core::{Code, Key, Permission, Refused, Timestamp};
use quorate_engine::{Flag, FlagRequest, FlagState, Flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::audit::space_of;
use super::check_limit;
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response, page_response};
use crate::wire::time;
use quorate_api::result::FlagReceipt;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/flags", "flags.raise", "Raise a conduct flag, visible only to moderators.")
            .requires(Permission::Report)
            .request_body::<schema::Object>()
            .returns::<FlagReceipt>(201, "The flag is stored. The response contains no further data.")
            .handled_by(raise),
        // Not a bulk read: bulk reads are counted in public metrics.
        get("/v1/flags", "flags.list", "List conduct flags, oldest first. Requires the role moderator.")
            .requires(Permission::Moderate)
            .query_parameters::<Filter>()
            .returns_page::<FlagOut>("flags")
            .handled_by(list),
        get(
            "/v1/flags/checkpoint",
            "flags.checkpoint",
            "Get a checkpoint of the conduct flag log. Requires the role moderator.",
        )
        .requires(Permission::Moderate)
        .returns::<Checkpoint>(200, "The checkpoint, for `quorate verify`.")
        .handled_by(checkpoint),
        get("/v1/flags/{id}", "flags.get", "Get a conduct flag. Requires the role moderator.")
            .requires(Permission::Moderate)
            .path_parameter::<schema::Id>("id")
            .returns::<FlagOut>(200, "The flag.")
            .handled_by(show),
        post(
            "/v1/flags/{id}/resolve",
            "flags.resolve",
            "Resolve a conduct flag. Requires the role moderator.",
        )
        .requires(Permission::Moderate)
        .path_parameter::<schema::Id>("id")
        .request_body::<ResolveIn>()
        .returns::<FlagOut>(200, "The flag is resolved.")
        .handled_by(resolve),
    ]
}

pub(crate) async fn raise(call: Call) -> ApiResult {
    flags_of(&call)?.raise(&flag_request(&call), &call.body).await?;
    json_response(StatusCode::CREATED, &FlagReceipt { received: true })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    state: Option<StateWord>,
    #[schemars(with = "Option<schema::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<schema::Cursor>")]
    cursor: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "FlagState")]
enum StateWord {
    Open,
    Resolved,
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: Filter = call.query()?;
    let limit = check_limit(filter.limit)?;
    let state = filter.state.map(|state| match state {
        StateWord::Open => FlagState::Open,
        StateWord::Resolved => FlagState::Resolved,
    });
    let after = filter.cursor.map(Key::new).transpose()?;
    let (flags, more) = flags_of(&call)?.list(state, after, limit).await?;
    let rest = flags.last().filter(|_| more).map(|last| last.id.clone());
    page_response("flags", flags.iter().map(|flag| (flag.id.clone(), FlagOut::new(flag))), rest)
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    ok_response(&FlagOut::new(&flags_of(&call)?.flag(&id).await?))
}

/// Resolution of a flag.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ResolveFlag")]
struct ResolveIn {
    /// Action taken, in a sentence or two.
    #[serde(default)]
    note: String,
}

pub(crate) async fn resolve(Path(id): Path<String>, call: Call) -> ApiResult {
    let ResolveIn { note } = body::parse(&call.body)?;
    ok_response(&FlagOut::new(&flags_of(&call)?.resolve(&flag_request(&call), &id, note).await?))
}

pub(crate) async fn checkpoint(call: Call) -> ApiResult {
    let (_, name) = space_of(&call)?;
    ok_response(&Checkpoint::new(name, &flags_of(&call)?.head()))
}

/// A conduct flag.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Flag")]
struct FlagOut<'a> {
    id: &'a str,
    state: &'static str,
    /// `agent:ID`, `operator:NAME` and so on; empty once erased.
    raised_by: &'a str,
    #[schemars(with = "schema::Time")]
    raised_at: String,
    /// Content as submitted; `null` once erased.
    #[schemars(with = "schema::Any")]
    flag: Option<&'a RawValue>,
    resolution: Option<ResolutionOut<'a>>,
}

/// Resolution of a flag.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlagResolution")]
struct ResolutionOut<'a> {
    by: &'a str,
    #[schemars(with = "schema::Time")]
    at: String,
    note: &'a str,
}

impl<'a> FlagOut<'a> {
    fn new(flag: &'a Flag) -> Self {
        let resolution = flag.resolution.as_ref().map(|resolution| ResolutionOut {
            by: &resolution.by,
            at: time::format(Timestamp(resolution.at_ms)),
            note: &resolution.note,
        });
        Self {
            id: &flag.id,
            state: flag.state().as_str(),
            raised_by: &flag.raised_by,
            raised_at: time::format(flag.raised_at),
            flag: flag.about.as_deref(),
            resolution,
        }
    }
}

fn flags_of(call: &Call) -> Result<Flags, Refused> {
    let shutting_down =
        || Refused::new(Code::Unavailable, "the hub is shutting down").hint("retry when the hub is back");
    call.app.flags(call.space.number()).ok_or_else(shutting_down)
}

fn flag_request(call: &Call) -> FlagRequest<'_> {
    let what = [call.uri.path().as_bytes(), &call.body[..]];
    FlagRequest { principal: &call.principal, key: call.key.as_ref(), content: what }
}
