//! Commands against a running hub: output, streams and exit codes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use expect_test::expect_file;
use serde_json::Value;

use crate::fixture::Fixture;

#[test]
fn agents_are_added_listed_and_removed() {
    let fixture = Fixture::with_hub();
    let transcript = fixture.transcript(&[
        "quorate agent list",
        "quorate agent add alice --role coordinator",
        "quorate agent add bob --capability sum --capability count --name Bob > bob.token",
        "quorate agent list",
        "quorate agent show bo",
        "quorate agent add bob --capability sum",
        "quorate agent list --format md",
        "quorate agent list --capability sum --format compact | cut -f1,2",
        "quorate agent show nobody",
        "quorate agent remove alice --dry-run",
        "quorate agent remove alice",
        "quorate agent list --jsonl | wc -l",
    ]);
    expect_file!["golden/agents.txt"].assert_eq(&transcript);
    assert!(fs::read_to_string(fixture.work().join("bob.token")).expect("a file").starts_with("qrt_"));
}

#[test]
fn a5_ballots_are_tallied_and_invalid_ones_reported() {
    let mut fixture = Fixture::empty();
    fixture.address = "no hub".to_owned();
    let ballots = r#"{"question":"sign","voter":"risk","choice":"no","confidence":0.9,"ranking":["no","later","yes"]}
{"question":"sign","voter":"money","choice":"yes","confidence":0.5,"ranking":["yes","later","no"]}
{"question":"sign","voter":"law","choice":"yes","confidence":0.3,"ranking":["yes","later","no"]}

{"question":"term","voter":"risk","choice":"12 months","confidence":0.6}
{"question":"term","voter":"law","choice":"24 months","confidence":0.6,"reason":"clause 3"}
"#;
    fs::write(fixture.work().join("ballots.jsonl"), ballots).expect("written");
    fs::write(fixture.work().join("long.jsonl"), format!("{{\"question\":\"{}\"}}", "q".repeat(70_000)))
        .expect("written");
    let tally = |line: &str| format!("echo '{line}' | quorate vote tally --json");
    let invalid = [
        "{\"question\":\"q\",\"voter\":\"v\"",
        "{\"question\":\"q\",\"voter\":\"v\"}",
        "{\"question\":\"q\",\"voter\":1,\"choice\":\"a\"}",
        "{\"question\":\"q\",\"voter\":\"v\",\"choice\":\"a\",\"confidence\":7}",
    ]
    .map(tally);
    let mut lines = vec![
        "quorate vote tally < ballots.jsonl",
        "quorate vote tally --json < ballots.jsonl",
        "quorate vote tally --rule majority --json < ballots.jsonl",
        "quorate vote tally --rule log-odds --json < ballots.jsonl",
        "quorate vote tally --rule borda --json < ballots.jsonl",
        "quorate vote tally --rule reliability --json < ballots.jsonl",
        "quorate vote tally --tie-break last-listed < ballots.jsonl",
        "cat ballots.jsonl ballots.jsonl | quorate vote tally --json",
        "quorate vote tally < long.jsonl",
        "quorate vote tally < /dev/null",
        "quorate vote tally --rule loudest < ballots.jsonl",
    ];
    lines.extend(invalid.iter().map(String::as_str));
    expect_file!["golden/vote.txt"].assert_eq(&fixture.transcript(&lines));
}

#[test]
fn messages_are_sent_listed_and_redriven() {
    let fixture = Fixture::with_hub();
    for agent in ["alice", "bob"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let transcript = fixture.transcript(&[
        "quorate msg send --to bob --from alice 'hello'",
        "quorate msg send --to bob --from alice --action review --value '{\"a\": 1.0}' --dry-run",
        "quorate msg send --to bob --from alice --action review --value '{\"a\": 1.0}' --json",
        "quorate msg send --to bob --value '{wrong'",
        "quorate msg send --to nobody x",
        "quorate msg list --to bob",
        "quorate msg list --from alice",
        "quorate msg show msg_0-6-0",
        "quorate msg why msg_0-6-0",
        "quorate msg show msg_0-99-0",
        "quorate msg list --dead",
        "echo piped | quorate msg send --to bob --from alice",
        "echo piped | quorate msg send --to bob --from alice -",
        "quorate msg show @last --payload",
        "quorate msg send --to bob --from alice 'café ✓' --json --ascii",
        "quorate msg list --to bob --ascii --jsonl | tail -n 1",
    ]);
    expect_file!["golden/messages.txt"].assert_eq(&transcript);
    let claimed = fixture.call("POST", "/v1/agents/bob/inbox/claim", "{}");
    let (delivery, token) =
        (&claimed["deliveries"][0]["deliveryId"], &claimed["deliveries"][0]["leaseToken"]);
    let nack = format!(
        r#"{{"deliveries":[{{"deliveryId":{delivery},"leaseToken":{token},"hopeless":true,"reason":"cannot read it"}}]}}"#
    );
    fixture.call("POST", "/v1/agents/bob/inbox/nack", &nack);
    let transcript = fixture.transcript(&[
        "quorate msg list --dead",
        "quorate status",
        "quorate msg redrive msg_0-5-0 --dry-run",
        "quorate msg redrive msg_0-5-0",
        "quorate msg redrive msg_0-5-0",
    ]);
    let transcript = transcript.replace(|ch: char| ch.is_ascii_digit(), "N");
    expect_file!["golden/dead-letters.txt"].assert_eq(&transcript);
}

// Fails under: a separate document for each delivery.
#[test]
fn d7_all_dead_deliveries_of_a_message_are_redriven_in_one_document() {
    let fixture = Fixture::with_hub();
    let agents = ["bob", "carol", "dave"];
    for agent in agents {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    fixture.call("POST", "/v1/messages", r#"{"to":["bob","carol","dave"],"payload":1}"#);
    let deliveries = agents.map(|agent| {
        let claimed = fixture.call("POST", &format!("/v1/agents/{agent}/inbox/claim"), "{}");
        let claimed = &claimed["deliveries"][0];
        let (id, token) = (&claimed["deliveryId"], &claimed["leaseToken"]);
        let nack =
            format!(r#"{{"deliveries":[{{"deliveryId":{id},"leaseToken":{token},"hopeless":true}}]}}"#);
        fixture.call("POST", &format!("/v1/agents/{agent}/inbox/nack"), &nack);
        id.as_str().expect("an id").to_owned()
    });
    let document = |line: &str| {
        let output = fixture.shell(line);
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
        serde_json::from_str::<Value>(&output.out)
            .unwrap_or_else(|error| panic!("{line}: {error}: {}", output.out))
    };
    let dry_run = document("quorate msg redrive @last --dry-run --json");
    assert_eq!(dry_run["body"]["ops"].as_array().map(Vec::len), Some(3), "{dry_run}");
    let redriven = document("quorate msg redrive @last --json");
    assert_eq!(redriven["results"].as_array().map(Vec::len), Some(3), "{redriven}");
    for (agent, delivery) in agents.iter().zip(&deliveries) {
        let claimed = fixture.call("POST", &format!("/v1/agents/{agent}/inbox/claim"), "{}");
        assert_eq!(claimed["deliveries"][0]["deliveryId"], delivery.as_str(), "{claimed}");
    }
}

#[test]
fn d3_json_output_has_the_exact_bytes_that_were_sent() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", "{}");
    let unusual = r#"{"b": 1.0,  "a":[1e2, "é\u00e9"],"b2":12345678901234567890123}"#;
    fs::write(fixture.work().join("odd.json"), unusual).expect("written");
    let output =
        fixture.shell("quorate msg send --to bob --file odd.json && quorate msg show msg_0-4-0 --json");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.out.contains(unusual), "{}", output.out);
    let output = fixture.shell("quorate memory set odd --file - < odd.json && quorate memory get odd --json");
    assert!(output.out.contains(unusual), "{}{}", output.out, output.err);
}

#[test]
fn tasks_are_added_listed_and_cancelled() {
    let fixture = Fixture::with_hub();
    fs::write(
        fixture.work().join("graph.json"),
        r#"{"tasks":[{"id":"build","type":"make"},{"id":"test","type":"make","dependsOn":["build"]},
            {"id":"deploy","type":"ship","dependsOn":["test","build"]}]}"#,
    )
    .expect("written");
    let transcript = fixture.transcript(&[
        "quorate task add sum --value '[1,2]' --id t1 --priority high",
        "quorate task add --graph graph.json",
        "quorate task add --graph graph.json --json",
        "quorate task list",
        "quorate task list --order oldest --limit 2 --format compact | cut -f1",
        "quorate task graph",
        "quorate task graph test",
        "quorate task why deploy",
        "quorate task cancel build --reason 'not needed'",
        "quorate task show deploy",
        "quorate task list --status cancelled --format compact | cut -f1,3",
        "quorate task show t",
        "quorate task cancel t1 --dry-run",
        "quorate task retry t1",
        "quorate task cancel t1",
        "quorate task retry t1",
        "quorate task show t1",
        "quorate task show @last --json | grep -c '\"id\":'",
    ]);
    expect_file!["golden/tasks.txt"].assert_eq(&transcript);
}

#[test]
fn memory_is_written_compared_and_restored() {
    let fixture = Fixture::with_hub();
    let transcript = fixture.transcript(&[
        "quorate memory set plan 'ship on Friday'",
        "quorate memory set plan --value '{\"ship\":\"Friday\",\"who\":[\"ann\"]}' --expect 1 --type plan",
        "quorate memory set plan --value '{\"ship\":\"Monday\",\"who\":[\"ann\",\"ben\"]}'",
        "quorate memory set plan again --expect 1",
        "quorate memory get plan",
        "quorate memory get plan --version 1",
        "quorate memory log plan",
        "quorate memory diff plan",
        "quorate memory diff plan 1 1 --json",
        "quorate memory rollback plan --to-version 2 --dry-run",
        "quorate memory rollback plan --to-version 2",
        "quorate memory rollback plan",
        "quorate memory get plan --metadata",
        "quorate memory set team/ann 1 --dry-run",
        "quorate memory set team/ann --value 1 --depends-on plan",
        "quorate memory list team/",
        "quorate memory delete team/ann --expect 1",
        "quorate memory get team/ann",
        "quorate memory set empty",
    ]);
    expect_file!["golden/memory.txt"].assert_eq(&transcript);
}

// Fails under: inconsistencies that no command shows; a line in the status without inconsistencies.
#[test]
fn m10_inconsistencies_of_the_memory_are_listed_and_named_in_the_status() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/bob", r#"{"capabilities":["sum"]}"#);
    let transcript = fixture.transcript(&[
        "quorate memory check --last",
        "quorate memory check",
        "quorate status | grep 'shared memory'",
        "for key in a b c; do quorate memory set $key 1; done 2> /dev/null",
        "for key in d e; do quorate memory set $key 1 --depends-on a; done 2> /dev/null",
        "quorate memory set f 1 --depends-on b 2> /dev/null; quorate memory set b 2 2> /dev/null",
        "quorate memory delete a",
        "quorate task add sum --id t1 1 2> /dev/null; quorate task claim --agent bob > /dev/null 2>&1; quorate task complete t1 1",
        "quorate memory check",
        "quorate memory check --last --format compact",
        "quorate status | grep 'shared memory'",
    ]);
    expect_file!["golden/memory-check.txt"].assert_eq(&transcript);
}

#[test]
fn sessions_are_opened_paused_and_ended() {
    let fixture = Fixture::with_hub();
    for agent in ["alice", "bob"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let transcript = fixture.transcript(&[
        "quorate session open 'Review the contract' --coordinator alice --participant bob --id review --task '{\"pages\":3}'",
        "quorate session pause rev --reason lunch",
        "quorate status",
        "quorate session resume @last",
        "quorate msg send --to bob --from alice --session review 'page one'",
        "quorate session show review",
        "quorate session timeline review",
        "quorate session list",
        "quorate session complete review --dry-run",
        "quorate session complete review",
        "quorate session pause review",
        "quorate session export review | python3 -c 'import json,sys; d=json.load(sys.stdin); print(sorted(d), len(d[\"timeline\"]), d[\"whole\"])'",
    ]);
    expect_file!["golden/sessions.txt"].assert_eq(&transcript);
}

#[test]
fn i18_a_secret_is_printed_once_and_alone() {
    let fixture = Fixture::with_hub();
    let transcript = fixture.transcript(&[
        "quorate token create --role viewer --name dash",
        "quorate token create --role viewer --name dash --expires-at soon",
        "quorate token create --role viewer --name brief --expires-at 2030-01-01T00:00:00Z --dry-run",
        "quorate token list",
        "quorate token revoke @last --dry-run",
        "quorate token revoke tok_0-3",
        "quorate token list --jsonl | wc -l",
    ]);
    expect_file!["golden/tokens.txt"].assert_eq(&transcript);
    let secret = fixture.shell("quorate token create --role viewer --name script 2>/dev/null").out;
    assert_eq!(secret.trim_end().len(), 53, "nothing but the secret: {secret}");
    let line = format!("QUORATE_TOKEN={} quorate task list && quorate --version", secret.trim_end());
    assert_eq!(fixture.shell(&line).code, Some(0));
    let line = format!("quorate task list --token {}", secret.trim_end());
    assert!(fixture.shell(&line).err.starts_with("warning: --token exposes the token"));
    let write = format!("QUORATE_TOKEN={} quorate memory set x y", secret.trim_end());
    let refused = fixture.shell(&write);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.starts_with("error[FORBIDDEN]"), "{}", refused.err);
}

// Fails under: a flag that is not sent; a list that does not show the grants; a refusal without the command to run.
#[test]
fn i19_tokens_are_created_with_grants() {
    let fixture = Fixture::with_hub();
    let transcript = fixture.transcript(&[
        "quorate agent add bob --capability sum > bob.token",
        "quorate token create --role agent --agent bob --name pc --grant-role coordinator \
         --grant-capability deploy --grant-capability sum > pc.token",
        "quorate token create --role agent --agent bob --name pc --grant-capability '*' --dry-run",
        "quorate token create --role viewer --name dash --grant-role worker",
        "quorate token list",
        "quorate agent set bob --role coordinator --token-file bob.token",
        "quorate agent set bob --role coordinator --token-file pc.token",
        "quorate agent set bob --capability deploy --capability audit --token-file pc.token",
    ]);
    expect_file!["golden/grants.txt"].assert_eq(&transcript);
}

#[test]
fn every_kind_of_error_has_its_exit_code() {
    let mut fixture = Fixture::with_hub();
    let code = |fixture: &Fixture, line: &str| {
        let output = fixture.shell(line);
        (output.code, output.err)
    };
    let without_token = format!("cd / && quorate status --url http://{}", fixture.address);
    let cases: [(&str, i32, &str); 16] = [
        ("quorate status", 0, ""),
        ("quorate task", 2, "Usage"),
        ("quorate task list --no-such-flag", 2, "Usage"),
        ("quorate task list --limit 5000", 2, "1..=1000"),
        ("quorate task list --json --jsonl", 2, "cannot be used with"),
        ("quorate task show nothing", 3, "error[NOT_FOUND]"),
        ("quorate session show @last", 3, "there is no session yet"),
        ("QUORATE_TOKEN=wrong quorate status", 4, "error[UNAUTHENTICATED]: invalid access token"),
        (&without_token, 4, "missing token"),
        ("quorate init && quorate init", 5, "nothing was changed"),
        ("quorate tail --where nonsense", 2, "use kind=EFFECT"),
        ("quorate status --profile staging", 2, "unknown profile \"staging\", selected by --profile"),
        ("quorate status --data nowhere", 3, "the directory nowhere does not exist"),
        ("quorate status --url http://192.0.2.1:1 --token-file quorate-data/admin-token", 2, "unencrypted"),
        ("quorate status --token-file nowhere", 2, "cannot read the token file nowhere"),
        ("quorate metrics --url nonsense", 2, "invalid hub URL nonsense"),
    ];
    for (line, expected, expected_text) in cases {
        let (code, err) = code(&fixture, line);
        assert_eq!(code, Some(expected), "{line}: {err}");
        assert!(err.contains(expected_text), "{line}: {err}");
        assert!(
            expected == 0 || err.contains("help:") || err.contains("Usage") || err.contains("error:"),
            "{line}: {err}"
        );
    }
    fixture.kill();
    let (found, err) = code(&fixture, "quorate status");
    assert_eq!(found, Some(1), "{err}");
    assert!(err.contains("error[UNAVAILABLE]") && err.contains("quorate serve"), "{err}");
}

#[test]
fn json_is_the_same_on_a_terminal_and_in_a_pipe() {
    let fixture = Fixture::with_hub();
    fixture.call(
        "PUT",
        "/v1/agents/bob",
        r#"{"name":"a name that is so long that a table on a terminal would cut it off"}"#,
    );
    fixture.call("PUT", "/v1/context/plan", r#"{"content":{"text":"line one\nline two"}}"#);
    let lines = [
        "agent list --json",
        "agent show bob --json",
        "memory list --jsonl",
        "memory log plan --format json",
        "memory get plan --json",
        "config explain --json",
        "tail --from 1 --limit 3 --jsonl",
        "token list --json",
        "task list --json",
        "version --json",
        "agent show nobody --json",
    ];
    let spawn = "import pty,sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    for line in lines {
        let pipe = fixture.shell(&format!("quorate {line} 2>/dev/null"));
        let terminal = fixture.shell(&format!("python3 -c '{spawn}' bash -c 'quorate {line} 2>/dev/null'"));
        // The time of the last activity differs between the two calls.
        assert_eq!(fixture.masked(&terminal.out.replace("\r\n", "\n")), fixture.masked(&pipe.out), "{line}");
        assert_eq!(terminal.code, pipe.code, "{line}: {}", terminal.err);
    }
}

#[test]
fn colours_are_used_on_terminals_only_and_can_be_disabled() {
    let fixture = Fixture::empty();
    let spawn = "import pty,sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let has_colours = |variable: &str| {
        fixture.shell(&format!("{variable} python3 -c '{spawn}' quorate agent show x")).out.contains("\x1b[")
    };
    assert!(has_colours("TERM=xterm"));
    assert!(!has_colours("NO_COLOR=1") && !has_colours("CI=true"));
    assert!(!fixture.shell("quorate agent show x").err.contains('\x1b'));
}

#[test]
fn a_closed_pipe_does_not_panic() {
    let fixture = Fixture::with_hub();
    for n in 0..300 {
        fixture.call("PUT", &format!("/v1/context/k{n}"), r#"{"content":"some text to fill a pipe with"}"#);
    }
    for line in [
        "explain",
        "memory list --limit 1000",
        "tail --from 1 --jsonl",
        "completions bash",
        "man",
        "audit log --data DATA",
    ] {
        let line = line.replace("DATA", "copy");
        if line.contains("copy") {
            let copied = fixture.shell("cp -r quorate-data copy");
            assert_eq!(copied.code, Some(0), "{}", copied.err);
        }
        let output = fixture.shell(&format!("set -o pipefail; quorate {line} | head -n 1"));
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
        assert!(!output.err.contains("panicked"), "{line}: {}", output.err);
        assert_eq!(output.out.lines().count(), 1, "{line}");
    }
}

#[test]
fn a_tail_resumes_after_the_hub_was_killed_and_misses_nothing() {
    let mut fixture = Fixture::with_hub();
    let mut tail = fixture.command("quorate");
    tail.args(["tail", "--from", "1", "--jsonl", "--limit", "5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut tail = tail.spawn().expect("it starts");
    let mut lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
    let mut next = || -> u64 {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str::<Value>(&line).expect("JSON")["seq"].as_u64().expect("a number")
    };
    assert_eq!([next(), next()], [1, 2]);
    fixture.kill();
    let address = fixture.address.clone();
    fixture.start(&address);
    for n in 0..3 {
        fixture.call("PUT", &format!("/v1/context/k{n}"), r#"{"content":1}"#);
    }
    assert_eq!([next(), next(), next()], [3, 4, 5]);
    assert!(tail.wait().expect("it ends").success(), "it stops at the limit");
}

#[test]
fn an_interrupted_tail_exits_with_130() {
    let fixture = Fixture::with_hub();
    let mut tail = fixture
        .command("quorate")
        .args(["tail", "--from", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(tail.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let sent = fixture.command("kill").args(["-INT", &tail.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(tail.wait().expect("it ends").code(), Some(130));
}

#[test]
fn the_effective_configuration_is_explained_with_its_sources() {
    let fixture = Fixture::with_hub();
    let config = fixture.home().join(".config/quorate");
    fs::create_dir_all(&config).expect("made");
    fs::write(config.join("config.yaml"), "# mine\nspace: lab\nurl: http://127.0.0.1:9\n").expect("written");
    fs::write(
        fixture.work().join("quorate.yaml"),
        "data: quorate-data\nprofiles:\n  near:\n    url: http://127.0.0.1:7\n    token_file: near-token\n",
    )
    .expect("written");
    let transcript = fixture.transcript(&[
        "quorate config path --format compact",
        "quorate config show --format compact",
        "QUORATE_SPACE=other QUORATE_TOKEN=qrt_x quorate config explain --profile near --format compact",
        "quorate config show --json",
        "QUORATE_PROFILE=nera quorate config show",
        "echo 'profil: near' >> quorate.yaml; quorate status",
    ]);
    expect_file!["golden/config.txt"].assert_eq(&transcript);
}

#[test]
fn doctor_reports_problems_with_fixes_and_changes_nothing() {
    let mut fixture = Fixture::with_hub();
    let before = fs::read_dir(fixture.data()).expect("readable").count();
    let healthy = fixture.shell("quorate doctor");
    assert_eq!(healthy.code, Some(0), "{}{}", healthy.out, healthy.err);
    assert!(!healthy.out.contains('✗') && healthy.out.contains("✓ hub"), "{}", healthy.out);
    let token = fixture.data().join("admin-token");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("opened");
    let output = fixture.shell("QUORATE_TOKNE=x quorate doctor");
    assert!(output.out.contains("! token file") && output.out.contains("fix: chmod 600"), "{}", output.out);
    assert!(
        output.out.contains("! environment") && output.out.contains("unknown variable QUORATE_TOKNE"),
        "{}",
        output.out
    );
    assert_eq!(output.code, Some(0), "warnings do not fail: {}", output.err);
    fixture.kill();
    let output = fixture.shell("quorate doctor --json");
    let found: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(
        (output.code, &found["ok"], &found["errors"]),
        (Some(1), &false.into(), &1.into()),
        "{}",
        output.out
    );
    let hub = found["checks"].as_array().expect("checks").iter().find(|check| check["about"] == "hub");
    assert!(hub.expect("a hub")["fix"].as_str().expect("a fix").contains("quorate serve"), "{}", output.out);
    fs::write(fixture.work().join("quorate.yaml"), "ulr: x\n").expect("written");
    let output = fixture.shell("quorate doctor");
    assert_eq!(output.code, Some(1), "{}", output.out);
    assert!(
        output.out.contains("quorate.yaml:1: unknown key \"ulr\"")
            && output.out.contains("fix: did you mean \"url\"?"),
        "{}",
        output.out
    );
    fs::remove_file(fixture.data().join("ready.json")).expect("the killed hub left it");
    assert_eq!(fs::read_dir(fixture.data()).expect("readable").count(), before - 1, "nothing was left");
}

#[test]
fn man_pages_and_completions_are_generated() {
    let fixture = Fixture::empty();
    let output = fixture
        .shell("quorate man --out pages --dry-run; ls pages 2>/dev/null; quorate man --out pages | wc -l");
    assert!(output.err.contains("would write") && output.err.contains("wrote"), "{}", output.err);
    let page = fs::read_to_string(fixture.work().join("pages/quorate-msg-send.1")).expect("a page");
    assert!(page.contains(".TH quorate-msg-send 1") && page.contains("Example: quorate msg send"), "{page}");
    assert_eq!(fixture.shell("quorate man msg nothing").code, Some(3));
    for shell in ["bash", "zsh", "fish"] {
        let output = fixture.shell(&format!("quorate completions {shell}"));
        assert!(output.code == Some(0) && output.out.contains("redrive"), "{shell}: {}", output.err);
    }
    let output = fixture.shell("quorate completions bash > c && . ./c && complete -p quorate");
    assert_eq!(output.code, Some(0), "{}", output.err);
}

#[test]
fn the_log_of_a_directory_is_verified_printed_and_exported() {
    let mut fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/context/plan", r#"{"content":"x"}"#);
    fixture.kill();
    let transcript = fixture.transcript(&[
        "quorate audit log --data quorate-data",
        "quorate audit log --data quorate-data --from 2 --limit 1 --jsonl | wc -l",
        "quorate audit export --data quorate-data | wc -l",
        "quorate audit verify --data quorate-data 2>/dev/null | cut -d' ' -f1-5",
        "quorate audit verify --data nowhere",
    ]);
    expect_file!["golden/audit.txt"].assert_eq(&transcript);
    let connection = crate::support::database(&fixture.data().join("quorate.db"));
    connection.execute("UPDATE log SET principal = 'agent:mallory' WHERE id & 15 = 3", []).expect("edited");
    drop(connection);
    let output = fixture.shell("quorate audit verify --data quorate-data --json");
    assert_eq!(output.code, Some(7), "{}{}", output.out, output.err);
    let found: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!(found["ok"], false, "{found}");
}

#[test]
fn d11_a_running_hub_serves_its_log_traces_and_metrics() {
    let fixture = Fixture::with_hub();
    for agent in ["alice", "bob"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let message = format!(
        r#"{{"to":"bob","from":"alice","action":"review","payload":1,"traceparent":"00-{trace}-00f067aa0ba902b7-01"}}"#
    );
    fixture.call("POST", "/v1/messages", &message);
    let succeed = |line: &str, expected: &str| {
        let output = fixture.shell(line);
        assert_eq!(output.code, Some(0), "{line}: {}", output.err);
        assert!(output.out.contains(expected), "{line}: {}", output.out);
        output.out
    };
    succeed("quorate audit verify", "✓ default: 5 records");
    succeed("quorate audit verify --json", "\"ok\":true");
    succeed("quorate audit checkpoint", "\"seq\":5");
    assert_eq!(succeed("quorate audit log --from 2 --limit 3", "agent.registered").lines().count(), 3);
    succeed("quorate audit log --format text", "[alice→bob] COMMAND: review");
    let export = succeed("quorate audit export", "\"effects\"");
    assert_eq!(export.lines().count(), 5);
    succeed("quorate metrics", "# TYPE");
    succeed("quorate metrics --jsonl", "\"value\"");
    let shown = succeed(&format!("quorate trace show {trace}"), "review");
    assert!(shown.contains("alice") && shown.contains("bob"), "{shown}");
    assert!(shown.starts_with("SPAN") && shown.contains("DURATION") && shown.contains('…'), "{shown}");
    for reference in ["@last", "4bf9", &trace[..31]] {
        assert_eq!(succeed(&format!("quorate trace show {reference}"), "review"), shown);
    }
    assert_eq!(fixture.shell("quorate trace show beef").code, Some(3));
    assert!(succeed("quorate metrics --json quorate_http", "figures").contains(r#""labels":{"#));
    succeed(&format!("quorate trace show 00-{trace}-00f067aa0ba902b7-01 --json"), trace);
    succeed("quorate msg list", "review");
    succeed("quorate msg show @last", "msg_0-5-0");
    succeed("quorate msg show 0-5", "msg_0-5-0");
    let erased =
        fixture.shell("quorate audit erase 5 0 --dry-run && quorate audit erase 5 0 && quorate audit verify");
    assert_eq!(erased.code, Some(0), "{}", erased.err);
    assert!(erased.err.contains("noted in record 6"), "{}", erased.err);
}

#[test]
fn the_commands_of_the_command_line_guide_work() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/command-line.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let blocks = guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: String = blocks.collect();
    // A free port, since tests run in parallel; commands discover the hub by its directory.
    let commands = commands.replace("quorate serve ", "quorate serve --listen 127.0.0.1:0 ");
    let fixture = Fixture::empty();
    let script = format!("set -eu\n{commands}\necho all went well\n");
    let (code, output) = fixture.script(&script);
    assert!(code == Some(0) && output.contains("all went well\n"), "exited with {code:?}:\n{output}");
}

/// Requests an approval as alice.
fn request_approval(fixture: &Fixture, id: &str, to: &str) {
    let body = format!(
        r#"{{"id":"{id}","agent":"alice","action":"letter.send","payload":{{"to":"{to}","page": 2.0}},
            "rationale":"the term ends on Friday","confidence":0.8,"default":"keep the draft"}}"#
    );
    fixture.call("POST", "/v1/approvals", &body);
}

// Fails under: a decision about bytes that were not printed; a rejection without a reason; a second decision.
#[test]
fn e3_approvals_are_printed_and_decided() {
    let fixture = Fixture::with_hub();
    fixture.call("PUT", "/v1/agents/alice", "{}");
    fixture.call("POST", "/v1/tokens", r#"{"role":"operator","name":"desk"}"#);
    for (id, to) in [("a1", "b@x"), ("a2", "c@x"), ("a3", "d@x")] {
        request_approval(&fixture, id, to);
    }
    fs::write(fixture.work().join("patch.json"), r#"[{"op":"remove","path":"/page"}]"#).expect("written");
    // A principal cannot decide its own request. The calls above used the admin token, which commands use by default.
    let created = fixture.call("POST", "/v1/tokens", r#"{"role":"approver","name":"anna"}"#);
    fs::write(fixture.work().join("anna"), created["token"].as_str().expect("a token")).expect("written");
    fs::set_permissions(fixture.work().join("anna"), fs::Permissions::from_mode(0o600)).expect("private");
    let transcript = fixture.transcript(&[
        "quorate approval list",
        "quorate status | head -3",
        "quorate approval approve a1",
        "quorate approval show a1 --token-file anna",
        "quorate approval show a1 --token-file anna --json | grep -o '\"document\":.*[}],\"mod' | head -c 300",
        "quorate approval why a1 --token-file anna",
        "quorate approval approve a1 --token-file anna --digest 0000000000000000000000000000000000000000000000000000000000000000",
        "quorate approval approve a1 --token-file anna --dry-run",
        "quorate approval approve a1 --token-file anna --reason 'as agreed'",
        "quorate approval approve a1 --token-file anna",
        "quorate approval reject a2 --token-file anna",
        "quorate approval reject a2 --token-file anna --reason 'not yet'",
        "quorate approval modify a3 --token-file anna",
        "quorate approval modify a3 --token-file anna --set nothing",
        "quorate approval modify a3 --token-file anna --set cc.deep=x",
        "quorate approval modify a3 --token-file anna --set to=legal@x --set cc='[\"e@x\"]' --reason 'wrong address'",
        "quorate approval show a3 --token-file anna",
        "quorate approval show a3 --token-file anna --at 7 | head -2",
        "quorate approval list --status all --format compact | cut -f1,2",
        "quorate approval list",
        "quorate approval watch --from 1 --limit 6 --token-file anna | cut -c1-90",
        "quorate approval show nothing --token-file anna",
    ]);
    expect_file!["golden/approvals.txt"].assert_eq(&transcript);
    request_approval(&fixture, "a4", "f@x");
    let output = fixture.shell("quorate approval modify a4 --token-file anna --patch patch.json --json");
    let decided: Value = serde_json::from_str(&output.out).expect("JSON");
    assert_eq!((output.code, &decided["state"]), (Some(0), &Value::from("modified")), "{}", output.err);
    assert!(
        output.out.contains(r#""approvedDocument":{"action":"letter.send","payload":{"to":"f@x"}}"#),
        "{}",
        output.out
    );
}

/// Writes a program that keeps its position or adopts that of a peer.
fn write_agent(fixture: &Fixture) {
    let script = "import json, sys\n\
        asked, (what, sure, firm) = json.load(sys.stdin), sys.argv[1:4]\n\
        own = asked['payload'].get('your_position')\n\
        if asked['action'] == 'analyse':\n\
        \x20   answer = {'summary': f'I say {what}.', 'confidence': float(sure), 'recommendation': what}\n\
        elif firm == 'firm':\n\
        \x20   answer = {'revised_position': what, 'confidence': float(sure), 'agrees_with_peer': False, 'reasoning': 'I have looked.'}\n\
        else:\n\
        \x20   other = asked['payload']['other_positions'][0]['position']\n\
        \x20   answer = {'revised_position': other, 'confidence': 0.5, 'agrees_with_peer': True, 'reasoning': 'You are right.'}\n\
        json.dump(answer, sys.stdout)\n";
    fs::write(fixture.work().join("decide.py"), script).expect("written");
}

const DELIBERATE: &str = "quorate deliberate 'Do we ship?' --rounds 1 --agent 'ada=cmd:python3 decide.py wait 0.9 firm' \
    --agent 'ben=cmd:python3 decide.py ship 0.6 soft' --agent 'cleo=cmd:python3 decide.py ship 0.5 firm'";

// Fails under: a report that differs from the stored outcome; a prefix of an id or @last that is not resolved.
#[test]
fn a5_deliberations_are_read_from_a_directory_without_a_hub() {
    let fixture = Fixture::empty();
    write_agent(&fixture);
    let result = fixture.shell(&format!("{DELIBERATE} 2>/dev/null"));
    assert_eq!(result.code, Some(0), "{}", result.out);
    let transcript = fixture.transcript(&[
        "quorate deliberation list",
        "quorate deliberation list --json",
        "quorate deliberation show @last | head -14",
        "quorate deliberation votes @last",
        "quorate deliberation votes @last --conflict c1 --json",
        "quorate deliberation votes @last --conflict C9",
        "quorate deliberation compare 0-",
        "quorate deliberation compare @last --jsonl | head -1",
        "quorate deliberation show prc_0-99-0",
        "quorate deliberation list --data nowhere",
        "ls",
    ]);
    expect_file!["golden/deliberations.txt"].assert_eq(&transcript);
    let shown = fixture.shell("quorate deliberation show @last").out;
    assert_eq!(shown, result.out, "the stored outcome gives the same report");
    let json = fixture.shell("quorate deliberation show @last --json").out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!(json["digest"].as_str().map(str::len), Some(64));
}

// Fails under: a running or failed deliberation that cannot be shown; waiting for an unknown agent.
#[test]
fn a8_running_and_failed_deliberations_are_shown() {
    let fixture = Fixture::with_hub();
    write_agent(&fixture);
    for agent in ["ada", "ben"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let spec = r#"{"kind":"deliberation","id":"d1","spec":{"subject":"Do we ship?","agents":[{"id":"ada"},{"id":"ben"}]}}"#;
    fixture.call("POST", "/v1/procedures", spec);
    let is_asked = |_: &u32| fixture.call("GET", "/v1/procedures/d1", "").to_string().contains("analyse:ben");
    assert!((0..5_000).find(is_asked).is_some(), "both are asked");
    let transcript = fixture.transcript(&[
        "quorate deliberation show d1 | sed 's/since .*/since then/'",
        "quorate deliberation show d1 --json | grep -o '\"waitsFor\":.*'",
        "quorate deliberation votes d1",
        "quorate deliberate 'Do we ship?' --agent nobody --agent 'ada=cmd:true'",
        "quorate deliberate 'Do we ship?' --agent 'eve=cmd:false' --agent 'fred=cmd:false' 2>&1 | grep -o 'the quorum.*'",
        "quorate deliberation show @last | head -2",
        "quorate deliberation show @last | grep -o '^missing *[a-z]*:'",
        "quorate deliberation show @last --json | grep -o '\"reason\":\"[^\"]*\"'",
        "quorate deliberation list --format compact | cut -f2,4,5",
    ]);
    expect_file!["golden/undecided.txt"].assert_eq(&transcript);
}
