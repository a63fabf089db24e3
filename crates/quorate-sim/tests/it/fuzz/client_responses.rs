//! Responses as parsed by the client. Another server may listen at the address, so every response must parse or give
//! an error with a message.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate::{Error, Hub as Library};
use quorate_client::{ConnectOptions, connect_with};
use quorate_core::AgentFilter;
use quorate_sim::data_directory;
use quorate_sim::fuzz::{FuzzLimit, Mutator, fuzz_seed};

use super::hub::TestHub;

/// Requested paths; the last one returns an error.
const PATHS: &[&str] = &[
    "/v1/agents/bob",
    "/v1/agents",
    "/v1/agents/bob/inbox",
    "/v1/messages/MESSAGE",
    "/v1/context/k",
    "/v1/sessions",
    "/v1/policy",
    "/v1/messages/MESSAGE/why",
    "/v1/messages/msg_0-999-0",
];

/// Response that lets the client connect.
const INFO: &str = r#"{"name":"quorate","version":"0.0.0","you":{"principal":"admin:test","role":"admin"},
    "limits":{"requestBytes":0,"jsonDepth":0,"payloadBytes":0,"commitBytes":0,"operations":0,"deliveries":0,"inFlight":0,"inbox":0,
    "hops":0,"maxHops":0},"seq":1,"time":"2026-01-01T00:00:00.000Z","audit":null}"#;

/// Status and body of the next response.
type NextResponse = Arc<Mutex<(u16, Vec<u8>)>>;

/// Answers every request on a connection with the next response.
fn serve(mut stream: TcpStream, next: &NextResponse) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let (status, body) = match head.starts_with(b"GET /v1/info") {
            true => (200, INFO.as_bytes().to_vec()),
            false => next.lock().unwrap().clone(),
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat())?;
    }
}

async fn call(hub: &Library, index: usize, message: &str) -> Result<(), Error> {
    match index {
        0 => drop(hub.agent_info("bob").await?),
        1 => drop(hub.agents(AgentFilter::default()).await?),
        2 => drop(hub.inbox("bob", 10).await?),
        4 => drop(hub.memory().get("k").await?),
        5 => drop(hub.sessions(quorate::PageQuery::newest(10)).await?),
        6 => hub.policy().await.map(|_| ())?,
        7 => drop(hub.why(message).await?),
        _ => drop(hub.message(message).await?),
    }
    Ok(())
}

// Fails under: a response parser that panics, or an error without a message.
#[test]
fn i21_client_survives_malformed_responses() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_client");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let hub = TestHub::new(data_directory()).await;
        hub.register_agents().await;
        let (_, sent) = hub
            .request(&hub.admin, b"POST /v1/messages {\"from\":\"alice\",\"to\":\"bob\",\"payload\":1}")
            .await
            .unwrap();
        let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
        let message = sent["receipts"][0]["id"].as_str().unwrap().to_owned();
        hub.request(&hub.admin, b"PUT /v1/context/k {\"content\":{\"a\":1}}").await.unwrap();
        hub.request(&hub.admin, b"POST /v1/sessions {\"id\":\"s1\",\"title\":\"S\"}").await.unwrap();
        let mut corpus = Vec::new();
        for path in PATHS {
            let line = format!("GET {}", path.replace("MESSAGE", &message));
            corpus.push(hub.request(&hub.admin, line.as_bytes()).await.unwrap());
        }
        let next: NextResponse = Arc::new(Mutex::new((200, Vec::new())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let response = Arc::clone(&next);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let response = Arc::clone(&response);
                // The thread ends when the client disconnects.
                std::thread::spawn(move || drop(serve(stream, &response)));
            }
        });
        let settings = ConnectOptions { retry_timeout: Duration::ZERO, ..ConnectOptions::default() };
        let client = connect_with(&url, &hub.admin, settings).await.unwrap();
        // The unmodified responses parse, so the mutations below are close to valid input.
        for (index, (status, text)) in corpus.iter().enumerate() {
            *next.lock().unwrap() = (*status, text.as_bytes().to_vec());
            assert_eq!(call(&client, index, &message).await.is_ok(), *status == 200, "{text}");
        }
        let bodies = corpus.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
        let mut cases = Mutator::new("answers", seed, FuzzLimit::from_env(2_000), bodies);
        while let Some((index, case)) = cases.next_case() {
            *next.lock().unwrap() = (corpus[index].0, case.clone());
            if let Err(error) = call(&client, index, &message).await {
                assert!(!error.to_string().is_empty(), "{}", String::from_utf8_lossy(&case));
            }
        }
    });
}
