//! `quorate agent test`: checks that one agent is reachable, how fast it answers, and that its answer is valid.
//!
//! An agent of a playbook gets the playbook's first question about the beginning of its input. An agent of a running hub is
//! looked up, and asked only if `analyse` is among its actions.

use std::path::Path;
use std::time::Duration;

use quorate_agents::playbook::InputSource;
use quorate_agents::{CheckOutcome, Probe, UseSpec, closest_match, probe, prompts};
use quorate_procedures::deliberation::{
    ANALYSE, Deliberation, DeliberationState, Input, Member, Output, Spec,
};
use quorate_procedures::{finding, tokens};
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Map, Value, json};

use super::last_seen;
use crate::doctor::{Check, CheckResult, print_checks};
use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{DryRunArgs, Hub, Method, Resource, percent_encode};
use crate::output::{OutputArgs, field};
use crate::playbook::{AccessArgs, read_playbook};
use crate::terminal;

/// Characters of the playbook's input that are sent: enough for an answer, and cheap.
const CHARS: usize = 2_000;
/// Input if the playbook names none.
const SAMPLE: &str = "This is a test of one agent. Answer briefly.";
/// Temporary agent that sends the question, since only agents can receive answers.
const REQUESTER: &str = "agent-test";
/// Timeout for the answer of an agent in a hub.
const TIMEOUT_MS: u64 = 30_000;

/// Tests an agent of a playbook. No hub is needed.
pub(super) async fn test_playbook_agent(
    file: &Path,
    name: &str,
    access: AccessArgs,
    dry_run: DryRunArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let playbook = read_playbook(file, InputSource::FromPlaybook, access)?;
    let Some(agent) = playbook.agents.iter().find(|agent| agent.name == name) else {
        let names: Vec<&str> = playbook.agents.iter().map(|agent| agent.name.as_str()).collect();
        let closest = closest_match(name, names.iter().copied());
        let closest = closest.map(|closest| format!("did you mean {closest}? ")).unwrap_or_default();
        let message = format!("there is no agent {name} in {}", file.display());
        return Err(CommandError::new(
            NOT_FOUND,
            message,
            format!("{closest}The agents are {}", names.join(", ")),
        )
        .into());
    };
    let timeout = Duration::from_millis(playbook.spec.limits.analysis_ms);
    let question = prompts::question(ANALYSE, first_question(&playbook.spec, name), timeout);
    if dry_run.is_set() {
        terminal::note("dry run: no question was sent");
        terminal::print(terminal::sanitize_json(&question.payload.to_string()));
        return Ok(());
    }
    if agent.needs_hub_access {
        terminal::note("`hub: true` has no effect in a test: the program gets no access to a hub");
    }
    let length = playbook.spec.input["text"].as_str().map_or(0, |text| text.chars().count());
    if length > CHARS {
        terminal::note(format!("the agent gets the first {CHARS} of {length} characters of the input"));
    }
    let result = probe(agent, &question).await;
    let mut fields = Map::new();
    fields.insert("agent".into(), name.into());
    fields.insert("use".into(), scheme(&agent.declared).into());
    if let Some(reply) = &result.reply {
        fields.insert("usage".into(), serde_json::to_value(reply.usage)?);
        fields.insert("answer".into(), reply.body.clone());
    }
    print_checks(&checks(&result, &playbook.spec), output, fields)
}

/// Returns the first question of a deliberation to this agent, with truncated input.
fn first_question(spec: &Spec, name: &str) -> Value {
    let mut spec = spec.clone();
    spec.agents = vec![Member { id: name.to_owned(), provider: None }];
    let text = spec.input["text"].as_str().unwrap_or(SAMPLE);
    spec.input = json!({ "text": text.chars().take(CHARS).collect::<String>() });
    let outputs = Deliberation::new(&spec, tokens::count_o200k).step(
        &mut DeliberationState::default(),
        Input::Start,
        0,
    );
    let payload = outputs.into_iter().find_map(|output| match output {
        Output::Ask(ask) => serde_json::from_str(&ask.payload).ok(),
        _ => None,
    });
    payload.unwrap_or_default()
}

/// Returns the name of the scheme with which an agent was declared.
fn scheme(declared: &UseSpec) -> &'static str {
    match declared {
        UseSpec::Heuristic(_) => "heuristic",
        UseSpec::Command(_) => "cmd",
        UseSpec::Model { .. } => "llm",
        UseSpec::Http(_) => "http",
    }
}

fn checks(result: &Probe, spec: &Spec) -> Vec<Check> {
    let mut checks: Vec<Check> = result.checks.iter().map(to_check).collect();
    // A deliberation requires more than the JSON schema can express, so the answer is parsed as well.
    let body = result.reply.as_ref().filter(|_| result.passed()).map(|reply| reply.body.to_string());
    if let Some(Err(error)) = body.map(|body| finding::parse(body.as_bytes(), &spec.vocabulary))
        && checks.last().is_some_and(|schema| schema.result == CheckResult::Passed)
    {
        checks.pop();
        checks.push(Check::failed(
            "schema",
            error.to_string(),
            "make the answer match the `schema` in the question",
        ));
    }
    checks
}

fn to_check(check: &quorate_agents::ProbeCheck) -> Check {
    let detail = check.detail.clone();
    let mut converted = match check.outcome {
        CheckOutcome::Passed => Check::passed(check.name, detail),
        CheckOutcome::Warning => Check::warning(check.name, detail, &check.hint),
        CheckOutcome::Failed => Check::failed(check.name, detail, &check.hint),
        CheckOutcome::Skipped => Check::skipped(check.name, detail),
    };
    converted.ms = (check.name != "schema" && check.outcome != CheckOutcome::Skipped).then_some(check.millis);
    converted
}

/// Tests an agent that is registered in a hub.
pub(super) async fn test_hub_agent(
    hub: &Hub,
    reference: &str,
    dry_run: DryRunArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let id = hub.resolve_id(Resource::Agent, reference).await?;
    if dry_run.is_set() {
        return hub.write(dry_run, (Method::Post, "/v1/request"), Some(question(&id))).await.map(drop);
    }
    let agent = hub.get_json(&format!("/v1/agents/{}", percent_encode(&id)), &[]).await?;
    let mut fields = Map::new();
    fields.insert("agent".into(), id.as_str().into());
    let mut checks = vec![check_online(&agent, &id)];
    let actions = agent["supportedActions"].as_array();
    let analyses = actions.is_some_and(|actions| actions.iter().any(|action| action == ANALYSE));
    if checks[0].result != CheckResult::Passed {
        checks.push(Check::skipped("answers", "the agent is not online"));
    } else if !analyses {
        checks.push(Check::skipped("answers", "not asked: `analyse` is not among its actions"));
    } else {
        let clock = SystemClock::new();
        let start = clock.now().mono.0;
        let result = ask(hub, &id).await;
        let ms = clock.now().mono.0.saturating_sub(start);
        checks.extend(match result {
            Ok(answer) => {
                let answers = Check { ms: Some(ms), ..Check::passed("answers", "to `analyse`") };
                let schema = check_schema(&answer);
                fields.insert("answer".into(), answer);
                [answers, schema]
            }
            Err(error) => {
                let fix = format!(
                    "run `quorate msg list --to {id} --dead` to see the messages that it could not handle"
                );
                let answers = Check { ms: Some(ms), ..Check::failed("answers", error.to_string(), fix) };
                [answers, Check::skipped("schema", "there is no answer")]
            }
        });
    }
    print_checks(&checks, output, fields)
}

/// Checks that the agent is online: a consumer is connected to its mailbox. The status that the agent reported counts only
/// then, because an agent that was registered but never started still has its initial status.
fn check_online(agent: &Value, id: &str) -> Check {
    let (status, health) = (field(agent, "status"), field(agent, "health"));
    let found = format!("{status}, {health}, last seen {}", last_seen(agent));
    let connected = agent["load"]["listening"].as_u64().is_some_and(|count| count > 0);
    match (status.as_str(), health.as_str(), connected) {
        ("offline", _, _) => Check::failed(
            "reachable",
            found,
            format!("start the agent; for details: quorate agent show {id}"),
        ),
        (_, _, false) => {
            let found = format!("no consumer is connected to its mailbox; last seen {}", last_seen(agent));
            let fix = "start the agent; if it polls, it may be between two calls: try again";
            Check::failed("reachable", found, fix)
        }
        (_, "healthy", true) => Check::passed("reachable", found),
        _ => Check::warning("reachable", found, format!("for details: quorate agent show {id}")),
    }
}

/// Sends the question as a temporary agent, since only agents can receive answers.
async fn ask(hub: &Hub, id: &str) -> anyhow::Result<Value> {
    let path = format!("/v1/agents/{REQUESTER}");
    let registration = json!({ "name": "Agent test", "role": "coordinator" }).to_string();
    hub.write(DryRunArgs::new(false), (Method::Put, &path), Some(registration)).await?;
    let response = hub.request(question(id), Duration::from_millis(TIMEOUT_MS)).await;
    hub.write(DryRunArgs::new(false), (Method::Delete, &path), None).await?;
    let answer: Value = serde_json::from_str(&response?)?;
    Ok(answer["payload"].clone())
}

/// Returns the request body of the question for an agent in a hub.
fn question(id: &str) -> String {
    let member = Member { id: id.to_owned(), provider: None };
    let spec = Spec::new("Is this agent ready?", json!({ "text": SAMPLE }), vec![member]);
    json!({
        "from": REQUESTER, "to": id, "type": "query", "action": ANALYSE, "timeoutMs": TIMEOUT_MS, "payload": first_question(&spec, id),
    })
    .to_string()
}

fn check_schema(answer: &Value) -> Check {
    match finding::parse(answer.to_string().as_bytes(), &finding::Vocabulary::default()) {
        Ok(_) => Check::passed("schema", "the answer is valid"),
        Err(error) => {
            Check::failed("schema", error.to_string(), "see docs/guides/deliberation.md for the format")
        }
    }
}
