//! The contract review: a hub that listens, agents that reach it over the network as any agent would, a person who decides.

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

/// The procedure and its approval have ids of their own: whoever begins again goes on.
const ID: &str = "contract-review";

/// What the demo came to.
struct Ran {
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
    let usual = if args.headless { Approve::Later } else { Approve::usual(format) };
    let approve = args.approve.unwrap_or(usual);
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
) -> anyhow::Result<Ran> {
    let (contract, known) = which.read()?;
    let mut playbook = review(contract)?;
    let asked = playbook.approval.take();
    run::begin("demo contract-review", &playbook.spec, &playbook.agents);
    say(format!("contract   {}", which.words()));
    say(format!("hub        {}   kept in {}\n", served.url(), data.display()));
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
    Ok(Ran { id, outcome, approval, known })
}

async fn settle(pending: Pending, hub: &Hub, data: &Path, approve: Approve) -> anyhow::Result<Settled> {
    if matches!(approve, Approve::Ask | Approve::Wait) {
        say(" ^C stops and keeps everything: `quorate demo --resume` goes on from there\n");
    }
    let flags = format!(" --data {}", data.display());
    let settled = pending.settle(hub, approve, Some(&flags)).await?;
    // Its hub goes with it; going on brings both back.
    settled.tell(&format!("quorate demo --resume --approve ask{flags}   (auto: unseen)"));
    Ok(settled)
}

/// Looks at what is on disk, as anybody could, and says whether all went as it should.
fn conclude(ran: &Ran, data: &Path, which: Which, format: Format) -> anyhow::Result<()> {
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
        wrong.push(format!("the review says {together:?}, and {right:?} is right"));
    }
    if let Some(approval) = &ran.approval {
        wrong.extend(letter_is_wrong(approval));
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
        say(plain_line("audit", "✓", &format!("{records} records, the chain is whole, head {head}")));
        last_words(ran, together, right, data, which)?;
    }
    if wrong.is_empty() {
        return run::decided(&ran.outcome);
    }
    let message = format!("the demo did not end as it should: {}", wrong.join("; "));
    Err(Ended::new(
        FAILED,
        message,
        format!("what happened is on record: quorate tail --data {}", data.display()),
    )
    .into())
}

/// What each agent recommended before it had heard the others.
fn alone(ran: &Ran) -> Value {
    let findings = &ran.outcome.gathered.findings;
    findings
        .iter()
        .map(|(agent, finding)| (agent.clone(), json!(finding.recommendation)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The bytes on disk are those that were approved, or nothing was.
fn letter_is_wrong(approval: &Settled) -> Option<String> {
    let file = approval.file.as_ref()?;
    let letter = match fs::read_to_string(file) {
        Ok(letter) => letter,
        Err(error) => return Some(format!("the letter cannot be read: {error}")),
    };
    let payload = json!({ "letter": letter, "write": file.file_name().map(|name| name.to_string_lossy()) });
    let bytes = action_document(&approval.action, payload.to_string().as_bytes()).ok()?;
    let approved = approval.approved_digest.as_ref().unwrap_or(&approval.digest);
    let same = ActionDigest::of(&bytes).to_string() == *approved;
    (!same).then(|| "the letter on disk is not the one that was approved".to_owned())
}

fn last_words(ran: &Ran, together: &str, right: &str, data: &Path, which: Which) -> anyhow::Result<()> {
    let mark = |said: &str| if said == right { "✓" } else { "✗" };
    say("");
    say(format!(
        " known       {right}, risk {}: the contract was made with its problems",
        ran.known.risk_score
    ));
    let mut before: Vec<String> = Vec::new();
    for (agent, finding) in &ran.outcome.gathered.findings {
        before.push(format!("{agent} {}", mark(finding.recommendation.as_deref().unwrap_or_default())));
    }
    for (place, line) in text::wrap(&before.join("  "), 66).into_iter().enumerate() {
        say(format!(" {:<11} {}", if place == 0 { "alone" } else { "" }, text::clean_line(&line)));
    }
    say(format!(" together    {} {}", mark(together), text::clean_line(together)));
    let digest = report::digest(&ran.outcome)?;
    say(format!(" digest      {}   the same contract gives the same", &digest[..16]));
    let again = if which == Which::Bundled {
        "quorate demo --seed 7              another contract"
    } else {
        "quorate demo --seeds 1..200         how often they are right"
    };
    say(format!("\n next  {again}"));
    say(format!("       quorate deliberation show {} --data {}", ran.id, data.display()));
    say("       quorate run FILE                   your own agents: docs/guides/your-first-playbook.md");
    say("       quorate demo killed                the hub is killed with -9, and nothing is lost");
    Ok(())
}
