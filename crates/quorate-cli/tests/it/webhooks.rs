//! `quorate serve --webhook`: what is said wrongly is told before anything is made, and a secret is told to nobody.

use std::fs::{self, File};

use crate::place::Place;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

// Fails under: a webhook that is looked at after the directory was made; a secret, or a line of its file, in an error.
#[test]
fn e1_a_webhook_that_cannot_be_is_told_before_anything_is_made() {
    let place = Place::empty();
    let file = |name: &str, content: &str| fs::write(place.work().join(name), content).expect("written");
    file("good", SECRET);
    file("short", "tooshort\n");
    file("empty", "\n");
    file("large", &"x".repeat(10_000));
    let twice = "gh=good:bob --webhook gh=good:ann";
    let cases = [
        ("gh", "that is no webhook"),
        ("gh=good", "NAME=SECRET_FILE:DESTINATION"),
        ("gh=nowhere:bob", "the secret in nowhere cannot be read"),
        ("gh=quorate.yaml/x:bob", "cannot be read"),
        ("gh=.:bob", ". holds no secret"),
        ("gh=short:bob", "has 8 bytes"),
        ("gh=empty:bob", "has 0 bytes"),
        ("gh=large:bob", "large holds no secret"),
        ("g/h=good:bob", "invalid webhook name"),
        ("gh=good:role:boss", "--webhook gh:"),
        ("gh@=good:bob", "--webhook gh:"),
        (twice, "duplicate webhook name gh"),
    ];
    for (said, words) in cases {
        let told = place.shell(&format!("quorate serve --listen 127.0.0.1:0 --data data --webhook {said}"));
        assert_eq!(told.code, Some(64), "{said}: {}", told.err);
        assert!(told.err.contains(words) && told.err.contains("help:"), "{said}: {}", told.err);
        assert!(!told.err.contains("tooshort") && !told.err.contains(SECRET), "{}", told.err);
    }
    assert!(!place.work().join("data").exists(), "nothing was made");
    let told = place.shell("quorate serve --listen 127.0.0.1:0 --data data --webhook gh@team=good:bob");
    assert_eq!(told.code, Some(64), "{}", told.err);
    assert!(told.err.contains("refers to unknown space \"team\""), "{}", told.err);
}

// Fails under: a name, a header or a body in a line; no warning of a file that others can read.
#[test]
fn i18_the_journal_tells_nothing_of_what_came_by_a_webhook() {
    let mut place = Place::empty();
    let secret = place.work().join("hook.secret");
    fs::write(&secret, format!("{SECRET}\n")).expect("written");
    place.shell("chmod 644 hook.secret");
    let heard = File::create(place.work().join("journal")).expect("a file");
    let hook = "forge=hook.secret:topic:forge";
    place.start_with(&["--listen", "127.0.0.1:0", "--log", "debug", "--webhook", hook], heard);
    let signed = format!(
        "code=$(printf %s \"$body\" | openssl dgst -sha256 -hmac {SECRET} | sed 's/.*= *//')
         curl -s -o /dev/null -w '%{{http_code}} ' http://{}/v1/webhooks/$name --data-binary \"$body\" \
           -H \"X-Hub-Signature-256: sha256=$code\" -H 'X-GitHub-Event: confidential' -H 'X-GitHub-Delivery: delivered'",
        place.address
    );
    let send = |name: &str, body: &str| place.shell(&format!("name={name}; body='{body}'; {signed}")).out;
    assert_eq!(send("forge", r#"{"what":"nobodys business"}"#), "202 ");
    assert_eq!(send("forge", r#"{"what":"other business"}"#), "409 ");
    assert_eq!(send("elsewhere", "{}"), "401 ");
    let code = "openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef";
    let code =
        place.shell(&format!("printf %s '{{\"what\":\"nobodys business\"}}' | {code} | sed 's/.*= *//'")).out;
    place.end();
    let heard = fs::read_to_string(place.work().join("journal")).expect("what it said");
    for hidden in
        [SECRET, code.trim(), "business", "confidential", "delivered", "elsewhere", "webhooks/forge"]
    {
        assert!(!heard.contains(hidden), "{hidden} in\n{heard}");
    }
    assert_eq!(heard.matches("/v1/webhooks/{name}").count(), 3, "{heard}");
    assert!(
        heard.contains("the secret of a webhook is open to others") && heard.contains("chmod 600"),
        "{heard}"
    );
}
