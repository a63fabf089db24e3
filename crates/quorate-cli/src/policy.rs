//! `quorate policy`: shows and sets the policy of a space, and lists its violations.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::exit::{CommandError, USAGE};
use crate::hub::{DryRunArgs, HubArgs, Method, PageArgs};
use crate::output::{Column, Details, OutputArgs, field, format_time, parse_response};
use crate::terminal;

/// Arguments of `quorate policy`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate policy show")]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: PolicyVerb,
}

#[derive(Subcommand, Debug)]
enum PolicyVerb {
    /// Show the policy of the space. [ro]
    #[command(after_help = "Example: quorate policy show")]
    Show,
    /// Replace the policy of the space: a preset, and rules that differ from it. [rw]
    #[command(after_help = "Example: quorate policy set mesh --rule confidence=true

Rules have the names that `policy show` prints; a rule that is not set has the value of the preset. Requires the access role admin.")]
    Set {
        /// Preset: `mesh` lets every agent reach every other, `supervised` only coordinators.
        #[arg(value_parser = ["mesh", "supervised"])]
        preset: String,
        /// Rule that differs from the preset; can be repeated.
        #[arg(long = "rule", value_name = "NAME=VALUE")]
        rules: Vec<String>,
        #[command(flatten)]
        dry_run: DryRunArgs,
    },
    /// List violations of the policy, oldest first. [ro]
    #[command(after_help = "Example: quorate policy violations")]
    Violations {
        #[command(flatten)]
        page: PageArgs,
    },
}

const VIOLATIONS: &[Column] = &[
    ("AT", |violation| format_time(&violation["at"])),
    ("PRINCIPAL", |violation| field(violation, "principal")),
    ("RULE", |violation| field(violation, "rule")),
    ("PLACE", |violation| field(violation, "place")),
    ("CODE", |violation| field(violation, "code")),
    ("COUNT", |violation| field(violation, "count")),
];

pub(crate) async fn run(args: PolicyArgs) -> anyhow::Result<()> {
    let PolicyArgs { hub, output, verb } = args;
    let hub = hub.open_with_output(&output)?;
    match verb {
        PolicyVerb::Show => {
            let response = hub.get("/v1/policy", &[]).await?;
            output.item(&response, || Ok(details(&parse_response(&response)?)))
        }
        PolicyVerb::Set { preset, rules, dry_run } => {
            let mut body = Map::from_iter([("preset".to_owned(), Value::from(preset.clone()))]);
            for rule in &rules {
                let (name, value) = parse_rule(rule)?;
                body.insert(name, value);
            }
            let body = Value::from(body).to_string();
            let response = hub.write(dry_run, (Method::Put, "/v1/policy"), Some(body)).await?;
            let Some(response) = response else { return Ok(()) };
            let differing = if rules.is_empty() { String::new() } else { format!(", {}", rules.join(", ")) };
            output.done(
                &response,
                &format!("the policy is {preset}{differing}; it applies from the next commit on"),
            );
            Ok(())
        }
        PolicyVerb::Violations { page } => {
            let query = [("limit", page.limit()), ("cursor", page.cursor())];
            output.list(&hub.get("/v1/violations", &query).await?, "violations", VIOLATIONS)
        }
    }
}

/// Parses a rule such as `confidence=true`; the hub validates its name.
fn parse_rule(text: &str) -> anyhow::Result<(String, Value)> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, value)| Some((name.to_owned(), serde_json::from_str(value).ok()?)));
    parsed.ok_or_else(|| {
        let message = format!("invalid rule {:?}", terminal::sanitize_line(text));
        CommandError::new(
            USAGE,
            message,
            "use NAME=VALUE with true, false, a number or null, such as confidence=true",
        )
        .into()
    })
}

/// Returns one line per rule, with the names of the response, after the preset.
fn details(policy: &Value) -> Details {
    let rules = policy.as_object().into_iter().flatten().filter(|(name, _)| *name != "preset");
    rules.fold(Details::default().add("preset", field(policy, "preset")), |details, (name, value)| {
        let text = if value.is_null() { "none".to_owned() } else { crate::output::to_text(value) };
        details.add(name, text)
    })
}
