//! `quorate flag`: reports conduct concerns to the moderators. A flag can be read only by moderators: not by the principal that
//! raised it, nor by an admin.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::exit::{CommandError, USAGE};
use crate::hub::{
    DryRunArgs, Hub, HubArgs, JsonFields, Method, PageArgs, Resource, percent_encode, read_file,
};
use crate::output::{Column, Details, OutputArgs, field, format_time, parse_response, payload_text, to_text};

/// Arguments of `quorate flag`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate flag raise 'rude to a newcomer' --location 'issue 123'")]
pub(crate) struct FlagArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: FlagVerb,
}

#[derive(Subcommand, Debug)]
enum FlagVerb {
    /// Report a concern to the moderators only. [rw]
    #[command(after_help = "Example: quorate flag raise 'rude to a newcomer' --location 'issue 123'

No id is returned: only moderators can read flags, and the reporter cannot read its own. To send a custom \
JSON object instead:

  quorate flag raise --file flag.json")]
    Raise(RaiseArgs),
    /// List flags, oldest first (moderators only). [ro]
    #[command(after_help = "Example: quorate flag list --status open")]
    List {
        /// Only flags with this status.
        #[arg(long)]
        status: Option<Status>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show a flag and its resolution (moderators only). [ro]
    #[command(after_help = "Example: quorate flag show @last")]
    Show {
        /// Flag id, a unique prefix of it, or @last.
        id: String,
    },
    /// Resolve a flag, once (moderators only). [rw]
    #[command(after_help = "Example: quorate flag resolve @last --note 'spoke to both'")]
    Resolve {
        /// Flag id, a unique prefix of it, or @last.
        id: String,
        /// How it was resolved.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        note: String,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
}

#[derive(Args, Debug)]
struct RaiseArgs {
    /// What happened.
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    what: Option<String>,
    /// Severity of the concern.
    #[arg(long)]
    severity: Option<Severity>,
    /// Where it happened: a message, a session, an issue …
    #[arg(long)]
    location: Option<String>,
    /// File with the complete flag as a JSON object; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "severity", "location"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Severity {
    Low,
    Medium,
    High,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Open,
    Resolved,
}

/// Returns the name of a value, which is the same on the command line and in the API.
fn value_name(value: impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

const COLUMNS: &[Column] = &[
    ("ID", |flag| field(flag, "id")),
    ("STATUS", |flag| field(flag, "state")),
    ("SEVERITY", |flag| field(&flag["flag"], "severity")),
    ("RAISED BY", |flag| field(flag, "raisedBy")),
    ("AT", |flag| format_time(&flag["raisedAt"])),
    ("LOCATION", |flag| field(&flag["flag"], "location")),
    ("WHAT", description),
];

/// Returns the description, or the whole object if it is a custom one.
fn description(flag: &Value) -> String {
    let text = field(&flag["flag"], "what");
    if text.is_empty() { to_text(&flag["flag"]) } else { text }
}

pub(crate) async fn run(args: FlagArgs) -> anyhow::Result<()> {
    let FlagArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        FlagVerb::Raise(args) => raise(&hub, &output, args).await,
        FlagVerb::List { status, page } => {
            let query =
                [("state", status.and_then(value_name)), ("limit", page.limit()), ("cursor", page.cursor())];
            output.list(&hub.get("/v1/flags", &query).await?, "flags", COLUMNS)
        }
        FlagVerb::Show { id } => {
            let response = hub.get(&path_of(&hub, &id).await?, &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        FlagVerb::Resolve { id, note, dry_run } => {
            let path = format!("{}/resolve", path_of(&hub, &id).await?);
            let body = JsonFields::default().set("note", note)?;
            let response = hub.write(dry_run, (Method::Post, &path), Some(body.to_json())).await?;
            let Some(response) = response else { return Ok(()) };
            output.done(&response, &format!("resolved flag {}", field(&parse_response(&response)?, "id")));
            Ok(())
        }
    }
}

async fn path_of(hub: &Hub, id: &str) -> anyhow::Result<String> {
    Ok(format!("/v1/flags/{}", percent_encode(&hub.resolve_id(Resource::Flag, id).await?)))
}

async fn raise(hub: &Hub, output: &OutputArgs, args: RaiseArgs) -> anyhow::Result<()> {
    let body = match (&args.file, args.what) {
        (Some(file), _) => object(file)?,
        (None, description)
            if description.as_deref().is_none_or(|description| description.trim().is_empty()) =>
        {
            let hint = "describe what happened: quorate flag raise 'TEXT'";
            return Err(CommandError::new(USAGE, "the flag is empty", hint).into());
        }
        (None, description) => JsonFields::default()
            .set_if_some("what", description)?
            .set_if_some("severity", args.severity.and_then(value_name))?
            .set_if_some("location", args.location)?
            .to_json(),
    };
    let response = hub.write(args.dry_run, (Method::Post, "/v1/flags"), Some(body)).await?;
    response.iter().for_each(|response| output.done(response, "received; only moderators can read it"));
    Ok(())
}

/// Reads a custom JSON object, which is sent byte for byte.
fn object(file: &std::path::Path) -> anyhow::Result<String> {
    let text = read_file(file)?;
    let invalid = |reason: String| {
        let hint = "send an object such as {\"what\":\"…\",\"location\":\"…\"}; any fields are allowed";
        let source = if file.as_os_str() == "-" { "stdin".into() } else { file.to_string_lossy() };
        CommandError::new(USAGE, format!("{source} is not a valid flag: {reason}"), hint)
    };
    let fields: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
        serde_json::from_str(&text)
            .map_err(|error| invalid(quorate_core::describe_json_error(&error.to_string())))?;
    if fields.is_empty() {
        return Err(invalid("the object is empty".to_owned()).into());
    }
    Ok(text.trim().to_owned())
}

fn details(flag: &Value) -> Details {
    let (body, resolution) = (&flag["flag"], &flag["resolution"]);
    // The fields of a custom object are not known, so all of it is printed.
    let known = ["what", "severity", "location"];
    let is_standard =
        body.as_object().is_some_and(|body| body.keys().all(|key| known.contains(&key.as_str())));
    let custom = if is_standard || body.is_null() { String::new() } else { payload_text(body) };
    Details::default()
        .add("id", field(flag, "id"))
        .add("status", field(flag, "state"))
        .add("raised by", field(flag, "raisedBy"))
        .add("at", format_time(&flag["raisedAt"]))
        .add("severity", field(body, "severity"))
        .add("where", field(body, "location"))
        .add("what", field(body, "what"))
        .add("flag", if body.is_null() { "erased".to_owned() } else { custom })
        .add("resolved by", field(resolution, "by"))
        .add("resolved", format_time(&resolution["at"]))
        .add("note", field(resolution, "note"))
}
