//! The approval at the end of a playbook: a letter made of what was decided, which goes out when a person lets it.
//!
//! The agent `outbox` asks for it, and the decision reaches it as a delivery: it writes exactly the bytes that were
//! approved. If this process ends in between, the delivery waits for the next one.

use std::fs;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use quorate::deliberation::Outcome;
use quorate::{ActionDigest, ApprovalDraft, ApprovalId, ApprovalInfo, Failure, Hub, Running, Work};
use quorate_api::canonical::action_document;
use quorate_core::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use super::LOOK;
use super::progress::plain_line;
use crate::exit::{Ended, FAILED};
use crate::playbook::{Approval, is_file_name};
use crate::text::{clean_line, say};

/// The agent that sends what was approved.
const OUTBOX: &str = "outbox";
/// How long it may take to write a letter, one more try included.
const SENT_WITHIN: Duration = Duration::from_secs(10);

/// Who decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Approve {
    /// Whoever is at this terminal, or somebody elsewhere: who is first.
    Ask,
    /// Somebody elsewhere.
    Wait,
    /// Nobody now: it stays pending.
    Later,
    /// It is approved unseen.
    Auto,
}

/// What the outbox is told of a decision.
#[derive(Clone, Debug, Deserialize)]
struct Decided {
    approval: String,
    digest: String,
    /// What may happen; nothing unless somebody approved.
    action: Option<Action>,
}

#[derive(Clone, Debug, Deserialize)]
struct Action {
    payload: Letter,
}

#[derive(Clone, Debug, Deserialize)]
struct Letter {
    letter: String,
    write: String,
}

/// How an approval stands when the run is over.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settled {
    /// Its id.
    pub(crate) id: String,
    /// What is approved.
    pub(crate) action: String,
    /// pending, approved, modified, rejected or expired.
    pub(crate) state: String,
    /// The digest of what was asked for.
    pub(crate) digest: String,
    /// The digest of what was approved, if that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approved_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decided_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The file that the letter was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
}

/// An approval that was asked for.
pub(crate) struct Pending {
    id: ApprovalId,
    action: String,
    hours: u32,
    digest: ActionDigest,
    letter: String,
    outbox: Running,
}

impl Pending {
    /// Asks for approval, if the playbook wants it after this outcome. The same deliberation asks once.
    pub(crate) async fn ask(
        hub: &Hub,
        asked: &Approval,
        deliberation: &str,
        outcome: &Outcome,
        out: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let Some(payload) = asked.payload(outcome) else { return Ok(None) };
        let out = out.to_owned();
        let sends = move |work: Work<Value>| {
            let out = out.clone();
            async move { send(&work, &out) }
        };
        let outbox = hub.agent(OUTBOX).on("approval.decided", sends).run().await?;
        let confidence = outcome.synthesis.confidence.unwrap_or(0.0);
        let why = outcome.synthesis.summary.first().map_or("", |sentence| sentence.text.as_str());
        let draft = ApprovalDraft::new(&asked.action, &payload)
            .id(format!("{deliberation}-approval"))
            .because(format!("{deliberation}: {why}"), confidence)
            .within(Duration::from_secs(u64::from(asked.timeout_hours) * 3600), "nothing is sent");
        let id = outbox.agent().request_approval(draft).await?;
        let bytes = action_document(&asked.action, &serde_json::to_vec(&payload)?)?;
        Ok(Some(Self {
            id,
            action: asked.action.clone(),
            hours: asked.timeout_hours,
            digest: ActionDigest::of(&bytes),
            letter: payload["letter"].as_str().unwrap_or_default().to_owned(),
            outbox,
        }))
    }

    /// Waits for the decision, as far as somebody is to decide now, and for what follows from it. `elsewhere` are the
    /// flags with which other commands reach the hub, if they can.
    pub(crate) async fn settle(
        self,
        hub: &Hub,
        how: Approve,
        elsewhere: Option<&str>,
    ) -> anyhow::Result<Settled> {
        let mut settled = Settled {
            id: self.id.to_string(),
            action: self.action.clone(),
            state: "pending".into(),
            digest: self.digest.to_string(),
            approved_digest: None,
            decided_by: None,
            reason: None,
            file: None,
        };
        if let Some(decided) = self.decided(hub, how, elsewhere).await? {
            let approval = decided.approval();
            settled.state = approval.state.as_str().to_owned();
            settled.approved_digest = approval
                .approved_digest
                .filter(|other| *other != self.digest)
                .map(|digest| digest.to_string());
            settled.decided_by.clone_from(&approval.decided_by);
            settled.reason = approval.reason.clone().filter(|reason| !reason.is_empty());
            if approval.approved_digest.is_some() {
                settled.file = Some(self.sent(hub).await?);
            }
        }
        self.outbox.stop().await?;
        Ok(settled)
    }

    /// How it was decided; nothing if it stays pending.
    async fn decided(
        &self,
        hub: &Hub,
        how: Approve,
        elsewhere: Option<&str>,
    ) -> anyhow::Result<Option<ApprovalInfo>> {
        let now = hub.approval(self.id.as_str()).await?;
        // Whoever goes on with what was stopped may come after the decision.
        if !now.is_pending() {
            return Ok(Some(now));
        }
        let waits = format!("{} \"{}\" waits for a person", self.id, self.action);
        say(plain_line("approval", "◆", &format!("{waits}, {} h left", self.hours)));
        match how {
            Approve::Later => return Ok(None),
            Approve::Wait => {
                let flags = elsewhere.unwrap_or_default();
                say(plain_line("", "", &format!("decide with: quorate approval approve {}{flags}", self.id)));
            }
            Approve::Auto => {
                self.decide(hub, "nobody", Ok("approved unseen, as the run was told to")).await?
            }
            Approve::Ask => return self.at_the_terminal(hub, elsewhere).await,
        }
        Ok(Some(hub.decided(self.id.as_str()).await?))
    }

    /// Waits until the outbox has sent what was approved: that, and where to, is one commit with the end of its delivery.
    async fn sent(&self, hub: &Hub) -> anyhow::Result<PathBuf> {
        let looking = async {
            loop {
                if let Some(entry) = hub.memory().get(&sent_key(self.id.as_str())).await? {
                    return Ok::<_, anyhow::Error>(entry.content::<Sent>()?.file);
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(SENT_WITHIN, looking).await.unwrap_or_else(|_| {
            let message = format!("{} is approved, and the letter has not gone out", self.id);
            Err(Ended::new(FAILED, message, "what became of it: quorate msg list --to outbox").into())
        })
    }

    /// Decides in this process: with `Ok` it is approved, with `Err` rejected, each with a reason.
    async fn decide(&self, hub: &Hub, name: &str, verdict: Result<&str, &str>) -> anyhow::Result<()> {
        let approver = hub.approver(name)?;
        let decided = match verdict {
            Ok(reason) => approver.approve(&self.id, self.digest, reason).await,
            Err(reason) => approver.reject(&self.id, self.digest, reason).await,
        };
        match decided {
            // Somebody was faster: the first decision stands.
            Err(error) if matches!(error.code(), Code::Conflict | Code::Expired) => Ok(()),
            decided => Ok(decided?),
        }
    }

    /// Shows what is to be approved, and takes the first decision: from here, or from anywhere else.
    async fn at_the_terminal(
        &self,
        hub: &Hub,
        elsewhere: Option<&str>,
    ) -> anyhow::Result<Option<ApprovalInfo>> {
        say(format!("\n The letter, exactly as it would go out (sha256 of the action: {}):\n", self.digest));
        self.letter.lines().for_each(|line| say(format!("   │ {}", clean_line(line))));
        say("\n a  approve     r REASON  reject     l  later: it stays pending");
        if let Some(flags) = elsewhere {
            say("\n in another terminal, also with a change:");
            say(format!("   quorate approval modify {} --set write=other.txt{flags}", self.id));
        }
        let mut lines = lines_of_the_terminal();
        loop {
            let _ = write!(std::io::stderr().lock(), " > ");
            let line = tokio::select! {
                decided = hub.decided(self.id.as_str()) => {
                    say("");
                    return Ok(Some(decided?));
                }
                line = lines.recv() => line,
            };
            let Some(line) = line else { return Ok(None) };
            match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                ("a" | "approve" | "y" | "yes", reason) => self.decide(hub, "you", Ok(reason)).await?,
                ("l" | "later" | "q" | "quit", _) => return Ok(None),
                ("r" | "reject" | "n" | "no", "") => {
                    say("   say why, so that whoever asked knows what to do: r REASON");
                    continue;
                }
                ("r" | "reject" | "n" | "no", reason) => self.decide(hub, "you", Err(reason)).await?,
                _ => {
                    say("   a, r REASON or l");
                    continue;
                }
            }
            return Ok(Some(hub.decided(self.id.as_str()).await?));
        }
    }
}

/// Lines that somebody types. In a thread of its own that nobody waits for: it ends with the process.
fn lines_of_the_terminal() -> mpsc::UnboundedReceiver<String> {
    let (tell, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// What is on record of a letter that went out.
#[derive(Serialize, Deserialize)]
struct Sent {
    file: PathBuf,
    digest: String,
}

fn sent_key(approval: &str) -> String {
    format!("letters/{approval}")
}

/// Writes the letter that was approved.
fn send(work: &Work<Value>, out: &Path) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::dead(format!("the outbox cannot send this: {what}"));
    let decided: Decided =
        serde_json::from_value(work.payload.clone()).map_err(|error| wrong(&error.to_string()))?;
    let Some(Action { payload: Letter { letter, write } }) = decided.action else { return Ok(()) };
    // A person may have changed it.
    if !is_file_name(&write) {
        return Err(wrong("it names no file"));
    }
    let file = out.join(write);
    write_whole(&file, &letter).map_err(|error| Failure::retry(format!("{}: {error}", file.display())))?;
    work.put(&sent_key(&decided.approval), "letter", Sent { file, digest: decided.digest });
    Ok(())
}

/// The whole file or none: whoever finds it can rely on it.
fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let half = file.with_extension("part");
    let mut out = fs::File::create(&half)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&half, file)
}

impl Settled {
    /// Whether the letter went out.
    pub(crate) fn is_sent(&self) -> bool {
        self.file.is_some()
    }

    /// Tells how it stands, on stderr; and if it is pending, what to type to decide.
    pub(crate) fn tell(&self, decide: &str) {
        let by = self.decided_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        match self.state.as_str() {
            "pending" => say(plain_line("", "", &format!("decide with: {decide}"))),
            state => {
                let mark = if self.is_sent() { "✓" } else { "✗" };
                say(plain_line("approval", mark, &format!("{state}{by}{reason}")));
            }
        }
        if let Some(file) = &self.file {
            say(plain_line("letter", "✓", &format!("written to {}", file.display())));
        }
    }
}
