//! The co-scientist's context entries: shared memory in the format of that dialect. The orchestrator's shared state
//! is in `shared_state.rs`.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::dialect::{ContextEntry, NewContextEntry};
use quorate_core::{AgentId, Code, Key, Op, PutEntry, Refused, Version};
use quorate_engine::AsOf;
use serde_json::value::RawValue;

use crate::api::{Route, get, put, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response};
use crate::dialect::context_entry::{self, SubmittedEntry};

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
    let oldest = call.space.history(key, Version(0), 1).await?;
    let created_at = oldest.first().map_or(entry.version.at, |oldest| oldest.version.at);
    json_response(status, &context_entry::render(&entry, created_at))
}

/// The stated version is the one that the entry will have, which makes the write a compare-and-set.
pub(crate) async fn put_entry(Path(key): Path<String>, call: Call) -> ApiResult {
    let key = Key::new(key)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let submitted = SubmittedEntry::parse(&key, raw).map_err(Refused::from)?;
    if submitted.agent.is_some() && submitted.agent.as_ref() != call.calling_agent() {
        return Err(not_the_author(submitted.agent.as_ref()).into());
    }
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

fn not_the_author(agent: Option<&AgentId>) -> Refused {
    let agent = agent.map(ToString::to_string).unwrap_or_default();
    Refused::new(Code::Forbidden, format!("agent_id: {agent} is not the caller"))
        .hint("the caller is the author of an entry; omit agent_id, or write as that agent")
}
