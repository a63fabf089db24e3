//! HTTP agents.

use super::fast_retries;
use super::scripted_server::{ProviderApi, ScriptedReply, Server};
use quorate_agents::{
    AgentContext, AgentFailure, AgentQuestion, AgentReply, AgentSettings, DeclaredAgent, FailureKind,
};
use serde_json::json;

async fn ask(script: Vec<ScriptedReply>) -> (Result<AgentReply, AgentFailure>, Server) {
    let server = Server::start(ProviderApi::Plain, script).await;
    let mut context = AgentContext::new(".");
    context.retry = fast_retries(3);
    let agent = DeclaredAgent::declare("remote", &server.url(), &AgentSettings::default(), &context).unwrap();
    let mut question = AgentQuestion::new("analyse", json!({ "text": "hello" }));
    question.schema = Some(json!({ "type": "object", "required": ["summary"] }));
    (agent.answer(&question).await, server)
}

const VALID_ANSWER: &str = r#"{"summary": "fine"}"#;

#[tokio::test]
async fn the_question_is_posted_and_the_body_is_the_answer() {
    let (reply, server) = ask(vec![ScriptedReply::Say(VALID_ANSWER.into())]).await;
    assert_eq!(reply.unwrap().body["summary"], "fine");
    let request = &server.requests()[0];
    assert_eq!(
        (&request.body["action"], &request.body["payload"]["text"]),
        (&json!("analyse"), &json!("hello"))
    );
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn a8_retryable_failures_are_retried_and_others_are_not() {
    let busy = || ScriptedReply::Status(429, vec![("retry-after", "0".into())], "busy".into());
    let (reply, _server) = ask(vec![
        busy(),
        ScriptedReply::Status(502, vec![], String::new()),
        ScriptedReply::Cut,
        ScriptedReply::Say(VALID_ANSWER.into()),
    ])
    .await;
    assert_eq!(reply.unwrap().usage.calls, 4);
    let (reply, server) = ask(vec![ScriptedReply::Status(418, vec![], "teapot".into())]).await;
    assert!(reply.unwrap_err().message.contains("418: teapot"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let redirect_target =
        Server::start(ProviderApi::Plain, vec![ScriptedReply::Say(VALID_ANSWER.into())]).await;
    let (reply, _server) =
        ask(vec![ScriptedReply::Status(302, vec![("location", redirect_target.url())], String::new())]).await;
    let failure = reply.unwrap_err();
    assert!(failure.kind == FailureKind::Refused && failure.hint.contains("not followed"), "{failure}");
    assert!(redirect_target.requests().is_empty());
}

#[tokio::test]
async fn invalid_json_is_repaired_once_and_text_stays_text() {
    let (reply, server) =
        ask(vec![ScriptedReply::Say("{}".into()), ScriptedReply::Say(VALID_ANSWER.into())]).await;
    assert_eq!(reply.unwrap().usage.calls, 2);
    assert!(server.requests()[1].body["retry"]["error"].as_str().unwrap().contains("summary"));
    let (reply, _server) = ask(vec![ScriptedReply::Say("fine by me".into())]).await;
    assert_eq!(reply.unwrap().body, json!({ "text": "fine by me", "confidence": null }));
}

#[tokio::test]
async fn an_oversized_response_and_a_refused_connection_are_distinguished() {
    let (reply, _server) = ask(vec![ScriptedReply::Huge]).await;
    assert_eq!(reply.unwrap_err().kind, FailureKind::TooLong);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut context = AgentContext::new(".");
    context.retry = fast_retries(1);
    let agent = DeclaredAgent::declare("r", &format!("http://{closed}"), &AgentSettings::default(), &context)
        .unwrap();
    let failure = agent.answer(&AgentQuestion::new("analyse", json!(1))).await.unwrap_err();
    assert_eq!((failure.kind, failure.usage.calls), (FailureKind::Unreachable, 2));
    assert!(failure.message.contains("nothing is listening"), "{failure}");
}
