//! Conduct flags: any principal can raise them, only moderators can read them. No other response depends on flags:
//! raising one always returns the same bytes, and unauthorized reads are refused whether or not flags exist.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::audit::Checkpoint;
use quorate_api::flag::{Flag, FlagListQuery, ResolveFlag};
use quorate_api::result::FlagReceipt;
use quorate_core::{Code, Key, Permission, Refused};
use quorate_engine::{FlagRequest, Flags};

use super::audit::space_of;
use super::check_limit;
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response, page_response};

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
            .query_parameters::<FlagListQuery>()
            .returns_page::<Flag>("flags")
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
            .path_parameter::<schema::Id>("id", "Flag ID.")
            .returns::<Flag>(200, "The flag.")
            .handled_by(show),
        post(
            "/v1/flags/{id}/resolve",
            "flags.resolve",
            "Resolve a conduct flag. Requires the role moderator.",
        )
        .requires(Permission::Moderate)
        .path_parameter::<schema::Id>("id", "Flag ID.")
        .request_body::<ResolveFlag>()
        .returns::<Flag>(200, "The flag is resolved.")
        .handled_by(resolve),
    ]
}

pub(crate) async fn raise(call: Call) -> ApiResult {
    flags_of(&call)?.raise(&flag_request(&call), &call.body).await?;
    json_response(StatusCode::CREATED, &FlagReceipt { received: true })
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: FlagListQuery = call.query()?;
    let limit = check_limit(filter.limit)?;
    let after = filter.cursor.map(Key::new).transpose()?;
    let (flags, has_more) = flags_of(&call)?.list(filter.state, after, limit).await?;
    let rest = flags.last().filter(|_| has_more).map(|last| last.id.clone());
    page_response("flags", flags.into_iter().map(|flag| (flag.id.clone(), flag)), rest)
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    ok_response(&flags_of(&call)?.flag(&id).await?)
}

pub(crate) async fn resolve(Path(id): Path<String>, call: Call) -> ApiResult {
    let ResolveFlag { note } = body::parse(&call.body)?;
    ok_response(&flags_of(&call)?.resolve(&flag_request(&call), &id, note).await?)
}

pub(crate) async fn checkpoint(call: Call) -> ApiResult {
    let (_, name) = space_of(&call)?;
    ok_response(&Checkpoint::new(name, &flags_of(&call)?.head()))
}

fn flags_of(call: &Call) -> Result<Flags, Refused> {
    let shutting_down =
        || Refused::new(Code::Unavailable, "the hub is shutting down").hint("retry when the hub is back");
    call.app.flags(call.space.number()).ok_or_else(shutting_down)
}

fn flag_request(call: &Call) -> FlagRequest<'_> {
    let content = [call.uri.path().as_bytes(), &call.body[..]];
    FlagRequest { principal: &call.principal, key: call.key.as_ref(), content }
}
