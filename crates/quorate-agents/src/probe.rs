//! Tests one agent outside a deliberation: whether it is reachable, how fast it answers, whether the answer matches the
//! schema.

use crate::agent::{AgentRunner, DeclaredAgent};
use crate::clock;
use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, Usage};

/// Result of one check.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeCheck {
    /// Name of the check: `reachable`, `answers`, `schema`.
    pub name: &'static str,
    /// Outcome of the check.
    pub outcome: CheckOutcome,
    /// Description of the outcome.
    pub detail: String,
    /// What to do next; empty if the check passed.
    pub hint: String,
    /// Duration in milliseconds.
    pub millis: u64,
}

/// Outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOutcome {
    /// The check passed.
    Passed,
    /// The agent works, but not as well as it could.
    Warning,
    /// The check failed.
    Failed,
    /// Not checked, because an earlier check failed or there is nothing to check.
    Skipped,
}

/// Result of probing an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// The checks, in order.
    pub checks: Vec<ProbeCheck>,
    /// The answer, if there was one.
    pub reply: Option<AgentReply>,
}

impl Probe {
    /// Whether no check failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.outcome != CheckOutcome::Failed)
    }
}

/// Probes an agent with a question.
pub async fn probe(agent: &DeclaredAgent, question: &AgentQuestion) -> Probe {
    let mut checks = vec![reachable(agent).await];
    if checks[0].outcome == CheckOutcome::Failed {
        checks.push(skipped("answers", "it cannot be reached"));
        checks.push(skipped("schema", "there is no answer"));
        return Probe { checks, reply: None };
    }
    let started = clock::now();
    let result = agent.answer(question).await;
    let millis = clock::millis(clock::now() - started);
    match result {
        Ok(reply) => {
            checks.push(check("answers", CheckOutcome::Passed, usage_text(&reply.usage), "", millis));
            checks.push(schema_check(question, &reply));
            Probe { checks, reply: Some(reply) }
        }
        Err(failure) if failure.kind == FailureKind::SchemaMismatch => {
            checks.push(check("answers", CheckOutcome::Passed, usage_text(&failure.usage), "", millis));
            checks.push(failed("schema", &failure, 0));
            Probe { checks, reply: None }
        }
        Err(failure) => {
            checks.push(failed("answers", &failure, millis));
            checks.push(skipped("schema", "there is no answer"));
            Probe { checks, reply: None }
        }
    }
}

/// Checks an agent without asking it: its program exists, its server is listening, its API key is set.
pub async fn reachable(agent: &DeclaredAgent) -> ProbeCheck {
    let started = clock::now();
    let result = match &agent.runner {
        AgentRunner::Heuristic(_) => Ok("built in; rule-based, no model".to_owned()),
        AgentRunner::Command(command) => {
            command.find_executable().map(|file| format!("{} is executable", file.display()))
        }
        AgentRunner::Http(server) => {
            server.check_reachable().await.map(|()| format!("{} is listening", server.url))
        }
        AgentRunner::Model(model) => match model.check_reachable().await {
            Some(result) => result.map(|()| format!("{} is listening, API key present", model.label)),
            None => return skipped("reachable", "answers are replayed"),
        },
    };
    let millis = clock::millis(clock::now() - started);
    match result {
        Ok(detail) => check("reachable", CheckOutcome::Passed, detail, "", millis),
        Err(failure) => failed("reachable", &failure, millis),
    }
}

fn usage_text(usage: &Usage) -> String {
    let calls = if usage.calls == 1 { "1 call".to_owned() } else { format!("{} calls", usage.calls) };
    match (usage.input_tokens, usage.output_tokens) {
        (0, 0) => format!("after {calls}"),
        (input, output) => format!("after {calls}, {input} tokens in, {output} out"),
    }
}

fn schema_check(question: &AgentQuestion, reply: &AgentReply) -> ProbeCheck {
    let notes = reply.notes.join("; ");
    let is_plain = reply.body.get("text").is_some()
        && reply.body.get("confidence").is_some_and(|confidence| confidence.is_null());
    match (question.schema.is_some(), is_plain) {
        (true, true) => {
            let hint = "make it answer with one JSON object that matches the `schema` of the question";
            check("schema", CheckOutcome::Warning, notes, hint, 0)
        }
        (true, false) if notes.is_empty() => {
            check("schema", CheckOutcome::Passed, "the answer fits".into(), "", 0)
        }
        (true, false) => check("schema", CheckOutcome::Passed, format!("the answer fits; {notes}"), "", 0),
        (false, _) => skipped("schema", "no schema requested"),
    }
}

fn check(name: &'static str, outcome: CheckOutcome, detail: String, hint: &str, millis: u64) -> ProbeCheck {
    ProbeCheck { name, outcome, detail, hint: hint.to_owned(), millis }
}

fn failed(name: &'static str, failure: &AgentFailure, millis: u64) -> ProbeCheck {
    check(name, CheckOutcome::Failed, failure.to_string(), &failure.hint, millis)
}

fn skipped(name: &'static str, reason: &str) -> ProbeCheck {
    check(name, CheckOutcome::Skipped, reason.to_owned(), "", 0)
}
