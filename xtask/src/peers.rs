//! `cargo xtask peers`: a broker that users would pick instead, in the same minute on the same machine. Absolute figures move
//! from machine to machine; the ratio is what counts. NATS asks and answers in memory, as W3 does; its client here is bare
//! sockets and threads, so that it is measured at its best.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Bytes of a question and of its answer.
const BYTES: usize = 256;
/// How long a broker may take to start.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// Runs W3 over WebSocket and the same over NATS, one after the other.
pub(crate) fn run(root: &Path) -> Result<()> {
    let Ok(broker) = Nats::start() else {
        bail!("there is no nats-server here; on Debian: apt install nats-server");
    };
    let one = broker.asks(1, 1, 20_000)?;
    let many = broker.asks(4, 16, 400_000)?;
    drop(broker);
    println!("NATS, one caller: {one:.0}/s; 64 callers: {many:.0}/s");
    println!("Quorate, in the same minute (the lines of W3 over WebSocket):");
    super::bench::run(root, &["W3".to_owned()])
}

/// A broker of our own, ended with the value.
struct Nats {
    child: Child,
    port: u16,
}

impl Nats {
    fn start() -> Result<Self> {
        // Free a moment ago; whoever takes it in between makes the start fail, and that is said.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("nats-server")
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let broker = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(begun.elapsed() < READY_WITHIN, "nats-server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// Questions and answers a second: so many pairs of connections, with so many questions of each on their way.
    fn asks(&self, pairs: usize, at_once: usize, count: usize) -> Result<f64> {
        let share = count / pairs;
        let (ready, readies) = channel();
        let mut askers = Vec::new();
        for pair in 0..pairs {
            let mut answers = Line::connect(self.port)?;
            answers.say(&format!("SUB ask.{pair} 1\r\n"))?;
            let mut asks = Line::connect(self.port)?;
            asks.say(&format!("SUB inbox.{pair} 1\r\n"))?;
            let reply = format!("PUB inbox.{pair} {BYTES}\r\n");
            // Ends when the broker does.
            std::thread::spawn(move || while answers.hear().and_then(|()| answers.publish(&reply)).is_ok() {});
            let ready = ready.clone();
            askers.push(std::thread::spawn(move || -> Result<()> {
                let question = format!("PUB ask.{pair} inbox.{pair} {BYTES}\r\n");
                ready.send(())?;
                for _ in 0..at_once {
                    asks.publish(&question)?;
                }
                for heard in 0..share {
                    asks.hear()?;
                    if heard + at_once < share {
                        asks.publish(&question)?;
                    }
                }
                Ok(())
            }));
        }
        (0..pairs).try_for_each(|_| readies.recv())?;
        let begun = Instant::now();
        for asker in askers {
            asker.join().map_err(|_| anyhow::anyhow!("an asker panicked"))??;
        }
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection, in the broker's own words.
struct Line {
    read: BufReader<TcpStream>,
    write: TcpStream,
    text: String,
    payload: Vec<u8>,
}

impl Line {
    fn connect(port: u16) -> Result<Self> {
        let write = TcpStream::connect(("127.0.0.1", port))?;
        write.set_nodelay(true)?;
        let read = BufReader::new(write.try_clone()?);
        let mut line = Self { read, write, text: String::new(), payload: vec![b'x'; BYTES + 2] };
        line.say("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")?;
        Ok(line)
    }

    /// Says something, and waits until it was heard.
    fn say(&mut self, words: &str) -> Result<()> {
        self.write.write_all(format!("{words}PING\r\n").as_bytes())?;
        while self.line()? != "PONG" {}
        Ok(())
    }

    fn publish(&mut self, head: &str) -> Result<()> {
        let end = self.payload.len() - 2;
        self.payload[end..].copy_from_slice(b"\r\n");
        self.write.write_all(&[head.as_bytes(), &self.payload].concat())?;
        Ok(())
    }

    /// The next message.
    fn hear(&mut self) -> Result<()> {
        while !self.line()?.starts_with("MSG") {}
        self.read.read_exact(&mut self.payload)?;
        Ok(())
    }

    fn line(&mut self) -> Result<&str> {
        self.text.clear();
        let read = self.read.read_line(&mut self.text)?;
        ensure!(read > 0, "the broker has gone");
        let line = self.text.trim_end();
        if line == "PING" {
            self.write.write_all(b"PONG\r\n").context("the broker has gone")?;
        }
        Ok(line)
    }
}
