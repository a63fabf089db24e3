//! Text from agents is sanitized: no escape code, control character, bidirectional override or invisible character reaches a
//! terminal, in any command and format.

use serde_json::{Value, json};

use crate::fixture::{CommandOutput, Fixture, command_output};

/// Sequences and characters that terminals interpret, or that are invisible.
const SEEDS: [&str; 25] = [
    "\x1b[2J",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;Y3VybCBldmls\x07",
    "\x1bP$q\"p\x1b\\",
    "\x1bc",
    "\x1b[6n",
    "\x1b[?1049h",
    "\u{9b}2J",
    "\u{9d}0;title\u{9c}",
    "\u{90}data\u{9c}",
    "\x07\x08\x08\x08",
    "\roverwritten",
    "\x0b\x0c",
    "\x7f\x7f",
    "\u{202e}gnp.exe",
    "\u{2066}isolate\u{2069}",
    "\u{200f}\u{200e}\u{61c}",
    "\u{2028}line\u{2029}paragraph",
    "zero\u{200b}width\u{200d}\u{2060}",
    "\u{feff}bom\u{ad}soft",
    "\u{e0041}\u{e007f}tags",
    "\u{85}next\u{84}",
    "\x01\x02\x1f",
];

/// Contexts of the sequences in a text.
const WRAPS: [&str; 8] = ["X", "before X after", "X X", "[X](X)", "| X |", "\"X\"", "a\nX\tb", "<b>X</b>"];

fn corpus() -> Vec<String> {
    SEEDS.iter().flat_map(|seed| WRAPS.iter().map(move |wrap| wrap.replace('X', seed))).collect()
}

/// Checks that the output has only visible characters and newlines.
fn check(line: &str, output: &CommandOutput) {
    for (stream, text) in [("stdout", &output.out), ("stderr", &output.err)] {
        let hostile = text.chars().find(|ch| {
            // `compact` separates fields with tabs.
            let is_control = ch.is_control() && !matches!(ch, '\n' | '\t');
            let hidden = [
                '\u{202a}'..='\u{202e}',
                '\u{2066}'..='\u{2069}',
                '\u{200b}'..='\u{200f}',
                '\u{2028}'..='\u{2029}',
            ];
            let hidden = hidden.iter().any(|range| range.contains(ch));
            is_control
                || hidden
                || matches!(ch, '\u{feff}' | '\u{ad}' | '\u{61c}' | '\u{2060}' | '\u{e0000}'..='\u{e007f}')
        });
        assert_eq!(hostile, None, "{line}: {hostile:?} on {stream}");
    }
}

/// Starts a hub with hostile texts in every field that agents can set.
fn hub_with_hostile_texts() -> Fixture {
    let fixture = Fixture::with_hub();
    let corpus = corpus();
    assert_eq!(corpus.len(), 200);
    let all = corpus.join(" ");
    // The hub rejects control characters in names and reasons, but not these.
    let name = "\u{202e}gnp.exe \u{200b}\u{feff}\u{2066}x\u{2069}";
    let call = |method: &str, path: &str, body: Value| fixture.call(method, path, &body.to_string());
    call("PUT", "/v1/agents/bob", json!({"name": name, "capabilities": ["sum"]}));
    call("POST", "/v1/agents/bob/heartbeat", json!({"health": "degraded", "note": name}));
    let messages: Vec<Value> = corpus
        .iter()
        .map(|text| json!({"to": "bob", "from": "bob", "payload": text, "rationale": text, "metadata": {"m": text}}))
        .collect();
    call("POST", "/v1/messages", Value::Array(messages));
    let message = json!({"to": "bob", "from": "bob", "id": "whole", "payload": {"all": all, "list": corpus}, "rationale": corpus[0]});
    call("POST", "/v1/messages", message);
    let puts: Vec<Value> = corpus
        .iter()
        .enumerate()
        .map(|(n, text)| json!({"op": "put", "key": format!("k/{n}"), "content": text}))
        .collect();
    call("POST", "/v1/commit", json!({"ops": puts}));
    call("PUT", "/v1/context/plan", json!({"content": all}));
    call("PUT", "/v1/context/plan", json!({"content": corpus}));
    call("POST", "/v1/sessions", json!({"id": "s", "title": name, "coordinator": "bob", "task": all}));
    for text in corpus.iter().step_by(8) {
        call("POST", "/v1/sessions/s/add", json!({"kind": "note", "body": text, "rationale": text}));
    }
    call("POST", "/v1/sessions/s/pause", json!({"reason": name}));
    call("POST", "/v1/tasks", json!({"id": "t", "type": "sum", "agent": "bob", "input": all}));
    let claimed = call("POST", "/v1/tasks/claim", json!({"agent": "bob", "types": ["sum"]}));
    let token = &claimed["tasks"][0]["leaseToken"];
    call("POST", "/v1/tasks/t/complete", json!({"leaseToken": token, "result": all, "rationale": corpus[8]}));
    call("POST", "/v1/tasks", json!({"id": "u", "type": "sum"}));
    call("POST", "/v1/tasks/u/cancel", json!({"reason": name}));
    let claimed = call("POST", "/v1/agents/bob/inbox/claim", json!({"max": 25}));
    let nacks: Vec<Value> = claimed["deliveries"]
        .as_array()
        .expect("deliveries")
        .iter()
        .zip(corpus.iter().step_by(8))
        .map(|(delivery, text)| {
            json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "hopeless": true, "reason": text})
        })
        .collect();
    call("POST", "/v1/agents/bob/inbox/nack", json!({"deliveries": nacks}));
    call("POST", "/v1/flags", json!({"what": all, "severity": corpus[1], "location": corpus[9]}));
    call("POST", "/v1/flags", json!({"list": corpus}));
    let moderator = call("POST", "/v1/tokens", json!({"role": "moderator", "name": "mo"}));
    let secret = moderator["token"].as_str().expect("a token");
    std::fs::write(fixture.work().join("mo.token"), secret).expect("written");
    fixture
}

#[test]
fn c9_two_hundred_hostile_texts_are_sanitized() {
    let fixture = hub_with_hostile_texts();
    let lines = [
        "status",
        "agent list",
        "agent show bob",
        "msg list --to bob --limit 1000",
        "msg list --from bob --limit 1000",
        "msg list --dead",
        "msg show whole",
        "msg why whole",
        "memory list --limit 1000",
        "memory get plan",
        "memory get plan --metadata",
        "memory log plan",
        "memory diff plan",
        "session list",
        "session show s",
        "session timeline s --limit 1000",
        "task list",
        "task show t",
        "task show u",
        "task graph",
        "token list",
        "tail --from 1 --limit 10",
        "doctor",
        "msg list --limit 1000",
        "audit log --limit 1000",
        "flag list --token-file mo.token",
        "flag show @last --token-file mo.token",
    ];
    for line in lines {
        for format in ["table", "json", "jsonl", "md", "compact"] {
            // The log has its own formats.
            if line.starts_with("audit log") && ["md", "compact"].contains(&format) {
                continue;
            }
            let line = format!("quorate {line} --format {format}");
            let output = fixture.shell(&line);
            assert_eq!(output.code, Some(0), "{line}: {}", output.err);
            assert!(!output.out.is_empty(), "{line} prints something");
            check(&line, &output);
            if format == "json" && !line.contains(" tail ") && !line.contains(" log --limit") {
                assert!(serde_json::from_str::<Value>(&output.out).is_ok(), "{line}: one document");
            }
        }
    }
    for line in [
        "session export s",
        "audit export",
        "audit log --format text",
        "audit log --format messages",
        "metrics",
    ] {
        check(line, &fixture.shell(&format!("quorate {line}")));
    }
}

#[test]
fn c9_hostile_texts_are_unchanged_in_json() {
    let fixture = hub_with_hostile_texts();
    let found: Value =
        serde_json::from_str(&fixture.shell("quorate memory get plan --json").out).expect("JSON");
    assert_eq!(found["content"], json!(corpus()));
}

#[test]
fn c9_hostile_arguments_are_sanitized_in_errors() {
    let fixture = Fixture::with_hub();
    for text in corpus().iter().step_by(7).filter(|text| !text.contains('\0')) {
        for line in [
            "agent show",
            "msg show",
            "memory get",
            "task show",
            "session show",
            "explain",
            "memory delete",
            "flag show",
        ] {
            let output = fixture
                .command("quorate")
                .args(line.split(' '))
                .arg("--")
                .arg(text)
                .output()
                .expect("it runs");
            assert!(!output.status.success(), "{line} {text:?}");
            check(line, &command_output(&output));
        }
    }
}
