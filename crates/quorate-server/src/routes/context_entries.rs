//! The co-scientist's context entries: shared memory in the format of that dialect. The orchestrator's shared state
//! is in `shared_state.rs`.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::dialect::{ContextEntry, NewContextEntry};
use quorate_core::{AgentId, Code, Key, Op, PutEntry, Refused, Version};
use quorate_engine::{AsOf, Error, StoredEntry};
use serde_json::value::RawValue;

use crate::api::{Route, get, put, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response};
use crate::dialect::context_entry::{self, SubmittedEntry};
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    const ENTRY: &str = "/v1/dialects/coscientist/entries/{key}";
    const ROUTER_PATH: &str = "/v1/dialects/coscientist/entries/{*key}";
    vec![
        get(ENTRY, "dialects.entry", "Get an entry of the shared memory in the co-scientist format.")
            .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
            .returns::<ContextEntry>(200, "The entry.")
            .handled_at(ROUTER_PATH, show_entry),
        put(ENTRY, "dialects.putEntry", "Write an entry in the co-scientist format.")
            .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
            .request_body::<NewContextEntry>()
            .returns::<ContextEntry>(200, "The entry has a new version.")
            .returns::<ContextEntry>(201, "The entry was created.")
            .handled_at(ROUTER_PATH, put_entry),
    ]
}

pub(crate) async fn show_entry(Path(key): Path<String>, call: Call) -> ApiResult {
    respond(&call, StatusCode::OK, &Key::new(key)?).await
}

async fn respond(call: &Call, status: StatusCode, key: &Key) -> ApiResult {
    let found = call.space.entry(key, AsOf::Latest).await?.filter(|entry| entry.content.is_some());
    let missing = || {
        Refused::new(Code::NotFound, format!("there is no entry {key}"))
            .hint("write it first, or list entries with GET /v1/context")
    };
    let entry = found.ok_or_else(missing)?;
    let first = first_version(call, key).await?;
    json_response(status, &context_entry::render(&entry, first.as_ref().unwrap_or(&entry)))
}

async fn first_version(call: &Call, key: &Key) -> Result<Option<StoredEntry>, Error> {
    Ok(call.space.history(key, Version(0), 1).await?.into_iter().next())
}

/// The stated version is the one that the entry will have, which makes the write a compare-and-set.
pub(crate) async fn put_entry(Path(key): Path<String>, call: Call) -> ApiResult {
    let key = Key::new(key)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let submitted = SubmittedEntry::parse(&key, raw).map_err(Refused::from)?;
    check_author(&call, &key, submitted.agent.as_ref()).await?;
    let put = PutEntry {
        key: key.clone(),
        entry_type: submitted.entry_type,
        content: call.parse_context().payload(Some(&submitted.content.into()), None)?,
        content_type: None,
        expect: submitted.version.map(|version| Version(version - 1)),
        depends_on: submitted.depends_on,
        fence: None,
    };
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let is_new = receipt.results.iter().any(
        |result| matches!(result, quorate_core::OpResult::Written { version } if *version == Version(1)),
    );
    respond(&call, if is_new { StatusCode::CREATED } else { StatusCode::OK }, &key).await
}

/// Checks the stated creator: the caller, or the author of the first version of an existing entry.
async fn check_author(call: &Call, key: &Key, agent: Option<&AgentId>) -> Result<(), Problem> {
    let Some(agent) = agent.filter(|agent| call.calling_agent() != Some(agent)) else { return Ok(()) };
    let first = first_version(call, key).await?;
    if first.as_ref().is_some_and(|first| context_entry::author(first) == agent.as_str()) {
        return Ok(());
    }
    Err(Refused::new(
        Code::Forbidden,
        format!("agent_id: {agent} is neither the caller nor the creator of {key}"),
    )
    .hint("omit agent_id; the caller is the author of the version that it writes")
    .into())
}
