//! Tests of id validation and text forms.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_message_id_parses_as_printed() {
    let id = MessageId { generation: Generation(3), seq: Seq(17), n: 2 };
    assert_eq!(id.to_string(), "msg_3-17-2");
    assert_eq!("msg_3-17-2".parse::<MessageId>().unwrap(), id);
}

#[test]
fn an_id_has_a_single_text_form() {
    for text in
        ["msg_3-17", "msg_03-17-2", "msg_3-17-2-", "msg_+3-17-2", "msg_3-17--2", "dlv_3-17-2", "msg_", ""]
    {
        assert_eq!(text.parse::<MessageId>().unwrap_err().code, Code::Invalid, "{text}");
    }
    let beyond = format!("dlv_0-{}", 1u64 << 47);
    assert_eq!(beyond.parse::<DeliveryId>().unwrap_err().code, Code::Invalid);
}

// Fails under: `Message::check` without a check of the client id: a lookup by it would find the message at that position.
#[test]
fn i3_a_client_id_does_not_have_the_form_of_an_id_of_the_hub() {
    let check = |id: &str| {
        let payload = crate::Payload::seal(bytes::Bytes::from_static(b"1"), [1; 16]);
        let to = crate::Destination::Agent(AgentId::new("bob").unwrap());
        let client_id = Some(ClientId::new(id).unwrap());
        let message = crate::Message { client_id, ..crate::Message::new(to, "work", payload) };
        crate::Commit::new(crate::Principal::System, vec![crate::Op::send(message)]).check()
    };
    for id in ["msg_0-6-0", "msg_3-17-2", "eph_1", "eph_"] {
        let refused = check(id).unwrap_err();
        assert_eq!(refused.code, Code::Invalid, "{id}");
        assert!(refused.detail.contains(id) && refused.hint.contains("msg_0-17-0"), "{refused:?}");
    }
    for id in ["msg_0-6", "msg_00-6-0", "msg-0-6-0", "report-7"] {
        assert!(check(id).is_ok(), "{id}");
    }
}

#[test]
fn an_agent_id_is_bounded_and_printable() {
    assert!(AgentId::new("a".repeat(128)).is_ok());
    assert_eq!(AgentId::new("a".repeat(129)).unwrap_err().facts.limit, Some(128));
    assert_eq!(AgentId::new("a\nb").unwrap_err().code, Code::Invalid);
    assert_eq!(AgentId::new("").unwrap_err().code, Code::Invalid);
}

// Fails under: ids that look the same and are different.
#[test]
fn i2_an_id_has_only_visible_characters() {
    for hidden in [
        "bo\u{200b}b",
        "\u{202e}bob",
        "bob\u{feff}",
        "b\u{2066}o\u{2069}b",
        "bo\u{ad}b",
        "\u{e0041}bob",
        "bob\u{fe00}",
        "bob\u{fe0f}",
        "bob\u{e0100}",
        "bob\u{e01ef}",
        "\u{2800}",
        "bob\u{2800}",
        "bo\u{180f}b",
        "bob\u{fff8}",
        "bob\u{1d159}",
    ] {
        let refused = AgentId::new(hidden).unwrap_err();
        assert_eq!(refused.code, Code::Invalid, "{hidden:?}");
        assert!(
            refused.detail.contains("invisible") && !refused.detail.contains(hidden),
            "{}",
            refused.detail
        );
        assert!(
            SpaceName::new(hidden).is_err() && Key::new(hidden).is_err() && ClientId::new(hidden).is_err()
        );
    }
    for visible in ["rené", "böb", "山田", "bob-1", "a b", "🦀"] {
        assert!(AgentId::new(visible).is_ok(), "{visible}");
    }
}

#[test]
fn an_agent_cannot_be_named_like_a_destination() {
    for text in ["*", "topic:x", "role:worker", "can:review"] {
        assert_eq!(AgentId::for_registration(text).unwrap_err().code, Code::Invalid, "{text}");
    }
    assert!(AgentId::for_registration("topical").is_ok());
}

#[test]
fn an_id_of_a_discarded_history_is_not_found() {
    let generations = Generations(vec![
        GenerationStart { generation: Generation(0), first_seq: Seq(1), first_delivery: DeliveryNo(1) },
        GenerationStart { generation: Generation(9), first_seq: Seq(20), first_delivery: DeliveryNo(5) },
    ]);
    assert_eq!(generations.delivery_id(DeliveryNo(4)).to_string(), "dlv_0-4");
    assert_eq!(generations.delivery_id(DeliveryNo(5)).to_string(), "dlv_9-5");
    assert_eq!(generations.message_id(Seq(19), 0).to_string(), "msg_0-19-0");
    let lost = DeliveryId { generation: Generation(0), number: DeliveryNo(5) };
    assert_eq!(generations.resolve(lost).unwrap_err().code, Code::NotFound);
}
