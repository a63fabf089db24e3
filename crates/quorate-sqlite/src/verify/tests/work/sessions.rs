//! Sessions: one is paused with deliveries in every state, one has failed. Also snapshots and a rollback.

use quorate_core::{
    AddKind, AddToSession, ChangeSession, MakeSnapshot, NackThen, Op, OpenSession, Principal, Rollback,
    RollbackTo, RollbackWhat, SessionChange, SessionId,
};

use super::{Hub, agent, by};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn change(name: &str, change: SessionChange) -> Op {
    Op::ChangeSession(ChangeSession { session: id(name), change, reason: "so".into() })
}

impl Hub {
    pub(super) fn sessions(&self) {
        for name in ["paused", "over"] {
            let open = OpenSession {
                id: Some(id(name)),
                coordinator: None,
                participants: vec![agent("bob")],
                title: name.into(),
                task: Some(self.payload("{}")),
            };
            let add = AddToSession {
                session: id(name),
                kind: AddKind::Decision,
                body: self.payload("\"yes\""),
                content_type: None,
                rationale: "because".into(),
            };
            let mut message = self.message("bob", "of a session");
            message.session_id = Some(name.into());
            let message = Op::send(message);
            let ops =
                vec![Op::OpenSession(open), Op::AddToSession(add), message.clone(), message.clone(), message];
            self.commit(by("alice"), ops);
        }
        let taken = self.claim("bob", 40);
        let of_session = taken.iter().rev().take(6).rev().collect::<Vec<_>>();
        self.nack("bob", of_session[0], NackThen::Dead);
        self.nack("bob", of_session[1], NackThen::Release);
        self.commit(by("alice"), vec![change("paused", SessionChange::Pause)]);
        self.commit(Principal::System, vec![change("over", SessionChange::Fail)]);
        // Bob's leased deliveries are returned; those of the paused session are held.
        self.commit(by("bob"), vec![Op::RegisterAgent(quorate_core::RegisterAgent::named(agent("bob")))]);
    }

    /// Snapshots and a rollback: the restored versions refer to content in earlier records.
    pub(super) fn going_back(&self) {
        let name = quorate_core::SnapshotName::new("before").unwrap();
        let make = MakeSnapshot { name: name.clone(), prefix: "back/".into() };
        self.commit(by("alice"), vec![self.put("back/a", "1"), self.put("back/b", "1")]);
        self.commit(by("alice"), vec![Op::MakeSnapshot(make)]);
        self.commit(by("alice"), vec![self.put("back/a", "2"), self.put("back/c", "1")]);
        let what = RollbackWhat::Prefix("back/".into());
        let rollback = Rollback { what, to: RollbackTo::Snapshot(name), fence: None };
        self.commit(by("alice"), vec![Op::Rollback(rollback)]);
        let name = quorate_core::SnapshotName::new("gone").unwrap();
        let make = MakeSnapshot { name: name.clone(), prefix: String::new() };
        self.commit(by("alice"), vec![Op::MakeSnapshot(make), Op::DropSnapshot { name }]);
    }
}
