//! `quorate demo killed`: two agents work through a queue, one dies in the middle, the hub is killed with -9 and started again.
//! Nothing is lost, nothing is done twice, and the log proves it.

mod documents;
mod hub;

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use quorate::Hub;
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::exit::{CONFLICT, Ended};
use crate::text::{print, say};

pub(crate) use hub::{HubArgs, run as run_hub};

/// What was asked for.
struct Asked {
    /// A new directory for the data, which is kept; a temporary one if not given.
    data: Option<PathBuf>,
    documents: u32,
    json: bool,
}

/// What the demo found, for the JSON document and the last lines.
struct Found {
    ready_ms: u64,
    left: u64,
    results: usize,
    twice: usize,
    words: u64,
    records: u64,
    head: String,
}

pub(super) async fn run(data: Option<PathBuf>, documents: u32, json: bool) -> anyhow::Result<()> {
    let args = Asked { data, documents, json };
    let temporary = tempfile::Builder::new().prefix("quorate-demo-").tempdir()?;
    let data = args.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    if data.exists() {
        let message = format!("{} is there already", data.display());
        return Err(Ended::new(CONFLICT, message, "give a new directory with --data").into());
    }
    let tell = |line: String| {
        if !args.json {
            say(line)
        }
    };
    tell(format!("Quorate {}   demo killed   {} documents", env!("CARGO_PKG_VERSION"), args.documents));
    tell("agents     ada and ben count words: local code, no LLM, no key, no network".into());
    tell(format!("data       {}\n", data.display()));

    let mut first = Story::start(&data, args.documents)?;
    let sent = first.until("sent")?;
    tell(format!(
        " send      planner sent {} documents; each was on disk before it was acknowledged",
        sent["count"]
    ));
    let died = first.until("died")?;
    tell(format!(
        " death     ada died in the middle of document {}, without a word to anybody",
        died["document"]
    ));
    let back = first.until("back")?;
    tell(format!(
        " return    ada was started again and got document {} back at once: attempt {}",
        back["document"], back["attempt"]
    ));
    let done = first.until_done(args.documents / 2)?;
    first.kill()?;
    tell(format!(" kill -9   the hub was killed after {done} of {} results", args.documents));

    let mut second = Story::start(&data, args.documents)?;
    let ready = second.ready.clone();
    tell(format!(
        " restart   ready again in {} ms; {} documents were still open",
        ready["ms"], ready["open"]
    ));
    let again = second.until("sent")?;
    tell(format!(
        " repeat    planner did not know what had arrived and sent all {} again: {} new messages",
        again["count"], again["new"]
    ));
    second.until("finished")?;
    second.end()?;

    let found = check(&data, &ready).await?;
    conclude(&args, &data, &found)
}

/// Looks at what is on disk, as anybody could.
async fn check(data: &Path, ready: &Value) -> anyhow::Result<Found> {
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
    if let Some(bad) = report.first_bad {
        bail!("the log does not verify: {} at record {} of space {}", bad.damage, bad.seq, bad.space);
    }
    let space = report.spaces.first().context("the demo has a space")?;
    Ok(Found {
        ready_ms: ready["ms"].as_u64().unwrap_or(0),
        left: ready["open"].as_u64().unwrap_or(0),
        results,
        twice,
        words,
        records: space.records,
        head: quorate_core::hex::encode(&space.head_hash[..4]),
    })
}

fn conclude(args: &Asked, data: &Path, found: &Found) -> anyhow::Result<()> {
    let expected: u64 = (1..=args.documents).map(|number| documents::count(&documents::text(number))).sum();
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
        say(format!(
            " finish    {} of {} results, {} done twice",
            found.results, args.documents, found.twice
        ));
        say(format!(" sum       {} words; counted apart from it all: {expected}", found.words));
        say(format!(" verify    ✓ {} records, the chain is whole, head {}", found.records, found.head));
        say("");
        if args.data.is_some() {
            say(format!(" next      quorate verify --data {}", data.display()));
            say(format!("           quorate audit export --data {}", data.display()));
        } else {
            say(" next      quorate demo killed --data my-demo   keeps the data, to look at it");
        }
        say("           quorate bench --quick         what this machine can do");
    }
    ensure!(good, "the demo did not end as it should");
    Ok(())
}

/// A hub in a process of its own, and what it tells.
struct Story {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    ready: Value,
    done: u32,
}

impl Story {
    fn start(data: &Path, documents: u32) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("demo-hub")
            .arg(data)
            .args(["--documents", &documents.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start a hub")?;
        let lines = BufReader::new(child.stdout.take().context("the hub has an output")?).lines();
        let mut story = Self { child, lines, ready: Value::Null, done: 0 };
        story.ready = story.until("ready")?;
        Ok(story)
    }

    /// Reads on until something happens.
    fn until(&mut self, event: &str) -> anyhow::Result<Value> {
        let clock = SystemClock::new();
        for line in self.lines.by_ref() {
            let found: Value = serde_json::from_str(&line?)?;
            self.done += u32::from(found["event"] == "done");
            if found["event"] == event {
                return Ok(found);
            }
            ensure!(clock.now().mono.0 < 60_000, "the hub works, but {event:?} did not happen within 60 s");
        }
        bail!("the hub ended before {event:?} happened")
    }

    fn until_done(&mut self, count: u32) -> anyhow::Result<u32> {
        while self.done < count {
            self.until("done")?;
        }
        Ok(self.done)
    }

    /// SIGKILL: no time to write anything down.
    fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the hub ended with {status}");
        Ok(())
    }
}
