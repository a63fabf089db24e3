//! The contract review: starts a hub, connects the agents over the network, and asks a person for approval.

use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;

use quorate::ActionDigest;
use quorate::deliberation::Outcome;
use quorate_api::canonical::action_document;
use quorate_contracts::PhrasingSet;
use quorate_env::replace_file;
use serde_json::{Value, json};

use super::contract::{ContractSource, KnownAnswer, review};
use super::{DemoArgs, directory, pages};
use crate::exit::{CommandError, FAILED};
use crate::hub::ADMIN_TOKEN_FILE;
use crate::report::{self, ReportFormat};
use crate::run::{self, ActiveRun, ApprovalMode, ApprovalResult, Pauses, ProcedureStart};
use crate::serve::RunningHub;
use crate::terminal::{self, Style, note, paint_note, sanitize_line};

/// Fixed id of the procedure, so that a repeated run resumes them.
const ID: &str = "contract-review";

/// File in the data directory with the report.
const REPORT_FILE: &str = "report.html";
/// Width of the values in the summary.
const SUMMARY_COLUMNS: usize = 66;

/// Result of the demo.
struct DemoResult {
    id: String,
    outcome: Outcome,
    approval: Option<ApprovalResult>,
    known: KnownAnswer,
}

pub(super) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let source = match args.seed {
        None => ContractSource::Bundled,
        Some(seed) => ContractSource::Made {
            seed,
            half: if args.unseen { PhrasingSet::Unseen } else { PhrasingSet::Seen },
        },
    };
    let (data, source) = if args.resume {
        directory::open_existing(args.data.as_deref())?
    } else {
        (directory::create(args.data.as_deref())?, source)
    };
    let format = if args.json { ReportFormat::Json } else { ReportFormat::Text };
    let default = if args.headless { ApprovalMode::Later } else { ApprovalMode::default_for(format) };
    let mode = args.approve.unwrap_or(default);
    let running_hub = RunningHub::start_temporary(&data).await?;
    directory::write_marker(&data, source)?;
    let is_interactive = mode == ApprovalMode::Ask
        && [std::io::stdin().is_terminal(), terminal::stdout_is_terminal(), std::io::stderr().is_terminal()]
            .iter()
            .all(|is_terminal| *is_terminal);
    let pauses =
        if is_interactive && format == ReportFormat::Text { Pauses::interactive() } else { Pauses::none() };
    let result = in_hub(&running_hub, &data, source, format, (mode, pauses)).await;
    running_hub.stop().await;
    let result = result?;
    conclude(&result, &data, source, format)
}

async fn in_hub(
    running_hub: &RunningHub,
    data: &Path,
    source: ContractSource,
    format: ReportFormat,
    (mode, mut pauses): (ApprovalMode, Pauses),
) -> anyhow::Result<DemoResult> {
    let (contract, known) = source.read()?;
    let playbook = review(contract)?;
    run::print_header("demo contract-review", &playbook.spec, &playbook.agents);
    note(format!("contract   {}", source.describe()));
    note(format!("hub        {}   data in {}\n", running_hub.url(), data.display()));
    let token = fs::read_to_string(data.join(ADMIN_TOKEN_FILE))?;
    let hub = quorate_client::connect(running_hub.url(), token.trim()).await?;
    let options = format!(" --data {}", data.display());
    let start = ProcedureStart::New(Some(ID.to_owned()));
    let run = ActiveRun::start(&hub, playbook, start, Some(data), options.clone()).await?;
    let (id, outcome) = run.deliberated(&mut pauses).await?;
    replace_file(&data.join(REPORT_FILE), report::html(&outcome, &id).as_bytes(), None)?;
    if format == ReportFormat::Text {
        pauses.pause().await;
        pages::print(&report::text(&outcome, &id), &mut pauses).await;
        note("");
        pauses.pause().await;
    }
    if matches!(mode, ApprovalMode::Ask | ApprovalMode::Wait) {
        note(" ^C stops the demo; `quorate demo --resume` resumes it\n");
    }
    let approval = run.settled(mode).await?;
    if let Some(approval) = &approval {
        // The hub stops with the demo, so only resuming the demo can decide.
        approval.print(&format!("quorate demo --resume --approve ask{options}"));
    }
    run.stop().await;
    hub.close().await;
    Ok(DemoResult { id, outcome, approval, known })
}

/// Verifies the data on disk, prints the results, and fails if they are not as expected.
fn conclude(
    result: &DemoResult,
    data: &Path,
    source: ContractSource,
    format: ReportFormat,
) -> anyhow::Result<()> {
    let report = quorate_sqlite::verify(data, None)?;
    let space = report.spaces.first();
    let records = space.map_or(0, |space| space.records);
    let head = space.map_or_else(String::new, |space| quorate_core::hex::encode(&space.head_hash[..4]));
    let together = result.outcome.synthesis.recommendation.as_deref().unwrap_or("no decision");
    let right = result.known.recommendation.as_str();
    let mut errors: Vec<String> = Vec::new();
    if let Some(defect) = &report.first_defect {
        errors.push(format!("the log does not verify: {} at record {}", defect.damage, defect.seq));
    }
    let missing = result.outcome.record.missing.iter().map(|missing| format!("{} is missing", missing.agent));
    errors.extend(missing);
    if source == ContractSource::Bundled && together != right {
        errors.push(format!("the review recommends {together:?}, but {right:?} is right"));
    }
    if let Some(approval) = &result.approval {
        errors.extend(letter_mismatch(approval));
    }
    if format == ReportFormat::Json {
        let mut document = report::document(&result.outcome, &result.id, result.approval.as_ref())?;
        document["scenario"] = ID.into();
        document["contract"] = serde_json::to_value(source)?;
        document["known"] =
            json!({ "recommendation": right, "riskScore": result.known.risk_score, "alone": alone(result) });
        document["audit"] = json!({ "records": records, "head": head });
        document["ok"] = errors.is_empty().into();
        document["errors"] = json!(errors);
        terminal::print(terminal::sanitize_json(&document.to_string()));
    } else {
        let audit = format!("{records} records, hash chain intact, head {head}");
        print_summary(result, (together, right), &audit, (data, source))?;
    }
    if errors.is_empty() {
        return run::require_decision(&result.outcome);
    }
    let message = format!("the demo did not produce the expected results: {}", errors.join("; "));
    Err(CommandError::new(
        FAILED,
        message,
        format!("inspect the log: quorate audit log --data {}", data.display()),
    )
    .into())
}

/// Returns the recommendation of each agent before the discussion.
fn alone(result: &DemoResult) -> Value {
    let findings = &result.outcome.record.findings;
    findings
        .iter()
        .map(|(agent, finding)| (agent.clone(), json!(finding.recommendation)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Checks that the letter on disk has exactly the bytes that were approved.
fn letter_mismatch(approval: &ApprovalResult) -> Option<String> {
    let file = approval.file.as_ref()?;
    let letter = match fs::read_to_string(file) {
        Ok(letter) => letter,
        Err(error) => return Some(format!("the letter cannot be read: {error}")),
    };
    let payload = json!({ "letter": letter, "write": file.file_name().map(|name| name.to_string_lossy()) });
    let bytes = action_document(&approval.action, payload.to_string().as_bytes()).ok()?;
    let approved = approval.approved_digest.as_ref().unwrap_or(&approval.digest);
    let matches = ActionDigest::of(&bytes).to_string() == *approved;
    (!matches).then(|| "the letter on disk differs from the approved one".to_owned())
}

/// Prints the summary, in ten lines.
fn print_summary(
    result: &DemoResult,
    (together, right): (&str, &str),
    audit: &str,
    (data, source): (&Path, ContractSource),
) -> anyhow::Result<()> {
    let mark = |recommendation: &str| {
        if recommendation == right { paint_note(Style::Good, "✓") } else { paint_note(Style::Bad, "✗") }
    };
    note("");
    let known = match together == right {
        true => "the known answer".to_owned(),
        false => format!("the known answer is {right}"),
    };
    let risk = format!("{known}; risk {}", result.known.risk_score);
    summary_line("together", &format!("{} {}: {risk}", mark(together), sanitize_line(together)));
    // Widths are those of the text without colours, so the lines are built from agents and not wrapped afterwards.
    let mut alone = vec![(String::new(), 0)];
    for (agent, finding) in &result.outcome.record.findings {
        let (agent, width) = (sanitize_line(agent), agent.chars().count() + 4);
        let marked = format!("{} {agent}  ", mark(finding.recommendation.as_deref().unwrap_or_default()));
        match alone.last_mut() {
            Some((line, columns)) if *columns + width <= SUMMARY_COLUMNS => {
                line.push_str(&marked);
                *columns += width;
            }
            _ => alone.push((marked, width)),
        }
    }
    for (index, (line, _)) in alone.iter().enumerate() {
        summary_line(if index == 0 { "alone" } else { "" }, line.trim_end());
    }
    summary_line("audit", &format!("{} {audit}", paint_note(Style::Good, "✓")));
    let digest = report::digest(&result.outcome)?;
    summary_line("digest", &format!("{} of the outcome; the same in every run", &digest[..16]));
    summary_line("report", &data.join(REPORT_FILE).display().to_string());
    let next = if source == ContractSource::Bundled {
        "quorate demo --seed 7           review another contract"
    } else {
        "quorate demo --seeds 1..200     measure how often they are right"
    };
    summary_line("next", next);
    summary_line("", "quorate run FILE                run a playbook with your own agents");
    summary_line("", "quorate demo crash-recovery     kill a hub with -9, lose no work");
    Ok(())
}

fn summary_line(name: &str, value: &str) {
    note(format!(" {} {value}", paint_note(Style::Strong, &format!("{name:<11}"))));
}
