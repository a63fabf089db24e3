//! Tables that do not match the log.

use super::*;

#[track_caller]
fn assert_tables(sql: &str, table: &str) {
    let dir = damaged_by_sql(sql);
    let defect = report(dir.path()).first_defect.unwrap_or_else(|| panic!("not detected: {sql}"));
    assert_eq!(defect.damage, Damage::Tables, "{sql}: {defect:?}");
    assert!(defect.detail.contains(&format!("`{table}`")), "{sql}: {defect:?}");
}

/// Changes every column of every derived table in one row.
#[test]
fn a_changed_column_is_detected() {
    let tables = [
        ("agents", "id, seq, removed"),
        (
            "deliveries",
            "id, agent, seq, n, priority, attempt, attempts_max, state, value, lease_ms, expires, session, \
             if_unavailable",
        ),
        ("ends", "id"),
        ("dead", "id, agent, seq, n, priority, attempt, attempts_max, expires, ended, session"),
        ("entries", "version, generation, seq, deleted, depends"),
        ("versions", "version, generation, seq, deleted"),
        ("client_ids", "seq, n, part, first, count"),
        ("eras", "first_seq, generation, first_delivery"),
        ("timeline", "kind, seq"),
        ("erased", "seq, part"),
        ("items", "created"),
    ];
    for (table, columns) in tables {
        for column in columns.split(", ") {
            let key = match table {
                "agents" | "deliveries" | "ends" | "dead" => "id",
                "entries" => "(space, key)",
                "versions" => "(space, key, version)",
                "client_ids" => "(space, client_id)",
                "eras" => "(space, first_seq)",
                "timeline" => "(space, session, kind, seq)",
                "items" => "(space, kind, id)",
                _ => "(space, seq, part)",
            };
            // The last row of the first space, so that a changed key does not conflict with another row.
            let selected = match table {
                "agents" | "deliveries" | "ends" | "dead" => {
                    format!("max(id) FROM {table} WHERE id < {}", row(u64::MAX))
                }
                _ => format!(
                    "{} FROM {table} WHERE space = 1 ORDER BY 1 DESC, 2 DESC LIMIT 1",
                    key.trim_matches(['(', ')'])
                ),
            };
            assert_tables(
                &format!(
                    "UPDATE {table} SET {column} = coalesce({column}, 0) + 1 WHERE {key} = (SELECT {selected})"
                ),
                table,
            );
        }
    }
}

#[test]
fn changed_text_is_detected() {
    assert_tables("UPDATE agents SET presence = x'00000100'", "agents");
    assert_tables("UPDATE items SET state = x'00' WHERE kind = 3", "items");
    assert_tables("UPDATE entries SET entry_type = 'x' WHERE key = 'plan/a'", "entries");
    assert_tables("UPDATE entries SET author = 'agent:mallory' WHERE key = 'plan/a'", "entries");
    assert_tables("UPDATE entries SET key = 'plan/c' WHERE key = 'plan/a'", "entries");
    assert_tables("UPDATE versions SET key = 'plan/c' WHERE key = 'plan/a' AND version = 1", "versions");
    assert_tables("UPDATE client_ids SET principal = 'agent:bob' WHERE client_id = 'id-05'", "client_ids");
    assert_tables("UPDATE client_ids SET client_id = 'id-xx' WHERE client_id = 'id-05'", "client_ids");
    assert_tables("UPDATE client_ids SET fingerprint = zeroblob(32) WHERE client_id = 'id-05'", "client_ids");
    assert_tables("UPDATE timeline SET session = 'other' WHERE session = 'over' AND kind = 2", "timeline");
    assert_tables("UPDATE items SET state = x'00' WHERE id = 'over'", "items");
    assert_tables("UPDATE items SET id = 'under' WHERE id = 'over'", "items");
    assert_tables("UPDATE spaces SET name = 'other' WHERE number = 2", "spaces");
    assert_tables("UPDATE spaces SET id = zeroblob(16) WHERE number = 2", "spaces");
    assert_tables("UPDATE spaces SET id = x'00' WHERE number = 2", "spaces");
    assert_tables("UPDATE spaces SET name = CAST(x'ff' AS TEXT) WHERE number = 2", "spaces");
}

#[test]
fn a_changed_head_is_detected() {
    let columns = [
        "at",
        "generation",
        "tables_at",
        "next_delivery",
        "last_token",
        "acked",
        "dead",
        "expired",
        "purged",
    ];
    for column in columns {
        assert_tables(&format!("UPDATE spaces SET {column} = {column} + 1 WHERE number = 1"), "spaces");
    }
}

#[test]
fn a_changed_end_is_detected() {
    let other = "UPDATE ends SET seqs = CAST(substr(seqs, 1, 11) || x'05' || substr(seqs, 13) AS BLOB) WHERE id = (SELECT min(id) FROM ends)";
    assert_tables(other, "ends");
    assert_tables(
        "UPDATE ends SET seqs = CAST(seqs || x'000000000005' AS BLOB) WHERE id = (SELECT min(id) FROM ends)",
        "ends",
    );
}

#[test]
fn a_missing_row_is_detected() {
    for table in ["agents", "deliveries", "ends", "dead"] {
        assert_tables(&format!("DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})"), table);
        assert_tables(&format!("DELETE FROM {table} WHERE id BETWEEN 0 AND {}", row(u64::MAX)), table);
    }
    for table in ["entries", "versions", "client_ids", "timeline", "eras", "erased", "items"] {
        assert_tables(&format!("DELETE FROM {table} WHERE space = 1"), table);
    }
    assert_tables("DELETE FROM versions WHERE key = 'plan/a' AND version = 2", "versions");
}

#[test]
fn an_unexpected_row_is_detected_and_named() {
    let additions = [
        ("agents", format!("SELECT {}, 2, 0, x'00000100'", row(9))),
        ("deliveries", format!("SELECT {}, 1, 5, 0, 256, 0, 4, 0, 0, 0, NULL, NULL, 0", row(900))),
        ("ends", format!("SELECT {}, x'000000000005'", row(900 / 256))),
        ("dead", format!("SELECT {}, 1, 5, 0, 256, 1, 4, NULL, 5, NULL", row(900))),
        ("entries", "SELECT 1, 'zzz', 1, 0, 5, 0, '', 'agent:bob', 0".into()),
        ("versions", "SELECT 1, 'plan/a', 77, 0, 5, 0".into()),
        ("client_ids", "SELECT 1, 'id-99', 5, 0, 0, 'agent:alice', zeroblob(32), 1, 1".into()),
        ("eras", "SELECT 1, 20, 5, 3".into()),
        ("erased", "SELECT 1, 6, 0".into()),
        ("entries", "SELECT 9, 'zzz', 1, 0, 5, 0, '', 'agent:bob', 0".into()),
        ("deliveries", format!("SELECT {}, 1, 5, 0, 256, 0, 4, 0, 0, 0, NULL, NULL, 0", 1_i64 << 60)),
        ("timeline", "SELECT 1, 'paused', 0, 5".into()),
        ("timeline", "SELECT 1, 'unknown', 1, 5".into()),
        ("timeline", "SELECT 9, 'paused', 0, 5".into()),
        ("items", "SELECT 1, 6, 'zzz', x'00', 0".into()),
    ];
    for (table, row) in additions {
        assert_tables(&format!("INSERT INTO {table} {row}"), table);
    }
    let dir = damaged_by_sql("INSERT INTO versions SELECT 1, 'plan/a', 77, 0, 5, 0");
    let detail = report(dir.path()).first_defect.unwrap().detail;
    assert!(detail.contains("of version 77 of plan/a"), "{detail}");
}

#[test]
fn a_difference_contains_the_row_and_the_expected_value() {
    let dir = damaged_by_sql("UPDATE deliveries SET attempt = 9 WHERE id = (SELECT min(id) FROM deliveries)");
    let detail = report(dir.path()).first_defect.unwrap().detail;
    assert!(detail.contains("table `deliveries`, row of delivery "), "{detail}");
    assert!(detail.contains("attempt is 9, expected "), "{detail}");
    assert!(detail.contains("the log is intact"), "{detail}");
}
