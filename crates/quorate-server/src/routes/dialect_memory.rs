//! The co-scientist's context entries: the shared memory in the shape of that dialect. The orchestrator's shared state is
//! in `shared_state.rs`.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{AgentId, Code, Key, Op, PutEntry, Refused, Version};
use quorate_engine::When;
use schemars::JsonSchema;
use serde_json::value::RawValue;

use crate::api::{Route, get, put, words};
use crate::body;
use crate::call::{Answer, Call, answer};
use crate::dialect::entry::{self, EntrySaid};

pub(crate) fn routes() -> Vec<Route> {
    const ENTRY: &str = "/v1/dialects/coscientist/entries/{key}";
    const SERVED: &str = "/v1/dialects/coscientist/entries/{*key}";
    vec![
        get(ENTRY, "dialects.entry", "An entry of the shared memory, in the co-scientist's shape.")
            .path::<words::LongId>("key")
            .answers::<ContextEntry>(200, "The entry.")
            .answered_at(SERVED, show_entry),
        put(ENTRY, "dialects.putEntry", "Writes an entry that is in the co-scientist's shape.")
            .path::<words::LongId>("key")
            .body::<ContextEntry>()
            .answers::<ContextEntry>(200, "It has a new version.")
            .answers::<ContextEntry>(201, "It is new.")
            .answered_at(SERVED, put_entry),
    ]
}

/// A context entry. Only described here.
#[derive(JsonSchema)]
#[schemars(rename = "ContextEntry")]
#[allow(dead_code)]
struct ContextEntry {
    #[schemars(with = "Option<words::LongId>")]
    entry_id: (),
    #[schemars(with = "Option<String>")]
    agent_id: (),
    #[schemars(with = "Option<String>")]
    entry_type: (),
    #[schemars(with = "words::Any")]
    content: (),
    #[schemars(with = "Option<words::Time>")]
    created_at: (),
    #[schemars(with = "Option<words::Time>")]
    updated_at: (),
    #[schemars(with = "Option<u64>", range(min = 1))]
    version: (),
    #[schemars(with = "Option<Vec<words::LongId>>")]
    dependencies: (),
}

pub(crate) async fn show_entry(Path(key): Path<String>, call: Call) -> Answer {
    shown(&call, StatusCode::OK, &Key::new(key)?).await
}

async fn shown(call: &Call, status: StatusCode, key: &Key) -> Answer {
    let found = call.space.entry(key, When::Now).await?.filter(|entry| entry.content.is_some());
    let missing = || {
        Refused::new(Code::NotFound, format!("there is no entry {key}"))
            .hint("write it first, or look at the list of entries")
    };
    let entry = found.ok_or_else(missing)?;
    let first = call.space.history(key, Version(0), 1).await?;
    let created_at = first.first().map_or(entry.version.at, |first| first.version.at);
    answer(status, &entry::written(&entry, created_at))
}

/// The version that stands there is the one that the entry is to have: so nobody writes over what it has not read.
pub(crate) async fn put_entry(Path(key): Path<String>, call: Call) -> Answer {
    let key = Key::new(key)?;
    let raw: &RawValue = body::parse(&call.body)?;
    let said = EntrySaid::read(&key, raw).map_err(Refused::from)?;
    if said.agent.is_some() && said.agent.as_ref() != call.by() {
        return Err(not_the_author(said.agent.as_ref()).into());
    }
    let put = PutEntry {
        key: key.clone(),
        entry_type: said.entry_type,
        content: call.reading().payload(Some(&said.content.into()), None)?,
        content_type: None,
        expect: said.version.map(|version| Version(version - 1)),
        depends_on: said.depends_on,
        fence: None,
    };
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let is_new = receipt.results.iter().any(
        |result| matches!(result, quorate_core::OpResult::Written { version } if *version == Version(1)),
    );
    shown(&call, if is_new { StatusCode::CREATED } else { StatusCode::OK }, &key).await
}

fn not_the_author(agent: Option<&AgentId>) -> Refused {
    let agent = agent.map(ToString::to_string).unwrap_or_default();
    Refused::new(Code::Forbidden, format!("agent_id: {agent} is not who writes"))
        .hint("an entry is of whoever writes it; leave agent_id out, or let that agent write it")
}
