//! A rewritten operation is the same except for the redacted field.

use bytes::Bytes;
use quorate_core::{AgentId, Destination, Generation, Message, MessageId, Op, Payload, SendRequest, Seq};
use quorate_store::Entropy;

use super::{Scanner, rewrite};

// Fails under: a request that is rebuilt from some of its fields, so that a retry runs into the loop detection.
#[test]
fn i18_a_redacted_request_still_names_the_request_that_it_retries() {
    // In two parts, so that this file contains no secret.
    let secret = format!("{}{}", "ghp_", "16C7e42F292c6912E7710c838347Ae178B4a");
    let payload = Payload::unsealed(Bytes::from(format!("{{\"use\":\"{secret}\"}}")));
    let bob = AgentId::new("bob").expect("an id");
    let message = Message::new(Destination::Agent(bob), "review", payload);
    let retry_of = Some(MessageId { generation: Generation(0), seq: Seq(7), n: 0 });
    let request = Op::Request(SendRequest { retry_of, ..SendRequest::new(message, Some(5_000), None) });
    let rewritten = rewrite(&request, "payload", &Scanner::new(), &Entropy::seeded(1));
    let Some(Op::Request(request)) = rewritten else { panic!("a request: {rewritten:?}") };
    assert_eq!((request.retry_of, request.timeout_ms), (retry_of, Some(5_000)));
    assert_eq!(request.message.payload.bytes, "{\"use\":\"[redacted:github-token]\"}");
}
