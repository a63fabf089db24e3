//! `quorate doctor`: checks the configuration, the machine and the hub. Read-only, takes less than 2 s.

mod machine;

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};

use crate::config::{Key, PROJECT_FILE, Settings, Surroundings};
use crate::exit::{Ended, FAILED};
use crate::hub::{Hub, HubArgs};
use crate::shape::{Format, Shape, Table, field};
use crate::text;

/// Tolerated clock skew. The `Date` header has a resolution of one second.
const SKEW_MS_MAX: i64 = 2_000;

/// Variables that only `serve` reads.
const SERVE_VARIABLES: [&str; 2] = ["QUORATE_LOG", "QUORATE_LOG_FORMAT"];

/// Arguments of `quorate doctor`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate doctor

Each problem is printed with a fix. Nothing is changed. The exit code is 1 if a check
fails; warnings alone do not fail.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    shape: Shape,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    Good,
    /// Not checked.
    Skipped,
    Warning,
    Wrong,
}

impl Grade {
    fn glyph(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Skipped => '-',
            Self::Warning => '!',
            Self::Wrong => '✗',
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Wrong => "error",
        }
    }
}

/// A check with its result and suggested fix.
pub(crate) struct Check {
    pub(crate) about: &'static str,
    pub(crate) grade: Grade,
    pub(crate) found: String,
    pub(crate) fix: String,
    /// Duration, where it is relevant.
    pub(crate) ms: Option<u64>,
}

impl Check {
    pub(crate) fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self::new(about, Grade::Good, found, "")
    }

    pub(crate) fn skipped(about: &'static str, why: impl Into<String>) -> Self {
        Self::new(about, Grade::Skipped, why, "")
    }

    pub(crate) fn warning(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(about, Grade::Warning, found, fix)
    }

    pub(crate) fn wrong(about: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(about, Grade::Wrong, found, fix)
    }

    fn new(about: &'static str, grade: Grade, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about, grade, found: found.into(), fix: fix.into(), ms: None }
    }

    fn document(&self) -> Value {
        let mut document =
            json!({"about": self.about, "is": self.grade.word(), "found": self.found, "fix": self.fix});
        if let Some(ms) = self.ms {
            document["ms"] = ms.into();
        }
        document
    }
}

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let machine =
        format!("{}, {}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let mut checks = vec![Check::good("binary", machine)];
    let around = Surroundings::read()?;
    checks.extend(variables(&around));
    match Settings::load(args.hub.said(), &around) {
        Err(error) => checks.push(failed_check("config", &error)),
        Ok(settings) => {
            let files: Vec<String> = settings.files.iter().map(|file| file.display().to_string()).collect();
            checks.push(Check::good("config", if files.is_empty() { no_file() } else { files.join(", ") }));
            checks.extend(machine::look(&settings.data()));
            checks.extend(tokens(&settings));
            checks.extend(hub(&args.hub).await);
        }
    }
    checks.push(machine::files());
    tell(&checks, &args.shape, Map::new())
}

fn no_file() -> String {
    format!("no configuration file; `quorate init` creates {PROJECT_FILE}")
}

/// Warns about unknown `QUORATE_*` variables.
fn variables(around: &Surroundings) -> Vec<Check> {
    let is_unknown = |name: &&String| {
        Key::ALL.iter().all(|key| key.variable() != name.as_str())
            && !SERVE_VARIABLES.contains(&name.as_str())
    };
    let unknown = around.variables.keys().filter(|name| name.starts_with("QUORATE_")).filter(is_unknown);
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
    let named = settings.get(Key::TokenFile).map(|setting| setting.value.clone());
    let own = settings.data().join(crate::hub::ADMIN_TOKEN);
    let own = Some(own).filter(|path| path.exists()).map(|path| path.display().to_string());
    named.into_iter().chain(own).map(|path| machine::private("token file", Path::new(&path), "600")).collect()
}

fn failed_check(about: &'static str, error: &anyhow::Error) -> Check {
    let fix = match (error.downcast_ref::<Ended>(), error.downcast_ref::<quorate_client::Error>()) {
        (Some(ended), _) => ended.hint.clone(),
        (_, Some(error)) => error.hint().to_owned(),
        _ => String::new(),
    };
    Check::wrong(about, error.to_string(), fix)
}

async fn hub(args: &HubArgs) -> Vec<Check> {
    let hub = match args.open() {
        Ok(hub) => hub,
        Err(error) => return vec![failed_check("server", &error)],
    };
    match query(&hub).await {
        Ok(checks) => checks,
        Err(error) => vec![failed_check("server", &error)],
    }
}

async fn query(hub: &Hub) -> anyhow::Result<Vec<Check>> {
    let info = hub.answer("/v1/info").await?;
    let about: Value = info.json()?;
    let principal = field(&about["you"], "principal");
    let version = field(&about, "version");
    let mut checks =
        vec![Check::good("server", format!("{} {version}, authenticated as {principal}", hub.url()))];
    if version != env!("CARGO_PKG_VERSION") {
        let found = format!("the hub is version {version}, this program {}", env!("CARGO_PKG_VERSION"));
        checks.push(Check::warning("release", found, "install the same release on both sides"));
    }
    checks.extend(info.header("date").and_then(skew));
    let state = hub.look("/v1/state", &[]).await?;
    checks.push(Check::good(
        "log",
        format!("{} records, newest {}", state["seq"], crate::shape::time(&state["at"])),
    ));
    checks.push(match crate::status::audited(&about["audit"]) {
        Some(found) => Check::good("audit", found),
        None => Check::skipped("audit", "not verified yet; run `quorate audit verify` to verify it now"),
    });
    let dead = state["deliveries"]["dead"].as_u64().unwrap_or(0);
    if dead > 0 {
        let found = format!("{dead} dead-lettered messages");
        checks.push(Check::warning(
            "dead letters",
            found,
            "list them with `quorate msg list --dead`, redeliver one with `quorate msg redeliver ID`",
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
        Check::good("clock", "in sync with the hub")
    } else {
        let found = format!("{} s off from the hub's clock", skew_ms / 1000);
        Check::warning("clock", found, "synchronize the clocks: timedatectl set-ntp true")
    })
}

/// Prints the checks; `about` has additional fields for the JSON document. Fails if a check failed.
pub(crate) fn tell(checks: &[Check], shape: &Shape, about: Map<String, Value>) -> anyhow::Result<()> {
    let count = |grade| checks.iter().filter(|check| check.grade == grade).count();
    let (wrong, warnings) = (count(Grade::Wrong), count(Grade::Warning));
    match shape.format() {
        Format::Json => {
            let all: Vec<Value> = checks.iter().map(Check::document).collect();
            let counted = json!({"ok": wrong == 0, "errors": wrong, "warnings": warnings, "checks": all});
            let mut document = Value::Object(about);
            for (name, value) in counted.as_object().into_iter().flatten() {
                document[name] = value.clone();
            }
            text::print(text::clean_json(&document.to_string()));
        }
        Format::Jsonl => {
            checks.iter().for_each(|check| text::print(text::clean_json(&check.document().to_string())));
        }
        Format::Table => {
            for check in checks {
                let lead = format!("{} {:<13}", check.grade.glyph(), check.about);
                let took = check.ms.map_or(String::new(), |ms| format!("  ({ms} ms)"));
                text::print(text::clean_line(&format!("{lead} {}{took}", check.found)));
                if !check.fix.is_empty() {
                    let fix = text::clean(&check.fix).replace('\n', "\n                     ");
                    text::print(format!("                fix: {fix}"));
                }
            }
        }
        format => {
            let mut table = Table::new(["RESULT", "CHECK", "FOUND", "FIX"]);
            for check in checks {
                let cells = [check.grade.word(), check.about, &check.found, &check.fix];
                table.row(cells.map(ToOwned::to_owned));
            }
            table.print(format);
        }
    }
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    if wrong == 0 {
        text::say(format!("no problems, {}", plural(warnings, "warning")));
        return Ok(());
    }
    let message = format!("{}, {}", plural(wrong, "problem"), plural(warnings, "warning"));
    Err(Ended::new(FAILED, message, "see the fix below each line with ✗").into())
}
