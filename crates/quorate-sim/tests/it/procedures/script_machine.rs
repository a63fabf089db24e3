//! A machine whose specification is a list of steps, one for each output and event of the runtime.

use std::sync::atomic::{AtomicU32, Ordering};

use quorate::machine::{
    ApprovalOutput, ChildOutput, EntryWrite, FieldError, Machine, OutgoingMessage, ProcedureContext,
    ProcedureEvent, ProcedureOutput, RequestOutput, TaskOutput, Wait,
};
use quorate_core::{AgentId, Destination, MessageType, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Number of panics that are still to come, over all machines of the process. Tests with it run in their own process.
pub(crate) static PANICS: AtomicU32 = AtomicU32::new(0);

/// A step: its output, and the event that it waits for.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ScriptStep {
    /// Asks an agent.
    Ask(String),
    /// Creates tasks of a type, and waits for all of them.
    Tasks(String, usize),
    /// Waits.
    Timer(u64),
    /// Waits for a time that has passed.
    TimerInThePast,
    /// Requests an approval.
    Approve,
    /// Writes a number of memory entries. `ID` in the prefix of their keys is replaced by the id of the procedure.
    Write(String, usize),
    /// Sends messages to an agent.
    Send(String, usize),
    /// Runs a child with these steps.
    Child(Vec<ScriptStep>),
    /// Waits for a signal.
    Signal(String),
    /// Waits for a message.
    Deliver,
    /// Waits for a change of a memory entry.
    Watch(String),
    /// Panics while [`PANICS`] is not 0.
    Panic,
    /// Sets timers in the past forever.
    Loop,
    /// Sets timers in the past, and sends messages to the procedure itself, forever.
    Echo,
    /// Writes entries that it watches forever.
    WatchOwn,
    /// Writes a secret, which the hub refuses.
    Refused,
}

/// The machine, for the first version of the state.
pub(crate) struct Script(Vec<ScriptStep>);
/// The same with a newer version of the state, which it cannot upgrade.
pub(crate) struct NewerScript(Script);
/// The same, which can upgrade the first version.
pub(crate) struct UpgradedScript(Script);

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct ScriptState {
    /// Index of the current step.
    at: usize,
    started: bool,
    /// Time at which the current step started.
    since: u64,
    /// Ends of tasks in the current step.
    ended: Vec<String>,
    /// Last record of the watch.
    seen: u64,
    log: Vec<Value>,
}

impl ScriptStep {
    fn never_ends(&self) -> bool {
        matches!(self, Self::Loop | Self::Echo | Self::WatchOwn)
    }
}

/// Returns the outputs of a step that never ends.
fn looping_outputs(step: &ScriptStep, state: &ScriptState) -> Vec<ProcedureOutput> {
    match step {
        ScriptStep::Echo => vec![
            ProcedureOutput::Timer { id: "echo".into(), due: Timestamp(1) },
            ProcedureOutput::Message(OutgoingMessage {
                id: format!("echo-{}", state.seen),
                to: Destination::Agent(AgentId::new(Script::DRIVER).expect("a valid id")),
                kind: MessageType::Event,
                action: "echo".into(),
                payload: state.seen.to_string().into_bytes(),
            }),
        ],
        ScriptStep::WatchOwn => vec![ProcedureOutput::Watch {
            id: "own".into(),
            prefix: "own/".into(),
            from: Seq(state.seen + 1),
        }],
        _ => vec![ProcedureOutput::Timer { id: "loop".into(), due: Timestamp(1) }],
    }
}

impl Script {
    fn outputs(&self, state: &ScriptState) -> Vec<ProcedureOutput> {
        let at = state.at;
        let Some(step) = self.0.get(at) else {
            return vec![ProcedureOutput::Finish(json!({ "log": state.log }).to_string().into_bytes())];
        };
        match step {
            ScriptStep::Ask(agent) => vec![ProcedureOutput::Request(RequestOutput {
                id: format!("ask-{at}"),
                agent: agent.clone(),
                action: "work".into(),
                payload: json!({ "step": at }).to_string(),
                timeout_ms: 60_000,
                ..RequestOutput::default()
            })],
            ScriptStep::Tasks(task_type, count) => (0..*count)
                .map(|n| format!("task-{at}-{n}"))
                .filter(|id| !state.ended.contains(id))
                .map(|id| {
                    let input = json!({ "id": id }).to_string().into_bytes();
                    ProcedureOutput::Task(TaskOutput {
                        id,
                        task_type: task_type.clone(),
                        input,
                        ..TaskOutput::default()
                    })
                })
                .collect(),
            ScriptStep::Timer(ms) => {
                vec![ProcedureOutput::Timer { id: format!("timer-{at}"), due: Timestamp(state.since + ms) }]
            }
            ScriptStep::TimerInThePast => {
                vec![ProcedureOutput::Timer { id: format!("timer-{at}"), due: Timestamp(1) }]
            }
            ScriptStep::Loop | ScriptStep::Echo | ScriptStep::WatchOwn => looping_outputs(step, state),
            ScriptStep::Approve => vec![ProcedureOutput::Approval(ApprovalOutput {
                id: format!("approval-{at}"),
                action: "publish".into(),
                payload: json!({ "step": at }),
                rationale: None,
                confidence: None,
                default: String::new(),
                timeout_ms: 60_000,
            })],
            ScriptStep::Write(..) | ScriptStep::Refused => Vec::new(),
            ScriptStep::Send(agent, count) => (0..*count)
                .map(|n| {
                    ProcedureOutput::Message(OutgoingMessage {
                        id: format!("message-{at}-{n}"),
                        to: Destination::Agent(AgentId::new(agent).expect("a valid id")),
                        kind: MessageType::Event,
                        action: "note".into(),
                        payload: n.to_string().into_bytes(),
                    })
                })
                .collect(),
            ScriptStep::Child(steps) => vec![ProcedureOutput::Child(ChildOutput {
                id: format!("child-{at}"),
                kind: Self::KIND.into(),
                driver: None,
                spec: serde_json::to_vec(steps).expect("steps are JSON"),
            })],
            ScriptStep::Watch(prefix) => vec![ProcedureOutput::Watch {
                id: format!("watch-{at}"),
                prefix: prefix.clone(),
                from: Seq(state.seen + 1),
            }],
            ScriptStep::Signal(_) | ScriptStep::Deliver | ScriptStep::Panic => Vec::new(),
        }
    }

    /// Enters the current step, and those after it that wait for nothing.
    fn enter(&self, state: &mut ScriptState, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        let mut outputs = Vec::new();
        loop {
            (state.since, state.ended) = (context.now.0, Vec::new());
            let step = self.0.get(state.at);
            outputs.extend(self.outputs(state));
            let write = |key: String, content: &str| {
                let content = content.as_bytes().to_vec();
                ProcedureOutput::Write(EntryWrite { key, entry_type: "note".into(), content, expect: None })
            };
            match step {
                Some(ScriptStep::Write(key, count)) => {
                    let prefix = key.replace("ID", context.id.as_str());
                    let content = json!(context.started_by).to_string();
                    outputs.extend((0..*count).map(|n| write(format!("{prefix}{n}"), &content)));
                }
                Some(ScriptStep::Refused) => {
                    let secret = concat!("\"gh", "p_wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx\"");
                    outputs.push(write("secret".into(), secret));
                }
                Some(ScriptStep::Send(..)) => {}
                Some(ScriptStep::WatchOwn) => {
                    outputs.push(write("own/a".into(), "0"));
                    return outputs;
                }
                _ => return outputs,
            }
            state.at += 1;
        }
    }

    fn next(
        &self,
        state: &mut ScriptState,
        entry: Value,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        state.log.push(entry);
        state.at += 1;
        self.enter(state, context)
    }

    /// Continues a step that never ends.
    fn run_loop(
        &self,
        state: &mut ScriptState,
        event: &ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        match event {
            ProcedureEvent::TimerFired { .. } => {
                state.seen += 1;
                self.outputs(state)
            }
            ProcedureEvent::EntryChanged { seq, .. } => {
                state.seen = seq.0;
                self.enter(state, context)
            }
            _ => vec![ProcedureOutput::Ignored("a step that never ends".into())],
        }
    }

    fn run(
        &self,
        state: &mut ScriptState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        if matches!(self.0.get(state.at), Some(ScriptStep::Panic)) && state.started {
            let left = PANICS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            assert!(left.is_err(), "the script panics");
            return self.next(state, json!("calm"), context);
        }
        let (at, step) = (state.at, self.0.get(state.at));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match (event, step) {
            (ProcedureEvent::Started, _) => {
                state.started = true;
                self.enter(state, context)
            }
            (ProcedureEvent::Resumed, _) => Vec::new(),
            (ProcedureEvent::Answered { request, body, .. }, Some(ScriptStep::Ask(_)))
                if request == format!("ask-{at}") =>
            {
                self.next(state, json!({ "answer": text(&body) }), context)
            }
            (
                ProcedureEvent::RequestFailed { request, reason }
                | ProcedureEvent::RequestUnsent { request, reason },
                Some(ScriptStep::Ask(_)),
            ) if request == format!("ask-{at}") => self.next(state, json!({ "failed": reason }), context),
            (ProcedureEvent::TaskEnded { task, status, result, .. }, Some(ScriptStep::Tasks(_, count)))
                if task.starts_with(&format!("task-{at}-")) && !state.ended.contains(&task) =>
            {
                state.ended.push(task);
                if state.ended.len() < *count {
                    return Vec::new();
                }
                let result = result.map(|result| text(&result));
                self.next(state, json!({ "task": status.as_str(), "result": result }), context)
            }
            (
                ProcedureEvent::TimerFired { timer },
                Some(ScriptStep::Timer(_) | ScriptStep::TimerInThePast),
            ) if timer == format!("timer-{at}") => self.next(state, json!("timer"), context),
            (event, Some(step)) if step.never_ends() => self.run_loop(state, &event, context),
            (ProcedureEvent::Decided { state: decision, reason, action, .. }, Some(ScriptStep::Approve)) => {
                let action = action.map(|action| text(&action));
                self.next(state, json!({ "decision": decision, "reason": reason, "action": action }), context)
            }
            (ProcedureEvent::ChildEnded { status, result, .. }, Some(ScriptStep::Child(_))) => {
                let result = result.map(|result| text(&result));
                self.next(state, json!({ "child": status.as_str(), "result": result }), context)
            }
            (ProcedureEvent::Signalled { name, by, payload }, Some(ScriptStep::Signal(expected)))
                if name == *expected =>
            {
                self.next(state, json!({ "signal": name, "by": by, "payload": payload }), context)
            }
            (ProcedureEvent::Delivered { from, action, payload }, Some(ScriptStep::Deliver)) => self.next(
                state,
                json!({ "from": from, "action": action, "payload": text(&payload) }),
                context,
            ),
            (ProcedureEvent::EntryChanged { seq, key, content, .. }, Some(ScriptStep::Watch(_))) => {
                state.seen = seq.0;
                let content = content.map(|content| text(&content));
                self.next(state, json!({ "key": key, "content": content }), context)
            }
            _ => vec![ProcedureOutput::Ignored("not expected in this step".into())],
        }
    }
}

impl Machine for Script {
    const KIND: &'static str = "script";
    type State = ScriptState;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        serde_json::from_slice(spec).map(Self).map_err(|error| FieldError::new("steps", error.to_string()))
    }

    fn step(
        &self,
        state: &mut ScriptState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        self.run(state, event, context)
    }

    fn pending_outputs(&self, state: &ScriptState, _: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        let mut outputs = Vec::new();
        // Messages of earlier steps may not have been sent yet.
        for at in 0..state.at {
            if let Some(ScriptStep::Send(..)) = self.0.get(at) {
                outputs.extend(self.outputs(&ScriptState { at, ..state.clone() }));
            }
        }
        outputs.extend(self.outputs(state));
        outputs
    }

    fn phase(&self, state: &ScriptState) -> String {
        format!("step {}", state.at)
    }

    fn waits_for(&self, state: &ScriptState) -> Vec<Wait> {
        let at = state.at;
        match self.0.get(at) {
            Some(ScriptStep::Ask(agent)) => {
                vec![Wait::Answer { request: format!("ask-{at}"), agent: agent.clone() }]
            }
            Some(ScriptStep::Signal(name)) => vec![Wait::Signal { name: name.clone() }],
            _ => Vec::new(),
        }
    }
}

macro_rules! newer {
    ($name:ident, $upgrade:expr) => {
        impl Machine for $name {
            const KIND: &'static str = "script";
            const STATE_VERSION: u32 = 2;
            type State = ScriptState;

            fn parse(spec: &[u8]) -> Result<Self, FieldError> {
                Script::parse(spec).map(Self)
            }

            fn upgrade(version: u32, state: Value) -> Option<ScriptState> {
                let upgrade: fn(u32, Value) -> Option<ScriptState> = $upgrade;
                upgrade(version, state)
            }

            fn step(
                &self,
                state: &mut ScriptState,
                event: ProcedureEvent,
                context: &ProcedureContext<'_>,
            ) -> Vec<ProcedureOutput> {
                self.0.run(state, event, context)
            }

            fn pending_outputs(
                &self,
                state: &ScriptState,
                context: &ProcedureContext<'_>,
            ) -> Vec<ProcedureOutput> {
                self.0.pending_outputs(state, context)
            }

            fn phase(&self, state: &ScriptState) -> String {
                self.0.phase(state)
            }

            fn waits_for(&self, state: &ScriptState) -> Vec<Wait> {
                self.0.waits_for(state)
            }
        }
    };
}

newer!(NewerScript, |_, _| None);
newer!(UpgradedScript, |version, state| {
    assert_eq!(version, 1, "the version of the stored state");
    serde_json::from_value(state).ok()
});
