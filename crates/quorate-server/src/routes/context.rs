//! Shared memory: read, write, delete, history, lists.

use axum::extract::Path;
use axum::http::{Method, StatusCode, Uri};
use quorate_api::entry::{DeletedEntry, Entry as EntryVersion, NewEntry, WrittenEntry};
use quorate_core::{Code, DeleteEntry, Key, Op, OpResult, Receipt, Refused, Seq, Version};
use quorate_engine::{Entry, Error, Read, When, views};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Page, checked_limit, not_like_this, number_in};
use crate::api::{Route, delete as delete_at, get, put as put_at, words};
use crate::call::{Answer, Call, answer, ok, page};
use crate::wire::time;
use crate::{body, bulk};

pub(crate) fn routes() -> Vec<Route> {
    // A key may hold slashes, in the path as `/` or as `%2F`.
    const ONE: &str = "/v1/context/{key}";
    const SERVED: &str = "/v1/context/{*key}";
    vec![
        get("/v1/context", "context.list", "List the entries of the shared memory, by key.")
            .query::<Filter>()
            .lists::<EntryVersion>("entries")
            .bulk(list),
        get(ONE, "context.get", "An entry as it is, or as it was.")
            .path::<words::LongId>("key")
            .query::<Which>()
            .answers::<EntryVersion>(200, "The entry.")
            .answered_at(SERVED, show)
            .and(
                get(
                    "/v1/context/{key}/history",
                    "context.history",
                    "All versions of an entry, oldest first.",
                )
                .path::<words::LongId>("key")
                .query::<Page>()
                .lists::<EntryVersion>("versions"),
            ),
        put_at(ONE, "context.put", "Writes an entry.")
            .path::<words::LongId>("key")
            .query::<Nothing>()
            .body::<NewEntry<'_>>()
            .answers::<WrittenEntry>(200, "It has a new version.")
            .answers::<WrittenEntry>(201, "It is new.")
            .answered_at(SERVED, put),
        delete_at(ONE, "context.delete", "Ends an entry. Its history stays.")
            .path::<words::LongId>("key")
            .query::<Expecting>()
            .answers::<DeletedEntry>(200, "It is deleted.")
            .answered_at(SERVED, delete),
    ]
}

/// The history of `plan` is at `plan/history`.
const HISTORY: &str = "/history";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    version: Option<u64>,
    /// A record by its number, or a time.
    at: Option<String>,
    /// A time.
    #[schemars(with = "Option<words::Time>")]
    time: Option<String>,
}

/// One version of an entry, or all of them. A key may hold slashes; one that ends in `/history` itself is written with
/// `%2F`, so that it is not taken for the history of another.
pub(crate) async fn show(Path(key): Path<String>, call: Call) -> Answer {
    if is_history(&call.uri)
        && let Some(key) = key.strip_suffix(HISTORY)
    {
        let key = Key::new(key)?;
        return bulk::answer(call, |call| history(call, key)).await;
    }
    let which: Which = call.query()?;
    let key = Key::new(key)?;
    let when = match (which.version, which.at, which.time) {
        (None, None, None) => When::Now,
        (Some(version), None, None) => When::Version(Version(version)),
        (None, Some(at), None) => when(&at)?,
        (None, None, Some(text)) => When::Time(time::read("time", &text)?),
        _ => {
            return Err(Refused::new(Code::Invalid, "version, at and time exclude each other")
                .hint("keep one of them")
                .into());
        }
    };
    let entry = call.space.entry(&key, when).await?;
    let found = entry.filter(|entry| entry.content.is_some() || which.version.is_some());
    match found {
        Some(entry) => ok(&views::entry(&entry)),
        None => Err(missing(&call, &key, when).await?.into()),
    }
}

/// What is not there: the entry, or only the version or the moment that was asked for.
async fn missing(call: &Call, key: &Key, when: When) -> Result<Refused, Error> {
    let none = |what: String| Refused::new(Code::NotFound, what);
    let Some(newest) = call.space.entry(key, When::Now).await? else {
        return Ok(none(format!("there is no entry {key}")));
    };
    let number = newest.version.head.version;
    let history = format!("GET /v1/context/{key}/history lists its versions");
    Ok(match when {
        When::Now => none(format!("the entry {key} was deleted with version {number}")),
        When::Version(version) => none(format!("{key} has no version {version}: the newest is {number}")),
        When::Seq(_) | When::Time(_) => none(format!("there was no entry {key} at that moment")),
    }
    .hint(history))
}

/// Whether an address is that of a history. Nobody writes one.
pub(crate) fn is_history(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/context/") && uri.path().ends_with(HISTORY)
}

/// A record by its number, or a time.
fn when(at: &str) -> Result<When, Refused> {
    match at.parse() {
        Ok(seq) => Ok(When::Seq(Seq(seq))),
        Err(_) => time::read("at", at).map(When::Time),
    }
}

async fn history(call: Call, key: Key) -> Answer {
    let which: Page = call.query()?;
    let limit = checked_limit(which.limit)?;
    let after = Version(number_in(which.cursor.as_deref())?);
    let history = Read::History { key: key.clone(), after, limit };
    let (entries, more) = call.space.entries_page(history, limit).await?;
    if entries.is_empty() && after == Version(0) {
        return Err(Refused::new(Code::NotFound, format!("there is no entry {key}"))
            .hint("write it first, or look at the list of entries; what was deleted is still in its history")
            .into());
    }
    let after = |entry: &Entry| entry.version.head.version.0.to_string();
    let rest = entries.last().filter(|_| more).map(after);
    page("versions", entries.iter().map(|entry| (after(entry), views::entry(entry))), rest)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(default)]
    prefix: String,
    r#type: Option<String>,
    /// `agent:ID`, `operator:NAME` and so on; without a role it is an agent.
    author: Option<String>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let limit = checked_limit(filter.limit)?;
    let after = filter.cursor.map(Key::new).transpose()?;
    let author = filter.author.map(|name| if name.contains(':') { name } else { format!("agent:{name}") });
    let (prefix, entry_type) = (filter.prefix, filter.r#type);
    let wanted = Read::Entries { prefix, entry_type, author, after, limit };
    let (entries, more) = call.space.entries_page(wanted, limit).await?;
    let rest = entries.last().filter(|_| more).map(|last| last.key.to_string());
    page("entries", entries.iter().map(|entry| (entry.key.to_string(), views::entry(entry))), rest)
}

/// No parameters. Looked at after the path, since nobody writes a history, whatever stands behind it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(crate) async fn put(Path(key): Path<String>, call: Call) -> Answer {
    if is_history(&call.uri) {
        return Ok(not_like_this(Method::PUT, call.uri).await);
    }
    let Nothing {} = call.query()?;
    let key = Key::new(key)?;
    let put = body::parse::<NewEntry<'_>>(&call.body)?.read(&call.reading(), Some(key.clone()))?;
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let version = version_in(&receipt);
    let status = if version == Some(Version(1)) { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, &WrittenEntry { key, version, seq: receipt.seq, at: receipt.at })
}

fn version_in(receipt: &Receipt) -> Option<Version> {
    receipt.results.iter().find_map(|result| match result {
        OpResult::Written { version } => Some(*version),
        _ => None,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expecting {
    /// The version it must have now.
    expect: Option<u64>,
}

pub(crate) async fn delete(Path(key): Path<String>, call: Call) -> Answer {
    if is_history(&call.uri) {
        return Ok(not_like_this(Method::DELETE, call.uri).await);
    }
    let key = Key::new(key)?;
    let expect = call.query::<Expecting>()?.expect.map(Version);
    let delete = DeleteEntry { key: key.clone(), expect, fence: None };
    let receipt = call.commit(vec![Op::Delete(delete)]).await?;
    ok(&DeletedEntry { key, version: version_in(&receipt), seq: receipt.seq })
}
