//! `quorate flag`: a concern that somebody tells the moderators, and nobody else. What is raised here cannot be read again by
//! whoever raised it, nor by an admin.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::exit::{Ended, USAGE};
use crate::hub::{DryRun, Fields, Hub, HubArgs, Method, Noun, Page, read_file, segment};
use crate::shape::{Column, Facts, Shape, field, payload, plain, read, time};

/// Concerns about conduct: anybody raises one, only moderators read them.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate flag raise 'rude to a newcomer' --where 'issue 123'")]
pub(crate) struct FlagArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    verb: FlagVerb,
}

#[derive(Subcommand, Debug)]
enum FlagVerb {
    /// Tell the moderators of a concern, and nobody else. [rw]
    #[command(
        after_help = "Example: quorate flag raise 'rude to a newcomer' --severity high --where 'issue 123'

There is no id and no answer to look at later: whoever is no moderator learns nothing
of flags, not even of its own. --json-body sends an object of your own instead:
quorate flag raise --json-body flag.json"
    )]
    Raise(RaiseArgs),
    /// List flags, oldest first. For moderators. [ro]
    #[command(after_help = "Example: quorate flag list --state open")]
    List {
        /// Only those that are open, or resolved.
        #[arg(long)]
        state: Option<State>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a flag, and how it was settled. For moderators. [ro]
    #[command(after_help = "Example: quorate flag show @last")]
    Show {
        /// Its id, the beginning of it, or @last.
        id: String,
    },
    /// Settle a flag, once. For moderators. [rw]
    #[command(after_help = "Example: quorate flag resolve @last --note 'spoke to both'")]
    Resolve {
        /// Its id, the beginning of it, or @last.
        id: String,
        /// What was done about it.
        #[arg(long, value_name = "WORDS", default_value = "")]
        note: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

#[derive(Args, Debug)]
struct RaiseArgs {
    /// What happened.
    #[arg(value_name = "WORDS", required_unless_present = "json_body")]
    what: Option<String>,
    /// How bad it is.
    #[arg(long)]
    severity: Option<Severity>,
    /// Where it happened: a message, a session, an issue …
    #[arg(long = "where", value_name = "PLACE")]
    place: Option<String>,
    /// A file with the whole flag, an object in JSON; - is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "severity", "place"])]
    json_body: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRun,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Severity {
    Low,
    Medium,
    High,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Open,
    Resolved,
}

/// The word of a value of the command line, which is the hub's.
fn word(value: impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

const COLUMNS: &[Column] = &[
    ("ID", |flag| field(flag, "id")),
    ("STATE", |flag| field(flag, "state")),
    ("SEVERITY", |flag| field(&flag["flag"], "severity")),
    ("RAISED BY", |flag| field(flag, "raisedBy")),
    ("AT", |flag| time(&flag["raisedAt"])),
    ("WHERE", |flag| field(&flag["flag"], "location")),
    ("WHAT", what),
];

/// What happened in the words of whoever raised it; of an object of its own, all of it.
fn what(flag: &Value) -> String {
    let words = field(&flag["flag"], "what");
    if words.is_empty() { plain(&flag["flag"]) } else { words }
}

pub(crate) async fn run(args: FlagArgs) -> anyhow::Result<()> {
    let FlagArgs { hub, shape, verb } = args;
    let hub = hub.open_as(&shape)?;
    match verb {
        FlagVerb::Raise(args) => raise(&hub, &shape, args).await,
        FlagVerb::List { state, page } => {
            let query = [("state", state.and_then(word)), ("limit", page.limit()), ("cursor", page.cursor())];
            shape.list(&hub.get("/v1/flags", &query).await?, "flags", COLUMNS)
        }
        FlagVerb::Show { id } => {
            let answer = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            shape.one(&answer, || Ok(facts(&read(&answer)?)))
        }
        FlagVerb::Resolve { id, note, dry_run } => {
            let way = format!("{}/resolve", path_of(&hub, &id).await?);
            let body = Fields::default().set("note", note)?;
            let answer = hub.change(dry_run, (Method::Post, &way), Some(body.to_json())).await?;
            let Some(answer) = answer else { return Ok(()) };
            shape.done(&answer, &format!("flag {} is resolved", field(&read(&answer)?, "id")));
            Ok(())
        }
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/flags/{}", segment(&hub.id(Noun::Flag, id).await?)))
}

async fn raise(hub: &Hub, shape: &Shape, args: RaiseArgs) -> anyhow::Result<()> {
    let body = match (&args.json_body, args.what) {
        (Some(file), _) => object(file)?,
        (None, what) if what.as_deref().is_none_or(|what| what.trim().is_empty()) => {
            let hint = "say what happened: quorate flag raise 'WORDS'";
            return Err(Ended::new(USAGE, "the flag says nothing", hint).into());
        }
        (None, what) => Fields::default()
            .maybe("what", what)?
            .maybe("severity", args.severity.and_then(word))?
            .maybe("location", args.place)?
            .to_json(),
    };
    let answer = hub.change(args.dry_run, (Method::Post, "/v1/flags"), Some(body)).await?;
    answer.iter().for_each(|answer| shape.done(answer, "received; only moderators can see it"));
    Ok(())
}

/// An object that somebody wrote; it goes on byte for byte.
fn object(file: &std::path::Path) -> anyhow::Result<String> {
    let text = read_file(file)?;
    let wrong = |why: String| {
        let hint = "a flag is {\"what\":\"…\",\"location\":\"…\"}, with any fields that you like";
        let from = if file.as_os_str() == "-" { "the standard input".into() } else { file.to_string_lossy() };
        Ended::new(USAGE, format!("{from} is no flag: {why}"), hint)
    };
    let fields: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
        serde_json::from_str(&text).map_err(|error| wrong(quorate_core::misread(&error.to_string())))?;
    if fields.is_empty() {
        return Err(wrong("it says nothing".to_owned()).into());
    }
    Ok(text.trim().to_owned())
}

fn facts(flag: &Value) -> Facts {
    let (said, settled) = (&flag["flag"], &flag["resolution"]);
    // Of an object of somebody's own there is no telling what matters: all of it is shown.
    let known = ["what", "severity", "location"];
    let is_ours = said.as_object().is_some_and(|said| said.keys().all(|key| known.contains(&key.as_str())));
    let whole = if is_ours || said.is_null() { String::new() } else { payload(said) };
    Facts::default()
        .add("id", field(flag, "id"))
        .add("state", field(flag, "state"))
        .add("raised by", field(flag, "raisedBy"))
        .add("at", time(&flag["raisedAt"]))
        .add("severity", field(said, "severity"))
        .add("where", field(said, "location"))
        .add("what", field(said, "what"))
        .add("the flag", if said.is_null() { "erased".to_owned() } else { whole })
        .add("resolved by", field(settled, "by"))
        .add("resolved", time(&settled["at"]))
        .add("note", field(settled, "note"))
}
