//! A run of a machine without a hub, whose requests are answered by a function; for tests.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_core::{ProcedureId, Timestamp};
use serde_json::Value;

use crate::machine::{
    Machine, OutgoingMessage, ProcedureContext, ProcedureEvent, ProcedureOutput, RequestOutput, StartedOutput,
};

/// What an agent does with a request.
pub(crate) enum Reply {
    Answer(Value),
    Fail(&'static str),
}

/// A run, and what it has sent and written.
pub(crate) struct ScriptedRun<M: Machine> {
    pub(crate) machine: M,
    pub(crate) state: M::State,
    pub(crate) pending: BTreeMap<String, RequestOutput>,
    /// Requests in the order in which they were sent.
    pub(crate) sent: Vec<RequestOutput>,
    pub(crate) messages: Vec<OutgoingMessage>,
    pub(crate) entries: BTreeMap<String, Value>,
    /// The result, and whether the procedure succeeded.
    pub(crate) result: Option<(Value, bool)>,
    id: ProcedureId,
}

impl<M: Machine> ScriptedRun<M> {
    pub(crate) fn start(spec: &Value) -> Self {
        let mut run = Self {
            machine: M::parse(spec.to_string().as_bytes()).expect("a valid spec"),
            state: M::State::default(),
            pending: BTreeMap::new(),
            sent: Vec::new(),
            messages: Vec::new(),
            entries: BTreeMap::new(),
            result: None,
            id: "p".parse().expect("an id"),
        };
        run.step(ProcedureEvent::Started);
        run
    }

    fn step(&mut self, event: ProcedureEvent) {
        let context = ProcedureContext { id: &self.id, started_by: "system", now: Timestamp(0) };
        for output in self.machine.step(&mut self.state, event, &context) {
            match output {
                ProcedureOutput::Request(request) => {
                    self.sent.push(request.clone());
                    assert!(self.pending.insert(request.id.clone(), request).is_none(), "an id is sent once");
                }
                ProcedureOutput::Message(message) => self.messages.push(message),
                ProcedureOutput::Write(write) => {
                    let content = serde_json::from_slice(&write.content).expect("JSON");
                    self.entries.insert(write.key, content);
                }
                ProcedureOutput::Cancel(StartedOutput::Request(id)) => {
                    assert!(self.pending.remove(&id).is_some(), "only pending requests are cancelled");
                }
                ProcedureOutput::Finish(result) => self.end(&result, true),
                ProcedureOutput::Fail(result) => self.end(&result, false),
                other => panic!("unexpected output: {other:?}"),
            }
        }
    }

    fn end(&mut self, result: &[u8], is_success: bool) {
        self.result = Some((serde_json::from_slice(result).expect("JSON"), is_success));
    }

    /// Answers the oldest request.
    pub(crate) fn answer_next(&mut self, agent: &mut impl FnMut(&RequestOutput, &Value) -> Reply) {
        let open = self.sent.iter().find(|request| self.pending.contains_key(&request.id));
        let request = open.expect("a pending request").clone();
        self.pending.remove(&request.id);
        let payload: Value = serde_json::from_str(&request.payload).expect("JSON");
        let event = match agent(&request, &payload) {
            Reply::Answer(body) => ProcedureEvent::Answered {
                request: request.id,
                from: request.agent,
                body: Bytes::from(body.to_string()),
                metadata: None,
            },
            Reply::Fail(reason) => {
                ProcedureEvent::RequestFailed { request: request.id, reason: reason.into() }
            }
        };
        self.step(event);
    }

    /// Answers all requests until the procedure ends.
    pub(crate) fn finish(mut self, mut agent: impl FnMut(&RequestOutput, &Value) -> Reply) -> Self {
        while self.result.is_none() {
            self.answer_next(&mut agent);
        }
        assert!(self.pending.is_empty(), "no request is left over: {:?}", self.pending.keys());
        self
    }

    /// Answers all requests like [`Self::finish`]. Before each answer the state is stored and loaded, and the pending outputs
    /// are compared with the requests that are open.
    pub(crate) fn finish_with_restarts(
        mut self,
        mut agent: impl FnMut(&RequestOutput, &Value) -> Reply,
    ) -> Self {
        while self.result.is_none() {
            let stored = serde_json::to_vec(&self.state).expect("JSON");
            self.state = serde_json::from_slice(&stored).expect("a state");
            let context = ProcedureContext { id: &self.id, started_by: "system", now: Timestamp(9) };
            let outputs = self.machine.pending_outputs(&self.state, &context);
            let requests = outputs.into_iter().filter_map(|output| match output {
                ProcedureOutput::Request(request) => Some((request.id.clone(), request)),
                _ => None,
            });
            assert_eq!(requests.collect::<BTreeMap<_, _>>(), self.pending);
            self.answer_next(&mut agent);
        }
        self
    }

    pub(crate) fn result(&self) -> &Value {
        &self.result.as_ref().expect("it has ended").0
    }

    pub(crate) fn has_succeeded(&self) -> bool {
        self.result.as_ref().expect("it has ended").1
    }
}
