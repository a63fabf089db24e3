//! Lossless conversion: any native message through any dialect and back, and vice versa.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quorate_core::{
    AgentId, ClientId, Destination, Durability, IfUnavailable, Message, MessageType, Payload, Priority,
    Timestamp,
};
use serde_json::{Value, json};

use super::super::{Dialect, Envelope};
use super::{parts_of, raw, value};

/// End of the year 9999; later times have no text form.
const TIME_MAX: u64 = 253_402_300_799_999;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z_-]{0,8}",
        Just("quorate".to_owned()),
        Just("broadcast".to_owned()),
        Just("all_active_agents".to_owned()),
        Just("coordinator".to_owned()),
    ]
}

fn agent() -> impl Strategy<Value = AgentId> {
    name().prop_map(|name| AgentId::new(name).expect("an agent"))
}

fn to() -> impl Strategy<Value = Destination> {
    let parsed = |text: &str| Just(text.parse::<Destination>().expect("a destination"));
    prop_oneof![
        4 => agent().prop_map(Destination::Agent),
        4 => vec(agent(), 1..4).prop_map(Destination::Agents),
        1 => parsed("*"),
        1 => parsed("topic:findings.high"),
        1 => parsed("role:coordinator"),
        1 => parsed("can:review code"),
    ]
}

/// Any JSON, including field names known to dialects.
fn any_json() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0.0..1.0_f64).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9\"{}\\[\\]]{0,4}".prop_map(Value::from),
    ];
    let field = prop_oneof![
        "[a-z]{1,6}",
        Just("confidence".to_owned()),
        Just("reasoning".to_owned()),
        Just("summary".to_owned()),
        Just("priority".to_owned()),
        Just("urgency".to_owned()),
        Just("question".to_owned()),
        Just("protocol".to_owned()),
        Just("data".to_owned()),
        Just("content".to_owned()),
        Just("quorate".to_owned()),
        Just("deliberation".to_owned()),
        Just("orchestrator".to_owned()),
        Just("native".to_owned()),
        Just("round".to_owned()),
        Just("form".to_owned()),
        Just("timestamp".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((field.clone(), inner), 0..5).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn words() -> impl Strategy<Value = Option<String>> {
    option::weighted(0.3, "[a-zA-Z0-9_ -]{1,12}")
}

fn action() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z-]{0,10}",
        Just("finding".to_owned()),
        Just("agreement".to_owned()),
        Just("handoff".to_owned()),
        Just("question".to_owned()),
        Just("abort_signal".to_owned()),
        Just("agent_communication".to_owned()),
    ]
}

/// Any message that an agent may send.
fn message() -> impl Strategy<Value = (Message, Value)> {
    let kinds = prop_oneof![
        Just(MessageType::Command),
        Just(MessageType::Query),
        Just(MessageType::Event),
        Just(MessageType::Response),
    ];
    let addresses =
        (option::of(agent()), option::of("[a-z0-9-]{1,8}"), to(), kinds, action(), option::of(agent()));
    let times = (option::of(0..TIME_MAX), option::of(0..TIME_MAX));
    let hops = (0..=3_u16, option::of(1..=300_u16));
    let numbers = (0..=3_u8, 0..=12_u8, 1..=100_u16, hops, option::of(0.0..=1.0_f64));
    let texts = vec(words(), 8);
    let rest = (any::<bool>(), 0..3_usize, any::<bool>(), option::of(any_json()), any_json());
    (addresses, times, numbers, texts, rest).prop_map(|(addresses, times, numbers, texts, rest)| {
        let (from, client_id, to, kind, action, reply_to) = addresses;
        let (level, rank, attempts_max, hops, confidence) = numbers;
        let (ephemeral, choice, encoded, metadata, payload) = rest;
        let mut texts = texts.into_iter();
        let mut next = || texts.next().flatten();
        let message = Message {
            from,
            client_id: client_id.map(|id| ClientId::new(id).expect("an id")),
            kind,
            priority: Priority { level, rank },
            durability: if ephemeral { Durability::Ephemeral } else { Durability::Durable },
            expires_at: times.0.map(Timestamp),
            deliver_at: times.1.map(Timestamp),
            attempts_max,
            reply_to,
            in_reply_to: next(),
            correlation_id: next(),
            causation_id: next(),
            session_id: next(),
            budget: next(),
            hops: hops.0,
            max_hops: hops.1,
            traceparent: next(),
            origin: next(),
            confidence,
            rationale: next(),
            metadata: metadata.filter(|json| !json.is_null()).map(|json| json.to_string()),
            if_unavailable: IfUnavailable::ALL[choice],
            content_type: encoded.then(|| "text/plain".to_owned()),
            ..Message::new(to, action, Payload::unsealed(payload.to_string().into()))
        };
        (message, payload)
    })
}

fn dialects() -> impl Strategy<Value = Dialect> {
    proptest::sample::select(Dialect::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // Fails under: a field that is not compared in `native_extras`, or not applied in `apply_extras`.
    #[test]
    fn a2_b1_c7_d3_a_native_message_survives_every_dialect((message, _) in message(), dialect in dialects()) {
        let envelope = Envelope::from_delivered(dialect, "msg_0-17-0".to_owned(), Timestamp(1_767_225_600_001), &message);
        let rendered = dialect.render(&envelope).expect("it is rendered");
        let parsed = dialect.parse("", &rendered);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error:?} in {rendered}"));
        prop_assert_eq!(parts_of(&parsed), parts_of(&envelope), "{}", rendered);
        // Rendering is stable.
        let repeated = dialect.render(&parsed).expect("it is rendered again");
        prop_assert_eq!(value(&repeated), value(&rendered));
    }

    // Fails under: a payload that is parsed and serialized again.
    #[test]
    fn payload_bytes_are_preserved((message, _) in message(), dialect in dialects()) {
        const BYTES: &str = r#"{"b":1.50e0,  "a":"\u00e9", "b":2}"#;
        let message = Message {
            payload: Payload::unsealed(BYTES.into()),
            content_type: None,
            ..message
        };
        let envelope = Envelope::from_delivered(dialect, "msg_0-17-0".to_owned(), Timestamp(1), &message);
        let read = dialect.parse("", &dialect.render(&envelope).expect("it is written")).expect("it is read");
        prop_assert_eq!(read.payload.get(), BYTES);
    }

    #[test]
    fn a2_a_deliberation_message_comes_back(message_json in deliberation()) {
        round_trips(Dialect::Deliberation, &message_json)?;
    }

    #[test]
    fn b1_b2_b3_b9_an_orchestrator_message_comes_back(message_json in orchestrator()) {
        round_trips(Dialect::Orchestrator, &message_json)?;
    }

    #[test]
    fn c7_a_coscientist_message_comes_back(message_json in coscientist()) {
        round_trips(Dialect::Coscientist, &message_json)?;
    }

    #[test]
    fn d3_an_envelope_comes_back(message_json in native()) {
        round_trips(Dialect::Native, &message_json)?;
    }

    #[test]
    fn i21_any_json_is_parsed_or_refused(json in any_json(), dialect in dialects()) {
        let raw = raw(&json.to_string());
        if let Ok(envelope) = dialect.parse("", &raw) {
            dialect.render(&envelope).expect("what is read can be written");
        }
    }
}

fn round_trips(dialect: Dialect, message_json: &Value) -> Result<(), TestCaseError> {
    let raw = raw(&message_json.to_string());
    let envelope = match dialect.parse("", &raw) {
        Ok(envelope) => envelope,
        Err(error) => return Err(TestCaseError::fail(format!("{error:?} in {message_json}"))),
    };
    // Both are compared as parsed text: parsing floats is not exact, but deterministic.
    prop_assert_eq!(value(&dialect.render(&envelope).expect("it is written")), value(&raw));
    Ok(())
}

/// Adds optional fields.
fn with(mut object: Value, fields: Vec<(&str, Option<Value>)>) -> Value {
    for (name, value) in fields {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}

/// Metadata of agents: their own fields, and native extras.
fn metadata() -> impl Strategy<Value = Option<Value>> {
    let own = vec(("[a-m]{1,4}", any_json()), 1..3).prop_map(|fields| fields.into_iter().collect::<Value>());
    let extras = Just(json!({"quorate": {"sessionId": "s", "budget": "b", "hops": 2}}));
    let both = own.clone().prop_map(|mut own| {
        own["quorate"] = json!({"type": "response", "inReplyTo": "m"});
        own
    });
    option::of(prop_oneof![2 => own, 1 => extras, 1 => both])
}

fn time() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "2026-01-31T09:30:00.000Z".to_owned(),
        "2026-01-31T09:30:00Z".to_owned(),
        "2026-01-31T09:30:00.123456+05:30".to_owned(),
        "2026-01-31T09:30:00".to_owned(),
        "2026-01-31 09:30:00Z".to_owned(),
    ])
}

fn some<T: Into<Value>>(value: Option<T>) -> Option<Value> {
    value.map(Into::into)
}

fn deliberation() -> impl Strategy<Value = Value> {
    let types = proptest::sample::select(vec![
        "finding",
        "question",
        "clarification",
        "agreement",
        "disagreement",
        "revision",
        "evidence",
    ]);
    let content = prop_oneof![
        ".{0,20}",
        vec(any_json(), 0..3).prop_map(|list| json!(list).to_string()),
        vec(any_json(), 0..3).prop_map(|list| format!(" {} ", json!(list))),
        (0.0..=1.0_f64)
            .prop_map(|confidence| json!({"confidence": confidence, "reasoning": "so"}).to_string()),
    ];
    let rest = (0..4_u32, vec(name(), 1..3), 0..TIME_MAX, option::of("[a-z0-9]{1,6}"), metadata());
    (types, content, name(), option::of("[a-z0-9]{1,6}"), rest).prop_map(|(kind, content, sender, id, rest)| {
        let (round, recipients, timestamp, reply_to, metadata) = rest;
        let message_json = json!({
            "round": round, "sender": sender, "recipients": recipients, "messageType": kind, "content": content,
            "timestamp": timestamp,
        });
        // Stating it twice would be a contradiction.
        let reply_to = reply_to.filter(|_| metadata.as_ref().is_none_or(|m: &Value| m["quorate"]["inReplyTo"].is_null()));
        let is_reply = metadata.as_ref().is_some_and(|m| !m["quorate"]["inReplyTo"].is_null());
        let metadata = metadata.filter(|_| !is_reply);
        with(message_json, vec![("id", some(id)), ("replyTo", some(reply_to)), ("metadata", metadata)])
    })
}

fn orchestrator() -> impl Strategy<Value = Value> {
    let urgency = proptest::sample::select(vec!["high", "medium", "low"]);
    let broadcast = proptest::sample::select(vec![
        "context_update",
        "priority_change",
        "abort_signal",
        "checkpoint_reached",
    ]);
    let parts = (name(), name(), urgency, broadcast, any_json(), any::<bool>(), 0..5_usize);
    let rest = (option::of("[a-z0-9]{1,6}"), option::of(time()), option::of(".{0,9}"), metadata(), 0..9_u64);
    (parts, rest).prop_map(|((from, to, urgency, broadcast, content, flag, form), rest)| {
        let (id, timestamp, text, metadata, count) = rest;
        let message_json = match form {
            0 => with(
                json!({"from_agent": from, "to_agent": to, "handoff_type": if flag { "sequential" } else { "parallel" },
                    "context": {"summary": "s", "tokens_used": count, "key_findings": ["k"], "more": content}}),
                vec![("state_snapshot", some(text.clone()))],
            ),
            1 => json!({"from": from, "to": if flag { vec!["all_active_agents"] } else { vec!["x", "y"] },
                "broadcast_type": broadcast,
                "message": {"type": "t", "content": content, "priority": urgency, "action_required": flag}}),
            2 => json!({"from": from, "to": to, "query_type": "request",
                "query": {"question": "q", "context": content, "urgency": urgency}}),
            3 => json!({"from": from, "to": to, "query_type": "response", "answer": content}),
            _ => json!({"from": from, "to": to, "type": "agent_communication", "protocol": "handoff",
                "tokensTransferred": count, "compressionRatio": 0.15, "success": flag}),
        };
        with(message_json, vec![
            ("id", some(id)),
            ("timestamp", some(timestamp)),
            ("pattern", some(text)),
            ("metadata", metadata.filter(|m| form != 3 || m["quorate"]["type"].is_null())),
        ])
    })
}

fn coscientist() -> impl Strategy<Value = Value> {
    let header = (name(), name(), time(), action(), option::of("[a-z0-9]{1,6}"));
    (header, any_json(), metadata(), 1..=10_u8, option::of(time())).prop_map(
        |((from, to, timestamp, kind, id), data, metadata, priority, expires)| {
            let header = json!({"source_agent": from, "target_agent": to, "timestamp": timestamp, "message_type": kind});
            json!({
                "header": with(header, vec![("message_id", some(id))]),
                "payload": with(json!({"data": data}), vec![("metadata", metadata)]),
                "routing": with(json!({"priority": priority}), vec![("expires_at", some(expires))]),
            })
        },
    )
}

fn native() -> impl Strategy<Value = Value> {
    let to =
        prop_oneof![name().prop_map(Value::from), vec(name(), 1..3).prop_map(Value::from), Just(json!("*"))];
    let kinds = proptest::sample::select(vec!["command", "query", "event", "response"]);
    let rest = (option::of(name()), option::of(time()), option::of(time()), words(), words(), words());
    let own = vec(("[a-m]{1,4}", any_json()), 1..3).prop_map(|fields| fields.into_iter().collect::<Value>());
    (name(), to, kinds, (0..4_u8, time(), action()), any_json(), rest, option::of(own)).prop_map(
        |(from, to, kind, (priority, timestamp, action), payload, rest, metadata)| {
            let (reply_to, expires_at, deliver_at, session, correlation, causation) = rest;
            let message_json = json!({
                "version": "1.0", "from": from, "to": to, "type": kind, "priority": priority,
                "timestamp": timestamp, "action": action, "payload": payload,
            });
            with(
                message_json,
                vec![
                    ("replyTo", some(reply_to)),
                    ("expiresAt", some(expires_at)),
                    ("deliverAt", some(deliver_at)),
                    ("sessionId", some(session)),
                    ("correlationId", some(correlation)),
                    ("causationId", some(causation)),
                    ("metadata", metadata),
                ],
            )
        },
    )
}
