//! Identifiers in text form: destinations, topics, ids, keys, secrets. An accepted text is displayed unchanged.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use quorate_core::{
    AgentId, DeliveryId, Destination, IdempotencyKey, Key, LockName, MessageId, Pattern, Secret, SpaceName,
    TaskId, TokenId, TokenName,
};
use quorate_sim::fuzz::{FuzzLimit, Mutator, fuzz_seed};

const CORPUS: &[&str] = &[
    "alice",
    "topic:findings.high",
    "findings.*",
    "findings.>",
    "role:worker",
    "can:translate",
    "*",
    "a,b,c",
    "msg_0-7-0",
    "dlv_0-1",
    "tok_0-3",
    "tsk_0-9-1",
    "notes/2026/plan",
    "default",
    "coordinator",
    "qrt_0123456789abcdefghijABCDEFGHIJklmnopqrstuvwxyzK",
    "eph_1",
    "018f3a5e-7b1c-7000-8000-000000000001",
];

/// Checks that a parsed value survives a round trip through its text form.
fn assert_round_trip<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(parsed) = text.parse::<T>() {
        let written = parsed.to_string();
        assert_eq!(written.parse::<T>().ok(), Some(parsed), "{text:?} is displayed as {written:?}");
    }
}

#[test]
fn i21_identifier_parsers_survive_malformed_input() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_identifier");
    let corpus = CORPUS.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut cases = Mutator::new("words", seed, FuzzLimit::from_env(100_000), corpus);
    while let Some((_, bytes)) = cases.next_case() {
        let text = String::from_utf8_lossy(&bytes);
        assert_round_trip::<Destination>(&text);
        assert_round_trip::<MessageId>(&text);
        assert_round_trip::<DeliveryId>(&text);
        assert_round_trip::<TokenId>(&text);
        for parsed in [
            AgentId::new(&*text).map(|id| id.to_string()),
            Key::new(&*text).map(|key| key.to_string()),
            LockName::new(&*text).map(|name| name.to_string()),
            SpaceName::new(&*text).map(|name| name.to_string()),
            TaskId::new(&*text).map(|id| id.to_string()),
            TokenName::new(&*text).map(|name| name.to_string()),
            IdempotencyKey::new(&*text).map(|key| key.to_string()),
            Pattern::new(&*text).map(|pattern| pattern.to_string()),
        ] {
            match parsed {
                Ok(written) => assert_eq!(written, text),
                Err(refused) => assert!(!refused.detail.is_empty(), "{text:?}"),
            }
        }
        if let Ok(secret) = text.parse::<Secret>() {
            assert_eq!(secret.reveal(), text);
        }
    }
}
