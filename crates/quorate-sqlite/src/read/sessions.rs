//! Reads about sessions: the timeline, and whether a paused session or procedure holds a delivery.

use quorate_core::{Effect, OpenDelivery, OpenDeliveryState, ScopeNo, Seq, TimelineKind};
use quorate_store::TimelinePage;

use super::{ROW_NUMBER_MAX, ReadSnapshot, items};
use crate::readers::ReadError;

/// Returns the records of a timeline. Rows of each kind are stored in the order of the records, so `limit` rows of each
/// kind are read and merged. The cost does not depend on the length of the timeline.
pub(super) fn timeline(
    snapshot: &ReadSnapshot<'_>,
    session: &str,
    kind: Option<TimelineKind>,
    page: TimelinePage,
    limit: usize,
) -> Result<Vec<Seq>, ReadError> {
    let (condition, bound) = match page {
        TimelinePage::After(seq) => ("seq > ?4 ORDER BY seq", seq),
        TimelinePage::Before(seq) => ("seq < ?4 ORDER BY seq DESC", seq),
    };
    let sql = format!(
        "SELECT seq FROM timeline WHERE space = ?1 AND session = ?2 AND kind = ?3 AND {condition} LIMIT ?5"
    );
    let mut statement = snapshot.connection.prepare_cached(&sql)?;
    let mut found: Vec<Seq> = Vec::new();
    for timeline_kind in
        TimelineKind::ALL.into_iter().filter(|candidate| kind.is_none_or(|kind| kind == *candidate))
    {
        let bounds = (snapshot.space.0, session, timeline_kind.number(), bound.0.min(ROW_NUMBER_MAX), limit);
        let rows = statement.query_map(bounds, |row| Ok(Seq(row.get(0)?)))?;
        found.extend(rows.collect::<Result<Vec<_>, _>>()?);
    }
    // The copy of the memtable only contains sessions of this read.
    let newer =
        snapshot.memtable.timeline.iter().filter(|(id, timeline_kind, _)| {
            **id == *session && kind.is_none_or(|kind| kind == *timeline_kind)
        });
    found.extend(newer.map(|(_, _, seq)| *seq).filter(|seq| match page {
        TimelinePage::After(after) => *seq > after,
        TimelinePage::Before(before) => *seq < before,
    }));
    found.sort_unstable();
    if let TimelinePage::Before(_) = page {
        found.reverse();
    }
    found.dedup();
    found.truncate(limit);
    Ok(found)
}

/// Returns the state of an open delivery. Whether it is ready or held depends on the current state of its scope.
pub(super) fn state_of(
    snapshot: &ReadSnapshot<'_>,
    open: &OpenDelivery,
) -> Result<OpenDeliveryState, ReadError> {
    match (open.state, open.scope()) {
        (OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since }, Some(scope)) => {
            let held = is_paused(snapshot, scope)?;
            Ok(if held { OpenDeliveryState::Held { since } } else { OpenDeliveryState::Ready { since } })
        }
        (state, _) => Ok(state),
    }
}

/// Whether a session or procedure is paused. Its number contains the record that opened it, which contains its key.
fn is_paused(snapshot: &ReadSnapshot<'_>, number: ScopeNo) -> Result<bool, ReadError> {
    if let Some(paused) = snapshot.memtable.paused.get(&number) {
        return Ok(*paused);
    }
    let decoded = snapshot.record(number.record())?;
    let (_, body) = &*decoded;
    let key = body.effects.iter().find_map(|effect| match effect {
        Effect::Changed { item, .. } => {
            item.pause_scope().filter(|(scope, _)| *scope == number).map(|_| item.key())
        }
        _ => None,
    });
    let Some(key) = key else { return Ok(false) };
    let found = items::stored(snapshot, &key)?;
    Ok(found.and_then(|item| item.pause_scope()).is_some_and(|(_, paused)| paused))
}
