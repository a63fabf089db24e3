//! Finds deliberations and loads their state.

use quorate::deliberation::{DeliberationState, FailedDeliberation, Outcome, Spec};
use quorate::{Hub, PageQuery, Procedure, ProcedureInfo, ProcedureStatus};
use quorate_procedures::DELIBERATION_KIND;
use quorate_procedures::tally::Agreement;
use serde_json::{Value, json};

use crate::audit;
use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{Resource, match_id, no_items};

/// Maximum number of pages to search.
const PAGES_MAX: usize = 20;
/// Deliberations per page.
const PAGE: usize = 1_000;

/// A deliberation, by status.
pub(super) enum LoadedDeliberation {
    Done {
        id: String,
        outcome: Box<Outcome>,
    },
    Failed {
        info: Box<ProcedureInfo>,
        failure: Box<FailedDeliberation>,
    },
    /// Without an outcome: running, paused, stuck or cancelled.
    Unfinished {
        info: Box<ProcedureInfo>,
        state: Box<DeliberationState>,
    },
}

/// Loads the deliberation with this id, unique prefix, or `@last`.
pub(super) async fn load(hub: &Hub, reference: &str) -> anyhow::Result<LoadedDeliberation> {
    let info = hub.procedure(&find_id(hub, reference).await?).await?;
    let procedure = info.procedure();
    if procedure.kind != DELIBERATION_KIND {
        let message = format!("{} is a {}, not a deliberation", procedure.id, procedure.kind);
        return Err(
            CommandError::new(NOT_FOUND, message, "run `quorate deliberation list` to list them").into()
        );
    }
    Ok(match procedure.status {
        ProcedureStatus::Done => {
            let outcome = info.result::<Outcome>()?.map(Box::new);
            let erased = || anyhow::anyhow!("the result of {} was erased", procedure.id);
            LoadedDeliberation::Done { id: procedure.id.to_string(), outcome: outcome.ok_or_else(erased)? }
        }
        ProcedureStatus::Failed => {
            let failure = info.result::<FailedDeliberation>()?.map(Box::new);
            let erased = || anyhow::anyhow!("the result of {} was erased", procedure.id);
            LoadedDeliberation::Failed { failure: failure.ok_or_else(erased)?, info: Box::new(info) }
        }
        ProcedureStatus::Running
        | ProcedureStatus::Paused
        | ProcedureStatus::Stuck
        | ProcedureStatus::Cancelled => {
            let state = Box::new(info.state::<DeliberationState>()?.unwrap_or_default());
            LoadedDeliberation::Unfinished { state, info: Box::new(info) }
        }
    })
}

/// Resolves an id, a unique prefix, or `@last`.
pub(crate) async fn find_id(hub: &Hub, reference: &str) -> anyhow::Result<String> {
    let (all, is_complete) = all(hub).await?;
    if reference == "@last" {
        let newest = all.first().ok_or_else(|| no_items(Resource::Deliberation))?;
        return Ok(newest.id.to_string());
    }
    let ids: Vec<String> = all.iter().map(|procedure| procedure.id.to_string()).collect();
    match_id(Resource::Deliberation, reference, &ids, is_complete)
}

/// Returns deliberations, newest first, and whether the list is complete.
async fn all(hub: &Hub) -> anyhow::Result<(Vec<Procedure>, bool)> {
    let (mut found, mut query) = (Vec::new(), PageQuery::newest(PAGE));
    for _ in 0..PAGES_MAX {
        let page = hub.procedures(None, query.clone()).await?;
        found.extend(page.items.into_iter().filter(|procedure| procedure.kind == DELIBERATION_KIND));
        query = query.after(page.cursor);
        if query.cursor.is_none() {
            break;
        }
    }
    Ok((found, query.cursor.is_none()))
}

/// Returns the newest deliberations as list rows, with question and answer.
pub(super) async fn newest_rows(hub: &Hub, limit: usize) -> anyhow::Result<Vec<Value>> {
    let (all, _) = all(hub).await?;
    let mut rows = Vec::new();
    for procedure in all.into_iter().take(limit) {
        let info = hub.procedure(procedure.id.as_str()).await?;
        // Erased parts are omitted, but the deliberation is still listed.
        let subject = info.spec::<Spec>().map(|spec| spec.subject).ok();
        let outcome = match procedure.status {
            ProcedureStatus::Done => info.result::<Outcome>().ok().flatten(),
            _ => None,
        };
        let state = match procedure.status {
            ProcedureStatus::Running if procedure.phase.is_empty() => "waiting",
            ProcedureStatus::Running => &procedure.phase,
            status => status.as_str(),
        };
        rows.push(json!({
            "id": procedure.id.as_str(),
            "status": procedure.status.as_str(),
            "phase": procedure.phase,
            "state": state,
            "startedAt": audit::format_time(procedure.started_at.0),
            "startedBy": procedure.started_by,
            "subject": subject,
            "answer": outcome.as_ref().map(answer),
            "agreement": outcome.as_ref().map(|outcome| &outcome.synthesis.agreement),
            "confidence": outcome.as_ref().and_then(|outcome| outcome.synthesis.confidence),
        }));
    }
    Ok(rows)
}

/// Returns the decision, or why there is none.
fn answer(outcome: &Outcome) -> String {
    match (&outcome.synthesis.recommendation, &outcome.synthesis.agreement) {
        (Some(recommendation), _) => recommendation.clone(),
        (None, Agreement::Tied { .. }) => "no decision: tied".to_owned(),
        (None, _) => "no decision: no recommendation".to_owned(),
    }
}
