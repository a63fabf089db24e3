//! The words that callers write: destinations, topics, ids, keys, secrets. What is taken is written as it was read.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use quorate_core::{
    AgentId, DeliveryId, Destination, IdempotencyKey, Key, LockName, MessageId, Pattern, Secret, SpaceName,
    TaskId, TokenId, TokenName,
};
use quorate_sim::fuzz::{Extent, Mutator, seed_of_run};

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

/// Whoever is read is written the same, and read again as the same.
fn round<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        let written = read.to_string();
        assert_eq!(written.parse::<T>().ok(), Some(read), "{text:?} was written as {written:?}");
    }
}

#[test]
fn i21_words_from_outside() {
    let seed = seed_of_run();
    println!("again: QUORATE_SEED={seed} cargo test -p quorate-sim --test it fuzz::words::i21_words");
    let corpus = CORPUS.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut cases = Mutator::new("words", seed, Extent::of_run(100_000), corpus);
    while let Some((_, bytes)) = cases.next_case() {
        let text = String::from_utf8_lossy(&bytes);
        round::<Destination>(&text);
        round::<MessageId>(&text);
        round::<DeliveryId>(&text);
        round::<TokenId>(&text);
        for taken in [
            AgentId::new(&*text).map(|id| id.to_string()),
            Key::new(&*text).map(|key| key.to_string()),
            LockName::new(&*text).map(|name| name.to_string()),
            SpaceName::new(&*text).map(|name| name.to_string()),
            TaskId::new(&*text).map(|id| id.to_string()),
            TokenName::new(&*text).map(|name| name.to_string()),
            IdempotencyKey::new(&*text).map(|key| key.to_string()),
            Pattern::new(&*text).map(|pattern| pattern.to_string()),
        ] {
            match taken {
                Ok(written) => assert_eq!(written, text),
                Err(refused) => assert!(!refused.detail.is_empty(), "{text:?}"),
            }
        }
        if let Ok(secret) = text.parse::<Secret>() {
            assert_eq!(secret.reveal(), text);
        }
    }
}
