//! `quorate memory diff`: line-based diff of two versions.

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::{history_of, path_of};
use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::Hub;
use crate::output::{ListResponse, OutputArgs, field, format_time, payload_text};
use crate::terminal;

pub(super) async fn run(
    hub: &Hub,
    output: &OutputArgs,
    key: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<()> {
    let new = match to {
        Some(version) => fetch_version(hub, key, version).await?,
        None => newest_version(hub, key).await?,
    };
    let from = match from {
        Some(version) => version,
        None => previous_version(hub, key, new["version"].as_u64().unwrap_or(0)).await?,
    };
    let old = fetch_version(hub, key, from).await?;
    let lines = |entry: &Value| {
        if entry["deleted"] == true { String::new() } else { payload_text(&entry["content"]) }
    };
    let (before, after) = (lines(&old), lines(&new));
    let changes: Vec<(char, String)> = TextDiff::from_lines(&before, &after)
        .iter_all_changes()
        .map(|change| (sign(change.tag()), change.value().trim_end_matches('\n').to_owned()))
        .collect();
    if output.is_json() {
        let lines = changes.iter().map(|(sign, line)| format!("{sign}{line}"));
        let document = json!({
            "key": key, "from": old["version"], "to": new["version"], "same": before == after,
            "lines": lines.collect::<Vec<_>>(),
        });
        terminal::print(terminal::sanitize_json(&document.to_string()));
        return Ok(());
    }
    for (mark, entry) in [("---", &old), ("+++", &new)] {
        let columns = [field(entry, "version"), field(entry, "author"), format_time(&entry["at"])];
        terminal::print(terminal::sanitize_line(&format!(
            "{mark} {key} version {}  {}  {}",
            columns[0], columns[1], columns[2]
        )));
    }
    changes
        .iter()
        .for_each(|(sign, line)| terminal::print(terminal::sanitize_line(&format!("{sign}{line}"))));
    Ok(())
}

fn sign(tag: ChangeTag) -> char {
    match tag {
        ChangeTag::Equal => ' ',
        ChangeTag::Delete => '-',
        ChangeTag::Insert => '+',
    }
}

async fn fetch_version(hub: &Hub, key: &str, version: u64) -> anyhow::Result<Value> {
    hub.get_json(&path_of(key), &[("version", Some(version.to_string()))]).await
}

async fn newest_version(hub: &Hub, key: &str) -> anyhow::Result<Value> {
    let (mut cursor, mut last) = (None, None);
    loop {
        let query = [("limit", Some("1000".to_owned())), ("cursor", cursor.take())];
        let page = ListResponse::parse(&hub.get(&history_of(key), &query).await?, "versions")?;
        last = page.values().pop().or(last);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    last.ok_or_else(|| {
        CommandError::new(
            NOT_FOUND,
            format!("there is no entry {key}"),
            "run `quorate memory list` to list the entries",
        )
        .into()
    })
}

/// Returns the nearest version before this one. Version numbers have gaps after a backup was restored.
async fn previous_version(hub: &Hub, key: &str, version: u64) -> anyhow::Result<u64> {
    let query = [("limit", Some("1000".to_owned()))];
    let page = ListResponse::parse(&hub.get(&history_of(key), &query).await?, "versions")?;
    let numbers = page.values().into_iter().filter_map(|entry| entry["version"].as_u64());
    numbers.filter(|number| *number < version).max().ok_or_else(|| {
        let hint = "pass two versions; `quorate memory log` lists them";
        CommandError::new(NOT_FOUND, format!("{key} has no version before {version}"), hint).into()
    })
}
