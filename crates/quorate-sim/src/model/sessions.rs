//! Session steps: open, pause, resume and close, while messages refer to the sessions.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    AddToSession, ChangeSession, Commit, ContributionKind, ItemKind, ItemRange, Op, OpenSession, Principal,
    Seq, SessionChange, SessionId, TimelineKind,
};
use quorate_store::{ReadQuery, TimelinePage};

use super::plan::AGENTS;
use super::resolve::{agent_id, payload};

/// Session ids of a plan. The last one has the form of a generated id and is never opened.
pub(super) const SESSION_IDS: [&str; 3] = ["s1", "s2", "ses_0-5-0"];

/// Operation on a session.
#[derive(Clone, Debug)]
pub(super) enum SessionOp {
    Open {
        name: Option<usize>,
        participants: Vec<usize>,
        coordinator: Option<usize>,
        title: u8,
        task: Option<u8>,
    },
    Change {
        name: usize,
        change: PlannedChange,
    },
    Add {
        name: usize,
        kind: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PlannedChange {
    Join(usize),
    Leave(usize),
    Pause,
    Resume,
    Complete,
    Fail,
}

/// Returns the commit that opens a session initially, so that session steps make progress.
pub(super) fn initial_session() -> Commit {
    let open =
        SessionOp::Open { name: Some(0), participants: vec![1], coordinator: Some(0), title: 0, task: None };
    Commit::new(Principal::System, vec![open.op()])
}

/// Generates the session id of a message.
pub(super) fn session_reference() -> BoxedStrategy<Option<usize>> {
    weighted(0.4, prop_oneof![10 => Just(0usize), 5 => Just(1), 1 => Just(2)]).boxed()
}

pub(super) fn session_ops() -> BoxedStrategy<SessionOp> {
    let name = || prop_oneof![10 => Just(0usize), 4 => Just(1), 1 => Just(2)];
    let agent = || 0..AGENTS.len();
    let change = prop_oneof![
        8 => Just(PlannedChange::Pause),
        8 => Just(PlannedChange::Resume),
        1 => Just(PlannedChange::Complete),
        1 => Just(PlannedChange::Fail),
        3 => agent().prop_map(PlannedChange::Join),
        2 => agent().prop_map(PlannedChange::Leave),
    ];
    let open = (
        weighted(0.9, 0..2usize),
        proptest::collection::vec(agent(), 0..3),
        weighted(0.1, agent()),
        prop_oneof![5 => Just(0u8), 1 => Just(1)],
        weighted(0.3, 0..2u8),
    );
    prop_oneof![
        2 => open.prop_map(|(name, participants, coordinator, title, task)| SessionOp::Open {
            name, participants, coordinator, title, task,
        }),
        8 => (name(), change).prop_map(|(name, change)| SessionOp::Change { name, change }),
        2 => (name(), 0..5u8).prop_map(|(name, kind)| SessionOp::Add { name, kind }),
    ]
    .boxed()
}

fn session(name: usize) -> SessionId {
    SessionId::new(SESSION_IDS[name]).expect("valid session id")
}

impl SessionOp {
    pub(super) fn op(&self) -> Op {
        match self {
            Self::Open { name, participants, coordinator, title, task } => Op::OpenSession(OpenSession {
                id: name.map(session),
                coordinator: coordinator.map(agent_id),
                participants: participants.iter().map(|agent| agent_id(*agent)).collect(),
                title: format!("title {title}"),
                task: task.map(|task| payload(&format!("{{\"task\":{task}}}"))),
            }),
            Self::Change { name, change } => {
                let change = match change {
                    PlannedChange::Join(agent) => SessionChange::Join(agent_id(*agent)),
                    PlannedChange::Leave(agent) => SessionChange::Leave(agent_id(*agent)),
                    PlannedChange::Pause => SessionChange::Pause,
                    PlannedChange::Resume => SessionChange::Resume,
                    PlannedChange::Complete => SessionChange::Complete,
                    PlannedChange::Fail => SessionChange::Fail,
                };
                Op::ChangeSession(ChangeSession { session: session(*name), change, reason: "so".into() })
            }
            Self::Add { name, kind } => Op::AddToSession(AddToSession {
                session: session(*name),
                kind: ContributionKind::from_number(*kind).expect("valid kind number"),
                body: payload("{}"),
                content_type: None,
                rationale: String::new(),
            }),
        }
    }
}

impl fmt::Display for SessionOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { name, participants, coordinator, title, task } => {
                let participants: Vec<_> = participants.iter().map(|agent| AGENTS[*agent]).collect();
                let name = name.map_or("-", |name| SESSION_IDS[name]);
                write!(
                    f,
                    "opens {name} with {} led {coordinator:?} on {title} for {task:?}",
                    participants.join(",")
                )
            }
            Self::Change { name, change } => write!(f, "{change:?} of {}", SESSION_IDS[*name]),
            Self::Add { name, kind } => write!(f, "adds {kind} to {}", SESSION_IDS[*name]),
        }
    }
}

/// Returns all reads about sessions.
pub(super) fn session_reads(head: Seq) -> Vec<ReadQuery> {
    let mut reads = vec![
        ReadQuery::items(ItemKind::Session, 1000),
        ReadQuery::Items { kind: ItemKind::Session, range: ItemRange::ById(Some("s1".into())), limit: 1 },
    ];
    for name in SESSION_IDS {
        let pages = [
            TimelinePage::After(Seq(0)),
            TimelinePage::After(Seq(head.0 / 2)),
            TimelinePage::Before(Seq(head.0 + 1)),
        ];
        for (page, limit) in pages.into_iter().zip([1000, 2, 3]) {
            let kinds = [
                None,
                Some(TimelineKind::Message),
                Some(TimelineKind::Contribution(ContributionKind::Finding)),
            ];
            reads.extend(kinds.map(|kind| ReadQuery::Timeline { session: name.into(), kind, page, limit }));
        }
    }
    reads
}
