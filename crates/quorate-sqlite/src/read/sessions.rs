//! Reads about sessions: the timeline, and whether a paused session holds a delivery.

use quorate_core::{
    Effect, Item, ItemKey, ItemKind, LineKind, Open, OpenState, Seq, SessionNo, SessionStatus, Verb,
};
use quorate_store::Page;

use super::{LAST, Reading, items};
use crate::readers::ReadError;

/// Returns the records of a timeline. Rows of each kind are stored in the order of the records, so `limit` rows of each
/// kind are read and merged. The cost does not depend on the length of the timeline.
pub(super) fn timeline(
    reading: &Reading<'_>,
    session: &str,
    kind: Option<LineKind>,
    page: Page,
    limit: usize,
) -> Result<Vec<Seq>, ReadError> {
    let (which, bound) = match page {
        Page::After(seq) => ("seq > ?4 ORDER BY seq", seq),
        Page::Before(seq) => ("seq < ?4 ORDER BY seq DESC", seq),
    };
    let sql = format!(
        "SELECT seq FROM timeline WHERE space = ?1 AND session = ?2 AND kind = ?3 AND {which} LIMIT ?5"
    );
    let mut statement = reading.connection.prepare_cached(&sql)?;
    let mut found: Vec<Seq> = Vec::new();
    for line in LineKind::ALL.into_iter().filter(|line| kind.is_none_or(|kind| kind == *line)) {
        let bounds = (reading.space.0, session, line.number(), bound.0.min(LAST), limit);
        let rows = statement.query_map(bounds, |row| Ok(Seq(row.get(0)?)))?;
        found.extend(rows.collect::<Result<Vec<_>, _>>()?);
    }
    // The copy of the memtable only contains sessions of this read.
    let newer = reading
        .tail
        .lines
        .iter()
        .filter(|(id, line, _)| **id == *session && kind.is_none_or(|kind| kind == *line));
    found.extend(newer.map(|(_, _, seq)| *seq).filter(|seq| match page {
        Page::After(after) => *seq > after,
        Page::Before(before) => *seq < before,
    }));
    found.sort_unstable();
    if let Page::Before(_) = page {
        found.reverse();
    }
    found.dedup();
    found.truncate(limit);
    Ok(found)
}

/// Returns the state of an open delivery. Whether it is ready or held depends on the current state of its session.
pub(super) fn state_of(reading: &Reading<'_>, open: &Open) -> Result<OpenState, ReadError> {
    match (open.state, open.session()) {
        (OpenState::Ready { since } | OpenState::Held { since }, Some(session)) => {
            let held = is_paused(reading, session)?;
            Ok(if held { OpenState::Held { since } } else { OpenState::Ready { since } })
        }
        (state, _) => Ok(state),
    }
}

/// Whether a session is paused. Its number contains the record that opened it; that record contains its id.
fn is_paused(reading: &Reading<'_>, number: SessionNo) -> Result<bool, ReadError> {
    if let Some(paused) = reading.tail.paused.get(&number) {
        return Ok(*paused);
    }
    let decoded = reading.record(number.record())?;
    let (_, body) = &*decoded;
    let id = body.effects.iter().find_map(|effect| match effect {
        Effect::Changed { verb: Verb::SessionOpened, item: Item::Session(session) }
            if session.number == number =>
        {
            Some(session.id.clone())
        }
        _ => None,
    });
    let Some(id) = id else { return Ok(false) };
    let found = items::stored(reading, &ItemKey::new(ItemKind::Session, id.as_str()))?;
    Ok(matches!(found, Some(Item::Session(one)) if one.status == SessionStatus::Paused))
}
