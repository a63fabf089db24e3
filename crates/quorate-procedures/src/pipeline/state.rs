//! State of a pipeline: the jobs of each phase, and what they handed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::handoff::Handoff;
use super::spec::{PhaseSpec, PipelineSpec};

/// Maximum number of items of a phase of a pipeline.
pub(super) const ITEMS_MAX: usize = 1_000;

/// State of a pipeline.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PipelineState {
    /// Jobs by phase; `None` if the phase has not started.
    pub(super) phases: Vec<Option<Vec<Job>>>,
    /// Why the pipeline failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Failure>,
    /// Phases whose agents got a broadcast of the common context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) broadcasts: Vec<usize>,
}

/// Why a pipeline failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) phase: String,
    pub(super) reason: String,
}

/// One piece of work: a phase, or one of its items.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// The item; `None` if the phase has no items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<Value>,
    /// The agent that does the work.
    pub(super) agent: String,
    pub(super) status: JobStatus,
    /// Number of requests so far; part of the id of the current one.
    pub(super) requests: u32,
    /// Number of failed attempts of the current agent.
    #[serde(default)]
    pub(super) failures: u32,
    /// Why the last answer was invalid, for the agent that is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wrong: Option<String>,
    /// Information that the agent had asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clarification: Option<String>,
    /// What was handed over, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<JobResult>,
}

/// Status of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobStatus {
    /// Items that it requires are not done, or there are enough open requests.
    Waiting,
    /// A request is open.
    Asked(Question),
    /// Done.
    Done,
    /// Done with an output that was invalid, of which the valid part is used.
    Partial,
    /// Left out by the error handler.
    Skipped(String),
    /// Failed.
    Failed(String),
}

/// What an agent was asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    /// To do the work.
    Work,
    /// The agent of an earlier phase, for missing context.
    Clarify { agent: String, question: String },
    /// The error handler, what to do about a failure.
    HandleError(String),
}

/// The result of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct JobResult {
    pub(super) handoff: Handoff,
    /// Fields that are handed over unchanged, and lists of items.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fields: BTreeMap<String, Value>,
}

impl Job {
    fn new(item: Option<Value>, agent: &str) -> Self {
        Self {
            item,
            agent: agent.to_owned(),
            status: JobStatus::Waiting,
            requests: 0,
            failures: 0,
            wrong: None,
            clarification: None,
            result: None,
        }
    }

    /// Asks a question. Its request gets a new id.
    pub(super) fn ask(&mut self, question: Question) {
        self.requests += 1;
        self.status = JobStatus::Asked(question);
    }

    /// Whether no further work is to be expected.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.status, JobStatus::Waiting | JobStatus::Asked(_))
    }

    /// Id of the item, if it has one.
    fn item_id(&self) -> Option<&str> {
        self.item.as_ref()?.get("id")?.as_str()
    }

    /// Ids of the items that must be done first.
    fn required_items(&self) -> impl Iterator<Item = &str> {
        let required = self.item.as_ref().and_then(|item| item.get("requires")).and_then(Value::as_array);
        required.into_iter().flatten().filter_map(Value::as_str)
    }
}

impl PipelineState {
    /// Returns the jobs of a phase; none if it has not started.
    pub(super) fn jobs(&self, phase: usize) -> &[Job] {
        self.phases.get(phase).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Whether all jobs of a phase have ended.
    pub(super) fn has_ended(&self, phase: usize) -> bool {
        self.phases.get(phase).is_some_and(Option::is_some) && self.jobs(phase).iter().all(Job::has_ended)
    }

    /// Returns the open requests: phase, index of the job, and the job.
    pub(super) fn asked(&self) -> impl Iterator<Item = (usize, usize, &Job)> {
        self.phases.iter().enumerate().flat_map(|(phase, jobs)| {
            let jobs = jobs.iter().flatten().enumerate();
            jobs.filter(|(_, job)| matches!(job.status, JobStatus::Asked(_)))
                .map(move |(index, job)| (phase, index, job))
        })
    }

    /// Starts the phases whose requirements are done. Returns those that were started.
    ///
    /// # Errors
    /// If a phase has no list of items to work on.
    pub(super) fn start_ready_phases(&mut self, spec: &PipelineSpec) -> Result<Vec<usize>, Failure> {
        self.phases.resize(spec.phases.len(), None);
        let is_ready = |index: &usize| {
            self.phases[*index].is_none() && spec.required(*index).all(|required| self.has_ended(required))
        };
        let ready: Vec<usize> = (0..spec.phases.len()).filter(is_ready).collect();
        for index in &ready {
            let phase = &spec.phases[*index];
            let jobs = match &phase.each {
                None => vec![Job::new(None, &phase.agents[0])],
                Some(_) => {
                    let failure = |reason| Failure { phase: phase.name.clone(), reason };
                    let items = self.items(spec, phase).map_err(failure)?;
                    let agents = phase.agents.iter().cycle();
                    items.into_iter().zip(agents).map(|(item, agent)| Job::new(Some(item), agent)).collect()
                }
            };
            self.phases[*index] = Some(jobs);
        }
        Ok(ready)
    }

    /// Returns the items of a phase.
    fn items(&self, spec: &PipelineSpec, phase: &PhaseSpec) -> Result<Vec<Value>, String> {
        let Some(each) = &phase.each else { return Ok(Vec::new()) };
        let source = spec.index_of(&each.phase).map_or(&[][..], |source| self.jobs(source));
        let mut items = Vec::new();
        for job in source {
            let list = job.result.as_ref().and_then(|result| result.fields.get(&each.field));
            match list {
                Some(Value::Array(list)) => items.extend(list.iter().cloned()),
                Some(_) => return Err(format!("{}.{} is not a list", each.phase, each.field)),
                None => return Err(format!("the output of {} has no field {:?}", each.phase, each.field)),
            }
        }
        if items.len() > ITEMS_MAX {
            let (phase, field, count) = (&each.phase, &each.field, items.len());
            return Err(format!("{phase}.{field} has {count} items, at most {ITEMS_MAX} are possible"));
        }
        Ok(items)
    }

    /// Asks for waiting jobs whose required items are done, up to the limit of open requests.
    ///
    /// # Errors
    /// If items require each other, or one that does not exist.
    pub(super) fn ask_waiting_jobs(&mut self, spec: &PipelineSpec) -> Result<(), Failure> {
        let mut free = (spec.limits.parallel as usize).saturating_sub(self.asked().count());
        for (phase, jobs) in self.phases.iter_mut().enumerate() {
            let Some(jobs) = jobs else { continue };
            let ended: Vec<String> = { jobs.iter().filter(|job| job.has_ended()) }
                .filter_map(|job| job.item_id().map(ToOwned::to_owned))
                .collect();
            let is_open = jobs.iter().any(|job| matches!(job.status, JobStatus::Asked(_)));
            let mut is_asked = is_open;
            let mut waits = None;
            for job in jobs.iter_mut().filter(|job| job.status == JobStatus::Waiting) {
                let missing = job.required_items().find(|id| !ended.iter().any(|ended| ended == id));
                if let Some(missing) = missing {
                    waits = Some(missing.to_owned());
                } else if free > 0 {
                    free -= 1;
                    is_asked = true;
                    job.ask(Question::Work);
                } else {
                    is_asked = true;
                }
            }
            if let Some(missing) = waits.filter(|_| !is_asked) {
                let reason =
                    format!("items wait for item {missing:?}, which waits for them or does not exist");
                return Err(Failure { phase: spec.phases[phase].name.clone(), reason });
            }
        }
        Ok(())
    }
}
