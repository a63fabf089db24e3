//! The contract review by LLMs, against local servers that imitate each provider, including their failures. No real provider is
//! contacted.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::scripted::{KEY, KEY_ENV, ProviderApi, ReceivedRequest, ScriptedReply, Server};
use crate::support::{QUORATE, run_guide_with};

/// Runs the program while the servers are running.
async fn quorate(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(QUORATE);
    command.args(arguments).current_dir(directory).env(KEY_ENV, KEY);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("a thread");
    let output = output.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns a finding with this risk score.
fn finding(score: u32, recommendation: &str, confidence: f64) -> String {
    json!({
        "summary": "I read it.", "confidence": confidence, "recommendation": recommendation,
        "scores": { "overall_risk_score": score },
        "issues": [{ "topic": "liability cap", "severity": if score > 50 { "high" } else { "low" },
                     "detail": "Section 9 has none.", "advice": "ask for one" }],
    })
    .to_string()
}

/// Answers as a model that keeps its position.
fn keep_position(seen: &ReceivedRequest, score: u32, recommendation: &str) -> String {
    let (task, input) = seen.question();
    if task == "analyse" {
        return finding(score, recommendation, 0.8);
    }
    let own = &input["your_position"]["position"];
    json!({ "revised_position": own, "confidence": 0.8, "agrees_with_peer": false, "reasoning": "Section 9." })
        .to_string()
}

fn wary(seen: &ReceivedRequest) -> String {
    keep_position(seen, 85, "do not sign")
}

fn calm(seen: &ReceivedRequest) -> String {
    keep_position(seen, 35, "negotiate key terms")
}

/// Writes the review playbook of the repository with its models at these addresses.
fn review(directory: &Path, addresses: &[(&str, String)]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../playbooks/contract-review");
    fs::create_dir(directory.join("prompts")).expect("made");
    for prompt in fs::read_dir(source.join("prompts")).expect("prompts") {
        let prompt = prompt.expect("a file").path();
        let name = prompt.file_name().expect("a name");
        fs::copy(&prompt, directory.join("prompts").join(name)).expect("copied");
    }
    fs::copy(source.join("agreement.txt"), directory.join("agreement.txt")).expect("copied");
    let mut playbook = fs::read_to_string(source.join("llm.yaml")).expect("the playbook");
    for (provider, url) in addresses {
        let start = playbook.find(&format!("llm:{provider}/")).expect("an agent of each");
        let end = start + playbook[start..].find('"').expect("the end of the line");
        playbook.replace_range(end..=end, &format!("@{url}\", key_env: {KEY_ENV}"));
    }
    fs::write(directory.join("llm.yaml"), playbook).expect("written");
}

/// Returns the number of calls for a task. Each successful call uses 11 tokens in and 7 out.
fn calls(server: &Server, task: &str) -> u64 {
    server.requests().iter().filter(|seen| seen.question().0 == task).count() as u64
}

// Fails under: missing usage in answers, prices that only the estimate uses, a repair or retry that is not counted, a failing
// provider that ends the run.
#[tokio::test(flavor = "multi_thread")]
async fn a7_a8_the_review_by_models_reports_usage_and_missing_agents() {
    let slow_down = json!({ "error": { "message": "slow down" } }).to_string();
    let busy = ScriptedReply::Status(429, vec![("retry-after", "1".into())], slow_down);
    let groq = Server::start(ProviderApi::Chat, vec![busy, ScriptedReply::Answer(calm)]).await;
    let invalid = finding(80, "do not sign", 7.0);
    let anthropic =
        Server::start(ProviderApi::Anthropic, vec![ScriptedReply::Say(invalid), ScriptedReply::Answer(wary)])
            .await;
    let gemini = Server::start(ProviderApi::Gemini, vec![ScriptedReply::Answer(calm)]).await;
    let quota_error = json!({ "error": { "message": "You exceeded your current quota" } }).to_string();
    let openai =
        Server::start(ProviderApi::Chat, vec![ScriptedReply::Status(403, vec![], quota_error)]).await;
    let ollama = Server::start(
        ProviderApi::Ollama,
        vec![ScriptedReply::Say("It looks fine.".into()), ScriptedReply::Answer(wary)],
    )
    .await;
    let servers = [
        ("groq", &groq),
        ("anthropic", &anthropic),
        ("gemini", &gemini),
        ("openai", &openai),
        ("ollama", &ollama),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let addresses: Vec<(&str, String)> = servers.iter().map(|(name, server)| (*name, server.url())).collect();
    review(directory.path(), &addresses);
    let (code, out, err) = quorate(directory.path(), &["run", "llm.yaml", "--json"]).await;
    assert_eq!(code, Some(8), "two against two with equal confidence: {err}");
    assert!(!err.contains("no LLM"), "{err}");
    let report: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!(report["synthesis"]["agreement"]["level"], "tied");

    assert_eq!(report["quorum"], json!({ "needed": 3, "present": 4, "asked": 5 }));
    assert_eq!(report["missing"].as_array().map(Vec::len), Some(1), "{}", report["missing"]);
    assert_eq!(report["missing"][0]["agent"], "ip_specialist");
    assert!(report["missing"][0]["why"].to_string().contains("exceeded your current quota"), "{report}");
    assert_eq!(report["findings"]["risk_assessor"]["confidence"], 0.8, "the repaired answer counts");

    check_usage(&report["actual"], &servers);
    let refused = &report["actual"]["analysis"]["providers"]["openai"];
    assert_eq!(refused["calls"], 2, "failed calls are counted: {}", report["actual"]);
    assert_eq!((calls(&groq, "analyse"), calls(&anthropic, "analyse"), calls(&ollama, "analyse")), (2, 2, 2));
    assert_eq!(calls(&openai, "analyse"), 2, "retried once, then excluded");
    for (name, server) in servers {
        check_asked(name, server);
    }
}

/// Checks the reported usage and cost against the calls that the servers counted.
fn check_usage(actual: &Value, servers: &[(&str, &Server)]) {
    let prices =
        [("groq", 0.59, 0.79), ("anthropic", 3.0, 15.0), ("gemini", 0.30, 2.50), ("ollama", 0.0, 0.0)];
    for (phase, task) in [("analysis", "analyse"), ("discussion", "discuss")] {
        for (name, price_in, price_out) in prices {
            let server = servers.iter().find(|(server_name, _)| *server_name == name).expect("a server").1;
            let call_count = calls(server, task);
            assert!(call_count > 0, "{name} takes part in the {phase}");
            // One call was rejected with 429, without usage.
            let answered = if (name, task) == ("groq", "analyse") { call_count - 1 } else { call_count };
            let used = &actual[phase]["providers"][name];
            let usage = (&used["calls"], &used["tokens_in"], &used["tokens_out"]);
            assert_eq!(
                usage,
                (&json!(call_count), &json!(11 * answered), &json!(7 * answered)),
                "{name} in the {phase}: {used}"
            );
            let cost = answered as f64 * (11.0 * price_in + 7.0 * price_out) / 1e6;
            let reported = used["money"].as_f64().expect("it has a price");
            // Each answer is rounded up to a millionth.
            assert!(
                reported >= cost - 1e-9 && reported <= cost + 1e-6 * answered as f64,
                "{name}: {reported} for {cost}"
            );
        }
    }
}

/// Checks that a model gets the agreement, its role prompt, and the schema once.
fn check_asked(name: &str, server: &Server) {
    let (_, question) = server.requests()[0].question();
    assert!(question["input"]["text"].as_str().is_some_and(|text| text.len() > 10_000), "the agreement");
    let request = &server.requests()[0].body.to_string();
    let keys = [r#""relies_on":"#, r#"\"relies_on\":"#];
    assert_eq!(keys.iter().map(|key| request.matches(key).count()).sum::<usize>(), 1, "{name}: {request}");
    let role = match name {
        "groq" => "You extract clauses from contracts.",
        "anthropic" => "You assess the legal risk of a contract",
        "gemini" => "You look at what a contract costs",
        "openai" => "You look at who owns what",
        _ => "You check whether a contract keeps to the laws",
    };
    assert!(request.contains(role), "{name} has its prompt");
}

// Fails under: a command of the guide that does not work as documented.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_llm_guide_work() {
    let server = Server::start(ProviderApi::Keyless, vec![ScriptedReply::Answer(wary)]).await;
    let url = server.url();
    let run_guide_commands = move || run_guide_with("llm-agents.md", &[("http://127.0.0.1:8080/v1", &url)]);
    tokio::task::spawn_blocking(run_guide_commands).await.expect("it works");
    assert!(server.requests().len() >= 3, "tested, run and recorded; replayed without a call");
}

// Fails under: a price that the estimate ignores, or that is accepted for one direction only.
#[tokio::test(flavor = "multi_thread")]
async fn a7_prices_and_limits_are_validated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let write = |providers: &str| {
        let agents = "agents:\n  ada: { use: 'llm:groq/m1' }\n";
        let text = format!("procedure: deliberation\nsubject: x\n{agents}providers:\n{providers}");
        fs::write(path.join("p.yaml"), text).expect("written");
    };
    write("  groq: { price_in: 2, price_out: 10, calls_per_minute: 1 }\n");
    let (code, out, err) = quorate(path, &["run", "p.yaml", "--estimate", "--json"]).await;
    assert_eq!(code, Some(0), "{err}");
    let estimate: Value = serde_json::from_str(&out).expect("one document");
    let groq = &estimate["total"]["providers"]["groq"];
    let (tokens_in, tokens_out) = (groq["tokens_in"]["least"].as_f64(), groq["tokens_out"]["least"].as_f64());
    let cost = (2.0 * tokens_in.expect("tokens") + 10.0 * tokens_out.expect("tokens")) / 1e6;
    assert!((groq["money"]["least"].as_f64().expect("money") - cost).abs() < 1e-6, "{groq}");
    for (providers, expected) in [
        ("  gorq: { price_in: 2, price_out: 10 }\n", "did you mean \"groq\"?"),
        ("  groq: { price_in: 2 }\n", "price_out is missing"),
        ("  groq: { price_in: -2, price_out: 10 }\n", "price_in: invalid price"),
        ("  groq: { price_in: .nan, price_out: 10 }\n", "price_in: invalid price"),
        ("  groq: { price_in: cheap, price_out: 10 }\n", "p.yaml:6:"),
        ("  groq: { prise_in: 2, price_out: 10 }\n", "did you mean \"price_in\"?"),
        ("  groq: { calls_per_minute: 0 }\n", "calls_per_minute: must not be 0"),
    ] {
        write(providers);
        let (code, _, err) = quorate(path, &["run", "p.yaml", "--estimate"]).await;
        assert!(code == Some(2) && err.contains("p.yaml:6") && err.contains(expected), "{providers}{err}");
    }
}
