//! A local server that imitates each provider and misbehaves as scripted.
//!
//! It checks what a provider would check (path, API key, fields of the request) and answers in the provider's format,
//! so a request that a provider would reject fails the test. The tests of quorate-cli use it too.
#![allow(dead_code, clippy::unwrap_used, reason = "not every test needs all of it")]

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The API key that the server expects.
pub(crate) const KEY: &str = "test-key-4711-not-a-real-one";
/// The environment variable of the key.
pub(crate) const KEY_ENV: &str = "SCRIPTED_KEY";

/// API that the server imitates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ProviderApi {
    Chat,
    /// The same API without a key, as on a local machine.
    Keyless,
    Gemini,
    Anthropic,
    Ollama,
    /// No provider API: the scripted text is the response body.
    Plain,
}

/// Reaction to one request.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedReply {
    /// Returns this text in the provider's format.
    Say(String),
    /// Computes the text from the request.
    Answer(fn(&ReceivedRequest) -> String),
    /// Returns this text as cut off at the token limit.
    SayCut(String),
    /// Returns a status with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Disconnects in the middle of the response.
    Cut,
    /// Disconnects before the response.
    HangUp,
    /// Returns a body that is not JSON.
    Garbage,
    /// Returns JSON in an unknown format.
    Other,
    /// Never responds.
    Slow,
    /// Sends an endless response.
    Huge,
    /// Rejects requests that contain this word as an unknown parameter; otherwise returns the text.
    Without(&'static str, String),
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    /// Extracts action and input from the prompt, independent of the provider's format.
    pub(crate) fn question(&self) -> (String, Value) {
        let question = texts(&self.body).find(|text| text.starts_with("TASK: ")).expect("a question");
        let (task, input) = question["TASK: ".len()..].split_once("\n\nINPUT:\n").expect("an input");
        (task.to_owned(), serde_json::from_str(input).expect("JSON"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// All strings in a JSON document.
fn texts(body: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match body {
        Value::String(text) => Box::new(std::iter::once(text.as_str())),
        Value::Array(items) => Box::new(items.iter().flat_map(texts)),
        Value::Object(fields) => Box::new(fields.values().flat_map(texts)),
        _ => Box::new(std::iter::empty()),
    }
}

/// The scripted server.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    running: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts the server; the last reaction is repeated forever.
    pub(crate) async fn start(api: ProviderApi, script: Vec<ScriptedReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        let running = tokio::spawn(async move {
            let script = Arc::new(script);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, api, Arc::clone(&script), Arc::clone(&requests)));
            }
        });
        Self { port, seen, running }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/base", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn serve(
    stream: TcpStream,
    api: ProviderApi,
    script: Arc<Vec<ScriptedReply>>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let mut stream = BufReader::new(stream);
    // A connection without a request, as a check opens it, uses up no reaction.
    let Some(request) = read(&mut stream).await else { return };
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(request.clone());
        requests.len() - 1
    };
    let reaction = script[number.min(script.len() - 1)].clone();
    let stream = stream.into_inner();
    if let Err((status, message)) = check(api, &request) {
        let body = json!({ "error": { "message": message } }).to_string();
        return answer(stream, status, &[], &body).await;
    }
    match reaction {
        ScriptedReply::Say(text) => answer(stream, 200, &[], &completion(api, &text, false)).await,
        ScriptedReply::Answer(answer_text) => {
            answer(stream, 200, &[], &completion(api, &answer_text(&request), false)).await
        }
        ScriptedReply::SayCut(text) => answer(stream, 200, &[], &completion(api, &text, true)).await,
        ScriptedReply::Status(status, headers, body) => answer(stream, status, &headers, &body).await,
        ScriptedReply::Garbage => {
            answer(stream, 200, &[], "<html>502 from a proxy that says 200</html>").await
        }
        ScriptedReply::Other => answer(stream, 200, &[], r#"{"hello": "world"}"#).await,
        ScriptedReply::Without(word, text) => {
            if request.body.to_string().contains(word) {
                let body =
                    json!({ "error": { "message": format!("unknown parameter {word}: response_format") } });
                answer(stream, 400, &[], &body.to_string()).await;
            } else {
                answer(stream, 200, &[], &completion(api, &text, false)).await;
            }
        }
        ScriptedReply::Cut => cut(stream).await,
        ScriptedReply::HangUp => drop(stream),
        ScriptedReply::Slow => {
            // Until the client disconnects.
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1]).await;
        }
        ScriptedReply::Huge => huge(stream).await,
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { path, headers, body: serde_json::from_slice(&body).ok()? })
}

/// Rejects requests that a provider would reject.
fn check(api: ProviderApi, request: &ReceivedRequest) -> Result<(), (u16, String)> {
    let is_gemini = request.path.starts_with("/base/models/") && request.path.ends_with(":generateContent");
    let (path, key, required): (_, _, &[&str]) = match api {
        ProviderApi::Chat => (
            "/base/chat/completions",
            request.header("authorization") == Some(&format!("Bearer {KEY}")),
            &["model", "messages"],
        ),
        ProviderApi::Keyless => {
            ("/base/chat/completions", request.header("authorization").is_none(), &["model"])
        }
        ProviderApi::Gemini => {
            let path = if is_gemini { request.path.as_str() } else { "/base/models/MODEL:generateContent" };
            (path, request.header("x-goog-api-key") == Some(KEY), &["contents"])
        }
        ProviderApi::Anthropic => {
            let key =
                request.header("x-api-key") == Some(KEY) && request.header("anthropic-version").is_some();
            ("/base/messages", key, &["model", "max_tokens", "messages"])
        }
        ProviderApi::Ollama => ("/base/api/chat", true, &["model", "messages"]),
        ProviderApi::Plain => ("/base", true, &[]),
    };
    if request.path != path {
        return Err((404, format!("no such path: {}", request.path)));
    }
    if !key {
        return Err((401, "Incorrect API key provided".into()));
    }
    match required.iter().find(|field| request.body.get(**field).is_none()) {
        Some(field) => Err((400, format!("missing required parameter: {field}"))),
        None => Ok(()),
    }
}

/// Renders a completion in the provider's format: 11 input tokens, 7 output tokens.
fn completion(api: ProviderApi, text: &str, cut: bool) -> String {
    let pick = |if_cut: &'static str, otherwise: &'static str| if cut { if_cut } else { otherwise };
    let body = match api {
        ProviderApi::Chat | ProviderApi::Keyless => json!({
            "id": "chatcmpl-1", "object": "chat.completion",
            "choices": [{ "index": 0, "finish_reason": pick("length", "stop"),
                          "message": { "role": "assistant", "content": text } }],
            "usage": { "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18 }
        }),
        ProviderApi::Gemini => json!({
            "candidates": [{ "finishReason": pick("MAX_TOKENS", "STOP"), "content": { "role": "model", "parts": [
                { "text": "let me think", "thought": true }, { "text": text } ] } }],
            "usageMetadata": { "promptTokenCount": 11, "candidatesTokenCount": 4, "thoughtsTokenCount": 3 }
        }),
        ProviderApi::Anthropic => {
            let block = match serde_json::from_str::<Value>(text) {
                Ok(input) => json!({ "type": "tool_use", "id": "toolu_1", "name": "answer", "input": input }),
                Err(_) => json!({ "type": "text", "text": text }),
            };
            json!({
                "type": "message", "role": "assistant", "content": [block],
                "stop_reason": pick("max_tokens", "end_turn"),
                "usage": { "input_tokens": 11, "output_tokens": 7 }
            })
        }
        ProviderApi::Ollama => json!({
            "model": "m1", "message": { "role": "assistant", "content": text },
            "done": true, "done_reason": pick("length", "stop"), "prompt_eval_count": 11, "eval_count": 7
        }),
        ProviderApi::Plain => return text.to_owned(),
    };
    body.to_string()
}

async fn answer(mut stream: TcpStream, status: u16, headers: &[(&'static str, String)], body: &str) {
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn cut(mut stream: TcpStream) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{\"choices\": [";
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn huge(mut stream: TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\": \"").await;
    let chunk = vec![b'x'; 1 << 16];
    while stream.write_all(&chunk).await.is_ok() {}
}
