//! `quorate deliberation`: outcomes, votes and results under other rules, from a running hub or from a data directory without
//! one.

mod lookup;
mod unfinished;

use clap::{Args, Subcommand};
use quorate::deliberation::{ConflictResolution, Outcome};
use quorate_procedures::conflict::Position;
use quorate_procedures::deliberation::{TallySummary, compare_rules};
use serde_json::{Value, json};

use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::HubArgs;
use crate::output::{Column, OutputArgs, field, format_time};
use crate::report::{self, ReportFormatArgs};

use lookup::LoadedDeliberation;

/// Arguments of `quorate deliberation`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate deliberation list

Reads from the hub given by --url, or from the hub running on the data directory. If no hub is running, \
reads the directory itself, where `quorate run` stores its results.")]
pub(crate) struct DeliberationArgs {
    #[command(flatten)]
    hub: HubArgs,
    #[command(subcommand)]
    verb: DeliberationVerb,
}

#[derive(Subcommand, Debug)]
enum DeliberationVerb {
    /// List deliberations, newest first. [ro]
    #[command(after_help = "Example: quorate deliberation list --data my-data --limit 5")]
    List {
        /// Maximum number of deliberations.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
        limit: u16,
        #[command(flatten)]
        shape: OutputArgs,
    },
    /// Show the outcome with its dissent, the progress, or the reason of a failure. [ro]
    #[command(after_help = "Example: quorate deliberation show @last --format html > report.html")]
    Show {
        /// Deliberation id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        format: ReportFormatArgs,
    },
    /// List all ballots before and after the discussion, with their reasons. [ro]
    #[command(after_help = "Example: quorate deliberation votes @last --conflict C1")]
    Votes {
        /// Deliberation id, a unique prefix of it, or @last.
        id: String,
        /// Only ballots of this conflict.
        #[arg(long, value_name = "ID")]
        conflict: Option<String>,
        #[command(flatten)]
        shape: OutputArgs,
    },
    /// Tally the same ballots under every rule, before and after the discussion. [ro]
    #[command(after_help = "Example: quorate deliberation compare @last

≠ marks a rule whose result differs from the decision. Numeric conflicts are merged instead of voted on, \
so they are omitted; borda needs rankings.")]
    Compare {
        /// Deliberation id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        shape: OutputArgs,
    },
}

pub(crate) async fn run(args: DeliberationArgs) -> anyhow::Result<()> {
    let hub = args.hub.open_for_reading().await?;
    let done = dispatch(&hub, args.verb).await;
    hub.close().await;
    done
}

async fn dispatch(hub: &quorate::Hub, verb: DeliberationVerb) -> anyhow::Result<()> {
    match verb {
        DeliberationVerb::List { limit, shape } => {
            let rows = lookup::newest_rows(hub, usize::from(limit)).await?;
            shape.list(&json!({ "deliberations": rows }).to_string(), "deliberations", LISTED)
        }
        DeliberationVerb::Show { id, format } => {
            let format = format.selected();
            match lookup::load(hub, &id).await? {
                LoadedDeliberation::Done { id, outcome } => report::print(&outcome, &id, format, None),
                LoadedDeliberation::Failed { info, failure } => {
                    unfinished::print_failed(&info, *failure, format)
                }
                LoadedDeliberation::Running { info, state } => {
                    unfinished::print_running(&info, &state, format)
                }
            }
        }
        DeliberationVerb::Votes { id, conflict, shape } => {
            let (_, outcome) = decided(hub, &id).await?;
            let rows = ballots(&outcome, conflict.as_deref())?;
            let document = json!({ "agreement": outcome.synthesis.agreement, "votes": rows });
            shape.list(&document.to_string(), "votes", BALLOTS)
        }
        DeliberationVerb::Compare { id, shape } => {
            let (_, outcome) = decided(hub, &id).await?;
            let document = json!({ "agreement": outcome.synthesis.agreement, "counts": counts(&outcome) });
            shape.list(&document.to_string(), "counts", COUNTS)
        }
    }
}

/// Returns a deliberation that has an outcome.
async fn decided(hub: &quorate::Hub, typed: &str) -> anyhow::Result<(String, Box<Outcome>)> {
    let (id, why) = match lookup::load(hub, typed).await? {
        LoadedDeliberation::Done { id, outcome } => return Ok((id, outcome)),
        LoadedDeliberation::Failed { info, .. } => (info.procedure().id.to_string(), "failed"),
        LoadedDeliberation::Running { info, .. } => (info.procedure().id.to_string(), "is still running"),
    };
    let hint = format!("for details: quorate deliberation show {id}");
    Err(CommandError::new(NOT_FOUND, format!("deliberation {id} {why}: there are no votes"), hint).into())
}

const LISTED: &[Column] = &[
    ("ID", |one| field(one, "id")),
    ("STATE", |one| field(one, "state")),
    ("STARTED", |one| format_time(&one["startedAt"])),
    ("ANSWER", |one| field(one, "answer")),
    ("QUESTION", |one| field(one, "subject")),
];

const BALLOTS: &[Column] = &[
    ("CONFLICT", |one| field(one, "conflict")),
    ("AGENT", |one| field(one, "agent")),
    ("BEFORE", |one| held(&one["before"])),
    ("AFTER", |one| held(&one["after"])),
    ("", |one| if one["dissents"] == true { "dissents".to_owned() } else { String::new() }),
    ("REASON", |one| field(&one["after"], "reason")),
];

const COUNTS: &[Column] = &[
    ("CONFLICT", |one| field(one, "conflict")),
    (
        "RULE",
        |one| if one["used"] == true { format!("{} *", field(one, "rule")) } else { field(one, "rule") },
    ),
    ("BEFORE", |one| counted(&one["before"])),
    ("AFTER", |one| counted(&one["after"])),
    ("", |one| if one["differs"] == true { "≠".to_owned() } else { String::new() }),
    ("DECISION", |one| if one["stands"].is_null() { "no decision".to_owned() } else { field(one, "stands") }),
];

fn held(position: &Value) -> String {
    let confidence = position["confidence"].as_f64().map_or(String::new(), |value| format!(" {value:.2}"));
    format!("{}{confidence}", field(position, "position"))
}

fn counted(choice: &Value) -> String {
    let share = choice["share"].as_f64().unwrap_or_default();
    match choice["tied"].as_array() {
        Some(tied) => {
            let tied: Vec<&str> = tied.iter().filter_map(Value::as_str).collect();
            format!("tied: {} {share:.2}", tied.join(" = "))
        }
        None => format!("{} {share:.2}", field(choice, "choice")),
    }
}

/// Returns all ballots, in the order of the conflicts.
fn ballots(outcome: &Outcome, only: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let all: Vec<&ConflictResolution> = outcome.all_decisions().collect();
    let chosen: Vec<&&ConflictResolution> =
        all.iter().filter(|one| only.is_none_or(|id| one.id.eq_ignore_ascii_case(id))).collect();
    if let (Some(id), true) = (only, chosen.is_empty()) {
        let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
        let hint = if ids.is_empty() {
            "there were no conflicts".to_owned()
        } else {
            format!("the conflicts are {}", ids.join(", "))
        };
        return Err(CommandError::new(NOT_FOUND, format!("there is no conflict {id}"), hint).into());
    }
    let row = |decision: &ConflictResolution, after: &Position| {
        let before = decision.conflict.positions.iter().find(|one| one.agent == after.agent);
        json!({
            "conflict": decision.id,
            "topic": decision.conflict.topic,
            "agent": after.agent,
            "before": before,
            "after": after,
            "ranking": decision.rankings.get(&after.agent),
            "dissents": decision.minority.iter().any(|one| one.agent == after.agent),
        })
    };
    let of = |decision: &&&ConflictResolution| -> Vec<Value> {
        decision.positions.iter().map(|after| row(decision, after)).collect()
    };
    Ok(chosen.iter().flat_map(of).collect())
}

/// Tallies every conflict under every rule.
fn counts(outcome: &Outcome) -> Vec<Value> {
    let mut rows = Vec::new();
    for one in compare_rules(outcome) {
        for counted in &one.rules {
            let stands = one.position.as_ref().map(ToString::to_string);
            let is_other = |choice: &TallySummary| choice.choice != stands;
            rows.push(json!({
                "conflict": one.id,
                "topic": one.topic,
                "stands": one.position,
                "rule": counted.rule,
                "used": counted.rule == outcome.rule,
                "before": counted.before,
                "after": counted.after,
                "differs": is_other(&counted.after),
            }));
        }
    }
    rows
}
