//! Statements about sessions, and their rendering.

use quorate_core::{
    AddToSession, ChangeSession, ContributionKind, Effect, Item, ItemKey, ItemKind, Op, OpenSession, Seq,
    Session, SessionChange, SessionId, TimelineKind, codec,
};
use quorate_store::{ReadQuery, ReadResult, TimelinePage};

use super::parse::{Words, agent_id, payload, reason};
use super::runner::ScriptRunner;

fn session(name: &str) -> SessionId {
    SessionId::new(name).expect("valid session id")
}

fn kind(word: &str) -> ContributionKind {
    let named = |kind: &ContributionKind| kind.as_str() == word;
    ContributionKind::ALL
        .into_iter()
        .find(named)
        .unwrap_or_else(|| panic!("unknown kind of contribution: {word}"))
}

/// Parses the operation of a session verb.
pub(super) fn parse_session_op(verb: &str, words: &mut Words<'_>) -> Op {
    match verb {
        "opens" => open(words),
        "adds" => {
            let kind = kind(words.require("a kind of contribution"));
            Op::AddToSession(AddToSession {
                session: session(words.option("to").expect("`to` with a session")),
                kind,
                body: payload(words.option("saying").unwrap_or("{}")),
                content_type: None,
                rationale: reason(words),
            })
        }
        "admits" => {
            change(SessionChange::Join(agent_id(words.require("an agent"))), words.option("to"), words)
        }
        "dismisses" => {
            change(SessionChange::Leave(agent_id(words.require("an agent"))), words.option("from"), words)
        }
        "pauses" => change(SessionChange::Pause, words.next(), words),
        "resumes" => change(SessionChange::Resume, words.next(), words),
        "completes" => change(SessionChange::Complete, words.next(), words),
        _ => change(SessionChange::Fail, words.next(), words),
    }
}

fn open(words: &mut Words<'_>) -> Op {
    // With `-` the hub generates the id.
    let id = Some(words.require("an id")).filter(|id| *id != "-").map(session);
    let participants = words.option("with").map(|names| names.split(',').map(agent_id).collect());
    Op::OpenSession(OpenSession {
        id,
        coordinator: words.option("led").map(agent_id),
        participants: participants.unwrap_or_default(),
        title: words.option("on").unwrap_or("work").replace('_', " "),
        task: words.option("for").map(payload),
    })
}

fn change(change: SessionChange, name: Option<&str>, words: &mut Words<'_>) -> Op {
    let session = session(name.expect("a session"));
    Op::ChangeSession(ChangeSession { session, change, reason: reason(words) })
}

impl ScriptRunner {
    /// Executes `session S` or `timeline S [KIND] [after #N | before #N]`.
    pub(super) async fn query_session(&mut self, statement: &str) {
        let mut words = Words::new(statement);
        let query = words.require("a word");
        let id = words.require("a session");
        if query == "session" {
            return self.render_session(id).await;
        }
        let mut timeline_kind = None;
        let mut page = TimelinePage::After(Seq(0));
        while let Some(word) = words.next() {
            let mut seq =
                || Seq(words.require("a record").trim_start_matches('#').parse().expect("a sequence number"));
            match word {
                "after" => page = TimelinePage::After(seq()),
                "before" => page = TimelinePage::Before(seq()),
                "message" => timeline_kind = Some(TimelineKind::Message),
                "change" => timeline_kind = Some(TimelineKind::Change),
                word => timeline_kind = Some(TimelineKind::Contribution(kind(word))),
            }
        }
        let read = ReadQuery::Timeline { session: id.into(), kind: timeline_kind, page, limit: 3 };
        let ReadResult::Timeline(seqs) = self.read(read).await else { panic!("expected a timeline") };
        let mut lines = Vec::new();
        for seq in seqs {
            let ReadResult::Record(Some(record)) = self.read(ReadQuery::Record(seq)).await else {
                panic!("record {seq} is missing")
            };
            let body = codec::read_body(&record).expect("record decodes");
            let session_effects = body
                .effects
                .iter()
                .filter(|effect| effect.timeline_entry().is_some_and(|(session, _)| session == id));
            let words: Vec<_> = session_effects.map(Effect::as_str).collect();
            lines.push(format!("#{seq} {}", words.join(" and ")));
        }
        self.push_line(format!(
            "{id}: {}",
            if lines.is_empty() { "nothing".into() } else { lines.join(", ") }
        ));
    }

    async fn render_session(&mut self, id: &str) {
        let ReadResult::Item(found) = self.read(ReadQuery::Item(ItemKey::new(ItemKind::Session, id))).await
        else {
            panic!("expected an item")
        };
        let line = match found {
            Some(Item::Session(session)) => session_line(&session),
            _ => "nothing".into(),
        };
        self.push_line(format!("{id}: {line}"));
    }
}

fn session_line(session: &Session) -> String {
    let coordinator = session.coordinator.as_ref().map_or("the hub", |agent| agent.as_str());
    let mut line = format!("{:?} {}, led by {coordinator}", session.title, session.status.as_str());
    if !session.reason.is_empty() {
        line.push_str(&format!(" ({})", session.reason));
    }
    for participant in &session.participants {
        let membership = if participant.left_at.is_some() { "formerly" } else { "with" };
        line.push_str(&format!(", {membership} {}", participant.agent));
    }
    for kind in ContributionKind::ALL {
        if session.contribution_count(kind) > 0 {
            line.push_str(&format!(", {} {}", session.contribution_count(kind), kind.as_str()));
        }
    }
    line
}
