//! `quorate agent test`: one agent alone, before any deliberation. Is it there, how fast is it, does its answer fit?
//!
//! An agent of a playbook is asked what the playbook would ask it, about the beginning of its text. One of a hub that runs is looked
//! up, and asked only if it says that it can `analyse`.

use std::path::Path;
use std::time::Duration;

use quorate_agents::{Outcome, Probe, Use, probe};
use quorate_procedures::deliberation::{ANALYSE, Deliberation, Event, Member, Out, Spec, State};
use quorate_procedures::{finding, tokens};
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};

use crate::config::nearest;
use crate::doctor::{Check, Grade, tell};
use crate::exit::{Ended, NOT_FOUND};
use crate::hub::{DryRun, Hub, Method, Noun, segment};
use crate::playbook::{Input, Playbook};
use crate::run::members;
use crate::shape::{Shape, field, time};
use crate::text;

/// How much of the playbook's text is read: enough to answer, and cheap.
const CHARS: usize = 2_000;
/// What is read if the playbook names no text.
const SAMPLE: &str = "This is a trial of one agent. Either party may end the agreement with 30 days' notice. The fee is 1,200 EUR a month.";
/// Who asks an agent of a hub, and is gone afterwards.
const ASKER: &str = "agent-test";
/// How long an agent of a hub may take.
const WITHIN_MS: u64 = 30_000;

/// Tries an agent of a playbook. No hub is needed.
pub(super) async fn of_playbook(
    file: &Path,
    name: &str,
    dry_run: DryRun,
    shape: &Shape,
) -> anyhow::Result<()> {
    let playbook = Playbook::read(file, Input::Named)?;
    let Some(agent) = playbook.agents.iter().find(|agent| agent.name == name) else {
        let names: Vec<&str> = playbook.agents.iter().map(|agent| agent.name.as_str()).collect();
        let near = nearest(name, names.iter().copied());
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        let what = format!("there is no agent {name} in {}", file.display());
        return Err(Ended::new(NOT_FOUND, what, format!("{near}There are {}", names.join(", "))).into());
    };
    let within = Duration::from_millis(playbook.spec.limits.analysis_ms);
    let question = members::question(ANALYSE, asked(&playbook.spec, name), within);
    if dry_run.is_set() {
        text::say("a dry run: nothing was asked");
        text::print(text::clean_json(&question.payload.to_string()));
        return Ok(());
    }
    let tried = probe(agent, &question).await;
    let mut about = Map::new();
    about.insert("agent".into(), name.into());
    about.insert("use".into(), scheme(&agent.declared).into());
    if let Some(reply) = &tried.reply {
        about.insert("usage".into(), serde_json::to_value(reply.usage)?);
        about.insert("answer".into(), reply.body.clone());
    }
    tell(&checks(&tried, &playbook.spec), shape, about)
}

/// What a deliberation would ask this agent first, about less of the text.
fn asked(spec: &Spec, name: &str) -> Value {
    let mut spec = spec.clone();
    spec.agents = vec![Member { id: name.to_owned(), provider: None }];
    let text = spec.input["text"].as_str().unwrap_or(SAMPLE);
    spec.input = json!({ "text": text.chars().take(CHARS).collect::<String>() });
    let outs = Deliberation::new(&spec, tokens::o200k).step(&mut State::default(), Event::Start, 0);
    let payload = outs.into_iter().find_map(|out| match out {
        Out::Ask(ask) => serde_json::from_str(&ask.payload).ok(),
        _ => None,
    });
    payload.unwrap_or_default()
}

/// How an agent was declared, in a word.
fn scheme(declared: &Use) -> &'static str {
    match declared {
        Use::Heuristic(_) => "heuristic",
        Use::Command(_) => "cmd",
        Use::Model { .. } => "llm",
        Use::Http(_) => "http",
    }
}

fn checks(tried: &Probe, spec: &Spec) -> Vec<Check> {
    let mut checks: Vec<Check> = tried.checks.iter().map(told).collect();
    // A schema cannot say all that a deliberation is strict about.
    let body = tried.reply.as_ref().filter(|_| tried.is_good()).map(|reply| reply.body.to_string());
    if let Some(Err(wrong)) = body.map(|body| finding::read(body.as_bytes(), &spec.words))
        && checks.last().is_some_and(|shape| shape.grade == Grade::Good)
    {
        checks.pop();
        checks.push(Check::wrong("shape", wrong.to_string(), "answer as the `schema` of the question says"));
    }
    checks
}

fn told(check: &quorate_agents::Check) -> Check {
    let found = check.detail.clone();
    let mut told = match check.outcome {
        Outcome::Passed => Check::good(check.name, found),
        Outcome::Doubtful => Check::warning(check.name, found, &check.hint),
        Outcome::Failed => Check::wrong(check.name, found, &check.hint),
        Outcome::Skipped => Check::skipped(check.name, found),
    };
    told.ms = (check.name != "shape" && check.outcome != Outcome::Skipped).then_some(check.millis);
    told
}

/// Tries an agent of a hub.
pub(super) async fn of_hub(hub: &Hub, typed: &str, dry_run: DryRun, shape: &Shape) -> anyhow::Result<()> {
    let id = hub.id(Noun::Agent, typed).await?;
    if dry_run.is_set() {
        return hub.change(dry_run, (Method::Post, "/v1/request"), Some(question(&id))).await.map(drop);
    }
    let agent = hub.look(&format!("/v1/agents/{}", segment(&id)), &[]).await?;
    let mut about = Map::new();
    about.insert("agent".into(), id.as_str().into());
    let mut checks = vec![there(&agent, &id)];
    let actions = agent["supportedActions"].as_array();
    let analyses = actions.is_some_and(|actions| actions.iter().any(|action| action == ANALYSE));
    if checks[0].grade != Grade::Good {
        checks.push(Check::skipped("answers", "it is not there"));
    } else if !analyses {
        checks.push(Check::skipped("answers", "not asked: `analyse` is not among its actions"));
    } else {
        let clock = SystemClock::new();
        let began = clock.now().mono.0;
        let answered = ask(hub, &id).await;
        let ms = clock.now().mono.0.saturating_sub(began);
        checks.extend(match answered {
            Ok(answer) => {
                let answers = Check { ms: Some(ms), ..Check::good("answers", "to `analyse`") };
                let shape = fits(&answer);
                about.insert("answer".into(), answer);
                [answers, shape]
            }
            Err(error) => {
                let fix = format!("quorate msg list --to {id} --dead shows what it could not do");
                let wrong = Check { ms: Some(ms), ..Check::wrong("answers", error.to_string(), fix) };
                [wrong, Check::skipped("shape", "there is no answer")]
            }
        });
    }
    tell(&checks, shape, about)
}

/// Whether it is there: somebody waits for its messages. What it said of itself counts only then; one that was made known and
/// never started says nothing of itself at all.
fn there(agent: &Value, id: &str) -> Check {
    let (status, health) = (field(agent, "status"), field(agent, "health"));
    let found = format!("{status}, {health}, heard {}", time(&agent["heardAt"]));
    let listens = agent["load"]["listening"].as_u64().is_some_and(|count| count > 0);
    match (status.as_str(), health.as_str(), listens) {
        ("offline", _, _) => {
            Check::wrong("there", found, format!("start it; `quorate agent show {id}` says more"))
        }
        (_, _, false) => {
            let found = format!("nobody waits for its messages; heard {}", time(&agent["heardAt"]));
            let fix = "start it; one that only asks now and then may be between two calls: try again";
            Check::wrong("there", found, fix)
        }
        (_, "healthy", true) => Check::good("there", found),
        _ => Check::warning("there", found, format!("`quorate agent show {id}` says more")),
    }
}

/// Asks as an agent of its own: only an agent can be answered.
async fn ask(hub: &Hub, id: &str) -> anyhow::Result<Value> {
    let asker = format!("/v1/agents/{ASKER}");
    let role = json!({ "name": "Agent test", "role": "coordinator" }).to_string();
    hub.change(DryRun::new(false), (Method::Put, &asker), Some(role)).await?;
    let answer = hub.ask(question(id)).await;
    hub.change(DryRun::new(false), (Method::Delete, &asker), None).await?;
    let answer: Value = serde_json::from_str(&answer?)?;
    Ok(answer["payload"].clone())
}

/// What an agent of a hub is asked.
fn question(id: &str) -> String {
    let member = Member { id: id.to_owned(), provider: None };
    let spec = Spec::new("Is this agent ready?", json!({ "text": SAMPLE }), vec![member]);
    json!({
        "from": ASKER, "to": id, "type": "query", "action": ANALYSE, "timeoutMs": WITHIN_MS, "payload": asked(&spec, id),
    })
    .to_string()
}

fn fits(answer: &Value) -> Check {
    match finding::read(answer.to_string().as_bytes(), &finding::Vocabulary::default()) {
        Ok(_) => Check::good("shape", "the answer fits"),
        Err(wrong) => Check::wrong("shape", wrong.to_string(), "docs/guides/deliberation.md has the shape"),
    }
}
