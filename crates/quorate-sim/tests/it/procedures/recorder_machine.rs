//! A machine that starts one output of each kind and records every event. The signal `stop` cancels them, the signal
//! `end` finishes it with the events.

use std::collections::BTreeSet;

use quorate::machine::{
    ChildOutput, FieldError, Machine, ProcedureContext, ProcedureEvent, ProcedureOutput, RequestOutput,
    StartedOutput, TaskOutput, Wait,
};
use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::script_machine::ScriptStep;

/// Time until the timer is due.
pub(crate) const TIMER_MS: u64 = 60_000;

pub(crate) struct Recorder;

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct RecorderState {
    since: u64,
    stopped: bool,
    finished: bool,
    /// Outputs that have ended.
    ended: BTreeSet<String>,
    events: Vec<String>,
}

fn finish(state: &RecorderState) -> ProcedureOutput {
    ProcedureOutput::Finish(serde_json::to_vec(&state.events).expect("texts are JSON"))
}

impl Machine for Recorder {
    const KIND: &'static str = "recorder";
    type State = RecorderState;

    fn parse(_: &[u8]) -> Result<Self, FieldError> {
        Ok(Self)
    }

    fn step(
        &self,
        state: &mut RecorderState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        let (output, name) = match event {
            ProcedureEvent::Started => {
                state.since = context.now.0;
                return self.pending_outputs(state, context);
            }
            ProcedureEvent::Signalled { name, .. } if name == "stop" => {
                state.stopped = true;
                let all = [
                    StartedOutput::Request("r".into()),
                    StartedOutput::Task("t".into()),
                    StartedOutput::Child("c".into()),
                    StartedOutput::Timer("timer".into()),
                    // It was never started.
                    StartedOutput::Task("unknown".into()),
                ];
                return all.map(ProcedureOutput::Cancel).to_vec();
            }
            ProcedureEvent::Signalled { .. } => {
                state.finished = true;
                return vec![finish(state)];
            }
            ProcedureEvent::Answered { request, .. } => (request, "answered"),
            ProcedureEvent::RequestUnsent { request, .. } => (request, "unsent"),
            ProcedureEvent::RequestFailed { request, .. } => (request, "failed"),
            ProcedureEvent::TaskEnded { task, status, .. } => (task, status.as_str()),
            ProcedureEvent::ChildEnded { child, status, .. } => (child, status.as_str()),
            ProcedureEvent::TimerFired { timer } => (timer, "fired"),
            ProcedureEvent::Resumed
            | ProcedureEvent::Decided { .. }
            | ProcedureEvent::Delivered { .. }
            | ProcedureEvent::EntryChanged { .. } => return Vec::new(),
        };
        state.events.push(format!("{output} {name}"));
        state.ended.insert(output);
        Vec::new()
    }

    fn pending_outputs(&self, state: &RecorderState, _: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        if state.finished {
            return vec![finish(state)];
        }
        let asks = serde_json::to_vec(&[ScriptStep::Ask("ada".into())]).expect("steps are JSON");
        let outputs = [
            ProcedureOutput::Request(RequestOutput {
                id: "r".into(),
                agent: "ada".into(),
                action: "work".into(),
                payload: "{}".into(),
                timeout_ms: 600_000,
                ..RequestOutput::default()
            }),
            ProcedureOutput::Task(TaskOutput {
                id: "t".into(),
                task_type: "sum".into(),
                ..TaskOutput::default()
            }),
            ProcedureOutput::Child(ChildOutput {
                id: "c".into(),
                kind: "script".into(),
                driver: None,
                spec: asks,
            }),
            ProcedureOutput::Timer { id: "timer".into(), due: Timestamp(state.since + TIMER_MS) },
        ];
        let ids = ["r", "t", "c", "timer"];
        let open = |(id, _): &(&str, ProcedureOutput)| !state.stopped && !state.ended.contains(*id);
        ids.into_iter().zip(outputs).filter(open).map(|(_, output)| output).collect()
    }

    fn phase(&self, state: &RecorderState) -> String {
        match state.stopped {
            true => "stopped".into(),
            false => format!("{} events", state.events.len()),
        }
    }

    fn waits_for(&self, _: &RecorderState) -> Vec<Wait> {
        vec![Wait::Signal { name: "end".into() }]
    }
}
