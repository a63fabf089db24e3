//! A command in a child process whose lines are read as they are printed.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::fixture::Fixture;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running command, which is killed at the end of the test.
pub(super) struct WatchedProcess {
    child: Child,
    lines: Receiver<String>,
    /// All lines that were read, for failures.
    seen: Vec<String>,
}

impl WatchedProcess {
    /// Starts `quorate worker` with these arguments.
    pub(super) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.command("quorate");
        command.arg("worker").args(arguments);
        Self::spawn(command)
    }

    pub(super) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("a pipe")), Box::new(child.stderr.take().expect("a pipe"))];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                // The test may have ended.
                lines.for_each(|line| drop(sender.send(line)));
            });
        }
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line that contains a text. Lines before it are skipped.
    #[track_caller]
    pub(super) fn until(&mut self, expected: &str) -> String {
        let start = Instant::now();
        loop {
            let left = TIMEOUT.saturating_sub(start.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line contains {expected:?}:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if line.contains(expected) {
                return line;
            }
        }
    }

    /// Returns the lines that were printed so far.
    pub(super) fn output(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end, and returns the exit code.
    pub(super) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
