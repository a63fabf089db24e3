//! One run of a program: question on stdin, bounded answer from stdout.

use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

use super::CommandAgent;
use super::process_group::ProcessGroup;
use crate::clock::Instant;
use crate::limits;
use crate::question::{AgentFailure, FailureKind, quote};

impl CommandAgent {
    /// Runs the program once.
    pub(super) async fn run(&self, question: &Value, until: Instant) -> Result<String, AgentFailure> {
        self.find_executable()?;
        let mut group = self.spawn()?;
        let child = group.child();
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
            return Err(self.broken("has no stdin or stdout".into()));
        };
        let mut output = ProgramOutput::default();
        let written = write_question(stdin, format!("{question}\n").into_bytes());
        let read = output.read(stdout, stderr);
        let ended = async {
            let status = group.child().wait().await;
            // Descendants that are still running would keep stdout open forever.
            group.kill_remaining();
            status
        };
        let conversation = async {
            tokio::pin!(written, read, ended);
            let mut writing = true;
            loop {
                tokio::select! {
                    () = &mut written, if writing => writing = false,
                    too_much = &mut read => {
                        too_much?;
                        return Ok(ended.await);
                    }
                    status = &mut ended => {
                        // A process outside the group may still hold the pipe: drain its output, then stop.
                        if let Ok(too_much) = tokio::time::timeout(limits::DRAIN_TIMEOUT, &mut read).await {
                            too_much?;
                        }
                        return Ok(status);
                    }
                }
            }
        };
        let outcome: Result<_, TooMuch> = match tokio::time::timeout_at(until, conversation).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(self.late(&output)),
        };
        match outcome {
            Err(TooMuch) => Err(self.too_much()),
            Ok(Err(error)) => Err(self.broken(format!("cannot wait for its exit: {error}"))),
            Ok(Ok(status)) if status.success() => Ok(String::from_utf8_lossy(&output.answer).into_owned()),
            Ok(Ok(status)) => Err(self.exited(status, &output)),
        }
    }

    fn spawn(&self) -> Result<ProcessGroup, AgentFailure> {
        Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(ProcessGroup::new)
            .map_err(|error| self.broken(format!("cannot be started: {error}")))
    }

    fn broken(&self, what: String) -> AgentFailure {
        AgentFailure::new(FailureKind::Exited, self.label(), what)
            .hint("run the command manually to see the error")
    }

    fn too_much(&self) -> AgentFailure {
        let what = format!("wrote more than {} bytes to stdout and was stopped", limits::ANSWER_BYTES_MAX);
        AgentFailure::new(FailureKind::TooLong, self.label(), what)
            .hint("return a shorter answer, or write the rest to a file")
    }

    fn late(&self, output: &ProgramOutput) -> AgentFailure {
        let what = format!("did not answer in time and was stopped{}", output.stderr_suffix());
        AgentFailure::new(FailureKind::TimedOut, self.label(), what)
            .hint("increase the timeout, or find out what it waits for")
    }

    fn exited(&self, status: ExitStatus, output: &ProgramOutput) -> AgentFailure {
        use std::os::unix::process::ExitStatusExt as _;
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "exited with an error".to_owned(),
        };
        AgentFailure::new(FailureKind::Exited, self.label(), format!("{how}{}", output.stderr_suffix()))
            .hint("run the command manually with `{}` on stdin to see the error")
    }
}

/// The answer exceeds the size limit.
struct TooMuch;

/// Output of a program.
#[derive(Default)]
struct ProgramOutput {
    answer: Vec<u8>,
    /// The end of stderr.
    stderr: Vec<u8>,
}

impl ProgramOutput {
    /// Reads both pipes to the end.
    async fn read(
        &mut self,
        stdout: impl AsyncRead + Unpin,
        stderr: impl AsyncRead + Unpin,
    ) -> Result<(), TooMuch> {
        let answer = read_stdout(stdout, &mut self.answer);
        let errors = read_stderr(stderr, &mut self.stderr);
        tokio::pin!(answer, errors);
        tokio::select! {
            result = &mut answer => {
                result?;
                errors.await;
            }
            () = &mut errors => answer.await?,
        }
        Ok(())
    }

    /// Renders stderr as the end of an error message.
    fn stderr_suffix(&self) -> String {
        match quote_end(&String::from_utf8_lossy(&self.stderr)) {
            empty if empty.is_empty() => String::new(),
            text => format!("; stderr: {text}"),
        }
    }
}

async fn read_stdout(stdout: impl AsyncRead + Unpin, answer: &mut Vec<u8>) -> Result<(), TooMuch> {
    let mut bounded = stdout.take(limits::ANSWER_BYTES_MAX as u64 + 1);
    // A broken pipe counts as the end.
    let _ = bounded.read_to_end(answer).await;
    if answer.len() > limits::ANSWER_BYTES_MAX { Err(TooMuch) } else { Ok(()) }
}

async fn read_stderr(mut stderr: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut piece = vec![0; limits::STDERR_TAIL_BYTES];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        kept.drain(..kept.len().saturating_sub(limits::STDERR_TAIL_BYTES));
    }
}

/// Writes the question. Errors are ignored: a program that does not read stdin may still answer.
async fn write_question(mut stdin: ChildStdin, question: Vec<u8>) {
    let _ = stdin.write_all(&question).await;
    let _ = stdin.shutdown().await;
}

/// Quotes the end of a text: tracebacks state the error in the last lines.
fn quote_end(text: &str) -> String {
    let chars: Vec<char> = text.trim().chars().collect();
    let from = chars.len().saturating_sub(limits::QUOTED_CHARS_MAX);
    let cut = if from > 0 { "… " } else { "" };
    format!("{cut}{}", quote(&chars[from..].iter().collect::<String>()))
}
