//! One run of a program: question on stdin, bounded answer from stdout.

use std::process::{ExitStatus, Stdio};
use std::sync::PoisonError;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

use super::CommandAgent;
use super::process_group::ProcessGroup;
use crate::clock::Instant;
use crate::limits;
use crate::question::{AgentFailure, FailureKind, PartialSink, quote};

impl CommandAgent {
    /// Runs the program once.
    pub(super) async fn run(
        &self,
        question: &Value,
        deadline: Instant,
        on_partial: PartialSink<'_>,
    ) -> Result<String, AgentFailure> {
        self.find_executable()?;
        let mut group = self.spawn()?;
        let child = group.child();
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(self.exec_failure("has no stdin or stdout".into()));
        };
        let mut output = ProgramOutput::default();
        let write = write_question(stdin, format!("{question}\n").into_bytes());
        let read_output = output.read(stdout, stderr, on_partial);
        let exit = async {
            let status = group.child().wait().await;
            // Descendants that are still running would keep stdout open forever.
            group.kill_remaining();
            status
        };
        let exchange = async {
            tokio::pin!(write, read_output, exit);
            let mut writing = true;
            loop {
                tokio::select! {
                    () = &mut write, if writing => writing = false,
                    result = &mut read_output => {
                        result?;
                        return Ok(exit.await);
                    }
                    status = &mut exit => {
                        // A process outside the group may still hold the pipe: drain its output, then stop.
                        if let Ok(result) = tokio::time::timeout(limits::DRAIN_TIMEOUT, &mut read_output).await {
                            result?;
                        }
                        return Ok(status);
                    }
                }
            }
        };
        let outcome: Result<_, OutputTooLong> = match tokio::time::timeout_at(deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(self.timed_out(&output)),
        };
        match outcome {
            Err(OutputTooLong) => Err(self.output_too_long()),
            Ok(Err(error)) => Err(self.exec_failure(format!("cannot wait for its exit: {error}"))),
            Ok(Ok(status)) if status.success() => Ok(String::from_utf8_lossy(&output.answer).into_owned()),
            Ok(Ok(status)) => Err(self.exited(status, &output)),
        }
    }

    fn spawn(&self) -> Result<ProcessGroup, AgentFailure> {
        let hub_variables = self.hub_variables.read().unwrap_or_else(PoisonError::into_inner).clone();
        Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.variables.iter().chain(&hub_variables).map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(ProcessGroup::new)
            .map_err(|error| self.exec_failure(format!("cannot be started: {error}")))
    }

    fn exec_failure(&self, message: String) -> AgentFailure {
        AgentFailure::new(FailureKind::Exited, self.label(), message)
            .hint("run the command manually to see the error")
    }

    fn output_too_long(&self) -> AgentFailure {
        let message = format!("wrote more than {} bytes to stdout and was stopped", limits::ANSWER_BYTES_MAX);
        AgentFailure::new(FailureKind::TooLong, self.label(), message)
            .hint("return a shorter answer, or write the rest to a file")
    }

    fn timed_out(&self, output: &ProgramOutput) -> AgentFailure {
        let message = format!("did not answer in time and was stopped{}", output.stderr_suffix());
        AgentFailure::new(FailureKind::TimedOut, self.label(), message)
            .hint("increase the timeout, or find out what it waits for")
    }

    fn exited(&self, status: ExitStatus, output: &ProgramOutput) -> AgentFailure {
        use std::os::unix::process::ExitStatusExt as _;
        let description = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "exited with an error".to_owned(),
        };
        AgentFailure::new(
            FailureKind::Exited,
            self.label(),
            format!("{description}{}", output.stderr_suffix()),
        )
        .hint("run the command manually with `{}` on stdin to see the error")
    }
}

/// Size of one read of the output.
const READ_BUFFER_BYTES: usize = 8 << 10;

/// The answer exceeds the size limit.
struct OutputTooLong;

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
        on_partial: PartialSink<'_>,
    ) -> Result<(), OutputTooLong> {
        let answer = read_stdout(stdout, &mut self.answer, on_partial);
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

/// Reads the answer. Lines with partial results are removed from it.
async fn read_stdout(
    mut stdout: impl AsyncRead + Unpin,
    answer: &mut Vec<u8>,
    on_partial: PartialSink<'_>,
) -> Result<(), OutputTooLong> {
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    let mut line_start = 0;
    // A broken pipe counts as the end.
    while let Ok(read @ 1..) = stdout.read(&mut buffer).await {
        for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            answer.extend_from_slice(part);
            if part.ends_with(b"\n") {
                line_start = remove_partial(answer, line_start, on_partial);
            }
        }
        if answer.len() > limits::ANSWER_BYTES_MAX {
            return Err(OutputTooLong);
        }
    }
    remove_partial(answer, line_start, on_partial);
    Ok(())
}

/// Removes the last line if it is a partial result. Returns the start of the next line.
fn remove_partial(answer: &mut Vec<u8>, line_start: usize, on_partial: PartialSink<'_>) -> usize {
    if let Some(partial) = parse_partial(&answer[line_start..]) {
        answer.truncate(line_start);
        on_partial(partial);
    }
    answer.len()
}

/// Parses a line `{"partial": …}` without other fields.
fn parse_partial(line: &[u8]) -> Option<Value> {
    let line = line.trim_ascii();
    if !line.starts_with(b"{") || !line.ends_with(b"}") {
        return None;
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else { return None };
    if fields.len() == 1 { fields.remove("partial") } else { None }
}

async fn read_stderr(mut stderr: impl AsyncRead + Unpin, tail: &mut Vec<u8>) {
    let mut buffer = vec![0; limits::STDERR_TAIL_BYTES];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(limits::STDERR_TAIL_BYTES));
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
    let start = chars.len().saturating_sub(limits::QUOTED_CHARS_MAX);
    let ellipsis = if start > 0 { "… " } else { "" };
    format!("{ellipsis}{}", quote(&chars[start..].iter().collect::<String>()))
}
