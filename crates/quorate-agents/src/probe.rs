//! Trying one agent alone, before any deliberation: is it there, how fast is it, does its answer fit.

use crate::clock;
use crate::declared::{Agent, Work};
use crate::question::{Failure, Kind, Question, Reply, Usage};

/// One thing that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What was tried: `reachable`, `answers`, `shape`.
    pub name: &'static str,
    /// How it went.
    pub outcome: Outcome,
    /// In a sentence.
    pub detail: String,
    /// What to do next; empty if all is well.
    pub hint: String,
    /// How long it took.
    pub millis: u64,
}

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// It works, but not as well as it could.
    Doubtful,
    /// It does not work.
    Failed,
    /// Not tried, because something before it failed or because there is nothing to try.
    Skipped,
}

/// What came of trying an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// The checks in the order they were made.
    pub checks: Vec<Check>,
    /// The answer, if there was one.
    pub reply: Option<Reply>,
}

impl Probe {
    /// Whether nothing failed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|check| check.outcome != Outcome::Failed)
    }
}

/// Tries an agent with a question.
pub async fn probe(agent: &Agent, question: &Question) -> Probe {
    let mut checks = vec![reachable(agent).await];
    if checks[0].outcome == Outcome::Failed {
        checks.push(skipped("answers", "it cannot be reached"));
        checks.push(skipped("shape", "there is no answer"));
        return Probe { checks, reply: None };
    }
    let began = clock::now();
    let answered = agent.answer(question).await;
    let millis = clock::millis(clock::now() - began);
    match answered {
        Ok(reply) => {
            checks.push(check("answers", Outcome::Passed, after(&reply.usage), "", millis));
            checks.push(shape(question, &reply));
            Probe { checks, reply: Some(reply) }
        }
        Err(failure) if failure.kind == Kind::WrongShape => {
            checks.push(check("answers", Outcome::Passed, after(&failure.usage), "", millis));
            checks.push(failed("shape", &failure, 0));
            Probe { checks, reply: None }
        }
        Err(failure) => {
            checks.push(failed("answers", &failure, millis));
            checks.push(skipped("shape", "there is no answer"));
            Probe { checks, reply: None }
        }
    }
}

async fn reachable(agent: &Agent) -> Check {
    let began = clock::now();
    let reached = match &agent.work {
        Work::Heuristic(_) => Ok("comes with quorate; rules, no model".to_owned()),
        Work::Program(program) => program.find().map(|file| format!("{} is a program", file.display())),
        Work::Server(server) => server.reach().await.map(|()| format!("{} is listening", server.url)),
        Work::Speaker(speaker) => match speaker.reach().await {
            Some(reached) => reached.map(|()| format!("{} has its key and is listening", speaker.place)),
            None => return skipped("reachable", "its answers are played back"),
        },
    };
    let millis = clock::millis(clock::now() - began);
    match reached {
        Ok(detail) => check("reachable", Outcome::Passed, detail, "", millis),
        Err(failure) => failed("reachable", &failure, millis),
    }
}

fn after(usage: &Usage) -> String {
    let calls = if usage.calls == 1 { "1 call".to_owned() } else { format!("{} calls", usage.calls) };
    match (usage.input_tokens, usage.output_tokens) {
        (0, 0) => format!("after {calls}"),
        (input, output) => format!("after {calls}, {input} tokens in, {output} out"),
    }
}

fn shape(question: &Question, reply: &Reply) -> Check {
    let notes = reply.notes.join("; ");
    let is_plain =
        reply.body.get("text").is_some() && reply.body.get("confidence").is_some_and(|c| c.is_null());
    match (question.schema.is_some(), is_plain) {
        (true, true) => {
            let hint = "have it answer with one JSON object that fits the `schema` of the question";
            check("shape", Outcome::Doubtful, notes, hint, 0)
        }
        (true, false) if notes.is_empty() => check("shape", Outcome::Passed, "the answer fits".into(), "", 0),
        (true, false) => check("shape", Outcome::Passed, format!("the answer fits; {notes}"), "", 0),
        (false, _) => skipped("shape", "none was asked for"),
    }
}

fn check(name: &'static str, outcome: Outcome, detail: String, hint: &str, millis: u64) -> Check {
    Check { name, outcome, detail, hint: hint.to_owned(), millis }
}

fn failed(name: &'static str, failure: &Failure, millis: u64) -> Check {
    check(name, Outcome::Failed, failure.to_string(), &failure.hint, millis)
}

fn skipped(name: &'static str, why: &str) -> Check {
    check(name, Outcome::Skipped, why.to_owned(), "", 0)
}
