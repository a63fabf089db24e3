//! Test fixture: a temporary directory with a home, a shell and a hub.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Hub, run_script};

/// A temporary directory with a home, and a hub if one was started.
pub(crate) struct Fixture {
    root: TempDir,
    hub: Option<Hub>,
    pub(crate) address: String,
}

/// Exit code and output of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Fixture {
    /// Creates a fixture without a hub.
    pub(crate) fn empty() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["home", "work"] {
            fs::create_dir(root.path().join(name)).expect("made");
        }
        Self { root, hub: None, address: String::new() }
    }

    /// Creates a fixture with a hub on `quorate-data`.
    pub(crate) fn with_hub() -> Self {
        let mut fixture = Self::empty();
        fixture.start("127.0.0.1:0");
        fixture
    }

    pub(crate) fn start(&mut self, listen: &str) {
        self.start_with(&["--listen", listen], Stdio::null());
    }

    /// Starts a hub with these flags and this stderr.
    pub(crate) fn start_with(&mut self, flags: &[&str], stderr: impl Into<Stdio>) {
        let mut command = self.command("quorate");
        command.arg("serve").args(flags).stderr(stderr);
        let hub = Hub::spawn(command);
        self.address.clone_from(&hub.address);
        self.hub = Some(hub);
    }

    /// Stops the hub with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.hub = None;
    }

    /// Waits until the hub has ended because of a SIGKILL that the test did not send.
    pub(crate) fn wait_until_killed(&mut self) {
        let mut hub = self.hub.take().expect("a hub runs");
        assert_eq!(hub.child.wait().expect("it ends").code(), None, "it was killed");
    }

    /// Stops the hub with SIGTERM and waits for it.
    pub(crate) fn stop(&mut self) {
        self.hub.take().expect("a hub runs").stop();
    }

    /// Returns the working directory of commands.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.work().join("quorate-data")
    }

    /// Returns a command with a minimal environment.
    pub(crate) fn command(&self, program: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_quorate"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().expect("a directory").display());
        let mut command = if program == "quorate" { Command::new(binary) } else { Command::new(program) };
        command.env_clear().env("PATH", path).env("HOME", self.home()).current_dir(self.work());
        command
    }

    /// Runs a line in the shell.
    pub(crate) fn shell(&self, line: &str) -> CommandOutput {
        let output =
            self.command("bash").args(["-c", line]).stdin(Stdio::null()).output().expect("bash runs");
        command_output(&output)
    }

    /// Runs a script with a timeout; returns the exit code and both streams together.
    pub(crate) fn script(&self, script: &str) -> (Option<i32>, String) {
        run_script(self.command("bash").args(["-c", script]))
    }

    /// Runs a line in the shell on a terminal; both streams together.
    pub(crate) fn terminal(&self, line: &str) -> CommandOutput {
        let spawn = "import pty,sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        let output =
            self.command("python3").args(["-c", spawn, "bash", "-c", line]).stdin(Stdio::null()).output();
        command_output(&output.expect("python3 runs"))
    }

    /// Runs lines in the shell and returns a transcript, with values that differ between runs masked.
    pub(crate) fn transcript(&self, lines: &[&str]) -> String {
        let mut transcript = String::new();
        for line in lines {
            let CommandOutput { code, out, err } = self.shell(line);
            transcript.push_str(&format!("$ {line}\n{out}"));
            if !out.is_empty() && !out.ends_with('\n') {
                transcript.push_str(" (no end of line)\n");
            }
            err.lines().for_each(|line| transcript.push_str(&format!("2> {line}\n")));
            if code != Some(0) {
                transcript.push_str(&format!("[{}]\n", code.unwrap_or(-1)));
            }
        }
        self.masked(&transcript)
    }

    /// Masks values that differ between runs, keeping their width.
    pub(crate) fn masked(&self, text: &str) -> String {
        let text = text.replace(&self.work().display().to_string(), "WORK");
        let text = text.replace(&self.home().display().to_string(), "HOME");
        let text = if self.address.is_empty() { text } else { text.replace(&self.address, "HUB") };
        let text = mask(&text, "dddd-dd-dd dd:dd:dd", "2026-01-01 00:00:00");
        let text = mask(&text, "dddd-dd-ddTdd:dd:dd.ddd", "2026-01-01T00:00:00.000");
        let text = mask(&text, "dd:dd:dd", "00:00:00");
        let text = mask(&text, "d s ago", "N s ago");
        // The hub verifies its log in the background.
        let mut parts = text.split("verified up to record ");
        let first = parts.next().unwrap_or_default().to_owned();
        let text = parts.fold(first, |text, part| {
            let rest = part.trim_start_matches(|ch: char| ch.is_ascii_digit());
            format!("{text}verified up to record N{rest}")
        });
        let text = mask(&text, &format!("qrt_{}", "a".repeat(49)), "qrt_SECRET");
        let text = mask(&text, &format!("flg_{}", "x".repeat(28)), &format!("flg_{}", "0".repeat(28)));
        let text = mask(&text, &"x".repeat(64), "HASH");
        let text = mask(&text, &"x".repeat(32), "HASH");
        mask(&text, &format!("00-HASH-{}-01", "x".repeat(16)), "00-TRACE-SPAN-01")
    }

    /// Calls the hub directly over HTTP.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let hub = self.hub.as_ref().expect("a hub runs");
        let (status, response) = hub.text(&hub.admin, method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {response}");
        serde_json::from_str(&response).unwrap_or(Value::Null)
    }
}

pub(crate) fn command_output(output: &Output) -> CommandOutput {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    CommandOutput { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Replaces matches of a pattern: `d` is a digit, `a` a letter or digit, `x` a hexadecimal digit.
fn mask(text: &str, pattern: &str, replacement: &str) -> String {
    let matches = |found: char, wanted: char| match wanted {
        'd' => found.is_ascii_digit(),
        'a' => found.is_ascii_alphanumeric(),
        'x' => found.is_ascii_digit() || ('a'..='f').contains(&found),
        other => found == other,
    };
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = pattern.len();
        let candidate = rest
            .get(..length)
            .filter(|candidate| candidate.chars().zip(pattern.chars()).all(|(f, w)| matches(f, w)));
        let step = if candidate.is_some() { length } else { first.len_utf8() };
        if candidate.is_some() {
            masked.push_str(replacement)
        } else {
            masked.push(first)
        }
        rest = &rest[step..];
    }
    masked
}
