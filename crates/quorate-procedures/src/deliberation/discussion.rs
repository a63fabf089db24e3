//! Discussion rounds: agents that contradict each other receive their own position and those of their peers.
//!
//! All requests of a round are sent together, so that no agent has more information than another. A message is an
//! answer: the number of messages per round is limited, and the most critical conflicts come first. A conflict is
//! discussed by all agents that hold a position in it, or is postponed; if not even the first one fits, only its most
//! confident agents take part. Questions and evidence in the answers are published as separate messages while the limit
//! permits.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::message::{self, DeliberationMessage, DeliberationMessageType};
use super::reply::{self, Reply};
use super::state::{PendingQuestion, PositionChange, conflict_id};
use super::{Phase, Step};
use crate::conflict::{Position, PositionValue};
use crate::finding::FieldError;

/// A question, clarification or piece of evidence that came with an answer.
struct Aside {
    index: usize,
    agent: String,
    message_type: DeliberationMessageType,
    text: String,
    recipients: Vec<String>,
    /// Id of the answer that it came with, or of the question that it answers.
    reply_to: String,
}

impl Step<'_> {
    /// Starts a round by asking its participants. If there is nothing to discuss, finishes with the vote.
    pub(super) fn begin_round(&mut self, round: u32) {
        let selected = if round <= self.spec.limits.rounds { self.select_conflicts() } else { Vec::new() };
        if selected.is_empty() {
            self.finish();
            return;
        }
        self.enter_phase(Phase::Discussion { round });
        for (index, agents) in selected {
            self.state.disputes[index].rounds += 1;
            for agent in agents {
                self.ask(&agent, Some(index), None);
            }
        }
    }

    /// Selects the conflicts of a round and their participants.
    fn select_conflicts(&self) -> Vec<(usize, Vec<String>)> {
        let mut left = self.spec.limits.messages as usize;
        let mut selected: Vec<(usize, Vec<String>)> = Vec::new();
        for (index, dispute) in self.state.disputes.iter().enumerate() {
            let mut participants: Vec<&Position> = dispute
                .positions
                .iter()
                .filter(|position| !self.state.is_excluded(&position.agent, index))
                .collect();
            if dispute.agreed.is_some() || participants.len() < 2 {
                continue;
            }
            if participants.len() > left && selected.is_empty() {
                let confidence = |position: &Position| position.confidence.unwrap_or_default();
                participants.sort_by(|a, b| {
                    confidence(b).total_cmp(&confidence(a)).then_with(|| a.agent.cmp(&b.agent))
                });
                participants.truncate(left);
            }
            if participants.len() <= left {
                left -= participants.len();
                selected.push((index, participants.iter().map(|position| position.agent.clone()).collect()));
            }
        }
        selected
    }

    pub(super) fn parse_reply(&self, body: &[u8], agent: &str, index: usize) -> Result<Reply, FieldError> {
        let limit = self.spec.limits.message_tokens as usize;
        reply::parse(
            body,
            agent,
            &self.state.disputes[index],
            &self.spec.vocabulary,
            limit,
            self.count_tokens,
        )
    }

    /// Evaluates all replies of a round together.
    pub(super) fn close_round(&mut self, round: u32) {
        let replies_by_conflict = std::mem::take(&mut self.state.replies);
        let mut asides = Vec::new();
        for (index, replies) in &replies_by_conflict {
            let reply_targets = self.reply_targets(*index, round);
            let questions = std::mem::take(&mut self.state.disputes[*index].questions);
            for position_index in 0..self.state.disputes[*index].positions.len() {
                let agent = self.state.disputes[*index].positions[position_index].agent.clone();
                let Some(reply) = replies.get(&agent) else { continue };
                let message = self.publish_reply(
                    *index,
                    position_index,
                    reply,
                    round,
                    reply_targets.get(&agent).cloned(),
                );
                self.collect_asides(*index, &agent, reply, &message, &questions, &mut asides);
            }
            for question in questions {
                let clarified = replies.get(&question.to).is_some_and(|reply| reply.clarification.is_some());
                if !clarified {
                    let (from, to, text) = (&question.from, &question.to, &question.text);
                    self.state.notes.push(format!("{to} did not answer {from}'s question: {text}"));
                }
            }
        }
        for (index, replies) in &replies_by_conflict {
            let agreed = self.agreed_position(*index, replies);
            self.state.disputes[*index].agreed = agreed.map(|position| (round, position));
        }
        self.publish_asides(asides, round);
        self.begin_round(round + 1);
    }

    /// Maps each agent to the message it replies to: the latest message, before this round, of its most confident
    /// opponent.
    fn reply_targets(&self, index: usize, round: u32) -> BTreeMap<String, String> {
        let positions = &self.state.disputes[index].positions;
        let name = conflict_id(index);
        let latest_message = |agent: &str| {
            let sent = self.state.messages.iter().rev().filter(|message| message.sender == agent);
            let mut before = sent.filter(|message| message.round < round);
            let found =
                before.find(|message| message.round == 0 || message.content["conflict"] == name.as_str());
            found.map(|message| message.id.clone())
        };
        let reply_target = |own: &Position| {
            let others = positions.iter().filter(|position| position.position != own.position);
            let confidence = |position: &Position| position.confidence.unwrap_or_default();
            let most_confident = others
                .max_by(|a, b| confidence(a).total_cmp(&confidence(b)).then_with(|| b.agent.cmp(&a.agent)))?;
            Some((own.agent.clone(), latest_message(&most_confident.agent)?))
        };
        positions.iter().filter_map(reply_target).collect()
    }

    /// Publishes an answer and applies its changes. Returns the id of the message.
    fn publish_reply(
        &mut self,
        index: usize,
        position_index: usize,
        reply: &Reply,
        round: u32,
        reply_to: Option<String>,
    ) -> String {
        let id = self.next_id();
        let dispute = &mut self.state.disputes[index];
        let previous = dispute.positions[position_index].clone();
        let confidence = reply.confidence.or(previous.confidence);
        let changed = reply.position != previous.position || confidence != previous.confidence;
        let message_type = match (changed, reply.agrees) {
            (true, _) => DeliberationMessageType::Revision,
            (false, true) => DeliberationMessageType::Agreement,
            (false, false) => DeliberationMessageType::Disagreement,
        };
        let mut content = reply_content(index, &reply.position, &reply.reasoning);
        content.insert("confidence".into(), confidence.into());
        content.insert("agrees_with_peer".into(), reply.agrees.into());
        if changed {
            content.insert(
                "before".into(),
                json!({"position": previous.position, "confidence": previous.confidence}),
            );
        }
        // A changed confidence alone is not a change of position.
        if reply.position != previous.position {
            dispute.changes.push(PositionChange {
                round,
                agent: previous.agent.clone(),
                from: previous.position,
                to: reply.position.clone(),
                confidence_from: previous.confidence,
                confidence_to: confidence,
                reason: String::new(),
                message: id.clone(),
            });
        }
        let reason = if reply.reasoning.is_empty() { previous.reason } else { reply.reasoning.clone() };
        let position = reply.position.clone();
        dispute.positions[position_index] =
            Position { agent: previous.agent.clone(), position, confidence, reason };
        dispute.rankings.remove(&previous.agent);
        if !reply.ranking.is_empty() {
            dispute.rankings.insert(previous.agent.clone(), reply.ranking.clone());
        }
        let recipients = dispute
            .positions
            .iter()
            .map(|position| position.agent.clone())
            .filter(|agent| *agent != previous.agent);
        let limit = self.spec.limits.message_tokens as usize;
        let message = DeliberationMessage {
            id: id.clone(),
            round,
            recipients: recipients.collect(),
            sender: previous.agent,
            message_type,
            content: message::truncate_content(content, "reasoning", limit, self.count_tokens),
            timestamp: self.now_ms,
            reply_to,
        };
        self.publish(message);
        id
    }

    fn collect_asides(
        &self,
        index: usize,
        agent: &str,
        reply: &Reply,
        message: &str,
        questions: &[PendingQuestion],
        asides: &mut Vec<Aside>,
    ) {
        let peers = || self.state.disputes[index].positions.iter().map(|position| position.agent.clone());
        let mut add =
            |message_type: DeliberationMessageType, text: &str, recipients: Vec<String>, reply_to: &str| {
                let (agent, text, reply_to) = (agent.to_owned(), text.to_owned(), reply_to.to_owned());
                asides.push(Aside { index, agent, message_type, text, recipients, reply_to });
            };
        if let Some(text) = &reply.clarification {
            let question = questions.iter().find(|question| question.to == agent);
            let (to, reply_to) = question.map_or_else(
                || (peers().filter(|peer| peer != agent).collect(), message),
                |question| (vec![question.from.clone()], question.message.as_str()),
            );
            add(DeliberationMessageType::Clarification, text, to, reply_to);
        }
        if let Some(text) = &reply.evidence {
            add(
                DeliberationMessageType::Evidence,
                text,
                peers().filter(|peer| peer != agent).collect(),
                message,
            );
        }
        if let Some(question) = &reply.question {
            add(DeliberationMessageType::Question, &question.text, vec![question.to.clone()], message);
        }
    }

    /// Publishes asides as messages while the limit permits. Questions reach their agents in any case.
    fn publish_asides(&mut self, asides: Vec<Aside>, round: u32) {
        let published = self.state.messages.iter().filter(|message| message.round == round).count();
        let remaining = (self.spec.limits.messages as usize).saturating_sub(published);
        let unpublished = asides.len().saturating_sub(remaining);
        if unpublished > 0 {
            let limit = self.spec.limits.messages;
            let note = format!(
                "round {round}: {unpublished} questions, clarifications or pieces of evidence not published separately: limit of {limit} messages per round reached"
            );
            self.state.notes.push(note);
        }
        for (index, aside) in asides.into_iter().enumerate() {
            let id = if index < remaining { self.next_id() } else { aside.reply_to.clone() };
            if aside.message_type == DeliberationMessageType::Question {
                let (from, text, message) = (aside.agent.clone(), aside.text.clone(), id.clone());
                let to = aside.recipients.first().cloned().unwrap_or_default();
                self.state.disputes[aside.index].questions.push(PendingQuestion { from, to, text, message });
            }
            if index < remaining {
                let content = Map::from_iter([
                    ("conflict".to_owned(), Value::String(conflict_id(aside.index))),
                    ("text".to_owned(), Value::String(aside.text)),
                ]);
                let limit = self.spec.limits.message_tokens as usize;
                let message = DeliberationMessage {
                    id,
                    round,
                    sender: aside.agent,
                    recipients: aside.recipients,
                    message_type: aside.message_type,
                    content: message::truncate_content(content, "text", limit, self.count_tokens),
                    timestamp: self.now_ms,
                    reply_to: Some(aside.reply_to),
                };
                self.publish(message);
            }
        }
    }

    fn next_id(&self) -> String {
        let published = self.state.messages.iter().filter(|message| message.round > 0).count();
        format!("M{}", published + 1)
    }
}

fn reply_content(index: usize, position: &PositionValue, reasoning: &str) -> Map<String, Value> {
    Map::from_iter([
        ("conflict".to_owned(), Value::String(conflict_id(index))),
        ("position".to_owned(), json!(position)),
        ("reasoning".to_owned(), Value::String(reasoning.to_owned())),
    ])
}
