//! Deliberation as a [`Machine`] of the procedure runtime.

use quorate_core::{Destination, MessageType, Topic};
use serde::Serialize;
use serde_json::Value;

use super::{
    Ask, AskId, Deliberation, DeliberationMessage, DeliberationState, Input, Output as Step, Phase,
    ReportedUsage, Spec, visible_state,
};
use crate::finding::FieldError;
use crate::machine::{
    Machine, OnRefusal, OutgoingMessage, ProcedureContext, ProcedureEvent, ProcedureOutput, RequestOutput,
    Wait,
};
use crate::{DELIBERATION_DRIVER, DELIBERATION_KIND, tokens};

/// The deliberation procedure.
pub struct DeliberationMachine(Spec);

impl DeliberationMachine {
    fn machine(&self) -> Deliberation<'_> {
        Deliberation::new(&self.0, tokens::count_o200k)
    }
}

impl Machine for DeliberationMachine {
    const KIND: &'static str = DELIBERATION_KIND;
    const GUIDE: &'static str = "docs/guides/deliberation.md";
    const DRIVER: &'static str = DELIBERATION_DRIVER;
    const ON_REFUSAL: OnRefusal = OnRefusal::Fail;

    type State = DeliberationState;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        Spec::parse(spec).map(Self)
    }

    fn step(
        &self,
        state: &mut DeliberationState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        let input = match event {
            ProcedureEvent::Started => Input::Start,
            ProcedureEvent::Resumed => Input::Resumed,
            ProcedureEvent::Answered { request, from, body, metadata } => {
                let usage = metadata.as_deref().and_then(usage_from_metadata);
                Input::Answered { ask: AskId(request), from, body: body.into(), usage }
            }
            ProcedureEvent::RequestFailed { request, reason } => {
                Input::Failed { ask: AskId(request), why: reason }
            }
            ProcedureEvent::RequestUnsent { request, reason } => {
                Input::Unsent { ask: AskId(request), why: reason }
            }
            ProcedureEvent::TaskEnded { .. }
            | ProcedureEvent::Decided { .. }
            | ProcedureEvent::Delivered { .. }
            | ProcedureEvent::EntryChanged { .. }
            | ProcedureEvent::TimerFired { .. }
            | ProcedureEvent::ChildEnded { .. }
            | ProcedureEvent::Signalled { .. } => {
                return vec![ProcedureOutput::Ignored("a deliberation handles answers only".into())];
            }
        };
        self.machine().step(state, input, context.now.0).into_iter().map(output).collect()
    }

    fn pending_outputs(
        &self,
        state: &DeliberationState,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        self.machine().pending_outputs(state, context.now.0).into_iter().map(output).collect()
    }

    fn phase(&self, state: &DeliberationState) -> String {
        state.phase().as_str().to_owned()
    }

    fn waits_for(&self, state: &DeliberationState) -> Vec<Wait> {
        let answer =
            |(ask, agent): (&AskId, &str)| Wait::Answer { request: ask.0.clone(), agent: agent.to_owned() };
        match state.phase() {
            Phase::New | Phase::Analysis | Phase::Discussion { .. } => {
                state.pending_asks().map(answer).collect()
            }
            Phase::Finished | Phase::Failed => Vec::new(),
        }
    }

    fn visible_state(stored: &[u8], agent: &str) -> Option<Vec<u8>> {
        visible_state(stored, agent)
    }

    /// Loads the vocabulary of the token counter, which takes a moment, while the agents work.
    fn prepare(&self) {
        tokens::preload();
    }
}

fn output(step: Step) -> ProcedureOutput {
    match step {
        Step::Ask(Ask { id, agent, action, payload, timeout_ms }) => {
            ProcedureOutput::Request(RequestOutput {
                id: id.0,
                agent,
                action: action.to_owned(),
                payload,
                timeout_ms,
                ..RequestOutput::default()
            })
        }
        Step::Publish(message) => publication(&message),
        Step::Ignored(note) => ProcedureOutput::Ignored(note),
        Step::Finished(outcome) => ProcedureOutput::Finish(json(&*outcome)),
        Step::Failed(failure) => ProcedureOutput::Fail(json(&*failure)),
    }
}

fn publication(message: &DeliberationMessage) -> ProcedureOutput {
    let topic = format!("deliberation.{}", message.message_type.as_str());
    ProcedureOutput::Message(OutgoingMessage {
        id: message.id.clone(),
        to: Destination::Topic(Topic::new(topic).expect("message types are words of a topic")),
        kind: MessageType::Event,
        action: DELIBERATION_KIND.to_owned(),
        payload: json(message),
    })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("outcomes and messages are JSON")
}

/// Reads the usage that an answer reports in its metadata: `{"usage": …}`.
fn usage_from_metadata(metadata: &str) -> Option<ReportedUsage> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    serde_json::from_value(metadata.get("usage")?.clone()).ok()
}
