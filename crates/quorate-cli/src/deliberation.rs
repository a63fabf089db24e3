//! `quorate deliberation`: outcomes, votes and results under other rules, from a running hub or from a data directory without
//! one.

mod lookup;
mod unfinished;

use clap::{Args, Subcommand};
use quorate::ProcedureStatus;
use quorate::deliberation::{ConflictResolution, Outcome};
use quorate_procedures::conflict::Position;
use quorate_procedures::deliberation::{TallySummary, compare_rules};
use serde_json::{Value, json};

use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::HubArgs;
use crate::output::{Column, OutputArgs, field, format_time};
use crate::report::{self, ReportFormatArgs};

pub(crate) use lookup::find_id;

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
        output: OutputArgs,
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
        output: OutputArgs,
    },
    /// Tally the same ballots under every rule, before and after the discussion. [ro]
    #[command(after_help = "Example: quorate deliberation compare @last

≠ marks a rule whose result differs from the decision. Numeric conflicts are merged instead of voted on, \
so they are omitted; borda needs rankings.")]
    Compare {
        /// Deliberation id, a unique prefix of it, or @last.
        id: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub(crate) async fn run(args: DeliberationArgs) -> anyhow::Result<()> {
    let hub = args.hub.open_for_reading().await?;
    let result = dispatch(&hub, args.verb).await;
    hub.close().await;
    result
}

async fn dispatch(hub: &quorate::Hub, verb: DeliberationVerb) -> anyhow::Result<()> {
    match verb {
        DeliberationVerb::List { limit, output } => {
            let rows = lookup::newest_rows(hub, usize::from(limit)).await?;
            output.list(&json!({ "deliberations": rows }).to_string(), "deliberations", DELIBERATIONS)
        }
        DeliberationVerb::Show { id, format } => {
            let format = format.selected();
            match lookup::load(hub, &id).await? {
                LoadedDeliberation::Done { id, outcome } => report::print(&outcome, &id, format, None),
                LoadedDeliberation::Failed { info, failure } => {
                    unfinished::print_failed(&info, *failure, format)
                }
                LoadedDeliberation::Unfinished { info, state } => {
                    unfinished::print_unfinished(&info, &state, format)
                }
            }
        }
        DeliberationVerb::Votes { id, conflict, output } => {
            let (_, outcome) = decided(hub, &id).await?;
            let rows = ballots(&outcome, conflict.as_deref())?;
            let document = json!({ "agreement": outcome.synthesis.agreement, "votes": rows });
            output.list(&document.to_string(), "votes", BALLOTS)
        }
        DeliberationVerb::Compare { id, output } => {
            let (_, outcome) = decided(hub, &id).await?;
            let document = json!({ "agreement": outcome.synthesis.agreement, "counts": counts(&outcome) });
            output.list(&document.to_string(), "counts", COUNTS)
        }
    }
}

/// Returns a deliberation that has an outcome.
async fn decided(hub: &quorate::Hub, reference: &str) -> anyhow::Result<(String, Box<Outcome>)> {
    let (id, state) = match lookup::load(hub, reference).await? {
        LoadedDeliberation::Done { id, outcome } => return Ok((id, outcome)),
        LoadedDeliberation::Failed { info, .. } => (info.procedure().id.to_string(), "failed".to_owned()),
        LoadedDeliberation::Unfinished { info, .. } => {
            let state = match info.procedure().status {
                ProcedureStatus::Running => "is still running".to_owned(),
                status => format!("is {}", status.as_str()),
            };
            (info.procedure().id.to_string(), state)
        }
    };
    let hint = format!("for details: quorate deliberation show {id}");
    Err(CommandError::new(NOT_FOUND, format!("deliberation {id} {state}: there are no votes"), hint).into())
}

const DELIBERATIONS: &[Column] = &[
    ("ID", |deliberation| field(deliberation, "id")),
    ("STATE", |deliberation| field(deliberation, "state")),
    ("STARTED", |deliberation| format_time(&deliberation["startedAt"])),
    ("ANSWER", |deliberation| field(deliberation, "answer")),
    ("QUESTION", |deliberation| field(deliberation, "subject")),
];

const BALLOTS: &[Column] = &[
    ("CONFLICT", |ballot| field(ballot, "conflict")),
    ("AGENT", |ballot| field(ballot, "agent")),
    ("BEFORE", |ballot| position_text(&ballot["before"])),
    ("AFTER", |ballot| position_text(&ballot["after"])),
    ("", |ballot| if ballot["dissents"] == true { "dissents".to_owned() } else { String::new() }),
    ("REASON", |ballot| field(&ballot["after"], "reason")),
];

const COUNTS: &[Column] = &[
    ("CONFLICT", |tally| field(tally, "conflict")),
    ("RULE", |tally| {
        if tally["used"] == true { format!("{} *", field(tally, "rule")) } else { field(tally, "rule") }
    }),
    ("BEFORE", |tally| choice_text(&tally["before"])),
    ("AFTER", |tally| choice_text(&tally["after"])),
    ("", |tally| if tally["differs"] == true { "≠".to_owned() } else { String::new() }),
    (
        "DECISION",
        |tally| if tally["stands"].is_null() { "no decision".to_owned() } else { field(tally, "stands") },
    ),
];

fn position_text(position: &Value) -> String {
    let confidence = position["confidence"].as_f64().map_or(String::new(), |value| format!(" {value:.2}"));
    format!("{}{confidence}", field(position, "position"))
}

fn choice_text(choice: &Value) -> String {
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
    let selected: Vec<&&ConflictResolution> =
        all.iter().filter(|decision| only.is_none_or(|id| decision.id.eq_ignore_ascii_case(id))).collect();
    if let (Some(id), true) = (only, selected.is_empty()) {
        let ids: Vec<&str> = all.iter().map(|decision| decision.id.as_str()).collect();
        let hint = if ids.is_empty() {
            "there were no conflicts".to_owned()
        } else {
            format!("the conflicts are {}", ids.join(", "))
        };
        return Err(CommandError::new(NOT_FOUND, format!("there is no conflict {id}"), hint).into());
    }
    let row = |decision: &ConflictResolution, after: &Position| {
        let before = decision.conflict.positions.iter().find(|position| position.agent == after.agent);
        json!({
            "conflict": decision.id,
            "topic": decision.conflict.topic,
            "agent": after.agent,
            "before": before,
            "after": after,
            "ranking": decision.rankings.get(&after.agent),
            "dissents": decision.minority.iter().any(|position| position.agent == after.agent),
        })
    };
    let rows_of = |decision: &&&ConflictResolution| -> Vec<Value> {
        decision.ballots.iter().map(|after| row(decision, after)).collect()
    };
    Ok(selected.iter().flat_map(rows_of).collect())
}

/// Tallies every conflict under every rule.
fn counts(outcome: &Outcome) -> Vec<Value> {
    let mut rows = Vec::new();
    for comparison in compare_rules(outcome) {
        for tally in &comparison.rules {
            let decision = comparison.position.as_ref().map(ToString::to_string);
            let differs = |choice: &TallySummary| choice.choice != decision;
            rows.push(json!({
                "conflict": comparison.id,
                "topic": comparison.topic,
                "stands": comparison.position,
                "rule": tally.rule,
                "used": tally.rule == outcome.rule,
                "before": tally.before,
                "after": tally.after,
                "differs": differs(&tally.after),
            }));
        }
    }
    rows
}
