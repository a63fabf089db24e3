//! Scripted deliberations: the answers of the agents and the resulting outputs.

mod agreement;
mod consensus;
mod determinism;
mod failures;
mod independent_tally;
mod limits;
mod phases;
mod rule_comparison;
mod strategy;
mod visibility;
mod vote;

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::*;

/// Counts words instead of tokens, which avoids loading the vocabulary.
fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| Member { id: (*name).to_owned(), provider: None }).collect()
}

fn spec(names: &[&str]) -> Spec {
    let spec = Spec::contract("May we sign?", json!({"text": "…"}), members(names));
    spec.check().expect("a valid spec");
    spec
}

/// Reaction of an agent to a request.
#[derive(Clone, PartialEq, Debug)]
enum Reaction {
    Answer(Value),
    Raw(&'static str),
    Fail(&'static str),
    Silence,
}

/// Variation of a scripted run.
#[derive(Clone, Copy, Default)]
struct Variation {
    /// The state is serialised and parsed after every step.
    stored: bool,
    /// Index of the pending request to answer next.
    turn: usize,
    /// Every answer is delivered twice, and unsolicited answers are added.
    twice: bool,
}

/// Result of a scripted run.
struct ScriptedRun {
    lines: Vec<String>,
    asks: Vec<Ask>,
    outcome: Option<Outcome>,
    failure: Option<FailedDeliberation>,
}

/// The decided position as text; empty for a tie.
fn decided(decision: &ConflictResolution) -> String {
    decision.position.as_ref().map(ToString::to_string).unwrap_or_default()
}

impl ScriptedRun {
    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn outcome(&self) -> &Outcome {
        self.outcome.as_ref().unwrap_or_else(|| panic!("no outcome: {:?}", self.failure))
    }

    fn payload(&self, id: &str) -> Value {
        let ask = self.asks.iter().find(|ask| ask.id.0 == id).unwrap_or_else(|| panic!("{id} was not asked"));
        serde_json::from_str(&ask.payload).expect("JSON")
    }
}

fn run_script(spec: &Spec, react: impl Fn(&Ask) -> Reaction) -> ScriptedRun {
    run_script_with(spec, Variation::default(), react)
}

fn run_script_with(spec: &Spec, variation: Variation, react: impl Fn(&Ask) -> Reaction) -> ScriptedRun {
    let machine = Deliberation::new(spec, words);
    let (mut state, mut now_ms) = (DeliberationState::default(), 1_000);
    let mut run = ScriptedRun { lines: Vec::new(), asks: Vec::new(), outcome: None, failure: None };
    let mut waiting: VecDeque<Ask> = VecDeque::new();
    let mut events: VecDeque<Input> = VecDeque::from([Input::Start]);
    for _ in 0..2_000 {
        while let Some(event) = events.pop_front() {
            for output in machine.step(&mut state, event, now_ms) {
                run.lines.extend(line(&output));
                match output {
                    Output::Ask(ask) => {
                        run.asks.push(ask.clone());
                        waiting.push_back(ask);
                    }
                    Output::Finished(outcome) => {
                        let json = serde_json::to_vec(&outcome).expect("JSON");
                        assert_eq!(serde_json::from_slice::<Outcome>(&json).expect("an outcome"), *outcome);
                        run.outcome = Some(*outcome);
                    }
                    Output::Failed(failure) => run.failure = Some(*failure),
                    Output::Publish(_) | Output::Ignored(_) => {}
                }
            }
            if variation.stored {
                let stored = serde_json::to_vec(&state).expect("JSON");
                let parsed: DeliberationState = serde_json::from_slice(&stored).expect("a state");
                assert_eq!(parsed, state, "the stored state equals the original");
                assert!(stored.len() < 100_000, "{} bytes per step", stored.len());
                state = parsed;
            }
        }
        if state.is_over() {
            assert_eq!(state.next_wakeup(), None);
            return run;
        }
        if waiting.is_empty() {
            now_ms = state.next_wakeup().expect("a pending request");
            events.push_back(Input::DeadlineReached);
            continue;
        }
        let index = variation.turn % waiting.len();
        let ask = waiting.remove(index).expect("a pending request");
        now_ms += 10;
        events.extend(event(&ask, react(&ask)));
        if variation.twice {
            let duplicates: Vec<Input> = events.iter().cloned().collect();
            events.extend(duplicates);
            events.push_back(Input::Failed { ask: AskId("never:asked".into()), why: "?".into() });
            let stranger = Input::Answered {
                ask: ask.id.clone(),
                from: "stranger".into(),
                body: b"{\"summary\":\"me too\"}".to_vec(),
                usage: None,
            };
            events.push_front(stranger);
        }
    }
    panic!("the deliberation does not end: {}", run.text());
}

fn event(ask: &Ask, reaction: Reaction) -> Option<Input> {
    let answered = |body: String| {
        let usage = Some(ReportedUsage { calls: 1, tokens_in: 100, tokens_out: 10, money_micros: None });
        Input::Answered { ask: ask.id.clone(), from: ask.agent.clone(), body: body.into_bytes(), usage }
    };
    match reaction {
        Reaction::Answer(value) => Some(answered(value.to_string())),
        Reaction::Raw(text) => Some(answered(text.to_owned())),
        Reaction::Fail(reason) => Some(Input::Failed { ask: ask.id.clone(), why: reason.to_owned() }),
        Reaction::Silence => None,
    }
}

fn line(output: &Output) -> Option<String> {
    match output {
        Output::Ask(ask) => Some(format!("ask {}", ask.id)),
        Output::Publish(message) => {
            let text = ["position", "summary", "text"]
                .iter()
                .map(|field| &message.content[*field])
                .find(|value| !value.is_null());
            let confidence = message.content["confidence"]
                .as_f64()
                .map_or(String::new(), |confidence| format!(" {confidence}"));
            let to = message.recipients.join(", ");
            let re = message.reply_to.as_ref().map_or(String::new(), |id| format!(" re {id}"));
            let DeliberationMessage { id, round, sender, message_type, .. } = message;
            Some(format!(
                "{id} round {round} {message_type:?} {sender} > {to}{re}: {}{confidence}",
                text.map(crate::normalise::value_to_text).unwrap_or_default()
            ))
        }
        Output::Ignored(_) => None,
        Output::Finished(outcome) => Some(format!("finished: {}", outcome.synthesis.summary[0].text)),
        Output::Failed(failure) => Some(format!("failed: {}", failure.reason)),
    }
}

/// A finding with a recommendation.
fn recommends(recommendation: &str, confidence: f64) -> Value {
    json!({"summary": format!("I say {recommendation}."), "confidence": confidence, "recommendation": recommendation})
}

fn reply(position: impl Into<Value>, confidence: f64, agrees: bool, reasoning: &str) -> Value {
    let position: Value = position.into();
    json!({"revised_position": position, "confidence": confidence, "agrees_with_peer": agrees, "reasoning": reasoning})
}

/// A reply that keeps the agent's position.
fn stay(ask: &Ask) -> Value {
    let payload: Value = serde_json::from_str(&ask.payload).expect("JSON");
    let own = &payload["your_position"];
    json!({"revised_position": own["position"], "confidence": own["confidence"], "agrees_with_peer": false, "reasoning": "I stay."})
}
