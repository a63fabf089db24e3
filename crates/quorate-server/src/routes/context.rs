//! Shared memory: get, put and delete entries, list them, and read their history.

use axum::extract::Path;
use axum::http::{Method, StatusCode, Uri};
use quorate_api::entry::{
    DeletedEntry, Entry as EntryVersion, EntryDeleteQuery, EntryGetQuery, EntryListQuery, EntryPutQuery,
    NewEntry, WrittenEntry,
};
use quorate_api::page::CursorQuery;
use quorate_core::{Code, DeleteEntry, Key, Op, OpResult, Receipt, Refused, Seq, Version};
use quorate_engine::{AsOf, Error, ReadQuery, StoredEntry, views};

use super::{check_limit, method_not_allowed, numeric_cursor};
use crate::api::{Route, delete as delete_at, get, put as put_at, schema};
use crate::call::{ApiResult, Call, json_response, ok_response, page_response};
use crate::wire::time;
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    // A key may contain slashes, as `/` or as `%2F` in the path.
    const ENTRY: &str = "/v1/context/{key}";
    const ROUTER_PATH: &str = "/v1/context/{*key}";
    vec![
        get("/v1/context", "context.list", "List entries of the shared memory by key.")
            .query_parameters::<EntryListQuery>()
            .returns_page::<EntryVersion>("entries")
            .handled_in_bulk_by(list),
        get(ENTRY, "context.get", "Get an entry, optionally as of a version, record or time.")
            .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
            .query_parameters::<EntryGetQuery>()
            .returns::<EntryVersion>(200, "The entry.")
            .handled_at(ROUTER_PATH, show)
            .and(
                get(
                    "/v1/context/{key}/history",
                    "context.history",
                    "List all versions of an entry, oldest first.",
                )
                .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
                .query_parameters::<CursorQuery>()
                .returns_page::<EntryVersion>("versions"),
            ),
        put_at(ENTRY, "context.put", "Write an entry.")
            .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
            .query_parameters::<EntryPutQuery>()
            .request_body::<NewEntry<'_>>()
            .returns::<WrittenEntry>(200, "The entry has a new version.")
            .returns::<WrittenEntry>(201, "The entry was created.")
            .handled_at(ROUTER_PATH, put),
        delete_at(ENTRY, "context.delete", "Delete an entry. Its history is retained.")
            .path_parameter::<schema::LongId>("key", "Key of the entry. It may contain slashes.")
            .query_parameters::<EntryDeleteQuery>()
            .returns::<DeletedEntry>(200, "The entry is deleted.")
            .handled_at(ROUTER_PATH, delete),
    ]
}

/// Path suffix of an entry's history.
const HISTORY: &str = "/history";

/// Returns one version of an entry, or its history. A key may contain slashes; in a key that itself ends in
/// `/history` that slash must be written as `%2F`.
pub(crate) async fn show(Path(key): Path<String>, call: Call) -> ApiResult {
    if is_history(&call.uri)
        && let Some(key) = key.strip_suffix(HISTORY)
    {
        let key = Key::new(key)?;
        return bulk::run_as_bulk_read(call, |call| history(call, key)).await;
    }
    let query: EntryGetQuery = call.query()?;
    let key = Key::new(key)?;
    let as_of = match (query.version, query.at, query.time) {
        (None, None, None) => AsOf::Latest,
        (Some(version), None, None) => AsOf::Version(Version(version)),
        (None, Some(at), None) => parse_as_of(&at)?,
        (None, None, Some(text)) => AsOf::Time(time::parse("time", &text)?),
        _ => {
            return Err(Refused::new(Code::Invalid, "version, at and time cannot be combined")
                .hint("send only one of them")
                .into());
        }
    };
    let entry = call.space.entry(&key, as_of).await?;
    let found = entry.filter(|entry| entry.content.is_some() || query.version.is_some());
    match found {
        Some(entry) => ok_response(&views::entry(&entry)),
        None => Err(missing(&call, &key, as_of).await?.into()),
    }
}

/// Returns the refusal for a missing entry, version, or point in time.
async fn missing(call: &Call, key: &Key, as_of: AsOf) -> Result<Refused, Error> {
    let not_found = |detail: String| Refused::new(Code::NotFound, detail);
    let Some(newest) = call.space.entry(key, AsOf::Latest).await? else {
        return Ok(not_found(format!("there is no entry {key}")));
    };
    let number = newest.version.head.version;
    let history = format!("GET /v1/context/{key}/history lists its versions");
    Ok(match as_of {
        AsOf::Latest => not_found(format!("entry {key} was deleted in version {number}")),
        AsOf::Version(version) => {
            not_found(format!("entry {key} has no version {version}; the newest is {number}"))
        }
        AsOf::Seq(_) | AsOf::Time(_) => not_found(format!("entry {key} did not exist at that time")),
    }
    .hint(history))
}

/// Whether the path refers to a history, which is read-only.
pub(crate) fn is_history(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/context/") && uri.path().ends_with(HISTORY)
}

/// Parses a sequence number or a time.
fn parse_as_of(at: &str) -> Result<AsOf, Refused> {
    match at.parse() {
        Ok(seq) => Ok(AsOf::Seq(Seq(seq))),
        Err(_) => time::parse("at", at).map(AsOf::Time),
    }
}

async fn history(call: Call, key: Key) -> ApiResult {
    let query: CursorQuery = call.query()?;
    let limit = check_limit(query.limit)?;
    let after = Version(numeric_cursor(query.cursor.as_deref())?);
    let history = ReadQuery::History { key: key.clone(), after, limit };
    let (entries, has_more) = call.space.entries_page(history, limit).await?;
    if entries.is_empty() && after == Version(0) {
        return Err(Refused::new(Code::NotFound, format!("there is no entry {key}"))
            .hint("list entries with GET /v1/context; deleted entries keep their history")
            .into());
    }
    let after = |entry: &StoredEntry| entry.version.head.version.0.to_string();
    let rest = entries.last().filter(|_| has_more).map(after);
    page_response("versions", entries.iter().map(|entry| (after(entry), views::entry(entry))), rest)
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: EntryListQuery = call.query()?;
    let limit = check_limit(filter.limit)?;
    let after = filter.cursor.map(Key::new).transpose()?;
    let author = filter.author.map(|name| if name.contains(':') { name } else { format!("agent:{name}") });
    let (prefix, entry_type) = (filter.prefix, filter.r#type);
    let query = ReadQuery::Entries { prefix, entry_type, author, after, limit };
    let (entries, has_more) = call.space.entries_page(query, limit).await?;
    let rest = entries.last().filter(|_| has_more).map(|last| last.key.to_string());
    page_response("entries", entries.iter().map(|entry| (entry.key.to_string(), views::entry(entry))), rest)
}

pub(crate) async fn put(Path(key): Path<String>, call: Call) -> ApiResult {
    if is_history(&call.uri) {
        return Ok(method_not_allowed(Method::PUT, call.uri).await);
    }
    // Checked after the path, because writing to a history is refused first.
    let EntryPutQuery {} = call.query()?;
    let key = Key::new(key)?;
    let put = body::parse::<NewEntry<'_>>(&call.body)?.into_core(&call.parse_context(), Some(key.clone()))?;
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let version = version_in(&receipt);
    let status = if version == Some(Version(1)) { StatusCode::CREATED } else { StatusCode::OK };
    json_response(status, &WrittenEntry { key, version, seq: receipt.seq, at: receipt.at })
}

fn version_in(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::Written { version } => Some(*version),
        _ => None,
    })
}

pub(crate) async fn delete(Path(key): Path<String>, call: Call) -> ApiResult {
    if is_history(&call.uri) {
        return Ok(method_not_allowed(Method::DELETE, call.uri).await);
    }
    let key = Key::new(key)?;
    let expect = call.query::<EntryDeleteQuery>()?.expect.map(Version);
    let delete = DeleteEntry { key: key.clone(), expect, fence: None };
    let receipt = call.commit(vec![Op::Delete(delete)]).await?;
    ok_response(&DeletedEntry { key, version: version_in(&receipt), seq: receipt.seq })
}
