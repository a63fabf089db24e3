//! Tests of limits, connection handling and error classification.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{CallLimits, Client, ClientOptions, ConnectError, Error};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
/// Protects the tests against hanging; no test waits for it.
const GUARD: Duration = Duration::from_secs(60);
const LIMITS: CallLimits = CallLimits { timeout: GUARD, bytes_max: 100 };

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).header("authorization", "Bearer hunter2").body(Full::default()).expect("a request")
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    (listener, url)
}

/// Accepts a connection and reads the request.
async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a request"));
    }
    stream
}

/// Waits until the peer closes the connection.
async fn wait_until_closed(mut stream: TcpStream) {
    let read = tokio::time::timeout(GUARD, stream.read(&mut [0; 1])).await.expect("it is closed");
    assert_eq!(read.unwrap_or(0), 0, "nothing more is sent");
}

/// Starts a server that sends one response per connection.
async fn start_server(response: &'static str) -> String {
    let (listener, url) = listener().await;
    tokio::spawn(async move {
        loop {
            let mut stream = accept(&listener).await;
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    url
}

async fn send_error(url: &str, limits: CallLimits) -> Error {
    let error = Client::new(ClientOptions::default()).send(get(url), limits).await.expect_err("it fails");
    assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    error
}

// Fails under: a call that continues in the background. A model provider would continue generating, and charge for it.
#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let (listener, url) = listener().await;
    for idle_max in [0, 4] {
        let client = Client::new(ClientOptions { idle_max, ..ClientOptions::default() });
        let mut call = Box::pin(client.send(get(&url), LIMITS));
        let stream = tokio::select! {
            _ = &mut call => panic!("the server does not respond"),
            stream = accept(&listener) => stream,
        };
        drop(call);
        wait_until_closed(stream).await;
    }
}

// Fails under: a stream that continues after its reader was dropped.
#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    let (listener, url) = listener().await;
    let client = Client::new(ClientOptions { idle_max: 4, ..ClientOptions::default() });
    let respond = async {
        let mut stream = accept(&listener).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst").await.expect("written");
        stream
    };
    let (response, stream) = tokio::join!(client.stream(get(&url), GUARD), respond);
    drop(response.expect("it begins"));
    wait_until_closed(stream).await;
}

// Fails under: a pool without an idle timeout; one that reuses nothing; one without a limit.
#[tokio::test]
async fn idle_connections_are_reused_and_then_closed() {
    let (listener, url) = listener().await;
    let idle_timeout = Duration::from_millis(100);
    let client = Client::new(ClientOptions { idle_max: 1, idle_timeout, ..ClientOptions::default() });
    let response = async {
        let mut stream = accept(&listener).await;
        stream.write_all(OK.as_bytes()).await.expect("written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a second request on it"));
        }
        stream.write_all(OK.as_bytes()).await.expect("written");
        stream
    };
    let calls = async {
        for _ in 0..2 {
            let response = client.send(get(&url), LIMITS).await.expect("a response");
            assert_eq!(response.body(), "{}");
        }
    };
    let ((), stream) = tokio::join!(calls, response);
    wait_until_closed(stream).await;
}

// Fails under: no limit on the time or size of a response.
#[tokio::test]
async fn i21_responses_are_limited_in_time_and_size() {
    let (_silent, url) = listener().await;
    let timeout = Duration::from_millis(50);
    assert!(matches!(send_error(&url, CallLimits { timeout, ..LIMITS }).await, Error::TimedOut(_)));
    let url = start_server(OK).await;
    assert!(matches!(send_error(&url, CallLimits { bytes_max: 1, ..LIMITS }).await, Error::TooLarge(1)));
}

// Fails under: a request that may have been received reported as unsent, or vice versa.
#[tokio::test]
async fn an_error_states_whether_the_request_may_have_been_received() {
    let (listener, url) = listener().await;
    drop(listener);
    let refused = send_error(&url, LIMITS).await;
    assert!(matches!(refused, Error::Connect(ConnectError::Refused)), "{refused:?}");
    let lost = send_error(&start_server("").await, LIMITS).await;
    assert!(matches!(lost, Error::ConnectionLost(_)), "{lost:?}");
    let incomplete =
        send_error(&start_server("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}").await, LIMITS).await;
    assert!(matches!(incomplete, Error::Incomplete(_)), "{incomplete:?}");
}

// Fails under: a redirect that is followed, together with the token.
#[tokio::test]
async fn i18_redirects_are_not_followed() {
    let url =
        start_server("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
            .await;
    let response = Client::new(ClientOptions::default()).send(get(&url), LIMITS).await.expect("a response");
    assert_eq!(response.status(), 302);
}
