//! A hub in a child process, a plain HTTP client, and a runner for the commands of guides.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A guide takes seconds; a busy machine may be much slower.
const SCRIPT_MAX: Duration = Duration::from_secs(180);

/// Path of the binary.
pub(crate) const QUORATE: &str = env!("CARGO_BIN_EXE_quorate");

/// Opens the database of a data directory like a hub, so that a change has valid page checksums.
pub(crate) fn database(file: &Path) -> rusqlite::Connection {
    quorate_sqlite::Disk::new().open(file, rusqlite::OpenFlags::default()).expect("it opens")
}

/// A running hub that is killed at the end of the test.
pub(crate) struct Hub {
    pub(crate) child: Child,
    /// The ready line.
    pub(crate) ready: Value,
    pub(crate) address: String,
    pub(crate) admin: String,
}

impl Hub {
    /// Starts a hub on a free port.
    pub(crate) fn start(data: &Path) -> Self {
        let mut command = Command::new(QUORATE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).stderr(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a hub with this command and waits until it is ready.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn().expect("the hub starts");
        // From here on it is killed with the test, also if the test fails below.
        let mut hub = Self { child, ready: Value::Null, address: String::new(), admin: String::new() };
        let mut line = String::new();
        BufReader::new(hub.child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON");
        assert_eq!(ready["event"], "ready");
        let file = command
            .get_current_dir()
            .unwrap_or(Path::new(""))
            .join(ready["adminTokenFile"].as_str().expect("a path"));
        let admin = fs::read_to_string(file).expect("a token");
        let (_, address) = ready["url"].as_str().and_then(|url| url.split_once("://")).expect("an address");
        (hub.address, hub.admin) = (address.to_owned(), admin.trim().to_owned());
        hub.ready = ready;
        hub
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }

    /// Stops the hub with SIGTERM and waits for it.
    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Sends a request on a new connection.
    pub(crate) fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, response) = self.text(token, method, path, &body.to_string());
        (status, serde_json::from_str(&response).unwrap_or(Value::Null))
    }

    /// Same as `call`, with raw bodies.
    pub(crate) fn text(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = std::net::TcpStream::connect(&self.address).expect("a connection");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("it is sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("an answer");
        let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        (status, if is_chunked { join_chunks(body) } else { body.to_owned() })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Joins the chunks of a body.
fn join_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            break;
        }
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
    body
}

/// A persistent connection. Calls return `None` if the hub was killed.
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
        let mut buffer = Vec::new();
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more(&mut buffer).await?;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("content-length: "))?.trim().parse().ok()?;
        while buffer.len() < end + length {
            self.read_more(&mut buffer).await?;
        }
        Some((status, serde_json::from_slice(&buffer[end..]).unwrap_or(Value::Null)))
    }

    async fn read_more(&mut self, buffer: &mut Vec<u8>) -> Option<()> {
        let count = self.stream.read_buf(buffer).await.ok()?;
        (count > 0).then_some(())
    }
}

/// Runs the commands of a guide in order.
#[track_caller]
pub(crate) fn run_guide(guide: &str) {
    run_guide_with(guide, &[]);
}

/// Same as [`run_guide`], with replacements for addresses and programs that this machine does not have.
#[track_caller]
pub(crate) fn run_guide_with(guide: &str, replacements: &[(&str, &str)]) {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(guide);
    let guide = fs::read_to_string(guide).expect("the guide");
    let blocks = guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: String = blocks.collect();
    // A free port, since tests run in parallel.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut commands = commands.replace("127.0.0.1:7867", &address.to_string());
    for (documented, replacement) in replacements {
        assert!(commands.contains(documented), "{documented} is in the guide");
        commands = commands.replace(documented, replacement);
    }
    let cleanup = if commands.contains("quorate serve") { "kill %1\nwait %1" } else { "" };
    let script = format!("set -euo pipefail\n{commands}\n{cleanup}\necho all went well\n");
    let directory = tempfile::tempdir().expect("a directory");
    let binary = Path::new(QUORATE).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(&script).env("PATH", path).current_dir(&directory);
    let (code, output) = run_script(&mut shell);
    assert!(code == Some(0) && output.ends_with("all went well\n"), "exited with {code:?}:\n{output}");
}

/// Runs a script; returns its exit code and output. Background processes are killed at its end. After a timeout the script is
/// killed as well, and the code is `None`.
#[track_caller]
pub(crate) fn run_script(script: &mut Command) -> (Option<i32>, String) {
    use std::os::unix::process::CommandExt as _;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    let (mut read, write) = std::io::pipe().expect("a pipe");
    // In a separate process group, so that background processes can be killed with it.
    script.process_group(0).stdin(Stdio::null());
    script.stdout(write.try_clone().expect("a pipe")).stderr(write);
    let mut child = script.spawn().expect("it runs");
    // Only the script holds the pipe now, so that reading ends with the last writer.
    script.stdout(Stdio::null()).stderr(Stdio::null());
    let group = child.id();
    let kill_group = move || drop(Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).output());
    let (done_sender, receiver) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let is_late = receiver.recv_timeout(SCRIPT_MAX) == Err(RecvTimeoutError::Timeout);
        if is_late {
            kill_group();
        }
        is_late
    });
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let status = child.wait().expect("it ends");
    drop(done_sender);
    let is_late = watchdog.join().expect("it watches");
    kill_group();
    let mut output = reader.join().expect("it reads").expect("the output");
    if is_late {
        output.push_str(&format!("\nnot done within {SCRIPT_MAX:?}: the step after the last line hangs"));
    }
    (status.code().filter(|_| !is_late), output)
}
