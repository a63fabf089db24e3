//! `quorate config`: prints the effective configuration, its sources, and the configuration files.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Key, PROJECT_FILE, ProcessContext, Settings};
use crate::hub::{ADMIN_TOKEN_FILE, HubArgs, READY_FILE, running_hub_url};
use crate::output::{OutputArgs, OutputFormat, Table};
use crate::terminal;

/// Arguments of `quorate config`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate config explain")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Subcommand, Debug)]
enum ConfigVerb {
    /// Print the effective configuration. [ro]
    #[command(after_help = "Example: quorate config show --json")]
    Show,
    /// Print the source of each value and the values that it overrides. [ro]
    #[command(after_help = "Example: quorate config explain --profile staging

Precedence: options, QUORATE_* variables, the project's quorate.yaml (the nearest one, from the current \
directory upwards), the user's file, defaults. A profile has the precedence of the level that selects it.")]
    Explain,
    /// Print the paths of the configuration files, whether they exist or not. [ro]
    #[command(after_help = "Example: quorate config path")]
    Path,
}

pub(crate) fn run(args: ConfigArgs) -> anyhow::Result<()> {
    let context = ProcessContext::read()?;
    if let ConfigVerb::Path = args.verb {
        paths(&context, &args.output);
        return Ok(());
    }
    let settings = Settings::load(args.hub.flags(), &context)?;
    let explain = matches!(args.verb, ConfigVerb::Explain);
    if args.output.format() == OutputFormat::Json {
        let all = Key::ALL.iter().map(|key| (key.name().to_owned(), as_json(&settings, *key, explain)));
        terminal::print(terminal::sanitize_json(&Value::Object(all.collect()).to_string()));
        return Ok(());
    }
    let head: &[&str] = if explain { &["KEY", "VALUE", "FROM", "OVERRIDES"] } else { &["KEY", "VALUE"] };
    let mut table = Table::new(head.iter().copied());
    for key in Key::ALL {
        let values: Vec<_> = settings.all(key).collect();
        let (value, from) = effective(&settings, key);
        let overridden = values
            .iter()
            .filter(|setting| setting.origin.to_string() != from)
            .map(|setting| format!("{} ({})", masked(key, &setting.value), setting.origin));
        let overridden = overridden.collect::<Vec<_>>().join(", ");
        let row = [key.name().to_owned(), masked(key, &value), from, overridden];
        match args.output.format() {
            OutputFormat::Jsonl => terminal::print(terminal::sanitize_json(
                &json!({"key": key.name(), "is": as_json(&settings, key, explain)}).to_string(),
            )),
            _ => table.row(row.into_iter().take(head.len())),
        }
    }
    if args.output.format() != OutputFormat::Jsonl {
        table.print(args.output.format());
    }
    Ok(())
}

/// Returns the effective value and its source: configured, discovered in the data directory, or the default.
fn effective(settings: &Settings, key: Key) -> (String, String) {
    let data = settings.data();
    // The URL or the data directory of a running hub, whichever is set on the higher level.
    let by_data =
        key == Key::Url && !matches!(settings.first_set([Key::Url, Key::Data]), Some((Key::Url, _)));
    if let Some(url) = Some(&data).filter(|_| by_data).and_then(|data| running_hub_url(data)) {
        return (url, format!("{} (running hub)", data.join(READY_FILE).display()));
    }
    if let Some(setting) = settings.get(key) {
        return (setting.value.clone(), setting.origin.to_string());
    }
    let token = data.join(ADMIN_TOKEN_FILE);
    match key {
        Key::TokenFile if token.exists() && settings.get(Key::Token).is_none() => {
            Some((token.display().to_string(), "found in the data directory".to_owned()))
        }
        _ => None,
    }
    .unwrap_or_else(|| (key.default_value().to_owned(), "default".to_owned()))
}

/// Returns a value for display, with tokens masked.
fn masked(key: Key, value: &str) -> String {
    match (key, value) {
        (_, "") => "-".to_owned(),
        (Key::Token, _) => "(hidden)".to_owned(),
        _ => value.to_owned(),
    }
}

fn as_json(settings: &Settings, key: Key, explain: bool) -> Value {
    let value = |text: &str| match (key, text) {
        (_, "") => Value::Null,
        (Key::Token, _) => "(hidden)".into(),
        (Key::InsecureHttp, text) => (text == "true").into(),
        _ => text.into(),
    };
    let values: Vec<_> = settings.all(key).collect();
    let (current, from) = effective(settings, key);
    let current = value(&current);
    if !explain {
        return current;
    }
    let overridden = values.iter().filter(|setting| setting.origin.to_string() != from);
    let overridden =
        overridden.map(|setting| json!({"value": value(&setting.value), "from": setting.origin.to_string()}));
    let overridden: Vec<Value> = overridden.collect();
    json!({"value": current, "from": from, "overrides": overridden, "meaning": key.description()})
}

fn paths(context: &ProcessContext, output: &OutputArgs) {
    let default = context.directory.join(PROJECT_FILE);
    let project = context.project_file().unwrap_or(default);
    let files = [("project", Some(project)), ("user", context.user_file())];
    let mut table = Table::new(["LEVEL", "FILE", "EXISTS"]);
    let mut listed = Vec::new();
    for (level, file) in files {
        let Some(file) = file else { continue };
        let exists = file.is_file();
        table.row([
            level.to_owned(),
            file.display().to_string(),
            if exists { "yes" } else { "no" }.to_owned(),
        ]);
        listed.push(json!({"level": level, "file": file, "exists": exists}));
    }
    match output.format() {
        OutputFormat::Json => terminal::print(terminal::sanitize_json(&json!({"files": listed}).to_string())),
        OutputFormat::Jsonl => {
            listed.iter().for_each(|file| terminal::print(terminal::sanitize_json(&file.to_string())))
        }
        format => table.print(format),
    }
}
