//! Shared memory: read, write, delete, history, lists.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{Code, DeleteEntry, Key, Op, Refused, Seq, Version};
use quorate_engine::{Read, When};
use serde::Deserialize;
use serde_json::json;

use super::{checked_limit, number_in};
use crate::body;
use crate::call::{Answer, Call, Listed, answer, ok};
use crate::wire::entry::{EntryIn, EntryOut};
use crate::wire::time;

/// The history of `plan` is at `plan/history`.
const HISTORY: &str = "/history";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    version: Option<u64>,
    at: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// One version of an entry, or all of them. A key may hold slashes; one that ends in `/history` itself is written with
/// `%2F`, so that it is not taken for the history of another.
pub(crate) async fn show(Path(key): Path<String>, call: Call) -> Answer {
    let which: Which = call.query()?;
    if call.uri.path().ends_with(HISTORY)
        && let Some(key) = key.strip_suffix(HISTORY)
    {
        return history(&call, &Key::new(key)?, which).await;
    }
    let key = Key::new(key)?;
    let when = match (which.version, which.at) {
        (None, None) => When::Now,
        (Some(version), None) => When::Version(Version(version)),
        (None, Some(at)) => when(&at)?,
        (Some(_), Some(_)) => {
            return Err(Refused::new(Code::Invalid, "version and at exclude each other").into());
        }
    };
    let entry = call.space.entry(&key, when).await?;
    let found = entry.filter(|entry| entry.content.is_some() || which.version.is_some());
    match found {
        Some(entry) => ok(&EntryOut::new(&entry)),
        None => Err(Refused::new(Code::NotFound, format!("there is no entry {key}")).into()),
    }
}

/// A record by its number, or a time.
fn when(at: &str) -> Result<When, Refused> {
    match at.parse() {
        Ok(seq) => Ok(When::Seq(Seq(seq))),
        Err(_) => time::read("at", at).map(When::Time),
    }
}

async fn history(call: &Call, key: &Key, which: Which) -> Answer {
    let limit = checked_limit(which.limit)?;
    let after = Version(number_in(which.cursor.as_deref())?);
    let entries = call.space.history(key, after, limit).await?;
    if entries.is_empty() && after == Version(0) {
        return Err(Refused::new(Code::NotFound, format!("there is no entry {key}")).into());
    }
    let last = entries.last().filter(|_| entries.len() == limit);
    let cursor = last.map(|last| last.version.head.version.0.to_string());
    let items = entries.iter().map(EntryOut::new).collect();
    ok(&Listed { name: "versions", items, cursor: Some(cursor) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(default)]
    prefix: String,
    r#type: Option<String>,
    author: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let limit = checked_limit(filter.limit)?;
    let after = filter.cursor.map(Key::new).transpose()?;
    let (prefix, entry_type, author) = (filter.prefix, filter.r#type, filter.author);
    let entries = call.space.entries_of(Read::Entries { prefix, entry_type, author, after, limit }).await?;
    let cursor = entries.last().filter(|_| entries.len() == limit).map(|last| last.key.to_string());
    let items = entries.iter().map(EntryOut::new).collect();
    ok(&Listed { name: "entries", items, cursor: Some(cursor) })
}

pub(crate) async fn put(Path(key): Path<String>, call: Call) -> Answer {
    let key = Key::new(key)?;
    let put = body::parse::<EntryIn<'_>>(&call.body)?.read(&call.sealing(), Some(key.clone()))?;
    let receipt = call.commit(vec![Op::Put(put)]).await?;
    let version = receipt.results.iter().find_map(|result| match result {
        quorate_core::OpResult::Written { version } => Some(version.0),
        _ => None,
    });
    let status = if version == Some(1) { StatusCode::CREATED } else { StatusCode::OK };
    let seq = receipt.seq.map(|seq| seq.0);
    answer(
        status,
        &json!({"key": key.to_string(), "version": version, "seq": seq, "at": time::shown(receipt.at)}),
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expecting {
    expect: Option<u64>,
}

pub(crate) async fn delete(Path(key): Path<String>, call: Call) -> Answer {
    let key = Key::new(key)?;
    let expect = call.query::<Expecting>()?.expect.map(Version);
    let delete = DeleteEntry { key: key.clone(), expect, fence: None };
    let receipt = call.commit(vec![Op::Delete(delete)]).await?;
    let results = call.results(&receipt);
    let version = results.first().and_then(|result| result.get("version"));
    ok(&json!({"key": key.to_string(), "version": version, "seq": receipt.seq.map(|seq| seq.0)}))
}
