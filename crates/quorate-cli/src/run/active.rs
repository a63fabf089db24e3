//! A playbook that runs: a worker with its agents, and its procedure. With an approval, the procedure is a proposal, and the
//! deliberation is a part of it; otherwise it is the deliberation.

use std::path::Path;
use std::sync::Arc;

use quorate::deliberation::{FailedDeliberation, Outcome, Spec};
use quorate::proposal::{ProposalPhase, ProposalState, deliberation_id};
use quorate::{Hub, ProcedureDraft, ProcedureHost, ProcedureInfo, ProcedureStatus};
use quorate_agents::playbook::{ApprovalSpec, Playbook};
use quorate_agents::worker::Worker;

use super::approval::{ApprovalMode, ApprovalResult, Settlement, register_outbox};
use super::pauses::Pauses;
use super::watch::{self, HaltedRun};
use super::{agents, cancelled, failed, preflight};
use crate::terminal::note;

/// How the procedure of a run begins.
pub(crate) enum ProcedureStart {
    /// With this id, or a new one.
    New(Option<String>),
    /// It exists already. `has_deliberated`: the agents are not asked for findings any more.
    Resume { id: String, has_deliberated: bool },
}

impl ProcedureStart {
    pub(crate) fn has_deliberated(&self) -> bool {
        matches!(self, Self::Resume { has_deliberated: true, .. })
    }
}

/// A playbook that runs.
pub(crate) struct ActiveRun<'a> {
    hub: &'a Hub,
    spec: Spec,
    approval: Option<ApprovalSpec>,
    /// Options with which other commands can reach the hub.
    hub_options: String,
    procedure: String,
    /// Whether the deliberation was done before this run.
    has_deliberated: bool,
    workers: Vec<Worker>,
    /// Drives the procedures of an embedded hub; a remote hub does this itself.
    driver: Option<Arc<ProcedureHost>>,
}

impl<'a> ActiveRun<'a> {
    /// Checks and starts the agents, and starts the procedure. `out` is the directory for the letter, if this command writes it.
    pub(crate) async fn start(
        hub: &'a Hub,
        playbook: Playbook,
        start: ProcedureStart,
        out: Option<&Path>,
        hub_options: String,
    ) -> anyhow::Result<Self> {
        let Playbook { spec, agents, approval, .. } = playbook;
        let has_deliberated = start.has_deliberated();
        if !has_deliberated {
            preflight::check(hub, &agents, &spec).await?;
        }
        let mut workers = vec![agents::start(hub, agents, &spec).await?];
        if let (Some(out), Some(_)) = (out, &approval) {
            workers.push(agents::start_letters(hub, out).await?);
        }
        let driver = if hub.space().is_some() { Some(hub.drive_procedures().await?) } else { None };
        let procedure = match (start, &approval) {
            (ProcedureStart::Resume { id, .. }, _) => id,
            (ProcedureStart::New(id), Some(approval)) => {
                register_outbox(hub).await?;
                begin(hub, ProcedureDraft::proposal(&approval.proposal(&spec)), id).await?
            }
            (ProcedureStart::New(id), None) => begin(hub, ProcedureDraft::deliberation(&spec), id).await?,
        };
        Ok(Self { hub, spec, approval, hub_options, procedure, has_deliberated, workers, driver })
    }

    /// Prints the progress of the deliberation until it is done. Returns its id and the outcome.
    pub(crate) async fn deliberated(&self, pauses: &mut Pauses) -> anyhow::Result<(String, Outcome)> {
        let id = match &self.approval {
            Some(_) => self.deliberation_of_proposal().await?,
            None => self.procedure.clone(),
        };
        if self.has_deliberated {
            return finished(&self.hub.procedure(&id).await?);
        }
        let info = watch::wait_until_ended(self.hub, &id, &self.spec, (self.halted(), pauses)).await?;
        let (id, outcome) = finished(&info)?;
        watch::print_outcome(&outcome);
        note("");
        Ok((id, outcome))
    }

    /// Waits until the proposal has started its deliberation.
    async fn deliberation_of_proposal(&self) -> anyhow::Result<String> {
        let mut info = self.hub.procedure(&self.procedure).await?;
        let mut was_halted = false;
        while info.state::<ProposalState>()?.unwrap_or_default().phase == ProposalPhase::New {
            if info.procedure().status == ProcedureStatus::Cancelled {
                return Err(cancelled(&self.procedure, &info.procedure().reason).into());
            }
            self.halted().report(info.procedure(), &mut was_halted)?;
            info = watch::next_step(self.hub, &self.procedure, &info).await?;
        }
        Ok(deliberation_id(&self.procedure))
    }

    /// Waits for the decision on the outcome and for the letter, depending on the mode; `None` if the playbook requires no
    /// approval for this outcome.
    pub(crate) async fn settled(&self, mode: ApprovalMode) -> anyhow::Result<Option<ApprovalResult>> {
        if self.approval.is_none() {
            return Ok(None);
        }
        let writes_letter = self.workers.len() > 1;
        Settlement::new(self.hub, &self.procedure, mode, self.halted(), writes_letter).result().await
    }

    fn halted(&self) -> HaltedRun<'_> {
        let is_reachable = self.driver.is_none();
        HaltedRun { hub_options: is_reachable.then_some(&self.hub_options) }
    }

    /// Stops the worker after its work in progress.
    pub(crate) async fn stop(self) {
        for worker in self.workers {
            worker.stop().await;
        }
        if let Some(driver) = self.driver {
            driver.stop().await;
        }
    }
}

async fn begin(hub: &Hub, draft: ProcedureDraft, id: Option<String>) -> anyhow::Result<String> {
    let draft = match id {
        Some(id) => draft.id(id),
        None => draft,
    };
    Ok(hub.start_procedure(draft).await?.to_string())
}

/// Returns the outcome of a deliberation that has ended.
fn finished(info: &ProcedureInfo) -> anyhow::Result<(String, Outcome)> {
    let id = info.procedure().id.as_str();
    match info.procedure().status {
        ProcedureStatus::Done => match info.result::<Outcome>()? {
            Some(outcome) => Ok((id.to_owned(), outcome)),
            None => Err(anyhow::anyhow!("the result of {id} was erased")),
        },
        ProcedureStatus::Cancelled => Err(cancelled(id, &info.procedure().reason).into()),
        _ => Err(failed(id, info.result::<FailedDeliberation>().ok().flatten()).into()),
    }
}
