//! `cargo xtask peers`: compares the request/reply throughput with NATS on the same machine. Absolute numbers depend on
//! the machine; the ratio is what matters. NATS handles requests in memory, like workload W3. The NATS client here uses
//! plain sockets and threads, so that client overhead is minimal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Payload size of a request and of its reply.
const BYTES: usize = 256;
/// Timeout for the start of the NATS server.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Measures NATS, then runs workload W3.
pub(crate) fn run(root: &Path) -> Result<()> {
    let Ok(broker) = Nats::start() else {
        bail!("nats-server is not installed (Debian and Ubuntu: `sudo apt-get install nats-server`)");
    };
    let sequential = broker.measure(1, 1, 20_000)?;
    let concurrent = broker.measure(4, 16, 400_000)?;
    drop(broker);
    println!("NATS: {sequential:.0} requests/s with 1 caller, {concurrent:.0} requests/s with 64 callers");
    println!("Quorate (compare with the lines of W3 over WebSocket):");
    super::bench::run(root, &["W3".to_owned()])
}

/// NATS server, stopped on drop.
struct Nats {
    child: Child,
    port: u16,
}

impl Nats {
    fn start() -> Result<Self> {
        // Race: if another process takes the port in between, the start fails with an error.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("nats-server")
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let broker = Self { child, port };
        let start_time = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(start_time.elapsed() < START_TIMEOUT, "nats-server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// Returns requests per second, with `pairs` pairs of connections and `concurrency` concurrent requests per pair.
    fn measure(&self, pairs: usize, concurrency: usize, count: usize) -> Result<f64> {
        let requests_per_pair = count / pairs;
        let (ready, ready_signals) = channel();
        let mut requesters = Vec::new();
        for pair in 0..pairs {
            let mut responder = NatsConnection::connect(self.port)?;
            responder.send(&format!("SUB ask.{pair} 1\r\n"))?;
            let mut inbox = NatsConnection::connect(self.port)?;
            inbox.send(&format!("SUB inbox.{pair} 1\r\n"))?;
            let reply = format!("PUB inbox.{pair} {BYTES}\r\n");
            // The thread ends when the server stops.
            std::thread::spawn(
                move || while responder.receive().and_then(|()| responder.publish(&reply)).is_ok() {},
            );
            let ready = ready.clone();
            requesters.push(std::thread::spawn(move || -> Result<()> {
                let request = format!("PUB ask.{pair} inbox.{pair} {BYTES}\r\n");
                ready.send(())?;
                for _ in 0..concurrency {
                    inbox.publish(&request)?;
                }
                for received in 0..requests_per_pair {
                    inbox.receive()?;
                    if received + concurrency < requests_per_pair {
                        inbox.publish(&request)?;
                    }
                }
                Ok(())
            }));
        }
        (0..pairs).try_for_each(|_| ready_signals.recv())?;
        let start_time = Instant::now();
        for requester in requesters {
            requester.join().map_err(|_| anyhow::anyhow!("a requester thread panicked"))??;
        }
        Ok(count as f64 / start_time.elapsed().as_secs_f64())
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connection that speaks the NATS protocol.
struct NatsConnection {
    read: BufReader<TcpStream>,
    write: TcpStream,
    text: String,
    payload: Vec<u8>,
}

impl NatsConnection {
    fn connect(port: u16) -> Result<Self> {
        let write = TcpStream::connect(("127.0.0.1", port))?;
        write.set_nodelay(true)?;
        let read = BufReader::new(write.try_clone()?);
        let mut connection = Self { read, write, text: String::new(), payload: vec![b'x'; BYTES + 2] };
        connection.send("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")?;
        Ok(connection)
    }

    /// Sends a protocol line and waits until the server has processed it.
    fn send(&mut self, command: &str) -> Result<()> {
        self.write.write_all(format!("{command}PING\r\n").as_bytes())?;
        while self.line()? != "PONG" {}
        Ok(())
    }

    fn publish(&mut self, head: &str) -> Result<()> {
        let end = self.payload.len() - 2;
        self.payload[end..].copy_from_slice(b"\r\n");
        self.write.write_all(&[head.as_bytes(), &self.payload].concat())?;
        Ok(())
    }

    /// Receives the next message.
    fn receive(&mut self) -> Result<()> {
        while !self.line()?.starts_with("MSG") {}
        self.read.read_exact(&mut self.payload)?;
        Ok(())
    }

    fn line(&mut self) -> Result<&str> {
        self.text.clear();
        let bytes_read = self.read.read_line(&mut self.text)?;
        ensure!(bytes_read > 0, "nats-server closed the connection");
        let line = self.text.trim_end();
        if line == "PING" {
            self.write.write_all(b"PONG\r\n").context("nats-server closed the connection")?;
        }
        Ok(line)
    }
}
