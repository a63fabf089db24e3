//! The approval at the end of a playbook: a letter, filled in from the outcome, that is written once a person approves it.
//!
//! The agent `outbox` requests the approval and receives the decision as a delivery. It writes exactly the approved bytes. It runs
//! in the worker of this command, or in another one: `quorate worker` writes letters that are approved later.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use quorate::deliberation::Outcome;
use quorate::{ActionDigest, Agent, ApprovalDraft, ApprovalId, ApprovalInfo, Hub, Seq};
use quorate_agents::playbook::ApprovalSpec;
use quorate_agents::worker::{OUTBOX, Worker, WrittenLetter};
use quorate_api::canonical::action_document;
use quorate_core::Code;
use serde::Serialize;
use serde_json::json;

use super::agents;
use super::progress::note_line;
use crate::exit::{CommandError, FAILED};
use crate::prompt::{Prompt, edit};
use crate::terminal::{note, sanitize_line, wrap};

/// Timeout for writing the letter, including one retry.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum width of the letter in the prompt.
const LETTER_COLUMNS: usize = 74;

/// How an approval is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ApprovalMode {
    /// Prompt at this terminal, or accept a decision made with `quorate approval`, whichever comes first.
    Ask,
    /// Wait for a decision made with `quorate approval`.
    Wait,
    /// Leave it pending.
    Later,
    /// Approve without review.
    Auto,
}

/// State of an approval at the end of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalResult {
    /// Id of the approval.
    pub(crate) id: String,
    /// Description of the action.
    pub(crate) action: String,
    /// `pending`, `approved`, `modified`, `rejected` or `expired`.
    pub(crate) state: String,
    /// Digest of the requested action.
    pub(crate) digest: String,
    /// Digest of the approved action, if it was modified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approved_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decided_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// File that the letter was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
}

/// A requested approval.
pub(crate) struct PendingApproval {
    id: ApprovalId,
    action: String,
    hours: u32,
    digest: ActionDigest,
    letter: String,
    /// Runs the outbox, unless another process does; `None` if this command does not write the letter.
    worker: Option<Worker>,
}

impl PendingApproval {
    /// Requests the approval, if the playbook requires one for this outcome. Idempotent for a deliberation. `out` is the directory
    /// for the letter, if this command writes it.
    pub(crate) async fn request(
        hub: &Hub,
        spec: &ApprovalSpec,
        deliberation: &str,
        outcome: &Outcome,
        out: Option<&Path>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(payload) = spec.payload(outcome) else { return Ok(None) };
        let worker = match out {
            Some(out) => Some(agents::start_letters(hub, out).await?),
            None => None,
        };
        let confidence = outcome.synthesis.confidence.unwrap_or(0.0);
        let summary = outcome.synthesis.summary.first().map_or("", |sentence| sentence.text.as_str());
        let draft = ApprovalDraft::new(&spec.action, &payload)
            .id(format!("{deliberation}-approval"))
            .rationale(format!("{deliberation}: {summary}"), confidence)
            .timeout(Duration::from_secs(u64::from(spec.timeout_hours) * 3600), "nothing is sent");
        let id = outbox(hub).await?.request_approval(draft).await?;
        let bytes = action_document(&spec.action, &serde_json::to_vec(&payload)?)?;
        Ok(Some(Self {
            id,
            action: spec.action.clone(),
            hours: spec.timeout_hours,
            digest: ActionDigest::of(&bytes),
            letter: payload["letter"].as_str().unwrap_or_default().to_owned(),
            worker,
        }))
    }

    /// Waits for the decision, depending on the mode, and for the letter to be written. `hub_options` are the options with which
    /// other commands can reach the hub; `None` if they cannot.
    pub(crate) async fn resolve(
        self,
        hub: &Hub,
        mode: ApprovalMode,
        hub_options: Option<&str>,
    ) -> anyhow::Result<ApprovalResult> {
        let mut result = ApprovalResult {
            id: self.id.to_string(),
            action: self.action.clone(),
            state: "pending".into(),
            digest: self.digest.to_string(),
            approved_digest: None,
            decided_by: None,
            reason: None,
            file: None,
        };
        if let Some(info) = self.decision(hub, mode, hub_options).await? {
            let approval = info.approval();
            result.state = approval.state.as_str().to_owned();
            result.approved_digest = approval
                .approved_digest
                .filter(|other| *other != self.digest)
                .map(|digest| digest.to_string());
            result.decided_by.clone_from(&approval.decided_by);
            result.reason = approval.reason.clone().filter(|reason| !reason.is_empty());
            if approval.approved_digest.is_some() {
                result.file = Some(self.written_file(hub, approval.seq).await?);
            }
        }
        if let Some(worker) = self.worker {
            worker.stop().await;
        }
        Ok(result)
    }

    /// Returns the decision; `None` if it stays pending.
    async fn decision(
        &self,
        hub: &Hub,
        mode: ApprovalMode,
        hub_options: Option<&str>,
    ) -> anyhow::Result<Option<ApprovalInfo>> {
        let approval = hub.approval(self.id.as_str()).await?;
        // A resumed run may start after the decision.
        if !approval.is_pending() {
            return Ok(Some(approval));
        }
        note_line("approval", "◆", &format!("{} \"{}\"", self.id, self.action));
        note_line("", "    ", &format!("waiting for a decision, {} h left", self.hours));
        match mode {
            ApprovalMode::Later => return Ok(None),
            ApprovalMode::Wait => {
                let options = hub_options.unwrap_or_default();
                note_command(&format!("quorate approval approve {}{options}", self.id));
            }
            ApprovalMode::Auto => {
                self.decide(hub, "nobody", Ok("approved without review (--approve auto)")).await?
            }
            ApprovalMode::Ask => return self.prompt(hub, hub_options).await,
        }
        Ok(Some(hub.wait_for_decision(self.id.as_str()).await?))
    }

    /// Waits until the outbox has written the letter. It records the file in the commit that acks the decision, which is the record
    /// `decided`.
    async fn written_file(&self, hub: &Hub, decided: Seq) -> anyhow::Result<PathBuf> {
        let key = WrittenLetter::key(self.id.as_str());
        let written = async {
            let mut changes = hub.memory().watch(&key, decided);
            loop {
                if let Some(entry) = hub.memory().get(&key).await? {
                    return Ok::<_, anyhow::Error>(entry.content::<WrittenLetter>()?.file);
                }
                changes.next().await?;
            }
        };
        tokio::time::timeout(WRITE_TIMEOUT, written).await.unwrap_or_else(|_| {
            let message = format!("{} is approved, but the letter was not written", self.id);
            Err(CommandError::new(
                FAILED,
                message,
                "check the deliveries of the outbox: quorate msg list --to outbox",
            )
            .into())
        })
    }

    /// Decides the approval: `Ok` approves, `Err` rejects, each with a reason.
    async fn decide(&self, hub: &Hub, name: &str, verdict: Result<&str, &str>) -> anyhow::Result<()> {
        let approver = hub.approver(name)?;
        let result = match verdict {
            Ok(reason) => approver.approve(&self.id, self.digest, reason).await,
            Err(reason) => approver.reject(&self.id, self.digest, reason).await,
        };
        first_decision(result)
    }

    /// Lets the person edit the letter, and approves it as edited. Returns whether it was decided.
    async fn modify(&self, hub: &Hub, reason: &str) -> anyhow::Result<bool> {
        let letter = match edit(&self.letter).await {
            Ok(Some(letter)) => letter,
            Ok(None) => {
                note("   the letter is unchanged; enter a to approve it");
                return Ok(false);
            }
            Err(error) => {
                note(format!("   {}", sanitize_line(&format!("{error:#}"))));
                return Ok(false);
            }
        };
        let patch = json!([{"op": "replace", "path": "/letter", "value": letter}]);
        let reason = if reason.is_empty() { "edited at the prompt" } else { reason };
        first_decision(hub.approver("you")?.modify(&self.id, self.digest, patch, reason).await)?;
        Ok(true)
    }

    /// Prints the letter and prompts for a decision, or waits for one made elsewhere, whichever comes first.
    async fn prompt(&self, hub: &Hub, hub_options: Option<&str>) -> anyhow::Result<Option<ApprovalInfo>> {
        note(format!("\n Letter to approve; sha256 of the action:\n   {}\n", self.digest));
        for line in self.letter.lines().flat_map(|line| wrap(&sanitize_line(line), LETTER_COLUMNS)) {
            note(format!("   │ {line}"));
        }
        note("\n a  approve     m  modify     r REASON  reject     l  decide later");
        if let Some(options) = hub_options {
            note(format!("\n to decide in another terminal:\n   quorate approval show {}{options}", self.id));
        }
        let mut prompt = Prompt::new();
        loop {
            let _ = write!(std::io::stderr().lock(), " > ");
            let line = tokio::select! {
                decided = hub.wait_for_decision(self.id.as_str()) => {
                    note("");
                    return Ok(Some(decided?));
                }
                line = prompt.line() => line,
            };
            let Some(line) = line else { return Ok(None) };
            match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                ("a" | "approve" | "y" | "yes", reason) => self.decide(hub, "you", Ok(reason)).await?,
                ("l" | "later" | "q" | "quit", _) => return Ok(None),
                ("m" | "modify", reason) => {
                    if !self.modify(hub, reason).await? {
                        continue;
                    }
                }
                ("r" | "reject" | "n" | "no", "") => {
                    note("   a reason is required: r REASON");
                    continue;
                }
                ("r" | "reject" | "n" | "no", reason) => self.decide(hub, "you", Err(reason)).await?,
                _ => {
                    note("   enter a, m, r REASON, or l");
                    continue;
                }
            }
            return Ok(Some(hub.wait_for_decision(self.id.as_str()).await?));
        }
    }
}

/// Returns the agent that requests the approval. It gets the decision, whichever process runs it, now or later.
async fn outbox(hub: &Hub) -> anyhow::Result<Agent> {
    match hub.registered_agent(OUTBOX).await {
        Err(error) if error.code() == Code::NotFound => Ok(hub.agent(OUTBOX).join().await?),
        agent => Ok(agent?),
    }
}

/// Prints the command that decides an approval, on a line of its own, so that it can be copied.
fn note_command(command: &str) {
    note_line("", "", "decide with:");
    note(format!("   {}", sanitize_line(command)));
}

/// Accepts that an approval was decided elsewhere already: the first decision is final.
fn first_decision(result: Result<(), quorate::Error>) -> anyhow::Result<()> {
    match result {
        Err(error) if matches!(error.code(), Code::Conflict | Code::Expired) => Ok(()),
        result => Ok(result?),
    }
}

impl ApprovalResult {
    /// Whether the letter was written.
    pub(crate) fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Prints the state to stderr; if it is pending, with the command that decides it.
    pub(crate) fn print(&self, decide: &str) {
        let decided_by =
            self.decided_by.as_ref().map_or_else(String::new, |decided_by| format!(" by {decided_by}"));
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        match self.state.as_str() {
            "pending" => note_command(decide),
            state => {
                let mark = if self.is_written() { "✓" } else { "✗" };
                note_line("approval", mark, &format!("{state}{decided_by}{reason}"));
            }
        }
        if let Some(file) = &self.file {
            note_line("letter", "✓", &format!("written to {}", file.display()));
        }
    }
}
