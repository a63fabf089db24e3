//! The contract review: starts a hub, connects the agents over the network, and asks a person for approval.

use std::fs;
use std::path::Path;

use quorate::deliberation::Outcome;
use quorate::{ActionDigest, Hub, ProcedureDraft};
use quorate_api::canonical::action_document;
use quorate_contracts::Half;
use serde_json::{Value, json};

use super::contract::{Known, Which, review};
use super::{DemoArgs, place};
use crate::exit::{Ended, FAILED};
use crate::hub::ADMIN_TOKEN;
use crate::report::{self, Format};
use crate::run::{self, Approve, Pending, Settled, plain_line};
use crate::serve::Served;
use crate::text::{self, say};

/// Fixed id of the procedure and its approval, so that a repeated run resumes them.
const ID: &str = "contract-review";

/// Result of the demo.
struct DemoResult {
    id: String,
    outcome: Outcome,
    approval: Option<Settled>,
    known: Known,
}

pub(super) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let which = match args.seed {
        None => Which::Bundled,
        Some(seed) => Which::Made { seed, half: if args.unseen { Half::Unseen } else { Half::Seen } },
    };
    let (data, which) = if args.resume {
        place::begun(args.data.as_deref())?
    } else {
        (place::fresh(args.data.as_deref())?, which)
    };
    let format = if args.json { Format::Json } else { Format::Text };
    let default = if args.headless { Approve::Later } else { Approve::usual(format) };
    let approve = args.approve.unwrap_or(default);
    let served = Served::for_a_while(&data).await?;
    place::mark(&data, which)?;
    let ran = in_hub(&served, &data, which, format, approve).await;
    served.stop().await;
    let ran = ran?;
    conclude(&ran, &data, which, format)
}

async fn in_hub(
    served: &Served,
    data: &Path,
    which: Which,
    format: Format,
    approve: Approve,
) -> anyhow::Result<DemoResult> {
    let (contract, known) = which.read()?;
    let mut playbook = review(contract)?;
    let asked = playbook.approval.take();
    run::begin("demo contract-review", &playbook.spec, &playbook.agents);
    say(format!("contract   {}", which.words()));
    say(format!("hub        {}   data in {}\n", served.url(), data.display()));
    let token = fs::read_to_string(data.join(ADMIN_TOKEN))?;
    let hub = quorate_client::connect(served.url(), token.trim()).await?;
    let draft = ProcedureDraft::deliberation(&playbook.spec).id(ID);
    let (id, outcome) = run::procedure(&hub, playbook, draft).await?;
    if format == Format::Text {
        say("");
        report::print(&outcome, &id, format, None)?;
        say("");
    }
    let approval = match &asked {
        Some(asked) => match Pending::ask(&hub, asked, &id, &outcome, data).await? {
            Some(pending) => Some(settle(pending, &hub, data, approve).await?),
            None => None,
        },
        None => None,
    };
    hub.close().await;
    Ok(DemoResult { id, outcome, approval, known })
}

async fn settle(pending: Pending, hub: &Hub, data: &Path, approve: Approve) -> anyhow::Result<Settled> {
    if matches!(approve, Approve::Ask | Approve::Wait) {
        say(" ^C stops the demo; `quorate demo --resume` resumes it\n");
    }
    let flags = format!(" --data {}", data.display());
    let settled = pending.settle(hub, approve, Some(&flags)).await?;
    // The hub stops with the demo, so only resuming the demo can decide.
    settled.tell(&format!("quorate demo --resume --approve ask{flags}   (auto: without review)"));
    Ok(settled)
}

/// Verifies the data on disk, prints the results, and fails if they are not as expected.
fn conclude(ran: &DemoResult, data: &Path, which: Which, format: Format) -> anyhow::Result<()> {
    let report = quorate_sqlite::verify(data, None)?;
    let space = report.spaces.first();
    let records = space.map_or(0, |space| space.records);
    let head = space.map_or_else(String::new, |space| quorate_core::hex::encode(&space.head_hash[..4]));
    let together = ran.outcome.synthesis.recommendation.as_deref().unwrap_or("no decision");
    let right = ran.known.recommendation.words();
    let mut wrong: Vec<String> = Vec::new();
    if let Some(bad) = &report.first_bad {
        wrong.push(format!("the log does not verify: {} at record {}", bad.damage, bad.seq));
    }
    let missing = ran.outcome.gathered.missing.iter().map(|one| format!("{} is missing", one.agent));
    wrong.extend(missing);
    if which == Which::Bundled && together != right {
        wrong.push(format!("the review recommends {together:?}, but {right:?} is right"));
    }
    if let Some(approval) = &ran.approval {
        wrong.extend(letter_mismatch(approval));
    }
    if format == Format::Json {
        let mut document = report::document(&ran.outcome, &ran.id, ran.approval.as_ref())?;
        document["scenario"] = ID.into();
        document["contract"] = serde_json::to_value(which)?;
        document["known"] =
            json!({ "recommendation": right, "riskScore": ran.known.risk_score, "alone": alone(ran) });
        document["audit"] = json!({ "records": records, "head": head });
        document["ok"] = wrong.is_empty().into();
        document["wrong"] = json!(wrong);
        text::print(text::clean_json(&document.to_string()));
    } else {
        say(plain_line("audit", "✓", &format!("{records} records, hash chain intact, head {head}")));
        print_summary(ran, together, right, data, which)?;
    }
    if wrong.is_empty() {
        return run::decided(&ran.outcome);
    }
    let message = format!("the demo did not produce the expected results: {}", wrong.join("; "));
    Err(Ended::new(FAILED, message, format!("inspect the log: quorate audit log --data {}", data.display()))
        .into())
}

/// Returns the recommendation of each agent before the discussion.
fn alone(ran: &DemoResult) -> Value {
    let findings = &ran.outcome.gathered.findings;
    findings
        .iter()
        .map(|(agent, finding)| (agent.clone(), json!(finding.recommendation)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Checks that the letter on disk has exactly the bytes that were approved.
fn letter_mismatch(approval: &Settled) -> Option<String> {
    let file = approval.file.as_ref()?;
    let letter = match fs::read_to_string(file) {
        Ok(letter) => letter,
        Err(error) => return Some(format!("the letter cannot be read: {error}")),
    };
    let payload = json!({ "letter": letter, "write": file.file_name().map(|name| name.to_string_lossy()) });
    let bytes = action_document(&approval.action, payload.to_string().as_bytes()).ok()?;
    let approved = approval.approved_digest.as_ref().unwrap_or(&approval.digest);
    let same = ActionDigest::of(&bytes).to_string() == *approved;
    (!same).then(|| "the letter on disk differs from the approved one".to_owned())
}

fn print_summary(
    ran: &DemoResult,
    together: &str,
    right: &str,
    data: &Path,
    which: Which,
) -> anyhow::Result<()> {
    let mark = |recommendation: &str| if recommendation == right { "✓" } else { "✗" };
    say("");
    say(format!(
        " known       {right}, risk {}: the answer that the contract was written for",
        ran.known.risk_score
    ));
    let mut before: Vec<String> = Vec::new();
    for (agent, finding) in &ran.outcome.gathered.findings {
        before.push(format!("{agent} {}", mark(finding.recommendation.as_deref().unwrap_or_default())));
    }
    for (index, line) in text::wrap(&before.join("  "), 66).into_iter().enumerate() {
        say(format!(" {:<11} {}", if index == 0 { "alone" } else { "" }, text::clean_line(&line)));
    }
    say(format!(" together    {} {}", mark(together), text::clean_line(together)));
    let digest = report::digest(&ran.outcome)?;
    say(format!(" digest      {}   reproducible: the same contract gives the same digest", &digest[..16]));
    let again = if which == Which::Bundled {
        "quorate demo --seed 7              review another contract"
    } else {
        "quorate demo --seeds 1..200         measure how often they are right"
    };
    say(format!("\n next  {again}"));
    say(format!("       quorate deliberation show {} --data {}", ran.id, data.display()));
    say("       quorate run FILE                   use your own agents: docs/guides/your-first-playbook.md");
    say("       quorate demo killed                kill the hub with -9 without losing work");
    Ok(())
}
