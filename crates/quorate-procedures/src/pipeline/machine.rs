//! Pipeline as a [`Machine`] of the procedure runtime.

use bytes::Bytes;
use quorate_core::{AgentId, Destination, MessageType, ProcedureId};
use serde_json::{Value, json};

use super::PIPELINE_KIND;
use super::handoff::Handoff;
use super::output::{Answer, PhaseOutput};
use super::protocol::{Protocol, Scenario};
use super::requests::{Context, output_key, request, request_id, state_key};
use super::spec::PipelineSpec;
use super::state::{Failure, Job, JobResult, JobStatus, PipelineState, Question};
use crate::finding::FieldError;
use crate::machine::{
    EntryWrite, Machine, OutgoingMessage, ProcedureContext, ProcedureEvent, ProcedureOutput, StartedOutput,
    Wait,
};
use crate::tokens::{self, count_o200k, truncate};

/// Maximum number of attempts of an agent: the first one, and a retry.
const ATTEMPTS_MAX: u32 = 2;

/// The pipeline procedure.
///
/// The full output of each phase is the memory entry `pipelines/{procedure}/{phase}`, that of an item
/// `pipelines/{procedure}/{phase}/{index}`; `pipelines/{procedure}/state` is the shared state of all agents.
pub struct PipelineMachine(PipelineSpec);

/// What the error handler decided.
#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Retry,
    Skip,
    Abort,
}

#[derive(serde::Deserialize)]
struct DecisionAnswer {
    decision: Decision,
    #[serde(default)]
    summary: String,
}

impl PipelineMachine {
    /// Processes the answer or failure of a request. Returns `None` if no job waits for it, otherwise the entry to write.
    fn receive(
        &self,
        state: &mut PipelineState,
        procedure: &ProcedureId,
        id: &str,
        answer: Result<&Bytes, &str>,
    ) -> Option<Vec<ProcedureOutput>> {
        let (phase, index, question) = state.asked().find_map(|(phase, index, job)| {
            let is_asked = request_id(&self.0, phase, index, job) == id;
            match &job.status {
                JobStatus::Asked(question) if is_asked => Some((phase, index, question.clone())),
                _ => None,
            }
        })?;
        let required: Vec<String> = self
            .0
            .required(phase)
            .filter_map(|source| Some(state.jobs(source).first()?.agent.clone()))
            .collect();
        let rebuilt = self.rebuilt_context(state, phase);
        let job = state.phases[phase].as_mut()?.get_mut(index)?;
        match question {
            Question::Work => {
                let key = output_key(procedure, &self.0, phase, index);
                let previous = required.into_iter().next();
                return Some(self.receive_work(job, phase, key, answer, previous, rebuilt));
            }
            Question::Clarify { .. } => self.receive_clarification(job, answer, rebuilt),
            Question::HandleError(reason) => self.receive_decision(job, phase, reason, answer),
        }
        Some(Vec::new())
    }

    /// Processes the answer of the agent that does the work. Returns the entry with its output.
    fn receive_work(
        &self,
        job: &mut Job,
        phase: usize,
        key: String,
        answer: Result<&Bytes, &str>,
        previous: Option<String>,
        rebuilt: String,
    ) -> Vec<ProcedureOutput> {
        match answer.map(|body| Answer::parse(body)) {
            Err(reason) => self.fail_attempt(job, phase, reason),
            Ok(Ok(Answer::Failed(reason))) => self.fail_attempt(job, phase, &reason),
            Ok(Ok(Answer::MissingContext(question))) => match (&job.clarification, previous) {
                (None, Some(agent)) => job.ask(Question::Clarify { agent, question }),
                (None, None) => {
                    job.clarification = Some(rebuilt);
                    job.ask(Question::Work);
                }
                (Some(_), _) => self.fail_attempt(job, phase, &format!("it lacks information: {question}")),
            },
            Ok(Err(error)) => self.reject(job, phase, &error.to_string()),
            Ok(Ok(Answer::Output(output))) => match output.check(self.0.is_handed_over(phase)).err() {
                Some(error) if job.wrong.is_none() => {
                    job.wrong = Some(error.to_string());
                    job.ask(Question::Work);
                }
                wrong => {
                    let status = if wrong.is_none() { JobStatus::Done } else { JobStatus::Partial };
                    return vec![self.complete(job, phase, key, output, status)];
                }
            },
        }
        Vec::new()
    }

    /// Passes the answer of an earlier agent on. Without one the context is rebuilt from the state.
    fn receive_clarification(&self, job: &mut Job, answer: Result<&Bytes, &str>, rebuilt: String) {
        let text = answer.ok().and_then(|body| match Answer::parse(body) {
            Ok(Answer::Output(output)) => Some(output.summary).filter(|text| !text.is_empty()),
            Ok(Answer::Failed(_) | Answer::MissingContext(_)) | Err(_) => None,
        });
        job.clarification = Some(self.cut(text.unwrap_or(rebuilt)));
        job.ask(Question::Work);
    }

    /// Applies the decision of the error handler. Without one the job has failed.
    fn receive_decision(&self, job: &mut Job, phase: usize, reason: String, answer: Result<&Bytes, &str>) {
        let decided = answer.ok().and_then(|body| serde_json::from_slice::<DecisionAnswer>(body).ok());
        match decided {
            Some(DecisionAnswer { decision: Decision::Retry, .. }) => {
                (job.failures, job.wrong) = (0, None);
                job.agent.clone_from(&self.0.phases[phase].agents[0]);
                job.ask(Question::Work);
            }
            Some(DecisionAnswer { decision: Decision::Skip, summary }) => {
                let why = if summary.is_empty() { reason } else { format!("{reason}; {summary}") };
                job.status = JobStatus::Skipped(why);
            }
            Some(DecisionAnswer { decision: Decision::Abort, .. }) | None => {
                job.status = JobStatus::Failed(reason);
            }
        }
    }

    /// Counts a failed attempt: the agent is asked once more, then the fallback; then the error handler decides.
    fn fail_attempt(&self, job: &mut Job, phase: usize, reason: &str) {
        job.failures += 1;
        let of_phase = &self.0.phases[phase];
        if job.failures < ATTEMPTS_MAX {
            return job.ask(Question::Work);
        }
        if let Some(fallback) = of_phase.fallback.as_ref().filter(|fallback| **fallback != job.agent) {
            job.agent.clone_from(fallback);
            (job.failures, job.wrong) = (0, None);
            return job.ask(Question::Work);
        }
        let reason = format!("{}: {reason}", job.agent);
        // The handler decides once: a retry that fails as well ends the pipeline.
        let was_handled = job.requests > 3 * ATTEMPTS_MAX;
        match &self.0.error_handler {
            Some(_) if !was_handled => job.ask(Question::HandleError(reason)),
            Some(_) | None => job.status = JobStatus::Failed(reason),
        }
    }

    /// Asks again for an answer that is not an output, and counts the second one as a failure.
    fn reject(&self, job: &mut Job, phase: usize, reason: &str) {
        if job.wrong.is_none() {
            job.wrong = Some(reason.to_owned());
            job.ask(Question::Work);
        } else {
            self.fail_attempt(job, phase, reason);
        }
    }

    fn complete(
        &self,
        job: &mut Job,
        phase: usize,
        key: String,
        mut output: PhaseOutput,
        status: JobStatus,
    ) -> ProcedureOutput {
        if output.next_action.is_empty() && self.0.is_handed_over(phase) {
            // A partial output: the next phase at least learns what it is.
            output.next_action = "continue with your phase".into();
        }
        let budget = self.0.limits.handoff_tokens as usize;
        let handoff = Handoff::of_output(&output, key.clone(), budget);
        let kept = self.0.kept_fields(phase).into_iter();
        let fields =
            kept.filter_map(|name| Some((name.to_owned(), output.fields.get(name)?.clone()))).collect();
        let content = serde_json::to_vec(&output.fields).unwrap_or_default();
        job.result = Some(JobResult { handoff, fields });
        job.status = status;
        (job.wrong, job.clarification) = (None, None);
        ProcedureOutput::Write(EntryWrite { key, entry_type: "phase-output".into(), content, expect: None })
    }

    /// Rebuilds the context of a phase from the state: everything that the required phases handed over.
    fn rebuilt_context(&self, state: &PipelineState, phase: usize) -> String {
        let results = self
            .0
            .required(phase)
            .flat_map(|source| state.jobs(source))
            .filter_map(|job| job.result.as_ref());
        let lines = results.map(|result| {
            let Handoff { summary, key_findings, next_action, output_ref, .. } = &result.handoff;
            format!("{summary}\n{}\nNext: {next_action}\nFull output: {output_ref}", key_findings.join("\n"))
        });
        self.cut(lines.collect::<Vec<_>>().join("\n\n"))
    }

    fn cut(&self, text: String) -> String {
        truncate(&text, self.0.limits.handoff_tokens as usize, count_o200k).unwrap_or(text)
    }

    /// Starts phases and asks agents, or ends the pipeline.
    fn advance(&self, state: &mut PipelineState) {
        if state.failure.is_some() {
            return;
        }
        loop {
            let failed = state.phases.iter().enumerate().find_map(|(phase, jobs)| {
                jobs.iter().flatten().find_map(|job| match &job.status {
                    JobStatus::Failed(reason) => {
                        Some(Failure { phase: self.0.phases[phase].name.clone(), reason: reason.clone() })
                    }
                    _ => None,
                })
            });
            if let Some(failure) = failed {
                state.failure = Some(failure);
                return;
            }
            match state.start_ready_phases(&self.0) {
                Ok(started) => {
                    let shared = started.iter().filter(|phase| self.is_shared(state, **phase));
                    state.broadcasts.extend(shared.copied().collect::<Vec<_>>());
                    // A phase without items has ended already, which may make others ready.
                    if started.iter().any(|phase| state.has_ended(*phase)) {
                        continue;
                    }
                }
                Err(failure) => state.failure = Some(failure),
            }
            if let Err(failure) = state.ask_waiting_jobs(&self.0) {
                state.failure = Some(failure);
            }
            return;
        }
    }

    /// Whether several agents work on a phase and need the same context.
    fn is_shared(&self, state: &PipelineState, phase: usize) -> bool {
        let is_parallel = self.0.phases[phase].agents.len() > 1 && state.jobs(phase).len() > 1;
        is_parallel && Scenario::ParallelAgents.protocol() == Protocol::Broadcast
    }

    fn has_ended(&self, state: &PipelineState) -> bool {
        state.failure.is_some()
            || (state.phases.len() == self.0.phases.len()
                && (0..self.0.phases.len()).all(|phase| state.has_ended(phase)))
    }

    /// The broadcast of the common context to the agents of a phase.
    fn broadcast(
        &self,
        procedure: &ProcedureId,
        state: &PipelineState,
        phase: usize,
    ) -> Option<OutgoingMessage> {
        let of_phase = &self.0.phases[phase];
        let agents = of_phase.agents.iter().map(AgentId::new).collect::<Result<Vec<_>, _>>().ok()?;
        let context = Context::of_phase(procedure, &self.0, state, phase);
        let content = format!("phase {} starts with {} items", of_phase.name, state.jobs(phase).len());
        let payload = json!({
            "type": "phase_started",
            "content": content,
            "priority": "medium",
            "action_required": false,
            "objective": self.0.objective,
            "context": context.fields,
        });
        Some(OutgoingMessage {
            id: format!("{}:broadcast", of_phase.name),
            to: Destination::Agents(agents),
            kind: MessageType::Event,
            action: "context_update".into(),
            payload: payload.to_string().into_bytes(),
        })
    }

    /// The shared state of the agents, in the form of the orchestrator dialect.
    fn shared_state(&self, procedure: &ProcedureId, state: &PipelineState) -> Value {
        let mut artifacts = Vec::new();
        let mut blockers = Vec::new();
        let mut agents = serde_json::Map::new();
        for (phase, of_phase) in self.0.phases.iter().enumerate() {
            for job in state.jobs(phase) {
                let status = match &job.status {
                    JobStatus::Waiting => "waiting",
                    JobStatus::Asked(_) => "in_progress",
                    JobStatus::Done | JobStatus::Partial => "completed",
                    JobStatus::Skipped(_) => "skipped",
                    JobStatus::Failed(_) => "failed",
                };
                if let JobStatus::Skipped(reason) | JobStatus::Failed(reason) = &job.status {
                    blockers.push(json!({ "phase": of_phase.name, "blocker": reason }));
                }
                let mut entry = json!({ "status": status, "current_task": of_phase.name });
                if let Some(result) = &job.result {
                    let path = &result.handoff.output_ref;
                    artifacts.push(json!({ "type": "phase-output", "path": path, "by": job.agent }));
                    entry["output_ref"] = json!(path);
                }
                agents.insert(job.agent.clone(), entry);
            }
        }
        let current = (0..self.0.phases.len()).filter(|phase| state.has_ended(*phase)).count();
        json!({
            "taskId": procedure.to_string(),
            "currentPhase": (current + 1).min(self.0.phases.len()),
            "sharedContext": {
                "objective": self.0.objective,
                "keyDecisions": [],
                "artifacts": artifacts,
                "blockers": blockers,
                "notes": [],
            },
            "agentStates": agents,
        })
    }

    fn result(&self, procedure: &ProcedureId, state: &PipelineState) -> ProcedureOutput {
        let phases: Vec<Value> = self
            .0
            .phases
            .iter()
            .enumerate()
            .map(|(phase, of_phase)| {
                let jobs: Vec<Value> = state.jobs(phase).iter().map(job_report).collect();
                let context = Context::of_phase(procedure, &self.0, state, phase);
                json!({
                    "phase": of_phase.name,
                    "jobs": jobs,
                    "tokens_received": context.tokens,
                    "tokens_of_sources": context.original_tokens,
                })
            })
            .collect();
        let mut result = json!({ "objective": self.0.objective, "phases": phases });
        match &state.failure {
            None => ProcedureOutput::Finish(result.to_string().into_bytes()),
            Some(Failure { phase, reason }) => {
                result["reason"] = json!(format!("phase {phase}: {reason}"));
                ProcedureOutput::Fail(result.to_string().into_bytes())
            }
        }
    }

    /// Returns all requests and broadcasts that the state implies.
    fn pending(&self, state: &PipelineState, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        let broadcasts =
            state.broadcasts.iter().filter_map(|phase| self.broadcast(context.id, state, *phase));
        let requests = state.asked().filter_map(|asked| request(context.id, &self.0, state, asked));
        let broadcasts = broadcasts.map(ProcedureOutput::Message);
        broadcasts.chain(requests.map(ProcedureOutput::Request)).collect()
    }
}

fn job_report(job: &Job) -> Value {
    let (status, reason) = match &job.status {
        JobStatus::Waiting | JobStatus::Asked(_) => ("unfinished", None),
        JobStatus::Done => ("done", None),
        JobStatus::Partial => ("partial", None),
        JobStatus::Skipped(reason) => ("skipped", Some(reason)),
        JobStatus::Failed(reason) => ("failed", Some(reason)),
    };
    let mut report = json!({ "agent": job.agent, "status": status, "requests": job.requests });
    if let Some(id) = job.item.as_ref().and_then(|item| item.get("id")) {
        report["item"] = id.clone();
    }
    if let Some(reason) = reason {
        report["reason"] = json!(reason);
    }
    if let Some(JobResult { handoff, .. }) = &job.result {
        report["summary"] = json!(handoff.summary);
        report["output_ref"] = json!(handoff.output_ref);
        report["tokens"] = json!(handoff.tokens_used);
    }
    report
}

impl Machine for PipelineMachine {
    const KIND: &'static str = PIPELINE_KIND;
    const GUIDE: &'static str = "docs/guides/pipelines.md";

    type State = PipelineState;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        PipelineSpec::parse(spec).map(Self)
    }

    fn step(
        &self,
        state: &mut PipelineState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        let id_of = |(phase, index, job): (usize, usize, &Job)| request_id(&self.0, phase, index, job);
        let before: Vec<String> = state.asked().map(id_of).collect();
        let broadcasts = state.broadcasts.len();
        let mut outputs = match &event {
            ProcedureEvent::Started => Vec::new(),
            ProcedureEvent::Resumed => return Vec::new(),
            ProcedureEvent::Answered { request, body, .. } => {
                match self.receive(state, context.id, request, Ok(body)) {
                    Some(outputs) => outputs,
                    None => {
                        return vec![ProcedureOutput::Ignored("an answer that no phase waits for".into())];
                    }
                }
            }
            ProcedureEvent::RequestUnsent { request, reason }
            | ProcedureEvent::RequestFailed { request, reason } => {
                match self.receive(state, context.id, request, Err(reason)) {
                    Some(outputs) => outputs,
                    None => {
                        return vec![ProcedureOutput::Ignored("a failure that no phase waits for".into())];
                    }
                }
            }
            ProcedureEvent::TaskEnded { .. }
            | ProcedureEvent::Decided { .. }
            | ProcedureEvent::Delivered { .. }
            | ProcedureEvent::EntryChanged { .. }
            | ProcedureEvent::TimerFired { .. }
            | ProcedureEvent::ChildEnded { .. }
            | ProcedureEvent::Signalled { .. } => {
                return vec![ProcedureOutput::Ignored("a pipeline handles answers only".into())];
            }
        };
        self.advance(state);
        outputs.push(ProcedureOutput::Write(EntryWrite {
            key: state_key(context.id),
            entry_type: "shared-state".into(),
            content: self.shared_state(context.id, state).to_string().into_bytes(),
            expect: None,
        }));
        if self.has_ended(state) {
            let open: Vec<String> = state.asked().map(id_of).filter(|id| before.contains(id)).collect();
            outputs.extend(open.into_iter().map(|id| ProcedureOutput::Cancel(StartedOutput::Request(id))));
            outputs.push(self.result(context.id, state));
            return outputs;
        }
        let new = state.broadcasts[broadcasts..].iter();
        outputs.extend(
            new.filter_map(|phase| self.broadcast(context.id, state, *phase)).map(ProcedureOutput::Message),
        );
        let asked = state.asked().filter(|asked| !before.contains(&id_of(*asked)));
        outputs.extend(
            asked
                .filter_map(|asked| request(context.id, &self.0, state, asked))
                .map(ProcedureOutput::Request),
        );
        outputs
    }

    fn pending_outputs(&self, state: &PipelineState, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        if self.has_ended(state) {
            return vec![self.result(context.id, state)];
        }
        self.pending(state, context)
    }

    fn phase(&self, state: &PipelineState) -> String {
        if state.phases.is_empty() {
            return "new".into();
        }
        let running = (0..self.0.phases.len())
            .filter(|phase| !state.jobs(*phase).is_empty() && !state.has_ended(*phase))
            .map(|phase| self.0.phases[phase].name.as_str());
        let running: Vec<&str> = running.collect();
        if running.is_empty() { "ended".into() } else { running.join(", ") }
    }

    fn waits_for(&self, state: &PipelineState) -> Vec<Wait> {
        if self.has_ended(state) {
            return Vec::new();
        }
        let wait = |(phase, index, job): (usize, usize, &Job)| {
            let agent = match &job.status {
                JobStatus::Asked(Question::Work) => job.agent.clone(),
                JobStatus::Asked(Question::Clarify { agent, .. }) => agent.clone(),
                JobStatus::Asked(Question::HandleError(_)) => self.0.error_handler.clone()?,
                _ => return None,
            };
            Some(Wait::Answer { request: request_id(&self.0, phase, index, job), agent })
        };
        state.asked().filter_map(wait).collect()
    }

    /// Loads the vocabulary of the token counter, which takes a moment, while the agents work.
    fn prepare(&self) {
        tokens::preload();
    }
}
