//! `quorate doctor`: checks the configuration, the machine and the hub. Read-only, takes less than 2 s.

mod host;

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};

use crate::config::{Key, PROJECT_FILE, ProcessContext, Settings};
use crate::exit::{CommandError, FAILED};
use crate::hub::{Hub, HubArgs};
use crate::output::{OutputArgs, OutputFormat, Table, field, plural};
use crate::terminal;

/// Tolerated clock skew. The `Date` header has a resolution of one second.
const SKEW_MS_MAX: i64 = 2_000;

/// Variables that only `serve` reads.
const SERVE_VARIABLES: [&str; 2] = ["QUORATE_LOG", "QUORATE_LOG_FORMAT"];

/// Arguments of `quorate doctor`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate doctor

Each problem is printed with a fix. Nothing is changed. The exit code is 1 if a check fails; warnings \
alone do not fail.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckResult {
    Passed,
    /// Not checked.
    Skipped,
    Warning,
    Failed,
}

impl CheckResult {
    fn glyph(self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Skipped => '-',
            Self::Warning => '!',
            Self::Failed => '✗',
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failed => "error",
        }
    }
}

/// A check with its result and suggested fix.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) result: CheckResult,
    pub(crate) found: String,
    pub(crate) fix: String,
    /// Duration, where it is relevant.
    pub(crate) ms: Option<u64>,
}

impl Check {
    pub(crate) fn passed(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Passed, found, "")
    }

    pub(crate) fn skipped(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Skipped, reason, "")
    }

    pub(crate) fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Warning, found, fix)
    }

    pub(crate) fn failed(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Failed, found, fix)
    }

    fn new(
        name: &'static str,
        result: CheckResult,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, result, found: found.into(), fix: fix.into(), ms: None }
    }

    fn document(&self) -> Value {
        let mut document =
            json!({"about": self.name, "is": self.result.word(), "found": self.found, "fix": self.fix});
        if let Some(ms) = self.ms {
            document["ms"] = ms.into();
        }
        document
    }
}

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let build = format!("{}, {}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let mut checks = vec![Check::passed("binary", build)];
    let context = ProcessContext::read()?;
    checks.extend(variables(&context));
    match Settings::load(args.hub.flags(), &context) {
        Err(error) => checks.push(failed_check("config", &error)),
        Ok(settings) => {
            let files: Vec<String> = settings.files.iter().map(|file| file.display().to_string()).collect();
            checks.push(Check::passed("config", if files.is_empty() { no_file() } else { files.join(", ") }));
            checks.extend(host::check_data_directory(&settings.data()));
            checks.extend(tokens(&settings));
            checks.extend(hub(&args.hub).await);
        }
    }
    checks.push(host::check_open_files());
    print_checks(&checks, &args.output, Map::new())
}

fn no_file() -> String {
    format!("no configuration file; `quorate init` creates {PROJECT_FILE}")
}

/// Warns about unknown `QUORATE_*` variables.
fn variables(context: &ProcessContext) -> Vec<Check> {
    let is_unknown = |name: &&String| {
        Key::ALL.iter().all(|key| key.variable() != name.as_str())
            && !SERVE_VARIABLES.contains(&name.as_str())
    };
    let unknown = context.variables.keys().filter(|name| name.starts_with("QUORATE_")).filter(is_unknown);
    unknown
        .map(|name| {
            let names: Vec<&str> = Key::ALL.iter().map(|key| key.variable()).collect();
            let fix = format!("unset it; the known variables are {}", names.join(", "));
            Check::warning("environment", format!("unknown variable {name}"), fix)
        })
        .collect()
}

/// Checks that token files are readable only by their owner.
fn tokens(settings: &Settings) -> Vec<Check> {
    let configured = settings.get(Key::TokenFile).map(|setting| setting.value.clone());
    let own = settings.data().join(crate::hub::ADMIN_TOKEN_FILE);
    let own = Some(own).filter(|path| path.exists()).map(|path| path.display().to_string());
    configured
        .into_iter()
        .chain(own)
        .map(|path| host::check_private("token file", Path::new(&path), "600"))
        .collect()
}

fn failed_check(name: &'static str, error: &anyhow::Error) -> Check {
    let fix = match (error.downcast_ref::<CommandError>(), error.downcast_ref::<quorate_client::Error>()) {
        (Some(command_error), _) => command_error.hint.clone(),
        (_, Some(error)) => error.hint().to_owned(),
        _ => String::new(),
    };
    Check::failed(name, error.to_string(), fix)
}

async fn hub(args: &HubArgs) -> Vec<Check> {
    let hub = match args.open() {
        Ok(hub) => hub,
        Err(error) => return vec![failed_check("hub", &error)],
    };
    match query(&hub).await {
        Ok(checks) => checks,
        Err(error) => vec![failed_check("hub", &error)],
    }
}

async fn query(hub: &Hub) -> anyhow::Result<Vec<Check>> {
    let response = hub.get_response("/v1/info").await?;
    let info: Value = response.json()?;
    let principal = field(&info["you"], "principal");
    let version = field(&info, "version");
    let mut checks =
        vec![Check::passed("hub", format!("{} {version}, authenticated as {principal}", hub.url()))];
    if version != env!("CARGO_PKG_VERSION") {
        let found = format!("the hub is version {version}, this program {}", env!("CARGO_PKG_VERSION"));
        checks.push(Check::warning("release", found, "install the same release on both sides"));
    }
    checks.extend(response.header("date").and_then(skew));
    let state = hub.get_json("/v1/state", &[]).await?;
    checks.push(Check::passed(
        "log",
        format!("{} records, newest {}", state["seq"], crate::output::format_time(&state["at"])),
    ));
    checks.push(match crate::status::audit_summary(&info["audit"]) {
        Some(found) => Check::passed("audit", found),
        None => Check::skipped("audit", "not verified yet; run `quorate audit verify` to verify it now"),
    });
    let dead = state["deliveries"]["dead"].as_u64().unwrap_or(0);
    if dead > 0 {
        let found = format!("{dead} dead-lettered messages");
        checks.push(Check::warning(
            "dead letters",
            found,
            "list them with `quorate msg list --dead`, redrive one with `quorate msg redrive ID`",
        ));
    }
    Ok(checks)
}

/// Compares the clocks by the `Date` header of a response.
fn skew(date: &str) -> Option<Check> {
    let remote = jiff::fmt::rfc2822::parse(date).ok()?.timestamp().as_millisecond();
    let local = Timestamp::from_millisecond(i64::try_from(SystemClock::new().now().wall.0).ok()?).ok()?;
    let skew_ms = (local.as_millisecond() - remote).abs();
    Some(if skew_ms <= SKEW_MS_MAX {
        Check::passed("clock", "in sync with the hub")
    } else {
        let found = format!("{} s off from the hub's clock", skew_ms / 1000);
        Check::warning("clock", found, "synchronize the clocks: timedatectl set-ntp true")
    })
}

/// Prints the checks; `fields` are added to the JSON document. Fails if a check failed.
pub(crate) fn print_checks(
    checks: &[Check],
    output: &OutputArgs,
    fields: Map<String, Value>,
) -> anyhow::Result<()> {
    let count = |result| checks.iter().filter(|check| check.result == result).count();
    let (errors, warnings) = (count(CheckResult::Failed), count(CheckResult::Warning));
    match output.format() {
        OutputFormat::Json => {
            let all: Vec<Value> = checks.iter().map(Check::document).collect();
            let summary = json!({"ok": errors == 0, "errors": errors, "warnings": warnings, "checks": all});
            let mut document = Value::Object(fields);
            for (name, value) in summary.as_object().into_iter().flatten() {
                document[name] = value.clone();
            }
            terminal::print(terminal::sanitize_json(&document.to_string()));
        }
        OutputFormat::Jsonl => {
            checks
                .iter()
                .for_each(|check| terminal::print(terminal::sanitize_json(&check.document().to_string())));
        }
        OutputFormat::Table => {
            for check in checks {
                let prefix = format!("{} {:<13}", check.result.glyph(), check.name);
                let duration = check.ms.map_or(String::new(), |ms| format!("  ({ms} ms)"));
                terminal::print(terminal::sanitize_line(&format!("{prefix} {}{duration}", check.found)));
                if !check.fix.is_empty() {
                    let fix = terminal::sanitize(&check.fix).replace('\n', "\n                     ");
                    terminal::print(format!("                fix: {fix}"));
                }
            }
        }
        format => {
            let mut table = Table::new(["RESULT", "CHECK", "FOUND", "FIX"]);
            for check in checks {
                let cells = [check.result.word(), check.name, &check.found, &check.fix];
                table.row(cells.map(ToOwned::to_owned));
            }
            table.print(format);
        }
    }
    if errors == 0 {
        terminal::note(format!("no problems, {}", plural(warnings, "warning")));
        return Ok(());
    }
    let performed = checks.len() - count(CheckResult::Skipped);
    let message = format!("{errors} of {} failed", plural(performed, "check"));
    Err(CommandError::new(FAILED, message, "see the fix below each line with ✗").into())
}
