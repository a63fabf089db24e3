//! `quorate serve` on damaged data: it does not start, reports the damage, and changes no byte. Damage that is not checked
//! before startup is found in the background, and ends the hub.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Hub, QUORATE, database};

/// Damages a data directory.
type InflictDamage = fn(&Path);

/// Creates a directory with about forty records of several kinds, closed cleanly.
fn data() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let hub = Hub::start(root.path());
    let token = |name: &str| {
        let (status, registered) = hub.call(&hub.admin, "PUT", &format!("/v1/agents/{name}"), &json!({}));
        assert_eq!(status, 201, "{registered}");
        registered["token"].as_str().unwrap().to_owned()
    };
    let (alice, bob) = (token("alice"), token("bob"));
    let succeed = |token: &str, method: &str, path: &str, body: Value| {
        let (status, response) = hub.call(token, method, path, &body);
        assert!((200..300).contains(&status), "{path}: {status} {response}");
        response
    };
    for n in 0..16 {
        let message = json!({"to": "bob", "payload": {"n": n, "text": "words ".repeat(20)}});
        succeed(&alice, "POST", "/v1/messages", message);
        succeed(&alice, "PUT", &format!("/v1/context/k{}", n % 3), json!({"content": n}));
    }
    succeed(&alice, "POST", "/v1/tasks", json!({"type": "work", "input": {}}));
    succeed(&alice, "POST", "/v1/flags", json!({"what": "something"}));
    let claimed = succeed(&bob, "POST", "/v1/agents/bob/inbox/claim", json!({"max": 2}));
    let acked = json!({ "deliveries": claimed["deliveries"].as_array().unwrap()[..1].iter().map(|delivery| {
        json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]})
    }).collect::<Vec<_>>() });
    succeed(&bob, "POST", "/v1/agents/bob/inbox/ack", acked);
    hub.stop();
    root
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to.path()).status().unwrap();
    assert!(status.success());
    to
}

/// Runs an SQL statement that must change at least one row.
fn sql(file: &Path, change: &str) {
    let connection = database(file);
    assert!(connection.execute(change, []).unwrap() > 0, "{change}");
}

fn main_sql(data: &Path, change: &str) {
    sql(&data.join("quorate.db"), change);
}

/// Overwrites the root page of a table.
fn overwrite_root_page(data: &Path, table: &str) {
    let file = data.join("quorate.db");
    let connection = database(&file);
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: usize = connection.query_row(select, [table], |row| row.get(0)).unwrap();
    let size: usize = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = fs::read(&file).unwrap();
    bytes[(page - 1) * size..page * size].fill(0xa5);
    fs::write(&file, bytes).unwrap();
}

fn truncate(data: &Path, length: impl Fn(u64) -> u64) {
    let file = fs::OpenOptions::new().write(true).open(data.join("quorate.db")).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

const LAST: &str = "(SELECT max(id) FROM log)";
const NTH: &str = "(SELECT id FROM log ORDER BY id LIMIT 1 OFFSET 20)";

/// Kinds of damage, each with the expected message.
const DAMAGES: &[(&str, &str, InflictDamage)] = &[
    ("a body is edited", "edited", |data| {
        main_sql(data, &format!("UPDATE log SET body = CAST(body || x'00' AS BLOB) WHERE id = {NTH}"));
    }),
    ("the newest body is edited", "edited", |data| {
        main_sql(data, &format!("UPDATE log SET body = CAST(body || x'00' AS BLOB) WHERE id = {LAST}"));
    }),
    ("the principal is edited", "edited", |data| {
        main_sql(data, &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {NTH}"));
    }),
    ("the newest principal is edited", "edited", |data| {
        main_sql(data, &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {LAST}"));
    }),
    ("a record is deleted", "deleted", |data| main_sql(data, &format!("DELETE FROM log WHERE id = {NTH}"))),
    ("the newest record is deleted", "truncated", |data| {
        main_sql(data, &format!("DELETE FROM log WHERE id = {LAST}"));
    }),
    ("a payload is edited", "edited", |data| {
        main_sql(data, "UPDATE log SET payload = zeroblob(length(payload)) WHERE length(payload) > 100");
    }),
    ("a time is set back", "edited", |data| {
        main_sql(data, &format!("UPDATE log SET at = at - 1000 WHERE id = {NTH}"));
    }),
    ("an entry has another version", "tables", |data| {
        main_sql(data, "UPDATE entries SET version = version + 1");
    }),
    ("a delivery is deleted", "tables", |data| {
        main_sql(data, "DELETE FROM deliveries WHERE id = (SELECT max(id) FROM deliveries)");
    }),
    ("the items are deleted", "tables", |data| main_sql(data, "DELETE FROM items")),
    ("a count is wrong", "tables", |data| main_sql(data, "UPDATE spaces SET acked = acked + 1")),
    ("a page of the log", "", |data| overwrite_root_page(data, "log")),
    ("a page of the entries", "", |data| overwrite_root_page(data, "entries")),
    ("a page of the client ids", "", |data| overwrite_root_page(data, "client_ids")),
    ("a flag is edited", "edited", |data| {
        sql(
            &data.join("quorate.private/quorate.db"),
            &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {LAST}"),
        );
    }),
    ("half of it", "", |data| truncate(data, |length| length / 2)),
    ("nothing of it", "", |data| truncate(data, |_| 0)),
    ("the private store is deleted", "quorate.private is missing", |data| {
        fs::remove_dir_all(data.join("quorate.private")).unwrap();
    }),
    ("the witness is deleted", "quorate.witness is missing", |data| {
        fs::remove_file(data.join("quorate.witness")).unwrap();
    }),
    ("an unfinished restore", "interrupted", |data| fs::write(data.join("quorate.incomplete"), "").unwrap()),
];

fn serve(data: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(QUORATE);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags).arg("--data").arg(data);
    command
}

fn streams(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Checks that the hub does not start, reports the damage, and changes nothing.
#[track_caller]
fn check_refused(data: &Path, flags: &[&str], case: &str, damage: &str) {
    let bytes =
        || (fs::read(data.join("quorate.db")), fs::read(data.join("quorate.private/quorate.db")).ok());
    let before = bytes();
    let output = serve(data, flags).output().unwrap();
    let (out, err) = streams(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(65), ""), "{case}: {err}");
    assert!(err.contains(damage) && err.contains("nothing was changed"), "{case}: {err}");
    let after = bytes();
    assert!(before.0.unwrap() == after.0.unwrap() && before.1 == after.1, "{case}: something was changed");
}

// Fails under: a start that does not check the data, the tables, or the private store.
#[test]
fn i22_damaged_data_is_not_served() {
    let intact = data();
    for (case, damage, inflict) in DAMAGES {
        let damaged = copy(intact.path());
        inflict(damaged.path());
        check_refused(damaged.path(), &[], case, damage);
    }
    let undamaged = copy(intact.path());
    Hub::start(undamaged.path()).stop();
}

/// Waits until the witness states this record of the main store, in the first two of its sectors.
fn wait_for_witness(data: &Path, seq: u64) {
    let stated = |sector: &[u8]| u64::from_be_bytes(sector[40..48].try_into().unwrap());
    let newest = || {
        let witness = fs::read(data.join("quorate.witness")).unwrap();
        witness[..1024].chunks(512).map(stated).max().unwrap()
    };
    while newest() < seq {
        std::thread::yield_now();
    }
}

// Fails under: a witness that is only written when the hub is closed; a start that compares only small stores with it.
#[test]
fn i22_a_write_ahead_log_that_is_lost_after_a_crash_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let mut hub = Hub::start(root.path());
    for n in 0..8 {
        let path = format!("/v1/context/k{n}");
        let (status, response) = hub.call(&hub.admin, "PUT", &path, &json!({"content": n}));
        assert_eq!(status, 201, "{response}");
    }
    let (_, info) = hub.call(&hub.admin, "GET", "/v1/info", &Value::Null);
    wait_for_witness(root.path(), info["seq"].as_u64().unwrap());
    hub.child.kill().unwrap();
    hub.child.wait().unwrap();
    let wal = |data: &Path| data.join("quorate.db-wal");
    let damages: &[InflictDamage] = &[
        |data| fs::remove_file(data.join("quorate.db-wal")).unwrap(),
        |data| {
            let mut bytes = fs::read(data.join("quorate.db-wal")).unwrap();
            let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[written / 2] ^= 1;
            fs::write(data.join("quorate.db-wal"), bytes).unwrap();
        },
    ];
    for inflict in damages {
        for flags in [&[][..], AS_IF_LARGE] {
            let damaged = copy(root.path());
            inflict(damaged.path());
            // SQLite creates an empty log.
            let log = || fs::read(wal(damaged.path())).unwrap_or_default();
            let before = log();
            check_refused(damaged.path(), flags, "the write-ahead log", "");
            assert!(log() == before, "the log was changed");
            let verified =
                Command::new(QUORATE).args(["verify", "--data"]).arg(damaged.path()).output().unwrap();
            assert_eq!(verified.status.code(), Some(65), "{:?}", streams(&verified));
        }
    }
    Hub::start(copy(root.path()).path()).stop();
}

/// Treats any data as large, and checks few records before startup.
const AS_IF_LARGE: &[&str] = &["--full-check-max-bytes", "0", "--startup-check-records", "10"];

// Fails under: a check of the newest records that stops before the last one, or that omits payloads.
#[test]
fn i22_the_newest_records_of_large_data_are_verified_before_startup() {
    let intact = data();
    let newest = "(SELECT id FROM log ORDER BY id DESC LIMIT 1 OFFSET 7)";
    let damaged = copy(intact.path());
    main_sql(damaged.path(), &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {newest}"));
    check_refused(damaged.path(), AS_IF_LARGE, "a principal", "edited");
    let damaged = copy(intact.path());
    main_sql(damaged.path(), &format!("DELETE FROM log WHERE id = {newest}"));
    check_refused(damaged.path(), AS_IF_LARGE, "a record", "deleted");
    let damaged = copy(intact.path());
    let with_payload = "(SELECT max(id) FROM log WHERE length(payload) > 100)";
    let blank = format!("UPDATE log SET payload = zeroblob(length(payload)) WHERE id = {with_payload}");
    main_sql(damaged.path(), &blank);
    check_refused(damaged.path(), AS_IF_LARGE, "a payload", "edited");
}

/// Checks that the hub starts, finds the damage in the background, and exits.
#[track_caller]
fn check_exits(data: &Path, case: &str) {
    let mut command = serve(data, AS_IF_LARGE);
    command.stderr(Stdio::piped());
    let mut hub = Hub::spawn(command);
    let mut err = String::new();
    hub.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(hub.child.wait().unwrap().code(), Some(65), "{case}: {err}");
    assert!(err.contains("the data is damaged") && err.contains("edited at record"), "{case}: {err}");
}

/// Flips one bit of a page that is in use: of the root page of a table, or of the page after it.
fn flip_bit(data: &Path, table: &str, in_page: usize) {
    let file = data.join("quorate.db");
    let connection = database(&file);
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: usize = connection.query_row(select, [table], |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = fs::read(&file).unwrap();
    bytes[(page - 1) * 4096 + in_page] ^= 1;
    fs::write(&file, bytes).unwrap();
}

// Fails under: tables that are loaded without a check of their pages; damage that is reported as a disk failure.
#[test]
fn i22_one_flipped_bit_in_a_table_of_large_data_is_reported() {
    let intact = data();
    for (table, in_page) in [("deliveries", 4000), ("items", 4080), ("spaces", 4070), ("agents", 2000)] {
        let damaged = copy(intact.path());
        flip_bit(damaged.path(), table, in_page);
        check_refused(damaged.path(), AS_IF_LARGE, table, "does not match its checksum");
        check_refused(damaged.path(), &[], table, "damaged");
    }
    // A page that only a later call or the background check reads.
    let damaged = copy(intact.path());
    flip_bit(damaged.path(), "client_ids", 4000);
    let mut command = serve(damaged.path(), AS_IF_LARGE);
    command.stderr(Stdio::piped());
    let mut hub = Hub::spawn(command);
    // The hub may stop before it responds.
    let body = json!({"id": "mine", "to": "bob", "payload": 1}).to_string();
    let mut request = TcpStream::connect(&hub.address).unwrap();
    write!(
        request,
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        hub.admin,
        body.len()
    )
    .unwrap();
    let mut err = String::new();
    hub.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(hub.child.wait().unwrap().code(), Some(65), "{err}");
    assert!(err.contains("does not match its checksum"), "{err}");
}

// Fails under: a background check that is never started, that omits payloads, or that only logs the damage.
#[test]
fn i22_damage_found_in_the_background_ends_the_hub() {
    let intact = data();
    let damaged = copy(intact.path());
    let early = "(SELECT id FROM log ORDER BY id LIMIT 1 OFFSET 5)";
    main_sql(damaged.path(), &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {early}"));
    check_exits(damaged.path(), "a principal");
    let damaged = copy(intact.path());
    let early = "(SELECT min(id) FROM log WHERE length(payload) > 100)";
    main_sql(
        damaged.path(),
        &format!("UPDATE log SET payload = zeroblob(length(payload)) WHERE id = {early}"),
    );
    check_exits(damaged.path(), "a payload");
}

// Fails under: a background check that runs only once.
#[test]
fn i22_the_log_is_verified_periodically() {
    let intact = data();
    let mut command = serve(intact.path(), &["--check-every-ms", "50"]);
    command.stderr(Stdio::piped());
    let mut hub = Hub::spawn(command);
    let (status, info) = hub.call(&hub.admin, "GET", "/v1/info", &Value::Null);
    assert_eq!(status, 200, "{info}");
    // Everything was verified at startup; the hub may have created a token since.
    assert!(info["audit"]["verifiedTo"].as_u64().unwrap() + 1 >= info["seq"].as_u64().unwrap(), "{info}");
    main_sql(intact.path(), &format!("UPDATE log SET principal = 'agent:eve' WHERE id = {NTH}"));
    let mut err = String::new();
    hub.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(hub.child.wait().unwrap().code(), Some(65), "{err}");
    assert!(err.contains("edited at record"), "{err}");
}

// Fails under: `verify --json` without a document for unreadable data, or a hint to run `verify` again.
#[test]
fn i22_verify_reports_unreadable_data_in_json() {
    let intact = data();
    let damages: &[(&str, InflictDamage)] = &[
        ("half of it", |data| truncate(data, |length| length / 2)),
        ("nothing of it", |data| truncate(data, |_| 0)),
        ("the header", |data| {
            let mut bytes = fs::read(data.join("quorate.db")).unwrap();
            bytes[..100].fill(0xa5);
            fs::write(data.join("quorate.db"), bytes).unwrap();
        }),
        ("the file", |data| fs::remove_file(data.join("quorate.db")).unwrap()),
        ("the first page of the list of tables", |data| overwrite_root_page(data, "spaces")),
    ];
    for (case, inflict) in damages {
        let damaged = copy(intact.path());
        inflict(damaged.path());
        let output =
            Command::new(QUORATE).args(["verify", "--json", "--data"]).arg(damaged.path()).output().unwrap();
        let (out, err) = streams(&output);
        assert_eq!(output.status.code(), Some(65), "{case}: {err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&report["ok"], &report["spaces"]), (&json!(false), &json!([])), "{case}: {report}");
        let defect = &report["firstBad"];
        assert_eq!(
            (&defect["space"], &defect["seq"], &defect["damage"]),
            (&json!(""), &json!(0), &json!("unreadable"))
        );
        assert!(!defect["detail"].as_str().unwrap().is_empty(), "{case}: {report}");
        assert!(!err.contains("quorate verify") && err.contains("restore a backup"), "{case}: {err}");
    }
}
