//! `quorate compress`: offline, and with originals in the shared memory.

use std::fs;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::support::run_guide;

#[test]
fn the_commands_of_the_compression_guide_work() {
    run_guide("compression.md");
}

const NOTES: &str = "# Import\n\nObjective: find out why import 42 fails.\n\n## Cause\n\nThe vacuum and the import deadlock at 03:14.\n";

// Fails under: an output beyond the budget; a part that is printed with a line end; an error without the minimum.
#[test]
fn b5_a_file_or_stdin_is_compressed_without_a_hub() {
    let fixture = Fixture::empty();
    fs::write(fixture.work().join("notes.md"), NOTES).expect("written");
    let output = fixture.shell("quorate compress notes.md --budget 200 --json");
    assert_eq!(output.code, Some(0), "{}", output.err);
    let compressed: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(compressed["refs"]["full"], "notes.md");
    assert!(
        compressed["tokens"].as_u64() <= Some(200) && output.out.contains("deadlock at 03:14"),
        "{compressed}"
    );
    assert!(output.err.contains("tokens compressed to"), "{}", output.err);
    let piped = fixture.shell("quorate compress - --budget 200 < notes.md");
    assert!(piped.out.starts_with("summary: ") && piped.out.contains("full: \"-\""), "{}", piped.out);
    assert_eq!(fixture.shell("quorate compress notes.md --expand '[expand:full]'").out, NOTES);
    let part = fixture.shell("quorate compress notes.md --expand T1 --json").out;
    let part: Value = serde_json::from_str(&part).expect("JSON");
    assert!(part["text"].as_str().is_some_and(|text| NOTES.starts_with(text)), "{part}");
    let transcript = fixture.transcript(&[
        "quorate compress notes.md --budget 5",
        "quorate compress notes.md --expand T7",
        "quorate compress missing.md",
        "printf 'a\\377' | quorate compress -",
        "quorate compress",
    ]);
    for expected in [
        "is too small: this context needs at least",
        "use --budget",
        "there is no part T7",
        "[3]",
        "invalid byte at offset 1",
    ] {
        assert!(transcript.contains(expected), "{expected} is missing in:\n{transcript}");
    }
}

// Fails under: a reference that names no entry; an entry that is overwritten or written by a dry run; parts that differ.
#[test]
fn b5_another_agent_expands_an_original_from_the_shared_memory() {
    let fixture = Fixture::with_hub();
    fs::write(fixture.work().join("notes.md"), NOTES).expect("written");
    let succeed = |line: &str| {
        let output = fixture.shell(line);
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
        output.out
    };
    succeed("umask 077; quorate agent add alice > alice; quorate agent add bob > bob");
    succeed("quorate compress notes.md --store handoff/1 --dry-run --token-file alice");
    assert_eq!(fixture.shell("quorate memory get handoff/1").code, Some(3), "a dry run writes nothing");
    let stored = succeed("quorate compress notes.md --store handoff/1 --token-file alice --json");
    assert!(stored.contains(r#""full":"memory:handoff/1""#), "{stored}");
    assert_eq!(succeed("quorate compress --from handoff/1 --expand full --token-file bob"), NOTES);
    let again = succeed("quorate compress --from handoff/1 --token-file bob --json");
    assert_eq!(again, stored, "another agent compresses it the same way");
    let entry = fixture.call("GET", "/v1/context/handoff%2F1", "");
    let parts = entry["content"]["parts"].as_array().expect("parts");
    let texts = parts.iter().map(|part| part["text"].as_str().expect("a text")).collect::<String>();
    assert_eq!((texts.as_str(), &parts[0]["id"]), (NOTES, &Value::from("T1")));
    assert_eq!(fixture.shell("quorate compress notes.md --store handoff/1 --token-file alice").code, Some(5));
    succeed("quorate memory set plan 'ship it'");
    let other = fixture.shell("quorate compress --from plan");
    assert!(other.code == Some(2) && other.err.contains("quorate memory get plan"), "{}", other.err);
}
