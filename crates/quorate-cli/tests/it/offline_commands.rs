//! Commands that work on data directories, as real processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn quorate(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate")).args(arguments).env("NO_COLOR", "1").output();
    output.expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

/// Creates a data directory with a small demo.
fn demo() -> (TempDir, PathBuf, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let output = quorate(&[
        "demo",
        "crash-recovery",
        "--json",
        "--documents",
        "60",
        "--data",
        &data.to_string_lossy(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&output);
    (directory, data, report)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_demo_loses_nothing_and_does_nothing_twice() {
    let (_directory, _data, report) = demo();
    assert_eq!(report["ok"], true);
    assert_eq!((&report["results"], &report["doneTwice"]), (&Value::from(60), &Value::from(0)));
    assert_eq!(report["words"], report["expectedWords"]);
    assert!(report["openAfterKill"].as_u64() > Some(0), "the hub was killed in the middle: {report}");
}

#[test]
fn the_demo_prints_progress_to_stderr_only() {
    let output = quorate(&["demo", "crash-recovery", "--documents", "40"]);
    let progress = text(&output.stderr);
    assert!(output.status.success(), "{progress}");
    for expected in [
        "no LLM",
        "crash",
        "kill -9",
        "restart",
        "0 new messages",
        "40 of 40 results, 0 done twice",
        "verify    ✓",
    ] {
        assert!(progress.contains(expected), "{expected} is missing in:\n{progress}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn the_demo_does_not_overwrite_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = quorate(&["demo", "crash-recovery", "--data", &directory.path().to_string_lossy()]);
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("already exists"));
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 0);
}

#[test]
fn verify_prints_the_head_of_each_space() {
    let (_directory, data, _) = demo();
    let output = quorate(&["verify", "--json", "--data", &data.to_string_lossy()]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!((&report["ok"], &report["firstBad"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(report["spaces"][0]["records"], report["spaces"][0]["seq"]);
    let output_text = text(&quorate(&["verify", "--data", &data.to_string_lossy()]).stdout);
    assert!(output_text.starts_with("✓ default: "), "{output_text}");
}

#[test]
fn verify_names_the_first_bad_record_and_exits_with_65() {
    let (_directory, data, _) = demo();
    let connection = crate::support::database(&data.join("quorate.db"));
    let id: i64 = connection
        .query_row("SELECT id FROM log WHERE length(payload) > 0 ORDER BY id LIMIT 1 OFFSET 5", [], |row| {
            row.get(0)
        })
        .expect("a record");
    connection
        .execute("UPDATE log SET payload = zeroblob(length(payload)) WHERE id = ?1", [id])
        .expect("edited");
    drop(connection);
    let output = quorate(&["verify", "--json", "--data", &data.to_string_lossy()]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(65));
    assert_eq!(report["firstBad"]["damage"], "edited");
    assert_eq!(report["firstBad"]["seq"], id - (1 << 47));
    assert!(text(&output.stderr).contains("nothing was changed"));
}

#[test]
fn a_checkpoint_detects_a_truncated_log() {
    let (_directory, data, _) = demo();
    let checkpoint = quorate(&["audit", "checkpoint", "--data", &data.to_string_lossy()]);
    let file = data.with_extension("jsonl");
    fs::write(&file, &checkpoint.stdout).expect("written");
    let valid =
        quorate(&["verify", "--data", &data.to_string_lossy(), "--checkpoint", &file.to_string_lossy()]);
    assert_eq!(valid.status.code(), Some(0), "{}", text(&valid.stderr));
    let mut later: Value = serde_json::from_slice(&checkpoint.stdout).expect("one line");
    later["seq"] = Value::from(later["seq"].as_u64().expect("a number") + 1);
    fs::write(&file, later.to_string()).expect("written");
    let truncated = quorate(&[
        "verify",
        "--json",
        "--data",
        &data.to_string_lossy(),
        "--checkpoint",
        &file.to_string_lossy(),
    ]);
    assert_eq!(
        (truncated.status.code(), &json(&truncated)["firstBad"]["damage"]),
        (Some(65), &Value::from("truncated"))
    );
    fs::write(&file, "no JSON").expect("written");
    let invalid =
        quorate(&["verify", "--data", &data.to_string_lossy(), "--checkpoint", &file.to_string_lossy()]);
    assert_eq!(invalid.status.code(), Some(64));
    assert!(text(&invalid.stderr).contains("quorate audit checkpoint"), "{}", text(&invalid.stderr));
}

#[test]
fn wrong_directories_are_reported_and_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing");
    let output = quorate(&["verify", "--data", &missing.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    let output = quorate(&["backup", "create", "--data", &missing.to_string_lossy(), "--out", "unused"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(!missing.exists());
    fs::write(directory.path().join("notes.txt"), "mine").expect("written");
    let output =
        quorate(&["backup", "create", "--data", &directory.path().to_string_lossy(), "--out", "unused"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("notes.txt"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1);
}

// Fails under: a dry run that writes; an existing target with another exit code than that of `init`.
#[test]
fn i24_a_backup_has_a_dry_run_and_overwrites_nothing() {
    let (directory, data, _) = demo();
    let (data, copy) = (data.to_string_lossy().into_owned(), directory.path().join("copy"));
    let (copy_path, back) = (copy.to_string_lossy().into_owned(), directory.path().join("back"));
    let create = ["backup", "create", "--data", &data, "--out", &copy_path, "--json"];
    let dry_run = quorate(&[&create[..], &["--dry-run"]].concat());
    assert_eq!(dry_run.status.code(), Some(0), "{}", text(&dry_run.stderr));
    assert!(!copy.exists());
    let created = quorate(&create);
    assert_eq!((created.status.code(), json(&created)), (Some(0), json(&dry_run)));
    let second = quorate(&create);
    assert_eq!(second.status.code(), Some(5), "{}", text(&second.stderr));
    let back_text = back.to_string_lossy().into_owned();
    let restore = ["backup", "restore", "--from", &copy_path, "--data", &back_text];
    let dry_run = quorate(&[&restore[..], &["--dry-run"]].concat());
    assert_eq!(dry_run.status.code(), Some(0), "{}", text(&dry_run.stderr));
    assert!(!back.exists() && text(&dry_run.stdout).contains("up to record"), "{}", text(&dry_run.stdout));
    assert_eq!(quorate(&restore).status.code(), Some(0));
    for rest in [&[][..], &["--dry-run"]] {
        assert_eq!(quorate(&[&restore[..], rest].concat()).status.code(), Some(5));
    }
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    assert_eq!(quorate(&["verify"]).status.code(), Some(64));
    assert_eq!(quorate(&["explain", "--no-such-flag"]).status.code(), Some(2));
    assert_eq!(quorate(&["explain", "NO_SUCH_CODE"]).status.code(), Some(3));
    assert_eq!(quorate(&["--version"]).status.code(), Some(0));
}

#[test]
fn a_backup_is_a_directory_that_verifies_and_restores() {
    let (directory, data, _) = demo();
    let (copy, back) = (directory.path().join("copy"), directory.path().join("back"));
    let created = quorate(&[
        "backup",
        "create",
        "--json",
        "--data",
        &data.to_string_lossy(),
        "--out",
        &copy.to_string_lossy(),
    ]);
    assert_eq!(created.status.code(), Some(0), "{}", text(&created.stderr));
    let position = json(&created)["spaces"][0]["seq"].clone();
    assert!(quorate(&["verify", "--data", &copy.to_string_lossy()]).status.success());
    let second =
        quorate(&["backup", "create", "--data", &data.to_string_lossy(), "--out", &copy.to_string_lossy()]);
    assert!(!second.status.success(), "a backup overwrites nothing");
    let restored = quorate(&[
        "backup",
        "restore",
        "--json",
        "--from",
        &copy.to_string_lossy(),
        "--data",
        &back.to_string_lossy(),
    ]);
    assert_eq!(restored.status.code(), Some(0), "{}", text(&restored.stderr));
    assert_eq!(json(&restored)["spaces"][0]["seq"].as_u64(), position.as_u64().map(|seq| seq + 1));
    assert!(quorate(&["verify", "--data", &back.to_string_lossy()]).status.success());
}

/// Runs the script of the documentation unchanged.
#[test]
fn the_python_script_of_the_documentation_checks_an_export() {
    let (directory, data, _) = demo();
    let page = fs::read_to_string(repository().join("docs/audit.md")).expect("docs/audit.md");
    let script =
        page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a script");
    let imports: Vec<_> =
        script.lines().filter(|line| line.starts_with("import") || line.starts_with("from")).collect();
    assert!(imports.iter().all(|line| !line.contains("quorate")), "{imports:?}");
    assert!(script.lines().count() <= 30, "{} lines", script.lines().count());
    let (file, log) = (directory.path().join("check.py"), directory.path().join("log.jsonl"));
    fs::write(&file, script).expect("written");
    let export = quorate(&["audit", "export", "--data", &data.to_string_lossy()]);
    fs::write(&log, &export.stdout).expect("written");
    let check = |log: &Path| {
        let python = Command::new("python3")
            .arg(&file)
            .arg(log)
            .output()
            .expect("python3 is installed: cargo xtask test checks it");
        (python.status.code(), text(&python.stdout) + &text(&python.stderr))
    };
    let (code, output) = check(&log);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("effects, kind and at are not covered by the hash"), "{output}");
    let mut lines: Vec<Value> =
        text(&export.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines[7]["principal"] = Value::from("agent:mallory");
    let forged: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(&log, forged.join("\n")).expect("written");
    let (code, output) = check(&log);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains(&lines[7]["seq"].to_string()), "it names the record: {output}");
    // The first record contains the name of the space.
    let renamed = text(&export.stdout).replace(r#""space":"default""#, r#""space":"other""#);
    fs::write(&log, renamed).expect("written");
    assert_eq!(check(&log).0, Some(1));
}

#[test]
fn an_export_contains_everything_except_payloads() {
    let (_directory, data, _) = demo();
    let export = quorate(&["audit", "export", "--data", &data.to_string_lossy(), "--space", "default"]);
    let lines: Vec<Value> =
        text(&export.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"].as_u64(), Some(index as u64 + 1));
        assert!(line["at"].as_str().is_some_and(|at| at.ends_with('Z') && at.len() == 24), "{}", line["at"]);
    }
    assert_eq!(lines[0]["effects"][0]["effect"], "space.created");
    assert!(lines[0]["previous"].is_string() && lines[1]["previous"].is_null());
    assert!(!text(&export.stdout).contains("agreement"), "the text of a document is a payload");
    let missing = quorate(&["audit", "export", "--data", &data.to_string_lossy(), "--space", "other"]);
    assert!(!missing.status.success());
}

#[test]
fn an_erased_payload_is_gone_and_the_log_still_verifies() {
    let (_directory, data, _) = demo();
    let directory = data.to_string_lossy();
    let lines = || {
        let export = quorate(&["audit", "export", "--data", &directory]);
        text(&export.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect::<Vec<Value>>()
    };
    let sent = |line: &&Value| line["effects"].to_string().contains("\"message.sent\"");
    let before = lines();
    let seq = before.iter().find(sent).expect("a message")["seq"].to_string();
    let erase = |arguments: &[&str]| {
        quorate(&[&["audit", "erase", "--json", "--data", &directory], arguments].concat())
    };
    let planned = erase(&[&seq, "0", "--dry-run"]);
    assert_eq!((planned.status.code(), &json(&planned)["erasedBy"]), (Some(0), &Value::Null));
    assert_eq!(lines().len(), before.len(), "a dry run writes nothing");
    let erased = erase(&[&seq, "0"]);
    assert_eq!(json(&erased)["erasedBy"].as_u64(), Some(before.len() as u64 + 1), "{}", text(&erased.stderr));
    assert_eq!(lines().last().expect("a line")["effects"][0]["effect"], "payload.erased");
    assert!(quorate(&["verify", "--data", &directory]).status.success());
    let connection = crate::support::database(&data.join("quorate.db"));
    let row = (1_i64 << 47) + seq.parse::<i64>().expect("a number");
    let bytes: Vec<u8> = connection
        .query_row("SELECT payload FROM log WHERE id = ?1", [row], |row| row.get(0))
        .expect("a row");
    let length = json(&erased)["bytes"].as_u64().expect("a length") as usize;
    assert!(length > 0 && bytes[..length].iter().all(|byte| *byte == 0), "{length} bytes are blank");
    drop(connection);
    assert_eq!(json(&erase(&[&seq, "0"]))["erasedBy"], Value::Null, "once is enough");
    for invalid in [&[&*seq, "99"][..], &["99999999", "0"], &[&seq, "0", "--space", "other"]] {
        let refused = erase(invalid);
        assert_eq!(refused.status.code(), Some(3), "{invalid:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("NOT_FOUND"));
    }
    assert_eq!(lines().len(), before.len() + 1, "a refusal makes no space and no record");
}

#[test]
fn bench_measures_and_prints_one_object_a_line() {
    let workloads = "W0 W1 W2 W3 W4 W5 W6 W7 W9 BEATS WAITS HOLD HTTP LOAD NEIGHBOUR --quick --json --tiny";
    let arguments: Vec<&str> = std::iter::once("bench").chain(workloads.split(' ')).collect();
    let output = quorate(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut seen = Vec::new();
    for line in text(&output.stdout).lines() {
        let measurement: Value = serde_json::from_str(line).expect("JSON");
        for field in [
            "perSecond",
            "p99Us",
            "commits",
            "perCommit",
            "syncUs",
            "fsyncs",
            "bytesWritten",
            "cpuSeconds",
            "settings",
        ] {
            assert!(!measurement[field].is_null(), "{field} in {line}");
        }
        assert!(
            measurement["fsyncs"].as_u64() >= measurement["commits"].as_u64(),
            "every commit was synced: {line}"
        );
        assert!(measurement["perSecond"].as_f64() > Some(0.0), "{line}");
        seen.push(measurement["workload"].as_str().unwrap_or_default().to_owned());
    }
    let expected = "W0 W1 W1 W2 W2 W3 W3 W3 W3 W4 W4 W5 W5 W6 W6 W7 W9 BEATS WAITS HOLD HOLD HOLD HOLD HOLD HOLD HOLD HTTP HTTP LOAD LOAD";
    // Idle, and with eleven kinds of neighbours, in another space and in the same one.
    let neighbours = " NEIGHBOUR".repeat(24);
    assert_eq!(seen.join(" "), format!("{expected}{neighbours}"));
    assert_eq!(quorate(&["bench", "W99"]).status.code(), Some(2));
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 11] = [
        &["demo"],
        &["verify"],
        &["audit", "export"],
        &["audit", "checkpoint"],
        &["audit", "erase"],
        &["backup", "create"],
        &["backup", "restore"],
        &["bench"],
        &["explain"],
        &["serve"],
        &["cert", "dev"],
    ];
    for command in commands {
        let output = quorate(&[command, &["--help"]].concat());
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert!(help.contains("Example: quorate"), "{command:?} has no example:\n{help}");
    }
}
