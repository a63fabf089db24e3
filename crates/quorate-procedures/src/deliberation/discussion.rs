//! Rounds of discussion: those who contradict each other are asked with their own position and their peers'.
//!
//! All questions of a round go out together, so that nobody has heard more than others. A message is an answer: at most so many
//! are asked for in a round, the most critical conflicts first. A conflict is discussed by all who hold a position in it, or
//! waits; if not even the first fits, its surest talk. Questions and evidence that came with the answers are messages of their own
//! as long as there is room for them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::message::{self, Message, MessageType};
use super::reply::{self, Reply};
use super::state::{Change, Question, name_of};
use super::{Phase, Step};
use crate::conflict::{Position, PositionValue};
use crate::finding::Wrong;

/// Something said beside an answer.
struct Aside {
    place: usize,
    agent: String,
    what: MessageType,
    text: String,
    recipients: Vec<String>,
    /// The message of the answer that it came with, or the question that it answers.
    reply_to: String,
}

impl Step<'_> {
    /// Asks whoever is to talk in this round; without anything to talk about it comes to the vote.
    pub(super) fn begin_round(&mut self, round: u32) {
        let chosen = if round <= self.spec.limits.rounds { self.choose() } else { Vec::new() };
        if chosen.is_empty() {
            self.finish();
            return;
        }
        self.begin(Phase::Discussion { round });
        for (place, agents) in chosen {
            self.state.disputes[place].rounds += 1;
            for agent in agents {
                self.ask(&agent, Some(place), None);
            }
        }
    }

    /// Which conflicts are discussed in a round, and by whom.
    fn choose(&self) -> Vec<(usize, Vec<String>)> {
        let most = self.spec.limits.messages as usize;
        let mut left = most;
        let mut chosen: Vec<(usize, Vec<String>)> = Vec::new();
        for (place, dispute) in self.state.disputes.iter().enumerate() {
            let mut talk: Vec<&Position> =
                dispute.positions.iter().filter(|one| !self.state.is_out(&one.agent, place)).collect();
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
                chosen.push((place, talk.iter().map(|one| one.agent.clone()).collect()));
            }
        }
        chosen
    }

    pub(super) fn read_reply(&self, body: &[u8], agent: &str, place: usize) -> Result<Reply, Wrong> {
        let limit = self.spec.limits.message_tokens as usize;
        reply::read(body, agent, &self.state.disputes[place], &self.spec.words, limit, self.count)
    }

    /// Takes in what was said in a round, all of it at once.
    pub(super) fn close_round(&mut self, round: u32) {
        let all = std::mem::take(&mut self.state.replies);
        let mut asides = Vec::new();
        for (place, replies) in &all {
            let answers_to = self.answers_to(*place, round);
            let asked = std::mem::take(&mut self.state.disputes[*place].questions);
            for at in 0..self.state.disputes[*place].positions.len() {
                let agent = self.state.disputes[*place].positions[at].agent.clone();
                let Some(reply) = replies.get(&agent) else { continue };
                let message = self.say(*place, at, reply, round, answers_to.get(&agent).cloned());
                self.note_asides(*place, &agent, reply, &message, &asked, &mut asides);
            }
            for question in asked {
                let clarified = replies.get(&question.to).is_some_and(|reply| reply.clarification.is_some());
                if !clarified {
                    let (from, to, text) = (&question.from, &question.to, &question.text);
                    self.state.notes.push(format!("{to} did not answer {from}'s question: {text}"));
                }
            }
        }
        for (place, replies) in &all {
            let agreed = self.agreed(*place, replies);
            self.state.disputes[*place].agreed = agreed.map(|position| (round, position));
        }
        self.publish_asides(asides, round);
        self.begin_round(round + 1);
    }

    /// What each agent answers: the last word, before this round, of its surest opponent.
    fn answers_to(&self, place: usize, round: u32) -> BTreeMap<String, String> {
        let positions = &self.state.disputes[place].positions;
        let name = name_of(place);
        let last_word = |agent: &str| {
            let said = self.state.messages.iter().rev().filter(|message| message.sender == agent);
            let mut before = said.filter(|message| message.round < round);
            let found =
                before.find(|message| message.round == 0 || message.content["conflict"] == name.as_str());
            found.map(|message| message.id.clone())
        };
        let opponent = |own: &Position| {
            let others = positions.iter().filter(|one| one.position != own.position);
            let sure = |one: &Position| one.confidence.unwrap_or_default();
            let surest =
                others.max_by(|a, b| sure(a).total_cmp(&sure(b)).then_with(|| b.agent.cmp(&a.agent)))?;
            Some((own.agent.clone(), last_word(&surest.agent)?))
        };
        positions.iter().filter_map(opponent).collect()
    }

    /// Publishes an answer and takes over what it changes. Returns the message's id.
    fn say(
        &mut self,
        place: usize,
        at: usize,
        reply: &Reply,
        round: u32,
        reply_to: Option<String>,
    ) -> String {
        let id = self.next_id();
        let dispute = &mut self.state.disputes[place];
        let old = dispute.positions[at].clone();
        let confidence = reply.confidence.or(old.confidence);
        let changed = reply.position != old.position || confidence != old.confidence;
        let what = match (changed, reply.agrees) {
            (true, _) => MessageType::Revision,
            (false, true) => MessageType::Agreement,
            (false, false) => MessageType::Disagreement,
        };
        let mut content = contents(place, &reply.position, &reply.reasoning);
        content.insert("confidence".into(), confidence.into());
        content.insert("agrees_with_peer".into(), reply.agrees.into());
        if changed {
            content.insert("before".into(), json!({"position": old.position, "confidence": old.confidence}));
        }
        // To become surer or less sure of the same is no other mind.
        if reply.position != old.position {
            dispute.changes.push(Change {
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
        let message = Message {
            id: id.clone(),
            round,
            recipients: recipients.collect(),
            sender: old.agent,
            message_type: what,
            content: message::fit(content, "reasoning", self.spec.limits.message_tokens as usize, self.count),
            timestamp: self.now_ms,
            reply_to,
        };
        self.publish(message);
        id
    }

    fn note_asides(
        &self,
        place: usize,
        agent: &str,
        reply: &Reply,
        message: &str,
        asked: &[Question],
        asides: &mut Vec<Aside>,
    ) {
        let peers = || self.state.disputes[place].positions.iter().map(|one| one.agent.clone());
        let mut add = |what: MessageType, text: &str, recipients: Vec<String>, reply_to: &str| {
            let (agent, text, reply_to) = (agent.to_owned(), text.to_owned(), reply_to.to_owned());
            asides.push(Aside { place, agent, what, text, recipients, reply_to });
        };
        if let Some(text) = &reply.clarification {
            let question = asked.iter().find(|question| question.to == agent);
            let (to, reply_to) = question.map_or_else(
                || (peers().filter(|peer| peer != agent).collect(), message),
                |question| (vec![question.from.clone()], question.message.as_str()),
            );
            add(MessageType::Clarification, text, to, reply_to);
        }
        if let Some(text) = &reply.evidence {
            add(MessageType::Evidence, text, peers().filter(|peer| peer != agent).collect(), message);
        }
        if let Some(asking) = &reply.question {
            add(MessageType::Question, &asking.text, vec![asking.to.clone()], message);
        }
    }

    /// Asides become messages while there is room; questions reach their agents in any case.
    fn publish_asides(&mut self, asides: Vec<Aside>, round: u32) {
        let said = self.state.messages.iter().filter(|message| message.round == round).count();
        let room = (self.spec.limits.messages as usize).saturating_sub(said);
        let over = asides.len().saturating_sub(room);
        if over > 0 {
            let limit = self.spec.limits.messages;
            let note = format!(
                "round {round}: {over} questions, clarifications or pieces of evidence are no messages of their own, {limit} messages a round"
            );
            self.state.notes.push(note);
        }
        for (at, aside) in asides.into_iter().enumerate() {
            let id = if at < room { self.next_id() } else { aside.reply_to.clone() };
            if aside.what == MessageType::Question {
                let (from, text, message) = (aside.agent.clone(), aside.text.clone(), id.clone());
                let to = aside.recipients.first().cloned().unwrap_or_default();
                self.state.disputes[aside.place].questions.push(Question { from, to, text, message });
            }
            if at < room {
                let content = Map::from_iter([
                    ("conflict".to_owned(), Value::String(name_of(aside.place))),
                    ("text".to_owned(), Value::String(aside.text)),
                ]);
                let limit = self.spec.limits.message_tokens as usize;
                let message = Message {
                    id,
                    round,
                    sender: aside.agent,
                    recipients: aside.recipients,
                    message_type: aside.what,
                    content: message::fit(content, "text", limit, self.count),
                    timestamp: self.now_ms,
                    reply_to: Some(aside.reply_to),
                };
                self.publish(message);
            }
        }
    }

    fn next_id(&self) -> String {
        let said = self.state.messages.iter().filter(|message| message.round > 0).count();
        format!("M{}", said + 1)
    }
}

fn contents(place: usize, position: &PositionValue, reasoning: &str) -> Map<String, Value> {
    Map::from_iter([
        ("conflict".to_owned(), Value::String(name_of(place))),
        ("position".to_owned(), json!(position)),
        ("reasoning".to_owned(), Value::String(reasoning.to_owned())),
    ])
}
