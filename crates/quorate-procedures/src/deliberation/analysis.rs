//! End of the analysis phase: publishes the findings, checks the quorum and detects conflicts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::message::{self, COORDINATOR, DeliberationMessage, DeliberationMessageType};
use super::state::Dispute;
use super::{Output, Phase, Step};
use crate::conflict;
use crate::finding::Finding;
use crate::tokens;

/// Maximum number of tokens of a finding's text that are used as the reason of a position.
const REASON_TOKENS: usize = 100;

/// Maximum number of scores in the message of a finding.
const MESSAGE_SCORES: usize = 10;

impl Step<'_> {
    pub(super) fn close_analysis(&mut self) {
        self.publish_findings();
        if self.state.findings.len() < self.spec.quorum() {
            self.enter_phase(Phase::Failed);
            self.outputs.extend(self.final_output());
            return;
        }
        let findings: Vec<(&str, &Finding)> = self
            .spec
            .agents
            .iter()
            .filter_map(|member| Some((member.id.as_str(), self.state.findings.get(&member.id)?)))
            .collect();
        let mut conflicts = conflict::detect(&self.spec.conflicts, &self.spec.vocabulary, &findings);
        for agent in conflict::missing_checkers(&self.spec.conflicts, &findings) {
            self.state.notes.push(format!("`relies_on` was not checked: {agent} did not report `found`"));
        }
        // The finding has the full text. The state is written at every step, so each conflict stores only the beginning.
        for position in conflicts.iter_mut().flat_map(|conflict| &mut conflict.positions) {
            if let Some(truncated) = tokens::truncate(&position.reason, REASON_TOKENS, self.count_tokens) {
                position.reason = truncated;
            }
        }
        let limit = (self.spec.limits.conflicts as usize).min(conflicts.len());
        self.state.further = conflicts.split_off(limit);
        let dispute = |conflict: conflict::Conflict| Dispute {
            positions: conflict.positions.clone(),
            conflict,
            rankings: BTreeMap::new(),
            rounds: 0,
            agreed: None,
            changes: Vec::new(),
            questions: Vec::new(),
        };
        self.state.disputes = conflicts.into_iter().map(dispute).collect();
        self.begin_round(1);
    }

    /// Publishes the findings once all agents have answered, so that none can see another's finding early.
    fn publish_findings(&mut self) {
        for (index, member) in self.spec.agents.iter().enumerate() {
            let Some(finding) = self.state.findings.get(&member.id) else { continue };
            let limit = self.spec.limits.message_tokens as usize;
            let message = DeliberationMessage {
                id: format!("F{}", index + 1),
                round: 0,
                sender: member.id.clone(),
                recipients: vec![COORDINATOR.to_owned()],
                message_type: DeliberationMessageType::Finding,
                content: message::truncate_content(digest(finding), "summary", limit, self.count_tokens),
                timestamp: self.now_ms,
                reply_to: None,
            };
            self.publish(message);
        }
    }

    pub(super) fn publish(&mut self, message: DeliberationMessage) {
        self.state.messages.push(message.clone());
        self.outputs.push(Output::Publish(message));
    }
}

/// Summarises a finding for its message: main fields, and the number of issues per severity.
fn digest(finding: &Finding) -> Map<String, Value> {
    let mut issues: BTreeMap<&str, usize> = BTreeMap::new();
    finding.issues.iter().for_each(|issue| *issues.entry(&issue.severity).or_default() += 1);
    let content = json!({
        "summary": finding.summary,
        "confidence": finding.confidence,
        "scores": finding.scores.iter().take(MESSAGE_SCORES).collect::<BTreeMap<_, _>>(),
        "recommendation": finding.recommendation,
        "issues": issues,
    });
    if let Value::Object(content) = content { content } else { Map::new() }
}
