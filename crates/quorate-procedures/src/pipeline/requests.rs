//! Requests of a pipeline: ids and payloads. Everything follows from the state, so that a run that is resumed asks for exactly
//! what is missing.

use quorate_core::ProcedureId;
use serde_json::{Map, Value, json};

use super::handoff::Handoff;
use super::protocol::{Protocol, Scenario};
use super::spec::PipelineSpec;
use super::state::{Job, JobStatus, PipelineState, Question};
use super::{CLARIFY, HANDLE_ERROR};
use crate::machine::{RequestKind, RequestOutput};
use crate::tokens::count_o200k;

/// How an agent states its output, in the instructions of every phase.
const OUTPUT_CONTRACT: &str = "\
Answer with a JSON object: `summary` is your result in a few sentences, `key_findings` a list of what the next agent has to know, \
`next_action` what it should do. Put everything else into further fields; they are stored, and large ones are handed over by \
reference. If you lack information without which you cannot work, answer only `{\"missing_context\": \"QUESTION\"}`. If the request \
contains `wrong`, your previous answer was rejected for that reason: correct it.";
/// Instructions for the agent of an earlier phase.
const TO_CLARIFY: &str = "\
The next agent of the pipeline lacks information. Answer its `question` from your earlier work: `{\"text\": \"…\"}`.";
/// Instructions for the error handler.
const TO_HANDLE_ERROR: &str = "\
An agent of the pipeline failed. Decide what happens: `{\"decision\": \"retry\" | \"skip\" | \"abort\", \"summary\": \"why\"}`. \
`skip` continues without its output.";

/// Returns the id of the current request of a job.
pub(super) fn request_id(spec: &PipelineSpec, phase: usize, index: usize, job: &Job) -> String {
    format!("{}:{index}:{}", spec.phases[phase].name, job.requests)
}

/// Key of the memory entry with the full output of a job.
pub(super) fn output_key(procedure: &ProcedureId, spec: &PipelineSpec, phase: usize, index: usize) -> String {
    let name = &spec.phases[phase].name;
    match spec.phases[phase].each {
        None => format!("pipelines/{procedure}/{name}"),
        Some(_) => format!("pipelines/{procedure}/{name}/{index}"),
    }
}

/// Key of the memory entry with the shared state.
pub(super) fn state_key(procedure: &ProcedureId) -> String {
    format!("pipelines/{procedure}/state")
}

/// What a phase receives from the phases that it requires, within the budget of a handoff.
pub(super) struct Context {
    pub(super) fields: Map<String, Value>,
    /// Tokens of the context.
    pub(super) tokens: usize,
    /// Tokens of the outputs that it stands for.
    pub(super) original_tokens: usize,
}

impl Context {
    pub(super) fn of_phase(
        procedure: &ProcedureId,
        spec: &PipelineSpec,
        state: &PipelineState,
        phase: usize,
    ) -> Self {
        let budget = spec.limits.handoff_tokens as usize;
        let sources: Vec<(usize, usize, &super::state::JobResult)> = spec
            .required(phase)
            .flat_map(|source| {
                let jobs = state.jobs(source).iter().enumerate();
                jobs.filter_map(move |(index, job)| Some((source, index, job.result.as_ref()?)))
            })
            .collect();
        let original_tokens = sources.iter().map(|(_, _, result)| result.handoff.tokens_used).sum();
        let handoffs: Vec<Handoff> = sources.iter().map(|(_, _, result)| result.handoff.clone()).collect();
        let mut fields = combined(handoffs, budget);
        let required: Vec<&str> =
            spec.required(phase).map(|source| spec.phases[source].name.as_str()).collect();
        fields.insert("requires".into(), json!(required));
        let each = spec.phases[phase].each.as_ref();
        for (source, index, result) in sources {
            for (name, value) in &result.fields {
                // The items are distributed, not repeated in every handoff.
                let is_item_list = each
                    .is_some_and(|each| spec.index_of(&each.phase) == Some(source) && each.field == *name);
                if !is_item_list {
                    let reference = output_key(procedure, spec, source, index);
                    insert_field(&mut fields, &spec.phases[source].name, name, value, &reference, budget);
                }
            }
        }
        let tokens = count(&fields);
        Self { fields, tokens, original_tokens }
    }
}

/// Combines the handoffs of several jobs: first the summaries, then the findings, as many as fit.
fn combined(handoffs: Vec<Handoff>, budget: usize) -> Map<String, Value> {
    let share = budget / handoffs.len().max(1);
    let mut references = Vec::new();
    let mut whole = Handoff::default();
    for handoff in handoffs {
        let handoff = handoff.within(share);
        let is_first = whole.summary.is_empty();
        whole.summary = if is_first { handoff.summary } else { whole.summary + "\n" + &handoff.summary };
        whole.key_findings.extend(handoff.key_findings);
        if !handoff.next_action.is_empty() {
            whole.next_action = handoff.next_action;
        }
        whole.tokens_used += handoff.tokens_used;
        references.push(handoff.output_ref);
    }
    whole.output_ref = references.first().cloned().unwrap_or_default();
    let whole = whole.within(budget);
    let mut fields = match serde_json::to_value(whole) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    if references.len() > 1 {
        fields.insert("output_refs".into(), json!(references));
        if count(&fields) > budget {
            // Their common prefix leads to all of them.
            fields.remove("output_refs");
        }
    }
    fields
}

/// Adds a field that a phase hands over, or a reference to it if it does not fit.
fn insert_field(
    context: &mut Map<String, Value>,
    phase: &str,
    name: &str,
    value: &Value,
    output_ref: &str,
    budget: usize,
) {
    let reference =
        json!({ "output_ref": output_ref, "field": name, "tokens": count_o200k(&value.to_string()) });
    for candidate in [value, &reference] {
        let mut extended = context.clone();
        let fields = extended.entry("fields").or_insert_with(|| json!({}));
        let of_phase = &mut fields[phase];
        match of_phase.get_mut(name) {
            // The outputs of several items: their lists are joined.
            Some(Value::Array(list)) if candidate.is_array() => {
                list.extend(candidate.as_array().into_iter().flatten().cloned());
            }
            Some(_) => {}
            None => of_phase[name] = candidate.clone(),
        }
        if count(&extended) <= budget {
            *context = extended;
            return;
        }
    }
}

fn count(fields: &Map<String, Value>) -> usize {
    count_o200k(&serde_json::to_string(fields).unwrap_or_default())
}

/// Returns the open request of a job, with the protocol's metadata for the communication log.
pub(super) fn request(
    procedure: &ProcedureId,
    spec: &PipelineSpec,
    state: &PipelineState,
    (phase, index, job): (usize, usize, &Job),
) -> Option<RequestOutput> {
    let JobStatus::Asked(question) = &job.status else { return None };
    let of_phase = &spec.phases[phase];
    let mut metadata = json!({ "state_snapshot": state_key(procedure) });
    let (scenario, agent, action, mut payload) = match question {
        Question::Work => {
            let context = Context::of_phase(procedure, spec, state, phase);
            if context.original_tokens > 0 {
                metadata["tokensTransferred"] = json!(context.tokens);
                let ratio = context.tokens as f64 / context.original_tokens as f64;
                metadata["compressionRatio"] = json!((ratio * 1e4).round() / 1e4);
            }
            (Scenario::SequentialPhases, &job.agent, of_phase.name.as_str(), work(spec, phase, job, context))
        }
        Question::Clarify { agent, question } => {
            let payload = json!({
                "instructions": TO_CLARIFY,
                "question": question,
                "context": format!("phase {} of the pipeline", of_phase.name),
                "urgency": "medium",
                "expected_format": "text",
            });
            (Scenario::MissingInformation, agent, CLARIFY, payload)
        }
        Question::HandleError(reason) => {
            let handler = spec.error_handler.as_ref()?;
            let payload = json!({
                "instructions": TO_HANDLE_ERROR,
                "phase": of_phase.name,
                "agent": job.agent,
                "reason": reason,
                "summary": format!("phase {} failed: {reason}", of_phase.name),
                "next_action": "decide whether to retry, skip or abort",
                "answer": {
                    "type": "object",
                    "properties": {
                        "decision": { "enum": ["retry", "skip", "abort"] },
                        "summary": { "type": "string" },
                    },
                    "required": ["decision"],
                },
            });
            (Scenario::AgentError, handler, HANDLE_ERROR, payload)
        }
    };
    payload["objective"] = json!(spec.objective);
    let kind = match scenario.protocol() {
        Protocol::Handoff => RequestKind::Command,
        Protocol::Query | Protocol::Broadcast => RequestKind::Query,
    };
    Some(RequestOutput {
        id: request_id(spec, phase, index, job),
        agent: agent.clone(),
        action: action.to_owned(),
        payload: payload.to_string(),
        timeout_ms: of_phase.answer_ms.unwrap_or(spec.limits.answer_ms),
        kind,
        metadata: Some(metadata.to_string()),
    })
}

fn work(spec: &PipelineSpec, phase: usize, job: &Job, context: Context) -> Value {
    let of_phase = &spec.phases[phase];
    let mut payload = Value::Object(context.fields);
    payload["phase"] = json!(of_phase.name);
    let own = of_phase.instructions.trim();
    payload["instructions"] = json!(format!("{own}\n\n{OUTPUT_CONTRACT}").trim_start());
    if let Some(answer) = &of_phase.answer {
        payload["answer"] = answer.clone();
    }
    if spec.required(phase).next().is_none() && !spec.input.is_null() {
        payload["input"] = spec.input.clone();
    }
    if let Some(item) = &job.item {
        payload["item"] = item.clone();
    }
    if let Some(wrong) = &job.wrong {
        payload["wrong"] = json!(wrong);
    }
    if let Some(clarification) = &job.clarification {
        payload["clarification"] = json!(clarification);
    }
    payload
}
