//! `quorate demo crash-recovery`: two agents process a queue, one crashes in the middle, and the hub is killed with SIGKILL and
//! restarted. Afterwards the log is verified: no document is lost and none has two results.

mod documents;
mod hub;

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use quorate::Hub;
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::exit::{CONFLICT, CommandError};
use crate::terminal::{note, print};

pub(crate) use hub::{DemoHubArgs, run as run_hub};

/// Options of the scenario.
struct Options {
    /// New data directory that is kept afterwards; a temporary one if omitted.
    data: Option<PathBuf>,
    documents: u32,
    json: bool,
}

/// Results of the scenario.
struct Results {
    ready_ms: u64,
    left: u64,
    results: usize,
    twice: usize,
    words: u64,
    records: u64,
    head: String,
}

pub(super) async fn run(data: Option<PathBuf>, documents: u32, json: bool) -> anyhow::Result<()> {
    let args = Options { data, documents, json };
    let temporary = tempfile::Builder::new().prefix("quorate-demo-").tempdir()?;
    let data = args.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    if data.exists() {
        let message = format!("{} already exists", data.display());
        return Err(CommandError::new(CONFLICT, message, "choose a new directory with --data").into());
    }
    let progress = |line: String| {
        if !args.json {
            note(line)
        }
    };
    progress(format!(
        "Quorate {}   demo crash-recovery   {} documents",
        env!("CARGO_PKG_VERSION"),
        args.documents
    ));
    progress("agents     ada and ben count words: local code, no LLM, no key, no network".into());
    progress(format!("data       {}\n", data.display()));

    let mut first = HubProcess::start(&data, args.documents)?;
    let sent = first.until("sent")?;
    progress(format!(" send      planner sent {} documents; each was on disk before its ack", sent["count"]));
    let died = first.until("died")?;
    progress(format!(
        " crash     ada crashed while it processed document {}, without ack or nack",
        died["document"]
    ));
    let back = first.until("back")?;
    progress(format!(
        " return    ada was restarted and got document {} again: attempt {}",
        back["document"], back["attempt"]
    ));
    let done = first.until_done(args.documents / 2)?;
    first.kill()?;
    progress(format!(" kill -9   the hub was killed after {done} of {} results", args.documents));

    let mut second = HubProcess::start(&data, args.documents)?;
    let ready = second.ready.clone();
    progress(format!(
        " restart   the hub was ready in {} ms; {} documents were still open",
        ready["ms"], ready["open"]
    ));
    let again = second.until("sent")?;
    progress(format!(
        " resend    planner sent all {} again, with the same ids: {} new messages",
        again["count"], again["new"]
    ));
    second.until("finished")?;
    second.end()?;

    let found = check(&data, &ready).await?;
    conclude(&args, &data, &found)
}

/// Reads the results from disk and verifies the log.
async fn check(data: &Path, ready: &Value) -> anyhow::Result<Results> {
    let hub = Hub::open(data).await?;
    let (mut results, mut twice, mut words, mut after) = (0, 0, 0, None::<String>);
    loop {
        let page = hub.memory().list("words/", after.as_deref(), 500).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.to_string());
        for entry in &page {
            results += 1;
            twice += usize::from(entry.version.0 != 1);
            words += entry.content::<u64>()?;
        }
    }
    hub.close().await;
    let report = quorate_sqlite::verify(data, None)?;
    if let Some(bad) = report.first_defect {
        bail!("the log does not verify: {} at record {} of space {}", bad.damage, bad.seq, bad.space);
    }
    let space = report.spaces.first().context("the demo has a space")?;
    Ok(Results {
        ready_ms: ready["ms"].as_u64().unwrap_or(0),
        left: ready["open"].as_u64().unwrap_or(0),
        results,
        twice,
        words,
        records: space.records,
        head: quorate_core::hex::encode(&space.head_hash[..4]),
    })
}

fn conclude(args: &Options, data: &Path, found: &Results) -> anyhow::Result<()> {
    let expected: u64 =
        (1..=args.documents).map(|number| documents::count_words(&documents::text(number))).sum();
    let good = found.results == args.documents as usize && found.twice == 0 && found.words == expected;
    if args.json {
        print(
            json!({
                "ok": good,
                "documents": args.documents,
                "results": found.results,
                "doneTwice": found.twice,
                "words": found.words,
                "expectedWords": expected,
                "openAfterKill": found.left,
                "readyMs": found.ready_ms,
                "records": found.records,
                "head": found.head,
            })
            .to_string(),
        );
    } else {
        note(format!(
            " finish    {} of {} results, {} done twice",
            found.results, args.documents, found.twice
        ));
        note(format!(" sum       {} words; expected: {expected}", found.words));
        note(format!(" verify    ✓ {} records, hash chain intact, head {}", found.records, found.head));
        note("");
        if args.data.is_some() {
            note(format!(" next      quorate verify --data {}", data.display()));
            note(format!("           quorate audit export --data {}", data.display()));
        } else {
            note(" next      quorate demo crash-recovery --data my-demo   keep the data");
        }
        note("           quorate bench --quick                        benchmark this machine");
    }
    ensure!(good, "the demo did not produce the expected results");
    Ok(())
}

/// A hub in a child process, which reports events as JSON lines.
struct HubProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    ready: Value,
    done: u32,
}

impl HubProcess {
    fn start(data: &Path, documents: u32) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("demo-hub")
            .arg(data)
            .args(["--documents", &documents.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start a hub")?;
        let lines = BufReader::new(child.stdout.take().context("the hub has a stdout")?).lines();
        let mut hub = Self { child, lines, ready: Value::Null, done: 0 };
        hub.ready = hub.until("ready")?;
        Ok(hub)
    }

    /// Reads events until this one.
    fn until(&mut self, event: &str) -> anyhow::Result<Value> {
        let clock = SystemClock::new();
        for line in self.lines.by_ref() {
            let found: Value = serde_json::from_str(&line?)?;
            self.done += u32::from(found["event"] == "done");
            if found["event"] == event {
                return Ok(found);
            }
            ensure!(
                clock.now().mono.0 < 60_000,
                "the hub is running, but there was no event {event:?} within 60 s"
            );
        }
        bail!("the hub exited before the event {event:?}")
    }

    fn until_done(&mut self, count: u32) -> anyhow::Result<u32> {
        while self.done < count {
            self.until("done")?;
        }
        Ok(self.done)
    }

    /// Sends SIGKILL, so that the hub cannot clean up.
    fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the hub exited with {status}");
        Ok(())
    }
}
