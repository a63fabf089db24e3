//! `quorate memory`: what agents share; read, write, look back, go back.

mod diff;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit::{Ended, USAGE};
use crate::hub::{Content, DryRun, Fields, Hub, HubArgs, Method, Page, segment};
use crate::shape::{Column, Facts, Shape, field, payload, plain, print_alone, read, time};
use crate::text;

/// What agents share.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate memory get plan")]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: MemoryVerb,
}

#[derive(Subcommand, Debug)]
enum MemoryVerb {
    /// Print the content of an entry: now, at a version, or at a time. [ro]
    #[command(after_help = "Example: quorate memory get plan --version 2")]
    Get {
        /// The key.
        key: String,
        /// That version of it.
        #[arg(long, value_name = "N", conflicts_with = "at")]
        version: Option<u64>,
        /// As it was after this record, or at this time.
        #[arg(long, value_name = "SEQ|TIME")]
        at: Option<String>,
        /// Not only the content: who wrote it, when, and what it was built on.
        #[arg(long)]
        facts: bool,
    },
    /// List entries. [ro]
    #[command(after_help = "Example: quorate memory list plans/")]
    List {
        /// Only keys that begin like this.
        prefix: Option<String>,
        /// Only those of this type.
        #[arg(long = "type", value_name = "TYPE")]
        entry_type: Option<String>,
        /// Only those last written by this one, as in agent:bob.
        #[arg(long)]
        author: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Write an entry. [rw]
    #[command(after_help = "Example: quorate memory set plan 'ship on Friday' --expect 2

With --expect it is written only if the entry is at that version (0: not there);
if not, the exit code is 5 and nothing is changed.")]
    Set {
        /// The key.
        key: String,
        #[command(flatten)]
        content: Content,
        /// What kind of thing it is.
        #[arg(long = "type", value_name = "TYPE")]
        entry_type: Option<String>,
        /// Only if it is at this version; 0 if there is none.
        #[arg(long, value_name = "N")]
        expect: Option<u64>,
        /// What it builds on: another key; may be given several times.
        #[arg(long, value_name = "KEY")]
        on: Vec<String>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// End an entry; its history stays. [rw]
    #[command(after_help = "Example: quorate memory delete plan --expect 3")]
    Delete {
        /// The key.
        key: String,
        /// Only if it is at this version.
        #[arg(long, value_name = "N")]
        expect: Option<u64>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Print all versions of an entry, the oldest first. [ro]
    #[command(after_help = "Example: quorate memory log plan")]
    Log {
        /// The key.
        key: String,
        #[command(flatten)]
        page: Page,
    },
    /// Print what changed between two versions of an entry. [ro]
    #[command(after_help = "Example: quorate memory diff plan 1 3

Without versions: between the last two.")]
    Diff {
        /// The key.
        key: String,
        /// From this version.
        from: Option<u64>,
        /// To this one; the newest if not given.
        to: Option<u64>,
    },
    /// Bring back what was there at a version, at a time or in a snapshot, as a new version. [rw]
    #[command(after_help = "Example: quorate memory restore plan --to-version 2")]
    Restore(RestoreArgs),
}

#[derive(Args, Debug)]
struct RestoreArgs {
    /// The key; with --prefix, all keys that begin like this.
    key: String,
    /// All keys that begin like that.
    #[arg(long, conflicts_with_all = ["to_version", "expect"])]
    prefix: bool,
    /// To this version.
    #[arg(long, value_name = "N")]
    to_version: Option<u64>,
    /// To what was there at this time.
    #[arg(long, value_name = "TIME", conflicts_with = "to_version")]
    to_time: Option<String>,
    /// To a snapshot.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to_version", "to_time"])]
    to_snapshot: Option<String>,
    /// Only if it is at this version.
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    #[command(flatten)]
    dry_run: DryRun,
}

/// What an entry holds, as it came; nothing if it was deleted.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

const COLUMNS: &[Column] = &[
    ("KEY", |entry| field(entry, "key")),
    ("VERSION", |entry| field(entry, "version")),
    ("TYPE", |entry| field(entry, "type")),
    ("AUTHOR", |entry| field(entry, "author")),
    ("AT", |entry| time(&entry["at"])),
    ("CONTENT", content),
];

const VERSIONS: &[Column] = &[
    ("VERSION", |entry| field(entry, "version")),
    ("AT", |entry| time(&entry["at"])),
    ("RECORD", |entry| field(entry, "seq")),
    ("AUTHOR", |entry| field(entry, "author")),
    ("WHAT", |entry| match (&entry["restores"], entry["deleted"] == true) {
        (Value::Number(version), _) => format!("version {version} again"),
        (_, true) => "deleted".to_owned(),
        _ => "written".to_owned(),
    }),
    ("CONTENT", content),
];

fn content(entry: &Value) -> String {
    if entry["deleted"] == true { String::new() } else { plain(&entry["content"]) }
}

fn path_of(key: &str) -> String {
    format!("/v1/context/{}", segment(key))
}

pub(crate) async fn run(args: MemoryArgs) -> anyhow::Result<()> {
    let MemoryArgs { hub, shape, verb } = args;
    let hub = hub.open_as(&shape)?;
    match verb {
        MemoryVerb::Get { key, version, at, facts } => {
            let query = [("version", version.map(|version| version.to_string())), ("at", at)];
            let answer = hub.get(&path_of(&key), &query).await?;
            if facts || shape.is_said() {
                return shape.one(&answer, || Ok(facts_of(&read(&answer)?)));
            }
            match serde_json::from_str::<Stored<'_>>(&answer)?.content {
                Some(content) => print_alone(content),
                None => text::say(format!("{key} was deleted with this version")),
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
            shape.list(&hub.get("/v1/context", &query).await?, "entries", COLUMNS)
        }
        MemoryVerb::Set { key, content, entry_type, expect, on, dry_run } => {
            let body = Fields::default()
                .maybe("type", entry_type)?
                .set("content", content.needed()?)?
                .maybe("expect", expect)?
                .list("dependsOn", &on)?;
            let answer = hub.change(dry_run, (Method::Put, &path_of(&key)), Some(body.to_json())).await?;
            let Some(answer) = answer else { return Ok(()) };
            let made = read(&answer)?;
            let (version, seq) = (&made["version"], &made["seq"]);
            shape.done(&answer, &format!("{key} is at version {version}, record {seq}"));
            Ok(())
        }
        MemoryVerb::Delete { key, expect, dry_run } => {
            let expect = expect.map(|version| format!("?expect={version}")).unwrap_or_default();
            let path = format!("{}{expect}", path_of(&key));
            let answer = hub.change(dry_run, (Method::Delete, &path), None).await?;
            answer
                .iter()
                .for_each(|answer| shape.done(answer, &format!("{key} is deleted; its history stays")));
            Ok(())
        }
        MemoryVerb::Log { key, page } => {
            let query = [("limit", page.limit()), ("cursor", page.cursor())];
            shape.list(&hub.get(&history_of(&key), &query).await?, "versions", VERSIONS)
        }
        MemoryVerb::Diff { key, from, to } => diff::run(&hub, &shape, &key, from, to).await,
        MemoryVerb::Restore(args) => restore(&hub, &shape, args).await,
    }
}

fn history_of(key: &str) -> String {
    format!("{}/history", path_of(key))
}

async fn restore(hub: &Hub, shape: &Shape, args: RestoreArgs) -> anyhow::Result<()> {
    let RestoreArgs { key, prefix, to_version, to_time, to_snapshot, expect, dry_run } = args;
    if to_version.is_none() && to_time.is_none() && to_snapshot.is_none() {
        let hint = "give --to-version N, --to-time TIME or --to-snapshot NAME; `quorate memory log` shows the versions";
        return Err(Ended::new(USAGE, "it is not said what to bring back", hint).into());
    }
    let body = Fields::default()
        .set(if prefix { "prefix" } else { "key" }, &key)?
        .maybe("toVersion", to_version)?
        .maybe("toTime", to_time)?
        .maybe("toSnapshot", to_snapshot)?
        .maybe("expect", expect)?;
    let answer = hub.change(dry_run, (Method::Post, "/v1/context:rollback"), Some(body.to_json())).await?;
    let Some(answer) = answer else { return Ok(()) };
    let done = read(&answer)?;
    let changed = done["changed"].as_array().map_or(&[][..], Vec::as_slice);
    let said = match changed {
        [] => format!("{key} was like that already: nothing changed"),
        [one] => {
            format!("{} is at version {}, with what was there before", plain(&one["key"]), one["version"])
        }
        several => format!("{} entries are as they were", several.len()),
    };
    shape.done(&answer, &said);
    if let Some(count) = done["builtOnCount"].as_u64().filter(|count| *count > 0) {
        text::say(format!("{count} other entries were built on what went; see --json for them"));
    }
    Ok(())
}

fn facts_of(entry: &Value) -> Facts {
    let built = entry["dependsOn"].as_array().map_or(&[][..], Vec::as_slice);
    let built = built.iter().map(|on| format!("{} version {}", plain(&on["key"]), on["version"]));
    Facts::default()
        .add("key", field(entry, "key"))
        .add("version", field(entry, "version"))
        .add("type", field(entry, "type"))
        .add("author", field(entry, "author"))
        .add("at", time(&entry["at"]))
        .add("record", field(entry, "seq"))
        .add("built on", built.collect::<Vec<_>>().join(", "))
        .add("restores", field(entry, "restores"))
        .add(
            "content",
            if entry["deleted"] == true { "(deleted)".to_owned() } else { payload(&entry["content"]) },
        )
}
