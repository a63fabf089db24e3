//! Envelopes of the dialects, as JSON and YAML: each is sent or refused with a reason, and every sent message can be
//! rendered in every dialect.

use quorate_sim::data_directory;
use quorate_sim::fuzz::{FuzzLimit, Mutator, fuzz_seed};
use serde_json::Value;

use super::hub::{TestHub, check_response};

macro_rules! seed {
    ($dialect:literal, $kind:literal, $name:literal) => {
        ($dialect, $kind, include_str!(concat!("../../../../quorate-server/tests/seeds/", $name)))
    };
}

/// Dialect, content type and body.
const MESSAGES: &[(&str, &str, &str)] = &[
    seed!("deliberation", "application/json", "a2-finding.json"),
    seed!("deliberation", "application/json", "a2-discussion.json"),
    seed!("orchestrator", "application/yaml", "b1-handoff.yaml"),
    seed!("orchestrator", "application/yaml", "b2-broadcast.yaml"),
    seed!("orchestrator", "application/yaml", "b3-query.yaml"),
    seed!("coscientist", "application/json", "c7-message.json"),
    seed!("coscientist", "application/json", "c7-broadcast.json"),
    seed!("native", "application/json", "d3-message.json"),
    seed!("native", "application/json", "d3-command.json"),
    seed!("native", "application/json", "d3-event.json"),
    seed!("native", "application/json", "d3-query.json"),
];
/// Agents that occur in the bodies.
const AGENTS: &[&str] = &[
    "agent-coordinator",
    "backend-expert",
    "clause_extractor",
    "coordinator",
    "frontend-expert",
    "generation",
    "orchestrator",
    "risk_assessor",
    "supervisor",
    "task-decomposer",
    "task-lister",
    "worker",
];
const DIALECTS: [&str; 4] = ["deliberation", "orchestrator", "coscientist", "native"];

// Fails under: a JSON or YAML parser that panics, or a response with status 5xx.
#[test]
fn i21_dialect_endpoints_survive_malformed_input() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_dialect");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let hub = TestHub::new(data_directory()).await;
        hub.register_agents().await;
        let mut tokens = Vec::new();
        for agent in AGENTS {
            let (_, registered) =
                hub.request(&hub.admin, format!("PUT /v1/agents/{agent} {{}}").as_bytes()).await.unwrap();
            let registered: Value = serde_json::from_str(&registered).unwrap();
            tokens.push(registered["token"].as_str().unwrap().to_owned());
        }
        let corpus = MESSAGES.iter().map(|(_, _, body)| body.as_bytes().to_vec()).collect();
        let mut cases = Mutator::new("dialects", seed, FuzzLimit::from_env(1_000), corpus);
        let (mut sent, mut rendered) = (0_u64, 0_u64);
        while let Some((index, case)) = cases.next_case() {
            let (dialect, kind, _) = MESSAGES[index];
            let line = [format!("POST /v1/dialects/{dialect}/messages ").as_bytes(), &case].concat();
            let (status, text) = hub.request_as(&hub.admin, kind, &line).await.unwrap();
            check_response(&case, status, &text);
            sent += u64::from(status < 300);
            let dialect = DIALECTS[(cases.cases_generated() % 4) as usize];
            let token = &tokens[cases.cases_generated() as usize / 4 % tokens.len()];
            let line = format!("GET /v1/dialects/{dialect}/inbox?max=4&leaseMs=60000");
            let (status, text) = hub.request(token, line.as_bytes()).await.unwrap();
            check_response(&case, status, &text);
            rendered += text.matches("\"deliveryId\"").count() as u64;
        }
        println!("{} messages, {sent} of them sent, {rendered} rendered", cases.cases_generated());
        // Input that is rejected at the first byte tests little.
        assert!(sent >= 10 && rendered >= 10, "{sent} sent, {rendered} rendered");
        let (status, text) = hub.request(&hub.admin, b"GET /v1/agents/bob").await.unwrap();
        assert_eq!(status, 200, "{text}");
    });
}
