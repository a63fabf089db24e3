//! Proposals without a hub: approvals, revisions, and the tasks that execute the approved action.

use bytes::Bytes;
use quorate_core::{ProcedureId, ProcedureStatus, TaskStatus, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::deliberation::{Outcome, Spec};

/// A machine with its state, and the outputs of the last step.
struct Proposal {
    machine: ProposalMachine,
    state: ProposalState,
    outputs: Vec<ProcedureOutput>,
}

impl Proposal {
    fn start(spec: &Value) -> Self {
        let machine = ProposalMachine::parse(spec.to_string().as_bytes()).expect("a valid spec");
        let mut proposal = Self { machine, state: ProposalState::default(), outputs: Vec::new() };
        proposal.step(ProcedureEvent::Started);
        proposal
    }

    /// Takes a step. The state is stored and loaded in between, and implies the same outputs.
    fn step(&mut self, event: ProcedureEvent) -> &[ProcedureOutput] {
        let id = ProcedureId::new("p").expect("an id");
        let context = ProcedureContext { id: &id, started_by: "admin:first", now: Timestamp(0) };
        let bytes = serde_json::to_vec(&self.state).expect("JSON");
        self.state = serde_json::from_slice(&bytes).expect("a state");
        self.outputs = self.machine.step(&mut self.state, event, &context);
        if !matches!(self.outputs[..], [ProcedureOutput::Ignored(_)]) {
            assert_eq!(self.machine.pending_outputs(&self.state, &context), self.outputs);
        }
        &self.outputs
    }

    fn decide(&mut self, approval: &str, state: &'static str, reason: &str, action: Option<&Value>) {
        let action = action.map(|action| Bytes::from(action.to_string()));
        let (approval, reason) = (approval.to_owned(), reason.to_owned());
        self.step(ProcedureEvent::Decided { approval, state, reason, action });
    }

    fn answer(&mut self, request: &str, from: &str, body: &Value) {
        let (request, from, body) = (request.to_owned(), from.to_owned(), Bytes::from(body.to_string()));
        self.step(ProcedureEvent::Answered { request, from, body, metadata: None });
    }

    fn approval(&self) -> &ApprovalOutput {
        match &self.outputs[..] {
            [ProcedureOutput::Approval(approval)] => approval,
            other => panic!("not an approval: {other:?}"),
        }
    }

    fn request(&self) -> (&str, &str, Value) {
        match &self.outputs[..] {
            [ProcedureOutput::Request(request)] => {
                let payload = serde_json::from_str(&request.payload).expect("JSON");
                (&request.id, &request.agent, payload)
            }
            other => panic!("not a request: {other:?}"),
        }
    }

    fn outcome(&self) -> ProposalOutcome {
        match &self.outputs[..] {
            [ProcedureOutput::Finish(result) | ProcedureOutput::Fail(result)] => {
                serde_json::from_slice(result).expect("an outcome")
            }
            other => panic!("it has not ended: {other:?}"),
        }
    }
}

/// A proposal to send a mail, which ada, then ben revise up to two times.
fn mail() -> Value {
    json!({
        "action": "mail.send", "payload": {"text": "No."}, "rationale": "it is short", "confidence": 0.6,
        "revise": {"max": 2, "agents": ["ada", "ben"]},
        "task": {"type": "mail", "agent": "mailer"},
    })
}

/// A letter about the outcome of a deliberation.
fn letter(revise: Value) -> Value {
    json!({
        "action": "tell the team",
        "deliberation": {"subject": "Ship?", "input": {"text": "notes"}, "agents": [{"id": "ada"}, {"id": "ben"}]},
        "letter": {"text": "We {recommendation}.", "write": "note.txt", "when": ["ship"]},
        "revise": revise,
    })
}

/// The result of a deliberation in which these agents recommend these things.
fn deliberated(findings: &[(&str, &str, f64)], recommendation: &str) -> ProcedureEvent {
    use crate::deliberation::{Deliberation, DeliberationState, Input, Output};
    let member = |(agent, _, _): &(&str, &str, f64)| json!({"id": agent});
    let members: Vec<Value> = findings.iter().map(member).collect();
    let spec = json!({"subject": "Ship?", "agents": members, "limits": {"rounds": 0}}).to_string();
    let spec = Spec::parse(spec.as_bytes()).expect("a valid spec");
    let (deliberation, mut state) =
        (Deliberation::new(&spec, crate::tokens::count_o200k), DeliberationState::default());
    let mut outputs = deliberation.step(&mut state, Input::Start, 0);
    for (agent, recommendation, confidence) in findings {
        let ask = outputs.iter().find_map(|output| match output {
            Output::Ask(ask) if ask.agent == *agent => Some(ask.id.clone()),
            _ => None,
        });
        let body = json!({"summary": "s", "recommendation": recommendation, "confidence": confidence});
        let ask = ask.expect("it was asked");
        let body = body.to_string().into_bytes();
        let from = (*agent).to_owned();
        outputs.extend(deliberation.step(&mut state, Input::Answered { ask, from, body, usage: None }, 0));
    }
    let outcome = outputs.into_iter().find_map(|output| match output {
        Output::Finished(outcome) => Some(outcome),
        _ => None,
    });
    let outcome: Outcome = *outcome.expect("it has finished");
    assert_eq!(outcome.synthesis.recommendation.as_deref(), Some(recommendation));
    let result = Bytes::from(serde_json::to_vec(&outcome).expect("JSON"));
    let (child, status) = ("deliberation".to_owned(), ProcedureStatus::Done);
    ProcedureEvent::ChildEnded { child, status, result: Some(result) }
}

fn task_ended(status: TaskStatus, result: Option<&Value>) -> ProcedureEvent {
    let result = result.map(|result| Bytes::from(result.to_string()));
    ProcedureEvent::TaskEnded { task: "effect".into(), status, result, reason: Some("disk full".into()) }
}

// Fails under: a second task; a task whose input is not the approved action; an end before the task.
#[test]
fn n16_an_approved_action_is_executed_as_one_task() {
    let mut proposal = Proposal::start(&mail());
    let approval = proposal.approval();
    assert_eq!((approval.id.as_str(), &approval.payload), ("approval-1", &json!({"text": "No."})));
    assert_eq!((approval.rationale.as_deref(), approval.confidence), (Some("it is short"), Some(0.6)));
    assert_eq!(approval.timeout_ms, 72 * 60 * 60 * 1_000, "72 h by default");
    let action = json!({"action": "mail.send", "payload": {"text": "Not yet."}});
    proposal.decide("approval-1", "modified", "softer", Some(&action));
    let [ProcedureOutput::Task(task)] = &proposal.outputs[..] else { panic!("{:?}", proposal.outputs) };
    let agent = task.agent.as_ref().map(AgentId::as_str);
    assert_eq!((task.id.as_str(), task.task_type.as_str(), agent), ("effect", "mail", Some("mailer")));
    let digest = quorate_core::ActionDigest::of(action.to_string().as_bytes()).to_string();
    let input: Value = serde_json::from_slice(&task.input).expect("JSON");
    assert_eq!(input, json!({"approval": "p:approval-1", "digest": digest, "action": action}));
    // A decision that arrives twice is ignored.
    proposal.decide("approval-1", "modified", "softer", Some(&action));
    assert!(matches!(proposal.outputs[..], [ProcedureOutput::Ignored(_)]), "{:?}", proposal.outputs);
    proposal.step(task_ended(TaskStatus::Done, Some(&json!({"sent": true}))));
    let outcome = proposal.outcome();
    assert_eq!((outcome.end, &outcome.result), (ProposalEnd::Modified, &json!({"sent": true})));
    assert_eq!(outcome.approval.as_deref(), Some("p:approval-1"));
}

// Fails under: a rejection that ends the proposal; a revision that replaces the earlier approval; more revisions than allowed.
#[test]
fn n16_a_rejection_is_revised_as_a_new_approval() {
    let mut proposal = Proposal::start(&mail());
    proposal.decide("approval-1", "rejected", "too short", None);
    let (id, agent, payload) = proposal.request();
    assert_eq!((id, agent), ("revise-1-1", "ada"));
    assert_eq!((&payload["reason"], &payload["payload"]), (&json!("too short"), &json!({"text": "No."})));
    assert_eq!(payload["answer"]["required"], json!(["payload"]));
    // An answer to another request is ignored.
    proposal.answer("revise-1-2", "ben", &json!({"payload": 1}));
    assert!(matches!(proposal.outputs[..], [ProcedureOutput::Ignored(_)]));
    let revised = json!({"text": "Not this quarter."});
    proposal.answer(
        "revise-1-1",
        "ada",
        &json!({"payload": revised, "rationale": "longer", "confidence": 0.9}),
    );
    let approval = proposal.approval();
    assert_eq!((approval.id.as_str(), &approval.payload), ("approval-2", &revised));
    assert_eq!((approval.rationale.as_deref(), approval.confidence), (Some("longer"), Some(0.9)));
    // The first approval is decided; its decision has no effect any more.
    proposal.decide("approval-1", "approved", "", Some(&json!({})));
    assert!(matches!(proposal.outputs[..], [ProcedureOutput::Ignored(_)]));
    proposal.decide("approval-2", "rejected", "still too short", None);
    assert_eq!(proposal.request().0, "revise-2-1");
    proposal.answer("revise-2-1", "ada", &json!({"payload": 3}));
    proposal.decide("approval-3", "rejected", "no", None);
    let outcome = proposal.outcome();
    assert_eq!((outcome.end, outcome.rounds.len()), (ProposalEnd::Rejected, 3));
    let reasons =
        outcome.rounds.iter().map(|round| round.decision.as_ref().expect("decided").reason.as_str());
    assert_eq!(reasons.collect::<Vec<_>>(), ["too short", "still too short", "no"]);
    assert_eq!(outcome.rounds[1].revised_by.as_deref(), Some("ada"));
}

// Fails under: a revision that is lost with its agent; an unchanged proposal that is requested again; an endless search.
#[test]
fn n16_the_next_agent_revises_if_one_does_not() {
    let mut proposal = Proposal::start(&mail());
    proposal.decide("approval-1", "rejected", "too short", None);
    let failed = |request: &str| ProcedureEvent::RequestFailed {
        request: request.to_owned(),
        reason: "no answer in time".to_owned(),
    };
    proposal.step(failed("revise-1-1"));
    assert_eq!((proposal.request().0, proposal.request().1), ("revise-1-2", "ben"));
    let answers = [
        (json!({"payload": {"text": "No."}}), "the answer does not change the proposal"),
        (json!({"letter": "x"}), "the answer has no `payload`"),
        (json!({"error": "out of ideas"}), "out of ideas"),
        (json!(7), "answer: expected a JSON object"),
    ];
    for (answer, reason) in answers {
        let mut proposal = Proposal { state: proposal.state.clone(), ..Proposal::start(&mail()) };
        proposal.answer("revise-1-2", "ben", &answer);
        let outcome = proposal.outcome();
        assert_eq!(outcome.end, ProposalEnd::Rejected);
        let failures = &outcome.rounds[0].failures;
        let failure =
            |agent: &str, reason: &str| RevisionFailure { agent: agent.into(), reason: reason.into() };
        assert_eq!(*failures, [failure("ada", "no answer in time"), failure("ben", reason)]);
    }
}

// Fails under: a letter that is proposed without its recommendation; a default reviser that does not hold the result.
#[test]
fn n16_the_outcome_of_a_deliberation_is_proposed_as_a_letter() {
    let mut proposal = Proposal::start(&letter(json!({})));
    assert!(matches!(&proposal.outputs[..], [ProcedureOutput::Child(child)] if child.kind == "deliberation"));
    let outcome = deliberated(&[("ada", "wait", 0.9), ("ben", "ship", 0.7), ("carol", "ship", 0.8)], "ship");
    proposal.step(outcome);
    let approval = proposal.approval();
    assert_eq!(approval.payload, json!({"letter": "We ship.", "write": "note.txt"}));
    assert!(approval.rationale.as_ref().is_some_and(|text| text.contains("ship")), "{approval:?}");
    proposal.decide("approval-1", "rejected", "name the day", None);
    let (_, agent, payload) = proposal.request();
    assert_eq!(agent, "carol", "the most confident of those that hold the result");
    assert_eq!((&payload["letter"], &payload["subject"]), (&json!("We ship."), &json!("Ship?")));
    assert_eq!((&payload["input"], &payload["recommendation"]), (&json!({"text": "notes"}), &json!("ship")));
    let revised = json!({"letter": "We ship on Friday.", "write": "../other.txt"});
    proposal.answer("revise-1-1", "carol", &revised);
    assert_eq!(proposal.approval().payload, json!({"letter": "We ship on Friday.", "write": "note.txt"}));
    proposal.decide("approval-2", "expired", "", None);
    assert_eq!(proposal.outcome().end, ProposalEnd::Expired);
    assert_eq!(proposal.outcome().deliberation.as_deref(), Some("p:deliberation"));
}

// Fails under: an approval for an outcome that needs none; a failed deliberation or task that counts as a success.
#[test]
fn n16_a_proposal_ends_without_an_approval_or_fails() {
    let mut proposal = Proposal::start(&letter(json!(null)));
    proposal.step(deliberated(&[("ada", "wait", 0.9), ("ben", "wait", 0.7)], "wait"));
    let outcome = proposal.outcome();
    assert_eq!((outcome.end, outcome.approval, outcome.rounds.len()), (ProposalEnd::NotRequired, None, 0));
    let mut proposal = Proposal::start(&letter(json!(null)));
    let result = Some(Bytes::from_static(br#"{"reason":"too few agents answered"}"#));
    let (child, status) = ("deliberation".to_owned(), ProcedureStatus::Failed);
    proposal.step(ProcedureEvent::ChildEnded { child, status, result });
    assert!(matches!(proposal.outputs[..], [ProcedureOutput::Fail(_)]));
    let reason = "the deliberation failed: too few agents answered";
    assert_eq!(proposal.outcome().reason.as_deref(), Some(reason));
    let mut proposal = Proposal::start(&mail());
    proposal.decide("approval-1", "approved", "", Some(&json!({"action": "mail.send"})));
    proposal.step(task_ended(TaskStatus::Failed, None));
    assert!(matches!(proposal.outputs[..], [ProcedureOutput::Fail(_)]));
    let reason = "the task of the approved action failed: disk full";
    assert_eq!(proposal.outcome().reason.as_deref(), Some(reason));
    // Without a revision or a task, the decision ends it.
    let bare = json!({"action": "deploy", "payload": null, "timeout_ms": 1_000});
    assert!(ProposalMachine::parse(bare.to_string().as_bytes()).is_err(), "null is no payload");
    let bare = json!({"action": "deploy", "payload": 1});
    for (state, action, end) in
        [("approved", Some(&json!(1)), ProposalEnd::Approved), ("rejected", None, ProposalEnd::Rejected)]
    {
        let mut proposal = Proposal::start(&bare);
        proposal.decide("approval-1", state, "because", action);
        assert_eq!(proposal.outcome().end, end);
    }
}

// Fails under: an invalid field that is accepted, or an error without its path.
#[test]
fn n16_an_invalid_spec_names_the_path() {
    let with = |base: Value, path: &str, value: Value| {
        let mut spec = base;
        *spec.pointer_mut(path).expect("a field") = value;
        spec
    };
    let cases = [
        (json!({"action": "a"}), "payload"),
        (json!({"action": "", "payload": 1}), "action"),
        (json!({"action": "a", "payload": 1, "extra": 1}), "extra"),
        (json!({"action": "a", "payload": 1, "timeout_ms": 999}), "timeout_ms"),
        (json!({"action": "a", "payload": 1, "confidence": 2}), "confidence"),
        (json!({"action": "a", "payload": 1, "revise": {}}), "revise.agents"),
        (with(mail(), "/revise/max", json!(6)), "revise.max"),
        (with(mail(), "/revise/agents", json!(["ada", "ada"])), "revise.agents[1]"),
        (with(mail(), "/revise/agents", json!(["a b\n"])), "revise.agents[0]"),
        (with(mail(), "/task/type", json!("")), "task.type"),
        (with(letter(json!({})), "/letter/write", json!("../x")), "letter.write"),
        (with(letter(json!({})), "/letter/text", json!("{today}")), "letter.text"),
        (with(letter(json!({})), "/deliberation/agents", json!([])), "deliberation.agents"),
        (with(letter(json!({})), "/letter", json!(null)), "letter"),
        (with(letter(json!({})), "/deliberation", json!(null)), "deliberation"),
    ];
    for (spec, path) in cases {
        let error = ProposalMachine::parse(spec.to_string().as_bytes()).err().expect(path);
        assert_eq!(error.path, path, "{error}");
    }
}
