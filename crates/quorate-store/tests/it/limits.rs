//! Limits of a commit that do not depend on stored state. Each test accepts the maximum and refuses one more, with the
//! right error code.

use bytes::Bytes;
use quorate_core::{
    AgentId, ClientId, Code, Commit, DeliveryId, DeliveryNo, Destination, Extend, Generation, History,
    IdempotencyKey, Key, LeaseRef, LeaseToken, Message, MessageId, Nack, NackAction, Op, Pattern, Payload,
    Principal, Priority, PutEntry, Refused, RegisterAgent, SpaceName, Subscribe, Timestamp, WaitMode, limits,
};

fn check(ops: Vec<Op>) -> Result<(), Refused> {
    Commit::new(Principal::System, ops).check()
}

#[track_caller]
fn allowed(op: Op) {
    if let Err(refused) = check(vec![op]) {
        panic!("refused: {refused}");
    }
}

/// Asserts that an operation is refused with this code and that the refusal names its index.
#[track_caller]
fn refused(code: Code, op: Op) -> Refused {
    let refused = check(vec![Op::Sweep, op]).expect_err("the commit is refused");
    assert_eq!((refused.code, refused.facts.op), (code, Some(1)), "{refused}");
    refused
}

fn payload(bytes: usize) -> Payload {
    Payload::seal(Bytes::from(vec![b' '; bytes]), [1; 16])
}

fn bob() -> AgentId {
    AgentId::new("bob").expect("valid id")
}

fn message() -> Message {
    Message::new(Destination::Agent(bob()), "work", payload(2))
}

fn put() -> PutEntry {
    PutEntry {
        key: Key::new("k").expect("valid key"),
        entry_type: "note".into(),
        content: payload(2),
        content_type: None,
        expect: None,
        depends_on: Vec::new(),
        fence: None,
    }
}

fn lease() -> LeaseRef {
    LeaseRef {
        delivery: DeliveryId { generation: Generation(0), number: DeliveryNo(1) },
        token: LeaseToken(1),
    }
}

fn claim(max: u32, lease_ms: u64) -> Op {
    Op::Claim { agent: bob(), max, lease_ms, wait: WaitMode::NoWait }
}

#[test]
fn a_commit_has_1_to_256_operations() {
    assert_eq!(check(vec![]).expect_err("no operations").code, Code::Invalid);
    check(vec![Op::Sweep; limits::OPS_MAX]).expect("the maximum");
    let refusal = check(vec![Op::Sweep; limits::OPS_MAX + 1]).expect_err("one too many");
    assert_eq!((refusal.code, refusal.facts.limit), (Code::LimitExceeded, Some(limits::OPS_MAX as u64)));
}

#[test]
fn d12_a_payload_has_at_most_4_mb_under_any_policy() {
    let (max, limit) = (limits::PAYLOAD_BYTES_MAX, Some(limits::PAYLOAD_BYTES_MAX as u64));
    allowed(Op::send(Message { payload: payload(max), ..message() }));
    let sent = refused(Code::TooLarge, Op::send(Message { payload: payload(max + 1), ..message() }));
    assert_eq!(sent.facts.limit, limit);
    allowed(Op::Put(PutEntry { content: payload(max), ..put() }));
    let written = refused(Code::TooLarge, Op::Put(PutEntry { content: payload(max + 1), ..put() }));
    assert_eq!(written.facts.limit, limit);
}

#[test]
fn d12_the_payloads_of_a_commit_have_at_most_8_mb_under_any_policy() {
    let full = || Op::Put(PutEntry { content: payload(limits::PAYLOAD_BYTES_MAX), ..put() });
    let mut ops: Vec<Op> =
        (0..limits::COMMIT_BYTES_MAX / limits::PAYLOAD_BYTES_MAX).map(|_| full()).collect();
    check(ops.clone()).expect("the maximum");
    ops.push(Op::send(Message { payload: payload(1), ..message() }));
    let refusal = check(ops).expect_err("one byte too many");
    assert_eq!((refusal.code, refusal.facts.limit), (Code::TooLarge, Some(limits::COMMIT_BYTES_MAX as u64)));
}

#[test]
fn an_id_has_1_to_128_bytes_and_no_control_characters() {
    fn ids(text: &str) -> [Result<(), Refused>; 5] {
        [
            AgentId::new(text).map(drop),
            SpaceName::new(text).map(drop),
            ClientId::new(text).map(drop),
            IdempotencyKey::new(text).map(drop),
            Key::new(text).map(drop),
        ]
    }
    for valid in ["a", "ö b/c:d", &"x".repeat(limits::ID_BYTES_MAX)] {
        assert!(ids(valid).iter().all(Result::is_ok), "{valid}");
    }
    for invalid in ["", "a\nb", "\u{7f}", "\0"] {
        for refused in ids(invalid) {
            assert_eq!(refused.expect_err("invalid id").code, Code::Invalid, "{invalid:?}");
        }
    }
    for long in ["x".repeat(limits::ID_BYTES_MAX + 1), "ö".repeat(limits::ID_BYTES_MAX / 2 + 1)] {
        for refused in &ids(&long)[..4] {
            let refused = refused.as_ref().expect_err("too long");
            assert_eq!((refused.code, refused.facts.limit), (Code::Invalid, Some(128)));
        }
    }
    Key::new("x".repeat(limits::KEY_BYTES_MAX)).expect("keys may be longer");
    let long = Key::new("x".repeat(limits::KEY_BYTES_MAX + 1)).expect_err("too long");
    assert_eq!((long.code, long.facts.limit), (Code::Invalid, Some(limits::KEY_BYTES_MAX as u64)));
}

#[test]
fn an_agent_id_cannot_be_a_reserved_destination() {
    for reserved in ["*", "topic:x", "role:worker", "can:review"] {
        let id = AgentId::new(reserved).expect("valid id, but reserved");
        refused(Code::Invalid, Op::RegisterAgent(RegisterAgent::named(id)));
    }
    allowed(Op::RegisterAgent(RegisterAgent::named(AgentId::new("topical").expect("valid id"))));
}

#[test]
fn text_fields_have_at_most_128_bytes_and_no_control_characters() {
    let op_with = |text: &str| {
        let text = Some(text.to_owned());
        [
            Op::send(Message { action: text.clone().unwrap_or_default(), ..message() }),
            Op::send(Message { content_type: text.clone(), ..message() }),
            Op::send(Message { in_reply_to: text.clone(), ..message() }),
            Op::send(Message { correlation_id: text.clone(), ..message() }),
            Op::send(Message { causation_id: text.clone(), ..message() }),
            Op::send(Message { session_id: text.clone(), ..message() }),
            Op::send(Message { budget: text.clone(), ..message() }),
            Op::send(Message { traceparent: text.clone(), ..message() }),
            Op::send(Message { origin: text.clone(), ..message() }),
            Op::Put(PutEntry { entry_type: text.clone().unwrap_or_default(), ..put() }),
            Op::Put(PutEntry { content_type: text.clone(), ..put() }),
            Op::RegisterAgent(RegisterAgent {
                name: text.clone().unwrap_or_default(),
                ..RegisterAgent::named(bob())
            }),
            Op::RegisterAgent(RegisterAgent {
                capabilities: text.clone().into_iter().collect(),
                ..RegisterAgent::named(bob())
            }),
            Op::RegisterAgent(RegisterAgent {
                supported_actions: text.into_iter().collect(),
                ..RegisterAgent::named(bob())
            }),
        ]
    };
    op_with(&"x".repeat(limits::ID_BYTES_MAX)).into_iter().for_each(allowed);
    for invalid in ["x".repeat(limits::ID_BYTES_MAX + 1), "a\tb".into()] {
        op_with(&invalid).into_iter().for_each(|op| drop(refused(Code::Invalid, op)));
    }
}

#[test]
fn reasons_have_at_most_1000_characters() {
    let op_with = |text: String| {
        let nack = Nack { lease: lease(), action: NackAction::DeadLetter, reason: text.clone() };
        [Op::Nack(nack), Op::send(Message { rationale: Some(text), ..message() })]
    };
    op_with("ö".repeat(limits::REASON_CHARS_MAX)).into_iter().for_each(allowed);
    for op in op_with("ö".repeat(limits::REASON_CHARS_MAX + 1)) {
        assert_eq!(refused(Code::TooLarge, op).facts.limit, Some(limits::REASON_CHARS_MAX as u64));
    }
}

#[test]
fn metadata_has_at_most_16_kb() {
    let op_with = |bytes| Op::send(Message { metadata: Some("x".repeat(bytes)), ..message() });
    allowed(op_with(limits::METADATA_BYTES_MAX));
    let refusal = refused(Code::TooLarge, op_with(limits::METADATA_BYTES_MAX + 1));
    assert_eq!(refusal.facts.limit, Some(limits::METADATA_BYTES_MAX as u64));
}

#[test]
fn lists_have_at_most_256_items() {
    let texts = |count| vec!["x".to_owned(); count];
    let agent = |count| RegisterAgent { capabilities: texts(count), ..RegisterAgent::named(bob()) };
    let other = |count| RegisterAgent { supported_actions: texts(count), ..RegisterAgent::named(bob()) };
    let entry = |count| PutEntry { depends_on: vec![Key::new("k").expect("valid key"); count], ..put() };
    let op_with =
        |count| [Op::RegisterAgent(agent(count)), Op::RegisterAgent(other(count)), Op::Put(entry(count))];
    op_with(limits::LIST_MAX).into_iter().for_each(allowed);
    for op in op_with(limits::LIST_MAX + 1) {
        assert_eq!(refused(Code::LimitExceeded, op).facts.limit, Some(limits::LIST_MAX as u64));
    }
}

#[test]
fn a_message_names_1_to_4096_recipients() {
    let to = |count| Op::send(Message { to: Destination::Agents(vec![bob(); count]), ..message() });
    refused(Code::Invalid, to(0));
    allowed(to(limits::DELIVERIES_PER_COMMIT_MAX));
    let refusal = refused(Code::LimitExceeded, to(limits::DELIVERIES_PER_COMMIT_MAX + 1));
    assert_eq!(refusal.facts.limit, Some(limits::DELIVERIES_PER_COMMIT_MAX as u64));
}

#[test]
fn a_claim_takes_1_to_256_deliveries() {
    let lease_ms = limits::LEASE_MS_DEFAULT;
    allowed(claim(1, lease_ms));
    allowed(claim(limits::CLAIM_MAX, lease_ms));
    for max in [0, limits::CLAIM_MAX + 1, u32::MAX] {
        let refusal = refused(Code::LimitExceeded, claim(max, lease_ms));
        assert_eq!(refusal.facts.limit, Some(u64::from(limits::CLAIM_MAX)));
    }
}

#[test]
fn a_lease_lasts_1_second_to_12_hours() {
    let op_with = |lease_ms| [claim(1, lease_ms), Op::Extend(Extend { lease: lease(), lease_ms })];
    op_with(limits::LEASE_MS_MIN).into_iter().for_each(allowed);
    op_with(limits::LEASE_MS_MAX).into_iter().for_each(allowed);
    for lease_ms in [0, limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1, u64::MAX] {
        op_with(lease_ms).into_iter().for_each(|op| drop(refused(Code::Invalid, op)));
    }
}

#[test]
fn a_retry_delay_is_at_most_one_day() {
    let op_with = |delay_ms| {
        Op::Nack(Nack {
            lease: lease(),
            action: NackAction::Retry { delay_ms: Some(delay_ms) },
            reason: String::new(),
        })
    };
    allowed(op_with(0));
    allowed(op_with(limits::NACK_DELAY_MS_MAX));
    assert_eq!(
        refused(Code::Invalid, op_with(limits::NACK_DELAY_MS_MAX + 1)).facts.limit,
        Some(limits::NACK_DELAY_MS_MAX)
    );
}

#[test]
fn a_message_has_1_to_100_attempts() {
    let op_with = |attempts_max| Op::send(Message { attempts_max, ..message() });
    allowed(op_with(1));
    allowed(op_with(limits::ATTEMPTS_MAX));
    refused(Code::Invalid, op_with(0));
    refused(Code::Invalid, op_with(limits::ATTEMPTS_MAX + 1));
}

#[test]
fn priorities_are_0_to_3_and_1_to_10() {
    let op_with = |level| Op::send(Message { priority: Priority { level, rank: 255 }, ..message() });
    allowed(op_with(3));
    refused(Code::Invalid, op_with(4));
    let scale: Vec<_> =
        (1..=10).map(|value| Priority::from_ten_scale(value).expect("on the scale")).collect();
    assert!(scale.windows(2).all(|pair| pair[0] < pair[1]), "the order is preserved");
    for value in [0, 11, 255] {
        assert_eq!(Priority::from_ten_scale(value).expect_err("not on the scale").code, Code::Invalid);
    }
}

#[test]
fn confidence_is_between_0_and_1() {
    let op_with = |confidence| Op::send(Message { confidence: Some(confidence), ..message() });
    [0.0, 0.5, 1.0].into_iter().for_each(|valid| allowed(op_with(valid)));
    for invalid in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        refused(Code::Invalid, op_with(invalid));
    }
}

#[test]
fn timestamps_are_ordered_and_within_the_safe_integer_range() {
    let op_with = |deliver_at: Option<u64>, expires_at: Option<u64>| {
        Op::send(Message {
            deliver_at: deliver_at.map(Timestamp),
            expires_at: expires_at.map(Timestamp),
            ..message()
        })
    };
    allowed(op_with(Some(5), Some(6)));
    allowed(op_with(Some(limits::NUMBER_MAX), None));
    refused(Code::Invalid, op_with(Some(5), Some(5)));
    refused(Code::Invalid, op_with(Some(limits::NUMBER_MAX + 1), None));
    refused(Code::Invalid, op_with(None, Some(u64::MAX)));
}

#[test]
fn hub_generated_ids_have_one_canonical_form() {
    for valid in ["dlv_0-1", "dlv_7-140737488355327"] {
        assert_eq!(valid.parse::<DeliveryId>().expect("valid id").to_string(), valid);
    }
    for valid in ["msg_0-17-0", "msg_3-1-4095"] {
        assert_eq!(valid.parse::<MessageId>().expect("valid id").to_string(), valid);
    }
    for invalid in
        ["", "dlv_", "dlv_0", "dlv_0-01", "dlv_+0-1", "dlv_0-1-2", "msg_0-1", "dlv_0-140737488355328"]
    {
        assert_eq!(invalid.parse::<DeliveryId>().expect_err("invalid id").code, Code::Invalid, "{invalid:?}");
    }
    for invalid in ["msg_0-1", "msg_0-1-", "msg_0-1-4294967296", "dlv_0-1-0", "msg_0-1-0 "] {
        assert_eq!(invalid.parse::<MessageId>().expect_err("invalid id").code, Code::Invalid, "{invalid:?}");
    }
}

#[test]
fn d4_a_batch_ack_has_1_to_4096_leases() {
    allowed(Op::AckMany(vec![lease(); limits::ACKS_MAX]));
    let refusal = refused(Code::LimitExceeded, Op::AckMany(vec![lease(); limits::ACKS_MAX + 1]));
    assert_eq!(refusal.facts.limit, Some(limits::ACKS_MAX as u64));
    refused(Code::Invalid, Op::AckMany(Vec::new()));
}

#[test]
fn d4_a_subscription_requests_1_to_4096_messages_of_history() {
    let last = |count| {
        let pattern = Pattern::new("a.>").expect("valid pattern");
        Op::Subscribe(Subscribe { agent: bob(), pattern, history: Some(History::Last(count)) })
    };
    allowed(last(limits::HISTORY_LAST_MAX));
    let refusal = refused(Code::LimitExceeded, last(limits::HISTORY_LAST_MAX + 1));
    assert_eq!(refusal.facts.limit, Some(u64::from(limits::HISTORY_LAST_MAX)));
    refused(Code::LimitExceeded, last(0));
}
