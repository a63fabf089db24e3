//! Requests of the hub to agents: payloads and ids.

use serde_json::{Map, Value, json};

use super::schema;
use super::state::{AskId, PendingAsk, conflict_id};
use super::{Output, Phase, Step};

/// Action of a request for a finding.
pub const ANALYSE: &str = "analyse";
/// Action of a request about a conflict.
pub const DISCUSS: &str = "discuss";

/// A request to an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// Id of the request; the answer refers to it.
    pub id: AskId,
    /// Recipient of the request.
    pub agent: String,
    /// [`ANALYSE`] or [`DISCUSS`].
    pub action: &'static str,
    /// Payload as JSON.
    pub payload: String,
    /// Timeout for the answer.
    pub timeout_ms: u64,
}

impl Step<'_> {
    /// Asks an agent for its finding, or about a conflict. `first_error` is the error of the first attempt, if this is
    /// the second.
    pub(super) fn ask(&mut self, agent: &str, conflict: Option<usize>, first_error: Option<String>) {
        let mut id = match (conflict, self.state.phase) {
            (Some(index), Phase::Discussion { round }) => {
                format!("{DISCUSS}:{round}:{}:{agent}", conflict_id(index))
            }
            _ => format!("{ANALYSE}:{agent}"),
        };
        if first_error.is_some() {
            id.push_str(":again");
        }
        let id = AskId(id);
        let due_at_ms = self.now_ms + self.timeout_ms(conflict);
        let pending_ask = PendingAsk { agent: agent.to_owned(), conflict, first_error, due_at_ms };
        self.state.asks.insert(id.clone(), pending_ask);
        self.outputs.extend(self.render_ask(&id).map(Output::Ask));
    }

    /// Renders a pending request.
    pub(super) fn render_ask(&self, id: &AskId) -> Option<Ask> {
        let PendingAsk { agent, conflict, first_error, .. } = self.state.asks.get(id)?;
        let payload = Value::Object(self.payload(agent, *conflict, first_error.as_deref())).to_string();
        let action = if conflict.is_some() { DISCUSS } else { ANALYSE };
        let timeout_ms = self.timeout_ms(*conflict);
        Some(Ask { id: id.clone(), agent: agent.clone(), action, payload, timeout_ms })
    }

    pub(super) fn timeout_ms(&self, conflict: Option<usize>) -> u64 {
        match conflict {
            Some(_) => self.spec.limits.message_ms,
            None => self.spec.limits.analysis_ms,
        }
    }

    fn payload(&self, agent: &str, conflict: Option<usize>, error: Option<&str>) -> Map<String, Value> {
        let mut payload = Map::new();
        let mut put = |name: &str, value: Value| payload.insert(name.to_owned(), value);
        put("subject", self.spec.subject.as_str().into());
        put("input", self.spec.input.clone());
        if let Some(error) = error {
            put("wrong", error.into());
        }
        let Some(index) = conflict else {
            put("answer", schema::finding_schema(&self.spec.vocabulary));
            return payload;
        };
        let dispute = &self.state.disputes[index];
        let position_json = |position: &crate::conflict::Position| json!({"agent": position.agent, "position": position.position, "confidence": position.confidence, "reason": position.reason});
        let (own, others): (Vec<_>, Vec<_>) =
            dispute.positions.iter().partition(|position| position.agent == agent);
        let round = if let Phase::Discussion { round } = self.state.phase { round } else { 0 };
        put(
            "conflict",
            json!({"id": conflict_id(index), "kind": dispute.conflict.kind, "topic": dispute.conflict.topic}),
        );
        put("round", round.into());
        put("rounds", self.spec.limits.rounds.into());
        put("your_position", own.first().map_or(Value::Null, |position| position_json(position)));
        put("other_positions", others.into_iter().map(position_json).collect());
        let questions = dispute.questions.iter().filter(|question| question.to == agent);
        put(
            "questions",
            questions.map(|question| json!({"from": question.from, "text": question.text})).collect(),
        );
        put("answer", schema::reply_schema(&dispute.conflict, &self.spec.vocabulary));
        payload
    }
}
