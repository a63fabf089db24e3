//! One run of a program: question in, bounded answer out.

use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};

use super::Program;
use super::group::Group;
use crate::clock::Instant;
use crate::limits;
use crate::question::{Failure, Kind, quote};

impl Program {
    /// Runs it once.
    pub(super) async fn run(&self, question: &Value, until: Instant) -> Result<String, Failure> {
        self.find()?;
        let mut group = self.start()?;
        let child = group.child();
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
            return Err(self.broken("has no stdin or stdout".into()));
        };
        let mut said = Said::default();
        let told = tell(stdin, format!("{question}\n").into_bytes());
        let heard = said.hear(stdout, stderr);
        let ended = async {
            let status = group.child().wait().await;
            // Whoever it started and left behind would hold its stdout open for ever.
            group.sweep();
            status
        };
        let conversation = async {
            tokio::pin!(told, heard, ended);
            let mut talking = true;
            loop {
                tokio::select! {
                    () = &mut told, if talking => talking = false,
                    too_much = &mut heard => {
                        too_much?;
                        return Ok(ended.await);
                    }
                    status = &mut ended => {
                        // A stranger may still hold the pipe: what was written comes at once or never.
                        if let Ok(too_much) = tokio::time::timeout(limits::AFTER_EXIT, &mut heard).await {
                            too_much?;
                        }
                        return Ok(status);
                    }
                }
            }
        };
        let outcome: Result<_, TooMuch> = match tokio::time::timeout_at(until, conversation).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(self.late(&said)),
        };
        match outcome {
            Err(TooMuch) => Err(self.too_much()),
            Ok(Err(error)) => Err(self.broken(format!("its end cannot be seen: {error}"))),
            Ok(Ok(status)) if status.success() => Ok(String::from_utf8_lossy(&said.answer).into_owned()),
            Ok(Ok(status)) => Err(self.exited(status, &said)),
        }
    }

    fn start(&self) -> Result<Group, Failure> {
        Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(Group::of)
            .map_err(|error| self.broken(format!("cannot be started: {error}")))
    }

    fn broken(&self, what: String) -> Failure {
        Failure::new(Kind::Exited, self.place(), what).hint("run the command by hand and see")
    }

    fn too_much(&self) -> Failure {
        let what = format!("wrote more than {} bytes to stdout and was stopped", limits::ANSWER_BYTES_MAX);
        Failure::new(Kind::TooLong, self.place(), what).hint("answer more briefly; write the rest to a file")
    }

    fn late(&self, said: &Said) -> Failure {
        let what = format!("did not answer in time and was stopped{}", said.complaint());
        Failure::new(Kind::TimedOut, self.place(), what)
            .hint("give it more time, or look at what it waits for")
    }

    fn exited(&self, status: ExitStatus, said: &Said) -> Failure {
        use std::os::unix::process::ExitStatusExt as _;
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended with a failure".to_owned(),
        };
        Failure::new(Kind::Exited, self.place(), format!("{how}{}", said.complaint()))
            .hint("run the command by hand with `{}` on stdin and see")
    }
}

/// More than is read.
struct TooMuch;

/// What a program wrote.
#[derive(Default)]
struct Said {
    answer: Vec<u8>,
    /// The end of what it wrote to stderr.
    complaint: Vec<u8>,
}

impl Said {
    /// Reads both pipes to their ends.
    async fn hear(
        &mut self,
        stdout: impl AsyncRead + Unpin,
        stderr: impl AsyncRead + Unpin,
    ) -> Result<(), TooMuch> {
        let answer = hear_answer(stdout, &mut self.answer);
        let complaint = hear_complaint(stderr, &mut self.complaint);
        tokio::pin!(answer, complaint);
        tokio::select! {
            heard = &mut answer => {
                heard?;
                complaint.await;
            }
            () = &mut complaint => answer.await?,
        }
        Ok(())
    }

    /// What it wrote to stderr, as the end of a sentence.
    fn complaint(&self) -> String {
        match quote_end(&String::from_utf8_lossy(&self.complaint)) {
            empty if empty.is_empty() => String::new(),
            said => format!("; stderr: {said}"),
        }
    }
}

async fn hear_answer(stdout: impl AsyncRead + Unpin, answer: &mut Vec<u8>) -> Result<(), TooMuch> {
    let mut bounded = stdout.take(limits::ANSWER_BYTES_MAX as u64 + 1);
    // A pipe that breaks is one that ends.
    let _ = bounded.read_to_end(answer).await;
    if answer.len() > limits::ANSWER_BYTES_MAX { Err(TooMuch) } else { Ok(()) }
}

async fn hear_complaint(mut stderr: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut piece = vec![0; limits::STDERR_BYTES_KEPT];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        kept.drain(..kept.len().saturating_sub(limits::STDERR_BYTES_KEPT));
    }
}

/// Writes the question; a program that does not care to read it may still answer.
async fn tell(mut stdin: ChildStdin, question: Vec<u8>) {
    let _ = stdin.write_all(&question).await;
    let _ = stdin.shutdown().await;
}

/// The last lines, short: tracebacks say what is wrong at their end.
fn quote_end(text: &str) -> String {
    let chars: Vec<char> = text.trim().chars().collect();
    let from = chars.len().saturating_sub(limits::QUOTED_CHARS_MAX);
    let cut = if from > 0 { "… " } else { "" };
    format!("{cut}{}", quote(&chars[from..].iter().collect::<String>()))
}
