//! The approval at the end of a playbook: the letter is approved, modified, or rejected and revised by the agents. The agent
//! `outbox` writes exactly the approved bytes. It runs in the worker of this command, or in another one: `quorate worker` writes
//! letters that are approved later.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use quorate::proposal::{ProposalEnd, ProposalOutcome, ProposalPhase, ProposalState};
use quorate::{Approval, ApprovalInfo, Hub, ProcedureInfo};
use quorate_agents::worker::{OUTBOX, WrittenLetter};
use quorate_core::Code;
use quorate_env::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cancelled;
use super::progress::note_line;
use super::watch::{HaltedRun, next_step};
use crate::exit::{CommandError, FAILED};
use crate::prompt::{Prompt, edit};
use crate::terminal::{note, sanitize_line, wrap};

const HOUR_MS: u64 = 60 * 60 * 1_000;
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
    /// Earlier proposals that were rejected and revised, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejections: Vec<Rejection>,
    /// File that the letter was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
}

/// A rejected proposal that agents were asked to revise.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rejection {
    /// Id of the approval.
    approval: String,
    reason: String,
    /// The agent that revised it; `None` while it is revised.
    #[serde(skip_serializing_if = "Option::is_none")]
    revised_by: Option<String>,
}

/// Follows a proposal from its first approval to the letter.
pub(super) struct Settlement<'a> {
    hub: &'a Hub,
    proposal: &'a str,
    mode: ApprovalMode,
    halted: HaltedRun<'a>,
    /// Whether this command runs the outbox, unless another process does.
    writes_letter: bool,
    prompt: Option<Prompt>,
    /// Number of rejections and revisions that were printed.
    printed: usize,
}

impl<'a> Settlement<'a> {
    pub(super) fn new(
        hub: &'a Hub,
        proposal: &'a str,
        mode: ApprovalMode,
        halted: HaltedRun<'a>,
        writes_letter: bool,
    ) -> Self {
        Self { hub, proposal, mode, halted, writes_letter, prompt: None, printed: 0 }
    }

    /// Waits for the decision and for the letter, depending on the mode; `None` if no approval is required.
    pub(super) async fn result(mut self) -> anyhow::Result<Option<ApprovalResult>> {
        let mut info = self.hub.procedure(self.proposal).await?;
        let mut was_halted = false;
        loop {
            let state = info.state::<ProposalState>()?.unwrap_or_default();
            self.print_rejections(&state);
            if info.procedure().status.has_ended() {
                return self.ended(&info, &state).await;
            }
            self.halted.report(info.procedure(), &mut was_halted)?;
            match &state.phase {
                ProposalPhase::AwaitingApproval => {
                    let approval = self.hub.approval(&state.approval_id(self.proposal)).await?;
                    // A resumed run may start after the decision.
                    if approval.is_pending() && !self.is_decided(&approval).await? {
                        return Ok(Some(ApprovalResult::new(&approval, rejections(self.proposal, &state))));
                    }
                }
                ProposalPhase::Revising { .. } if self.mode == ApprovalMode::Later => {
                    let approval = self.hub.approval(&state.approval_id(self.proposal)).await?;
                    let result = ApprovalResult::new(&approval, rejections(self.proposal, &state));
                    return Ok(Some(ApprovalResult { state: "revising".into(), ..result }));
                }
                ProposalPhase::Executing { .. } if !self.writes_letter => {
                    let approval = self.hub.approval(&state.approval_id(self.proposal)).await?;
                    return Ok(Some(ApprovalResult::new(&approval, rejections(self.proposal, &state))));
                }
                ProposalPhase::Executing { .. } => {
                    let written =
                        tokio::time::timeout(WRITE_TIMEOUT, next_step(self.hub, self.proposal, &info));
                    info = written
                        .await
                        .map_err(|_| not_written(self.proposal, "the outbox does not answer"))??;
                    continue;
                }
                ProposalPhase::New
                | ProposalPhase::Deliberating
                | ProposalPhase::Revising { .. }
                | ProposalPhase::Ended { .. } => {}
            }
            info = next_step(self.hub, self.proposal, &info).await?;
        }
    }

    async fn ended(
        &self,
        info: &ProcedureInfo,
        state: &ProposalState,
    ) -> anyhow::Result<Option<ApprovalResult>> {
        let Some(outcome) = info.result::<ProposalOutcome>()? else {
            return Err(cancelled(self.proposal, &info.procedure().reason).into());
        };
        let reason = outcome.reason.unwrap_or_default();
        let Some(id) = outcome.approval else {
            return match outcome.end {
                ProposalEnd::Failed => Err(CommandError::new(FAILED, reason, "").into()),
                _ => Ok(None),
            };
        };
        if outcome.end == ProposalEnd::Failed {
            return Err(not_written(self.proposal, &reason).into());
        }
        let approval = self.hub.approval(&id).await?;
        let mut result = ApprovalResult::new(&approval, rejections(self.proposal, state));
        let written: Option<WrittenLetter> = serde_json::from_value(outcome.result).ok();
        result.file = written.map(|written| written.file);
        Ok(Some(result))
    }

    /// Prints the rejections and revisions that are new.
    fn print_rejections(&mut self, state: &ProposalState) {
        let all = rejections(self.proposal, state);
        let mut lines = Vec::new();
        for Rejection { reason, revised_by, .. } in &all {
            lines.push(("approval", "✗", format!("rejected: {reason}")));
            lines.extend(revised_by.iter().map(|agent| ("revision", "✓", format!("by {agent}"))));
        }
        for (name, mark, text) in lines.iter().skip(self.printed) {
            note_line(name, mark, text);
        }
        self.printed = lines.len();
        if let ProposalPhase::Revising { agent } = &state.phase {
            note_line("revision", "", &format!("asked {agent}"));
        }
    }

    /// Decides a pending approval, or waits for its decision, depending on the mode. Returns false if it stays pending.
    async fn is_decided(&mut self, approval: &ApprovalInfo) -> anyhow::Result<bool> {
        let approval = approval.approval();
        note_line("approval", "◆", &format!("{} \"{}\"", approval.id, approval.action));
        let hours = approval.expires_at.0.saturating_sub(SystemClock::new().now().wall.0).div_ceil(HOUR_MS);
        note_line("", "    ", &format!("waiting for a decision, {hours} h left"));
        match self.mode {
            ApprovalMode::Later => return Ok(false),
            ApprovalMode::Wait => {
                let options = self.halted.hub_options.map_or("", String::as_str);
                note_command(&format!("quorate approval approve {}{options}", approval.id));
            }
            ApprovalMode::Auto => {
                let review = Ok("approved without review (--approve auto)");
                decide(self.hub, approval, "nobody", review).await?;
            }
            ApprovalMode::Ask => return self.ask(approval).await,
        }
        self.hub.wait_for_decision(approval.id.as_str()).await?;
        Ok(true)
    }

    /// Prints the letter and prompts for a decision, or waits for one made elsewhere, whichever comes first. Returns false if it
    /// stays pending.
    async fn ask(&mut self, approval: &Approval) -> anyhow::Result<bool> {
        let letter = self.hub.approval(approval.id.as_str()).await?.payload::<Letter>()?.letter;
        note(format!("\n Letter to approve; sha256 of the action:\n   {}\n", approval.digest));
        for line in letter.lines().flat_map(|line| wrap(&sanitize_line(line), LETTER_COLUMNS)) {
            note(format!("   │ {line}"));
        }
        note("\n a  approve     m  modify     r REASON  reject     l  decide later");
        if let Some(options) = self.halted.hub_options {
            note(format!(
                "\n to decide in another terminal:\n   quorate approval show {}{options}",
                approval.id
            ));
        }
        let prompt = self.prompt.get_or_insert_with(Prompt::new);
        loop {
            let _ = write!(std::io::stderr().lock(), " > ");
            let line = tokio::select! {
                decided = self.hub.wait_for_decision(approval.id.as_str()) => {
                    note("");
                    decided?;
                    return Ok(true);
                }
                line = prompt.line() => line,
            };
            let Some(line) = line else { return Ok(false) };
            match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
                ("a" | "approve" | "y" | "yes", reason) => {
                    decide(self.hub, approval, "you", Ok(reason)).await?
                }
                ("l" | "later" | "q" | "quit", _) => return Ok(false),
                ("m" | "modify", reason) => {
                    if !modify(self.hub, approval, &letter, reason).await? {
                        continue;
                    }
                }
                ("r" | "reject" | "n" | "no", "") => {
                    note("   a reason is required: r REASON");
                    continue;
                }
                ("r" | "reject" | "n" | "no", reason) => {
                    decide(self.hub, approval, "you", Err(reason)).await?
                }
                _ => {
                    note("   enter a, m, r REASON, or l");
                    continue;
                }
            }
            return Ok(true);
        }
    }
}

#[derive(Deserialize)]
struct Letter {
    letter: String,
}

/// Returns the rejections after which the proposal was revised, or is revised now.
fn rejections(proposal: &str, state: &ProposalState) -> Vec<Rejection> {
    let is_revising = matches!(state.phase, ProposalPhase::Revising { .. });
    let revised = state.rounds.iter().skip(1).map(|round| round.revised_by.clone());
    let revised = revised.chain(is_revising.then_some(None));
    let rejected = state.rounds.iter().zip(revised).enumerate();
    let rejected = rejected.map(|(index, (round, revised_by))| Rejection {
        approval: format!("{proposal}:approval-{}", index + 1),
        reason: round.decision.as_ref().map(|decision| decision.reason.clone()).unwrap_or_default(),
        revised_by,
    });
    rejected.collect()
}

fn not_written(proposal: &str, reason: &str) -> CommandError {
    let message = format!("the letter is approved, but was not written: {}", sanitize_line(reason));
    CommandError::new(FAILED, message, format!("for details: quorate task why {proposal}:effect"))
}

/// Decides an approval: `Ok` approves, `Err` rejects, each with a reason.
async fn decide(
    hub: &Hub,
    approval: &Approval,
    name: &str,
    verdict: Result<&str, &str>,
) -> anyhow::Result<()> {
    let approver = hub.approver(name)?;
    first_decision(match verdict {
        Ok(reason) => approver.approve(&approval.id, approval.digest, reason).await,
        Err(reason) => approver.reject(&approval.id, approval.digest, reason).await,
    })
}

/// Lets the person edit the letter, and approves it as edited. Returns whether it was decided.
async fn modify(hub: &Hub, approval: &Approval, letter: &str, reason: &str) -> anyhow::Result<bool> {
    let letter = match edit(letter).await {
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
    first_decision(hub.approver("you")?.modify(&approval.id, approval.digest, patch, reason).await)?;
    Ok(true)
}

/// Registers the agent that writes letters, unless it is registered. Its task waits for it, whichever process runs it, now or later.
pub(super) async fn register_outbox(hub: &Hub) -> anyhow::Result<()> {
    match hub.agent_info(OUTBOX).await {
        Err(error) if error.code() == Code::NotFound => {
            hub.agent(OUTBOX).join().await?;
        }
        info => drop(info?),
    }
    Ok(())
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
    fn new(info: &ApprovalInfo, rejections: Vec<Rejection>) -> Self {
        let approval = info.approval();
        let approved = approval.approved_digest.filter(|other| *other != approval.digest);
        Self {
            id: approval.id.to_string(),
            action: approval.action.clone(),
            state: approval.state.as_str().to_owned(),
            digest: approval.digest.to_string(),
            approved_digest: approved.map(|digest| digest.to_string()),
            decided_by: approval.decided_by.clone(),
            reason: approval.reason.clone().filter(|reason| !reason.is_empty()),
            rejections,
            file: None,
        }
    }

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
            "pending" | "revising" => note_command(decide),
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
