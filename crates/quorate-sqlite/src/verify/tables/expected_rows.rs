//! Expected rows of each table, computed from the replayed state.

use quorate_core::limits::LEASE_MS_MAX;
use quorate_core::{
    AgentNo, DeadDelivery, DeliveryNo, EntryVersion, GenerationStart, Key, OpenDelivery, OpenDeliveryState,
    Seq, SpaceNo, Timestamp, codec, row_id,
};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::raw_rows::ROW_NUMBER_MAX;
use super::super::replay::ReplayedState;
use super::Difference;
use super::merge_compare::{ExpectedRow, TableRows};
use crate::lookup::encode_priority;

const BY_ID: &str = "id BETWEEN ?1 AND ?2 ORDER BY id";

fn number(number: u64) -> Value {
    Value::Integer(number as i64)
}

fn optional(value: Option<Timestamp>) -> Value {
    value.map_or(Value::Null, |at| number(at.0))
}

fn unchanged(_: &mut [Value], _: &[Value]) {}

/// Returns the first row of any table that differs.
pub(super) fn first_difference(
    connection: &Connection,
    space: SpaceNo,
    replayed: &ReplayedState<'_>,
) -> rusqlite::Result<Option<Difference>> {
    let comparison = Comparison { connection, space, replayed };
    let tables = [
        Comparison::generations,
        Comparison::agents,
        Comparison::deliveries,
        Comparison::dead,
        Comparison::entries,
        Comparison::erased,
        Comparison::items,
    ];
    for table in tables {
        if let Some(difference) = table(&comparison)? {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

struct Comparison<'a> {
    connection: &'a Connection,
    space: SpaceNo,
    replayed: &'a ReplayedState<'a>,
}

impl Comparison<'_> {
    fn range(&self) -> (i64, i64) {
        (row_id(self.space, 0), row_id(self.space, ROW_NUMBER_MAX))
    }

    /// Returns the number within the space from the id of a row.
    fn number_of(&self, row: &[Value]) -> u64 {
        match row.first() {
            Some(Value::Integer(id)) => (id - row_id(self.space, 0)) as u64,
            _ => 0,
        }
    }

    fn generations(&self) -> rusqlite::Result<Option<Difference>> {
        let columns = ["first_seq", "generation", "first_delivery"];
        let filter = "space = ?1 ORDER BY first_seq";
        let table = TableRows { name: "eras", columns: &columns, key: 1, filter, normalize: unchanged };
        let expected = self.replayed.space.working.generations().0.iter();
        let expected =
            expected.map(|GenerationStart { generation, first_seq, first_delivery }| ExpectedRow {
                columns: vec![number(first_seq.0), number(generation.0), number(first_delivery.0)],
                seq: *first_seq,
            });
        let name = |row: &[Value]| format!("from record {}", super::render_value(&row[0]));
        table.first_difference(self.connection, [self.space.0], expected, name)
    }

    fn agents(&self) -> rusqlite::Result<Option<Difference>> {
        let columns = ["id", "seq", "removed", "presence"];
        let table =
            TableRows { name: "agents", columns: &columns, key: 1, filter: BY_ID, normalize: unchanged };
        let agents = self.replayed.space.working.agents().iter().zip(&self.replayed.registrations);
        let expected = agents.map(|((AgentNo(agent_number), agent), seq)| {
            let id = Value::Integer(row_id(self.space, agent_number));
            let presence = Value::Blob(codec::write_presence(&agent.presence));
            let removed = number(u64::from(agent.removed));
            ExpectedRow { columns: vec![id, number(seq.0), removed, presence], seq: *seq }
        });
        let name = |row: &[Value]| format!("of agent number {}", self.number_of(row));
        table.first_difference(self.connection, self.range(), expected, name)
    }

    fn deliveries(&self) -> rusqlite::Result<Option<Difference>> {
        let columns = [
            "id",
            "agent",
            "seq",
            "n",
            "priority",
            "attempt",
            "attempts_max",
            "state",
            "value",
            "lease_ms",
            "expires",
            "session",
            "if_unavailable",
        ];
        let normalize = normalize_delivery;
        let table = TableRows { name: "deliveries", columns: &columns, key: 1, filter: BY_ID, normalize };
        let working = &self.replayed.space.working;
        let open = working.all_open().into_iter();
        let expected = open.map(|(delivery, open)| {
            let lease_ms = working.lease_ms(delivery).unwrap_or(0);
            ExpectedRow { seq: open.seq, columns: self.delivery(delivery, &open, lease_ms) }
        });
        let name = |row: &[Value]| format!("of delivery {}", self.number_of(row));
        table.first_difference(self.connection, self.range(), expected, name)
    }

    fn delivery(&self, delivery: DeliveryNo, open: &OpenDelivery, lease_ms: u64) -> Vec<Value> {
        let (state, value) = match open.state {
            // It became due after its row was written, so the row still contains the scheduled time.
            OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since }
                if self.replayed.scheduled.contains(&delivery) =>
            {
                (SCHEDULED, since.0)
            }
            OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since } => (READY, since.0),
            OpenDeliveryState::Scheduled { due } => (SCHEDULED, due.0),
            OpenDeliveryState::Leased { token } => (LEASED, token.0),
        };
        vec![
            Value::Integer(row_id(self.space, delivery.0)),
            number(open.to.number()),
            number(open.seq.0),
            number(u64::from(open.n())),
            number(u64::from(encode_priority(open.priority))),
            number(u64::from(open.attempt)),
            number(u64::from(open.attempts_max)),
            Value::Integer(state),
            number(value),
            number(lease_ms),
            optional((open.expires != OpenDelivery::NEVER).then_some(open.expires)),
            open.scope().map_or(Value::Null, |scope| number(scope.0)),
            number(u64::from(open.if_unavailable.number())),
        ]
    }

    fn dead(&self) -> rusqlite::Result<Option<Difference>> {
        let columns =
            ["id", "agent", "seq", "n", "priority", "attempt", "attempts_max", "expires", "ended", "session"];
        let table =
            TableRows { name: "dead", columns: &columns, key: 1, filter: BY_ID, normalize: unchanged };
        let dead_letters = self.replayed.space.dead.iter();
        let expected = dead_letters.map(|(delivery, dead)| {
            let DeadDelivery { to, seq, n, priority, attempts_max, expires_at, scope } = dead;
            let (attempts, ended) =
                self.replayed.dead_letter_attempts.get(delivery).copied().unwrap_or_default();
            let columns = vec![
                Value::Integer(row_id(self.space, delivery.0)),
                number(to.number()),
                number(seq.0),
                number(u64::from(*n)),
                number(u64::from(encode_priority(*priority))),
                number(u64::from(attempts)),
                number(u64::from(*attempts_max)),
                optional(*expires_at),
                number(ended.0),
                scope.map_or(Value::Null, |scope| number(scope.0)),
            ];
            ExpectedRow { columns, seq: *seq }
        });
        let name = |row: &[Value]| format!("of delivery {}", self.number_of(row));
        table.first_difference(self.connection, self.range(), expected, name)
    }

    fn entries(&self) -> rusqlite::Result<Option<Difference>> {
        let columns = ["key", "version", "generation", "seq", "deleted", "entry_type", "author", "depends"];
        let filter = "space = ?1 ORDER BY key";
        let table = TableRows { name: "entries", columns: &columns, key: 1, filter, normalize: unchanged };
        let entries = self.replayed.space.entries.iter();
        let newest = entries.filter_map(|(key, versions)| Some((key, versions.last()?)));
        let expected = newest.map(|(key, version): (&Key, &EntryVersion)| {
            let head = version.head;
            let columns = vec![
                Value::Text(key.to_string()),
                number(head.version.0),
                number(head.generation.0),
                number(head.seq.0),
                number(u64::from(head.deleted)),
                Value::Text(version.entry_type.clone()),
                Value::Text(version.author.clone()),
                number(version.depends_on.len() as u64),
            ];
            ExpectedRow { columns, seq: head.seq }
        });
        let name = |row: &[Value]| format!("of entry {}", super::render_value(&row[0]));
        table.first_difference(self.connection, [self.space.0], expected, name)
    }

    fn erased(&self) -> rusqlite::Result<Option<Difference>> {
        let filter = "space = ?1 ORDER BY seq, part";
        let table =
            TableRows { name: "erased", columns: &["seq", "part"], key: 2, filter, normalize: unchanged };
        let expected = self.replayed.space.erased.iter().map(|(Seq(seq), part)| ExpectedRow {
            columns: vec![number(*seq), number(u64::from(*part))],
            seq: Seq(*seq),
        });
        let name = |row: &[Value]| {
            format!("of part {} of record {}", super::render_value(&row[1]), super::render_value(&row[0]))
        };
        table.first_difference(self.connection, [self.space.0], expected, name)
    }

    fn items(&self) -> rusqlite::Result<Option<Difference>> {
        let filter = "space = ?1 ORDER BY kind, id";
        let columns = ["kind", "id", "state", "created"];
        let table = TableRows { name: "items", columns: &columns, key: 2, filter, normalize: unchanged };
        let expected = self.replayed.space.items.iter().map(|(key, item)| ExpectedRow {
            columns: vec![
                number(u64::from(key.kind.number())),
                Value::Text(key.id.to_string()),
                Value::Blob(codec::write_item(item)),
                self.replayed
                    .space
                    .creations
                    .get(key)
                    .map_or(Value::Null, |created| number(created.number())),
            ],
            seq: self.replayed.space.working.head.seq,
        });
        let name = |row: &[Value]| {
            format!("of {} of kind {}", super::render_value(&row[1]), super::render_value(&row[0]))
        };
        table.first_difference(self.connection, [self.space.0], expected, name)
    }
}

const READY: i64 = 0;
const SCHEDULED: i64 = 1;
const LEASED: i64 = 2;

/// Accepts differences that leave no record: an extended lease makes `lease_ms` of the row larger, and a scheduled
/// delivery that became due before its row was written is stored as ready.
fn normalize_delivery(found: &mut [Value], expected: &[Value]) {
    const STATE: usize = 7;
    if expected[STATE] == Value::Integer(SCHEDULED) && found[STATE] == Value::Integer(READY) {
        found[STATE] = Value::Integer(SCHEDULED);
    }
    const LEASE_MS: usize = 9;
    if let (Value::Integer(stored), Value::Integer(replayed)) = (&found[LEASE_MS], &expected[LEASE_MS])
        && expected[STATE] == Value::Integer(LEASED)
        && stored > replayed
        && *stored <= LEASE_MS_MAX as i64
    {
        found[LEASE_MS] = Value::Integer(*replayed);
    }
}
