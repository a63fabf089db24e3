//! HTTP agents.

use super::scripted_server::{Act, Server, Speaks};
use super::soon;
use quorate_agents::{
    AgentContext, AgentFailure, AgentQuestion, AgentReply, AgentSettings, DeclaredAgent, FailureKind,
};
use serde_json::json;

async fn ask(acts: Vec<Act>) -> (Result<AgentReply, AgentFailure>, Server) {
    let server = Server::start(Speaks::Plain, acts).await;
    let mut surroundings = AgentContext::new(".");
    surroundings.retry = soon(3);
    let agent =
        DeclaredAgent::declare("remote", &server.url(), &AgentSettings::default(), &surroundings).unwrap();
    let mut question = AgentQuestion::new("analyse", json!({ "text": "hello" }));
    question.schema = Some(json!({ "type": "object", "required": ["summary"] }));
    (agent.answer(&question).await, server)
}

const GOOD: &str = r#"{"summary": "fine"}"#;

#[tokio::test]
async fn the_question_is_posted_and_the_body_is_the_answer() {
    let (reply, server) = ask(vec![Act::Say(GOOD.into())]).await;
    assert_eq!(reply.unwrap().body["summary"], "fine");
    let seen = &server.seen()[0];
    assert_eq!((&seen.body["action"], &seen.body["payload"]["text"]), (&json!("analyse"), &json!("hello")));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn a8_retryable_failures_are_retried_and_others_are_not() {
    let busy = || Act::Status(429, vec![("retry-after", "0".into())], "busy".into());
    let (reply, _server) =
        ask(vec![busy(), Act::Status(502, vec![], String::new()), Act::Cut, Act::Say(GOOD.into())]).await;
    assert_eq!(reply.unwrap().usage.calls, 4);
    let (reply, server) = ask(vec![Act::Status(418, vec![], "teapot".into())]).await;
    assert!(reply.unwrap_err().message.contains("418: teapot"));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::start(Speaks::Plain, vec![Act::Say(GOOD.into())]).await;
    let (reply, _server) =
        ask(vec![Act::Status(302, vec![("location", elsewhere.url())], String::new())]).await;
    let failure = reply.unwrap_err();
    assert!(failure.kind == FailureKind::Refused && failure.hint.contains("not followed"), "{failure}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn invalid_json_is_repaired_once_and_text_stays_text() {
    let (reply, server) = ask(vec![Act::Say("{}".into()), Act::Say(GOOD.into())]).await;
    assert_eq!(reply.unwrap().usage.calls, 2);
    assert!(server.seen()[1].body["retry"]["error"].as_str().unwrap().contains("summary"));
    let (reply, _server) = ask(vec![Act::Say("fine by me".into())]).await;
    assert_eq!(reply.unwrap().body, json!({ "text": "fine by me", "confidence": null }));
}

#[tokio::test]
async fn an_oversized_response_and_a_refused_connection_are_distinguished() {
    let (reply, _server) = ask(vec![Act::Huge]).await;
    assert_eq!(reply.unwrap_err().kind, FailureKind::TooLong);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut surroundings = AgentContext::new(".");
    surroundings.retry = soon(1);
    let agent =
        DeclaredAgent::declare("r", &format!("http://{closed}"), &AgentSettings::default(), &surroundings)
            .unwrap();
    let failure = agent.answer(&AgentQuestion::new("analyse", json!(1))).await.unwrap_err();
    assert_eq!((failure.kind, failure.usage.calls), (FailureKind::Unreachable, 2));
    assert!(failure.message.contains("nothing is listening"), "{failure}");
}
