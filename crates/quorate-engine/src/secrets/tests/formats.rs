//! Individual behaviors: where secrets are found, and text that must not be taken for one.

use quorate_core::Secret;
use quorate_store::Entropy;

use super::random_text::{BASE32_LOWER, BASE62, BASE64, HEX, RandomText, UPPER, URL64};
use crate::secrets::prefilter::{Prefilter, ScanControl};
use crate::{Scanner, SecretMatch};

fn scan(text: &str) -> Option<(&'static str, String)> {
    Scanner::new()
        .scan(text.as_bytes())
        .map(|found| (found.rule, text[found.offset..found.offset + found.length].to_owned()))
}

#[test]
fn i18_the_offset_refers_to_the_original_bytes() {
    let token = format!("ghp_{}", RandomText::new(1).text(BASE62, 36));
    let text = format!("{{\"a\":\"\\u00e4\\/\",\"b\":\"{token}\"}}");
    let found = Scanner::new().scan(text.as_bytes());
    let offset = text.find(&token).expect("it is there");
    assert_eq!(found, Some(SecretMatch { rule: "github-token", offset, length: 40 }));
}

// Fails under: a rule for tokens that does not match the tokens of the hub.
#[test]
fn i18_every_secret_generated_by_the_hub_is_detected() {
    let entropy = Entropy::seeded(7);
    for _ in 0..1000 {
        let secret = Secret::from_random(entropy.bytes_32());
        let text = format!("{{\"authorization\":\"Bearer {}\"}}", secret.reveal());
        assert_eq!(scan(&text), Some(("quorate-token", secret.reveal().to_owned())));
    }
}

#[test]
fn i18_a_secret_with_escapes_of_other_serializers_is_redacted_completely() {
    let key = RandomText::new(2).text(BASE64, 38);
    let secret = format!("{key}/+");
    for escaped in [
        secret.replace('/', "\\/").replace('+', "\\u002B"),
        secret.replace('/', "\\\\/").replace('+', "\\\\u002b"),
    ] {
        let text = format!(r#"{{"aws_secret_access_key":"{escaped}","next":1}}"#);
        let redacted = Scanner::new().redact(text.as_bytes()).expect("it is found");
        assert_eq!(
            String::from_utf8(redacted).unwrap(),
            r#"{"aws_secret_access_key":"[redacted:aws-secret-access-key]","next":1}"#
        );
    }
    let text = format!(r#"{{"url":"postgres:\/\/app:{}@db\/x"}}"#, &key[..9].replace(['+', '/'], "0"));
    assert_eq!(scan(&text).map(|(rule, _)| rule), Some("database-url"));
}

#[test]
fn i18_only_the_secrets_of_a_text_are_redacted() {
    let mut rng = RandomText::new(3);
    let (a, b, c) = (rng.text(BASE62, 36), rng.text(HEX, 40), rng.text(BASE62, 20));
    let text = format!("one ghp_{a} two {b} three glpat-{c} four password=\"Tr0ub4dor&3\" five");
    let redacted = Scanner::new().redact(text.as_bytes()).expect("they are found");
    let expected = format!(
        "one [redacted:github-token] two {b} three [redacted:gitlab-token] four password=\"[redacted:generic-password]\" five"
    );
    assert_eq!(String::from_utf8(redacted).unwrap(), expected);
}

#[test]
fn i18_a_private_key_is_redacted_to_its_end_in_one_or_several_strings() {
    let mut rng = RandomText::new(4);
    let lines: Vec<String> = (0..6).map(|_| rng.text(BASE64, 64)).collect();
    let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
    let single = format!(r#"{{"key":"{begin}\n{}\n{end}\n","n":1}}"#, lines.join("\\n"));
    let several = format!(r#"{{"key":["{begin}","{}","{end}"],"n":1}}"#, lines.join("\",\""));
    let cut_off = format!(r#"{{"key":"{begin}\n{}","n":1}}"#, lines.join("\\n"));
    for text in [single, several, cut_off] {
        let redacted =
            String::from_utf8(Scanner::new().redact(text.as_bytes()).expect("it is found")).unwrap();
        assert!(lines.iter().all(|line| !redacted.contains(line.as_str())), "{redacted}");
        assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{redacted}");
        assert!(redacted.ends_with(r#","n":1}"#), "{redacted}");
    }
}

#[test]
fn i18_a_prefix_in_the_middle_of_a_word_is_not_a_token() {
    let tail = RandomText::new(5).text(BASE62, 48);
    assert_eq!(scan(&format!("task-{tail}")), None, "sk- is part of the word task-");
    assert_eq!(scan(&format!("ask sk-{tail}")).map(|(rule, _)| rule), Some("openai-api-key"));
    assert_eq!(
        scan(&format!(r"line\nsk-{tail}")).map(|(rule, _)| rule),
        Some("openai-api-key"),
        "after an escape"
    );
    assert_eq!(
        scan(&format!("key%3Dsk-{tail}")).map(|(rule, _)| rule),
        Some("openai-api-key"),
        "after a URL escape"
    );
}

#[test]
fn i18_a_token_of_the_wrong_length_is_not_detected() {
    let mut rng = RandomText::new(6);
    assert_eq!(scan(&format!("AKIA{}", rng.text("ABCDEFGHJK", 15))), None);
    assert_eq!(scan(&format!("AKIA{}", rng.text("ABCDEFGHJK", 17))), None);
    assert_eq!(
        scan(&format!("AKIA{}", rng.text("ABCDEFGHJK", 16))).map(|(rule, _)| rule),
        Some("aws-access-key-id")
    );
}

#[test]
fn i18_a_secret_at_the_very_start_or_end_is_found_at_every_length() {
    let scanner = Scanner::new();
    let token = format!("npm_{}", RandomText::new(8).text(BASE62, 36));
    for before in 0..40 {
        let text = format!("{}{token}", " ".repeat(before));
        let found = scanner.scan(text.as_bytes());
        assert_eq!(found, Some(SecretMatch { rule: "npm-token", offset: before, length: 40 }));
    }
}

#[test]
fn i18_binary_content_is_scanned_too() {
    let mut bytes = vec![0xff, 0x00, 0xfe];
    bytes.extend_from_slice(format!("gsk_{}", RandomText::new(9).text(BASE62, 52)).as_bytes());
    bytes.extend_from_slice(&[0x00, 0xff]);
    assert_eq!(
        Scanner::new().scan(&bytes),
        Some(SecretMatch { rule: "groq-api-key", offset: 3, length: 56 })
    );
}

#[test]
fn i18_a_secret_longer_than_the_window_is_redacted_completely() {
    let mut rng = RandomText::new(11);
    let (header, claims, signature) = (rng.text(BASE62, 30), rng.text(BASE62, 3_000), rng.text(BASE62, 86));
    let text = format!("a eyJ{header}.eyJ{claims}.{signature} b");
    let redacted = Scanner::new().redact(text.as_bytes()).expect("it is found");
    assert_eq!(String::from_utf8(redacted).unwrap(), "a [redacted:jwt] b");
}

#[test]
fn i18_a_long_repetition_of_a_keyword_hides_nothing_after_it() {
    let token = format!("ghp_{}", RandomText::new(12).text(BASE62, 36));
    let text = format!("{} {token}", "api_key=".repeat(2_000));
    assert_eq!(scan(&text), Some(("github-token", token)));
}

#[test]
fn the_prefilter_finds_what_a_plain_search_finds() {
    let keywords = ["ghp_", "password", "sk-", "sk-ant-", "://", "AKIA", "aaa", "-us1"];
    let prefilter = Prefilter::new(&keywords);
    let mut rng = RandomText::new(10);
    for _ in 0..500 {
        let mut text = String::new();
        for _ in 0..rng.below(12) {
            match rng.below(3) {
                0 => text.push_str(rng.pick(&keywords)),
                1 => text.push_str(&rng.pick(&keywords).to_uppercase()),
                _ => {
                    let length = rng.below(9);
                    text.push_str(&rng.text("aAsk-_pP: /", length));
                }
            }
        }
        let mut found = Vec::new();
        prefilter.for_each_match(text.as_bytes(), |occurrence| {
            found.push((occurrence.at, occurrence.keyword));
            ScanControl::Continue
        });
        let lowercase = text.to_ascii_lowercase();
        let starts = |at: usize, keyword: &str| lowercase[at..].starts_with(&keyword.to_ascii_lowercase());
        let mut plain: Vec<_> = (0..text.len())
            .flat_map(|at| (0..keywords.len()).map(move |number| (at, number)))
            .filter(|(at, number)| starts(*at, keywords[*number]))
            .collect();
        found.sort_unstable();
        plain.sort_unstable();
        assert_eq!(found, plain, "{text:?}");
    }
}

// Fails under: sequential characters, or a word such as `abcdef`, that exempt text in the exact format of a token.
#[test]
fn i18_an_obviously_typed_token_is_detected() {
    for (token, rule) in [
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "github-token"),
        ("ghp_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789", "github-token"),
        ("AKIAIOSFODNN7ABCDEFG", "aws-access-key-id"),
        ("sk-1234567890abcdef1234567890abcdef", "openai-api-key"),
    ] {
        assert_eq!(scan(&format!("the key is {token}.")).map(|(rule, _)| rule), Some(rule), "{token}");
    }
    for sample in ["AKIAIOSFODNN7EXAMPLE", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_YOUR_TOKEN"] {
        assert_eq!(scan(&format!("the key is {sample}.")), None, "{sample}");
    }
}

// Fails under: a missing rule; a rule that requires the name of a field next to the token.
#[test]
fn s16_secrets_of_common_tools_are_detected() {
    let mut rng = RandomText::new(16);
    let (hex, key) = (rng.text(HEX, 32), rng.text(BASE62, 24));
    let (upper, base32) = (rng.text(UPPER, 55), rng.text(BASE32_LOWER, 52));
    let (hex_64, url) = (rng.text(HEX, 64), rng.text(URL64, 134));
    for (text, rule) in [
        (format!("we send mail with mailgun and key-{hex}, see the wiki"), "mailgun-api-key"),
        (format!("open the airtable base with pat{}.{hex_64} please", &key[..14]), "airtable-token"),
        (format!("define('DB_PASSWORD', '{key}7a');"), "php-define"),
        (format!("production:\n  secret_key_base: {hex_64}{hex_64}"), "rails-secret-key-base"),
        (format!("- name: DB_PASSWORD\n  value: {key}7a"), "kubernetes-env-secret"),
        (format!("    client-key-data: LS0tLS1CRUdJTi{}", rng.base64(900)), "kubeconfig-client-key"),
        (format!("//registry.example.org/:_auth={key}7a=="), "npm-registry-auth"),
        (format!("db.internal:5432:orders:app:{key}7a"), "pgpass"),
        (format!("access id GOOG1E{upper} of the bucket"), "google-hmac-access-id"),
        (format!("sqlplus app/{key}@//db.internal:1521/ORCL"), "oracle-connect-string"),
        (format!("az devops login for https://dev.azure.com/acme: {base32}"), "azure-devops-token"),
        (format!("Authorization: key=AAAA{}:APA91b{url}", &key[..7]), "firebase-server-key"),
        (format!("asana: 1/1208473620194857:{hex}"), "asana-token"),
    ] {
        assert_eq!(scan(&text).map(|(rule, _)| rule), Some(rule), "{text}");
        let json = format!(r#"{{"content":"before\n{}\nafter"}}"#, RandomText::quoted(&text));
        assert_eq!(scan(&json).map(|(rule, _)| rule), Some(rule), "{json}");
    }
}
