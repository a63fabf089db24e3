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
    Done { id: String, outcome: Box<Outcome> },
    Failed { info: Box<ProcedureInfo>, failure: Box<FailedDeliberation> },
    Running { info: Box<ProcedureInfo>, state: Box<DeliberationState> },
}

/// Loads the deliberation with this id, unique prefix, or `@last`.
pub(super) async fn load(hub: &Hub, typed: &str) -> anyhow::Result<LoadedDeliberation> {
    let info = hub.procedure(&id(hub, typed).await?).await?;
    let head = info.procedure();
    if head.kind != DELIBERATION_KIND {
        let message = format!("{} is a {}, not a deliberation", head.id, head.kind);
        return Err(
            CommandError::new(NOT_FOUND, message, "run `quorate deliberation list` to list them").into()
        );
    }
    Ok(match head.status {
        ProcedureStatus::Done => {
            let outcome = info.result::<Outcome>()?.map(Box::new);
            let erased = || anyhow::anyhow!("the result of {} was erased", head.id);
            LoadedDeliberation::Done { id: head.id.to_string(), outcome: outcome.ok_or_else(erased)? }
        }
        ProcedureStatus::Failed => {
            let failure = info.result::<FailedDeliberation>()?.map(Box::new);
            let erased = || anyhow::anyhow!("the result of {} was erased", head.id);
            LoadedDeliberation::Failed { failure: failure.ok_or_else(erased)?, info: Box::new(info) }
        }
        ProcedureStatus::Running => {
            let state = Box::new(info.state::<DeliberationState>()?.unwrap_or_default());
            LoadedDeliberation::Running { state, info: Box::new(info) }
        }
    })
}

async fn id(hub: &Hub, typed: &str) -> anyhow::Result<String> {
    let (all, whole) = all(hub).await?;
    if typed == "@last" {
        let newest = all.first().ok_or_else(|| no_items(Resource::Deliberation))?;
        return Ok(newest.id.to_string());
    }
    let ids: Vec<String> = all.iter().map(|one| one.id.to_string()).collect();
    match_id(Resource::Deliberation, typed, &ids, whole)
}

/// Returns deliberations, newest first, and whether the list is complete.
async fn all(hub: &Hub) -> anyhow::Result<(Vec<Procedure>, bool)> {
    let (mut found, mut query) = (Vec::new(), PageQuery::newest(PAGE));
    for _ in 0..PAGES_MAX {
        let page = hub.procedures(None, query.clone()).await?;
        found.extend(page.items.into_iter().filter(|one| one.kind == DELIBERATION_KIND));
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
    for head in all.into_iter().take(limit) {
        let info = hub.procedure(head.id.as_str()).await?;
        // Erased parts are omitted, but the deliberation is still listed.
        let subject = info.spec::<Spec>().map(|spec| spec.subject).ok();
        let outcome = match head.status {
            ProcedureStatus::Done => info.result::<Outcome>().ok().flatten(),
            ProcedureStatus::Running | ProcedureStatus::Failed => None,
        };
        let state = match head.status {
            ProcedureStatus::Running if head.phase.is_empty() => "waiting",
            ProcedureStatus::Running => &head.phase,
            ProcedureStatus::Done | ProcedureStatus::Failed => head.status.as_str(),
        };
        rows.push(json!({
            "id": head.id.as_str(),
            "status": head.status.as_str(),
            "phase": head.phase,
            "state": state,
            "startedAt": audit::format_time(head.started_at.0),
            "startedBy": head.started_by,
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
