//! Requests and presence, in all states.

use quorate_core::{
    Ask, ClientId, Health, Heartbeat, IfUnavailable, Message, MessageId, MessageType, Op, OpResult,
    Principal, RegisterAgent, Status,
};

use super::{Hub, agent, by, lease};

impl Hub {
    fn ask(&self, to: &str, id: Option<&str>) -> MessageId {
        let client_id = id.map(|id| ClientId::new(id).unwrap());
        let message = Message { client_id, ..self.message(to, "a question") };
        match self.commit(by("alice"), vec![Op::Request(Ask::new(message, Some(2_000), None))]).results[0] {
            OpResult::Requested { id, .. } => id,
            ref other => panic!("{other:?}"),
        }
    }

    fn answer(&self, from: &str, question: MessageId) -> Op {
        let in_reply_to = Some(question.to_string());
        Op::send(Message { kind: MessageType::Response, in_reply_to, ..self.message_by(from, "alice") })
    }

    /// Erin gets several requests: one is answered (twice, the second time too late), one is cancelled, and the others
    /// are pending when she goes offline.
    pub(super) fn requests(&self) {
        for (id, heartbeat_ms) in [("erin", 1_000), ("frank", 0)] {
            let capabilities = vec!["cooking".into()];
            let new = RegisterAgent { heartbeat_ms, capabilities, ..RegisterAgent::named(agent(id)) };
            self.commit(by(id), vec![Op::RegisterAgent(new)]);
        }
        let first = self.ask("erin", Some("ask-1"));
        let taken = self.claim("erin", 1);
        self.commit(by("erin"), vec![Op::Ack(lease(&taken[0])), self.answer("erin", first)]);
        self.commit(by("erin"), vec![self.answer("erin", first)]);
        let second = self.ask("erin", None);
        self.commit(by("alice"), vec![Op::CancelRequest { request: second }]);
        let health = Health::Degraded("out of flour".into());
        let beat = Heartbeat { agent: agent("erin"), status: Status::Working, health };
        self.commit(by("erin"), vec![Op::Heartbeat(beat)]);
        self.ask("erin", None);
        for if_unavailable in [IfUnavailable::Queue, IfUnavailable::Redirect, IfUnavailable::Fail] {
            let message = Message { if_unavailable, ..self.message("erin", "dinner") };
            self.commit(by("alice"), vec![Op::send(message)]);
        }
        let held = self.claim("erin", 1);
        assert_eq!(held.len(), 1);
        self.pass(3_500);
        self.commit(Principal::System, vec![Op::Sweep]);
        // Another request is pending, and frank counts as unavailable because he did not answer.
        self.ask("frank", None);
        self.pass(2_000);
        self.commit(Principal::System, vec![Op::Sweep]);
        self.ask("bob", Some("ask-2"));
    }
}
