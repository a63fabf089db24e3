//! `quorate serve --webhook`: invalid flags are reported before anything is created, and secrets are never printed.

use std::fs::{self, File};

use crate::fixture::Fixture;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

// Fails under: a webhook that is validated after the directory was created; a secret, or a line of its file, in an error.
#[test]
fn e1_an_invalid_webhook_is_reported_before_anything_is_created() {
    let fixture = Fixture::empty();
    let file = |name: &str, content: &str| fs::write(fixture.work().join(name), content).expect("written");
    file("good", SECRET);
    file("short", "tooshort\n");
    file("empty", "\n");
    file("large", &"x".repeat(10_000));
    let duplicate = "gh=good:bob --webhook gh=good:ann";
    let cases = [
        ("gh", "--webhook gh: invalid format"),
        ("gh=good", "NAME=SECRET_FILE:DESTINATION"),
        ("gh=nowhere:bob", "cannot read the secret in nowhere"),
        ("gh=quorate.yaml/x:bob", "cannot read"),
        ("gh=.:bob", ". is not a secret file"),
        ("gh=short:bob", "has 8 bytes"),
        ("gh=empty:bob", "has 0 bytes"),
        ("gh=large:bob", "large is not a secret file"),
        ("g/h=good:bob", "invalid webhook name"),
        ("gh=good:role:boss", "--webhook gh:"),
        ("gh@=good:bob", "--webhook gh:"),
        (duplicate, "duplicate webhook name gh"),
    ];
    for (flag, expected) in cases {
        let output =
            fixture.shell(&format!("quorate serve --listen 127.0.0.1:0 --data data --webhook {flag}"));
        assert_eq!(output.code, Some(64), "{flag}: {}", output.err);
        assert!(output.err.contains(expected) && output.err.contains("help:"), "{flag}: {}", output.err);
        assert!(!output.err.contains("tooshort") && !output.err.contains(SECRET), "{}", output.err);
    }
    assert!(!fixture.work().join("data").exists(), "nothing was created");
    let output = fixture.shell("quorate serve --listen 127.0.0.1:0 --data data --webhook gh@team=good:bob");
    assert_eq!(output.code, Some(64), "{}", output.err);
    assert!(output.err.contains("refers to unknown space \"team\""), "{}", output.err);
}

// Fails under: a name, a header or a body in a log line; no warning about a readable secret file.
#[test]
fn i18_the_log_contains_nothing_of_a_webhook_request() {
    let mut fixture = Fixture::empty();
    let secret = fixture.work().join("hook.secret");
    fs::write(&secret, format!("{SECRET}\n")).expect("written");
    fixture.shell("chmod 644 hook.secret");
    let log = File::create(fixture.work().join("journal")).expect("a file");
    let flag = "forge=hook.secret:topic:forge";
    fixture.start_with(&["--listen", "127.0.0.1:0", "--log", "debug", "--webhook", flag], log);
    let command = format!(
        "code=$(printf %s \"$body\" | openssl dgst -sha256 -hmac {SECRET} | sed 's/.*= *//')
         curl -s -o /dev/null -w '%{{http_code}} ' http://{}/v1/webhooks/$name --data-binary \"$body\" \
           -H \"X-Hub-Signature-256: sha256=$code\" -H 'X-GitHub-Event: confidential' -H 'X-GitHub-Delivery: delivered'",
        fixture.address
    );
    let send = |name: &str, body: &str| fixture.shell(&format!("name={name}; body='{body}'; {command}")).out;
    assert_eq!(send("forge", r#"{"what":"nobodys business"}"#), "202 ");
    assert_eq!(send("forge", r#"{"what":"other business"}"#), "409 ");
    assert_eq!(send("elsewhere", "{}"), "401 ");
    let code = "openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef";
    let code = fixture
        .shell(&format!("printf %s '{{\"what\":\"nobodys business\"}}' | {code} | sed 's/.*= *//'"))
        .out;
    fixture.stop();
    let log = fs::read_to_string(fixture.work().join("journal")).expect("a log");
    for secret_text in
        [SECRET, code.trim(), "business", "confidential", "delivered", "elsewhere", "webhooks/forge"]
    {
        assert!(!log.contains(secret_text), "{secret_text} in\n{log}");
    }
    assert_eq!(log.matches("/v1/webhooks/{name}").count(), 3, "{log}");
    assert!(
        log.contains("the secret of a webhook is readable by other users") && log.contains("chmod 600"),
        "{log}"
    );
}
