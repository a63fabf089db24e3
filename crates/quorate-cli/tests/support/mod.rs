//! A hub in a process of its own, and a plain connection to it, for tests that treat it as outsiders do.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A hub that runs, and ends with the test.
pub(crate) struct Hub {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) admin: String,
}

impl Hub {
    pub(crate) fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the hub starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON");
        let admin = fs::read_to_string(ready["adminTokenFile"].as_str().expect("a path")).expect("a token");
        let address = ready["http"].as_str().expect("an address").to_owned();
        Self { child, address, admin: admin.trim().to_owned() }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is kept. What cannot be sent or read is `None`: the hub is gone.
pub(crate) struct Http {
    stream: TcpStream,
    address: String,
    token: String,
}

impl Http {
    pub(crate) async fn connect(address: &str, token: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        Some(Self { stream, address: address.to_owned(), token: token.to_owned() })
    }

    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("Host: {}\r\nAuthorization: Bearer {}\r\n{key}", self.address, self.token);
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).await.ok()?;
        let mut read = Vec::new();
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.more(&mut read).await?;
        };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("content-length: "))?.trim().parse().ok()?;
        while read.len() < end + length {
            self.more(&mut read).await?;
        }
        Some((status, serde_json::from_slice(&read[end..]).unwrap_or(Value::Null)))
    }

    async fn more(&mut self, read: &mut Vec<u8>) -> Option<()> {
        let count = self.stream.read_buf(read).await.ok()?;
        (count > 0).then_some(())
    }
}
