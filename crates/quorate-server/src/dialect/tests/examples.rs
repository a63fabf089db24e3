//! Examples of the frameworks, and their native form.

use bytes::Bytes;
use quorate_core::{AgentRole, Destination, MessageType, Priority};
use serde_json::{Value, json};

use super::super::yaml::Document;
use super::super::{Dialect, Envelope, NO_RECIPIENT};
use super::{raw, round_trip, seed, value};

fn read(dialect: Dialect, text: &str) -> Envelope {
    dialect.parse("", &raw(text)).expect("it is read")
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Returns the messages of a YAML example as JSON.
fn from_yaml(text: &'static str) -> Vec<String> {
    let document = Document::parse(&Bytes::from_static(text.as_bytes())).expect("YAML");
    let whole = raw(std::str::from_utf8(&document.json).expect("text"));
    let messages = Dialect::Orchestrator.messages("", &whole).expect("messages");
    messages.into_iter().map(|(_, raw)| raw.get().to_owned()).collect()
}

#[test]
fn a2_a_finding_is_an_event_with_its_content_as_payload() {
    let text = seed!("a2-finding.json");
    let envelope = read(Dialect::Deliberation, text);
    let message = &envelope.message;
    assert_eq!((message.kind, message.action.as_str()), (MessageType::Event, "finding"));
    assert_eq!(message.confidence, Some(0.85));
    assert_eq!(message.to, "coordinator".parse().expect("an agent"));
    assert_eq!(message.client_id.as_ref().map(ToString::to_string).as_deref(), Some("finding-1"));
    // Byte for byte, as the agent serialised it.
    assert_eq!(envelope.payload.get(), json_of(text)["content"].as_str().expect("a text"));
    assert_eq!(round_trip(Dialect::Deliberation, text), json_of(text));
}

#[test]
fn a2_replies_refer_to_the_message_they_answer() {
    let messages = json_of(seed!("a2-discussion.json"));
    let messages = messages.as_array().expect("a list");
    for message in messages {
        assert_eq!(round_trip(Dialect::Deliberation, &message.to_string()), *message);
    }
    let agreement = read(Dialect::Deliberation, &messages[1].to_string()).message;
    assert_eq!(agreement.kind, MessageType::Response);
    assert_eq!(agreement.in_reply_to.as_deref(), Some("finding-1"));
    assert_eq!(agreement.rationale.as_deref(), Some("The cap is in the annex"));
    let disagreement = read(Dialect::Deliberation, &messages[0].to_string()).message;
    assert_eq!((disagreement.kind, disagreement.to.agents().len()), (MessageType::Event, 2));
}

#[test]
fn a2_every_message_type_is_supported() {
    let types = ["finding", "question", "clarification", "agreement", "disagreement", "revision", "evidence"];
    for kind in types {
        let text = json!({"messageType": kind, "content": "plain words"}).to_string();
        let envelope = read(Dialect::Deliberation, &text);
        assert_eq!((envelope.message.action.as_str(), envelope.payload.get()), (kind, "\"plain words\""));
        assert_eq!(envelope.message.to, Destination::Role(AgentRole::Coordinator));
        let written = round_trip(Dialect::Deliberation, &text);
        assert_eq!((&written["messageType"], &written["content"]), (&json!(kind), &json!("plain words")));
        assert_eq!(written["round"], u64::from(kind != "finding"));
    }
}

#[test]
fn b1_a_handoff_is_a_command_with_its_context_as_payload() {
    let texts = from_yaml(seed!("b1-handoff.yaml"));
    let envelope = read(Dialect::Orchestrator, &texts[0]);
    assert_eq!((envelope.message.kind, envelope.message.action.as_str()), (MessageType::Command, "handoff"));
    assert_eq!(envelope.message.to, "task-decomposer".parse().expect("an agent"));
    assert_eq!(json_of(envelope.payload.get())["tokens_used"], 450);
    assert_eq!(round_trip(Dialect::Orchestrator, &texts[0]), json_of(&texts[0]));
    assert_eq!(json_of(&texts[0])["state_snapshot"], "workflow_state.json");
}

#[test]
fn b2_a_broadcast_goes_to_all_agents() {
    let texts = from_yaml(seed!("b2-broadcast.yaml"));
    let message = read(Dialect::Orchestrator, &texts[0]).message;
    assert_eq!((message.kind, message.action.as_str()), (MessageType::Event, "context_update"));
    assert_eq!((&message.to, message.priority), (&Destination::Broadcast, Priority::HIGH));
    assert_eq!(round_trip(Dialect::Orchestrator, &texts[0]), json_of(&texts[0]));
    for kind in ["context_update", "priority_change", "abort_signal", "checkpoint_reached"] {
        let text = json!({"broadcast_type": kind, "message": {"content": "x"}}).to_string();
        let message = read(Dialect::Orchestrator, &text).message;
        assert_eq!((message.action.as_str(), message.to), (kind, Destination::Broadcast));
    }
}

#[test]
fn b3_a_query_and_its_response() {
    let texts = from_yaml(seed!("b3-query.yaml"));
    let question = read(Dialect::Orchestrator, &texts[0]).message;
    assert_eq!((question.kind, question.priority), (MessageType::Query, Priority::NORMAL));
    let answer = read(Dialect::Orchestrator, &texts[1]);
    assert_eq!(answer.message.kind, MessageType::Response);
    assert_eq!(json_of(answer.payload.get())["additional_info"], "Auth required");
    for text in &texts {
        assert_eq!(round_trip(Dialect::Orchestrator, text), json_of(text));
    }
    // The dialect has no field for `inReplyTo`; the native extras have one.
    let text = json!({"answer": 1, "metadata": {"quorate": {"inReplyTo": "q-1"}}}).to_string();
    let answer = read(Dialect::Orchestrator, &text).message;
    assert_eq!((answer.in_reply_to.as_deref(), &answer.to), (Some("q-1"), &NO_RECIPIENT));
}

#[test]
fn b1_b3_foreign_messages_are_wrapped() {
    let written = |kind: &str, payload: Value| {
        let message = json!({"to": "b", "from": "a", "type": kind, "action": "act", "payload": payload});
        let envelope = read(Dialect::Native, &message.to_string());
        value(&Dialect::Orchestrator.render(&envelope).expect("it is written"))
    };
    let (question, listed) = (written("query", json!("Why?")), written("query", json!([1])));
    assert_eq!(question["query"], json!({"question": "Why?", "urgency": "medium"}));
    assert_eq!(question["metadata"]["quorate"], json!({"action": "act", "payloadIn": "question"}));
    assert_eq!(listed["query"], json!({"question": "act", "data": [1], "urgency": "medium"}));
    assert_eq!(written("command", json!(7))["context"], json!({"summary": "act", "data": 7}));
    let event = json!({"type": "act", "content": 7, "priority": "medium", "action_required": false});
    assert_eq!(written("event", json!(7))["message"], event);
    assert_eq!(written("response", json!(7))["answer"], 7);
}

#[test]
fn b9_a_log_line_is_an_event() {
    let text = seed!("b9-log.json");
    let message = read(Dialect::Orchestrator, text).message;
    assert_eq!((message.kind, message.action.as_str()), (MessageType::Event, "agent_communication"));
    assert_eq!(round_trip(Dialect::Orchestrator, text), json_of(text));
}

#[test]
fn c7_header_payload_and_routing() {
    let text = seed!("c7-message.json");
    let envelope = read(Dialect::Coscientist, text);
    assert_eq!(envelope.message.action, "hypothesis");
    assert_eq!(envelope.message.priority, Priority { level: 2, rank: 7 });
    assert!(envelope.payload.get().contains("0.50"), "payload bytes are preserved");
    assert_eq!(round_trip(Dialect::Coscientist, text), json_of(text));
    let text = seed!("c7-broadcast.json");
    let message = read(Dialect::Coscientist, text).message;
    assert_eq!((message.to, message.kind), (Destination::Broadcast, MessageType::Event));
    assert_eq!(round_trip(Dialect::Coscientist, text), json_of(text));
}

#[test]
fn c7_omitted_fields_get_defaults() {
    let text = r#"{"payload": {"data": 1}}"#;
    let envelope = read(Dialect::Coscientist, text);
    assert_eq!(envelope.message.to, Destination::Role(AgentRole::Coordinator));
    let written = value(&Dialect::Coscientist.render(&envelope).expect("it is written"));
    let expected = json!({
        "header": {"source_agent": "quorate", "target_agent": "role:coordinator", "message_type": "message"},
        "payload": {"data": 1, "metadata": {"quorate": {"from": null}}},
        "routing": {"priority": 5},
    });
    assert_eq!(written, expected);
}

#[test]
fn d3_the_documented_envelope() {
    let text = seed!("d3-message.json");
    let envelope = read(Dialect::Native, text);
    assert_eq!(envelope.message.priority, Priority::HIGH);
    assert_eq!(round_trip(Dialect::Native, text), json_of(text));
}

#[test]
fn d3_documented_fragments_get_default_recipients() {
    let to = |text| read(Dialect::Native, text).message.to;
    assert_eq!(to(seed!("d3-command.json")), "can:analyze-document".parse().expect("a pool"));
    assert_eq!(to(seed!("d3-query.json")), "can:get-status".parse().expect("a pool"));
    assert_eq!(to(seed!("d3-event.json")), Destination::Broadcast);
    assert_eq!(to(seed!("d3-response.json")), NO_RECIPIENT, "only the hub knows the requester");
    let written = round_trip(Dialect::Native, seed!("d3-event.json"));
    assert_eq!(
        written,
        json!({
            "version": "1.0", "to": "*", "type": "event", "priority": 1, "action": "analysis-complete",
            "payload": {"documentId": "doc_123", "findingsCount": 5},
        })
    );
}
