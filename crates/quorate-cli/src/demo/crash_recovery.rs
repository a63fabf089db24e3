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
    open: u64,
    results: usize,
    duplicates: usize,
    words: u64,
    records: u64,
    head: String,
}

pub(super) async fn run(data: Option<PathBuf>, documents: u32, json: bool) -> anyhow::Result<()> {
    let options = Options { data, documents, json };
    let temporary = tempfile::Builder::new().prefix("quorate-demo-").tempdir()?;
    let data = options.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    if data.exists() {
        let message = format!("{} already exists", data.display());
        return Err(CommandError::new(CONFLICT, message, "choose a new directory with --data").into());
    }
    let progress = |line: String| {
        if !options.json {
            note(line)
        }
    };
    progress(format!(
        "Quorate {}   demo crash-recovery   {} documents",
        env!("CARGO_PKG_VERSION"),
        options.documents
    ));
    progress("agents     ada and ben count words: local code, no LLM, no key, no network".into());
    progress(format!("data       {}\n", data.display()));

    let mut first = HubProcess::start(&data, options.documents)?;
    let sent = first.until("sent")?;
    progress(format!(" send      planner sent {} documents; each was on disk before its ack", sent["count"]));
    let crash = first.until("died")?;
    progress(format!(
        " crash     ada crashed while it processed document {}, without ack or nack",
        crash["document"]
    ));
    let redelivered = first.until("back")?;
    progress(format!(
        " return    ada was restarted and got document {} again: attempt {}",
        redelivered["document"], redelivered["attempt"]
    ));
    let done = first.until_done(options.documents / 2)?;
    first.kill()?;
    progress(format!(" kill -9   the hub was killed after {done} of {} results", options.documents));

    let mut second = HubProcess::start(&data, options.documents)?;
    let ready = second.ready.clone();
    progress(format!(
        " restart   the hub was ready in {} ms; {} documents were still open",
        ready["ms"], ready["open"]
    ));
    let resent = second.until("sent")?;
    progress(format!(
        " resend    planner sent all {} again, with the same ids: {} new messages",
        resent["count"], resent["new"]
    ));
    second.until("finished")?;
    second.wait()?;

    let results = check(&data, &ready).await?;
    conclude(&options, &data, &results)
}

/// Reads the results from disk and verifies the log.
async fn check(data: &Path, ready: &Value) -> anyhow::Result<Results> {
    let hub = Hub::open(data).await?;
    let (mut results, mut duplicates, mut words, mut after) = (0, 0, 0, None::<String>);
    loop {
        let page = hub.memory().list("words/", after.as_deref(), 500).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.to_string());
        for entry in &page {
            results += 1;
            duplicates += usize::from(entry.version.0 != 1);
            words += entry.content::<u64>()?;
        }
    }
    hub.close().await;
    let report = quorate_sqlite::verify(data, None)?;
    if let Some(defect) = report.first_defect {
        bail!(
            "the log does not verify: {} at record {} of space {}",
            defect.damage,
            defect.seq,
            defect.space
        );
    }
    let space = report.spaces.first().context("the demo has a space")?;
    Ok(Results {
        ready_ms: ready["ms"].as_u64().unwrap_or(0),
        open: ready["open"].as_u64().unwrap_or(0),
        results,
        duplicates,
        words,
        records: space.records,
        head: quorate_core::hex::encode(&space.head_hash[..4]),
    })
}

fn conclude(options: &Options, data: &Path, results: &Results) -> anyhow::Result<()> {
    let expected: u64 =
        (1..=options.documents).map(|number| documents::count_words(&documents::text(number))).sum();
    let ok =
        results.results == options.documents as usize && results.duplicates == 0 && results.words == expected;
    if options.json {
        print(
            json!({
                "ok": ok,
                "documents": options.documents,
                "results": results.results,
                "doneTwice": results.duplicates,
                "words": results.words,
                "expectedWords": expected,
                "openAfterKill": results.open,
                "readyMs": results.ready_ms,
                "records": results.records,
                "head": results.head,
            })
            .to_string(),
        );
    } else {
        note(format!(
            " finish    {} of {} results, {} done twice",
            results.results, options.documents, results.duplicates
        ));
        note(format!(" sum       {} words; expected: {expected}", results.words));
        note(format!(" verify    ✓ {} records, hash chain intact, head {}", results.records, results.head));
        note("");
        if options.data.is_some() {
            note(format!(" next      quorate verify --data {}", data.display()));
            note(format!("           quorate audit export --data {}", data.display()));
        } else {
            note(" next      quorate demo crash-recovery --data my-demo   keep the data");
        }
        note("           quorate bench --quick                        benchmark this machine");
    }
    ensure!(ok, "the demo did not produce the expected results");
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
            let received: Value = serde_json::from_str(&line?)?;
            self.done += u32::from(received["event"] == "done");
            if received["event"] == event {
                return Ok(received);
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

    fn wait(mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the hub exited with {status}");
        Ok(())
    }
}
