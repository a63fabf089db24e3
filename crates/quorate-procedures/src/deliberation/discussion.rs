//! Discussion rounds: agents that contradict each other receive their own position and those of their peers.
//!
//! All questions of a round are sent together, so that no agent has more information than another. A message is an
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
    what: DeliberationMessageType,
    text: String,
    recipients: Vec<String>,
    /// Id of the answer that it came with, or of the question that it answers.
    reply_to: String,
}

impl Step<'_> {
    /// Starts a round by asking its participants. If there is nothing to discuss, finishes with the vote.
    pub(super) fn begin_round(&mut self, round: u32) {
        let chosen = if round <= self.spec.limits.rounds { self.select_conflicts() } else { Vec::new() };
        if chosen.is_empty() {
            self.finish();
            return;
        }
        self.enter_phase(Phase::Discussion { round });
        for (index, agents) in chosen {
            self.state.disputes[index].rounds += 1;
            for agent in agents {
                self.ask(&agent, Some(index), None);
            }
        }
    }

    /// Selects the conflicts of a round and their participants.
    fn select_conflicts(&self) -> Vec<(usize, Vec<String>)> {
        let most = self.spec.limits.messages as usize;
        let mut left = most;
        let mut chosen: Vec<(usize, Vec<String>)> = Vec::new();
        for (index, dispute) in self.state.disputes.iter().enumerate() {
            let mut talk: Vec<&Position> =
                dispute.positions.iter().filter(|one| !self.state.is_excluded(&one.agent, index)).collect();
            if dispute.agreed.is_some() || talk.len() < 2 {
                continue;
            }
            if talk.len() > left && chosen.is_empty() {
                let sure = |one: &Position| one.confidence.unwrap_or_default();
                talk.sort_by(|a, b| sure(b).total_cmp(&sure(a)).then_with(|| a.agent.cmp(&b.agent)));
                talk.truncate(left);
            }
            if talk.len() <= left {
                left -= talk.len();
                chosen.push((index, talk.iter().map(|one| one.agent.clone()).collect()));
            }
        }
        chosen
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
        let all = std::mem::take(&mut self.state.replies);
        let mut asides = Vec::new();
        for (index, replies) in &all {
            let answers_to = self.answers_to(*index, round);
            let asked = std::mem::take(&mut self.state.disputes[*index].questions);
            for at in 0..self.state.disputes[*index].positions.len() {
                let agent = self.state.disputes[*index].positions[at].agent.clone();
                let Some(reply) = replies.get(&agent) else { continue };
                let message = self.publish_reply(*index, at, reply, round, answers_to.get(&agent).cloned());
                self.collect_asides(*index, &agent, reply, &message, &asked, &mut asides);
            }
            for question in asked {
                let clarified = replies.get(&question.to).is_some_and(|reply| reply.clarification.is_some());
                if !clarified {
                    let (from, to, text) = (&question.from, &question.to, &question.text);
                    self.state.notes.push(format!("{to} did not answer {from}'s question: {text}"));
                }
            }
        }
        for (index, replies) in &all {
            let agreed = self.agreed_position(*index, replies);
            self.state.disputes[*index].agreed = agreed.map(|position| (round, position));
        }
        self.publish_asides(asides, round);
        self.begin_round(round + 1);
    }

    /// Maps each agent to the message it replies to: the latest message, before this round, of its most confident
    /// opponent.
    fn answers_to(&self, index: usize, round: u32) -> BTreeMap<String, String> {
        let positions = &self.state.disputes[index].positions;
        let name = conflict_id(index);
        let latest_message = |agent: &str| {
            let sent = self.state.messages.iter().rev().filter(|message| message.sender == agent);
            let mut before = sent.filter(|message| message.round < round);
            let found =
                before.find(|message| message.round == 0 || message.content["conflict"] == name.as_str());
            found.map(|message| message.id.clone())
        };
        let opponent = |own: &Position| {
            let others = positions.iter().filter(|one| one.position != own.position);
            let sure = |one: &Position| one.confidence.unwrap_or_default();
            let surest =
                others.max_by(|a, b| sure(a).total_cmp(&sure(b)).then_with(|| b.agent.cmp(&a.agent)))?;
            Some((own.agent.clone(), latest_message(&surest.agent)?))
        };
        positions.iter().filter_map(opponent).collect()
    }

    /// Publishes an answer and applies its changes. Returns the id of the message.
    fn publish_reply(
        &mut self,
        index: usize,
        at: usize,
        reply: &Reply,
        round: u32,
        reply_to: Option<String>,
    ) -> String {
        let id = self.next_id();
        let dispute = &mut self.state.disputes[index];
        let old = dispute.positions[at].clone();
        let confidence = reply.confidence.or(old.confidence);
        let changed = reply.position != old.position || confidence != old.confidence;
        let message_type = match (changed, reply.agrees) {
            (true, _) => DeliberationMessageType::Revision,
            (false, true) => DeliberationMessageType::Agreement,
            (false, false) => DeliberationMessageType::Disagreement,
        };
        let mut content = contents(index, &reply.position, &reply.reasoning);
        content.insert("confidence".into(), confidence.into());
        content.insert("agrees_with_peer".into(), reply.agrees.into());
        if changed {
            content.insert("before".into(), json!({"position": old.position, "confidence": old.confidence}));
        }
        // A changed confidence alone is not a change of position.
        if reply.position != old.position {
            dispute.changes.push(PositionChange {
                round,
                agent: old.agent.clone(),
                from: old.position,
                to: reply.position.clone(),
                confidence_from: old.confidence,
                confidence_to: confidence,
                reason: String::new(),
                message: id.clone(),
            });
        }
        let reason = if reply.reasoning.is_empty() { old.reason } else { reply.reasoning.clone() };
        let position = reply.position.clone();
        dispute.positions[at] = Position { agent: old.agent.clone(), position, confidence, reason };
        dispute.rankings.remove(&old.agent);
        if !reply.ranking.is_empty() {
            dispute.rankings.insert(old.agent.clone(), reply.ranking.clone());
        }
        let recipients =
            dispute.positions.iter().map(|one| one.agent.clone()).filter(|one| *one != old.agent);
        let message = DeliberationMessage {
            id: id.clone(),
            round,
            recipients: recipients.collect(),
            sender: old.agent,
            message_type,
            content: message::truncate_content(
                content,
                "reasoning",
                self.spec.limits.message_tokens as usize,
                self.count_tokens,
            ),
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
        asked: &[PendingQuestion],
        asides: &mut Vec<Aside>,
    ) {
        let peers = || self.state.disputes[index].positions.iter().map(|one| one.agent.clone());
        let mut add = |what: DeliberationMessageType, text: &str, recipients: Vec<String>, reply_to: &str| {
            let (agent, text, reply_to) = (agent.to_owned(), text.to_owned(), reply_to.to_owned());
            asides.push(Aside { index, agent, what, text, recipients, reply_to });
        };
        if let Some(text) = &reply.clarification {
            let question = asked.iter().find(|question| question.to == agent);
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
        if let Some(asking) = &reply.question {
            add(DeliberationMessageType::Question, &asking.text, vec![asking.to.clone()], message);
        }
    }

    /// Publishes asides as messages while the limit permits. Questions reach their agents in any case.
    fn publish_asides(&mut self, asides: Vec<Aside>, round: u32) {
        let published = self.state.messages.iter().filter(|message| message.round == round).count();
        let room = (self.spec.limits.messages as usize).saturating_sub(published);
        let over = asides.len().saturating_sub(room);
        if over > 0 {
            let limit = self.spec.limits.messages;
            let note = format!(
                "round {round}: {over} questions, clarifications or pieces of evidence not published separately: limit of {limit} messages per round reached"
            );
            self.state.notes.push(note);
        }
        for (at, aside) in asides.into_iter().enumerate() {
            let id = if at < room { self.next_id() } else { aside.reply_to.clone() };
            if aside.what == DeliberationMessageType::Question {
                let (from, text, message) = (aside.agent.clone(), aside.text.clone(), id.clone());
                let to = aside.recipients.first().cloned().unwrap_or_default();
                self.state.disputes[aside.index].questions.push(PendingQuestion { from, to, text, message });
            }
            if at < room {
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
                    message_type: aside.what,
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

fn contents(index: usize, position: &PositionValue, reasoning: &str) -> Map<String, Value> {
    Map::from_iter([
        ("conflict".to_owned(), Value::String(conflict_id(index))),
        ("position".to_owned(), json!(position)),
        ("reasoning".to_owned(), Value::String(reasoning.to_owned())),
    ])
}
