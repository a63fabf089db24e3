//! `quorate memory`: reads, writes and rolls back entries of the shared memory.

mod check;
mod diff;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit::{CommandError, USAGE};
use crate::hub::{ContentArgs, DryRunArgs, Hub, HubArgs, JsonFields, Method, PageArgs, percent_encode};
use crate::lock::FenceArg;
use crate::output::{
    Column, Details, OutputArgs, field, format_time, parse_response, payload_line, payload_text, print_raw,
    to_text,
};
use crate::terminal;
pub(crate) use check::inconsistencies;

/// Arguments of `quorate memory`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate memory get plan")]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: MemoryVerb,
}

#[derive(Subcommand, Debug)]
enum MemoryVerb {
    /// Print the content of an entry: current, of a version, or as of a time. [ro]
    #[command(after_help = "Example: quorate memory get plan --version 2")]
    Get {
        /// Key of the entry.
        key: String,
        /// Version to print.
        #[arg(long, value_name = "N", conflicts_with = "at")]
        version: Option<u64>,
        /// Print the content as of this record, or time such as 2026-01-31T09:30:00Z.
        #[arg(long, value_name = "SEQ|TIME")]
        at: Option<String>,
        /// Also print author, time and dependencies.
        #[arg(long)]
        metadata: bool,
    },
    /// List entries. [ro]
    #[command(after_help = "Example: quorate memory list plans/")]
    List {
        /// Only keys with this prefix.
        prefix: Option<String>,
        /// Only entries of this type.
        #[arg(long = "type", value_name = "TYPE")]
        entry_type: Option<String>,
        /// Only entries last written by this principal, such as agent:bob.
        #[arg(long)]
        author: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Write an entry. [rw]
    #[command(after_help = "Example: quorate memory set plan 'ship on Friday' --expect 2

With --expect, the write is a compare-and-set: it succeeds only if the entry is at that version (0: does \
not exist). Otherwise nothing is changed and the exit code is 5.")]
    Set {
        /// Key of the entry.
        key: String,
        #[command(flatten)]
        content: ContentArgs,
        /// Type of the entry.
        #[arg(long = "type", value_name = "TYPE")]
        entry_type: Option<String>,
        /// Write only if the entry is at this version; 0 if it must not exist.
        #[arg(long, value_name = "N")]
        expect: Option<u64>,
        /// Key of an entry that this one depends on; can be repeated.
        #[arg(long, value_name = "KEY")]
        depends_on: Vec<String>,
        /// Fail unless the lock is still held under this fencing token.
        #[arg(long, value_name = "LOCK=FENCE")]
        fence: Option<FenceArg>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// Delete an entry; its history is kept. [rw]
    #[command(after_help = "Example: quorate memory delete plan --expect 3")]
    Delete {
        /// Key of the entry.
        key: String,
        /// Delete only if the entry is at this version.
        #[arg(long, value_name = "N")]
        expect: Option<u64>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// List all versions of an entry, oldest first. [ro]
    #[command(after_help = "Example: quorate memory log plan")]
    Log {
        /// Key of the entry.
        key: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Print the differences between two versions of an entry. [ro]
    #[command(after_help = "Example: quorate memory diff plan 1 3

By default compares the last two versions.")]
    Diff {
        /// Key of the entry.
        key: String,
        /// Old version; by default the one before the new version.
        from: Option<u64>,
        /// New version; by default the newest.
        to: Option<u64>,
    },
    /// Check the shared memory: entries that depend on deleted or outdated entries or on each other, and tasks that are done
    /// without a result. [ro]
    #[command(after_help = "Example: quorate memory check

The hub checks every space from time to time (`quorate serve --consistency-check-ms`, every 10 minutes by default); --last prints what \
the last check found. Nothing is changed.")]
    Check {
        /// Print the result of the last check instead of running one.
        #[arg(long)]
        last: bool,
    },
    /// Restore earlier content, from a version, time or snapshot, as a new version. [rw]
    #[command(after_help = "Example: quorate memory rollback plan --to-version 2")]
    Rollback(RollbackArgs),
}

#[derive(Args, Debug)]
struct RollbackArgs {
    /// Key of the entry, or with --prefix the prefix of the keys.
    key: String,
    /// Roll back all keys with this prefix.
    #[arg(long, conflicts_with_all = ["to_version", "expect"])]
    prefix: bool,
    /// Restore the content of this version.
    #[arg(long, value_name = "N")]
    to_version: Option<u64>,
    /// Restore the content as of this time, such as 2026-01-31T09:30:00Z.
    #[arg(long, value_name = "TIME", conflicts_with = "to_version")]
    to_time: Option<String>,
    /// Restore the content of this snapshot (created with POST /v1/context:snapshot).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to_version", "to_time"])]
    to_snapshot: Option<String>,
    /// Roll back only if the entry is at this version.
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// The content of an entry as raw JSON; `None` if it was deleted.
#[derive(Deserialize)]
struct RawContent<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

const COLUMNS: &[Column] = &[
    ("KEY", |entry| field(entry, "key")),
    ("VERSION", |entry| field(entry, "version")),
    ("TYPE", |entry| field(entry, "type")),
    ("AUTHOR", |entry| field(entry, "author")),
    ("AT", |entry| format_time(&entry["at"])),
    ("CONTENT", content),
];

const VERSIONS: &[Column] = &[
    ("VERSION", |entry| field(entry, "version")),
    ("AT", |entry| format_time(&entry["at"])),
    ("RECORD", |entry| field(entry, "seq")),
    ("AUTHOR", |entry| field(entry, "author")),
    ("CHANGE", |entry| match (&entry["restores"], entry["deleted"] == true) {
        (Value::Number(version), _) => format!("restored v{version}"),
        (_, true) => "deleted".to_owned(),
        _ => "written".to_owned(),
    }),
    ("CONTENT", content),
];

fn content(entry: &Value) -> String {
    if entry["deleted"] == true { String::new() } else { payload_line(&entry["content"]) }
}

fn path_of(key: &str) -> String {
    format!("/v1/context/{}", percent_encode(key))
}

pub(crate) async fn run(args: MemoryArgs) -> anyhow::Result<()> {
    let MemoryArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        MemoryVerb::Get { key, version, at, metadata } => {
            let query = [("version", version.map(|version| version.to_string())), ("at", at)];
            let response = hub.get(&path_of(&key), &query).await?;
            if metadata || output.is_explicit() {
                return output.item(&response, || Ok(details(&parse_response(&response)?)));
            }
            match serde_json::from_str::<RawContent<'_>>(&response)?.content {
                Some(content) => print_raw(content),
                None => terminal::note(format!("{key} was deleted in this version")),
            }
            Ok(())
        }
        MemoryVerb::List { prefix, entry_type, author, page } => {
            let query = [
                ("prefix", prefix),
                ("type", entry_type),
                ("author", author),
                ("limit", page.limit()),
                ("cursor", page.cursor()),
            ];
            output.list(&hub.get("/v1/context", &query).await?, "entries", COLUMNS)
        }
        MemoryVerb::Set { key, content, entry_type, expect, depends_on, fence, dry_run } => {
            let body = JsonFields::default()
                .set_if_some("type", entry_type)?
                .set("content", content.required("content")?)?
                .set_if_some("expect", expect)?
                .list("dependsOn", &depends_on)?
                .set_if_some("fence", fence)?;
            let response = hub.write(dry_run, (Method::Put, &path_of(&key)), Some(body.to_json())).await?;
            let Some(response) = response else { return Ok(()) };
            let written = parse_response(&response)?;
            let (version, seq) = (&written["version"], &written["seq"]);
            output.done(&response, &format!("{key} is at version {version}, record {seq}"));
            Ok(())
        }
        MemoryVerb::Delete { key, expect, dry_run } => {
            let expect = expect.map(|version| format!("?expect={version}")).unwrap_or_default();
            let path = format!("{}{expect}", path_of(&key));
            let response = hub.write(dry_run, (Method::Delete, &path), None).await?;
            response
                .iter()
                .for_each(|response| output.done(response, &format!("deleted {key}; its history is kept")));
            Ok(())
        }
        MemoryVerb::Log { key, page } => {
            let query = [("limit", page.limit()), ("cursor", page.cursor())];
            output.list(&hub.get(&history_of(&key), &query).await?, "versions", VERSIONS)
        }
        MemoryVerb::Diff { key, from, to } => diff::run(&hub, &output, &key, from, to).await,
        MemoryVerb::Check { last } => check::run(&hub, &output, last).await,
        MemoryVerb::Rollback(args) => rollback(&hub, &output, args).await,
    }
}

fn history_of(key: &str) -> String {
    format!("{}/history", path_of(key))
}

async fn rollback(hub: &Hub, output: &OutputArgs, args: RollbackArgs) -> anyhow::Result<()> {
    let RollbackArgs { key, prefix, to_version, to_time, to_snapshot, expect, dry_run } = args;
    if to_version.is_none() && to_time.is_none() && to_snapshot.is_none() {
        let hint = "use --to-version N, --to-time TIME or --to-snapshot NAME; `quorate memory log` lists the versions";
        return Err(CommandError::new(USAGE, "missing target of the rollback", hint).into());
    }
    let body = JsonFields::default()
        .set(if prefix { "prefix" } else { "key" }, &key)?
        .set_if_some("toVersion", to_version)?
        .set_if_some("toTime", to_time)?
        .set_if_some("toSnapshot", to_snapshot)?
        .set_if_some("expect", expect)?;
    let response = hub.write(dry_run, (Method::Post, "/v1/context:rollback"), Some(body.to_json())).await?;
    let Some(response) = response else { return Ok(()) };
    let result = parse_response(&response)?;
    let changed = result["changed"].as_array().map_or(&[][..], Vec::as_slice);
    let summary = match changed {
        [] => format!("{key} already has this content: nothing changed"),
        [entry] => format!("rolled back {} as version {}", to_text(&entry["key"]), entry["version"]),
        several => format!("rolled back {} entries", several.len()),
    };
    output.done(&response, &summary);
    if let Some(count) = result["builtOnCount"].as_u64().filter(|count| *count > 0) {
        terminal::note(format!("{count} other entries depend on the replaced versions; --json lists them"));
    }
    Ok(())
}

fn details(entry: &Value) -> Details {
    let dependencies = entry["dependsOn"].as_array().map_or(&[][..], Vec::as_slice);
    let dependencies = dependencies
        .iter()
        .map(|dependency| format!("{} version {}", to_text(&dependency["key"]), dependency["version"]));
    Details::default()
        .add("key", field(entry, "key"))
        .add("version", field(entry, "version"))
        .add("type", field(entry, "type"))
        .add("author", field(entry, "author"))
        .add("at", format_time(&entry["at"]))
        .add("record", field(entry, "seq"))
        .add("depends on", dependencies.collect::<Vec<_>>().join(", "))
        .add("restores", field(entry, "restores"))
        .add(
            "content",
            if entry["deleted"] == true { "(deleted)".to_owned() } else { payload_text(&entry["content"]) },
        )
}
