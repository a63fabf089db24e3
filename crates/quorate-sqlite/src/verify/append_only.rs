//! Compares the append-only tables with the log: versions of entries, client-assigned message ids and session timelines.
//! They grow with the log, so each row is looked up while its record is read, and the rows are counted at the end.

use quorate_core::codec;
use quorate_core::{DeliveryNo, Effect, EntryHead, Key, Message, Record, Seq, SpaceNo, TimelineKind};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::raw_rows::{self, RowScan, column_values};
use super::tables::Difference;

pub(super) const VERSION_COLUMNS: [&str; 3] = ["generation", "seq", "deleted"];
pub(super) const CLIENT_ID_COLUMNS: [&str; 7] =
    ["seq", "n", "part", "principal", "first", "count", "fingerprint"];

pub(super) struct AppendOnlyTables<'a> {
    connection: &'a Connection,
    space: SpaceNo,
    versions: u64,
    client_ids: u64,
    timeline_entries: u64,
    difference: Option<Difference>,
}

impl<'a> AppendOnlyTables<'a> {
    pub(super) fn new(connection: &'a Connection, space: SpaceNo) -> Self {
        Self { connection, space, versions: 0, client_ids: 0, timeline_entries: 0, difference: None }
    }

    pub(super) fn check_version(&mut self, key: &Key, head: &EntryHead) -> rusqlite::Result<()> {
        self.versions += 1;
        let sql =
            "SELECT generation, seq, deleted FROM versions WHERE space = ?1 AND key = ?2 AND version = ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement
            .query_row((self.space.0, key.as_str(), head.version.0), |row| {
                column_values(row, VERSION_COLUMNS.len())
            })
            .optional()?;
        let expected = [
            Value::Integer(head.generation.0 as i64),
            Value::Integer(head.seq.0 as i64),
            Value::Integer(i64::from(head.deleted)),
        ];
        let row = || format!("of version {} of {key}", head.version);
        self.compare("versions", row, head.seq, &VERSION_COLUMNS, &expected, found);
        Ok(())
    }

    /// Checks the row of a message with a client-assigned id. The fingerprint covers the payload and is zero once the
    /// payload was erased.
    pub(super) fn check_client_id(
        &mut self,
        record: &Record,
        (n, part): (u32, u32),
        message: &Message,
        (first, count): (DeliveryNo, usize),
        fingerprint: [u8; 32],
    ) -> rusqlite::Result<()> {
        let Some(id) = &message.client_id else { return Ok(()) };
        self.client_ids += 1;
        let sql = "SELECT seq, n, part, principal, first, count, fingerprint FROM client_ids
                   WHERE space = ?1 AND client_id = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement
            .query_row((self.space.0, id.as_str()), |row| column_values(row, CLIENT_ID_COLUMNS.len()))
            .optional()?;
        let mut expected = vec![
            Value::Integer(record.seq.0 as i64),
            Value::Integer(i64::from(n)),
            Value::Integer(i64::from(part)),
            Value::Text(record.principal.clone()),
            Value::Integer(first.0 as i64),
            Value::Integer(count as i64),
        ];
        expected.push(Value::Blob(fingerprint.to_vec()));
        self.compare("client_ids", || format!("of {id}"), record.seq, &CLIENT_ID_COLUMNS, &expected, found);
        Ok(())
    }

    /// Checks the row of an entry in the timeline of a session.
    pub(super) fn check_timeline(
        &mut self,
        session: &str,
        kind: TimelineKind,
        seq: Seq,
    ) -> rusqlite::Result<()> {
        self.timeline_entries += 1;
        let sql = "SELECT 1 FROM timeline WHERE space = ?1 AND session = ?2 AND kind = ?3 AND seq = ?4";
        let mut statement = self.connection.prepare_cached(sql)?;
        let exists = statement.exists((self.space.0, session, kind.number(), seq.0))?;
        let row = || format!("of {session}, kind {}", kind.number());
        self.compare("timeline", row, seq, &[], &[], exists.then(Vec::new));
        Ok(())
    }

    fn compare(
        &mut self,
        table: &'static str,
        row: impl Fn() -> String,
        seq: Seq,
        columns: &[&str],
        expected: &[Value],
        found: Option<Vec<Value>>,
    ) {
        if found.as_deref() != Some(expected) && self.difference.is_none() {
            let difference = Difference::new(table, row(), seq, columns, Some(expected), found.as_deref());
            self.difference = Some(difference);
        }
    }

    /// Returns the first difference, or an unexpected row. Called after the last record that the tables contain.
    pub(super) fn difference(&self, last: Seq) -> rusqlite::Result<Option<Difference>> {
        if let Some(difference) = &self.difference {
            return Ok(Some(difference.clone()));
        }
        let tables = [
            ("versions", "key, version, seq", self.versions),
            ("client_ids", "client_id, n, seq", self.client_ids),
            ("timeline", "session, kind, seq", self.timeline_entries),
        ];
        for (table, columns, expected) in tables {
            let sql = format!("SELECT count(*) FROM {table} WHERE space = ?1");
            let found: u64 = self.connection.query_row(&sql, [self.space.0], |row| row.get(0))?;
            if found != expected {
                let sql = format!("SELECT {columns} FROM {table} WHERE space = ?1");
                let unexpected = self.find_unexpected(table, &sql)?;
                return Ok(Some(unexpected.unwrap_or_else(|| Difference::unexpected_rows(table, last))));
            }
        }
        Ok(None)
    }

    /// Returns the first row without a matching record. Slow, so it is only called if the count is wrong.
    fn find_unexpected(&self, table: &str, sql: &str) -> rusqlite::Result<Option<Difference>> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([self.space.0])?;
        while let Some(row) = rows.next()? {
            let row = column_values(row, 3)?;
            let [Value::Text(name), Value::Integer(number), Value::Integer(seq)] = &row[..] else {
                return Ok(Some(Difference::new(
                    table,
                    "with an invalid key".into(),
                    Seq(0),
                    &[],
                    None,
                    None,
                )));
            };
            let seq = Seq(u64::try_from(*seq).unwrap_or(0));
            if !self.record_matches(table, seq, name, *number)? {
                let row_name = match table {
                    "versions" => format!("of version {number} of {name}"),
                    _ => format!("of {name}"),
                };
                return Ok(Some(Difference::new(table, row_name, seq, &[], None, None)));
            }
        }
        Ok(None)
    }

    /// Whether a record wrote this version of the key, sent a message with this id, or belongs to this timeline.
    fn record_matches(&self, table: &str, seq: Seq, name: &str, number: i64) -> rusqlite::Result<bool> {
        let mut matches = false;
        raw_rows::for_each_log_row(self.connection, self.space, seq.0, |row| {
            let body = row
                .record
                .ok()
                .filter(|_| row.position == seq.0)
                .and_then(|record| codec::read_body(&record).ok());
            matches = body.is_some_and(|body| {
                body.effects.iter().any(|effect| match effect {
                    effect if table == "timeline" => effect
                        .timeline_entry()
                        .is_some_and(|(session, kind)| session == name && i64::from(kind.number()) == number),
                    Effect::Written { key, version, .. } | Effect::Deleted { key, version } => {
                        key.as_str() == name && version.0 as i64 == number
                    }
                    Effect::Sent { message, .. } => {
                        message.client_id.as_ref().is_some_and(|id| id.as_str() == name)
                    }
                    _ => false,
                })
            });
            Ok(RowScan::Stop)
        })?;
        Ok(matches)
    }
}
